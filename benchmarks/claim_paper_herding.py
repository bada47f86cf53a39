"""Claim: the paper's herding table, measured: picks to eps, and what a pick costs.

glove100, fashion_mnist and Gaussian rows, 1e6 x 128, each as they are (identity) and as
128 random Fourier features of the Gaussian kernel with the median lengthscale; nested
subsets from 1e4 rows up; mu is the mean of all features. Features are kept in memory.

preprocessing  seconds of the features and their mean; seconds and bytes of the indexes against n:
               `LshIndex`, the same with hashes of 8 principal axes only, `ClusterIndex`
candidates     atoms scored per pick for a mean gap ratio of 0.9 on the queries of exact herding: the
               indexes and a uniform subset, with exponents fitted over n; beside them the ratio of
               each index along a run of its own at that budget
iterations     picks of equal weight to 1/2 |w - mu|^2 <= eps, at the largest n: exact, with the worst
               answers of gap ratio c, with these indexes (ratios audited, then timed), with
               `SublinearHerding` on them and with fresh random samples of equal cost; the steps
               2/(t+2) and line search. eps is 0.003 of one random pick's error: random picks need 333

Protocol: one thread; candidates between two budgets by interpolation of logarithms; the
uniform subset by its expectation over all subsets; seconds are medians of interleaved runs
without audits, with the pass for the mean; milliseconds per pick are without it.

Threshold: at no t does the error exceed D^2 / (2 (2c-1) t), with the worst answers of ratio c
and with `SublinearHerding(ratio=c)`, which reaches eps wherever exact herding does. Candidates at 0.9
have an exponent of at most 0.5 where n spans 1.5 decades, for `LshIndex` on rows and on features;
hashes of 8 axes are reported.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import claim_paper_tables as tables
import numpy as np
import scores
from claim_paper_tables import DECADES, WANTED
from constructions import Some
from descents import Worst
from reference import Matrix, Vector
from rig import Claim, held_threads, interleave
from walks import Walk

import wolfhound
from wolfhound.core.contracts import Oracle, State, StepSize
from wolfhound.data.atoms import ArrayAtoms, block_rows, diameter_bound
from wolfhound.herding import Gaussian
from wolfhound.herding.features import Identity, feature_mean
from wolfhound.herding.in_features import FeatureRun, Steps, map_atoms, pick_in_features
from wolfhound.oracles.lsh import LshIndex
from wolfhound.paper import theory
from wolfhound.paper.sublinear_herding import SublinearHerding

IDENTITY = "identity"
FEATURES = 128
EPS = 0.003
"""Wanted error, relative to that of one random pick."""
MOST = 1500
"""Picks after which a run is given up."""
AUDITED = 300
"""The same for a run whose ratios are measured: a pass per pick."""
RATIOS = (1.0, 0.9, 0.7, 0.55)
AXES = 8
SHARE = 0.9
"""Of `SublinearHerding`."""
SAMPLE = 2000
"""Rows that decide the lengthscale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Features of one data set.

    Attributes
    ----------
    rows : (n, p) float32
    unit : float
        Mean of 1/2 |Phi - mu|^2: the error of one random pick.
    diameter : float
        Bound on that of the hull.
    """

    name: str
    rows: Matrix
    unit: float
    diameter: float

    @property
    def eps(self) -> float:
        """Wanted 1/2 |w - mu|^2."""
        return EPS * self.unit

    def excess(self, run: FeatureRun, c: float) -> float:
        """Highest share of the bound for ratio c that the error reached after any pick."""
        bounds = [theory.herding_gap_after(t, c=c, diameter=self.diameter) for t in run.trace.t[1:].tolist()]
        return float((run.trace.value[1:] / bounds).max())


class Index(Oracle, Protocol):
    """An index whose budget can be chosen."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""

    def with_budget(self, budget: int) -> Index:
        """The same index with another budget."""


HASHES, AXIAL, CLUSTERS, UNIFORM = "LshIndex", f"LshIndex, {AXES} axes", "ClusterIndex", "uniform subset"
BUILDERS: dict[str, Callable[[Matrix], Index]] = {
    HASHES: LshIndex.build,
    AXIAL: functools.partial(LshIndex.build, axes=AXES),
    CLUSTERS: wolfhound.ClusterIndex.build,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=3)
    with held_threads(claim.options.threads):
        for name, make in tables.atom_sets(claim.options.tiny).items():
            if claim.wants(name):
                for space in spaces(claim, name, make()):
                    judge(claim, space)
    return claim.finish()


def spaces(claim: Claim, name: str, atoms: Matrix) -> Iterator[Space]:
    """The rows themselves, then their random features."""
    yield measured(claim, f"{name}, {IDENTITY}", atoms, 0.0)
    begin = time.perf_counter()
    rows = map_to_features(atoms, FEATURES)
    yield measured(claim, f"{name}, {FEATURES} Fourier", rows, time.perf_counter() - begin)


