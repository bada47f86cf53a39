"""Which oracle pays, one page of rules: `choose_oracle` for so many queries, `plan` with the theorems.

Weighs what the entries of `INDEXES` say of themselves, from two speeds of the machine; knows none of them.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, cast, final

import numpy as np
from scipy.special import betaincinv, btdtria

from wolfhound.core.contracts import Atoms, AtomsLike, Oracle
from wolfhound.core.text import about_text, bytes_text, count_text, seconds_text, table_lines
from wolfhound.core.validate import count, flag, memory, require, within
from wolfhound.data.atoms import as_atoms, finite_rows, in_files
from wolfhound.oracles.indexes import INDEXES, Estimate, IndexKind, Make, Speeds, Workload, check_speeds
from wolfhound.paper import theory
from wolfhound.paper.theory import Regime
from wolfhound.show import plot
from wolfhound.show.markup import Field, Grid, HasSummary, Picture, Summary, pick


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An oracle with what it is expected to cost."""

    name: str  # what `INDEXES` calls it
    title: str  # what tables call it
    recipe: str  # how it is made by hand
    ratio: float  # the gap ratio that is typical of it, not promised; 1 if it is exact
    proves: bool  # whether its bounds are finite
    indexed: bool  # whether something is built that answers without proof
    scored: float  # atoms that a query scores, as rows or codes
    queries: float  # queries that are needed with this ratio
    build_seconds: float
    query_seconds: float
    total_seconds: float  # to build it, and for all queries
    nbytes: int  # memory beside the atoms
    pays_from: float  # queries, as an exact oracle asks, from which on it beats a scan; inf: never
    objection: str  # why it is not eligible; "" if it is
    make: Make = field(repr=False, compare=False)


def weigh(
    work: Workload, queries: Callable[[float], float], *, proof: bool = False, savable: bool = False
) -> tuple[Option, ...]:
    """Weigh all oracles that say what they cost, the exact one that all others must beat first.

    `queries` is how many there are by the gap ratio of the answers; savable: it must be an index.
    """
    models = [(kind, kind.expected(work)) for kind in INDEXES.values() if kind.expected is not None]
    scan, least = models[0][1], queries(1.0)
    found = []
    for kind, each in models:
        needed = queries(each.ratio)
        saved = scan.query - needed / least * each.query
        found.append(
            Option(
                **pick(kind, "name", "title", "proves"),
                **pick(each, "recipe", "ratio", "scored", "make"),
                indexed=kind.passes > 0 and not kind.proves,
                queries=needed,
                build_seconds=each.build,
                query_seconds=each.query,
                total_seconds=each.build + needed * each.query,
                nbytes=math.ceil(each.nbytes),
                pays_from=max(1.0, math.ceil(each.build / saved)) if saved > 0.0 else math.inf,
                objection=_object(kind, each, work, proof=proof, savable=savable),
            )
        )
    return tuple(found)


