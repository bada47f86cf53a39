"""Lists of objectives over the same atoms: what is a distance becomes one, others share passes.

Every other objective is minimised by `FullyCorrective` in a thread of its own, and these
meet at the oracle: once all that are under way have asked, all are answered by one
question. What each asks does not depend on how fast the others are.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wolfhound.atoms import as_atoms, finite_rows
from wolfhound.core import INNER, Atoms, Hits, Ids, Matrix, Objective, Oracle, Start, State, Status, Vector
from wolfhound.gram._answers import judge
from wolfhound.many._given import Excluded
from wolfhound.many._portion import ENDS, Portion, join_portions, make_unsolved
from wolfhound.many.result import CODES, ManyResult
from wolfhound.methods._begin import find_scale
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.objectives.quadratic import LeastSquares, SquaredDistance
from wolfhound.progress import Cut
from wolfhound.rounding import TINY, ends_in_rounding, gamma
from wolfhound.threads import one_blas_thread
from wolfhound.validate import kind, require

T = TypeVar("T")

TOGETHER = 32
"""Objectives that share passes; each keeps some thousand rows."""


def is_list_of_objectives(targets: Any) -> bool:
    """Whether these are objectives rather than points."""
    return isinstance(targets, (list, tuple)) and len(targets) > 0 and hasattr(targets[0], "at")


class Lifted(NamedTuple):
    """Least squares as distances: points b, atoms A a, and how far these are from the true ones."""

    targets: Vector
    atoms: Atoms
    off: float


def read_objectives(objectives: Sequence[Any], d: int) -> list[Objective]:
    """Check objectives over atoms of dimension d."""
    for i, each in enumerate(objectives):
        what = "an objective such as SquaredDistance(target)"
        kind(each, f"targets[{i}]", what, "dim", "quadratic", "at", "values", "line", "lift")
        require(each.dim in (None, d), f"targets[{i}]", f"of dimension {d}, as the atoms", each.dim)
    return list(objectives)


def as_points(objectives: Sequence[Objective]) -> Vector | None:
    """Targets of squared distances; None if one is something else."""
    points = [each.target for each in objectives if isinstance(each, SquaredDistance)]
    return np.stack(points) if len(points) == len(objectives) else None


def lift_shared(objectives: Sequence[Objective], atoms: Atoms, memory: float) -> Lifted | None:
    """Least squares that share a design which is not tall, as distances; None for others.

    Each A a is computed with an error of at most gamma_d |A| |a|, by which every distance may be off.
    """
    squares = [each for each in objectives if isinstance(each, LeastSquares)]
    design = squares[0].design if len(squares) == len(objectives) else np.empty((0, 0))
    p, (n, d) = len(design), atoms.shape
    shared = all(each.design is design or np.array_equal(each.design, design) for each in squares)
    if not (shared and 0 < p <= 2 * d and 8 * n * p <= memory / 2):
        return None
    lifted, longest = np.empty((n, p)), 0.0
    with one_blas_thread():
        for first, block in atoms.blocks(max(1, (1 << 22) // d)):
            rows = np.asarray(block, np.float64)
            lifted[first : first + len(rows)] = rows @ design.T
            longest = max(longest, float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max())))
    off = 1.01 * gamma(d + 8) * float(np.sqrt((design * design).sum())) * longest
    return Lifted(np.stack([each.response for each in squares]), as_atoms(lifted), off)


def widen(value: Vector, lower: Vector, off: Vector | float) -> tuple[Vector, Vector]:
    """Value and bound of a squared distance whose atoms and target may be off by so much, together."""
    up, down = 1.0 + 1e-15, 1.0 - 1e-15
    far = np.sqrt(2.0 * value) * up + off
    near = np.maximum(np.sqrt(2.0 * lower) * down - off, 0.0)
    return 0.5 * far * far * up * up + TINY, np.maximum(0.5 * near * near * down * down - TINY, 0.0)


def widen_result(result: ManyResult, off: float) -> dict[str, Any]:
    """Values, bounds and codes of a result for atoms that may be off by so much."""
    value, lower = widen(result.value, result.lower, off)
    gap, rounding = value - lower, (value - result.value) + (result.lower - lower)
    lost = (result.codes == CODES[Status.GAP_REACHED]) & (gap > result.goal)
    codes = np.where(lost, ENDS[judge(gap, result.goal, rounding)], result.codes)
    return {"value": value, "lower": lower, "codes": codes}


# ---------------------------------------------------------------- shared passes


class _Question(NamedTuple):
    queries: Matrix
    k: int
    thresholds: Vector | None
    exclude: Ids | None


class Meeting:
    """Where runs wait until all of them have asked.

    Parameters
    ----------
    oracle
        Who is asked.
    runs
        How many there are; each leaves when it is over.
    """

    def __init__(self, oracle: Oracle, runs: int) -> None:
        self._oracle, self._runs = oracle, runs
        self._changed, self._stopped = threading.Condition(), False
        self._asked: dict[int, _Question] = {}
        self._answers: dict[int, Hits | BaseException] = {}

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._oracle.atoms

    def leave(self) -> None:
        """Be waited for no longer."""
        with self._changed:
            self._runs -= 1
            self._answer()

    def stop(self) -> None:
        """Let every run end at its next question."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def ask(self, run: int, question: _Question) -> Hits:
        """Answer the question of a run, together with all others."""
        with self._changed:
            self._asked[run] = question
            self._answer()
            while not (self._stopped or run in self._answers):
                self._changed.wait()
            found = self._answers.pop(run, Cut(Status.INTERRUPTED))
        if isinstance(found, BaseException):
            raise found
        return found

    def _answer(self) -> None:
        if self._stopped or not self._asked or len(self._asked) < self._runs:
            return
        runs = sorted(self._asked)
        asked = [self._asked[run] for run in runs]
        self._asked.clear()
        try:
            found: list[Any] = _ask_together(self._oracle, asked)
        except BaseException as error:
            found = [error] * len(runs)
        self._answers |= dict(zip(runs, found, strict=True))
        self._changed.notify_all()


