"""`plan`: what a run costs with every oracle, what the theorems say of it, and whether an index pays."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from scipy.special import betaincinv, btdtria

from wolfhound import theory
from wolfhound.atoms import as_atoms, finite_rows
from wolfhound.core import Atoms, AtomsLike, Vector
from wolfhound.editing import in_files
from wolfhound.markup import Grid, Summary
from wolfhound.oracles.costs import Speeds, Workload, check_speeds
from wolfhound.planning.choose import Choice, Option, find_cheapest, weigh
from wolfhound.text import about_text, count_text, seconds_text
from wolfhound.theory import Regime
from wolfhound.validate import count, flag, require, within

PASSES = 4
"""Passes that `minimize` needs at most; benchmarks/claim_passes.py measures them."""

RATIOS = tuple(c / 100 for c in range(99, 49, -1))
"""Gap ratios that are tried; of those that cost the same, the highest."""

SAMPLE = 4096
"""Atoms that are read."""

_LEAST = 3  # atoms below which the theorem has no break-even

_PICKS, _SKIPPED = 64, 8  # of herding; the first queries are those of single atoms

_EDGE = 1e-9

_ORIGINS = {
    "given": "given",
    "measured": "typical of herding, by a sample",
    "isotropic": "that of random directions",
}


class Exponent(NamedTuple):
    """Query exponent of a way to hash, and the atoms that it scores, n^(rho + o(1))."""

    rho: float
    candidates: float


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Choice):
    """What oracles cost for a number of queries, which of them pays, and what the theorems say.

    Its text explains it. Made by `plan`; `Choice` has what it shares with `choose_oracle`.

    Attributes
    ----------
    tau : float
        The inner product on the unit sphere that the best atom has.
    tau_from : str
        Where it comes from: "given", "measured" or "isotropic".
    exponents : dict
        `Exponent` of every `theory.Regime`, for the ratio of the plan and tau.
    printed : Exponent
        As the paper prints it. Wrong: too low.
    break_even : float
        The tau above which near-linear hashing scores fewer than n atoms.
    """

    tau: float
    tau_from: str
    exponents: dict[Regime, Exponent]
    printed: Exponent
    break_even: float

    @property
    def ratio(self) -> float:
        """The gap ratio that answers are to have."""
        return self.workload.ratio

    @property
    def pays(self) -> bool:
        """Whether the cheapest is an index that answers without a pass."""
        return self.chosen.indexed

    @property
    def index(self) -> Option:
        """The cheapest index at this ratio, even if it does not pay."""
        indexes = [each for each in self.options if each.indexed]
        return min(indexes, key=lambda each: (bool(each.objection), each.total_seconds))

    @property
    def sublinear(self) -> bool:
        """Whether the theorem promises to score fewer than all atoms."""
        return self.tau > self.break_even

    def summary(self) -> Summary:
        """Return the table of all oracles, what pays and why, and what the theorems say."""
        told = Choice.summary(self)
        origin = f"tau {self.tau:.3g} ({_ORIGINS[self.tau_from]})"
        atoms, *tiles = told.fields
        return told._replace(
            fields=((atoms[0], f"{self._shape()}, {origin}"), *tiles),
            tables=(*told.tables, self._list_exponents()),
            notes=(*self._verdict(), *self.theorems(), *self._basis()),
            title="What a run would cost",
        )

    def theorems(self) -> list[str]:
        """Say what the theorems say, in sentences."""
        near, n = self.exponents[Regime.NEAR_LINEAR], self.workload.n
        verdict = "is sublinear here" if self.sublinear else "gives nothing at this n"
        return [
            f"The theorem {verdict}: n^{near.rho:.3f} exp(sqrt(ln n)) is {count_text(near.candidates)}, "
            f"of {n:,} atoms in all.",
            f"At c = {self.ratio:g}, near-linear space takes tau > {self.break_even:.3f} "
            "to score fewer than n.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers in dicts, lists, strings and numbers, as for JSON."""
        work = self.workload
        shown = [part.name for part in fields(Option) if part.name != "make"]
        return {
            **{name: getattr(work, name) for name in ("n", "d", "ratio", "interior", "batch")},
            **{name: getattr(self, name) for name in ("queries", "tau", "tau_from", "pays")},
            "chosen": self.chosen.name,
            "advice": " ".join(self._verdict()),
            "options": [{name: getattr(each, name) for name in shown} for each in self.options],
            "exponents": {
                **{regime.name.lower(): each._asdict() for regime, each in self.exponents.items()},
                "printed": {**self.printed._asdict(), "true": False},
            },
            "break_even": self.break_even,
            "sublinear": self.sublinear,
        }

    def _verdict(self) -> list[str]:
        best, scan, index = self.chosen, self.options[0], self.index
        solve = (
            "If they are the steps of one solve, `minimize` needs no index: "
            f"1 to {PASSES} passes with proof, at most {seconds_text(PASSES * scan.query_seconds)}."
        )
        if index.objection:
            return [f"An index does not pay here: none reaches the ratio {self.ratio:g}.", solve]
        cost = f"{seconds_text(index.build_seconds)} to build and {seconds_text(index.total_seconds)} in all"
        total = seconds_text((scan if self.pays else best).total_seconds)
        first = f"{index.title} pays here: {cost}, against {total} with {scan.title}."
        if not self.pays:
            first = f"An index does not pay here: {best.title} takes {total} in all, {index.title} {cost}."
        verb = "it pays" if self.pays else f"{index.title} would pay"
        start = f"{verb} from {about_text(index.pays_from)} on"
        never = f"{index.title} never pays"
        return [first, f"Against {scan.title} {start if math.isfinite(index.pays_from) else never}.", solve]

    def _list_exponents(self) -> Grid:
        named = {regime.value: each for regime, each in self.exponents.items()}
        named["as the paper prints it: WRONG, too low"] = self.printed
        rows: list[tuple[Any, ...]] = [
            (f"  {name}", f"{rho:.3f}", count_text(some), "more than all" if some >= self.workload.n else "")
            for name, (rho, some) in named.items()
        ]
        caption = f"What the theorems say for c = {self.ratio:g}, tau = {self.tau:.3g}"
        return Grid(caption, ("  hashing", "rho", "candidates", ""), rows, (0, 3))


