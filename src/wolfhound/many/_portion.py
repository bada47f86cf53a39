"""Answers for some consecutive targets, in the caller's units."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Status, Vector
from wolfhound.gram._answers import (
    LIMITED,
    LOST,
    OUT_OF_TIME,
    PROVED,
    ROUNDING,
    STALLED,
    UNFOUND,
    Answers,
    Rules,
    judge,
)
from wolfhound.gram._units import Units
from wolfhound.many.result import CODES
from wolfhound.rounding import LEAST

ENDS = np.zeros(7, np.int8)
ENDS[PROVED] = CODES[Status.GAP_REACHED]
ENDS[ROUNDING] = CODES[Status.ROUNDING]
ENDS[STALLED] = CODES[Status.STALLED]
ENDS[OUT_OF_TIME] = CODES[Status.MAX_SECONDS]
ENDS[LIMITED] = CODES[Status.FINISHED]
ENDS[UNFOUND] = CODES[Status.NOT_FOUND]
ENDS[LOST] = CODES[Status.LOST]
"""What a code of the compiled loops is called in a result."""


class Portion(NamedTuple):
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


_EACH = Portion._fields[3:]
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

    def solve(self, targets: Vector, starts: Ints, banned: Ids, rules: Rules) -> Answers:
        """Solve a chunk of targets in these units."""


class Goals(NamedTuple):
    """What is asked of every target, in the caller's units; `zero`: the id of the origin, or -1."""

    rtol: float
    atol: float
    max_atoms: int | None
    zero: int


def solve_portion(regime: TargetSolver, rows: Vector, starts: Ints, banned: Ids, wanted: Goals) -> Portion:
    """Solve some targets.

    Parameters
    ----------
    regime
        How.
    rows : (m, d) float64
        Targets; they are written.
    starts, banned
        Atoms that target i must not use are ``banned[starts[i]:starts[i + 1]]``.
    wanted
        For all of them.
    """
    over = regime.units.convert_targets(rows)
    limit = regime.cap + 1 if wanted.max_atoms is None else wanted.max_atoms
    rules = Rules(wanted.rtol, regime.units.square_in(wanted.atol), limit)
    return _convert(regime.units, regime.solve(rows, starts, banned, rules), over, rows, wanted)


def _convert(units: Units, found: Answers, over: Ints, targets: Vector, wanted: Goals) -> Portion:
    wide = int(found.support.max(initial=0))
    ids, weights = found.ids[:, :wide], found.weights[:, :wide]
    held = (np.arange(wide) < found.support[:, None]) & (weights > 0.0) & (ids != wanted.zero)
    value, lower = units.square_up(found.value), units.square_down(found.lower)
    goal = units.square_up(found.goal)
    slack, ended = units.square_up(found.slack) + 2.0 * LEAST, over > 0
    if ended.any():
        _widen(units, over, targets, value, lower)
        slack[ended] = (value - lower)[ended]  # all of it is rounding
    lower = np.minimum(lower, value)
    # In the caller's units all may have been rounded, by underflow: what holds there is said.
    ended |= np.isin(found.code, (PROVED, ROUNDING, STALLED))
    codes = ENDS[np.where(ended, judge(value - lower, goal, slack), found.code)]
    return Portion(
        np.concatenate([[0], np.cumsum(held.sum(axis=1))]),
        ids[held],
        weights[held],
        value,
        lower,
        goal,
        codes,
        found.passes,
        units.square_up(np.maximum(found.price, 0.0)),
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


def make_unsolved(m: int, status: Status) -> Portion:
    """Return the answer for targets that have none."""
    empty: Any = np.empty(0)
    return Portion(
        np.zeros(m + 1, np.int64),
        empty.astype(np.int64),
        empty,
        np.full(m, np.inf),
        np.zeros(m),
        np.zeros(m),
        np.full(m, CODES[status], np.int8),
        np.zeros(m, np.int64),
        np.zeros(m),
    )


def mark_skipped(portion: Portion, skipped: NDArray[np.bool_]) -> Portion:
    """Take away the answers of targets that were no targets."""
    if not skipped.any():
        return portion
    kept = np.repeat(~skipped, np.diff(portion.indptr))
    sizes = np.where(skipped, 0, np.diff(portion.indptr))
    none = make_unsolved(len(skipped), Status.SKIPPED)
    return Portion(
        np.concatenate([[0], np.cumsum(sizes)]),
        portion.ids[kept],
        portion.weights[kept],
        *(np.where(skipped, getattr(none, name), getattr(portion, name)) for name in _EACH),
    )


def pick_answer(portion: Portion, i: int) -> Portion:
    """Return the answer of one target."""
    here = slice(portion.indptr[i], portion.indptr[i + 1])
    columns: dict[str, Any] = {name: getattr(portion, name)[i : i + 1] for name in _EACH}
    size = np.array([0, here.stop - here.start])
    return Portion(indptr=size, ids=portion.ids[here], weights=portion.weights[here], **columns)


def replace_answers(portion: Portion, where: Sequence[int], answers: Sequence[Portion]) -> Portion:
    """Put other answers, one each, in the place of those of some targets."""
    ends = portion.indptr[1:-1]
    ids, weights = np.split(portion.ids, ends), np.split(portion.weights, ends)
    columns: dict[str, Any] = {name: getattr(portion, name).copy() for name in _EACH}
    for i, answer in zip(where, answers, strict=True):
        ids[i], weights[i] = answer.ids, answer.weights
        for name, column in columns.items():
            column[i] = getattr(answer, name)[0]
    starts = np.cumsum([0, *map(len, ids)])
    return Portion(indptr=starts, ids=np.concatenate(ids), weights=np.concatenate(weights), **columns)


def join_portions(portions: Sequence[Portion]) -> Portion:
    """Put answers for consecutive targets together."""
    portions = portions or [make_unsolved(0, Status.SKIPPED)]
    sizes = np.concatenate([np.diff(portion.indptr) for portion in portions])
    rest = (np.concatenate(column) for column in zip(*(p[1:] for p in portions), strict=True))
    return Portion(np.concatenate([[0], np.cumsum(sizes)]), *rest)