def _ask_together(oracle: Oracle, asked: Sequence[_Question]) -> list[Hits]:
    """Answer several questions by one."""
    wide = max(0 if each.exclude is None else each.exclude.shape[1] for each in asked)
    exclude = np.full((sum(len(each.queries) for each in asked), wide), -1, np.int64)
    limits = np.full(len(exclude), np.inf)
    ends = np.cumsum([0, *(len(each.queries) for each in asked)])
    for each, first, last in zip(asked, ends, ends[1:], strict=False):
        if each.exclude is not None:
            exclude[first:last, : each.exclude.shape[1]] = each.exclude
        if each.thresholds is not None:
            limits[first:last] = each.thresholds
    hits = oracle.query(
        np.concatenate([each.queries for each in asked]),
        k=max(each.k for each in asked),
        thresholds=None if np.isinf(limits).all() else limits,
        exclude=exclude if wide else None,
    )
    return [_part(hits, slice(*ends[i : i + 2]), each.k) for i, each in enumerate(asked)]


def _part(hits: Hits, here: slice, k: int) -> Hits:
    return Hits(
        ids=hits.ids[here, :k],
        scores=hits.scores[here, :k],
        bounds=hits.bounds[here],
        rows=hits.rows,
        slots=hits.slots[here, :k],
        scored=hits.scored[here],
        passes=hits.passes,
        radius=hits.radius,
    )


@dataclass(frozen=True, slots=True)
class _Seat:
    """The oracle as one run sees it."""

    meeting: Meeting
    run: int

    @property
    def atoms(self) -> Atoms:
        return self.meeting.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        return self.meeting.ask(self.run, _Question(queries, k, thresholds, exclude))


# ---------------------------------------------------------------- runs


class ObjectiveGoals(NamedTuple):
    """What is asked of every objective: the goal, the random atoms, when to stop."""

    rtol: float
    atol: float
    pool: Ids
    over: Callable[[], bool]


def run_together(oracle: Oracle, runs: Sequence[Callable[[Oracle], T]]) -> list[T]:
    """Let each run ask the oracle from a thread of its own: what they ask at a time is one question."""
    meeting = Meeting(oracle, len(runs))

    def run(i: int) -> T:
        try:
            return runs[i](_Seat(meeting, i))
        finally:
            meeting.leave()

    with one_blas_thread(), ThreadPoolExecutor(len(runs)) as pool:
        try:
            return list(pool.map(run, range(len(runs))))
        except BaseException:
            meeting.stop()
            raise