def _object(kind: IndexKind, each: Estimate, work: Workload, *, proof: bool, savable: bool) -> str:
    if proof and not kind.proves:
        return "proves nothing"
    if savable and kind.load is None:
        return "nothing to save"
    # Rounding of the formulas must not decide.
    if each.ratio < work.ratio * (1.0 - 1e-9):
        return "ratio too low"
    return "too much memory" if each.nbytes > work.max_memory else ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Choice(HasSummary):
    """The cheapest oracle that will do, and all that were weighed.

    Its text explains it. Made by `choose_oracle`.
    """

    atoms: Atoms | None = field(compare=False)  # None: a plan for atoms that are not there yet
    options: tuple[Option, ...]  # all, eligible or not; the first is a scan
    queries: int  # as an exact oracle would ask
    proof: bool  # whether bounds were asked for
    workload: Workload  # what was asked of every oracle, speeds included

    @property
    def chosen(self) -> Option:
        """The one with the least total time of those that will do; the first of equals."""
        return min((each for each in self.options if not each.objection), key=attrgetter("total_seconds"))

    def option(self, name: str) -> Option:
        """Return the option of this name."""
        found = {each.name: each for each in self.options}
        require(name in found, "name", f"one of {', '.join(found)}", name)
        return found[name]

    def build(self, name: str | None = None, *, seed: int = 0) -> Oracle:
        """Build the chosen oracle, or another one of `INDEXES`, set up for what was asked for."""
        if self.atoms is None:
            raise ValueError("`atoms` must be given to a plan whose oracle is to be built.")
        made = {each.name: each.make for each in self.options}
        name = self.chosen.name if name is None else name
        make = made[name] if name in made else INDEXES.find(name, "name").build
        require(make is not None, "name", "an index that is built from atoms", repr(name))
        return cast(Make, make)(self.atoms, seed=count(seed, "seed"))

    def summary(self) -> Summary:
        """Return the choice, all options, and what it rests on."""
        best, work, heading = self.chosen, self.workload, self._heading()
        tiles = {
            "oracle": best.title,
            "in all": seconds_text(best.total_seconds),
            "per query": seconds_text(best.query_seconds),
            "memory beside the atoms": bytes_text(best.nbytes),
        }
        numbers = {**pick(work, "n", "d", "ratio", "interior", "batch"), "queries": self.queries}
        shape = f"{work.n:,} x {work.d:,}{' in files' if work.in_files else ''}"
        atoms = Field("atoms", shape, {**numbers, "chosen": best.name})
        return Summary(
            heading,
            (atoms, *(Field("", tile=tile) for tile in tiles.items())),
            (self._table(),),
            (*self._verdict(), *self._basis()),
            title="The oracle that pays",
            caption=heading,
            pictures=self._picture_totals,
        )

    def __repr__(self) -> str:
        """The choice, the tables, and what it rests on."""
        told = self.summary()
        parts = [[told.heading, *(text for _, text in told.lines())]]
        for grid in told.tables:
            rows = [tuple(map(str, row)) for row in (grid.headings, *grid.rows)]
            parts.append([f"{grid.caption}:", *table_lines(rows, left=grid.left)])
        return "\n\n".join("\n".join(part) for part in (*parts, told.notes))

    def _picture_totals(self) -> list[Picture]:
        best = self.chosen
        draw = partial(
            plot.draw_totals,
            seconds={each.title: each.total_seconds for each in self.options},
            marked=best.title,
            faint=[each.title for each in self.options if each.objection],
        )
        said = f"{best.title} takes {seconds_text(best.total_seconds)} in all, building included."
        return [Picture("Time in all, by oracle", said, draw)]

    def _heading(self) -> str:
        work = self.workload
        together = "one at a time" if work.batch == 1 else f"{work.batch:,} at a time"
        wish = ["the best atom"] if work.ratio == 1.0 or self.proof else [f"gap ratio {work.ratio:g}"]
        wish += ["with proof" if self.proof else "no proof needed"]
        wish += ["from inside the hull"] if work.interior else []
        wish += [f"at most {bytes_text(work.max_memory)}"] if math.isfinite(work.max_memory) else []
        some = f"{self.queries:,} {'query' if self.queries == 1 else 'queries'}"
        return f"{self.chosen.title}, for {some} {together}: {', '.join(wish)}"

    def _table(self) -> Grid:
        scan = self.options[0]
        columns: dict[str, Callable[[Option], str]] = {
            "  oracle": lambda each: ("* " if each is self.chosen else "  ") + each.title,
            "scored": lambda each: count_text(each.scored),
            "build": lambda each: seconds_text(each.build_seconds),
            "per query": lambda each: seconds_text(each.query_seconds),
            "in all": lambda each: _finite_text(each.total_seconds, seconds_text),
            "memory": lambda each: bytes_text(each.nbytes),
            "ratio": lambda each: "1" if each.ratio == 1.0 else f"~{each.ratio:.2f}",
            "pays from": lambda each: "-" if each is scan else _finite_text(each.pays_from, count_text),
            "": lambda each: each.objection,
        }
        rows: list[tuple[Any, ...]] = [
            tuple(cell(each) for cell in columns.values()) for each in self.options
        ]
        caption = f"What every oracle costs; {self.chosen.title} is chosen"
        known = [part.name for part in fields(Option) if part.name != "make"]
        left, shown = (0, len(columns) - 1), [pick(each, *known) for each in self.options]
        return Grid(caption, tuple(columns), rows, left, key="options", records=lambda: shown)

    def _verdict(self) -> list[str]:
        """Where the choice would turn."""
        best, scan = self.chosen, self.options[0]
        rivals = [each for each in self.options if not each.objection]
        if best is scan:
            later = [each for each in rivals if math.isfinite(each.pays_from)]
            if not later:
                return ["Nothing that will do pays, however many queries there are."]
            first = min(later, key=lambda each: each.pays_from)
            return [f"{first.title} would pay from {about_text(first.pays_from)} on."]
        if math.isinf(best.pays_from):
            return [f"{best.title} never pays against {scan.title}, which needs no building."]
        start = max(best.pays_from, *(_break_even(best, each) for each in rivals))
        alone = f" ({count_text(best.pays_from)} against {scan.title} alone)"
        return [f"{best.title} pays from {about_text(start)} on{alone if best.pays_from < start else ''}."]

    def _basis(self) -> list[str]:
        speeds = self.workload.speeds
        return [
            f"Made by {self.chosen.recipe}",
            "Ratios ~ are typical, not promised. Seconds are estimates, for a machine that reads "
            f"{1e-9 / speeds.byte:.2g} GB/s and makes {1e-9 / speeds.product:.2g} billion products a second.",
        ]


