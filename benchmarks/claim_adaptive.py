"""Claim: a copy of LshIndex finds an atom at tau with probability 0.9, kappa copies with 1 - 0.1^kappa.

And does it matter that the queries of a run depend on earlier answers, so on the hashes?

planted   queries at tau of random atoms (of all, and of the longest), <q, s - m> = tau |q| R, that
          know nothing of the hashes; a failure is an answer below c tau |q| R. One, two and three
          copies; c = 0.8, and 1 (the atom itself or a better one); over many seeds of the hashes.
          `on a sphere`: the atoms centred and brought to norm 1, where none is easier than others.
runs      Frank-Wolfe with line search to means of parts of the atoms (interior) and to
          points outside the hull (boundary); herding, picks of equal weight to the mean; a policy
          over four states that share their actions, quadratic rewards, evaluated after every sweep.
          Each step with the answer of an index; a failure is a gap below c times the best. One copy;
          kappa copies for the steps of a run; one copy behind a lattice (`QuantizedQueries`); tables
          with a new seed at every step. Beside them the failures of other hashes for the queries of
          these runs (`others`: as hard, but independent), and for the queries of exact runs
          (`independent`). The budget of a copy is such that one in ten of the last fails, on average
          over queries.
votes     the same runs inside and at the boundary, on atoms of 8 dimensions, where the copies kappa that a
          union bound over the lattice asks for can be paid, and of 100, where not: 3, 10 and 30 copies
          (sqrt(T) is 10), answers by the best of all, by the best of all behind the lattice, and by a
          noisy vote (the atom that most copies name, counts with Laplace noise of one vote), which hides
          the hashes of each

Protocol: atoms are nested subsets of glove100 and Gaussian; intervals of 95 %: exact binomial ones
for planted queries, from the spread between runs for runs. `again` is the share of failures
right after a failure.

Thresholds, planted: as many failures as seen, or more, have a probability of at least 0.01 if
copies fail with 0.1^kappa; on a Gaussian sphere, c = 1, also as few, or fewer, if they fail with
(0.1 / 3)^kappa. (Elsewhere other atoms will do as well, or the atom is easier to find than the
longest at tau, for which the promise must hold.) Runs and votes are reported.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import courses
import data
import numpy as np
from copies import Copies
from reference import Matrix, Vector
from rig import Claim, held_threads
from scipy import stats
from walks import BOUNDARY, INTERIOR, Walk

import wolfhound
from wolfhound.core.contracts import Oracle
from wolfhound.oracles.lsh import LshIndex
from wolfhound.paper import theory
from wolfhound.paper.adaptive import QuantizedQueries

C, DELTA = 0.8, 0.1
COSINE = 0.6
"""Of a planted query with an atom of median norm; this is what tau is made from."""
SOUGHT = {"any": 1.0, "the longest 1 % of": 0.01}
"""Shares of the atoms, from the longest on, at which queries are planted: long ones are at larger angles."""
TIGHT = "gaussian on a sphere"
RUNS = 8
ERROR = 0.1
"""lambda of the lattice, in units of |q| R: finer ones change no answer."""
VOTED, FINE = (3, 10, 30), 0.005
"""Copies whose answers are voted on; lambda of their lattice, whose kappa is 26 in 8 dimensions."""


def atom_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """The data by name; queries are planted in the first 30,000 atoms."""
    if tiny:
        return {"gaussian": functools.partial(data.gaussian, 2000, 16)}
    return {
        "glove100": lambda: np.ascontiguousarray(data.atoms("glove100")[:100_000]),
        "gaussian 1e5 x 64": functools.partial(data.gaussian, 100_000, 64),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=1)
    with held_threads(claim.options.threads):
        for name, make in atom_sets(claim.options.tiny).items():
            if any(claim.wants(f"{name} {part}") for part in ("planted", *courses.KINDS)):
                atoms = make()
                if claim.wants(f"{name} planted"):
                    judge_all(claim, name, atoms[:30_000])
                judge_runs(claim, name, atoms)
        for name, make in voted_sets(claim.options.tiny).items():
            judge_votes(claim, name, make)
    return claim.finish()


def voted_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """Atoms of few dimensions and of many, by name."""
    if tiny:
        return {"gaussian x 8": functools.partial(data.gaussian, 1000, 8)}
    return {
        "gaussian 3e4 x 8": functools.partial(data.gaussian, 30_000, 8),
        "glove100 3e4": lambda: np.ascontiguousarray(data.atoms("glove100")[:30_000]),
    }


# ---------------------------------------------------------------- planted queries


def on_sphere(atoms: Matrix) -> Matrix:
    """Atoms centred and brought to norm 1."""
    away = atoms - atoms.mean(0, dtype=np.float64)
    return np.asarray((away / np.linalg.norm(away, axis=1, keepdims=True)).astype(np.float32))


def judge_all(claim: Claim, name: str, atoms: Matrix) -> None:
    """Judge all copies at both ratios; normal atoms also on a sphere."""
    for c in (C, 1.0):
        for copies in (1, 2, 3):
            judge(claim, name, atoms, c=c, copies=copies)
            if name.startswith("gaussian"):
                judge(claim, TIGHT, on_sphere(atoms), c=c, copies=copies)


def judge(claim: Claim, name: str, atoms: Matrix, *, c: float, copies: int) -> None:
    """Count failures on planted queries over seeds; judge them."""
    seeds, many = (5, 20) if claim.options.tiny else (30, 100)
    lengths = np.linalg.norm(atoms - atoms.mean(0, dtype=np.float64), axis=1)
    tau = COSINE * float(np.median(lengths) / lengths.max())
    failures, scored = dict.fromkeys(SOUGHT, 0), dict.fromkeys(SOUGHT, 0.0)
    for seed in range(seeds):
        index = LshIndex.build(atoms, ratio=c, tau=tau, delta=DELTA, copies=copies, seed=seed)
        rng = np.random.default_rng([seed, copies])
        for kind, share in SOUGHT.items():
            queries = planted(atoms, index, tau, share=share, many=many, rng=rng)
            hits = index.query(queries)
            found = hits.scores[:, 0] - queries @ index.centre
            failures[kind] += int((found < c * tau * index.radius * (1.0 - 1e-9)).sum())
            scored[kind] += float(hits.scored.mean()) / seeds
    for kind, events in failures.items():
        trials, promised = seeds * many, DELTA**copies
        low, high = interval(events, trials)
        claim.row(
            table="planted",
            data=name,
            atoms=kind,
            c=c,
            tau=tau,
            copies=copies,
            trials=trials,
            failures=events / trials,
            low=low,
            high=high,
            promised=promised,
            candidates=scored[kind],
        )
        chance = float(stats.binom.sf(events - 1, trials, promised))
        what = f"{name}, c = {c:g}, copies {copies}, {kind} atoms"
        claim.at_least(f"{what}: chance of so many failures", chance, 0.01)
        if c == 1.0 and name == TIGHT:
            rare = float(stats.binom.cdf(events, trials, (DELTA / 3.0) ** copies))
            claim.at_least(f"{what}: chance of so few failures", rare, 0.01, full_size=True)


def planted(
    atoms: Matrix, index: LshIndex, tau: float, *, share: float, many: int, rng: np.random.Generator
) -> Vector:
    """Unit queries q with <q, s - m> = tau R for random atoms s among the longest."""
    away = atoms.astype(np.float64) - index.centre
    lengths = np.linalg.norm(away, axis=1)
    least = max(tau * index.radius, float(np.quantile(lengths, 1.0 - share)))
    ids = rng.choice(np.flatnonzero(lengths >= least), many)
    units = away[ids] / lengths[ids, None]
    across = rng.standard_normal(units.shape)
    across -= np.einsum("ij,ij->i", across, units)[:, None] * units
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    cosines = (tau * index.radius / lengths[ids])[:, None]
    return np.asarray(cosines * units + np.sqrt(1.0 - cosines**2) * across)


def interval(events: int, trials: int) -> tuple[float, float]:
    """Exact binomial interval of 95 %."""
    low = float(stats.beta.ppf(0.025, events, trials - events + 1)) if events else 0.0
    high = float(stats.beta.ppf(0.975, events + 1, trials - events)) if events < trials else 1.0
    return low, high


# ---------------------------------------------------------------- runs

Tables = Callable[[int, int], Oracle]
"""The oracle of (run, step)."""


Conditions = Callable[[int], Mapping[str, Tables]]
"""What may be asked, by name, with this budget for a copy."""


def judge_runs(claim: Claim, name: str, atoms: Matrix) -> None:
    """Follow one copy, as many as T steps need, a lattice, and new tables at every step."""
    kinds = [kind for kind in courses.KINDS if claim.wants(f"{name} {kind}")]
    steps = steps_of(claim)
    if kinds:
        made = Made.build(atoms, steps, theory.copies(steps, DELTA))
        for kind in kinds:
            follow(claim, "runs", f"{name} {kind}", atoms, made.conditions)


def judge_votes(claim: Claim, name: str, make: Callable[[], Matrix]) -> None:
    """Follow many copies, by the best of their answers, behind a lattice and by a vote."""
    kinds = [kind for kind in (INTERIOR, BOUNDARY) if claim.wants(f"votes {name} {kind}")]
    if kinds:
        atoms = make()
        pools = [[build(atoms, 5000 + 100 * run + at) for at in range(max(VOTED))] for run in range(RUNS)]
        for kind in kinds:
            follow(claim, "votes", f"{name} {kind}", atoms, functools.partial(votes, pools))


def steps_of(claim: Claim) -> int:
    """T."""
    return 20 if claim.options.tiny else 100


def build(atoms: Matrix, seed: int, copies: int = 1) -> LshIndex:
    """An index whose budget is chosen later."""
    return LshIndex.build(atoms, copies=copies, seed=seed)


def follow(claim: Claim, table: str, what: str, atoms: Matrix, conditions: Conditions) -> None:
    """Count failures along runs, and for queries that know nothing of the hashes."""
    steps, kind = steps_of(claim), what.rpartition(" ")[2]
    exact = wolfhound.Int8Scan.build(atoms)

    def go(run: int, asked: Callable[[int], Oracle]) -> tuple[Vector, Walk]:
        return courses.lead(courses.begin(atoms, kind, 100 + run), asked, exact, steps=steps)

    known = [go(run, lambda step: exact)[1] for run in range(RUNS)]
    budget = calibrated(atoms, known)
    for label, tables in conditions(budget).items():
        loose = np.array([asked(tables, run, walk) for run, walk in enumerate(known)])
        runs = [go(run, functools.partial(tables, run)) for run in range(RUNS)]
        bound = np.array([ratios for ratios, _ in runs])
        others = np.array([asked(shifted(tables, steps), run, walk) for run, (_, walk) in enumerate(runs)])
        claim.row(
            table=table,
            data=what,
            tables=label,
            **rates("run", bound < C),
            **rates("others", others < C),
            **rates("independent", loose < C),
            ratio_run=float(bound.mean()),
            ratio_others=float(others.mean()),
            ratio_independent=float(loose.mean()),
            last_gap=float(np.mean([gap_left(walk) for _, walk in runs])),
            last_gap_exact=float(np.mean([gap_left(walk) for walk in known])),
            budget=budget,
        )


@dataclass(frozen=True, slots=True)
class Made:
    """Indexes of a set, which runs of all kinds share: one of each run, several copies, one of each step."""

    copies: int
    single: Sequence[LshIndex]
    boosted: Sequence[LshIndex]
    fresh: Sequence[LshIndex]

    @classmethod
    def build(cls, atoms: Matrix, steps: int, copies: int) -> Made:
        """Draw all hashes."""
        return cls(
            copies,
            [build(atoms, run) for run in range(RUNS)],
            [build(atoms, 500 + run, copies) for run in range(RUNS)],
            [build(atoms, 1000 + step) for step in range(steps)],
        )

    def conditions(self, budget: int) -> Mapping[str, Tables]:
        """What may be asked, by name."""
        single, boosted, fresh = (
            [index.with_budget(budget) for index in each] for each in (self.single, self.boosted, self.fresh)
        )
        coarse = [on_lattice(index, ERROR) for index in single]
        return {
            "one copy": of_run(single),
            f"{self.copies} copies": of_run(boosted),
            "one copy, lattice": of_run(coarse),
            "fresh at every step": lambda run, step: fresh[step],
        }


def of_run(oracles: Sequence[Oracle]) -> Tables:
    """Each run has its own, the same at every step."""
    return lambda run, step: oracles[run]


def on_lattice(oracle: Oracle, error: float) -> QuantizedQueries:
    """Ask with the centres of cells."""
    return QuantizedQueries(oracle, side=theory.lattice_side(error, oracle.atoms.shape[1], c=C))


def votes(pools: Sequence[Sequence[LshIndex]], budget: int) -> Mapping[str, Tables]:
    """Answers of the first copies of each run: the best, the best behind a lattice, by a noisy vote."""
    d = pools[0][0].atoms.shape[1]
    kappa = theory.copies(1, DELTA, cells=math.ceil(2.0 / theory.lattice_side(FINE, d, c=C)), dim=d)
    out: dict[str, Tables] = {}
    for many in VOTED:
        some = [[index.with_budget(budget) for index in pool[:many]] for pool in pools]
        best = [Copies(each) for each in some]
        coarse = [on_lattice(each, FINE) for each in best]
        voted = [Copies(each, rng=np.random.default_rng(run)) for run, each in enumerate(some)]
        out[f"best of {many}"] = of_run(best)
        out[f"best of {many}, lattice (kappa {kappa})"] = of_run(coarse)
        out[f"vote of {many}"] = of_run(voted)
    return out


def calibrated(atoms: Matrix, known: Sequence[Walk]) -> int:
    """Budget with which one in ten of the queries of exact runs fails, on average over hashes."""
    indexes = [LshIndex.build(atoms, seed=2000 + run) for run in range(len(known))]
    budget = 16.0
    while True:
        fails = [
            (walk.ratios(best_scores(index.with_budget(round(budget)), walk)) < C).mean()
            for index, walk in zip(indexes, known, strict=True)
        ]
        if np.mean(fails) <= DELTA or budget >= len(atoms):
            return round(budget)
        budget *= 1.1


def best_scores(index: Oracle, walk: Walk) -> Vector:
    """Scores of the answers to all queries, in one batch."""
    return index.query(walk.queries).scores[:, 0].astype(np.float64)


def asked(tables: Tables, run: int, walk: Walk) -> Vector:
    """Gap ratios for queries that came from elsewhere; those of one oracle are asked together."""
    answers = [
        oracle.query(walk.queries[[at for at, _ in some]]).scores[:, 0]
        for oracle, some in itertools.groupby(
            ((at, tables(run, at)) for at in range(len(walk.queries))), key=lambda pair: pair[1]
        )
    ]
    return walk.ratios(np.concatenate(answers))


def shifted(tables: Tables, steps: int) -> Tables:
    """The oracles of the next run and step: other hashes, of which a run knows nothing."""
    return lambda run, step: tables((run + 1) % RUNS, (step + 1) % steps)


def gap_left(walk: Walk) -> float:
    """Last gap of a run over its first."""
    gaps = walk.best - walk.here
    return float(gaps[-1] / gaps[0])


def rates(label: str, failed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> dict[str, float]:
    """Share of failures over (runs, steps), its interval, and the share right after a failure."""
    shares = failed.mean(1)
    width = 1.96 * float(shares.std(ddof=1)) / math.sqrt(len(shares))
    after = failed[:, 1:][failed[:, :-1]]
    return {
        label: float(shares.mean()),
        f"{label}_width": width,
        f"{label}_again": float(after.mean()) if len(after) else math.nan,
    }


if __name__ == "__main__":
    sys.exit(main())