def solve_objectives(
    objectives: Sequence[Objective], oracle: Oracle, excluded: Excluded, wanted: ObjectiveGoals, first: int
) -> Portion:
    """Minimise some objectives, in step.

    Parameters
    ----------
    objectives
        At most `TOGETHER`.
    oracle
        Who is asked.
    excluded
        Of all objectives; these are those from `first` on.
    wanted
        Of each.
    """
    starts, banned = excluded.read(first, first + len(objectives))

    def begin(i: int) -> Callable[[Oracle], Portion]:
        return lambda oracle: _minimise(objectives[i], oracle, banned[starts[i] : starts[i + 1]], wanted)

    return join_portions(run_together(oracle, [begin(i) for i in range(len(objectives))]))


def _minimise(objective: Objective, oracle: Oracle, banned: Ids, wanted: ObjectiveGoals) -> Portion:
    """One objective, as `minimize` does it."""
    method = FullyCorrective()
    ids = wanted.pool[~np.isin(wanted.pool, banned)]
    if not len(ids):  # of an objective that may use few atoms, all of which are others
        ids = np.setdiff1d(np.arange(oracle.atoms.shape[0]), banned)[: len(wanted.pool)]
    require(len(ids) > 0, "exclude", "fewer than all atoms", f"{len(banned)} atoms")
    rows = finite_rows(oracle.atoms, ids)
    none = Start(ids=ids[:0], weights=np.empty(0), rows=rows[:0], pool_ids=ids, pool=rows, exclude=banned)
    start = method.begin(objective, none, np.random.default_rng(0))
    scale, stake = find_scale(objective, (start,))
    goal = max(wanted.atol, wanted.rtol * scale)
    ended = run_method(method, objective, oracle, start, goal=goal, stake=stake, over=wanted.over)
    return make_unsolved(1, Status.MAX_SECONDS) if ended is None else _as_portion(ended, goal)


class Ended(NamedTuple):
    """The state of least value, the last one, and why the run ended there."""

    best: State
    last: State
    status: Status


def run_method(
    method: FullyCorrective,
    objective: Objective,
    oracle: Oracle,
    start: Start,
    *,
    goal: float,
    stake: float,
    over: Callable[[], bool],
) -> Ended | None:
    """Run a method to a gap of `goal`, or until time is over; None if it had no state by then.

    The stake is that of `wolfhound.rounding.ends_in_rounding`.
    """
    best: State | None = None
    last: State | None = None
    status = None
    try:
        for state in method.states(objective, oracle, start, goal=goal, rng=np.random.default_rng(0)):
            if state.kind == INNER:
                continue
            last = state
            best = state if best is None or state.value <= best.value else best
            status = _judge(best, state, goal, over)
            if status is not None:
                break
    except Cut as cut:
        status = cut.status
    except OSError:
        if last is None:
            raise
        status = Status.LOST
    if best is None or last is None:
        return None
    if status is None:
        status = Status.ROUNDING if ends_in_rounding(best, last.lower, stake) else Status.STALLED
    return Ended(best, last, status)


def _judge(best: State, state: State, goal: float, over: Callable[[], bool]) -> Status | None:
    if best.value - state.lower <= goal:
        return Status.GAP_REACHED
    if state.end is not None:
        return state.end
    return Status.MAX_SECONDS if over() else None


def sort_atoms(state: State) -> tuple[Ids, Vector]:
    """Atoms of positive weight and their weights, the largest first, equal ones by id."""
    order = np.lexsort((state.ids, -state.weights))
    order = order[state.weights[order] > 0.0]
    return state.ids[order], state.weights[order]


def _as_portion(ended: Ended, goal: float) -> Portion:
    best, last, status = ended
    ids, weights = sort_atoms(best)
    return Portion(
        np.array([0, len(ids)]),
        ids,
        weights,
        np.array([best.value]),
        np.array([min(last.lower, best.value)]),
        np.array([goal]),
        np.array([CODES[status]], np.int8),
        np.array([math.ceil(last.passes)]),
        np.zeros(1),
    )