def choose_oracle(
    atoms: AtomsLike,
    *,
    queries: int = 1,
    ratio: float = 1.0,
    proof: bool = True,
    interior: bool = False,
    batch: int = 1,
    max_memory: float | str | None = None,
    savable: bool = False,
    speeds: Speeds | None = None,
) -> Choice:
    """Weigh the oracles for a number of queries, and say why one is the cheapest.

    Seconds are estimated from bytes, products and two speeds of the machine, for the one
    best atom of each query (k = 1), without the screening of a scan. The same speeds give
    the same choice.

    Parameters
    ----------
    atoms
        Atoms, an array or a path; only their shape is looked at.
    queries
        Queries to come, in all.
    ratio
        The gap ratio that is needed on average, in (0, 1]: (score - <q, x>) /
        (best score - <q, x>). 1: the best atom. What an index reaches is
        typical, not promised.
    proof
        Whether bounds are needed: only an exact oracle will do.
    interior
        Whether x stays well inside the hull, as in herding: there many atoms
        are nearly as good as the best. At the boundary few are.
    batch
        Queries that are asked together.
    max_memory
        Bytes that the oracle may take beside the atoms; default: any.
    savable
        Whether it must be an index that can be saved.
    speeds
        Default: measured, in about a second, once per process.

    Returns
    -------
    Choice
        ``.build()`` makes the oracle; the text explains the choice.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.zeros((100_000, 64), np.float32)
    >>> fixed = Speeds()
    >>> choose_oracle(rows, queries=1, speeds=fixed).chosen.name
    'scan'
    >>> choose_oracle(rows, queries=10_000, speeds=fixed).chosen.name
    'int8'
    >>> choose_oracle(rows, queries=10**7, ratio=0.9, proof=False, speeds=fixed).chosen.name
    'clusters'
    """
    rows = as_atoms(atoms)
    for name, value in {"proof": proof, "interior": interior, "savable": savable}.items():
        flag(value, name)
    many = count(queries, "queries", low=1)
    work = Workload(
        **_measure(rows),
        ratio=within(ratio, "ratio", "(0, 1]"),
        interior=interior,
        batch=count(batch, "batch", low=1),
        max_memory=math.inf if max_memory is None else memory(max_memory, "max_memory", strict=False),
        speeds=check_speeds(speeds),
    )
    found = weigh(work, lambda ratio: many, proof=proof, savable=savable)
    some = any(not each.objection for each in found)
    require(some, "max_memory", "enough for one of the oracles", f"{work.max_memory:g} bytes")
    return Choice(atoms=rows, options=found, queries=many, proof=proof, workload=work)