def plan(
    atoms: AtomsLike | None = None,
    *,
    n: int | None = None,
    d: int | None = None,
    ratio: float | None = None,
    tau: float | None = None,
    queries: int = 10_000,
    interior: bool = False,
    batch: int = 1,
    seed: int = 0,
    speeds: Speeds | None = None,
) -> Plan:
    """Say what a run costs with every oracle, by theorem and by model, and what pays.

    Of atoms, their shape and a sample of rows are looked at; without atoms
    `n` and `d` are enough. The same speeds give the same plan.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    n, d
        How many atoms, of which dimension, in float32, if there are none yet.
    ratio
        c in (0, 1], the gap ratio that answers are to have. Default: the one with
        the least total time. The steps of a run grow like 1/c^2, the cost of a
        query falls with c.
    tau
        The inner product that the best atom is promised to have with a query, both scaled
        to the unit sphere: ``<q, s - m> / (|q| max|s - m|)``. Default: what herding
        typically finds among a sample of the atoms; without atoms, what random directions find.
    queries
        Queries to come, if every answer is the best atom: states of a policy, steps of a
        run, picks of herding.
    interior
        Whether x stays well inside the hull, as in herding.
    batch
        Queries that are asked together.
    seed
        Of the sample.
    speeds
        Default: measured, in about a second, once per process.

    Examples
    --------
    >>> fixed = Speeds()
    >>> few = plan(n=10**6, d=128, queries=10, speeds=fixed)
    >>> many = plan(n=10**6, d=128, queries=10**7, speeds=fixed)
    >>> few.pays, many.pays
    (False, True)
    >>> found = plan(n=10**6, d=128, ratio=0.5, tau=0.9, speeds=fixed)
    >>> round(found.exponents[Regime.NEAR_LINEAR].candidates), round(found.printed.rho, 3)
    (3960, 0.065)
    """
    known, n, d, row = _find_size(atoms, n, d)
    if ratio is not None:
        within(ratio, "ratio", "(0, 1]")
    if tau is not None:
        within(tau, "tau", "(0, 1)")
    seed, asked = count(seed, "seed"), _check_count(queries, "queries", low=1)
    work = Workload(
        n=n,
        d=d,
        row=row,
        in_files=known is not None and in_files(known),
        interior=flag(interior, "interior"),
        batch=count(batch, "batch", low=1),
        speeds=check_speeds(speeds),
    )
    grown = _grow(asked)
    if ratio is None:
        tried = {each: weigh(replace(work, ratio=each), grown) for each in RATIOS}
        ratio = min(tried, key=lambda each: _find_least(tried[each]))
    work = replace(work, ratio=float(ratio))
    options = weigh(work, grown)
    typical, origin = (float(tau), "given") if tau is not None else _find_tau(known, n, d, seed)

    def find_exponent(rho: float) -> Exponent:
        return Exponent(rho, theory.candidates(n, rho))

    return Plan(
        atoms=known,
        chosen=find_cheapest(options),
        options=options,
        queries=asked,
        proof=False,
        workload=work,
        tau=typical,
        tau_from=origin,
        exponents={each: find_exponent(theory.rho(work.ratio, typical, each)) for each in Regime},
        printed=find_exponent(theory.rho_printed(work.ratio, typical)),
        break_even=theory.break_even(n, work.ratio),
    )


