"""A batch of consecutive targets: what is asked of a solver, and its answers in the caller's units.

Every solver (`gram_solver`, `pass_solver`, `oracle_solver`) is a `TargetSolver`; `solve_batch` brings targets
into its units and answers back, whoever solves. How a memory limit is shared out is at the end.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Ids, Ints, Matrix, Status, Vector
from wolfhound.core.rounding import LEAST, TINY, UNIT, WORN
from wolfhound.core.validate import require
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.many.proofs import Units
from wolfhound.many.result import CODES
from wolfhound.methods.asking import SAMPLE, TRIED

PROVED, ROUNDING, STALLED, FINISHED = (
    CODES[status] for status in (Status.GAP_REACHED, Status.ROUNDING, Status.STALLED, Status.FINISHED)
)


class Rules(NamedTuple):
    """When a target is done, in the units of the solver; most atoms that it may have."""

    rtol: float
    atol: float
    limit: int


class Banned(NamedTuple):
    """Pairs (target, atom) that must not be used, by rising target or by rising atom."""

    targets: Ints
    atoms: Ids

    def among(self, ids: Ids) -> Banned:
        """Return the pairs of some atoms, as places among their ids."""
        order = np.argsort(ids, kind="stable")
        at = order[np.minimum(np.searchsorted(ids, self.atoms, sorter=order), len(ids) - 1)]
        here = ids[at] == self.atoms
        return Banned(self.targets[here], at[here])

    def only(self, rows: Ints, m: int) -> Banned:
        """Return the pairs of some of m targets, as places among these."""
        new = np.full(m, -1)
        new[rows] = np.arange(len(rows))
        targets = new[self.targets]
        return Banned(targets[targets >= 0], self.atoms[targets >= 0])

    def by_atom(self) -> Banned:
        """Return the pairs by rising atom."""
        order = np.argsort(self.atoms, kind="stable")
        return Banned(self.targets[order], self.atoms[order])


class Answers(NamedTuple):
    """Per target, in the units of the solver: (m, cap) ids and weights, of which `support`; (m,) all others.

    `slack` is the part of `value - lower` that is proved to be rounding.
    """

    ids: Ids
    weights: Vector
    support: Ints
    value: Vector
    lower: Vector
    slack: Vector
    goal: Vector
    codes: NDArray[np.int8]
    passes: Ints
    price: Vector


def judge(gap: Vector, goal: Vector, slack: Vector) -> NDArray[np.int8]:
    """Say what gaps are: within the goal, within what rounding is proved to hide, or neither.

    The one place where a target is said to be at the end of rounding: that is a claim, too.
    """
    return np.where(gap <= goal, PROVED, np.where(gap <= WORN * slack, ROUNDING, STALLED)).astype(np.int8)


def note_limit(out: Answers, rows: Ints, value: Vector) -> None:
    """Note f of targets that had to do with fewer atoms, and what that costs; their bounds stay."""
    out.price[rows], out.value[rows] = np.maximum(value - out.value[rows], 0.0), value
    done = np.isin(out.codes[rows], (PROVED, ROUNDING)) & (out.price[rows] > 0.0)
    out.codes[rows[done & (value - out.lower[rows] > out.goal[rows])]] = FINISHED


# ---------------------------------------------------------------- the scale of rtol


def measure_scales(
    squares: Vector, cross: Vector, order: Ints, out: Banned, gram: Callable[[Ints], Vector]
) -> Vector:
    """(m,) scales of rtol as `find_scale` of `minimize` has them, for all targets of a chunk.

    The larger of the gap at the best of some atoms of the random pool, and median less minimum of f over
    some. `squares` are |a|^2 of the pool (p,), `cross` its products with the targets (m, p), `order` the
    random order of its places, `out` says which are banned; `gram` gives the products (m, p) of one place per
    target with all.
    """
    order = order if len(out.targets) else order[:TRIED]
    values, each = 0.5 * squares[order] - cross[:, order], np.arange(len(cross))
    tried, sample = values, values[:, :SAMPLE]
    if len(out.targets):
        closed = np.zeros(cross.shape, np.bool_)
        closed[out] = True
        values[closed[:, order]] = np.inf
        tried, sample = _first(values, TRIED), _first(values, SAMPLE)
    near = order[tried.argmin(axis=1)]
    prices = gram(near)
    prices -= cross
    here = prices[each, near]
    prices[out] = np.inf
    sample = np.sort(sample, axis=1)
    count = np.maximum(np.isfinite(sample).sum(axis=1), 1)
    median = 0.5 * (sample[each, (count - 1) // 2] + sample[each, count // 2])
    # A target none of whose pool may be used has no scale.
    known = np.isfinite(sample[:, 0])
    spread = np.where(known, median, 0.0) - np.where(known, sample[:, 0], 0.0)
    gap = np.where(known, here - prices.min(axis=1), 0.0)
    return np.asarray(np.maximum(np.maximum(gap, spread), 0.0))


def _first(values: Vector, count: int) -> Vector:
    """The first finite values of each row; others are inf."""
    finite = np.isfinite(values)
    if finite[:, :count].all():
        return values[:, :count]
    return np.where(np.cumsum(finite, axis=1) <= count, values, np.inf)


# ---------------------------------------------------------------- answers


class TargetBatch(NamedTuple):
    """Columns of a `ManyResult` for some targets."""

    indptr: Ints
    ids: Ids
    weights: Vector
    value: Vector
    lower: Vector
    goal: Vector
    codes: NDArray[np.int8]
    passes: Ints
    price: Vector
    mass: Vector


_EACH = TargetBatch._fields[3:]
"""Columns with one entry per target."""


class TargetSolver(Protocol):
    """A way to solve targets."""

    @property
    def units(self) -> Units:
        """Units of targets and rules."""

    @property
    def cap(self) -> int:
        """Most atoms that an answer can have."""

    @property
    def alone(self) -> bool:
        """Whether chunks are solved one after the other, each by all threads."""

    @property
    def quick(self) -> bool:
        """Whether a chunk takes so little time that many are written at once."""

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go, whatever the threads."""

    def solve(self, targets: Vector, banned: Banned, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units; `banned` is by rising target."""


class Goals(NamedTuple):
    """What is asked of every target, in the caller's units; `zero`: the id of the origin, or -1.

    A `ridge` is a distance, too: each atom has one more entry, sqrt(ridge), of its own, and targets have 0.
    """

    rtol: float
    atol: float
    max_atoms: int | None
    zero: int
    ridge: float = 0.0


def solve_batch(regime: TargetSolver, rows: Vector, banned: Banned, wanted: Goals) -> TargetBatch:
    """Solve some targets, (m, d) float64 rows, which are written."""
    if wanted.ridge > 0.0:
        rows = np.pad(rows, ((0, 0), (0, len(regime.units.centre) - rows.shape[1])))
    over = regime.units.convert_targets(rows)
    limit = regime.cap + 1 if wanted.max_atoms is None else wanted.max_atoms
    rules = Rules(wanted.rtol, regime.units.square_in(wanted.atol), limit)
    return _convert(regime.units, regime.solve(rows, banned, rules), over, rows, wanted)


def _convert(units: Units, found: Answers, over: Ints, targets: Vector, wanted: Goals) -> TargetBatch:
    wide = int(found.support.max(initial=0))
    ids, weights = found.ids[:, :wide], found.weights[:, :wide]
    held = (np.arange(wide) < found.support[:, None]) & (weights > 0.0) & (ids != wanted.zero)
    value, lower = units.square_up(found.value), units.square_down(found.lower)
    goal = units.square_up(found.goal)
    slack, ended = units.square_up(found.slack) + 2.0 * LEAST, over > 0
    if ended.any():
        _widen(units, over, targets, value, lower)
        slack[ended] = (value - lower)[ended]  # all of it is rounding
    if wanted.ridge > 0.0:  # the root of it was rounded
        off = 4.0 * UNIT * wanted.ridge + TINY
        value, lower, slack = value + off, np.maximum(lower - off, 0.0), slack + 2.0 * off
    lower = np.minimum(lower, value)
    # In the caller's units all may have been rounded, by underflow: what holds there is said.
    ended |= np.isin(found.codes, (PROVED, ROUNDING, STALLED))
    codes = np.where(ended, judge(value - lower, goal, slack), found.codes)
    return TargetBatch(
        np.concatenate([[0], np.cumsum(held.sum(axis=1))]),
        ids[held],
        weights[held],
        value,
        lower,
        goal,
        codes,
        found.passes,
        units.square_up(np.maximum(found.price, 0.0)),
        np.full(len(value), np.inf),
    )


def _widen(units: Units, over: Ints, targets: Vector, value: Vector, lower: Vector) -> None:
    """Bounds for targets so far away that all atoms are one point to them: |r| >= |t| (1 - 2^-400)."""
    for i in np.flatnonzero(over):
        inside = int(np.frexp(np.abs(targets[i]).max())[1])
        scaled = np.ldexp(targets[i], -inside)
        top = inside + units.exponent + int(over[i])
        half = 0.5 * float(scaled @ scaled)
        room = 2.0**-50 * (len(scaled) + 8)
        value[i] = np.ldexp(half * (1.0 + room), 2 * top)
        lower[i] = np.ldexp(half * (1.0 - room), 2 * top)


def make_unsolved(m: int, status: Status) -> TargetBatch:
    """Return the answer for targets that have none."""
    empty: Any = np.empty(0)
    return TargetBatch(
        np.zeros(m + 1, np.int64),
        empty.astype(np.int64),
        empty,
        np.full(m, np.inf),
        np.zeros(m),
        np.zeros(m),
        np.full(m, CODES[status], np.int8),
        np.zeros(m, np.int64),
        np.zeros(m),
        np.full(m, np.inf),
    )


def mark_skipped(batch: TargetBatch, skipped: NDArray[np.bool_]) -> TargetBatch:
    """Take away the answers of targets that were no targets."""
    if not skipped.any():
        return batch
    kept = np.repeat(~skipped, np.diff(batch.indptr))
    sizes = np.where(skipped, 0, np.diff(batch.indptr))
    none = make_unsolved(len(skipped), Status.SKIPPED)
    return TargetBatch(
        np.concatenate([[0], np.cumsum(sizes)]),
        batch.ids[kept],
        batch.weights[kept],
        *(np.where(skipped, getattr(none, name), getattr(batch, name)) for name in _EACH),
    )


def join_batches(batches: Sequence[TargetBatch]) -> TargetBatch:
    """Put answers for consecutive targets together."""
    batches = batches or [make_unsolved(0, Status.SKIPPED)]
    sizes = np.concatenate([np.diff(batch.indptr) for batch in batches])
    rest = (np.concatenate(column) for column in zip(*(p[1:] for p in batches), strict=True))
    return TargetBatch(np.concatenate([[0], np.cumsum(sizes)]), *rest)


# ---------------------------------------------------------------- memory


MEMORY = 4.0 * 2**30
"""Bytes to work in, unless the caller says otherwise."""

_THREADS = 4
"""Threads that are counted on: shares do not depend on how many there are, else answers would."""

_LEAST_ROWS = 64
"""Least rows of a block."""

TILE = 512
"""Atoms per product."""


@dataclass(frozen=True, slots=True, eq=False)
class PortionedAtoms:
    """Atoms that are read in blocks of at most `most` rows, whatever a pass asks for."""

    whole: Atoms
    most: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.whole.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.whole.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids."""
        return self.whole.take(ids)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        return self.whole.blocks(min(rows, self.most))


class Allotment(NamedTuple):
    """Bytes for each part."""

    kept: float  # all atoms, as codes or float32 rows
    step: float  # a subset of the ladder
    chunk: float  # what `fit_chunk` fits targets into
    rows: int  # rows of a block; 0: as many as a pass likes

    def portion(self, atoms: Atoms) -> Atoms:
        """Return atoms that are read in blocks of this size."""
        return PortionedAtoms(atoms, self.rows) if self.rows else atoms


def plan_room(atoms: Atoms, pool: int, each: int, max_memory: float) -> Allotment:
    """Share out a memory limit; ValueError, which says what would do, if it is too little.

    `pool` random atoms give the scale of rtol; a target takes `each` bytes besides the rows that its list
    names. A limit as large as the default, or larger, is not looked into.
    """
    if max_memory >= MEMORY:
        return Allotment(max_memory / 2, math.inf, max_memory, 0)
    n, d = atoms.shape
    fixed = pool * d * (atoms.dtype.itemsize + 24) + 16 * n
    # Blocks are read ahead for all threads, and each makes float64 copies.
    row = d * (atoms.dtype.itemsize * (2 * _THREADS + 2) + 32 * _THREADS)
    least = fixed + _THREADS * max(each, _LEAST_ROWS * row)
    require_room(max_memory, least)
    left = max_memory - fixed
    rows = max(_LEAST_ROWS, int(left / 6 / row))
    return Allotment(left / 3, left / 6, 4.0 * left, rows // TILE * TILE or rows)


def require_room(max_memory: float, least: int) -> None:
    """Raise ValueError if a limit, unless it is as much as by default, is less than what is needed."""
    enough = max_memory >= min(least, MEMORY)
    require(enough, "max_memory", f"at least {least:,} bytes for these atoms", f"{max_memory:,.0f}")


def weigh_listed(atoms: Atoms, listed: int) -> int:
    """Bytes of the rows that a list names, while they are read; none of rows in memory."""
    plain = isinstance(atoms, ArrayAtoms) and atoms.plain is not None
    return 0 if plain else 3 * listed * atoms.shape[1] * atoms.dtype.itemsize


def find_portion(atoms: Atoms, rows: int) -> int:
    """How many of so many rows are taken at once."""
    return min(rows, atoms.most) if isinstance(atoms, PortionedAtoms) else rows


def fit_chunk(most: int, each: int, max_memory: float) -> int:
    """At most `most` targets of `each` bytes, of which some chunks fit into a part of the memory."""
    least = 16 if max_memory >= MEMORY else 1
    return int(max(least, min(most, max_memory / 16.0 / each)))