def map_to_features(atoms: Matrix, many: int) -> Matrix:
    """Random Fourier features of all rows, kept in memory."""
    rng = np.random.default_rng(0)
    kernel = Gaussian().fit(atoms[rng.choice(len(atoms), min(SAMPLE, len(atoms)), replace=False)])
    source = map_atoms(atoms, kernel.features(atoms.shape[1], many, rng))
    rows = np.empty(source.shape, np.float32)
    for first, block in source.blocks(block_rows(source)):
        rows[first : first + len(block)] = block
    return rows


def measured(claim: Claim, name: str, rows: Matrix, seconds: float) -> Space:
    """Find the mean and the sizes of features."""
    begin = time.perf_counter()
    mean = feature_mean(rows, Identity(rows.shape[1]))
    claim.row(
        table="features",
        data=name,
        n=len(rows),
        features=rows.shape[1],
        seconds=seconds,
        seconds_of_mean=time.perf_counter() - begin,
        megabytes=rows.nbytes / 2**20,
    )
    square = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64)) / len(rows)
    unit = 0.5 * (square - float(mean @ mean))
    return Space(name=name, rows=rows, unit=unit, diameter=diameter_bound(ArrayAtoms(rows)))


def judge(claim: Claim, space: Space) -> None:
    """Fill all tables for some features; add rows and checks."""
    counts: list[dict[str, float]] = []
    sizes = tables.sizes(len(space.rows), claim.options.tiny)
    for n in sizes:
        part = space.rows[:n]
        exact = wolfhound.Int8Scan.build(part)
        indexes = {name: built(claim, space.name, name, part) for name in BUILDERS}
        counts.append(count(claim, space.name, part, exact, indexes))
    exponents(claim, space.name, sizes, counts)
    chosen = {name: index.with_budget(round(counts[-1][name])) for name, index in indexes.items()}
    iterations(claim, space, exact, chosen, size=round(counts[-1][AXIAL]))


def built(claim: Claim, data: str, name: str, rows: Matrix) -> Index:
    """Build an index, and say what it took."""
    call = {"": functools.partial(BUILDERS[name], rows)}
    made = interleave(call, repeats=claim.options.repeats, budget=1.0)[""]
    claim.row(
        table="preprocessing",
        data=data,
        n=len(rows),
        index=name,
        seconds=made.median,
        megabytes=made.last.nbytes / 2**20,
        microseconds_per_atom=1e6 * made.median / len(rows),
        bytes_per_atom=made.last.nbytes / len(rows),
    )
    return made.last


# ---------------------------------------------------------------- candidates


def walked(exact: Oracle, picks: int) -> Walk:
    """Return the queries of exact herding after its first pick."""
    points: list[Vector] = []

    def note(state: State) -> None:
        points.append(state.point.x)

    run = pick_in_features(exact.atoms, picks, oracle=exact, callback=note)
    x = np.array(points[1:-1])
    queries = run.mean - x
    best = exact.query(queries).scores[:, 0].astype(np.float64)
    return Walk(queries, np.einsum("ij,ij->i", queries, x), best)