def _measure(atoms: Atoms) -> dict[str, Any]:
    """What a workload says of atoms that are there."""
    n, d = atoms.shape
    return {"n": n, "d": d, "row": d * atoms.dtype.itemsize, "in_files": in_files(atoms)}


def _finite_text(value: float, text: Callable[[float], str]) -> str:
    return text(value) if math.isfinite(value) else "never"


def _break_even(each: Option, rival: Option) -> float:
    """Queries from which on an option costs less than one that is built sooner."""
    later, saved = each.build_seconds - rival.build_seconds, rival.query_seconds - each.query_seconds
    return max(1.0, math.ceil(later / saved)) if later > 0.0 and saved > 0.0 else 1.0


PASSES = 4  # that `minimize` needs at most; benchmarks/claim_passes.py measures them
RATIOS = tuple(c / 100 for c in range(99, 49, -1))  # that are tried; of those that cost the same, the highest
SAMPLE = 4096  # atoms that are read

_LEAST = 3  # atoms below which the theorem has no break-even
_PICKS, _SKIPPED = 64, 8  # of herding; the first queries are those of single atoms
_EDGE = 1e-9

_BESIDE = (
    "Atoms that were found before and a fresh sample of 500 may do without it, inside the hull above all: "
    "`Tiered(RandomSubset(atoms, size=500))` builds nothing.",
)
"""What to compare an index with first; benchmarks/claim_promise.py lists where it adds nothing."""

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
    """

    tau: float  # the inner product on the unit sphere that the best atom has
    tau_from: str  # where it comes from: "given", "measured" or "isotropic"
    exponents: dict[Regime, Exponent]  # for the ratio of the plan and tau
    printed: Exponent  # as the paper prints it; wrong: too low
    break_even: float  # the tau above which near-linear hashing scores fewer than n atoms

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
        told, verdict = Choice.summary(self), self._verdict()
        atoms, *tiles = (Field(*field) for field in told.fields)
        origin = f"tau {self.tau:.3g} ({_ORIGINS[self.tau_from]})"
        numbers = pick(self, "tau", "tau_from", "pays", "break_even", "sublinear")
        values = {**atoms.values, **numbers, "advice": " ".join(verdict)}
        return told._replace(
            fields=(Field(atoms.name, f"{atoms.text}, {origin}", values), *tiles),
            tables=(*told.tables, self._list_exponents()),
            notes=(*verdict, *self.theorems(), *self._basis()),
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
        against = f"Against {scan.title} {start if math.isfinite(index.pays_from) else never}."
        return [first, against, *_BESIDE * self.pays, solve]

    def _list_exponents(self) -> Grid:
        named = {regime.value: each for regime, each in self.exponents.items()}
        named["as the paper prints it: WRONG, too low"] = self.printed
        rows: list[tuple[Any, ...]] = [
            (f"  {name}", f"{rho:.3f}", count_text(some), "more than all" if some >= self.workload.n else "")
            for name, (rho, some) in named.items()
        ]
        caption = f"What the theorems say for c = {self.ratio:g}, tau = {self.tau:.3g}"
        known = {regime.name.lower(): each._asdict() for regime, each in self.exponents.items()}
        known["printed"] = {**self.printed._asdict(), "true": False}
        headings = ("  hashing", "rho", "candidates", "")
        return Grid(caption, headings, rows, (0, 3), key="exponents", records=lambda: known)


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
    known, size = _find_size(atoms, n, d)
    if ratio is not None:
        within(ratio, "ratio", "(0, 1]")
    if tau is not None:
        within(tau, "tau", "(0, 1)")
    seed, asked = count(seed, "seed"), _check_count(queries, "queries", low=1)
    work = Workload(
        **size,
        interior=flag(interior, "interior"),
        batch=count(batch, "batch", low=1),
        speeds=check_speeds(speeds),
    )
    grown = _grow(asked)
    work = replace(work, ratio=_find_ratio(work, grown) if ratio is None else float(ratio))
    if tau is not None:
        typical, origin = float(tau), "given"
    elif known is None:
        typical, origin = isotropic_tau(work.n, work.d), "isotropic"
    else:
        typical, origin = sample_tau(known, seed=seed), "measured"
    rhos = {each: theory.rho(work.ratio, typical, each) for each in Regime}
    printed = theory.rho_printed(work.ratio, typical)
    return Plan(
        atoms=known,
        options=weigh(work, grown),
        queries=asked,
        proof=False,
        workload=work,
        tau=typical,
        tau_from=origin,
        exponents={each: Exponent(rho, theory.candidates(work.n, rho)) for each, rho in rhos.items()},
        printed=Exponent(printed, theory.candidates(work.n, printed)),
        break_even=theory.break_even(work.n, work.ratio),
    )


def _find_ratio(work: Workload, queries: Callable[[float], float]) -> float:
    """Return the ratio at which the cheapest of those that prove nothing takes the least time."""

    def find_least(ratio: float) -> float:
        some = (each for each in weigh(replace(work, ratio=ratio), queries) if not each.proves)
        return min((each.total_seconds for each in some if not each.objection), default=math.inf)

    return min(RATIOS, key=find_least)


def _grow(queries: int) -> Callable[[float], float]:
    """How many queries it takes with answers of a ratio: as many, times 1/c^2; inf if they are of no use."""

    def at(ratio: float) -> float:
        try:
            return float(math.ceil(queries / Fraction(ratio) ** 2)) if ratio > 0.0 else math.inf
        except OverflowError:
            return math.inf

    return at


def _find_size(atoms: AtomsLike | None, n: int | None, d: int | None) -> tuple[Atoms | None, dict[str, Any]]:
    """Atoms, and what a workload says of them."""
    if atoms is not None:
        if n is not None or d is not None:
            raise ValueError("`n` and `d` must not be given with `atoms`, which have their own.")
        known = as_atoms(atoms)
        require(known.shape[0] >= _LEAST, "atoms", f"at least {_LEAST} rows", f"{known.shape[0]}")
        return known, _measure(known)
    if n is None or d is None:
        raise ValueError("`atoms` must be given, or both `n` and `d`.")
    n, d = _check_count(n, "n", low=_LEAST), _check_count(d, "d", low=1)
    return None, {"n": n, "d": d, "row": 4 * d, "in_files": False}


def _check_count(value: int, name: str, *, low: int) -> int:
    """Return a number of things, of which no machine holds 2^62."""
    out = count(value, name, low=low)
    require(out <= 2**62, name, "an integer <= 2^62", f"one of {out.bit_length()} bits")
    return out


# ---------------------------------------------------------------- tau


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
    units, found = centred / radius, list[float]()
    w = units[int(rng.integers(len(rows)))].copy()
    for t in range(_PICKS):  # the queries of herding are mean - w
        size = float(np.linalg.norm(w))
        if size < _EDGE:
            break
        scores = units @ (-w / size)
        best = int(scores.argmax())
        found.append(float(scores[best]))
        w += (units[best] - w) / (t + 2.0)
    tau = _keep_inside(float(np.median(found[_SKIPPED:] or found or [1.0])))
    if len(rows) == n:
        return tau
    half = float(btdtria(2.0 * math.log(2.0) / len(rows), 0.5, 1.0 - tau * tau))
    return _find_best_of(n, half) if math.isfinite(half) and half > 0.0 else tau


def _find_best_of(n: int, half: float) -> float:
    """Return the median of the best of n random atoms on a sphere of dimension 2 half + 1."""
    # Twice the share of a cap that n random points miss with probability 1/2.
    return _keep_inside(math.sqrt(1.0 - float(betaincinv(half, 0.5, 2.0 * math.log(2.0) / n))))


def _keep_inside(tau: float) -> float:
    return min(max(tau, _EDGE), 1.0 - _EDGE)