def _grow(queries: int) -> Callable[[float], float]:
    """How many queries it takes with answers of a ratio: as many, times 1/c^2; inf if they are of no use."""

    def at(ratio: float) -> float:
        try:
            return float(math.ceil(queries / Fraction(ratio) ** 2)) if ratio > 0.0 else math.inf
        except OverflowError:
            return math.inf

    return at


def _find_least(options: tuple[Option, ...]) -> float:
    """Return the least time in all of those that prove nothing, by which the ratio is chosen."""
    some = [each.total_seconds for each in options if not each.proves and not each.objection]
    return min(some, default=math.inf)


def _find_size(atoms: AtomsLike | None, n: int | None, d: int | None) -> tuple[Atoms | None, int, int, int]:
    """Atoms, n, d, and the bytes of a row."""
    if atoms is not None:
        if n is not None or d is not None:
            raise ValueError("`n` and `d` must not be given with `atoms`, which have their own.")
        known = as_atoms(atoms)
        n, d = known.shape
        require(n >= _LEAST, "atoms", f"at least {_LEAST} rows", f"{n}")
        return known, n, d, d * known.dtype.itemsize
    if n is None or d is None:
        raise ValueError("`atoms` must be given, or both `n` and `d`.")
    n, d = _check_count(n, "n", low=_LEAST), _check_count(d, "d", low=1)
    return None, n, d, 4 * d


def _check_count(value: int, name: str, *, low: int) -> int:
    """Return a number of things, of which no machine holds 2^62."""
    out = count(value, name, low=low)
    require(out <= 2**62, name, "an integer <= 2^62", f"one of {out.bit_length()} bits")
    return out


# ---------------------------------------------------------------- tau


def _find_tau(atoms: Atoms | None, n: int, d: int, seed: int) -> tuple[float, str]:
    return (isotropic_tau(n, d), "isotropic") if atoms is None else (sample_tau(atoms, seed=seed), "measured")


def isotropic_tau(n: int, d: int) -> float:
    """Cosine of a direction with the best of n random ones; the median.

    A cap of cosine t holds a share of ``I((d-1)/2, 1/2; 1 - t^2) / 2`` of the sphere, I
    the incomplete beta function; all n miss a cap of share log(2) / n with
    probability 1/2.

    Examples
    --------
    >>> round(isotropic_tau(10**6, 128), 3), round(isotropic_tau(10**6, 3), 6)
    (0.41, 0.999999)
    """
    return _find_best_of(n, 0.5 * (d - 1)) if d > 1 else 1.0 - _EDGE


def sample_tau(atoms: Atoms, *, seed: int) -> float:
    """Return what herding typically finds among random atoms, carried over to n.

    The median of ``<q, s - m> / (|q| R)`` of the best atom s over the queries q of herding, m the mean
    and R = max|s - m| of the sample; carried over as if atoms filled a sphere of some dimension.
    """
    n = atoms.shape[0]
    rng = np.random.default_rng(seed)
    rows = finite_rows(atoms, np.sort(rng.choice(n, min(n, SAMPLE), replace=False)))
    unit = float(np.abs(rows).max())
    require(unit > 0.0, "atoms", "of different rows", "only zeros")
    centred = rows / np.float64(unit)
    centred -= centred.mean(axis=0)
    radius = math.sqrt(np.einsum("ij,ij->i", centred, centred).max())
    # The mean of equal rows is not exact.
    require(radius > 1e-12, "atoms", "of different rows", f"{len(rows):,} equal ones")
    tau = _herd_typically(centred / radius, int(rng.integers(len(rows))))
    if len(rows) == n:
        return tau
    half = float(btdtria(2.0 * math.log(2.0) / len(rows), 0.5, 1.0 - tau * tau))
    return _find_best_of(n, half) if math.isfinite(half) and half > 0.0 else tau


def _herd_typically(units: Vector, first: int) -> float:
    """Median over the queries ``mean - w`` of herding from one of the atoms."""
    w = units[first].copy()
    found = []
    for t in range(_PICKS):
        size = float(np.linalg.norm(w))
        if size < _EDGE:
            break
        scores = units @ (-w / size)
        best = int(scores.argmax())
        found.append(float(scores[best]))
        w += (units[best] - w) / (t + 2.0)
    return _keep_inside(float(np.median(found[_SKIPPED:] or found or [1.0])))


def _find_best_of(n: int, half: float) -> float:
    """Return the median of the best of n random atoms on a sphere of dimension 2 half + 1."""
    # Twice the share of a cap that n random points miss with probability 1/2.
    return _keep_inside(math.sqrt(1.0 - float(betaincinv(half, 0.5, 2.0 * math.log(2.0) / n))))


def _keep_inside(tau: float) -> float:
    return min(max(tau, _EDGE), 1.0 - _EDGE)