def count(
    claim: Claim, data: str, rows: Matrix, exact: wolfhound.Int8Scan, indexes: Mapping[str, Index]
) -> dict[str, float]:
    """Candidates at one n, and the ratio of runs that are an index's own."""
    n, picks = len(rows), 30 if claim.options.tiny else 200
    walk = walked(exact, picks)
    some = Some.of(walk, rows)
    uniform = n * scores.uniform_share(scores.profile(some.walk, some.scores), WANTED)
    good = scores.good(some.walk, some.scores, WANTED)
    claim.row(table="candidates", data=data, n=n, index=UNIFORM, candidates=uniform, atoms_at_0_9=good)
    found = {UNIFORM: uniform}
    for name, index in indexes.items():
        found[name] = tables.candidates(cast(LshIndex, index), walk)  # only its budget matters there
        own = wolfhound.Audited(index.with_budget(round(found[name])), exact, every=1)
        ratios = pick_in_features(rows, picks, oracle=own).trace.ratio[1:]
        claim.row(
            table="candidates",
            data=data,
            n=n,
            index=name,
            candidates=found[name],
            times_fewer=uniform / found[name],
            own_ratio=float(np.nanmean(ratios)),
            own_ratio_at_the_end=float(np.nanmean(ratios[-len(ratios) // 4 :])),
        )
    return found


def exponents(claim: Claim, data: str, sizes: Sequence[int], counts: Sequence[Mapping[str, float]]) -> None:
    """Fit exponents over all n; judge those that are claimed."""
    wide = sizes[-1] >= 10**DECADES * sizes[0] or claim.options.tiny
    for name in counts[0]:
        logs = np.log([[n, each[name]] for n, each in zip(sizes, counts, strict=True)])
        slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        claim.row(table="exponents", data=data, index=name, exponent=slope)
        if wide and name == HASHES:
            claim.at_most(f"{data}: exponent of {name} at {WANTED:g}", slope, 0.5, full_size=True)


# ---------------------------------------------------------------- iterations


def herded(
    space: Space,
    oracle: Oracle,
    *,
    step: StepSize | None = None,
    method: Steps | None = None,
    most: int = MOST,
) -> FeatureRun:
    """Pick until the error is at most eps."""

    def follow(state: State) -> bool:
        if isinstance(oracle, Worst):
            oracle.x = state.point.x
        return len(state.ids) > 0 and state.point.value <= space.eps

    return pick_in_features(space.rows, most, oracle=oracle, step=step, method=method, callback=follow)


def reached(space: Space, run: FeatureRun) -> int | None:
    """Picks that it took, None if it never came to eps."""
    return len(run.picks) if 0.5 * run.distance**2 <= space.eps * (1.0 + 1e-12) else None


def iterations(
    claim: Claim, space: Space, exact: wolfhound.Int8Scan, indexes: Mapping[str, Index], *, size: int
) -> None:
    """Count picks to eps; add rows and checks. `size` is that of random samples."""
    steps = {"1/(t+1)": None, "2/(t+2)": wolfhound.OpenLoop(2.0), "line search": wolfhound.LineSearch()}
    for label, step in steps.items():
        row(claim, space, f"exact, {label}", herded(space, exact, step=step))
    for c in RATIOS:
        run = herded(space, Worst(space.rows, c))
        bound = math.ceil(space.diameter**2 / (2.0 * (2.0 * c - 1.0) * space.eps))
        row(claim, space, f"worst of ratio {c:g}", run, bound=bound)
        claim.at_most(f"{space.name}: error / bound, worst of ratio {c:g}", space.excess(run, c), 1.0)
    subset = wolfhound.RandomSubset(space.rows, size=size)
    oracles: dict[str, Oracle] = {**indexes, "RandomSubset": subset}
    for label, oracle in oracles.items():
        audited = wolfhound.Audited(oracle, exact, every=1)
        row(claim, space, f"{label}, audited", herded(space, audited, most=AUDITED))
    timed(claim, space, exact, indexes, size)


def timed(
    claim: Claim, space: Space, exact: wolfhound.Int8Scan, indexes: Mapping[str, Index], size: int
) -> None:
    """Time exact and sublinear herding side by side; judge the verified ones."""
    plain, method = "Scan", SublinearHerding(ratio=SHARE, exact=exact, sample=0)
    calls: dict[str, Callable[[], FeatureRun]] = {
        plain: lambda: herded(space, wolfhound.Scan(space.rows)),
        "Int8Scan": lambda: herded(space, exact),
        "RandomSubset": lambda: herded(space, wolfhound.RandomSubset(space.rows, size=size)),
    }
    calls |= {name: functools.partial(herded, space, index) for name, index in indexes.items()}
    verified = {
        f"SublinearHerding(ratio={SHARE:g}), {name}": functools.partial(herded, space, index, method=method)
        for name, index in indexes.items()
    }
    found = interleave(calls | verified, repeats=claim.options.repeats, budget=4.0)
    needed = reached(space, found[plain].last)
    for label, each in found.items():
        picks = reached(space, each.last)
        clocks = [run.trace.seconds for run in each.answers]
        picking = statistics.median(float(clock[-1] - clock[0]) for clock in clocks)
        row(
            claim,
            space,
            f"{label}, timed",
            each.last,
            times_exact=None if picks is None or needed is None else picks / needed,
            seconds=each.median,
            milliseconds_per_pick=1e3 * picking / max(1, len(each.last.picks)),
        )
    for label in verified:
        last = found[label].last
        claim.at_most(f"{space.name}: error / bound, {label}", space.excess(last, SHARE), 1.0)
        both = needed is not None and reached(space, last) is not None
        claim.holds(f"{space.name}: {label} reaches the eps of exact herding", both)


def row(claim: Claim, space: Space, oracle: str, run: FeatureRun, **cells: float | int | None) -> None:
    """Say how a run ended."""
    ratios = run.trace.ratio[np.isfinite(run.trace.ratio)]
    picks = max(1, len(run.picks))
    claim.row(
        table="iterations",
        data=space.name,
        oracle=oracle,
        picks=reached(space, run),
        relative_error=0.5 * run.distance**2 / space.unit,
        mean_ratio=float(ratios.mean()) if len(ratios) else None,
        least_ratio=float(ratios.min()) if len(ratios) else None,
        passes=run.passes - 1.0,
        scored_per_pick=run.scored / picks,
        **cells,
    )


if __name__ == "__main__":
    sys.exit(main())
