"""minimize, and the one driver: stopping, callbacks, deadlines, the trace."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound._budget import fit_memory
from wolfhound._given import (
    Chance,
    as_names,
    as_start,
    call_by_places,
    check_kinds,
    describe_method,
    find_rows,
    pick_names,
    refuse_gaps,
)
from wolfhound.atoms import Fingerprint, as_atoms, draw_some, fingerprint, finite_rows
from wolfhound.checkpoint import Keeper
from wolfhound.core import (
    INNER,
    Atoms,
    AtomsLike,
    Ids,
    Method,
    Objective,
    Oracle,
    Progress,
    Start,
    State,
    Status,
    Vector,
)
from wolfhound.display import read_gap, show_progress
from wolfhound.methods._begin import POOL, find_scale, try_starts
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.oracles.scan import Scan
from wolfhound.progress import Cut, on_progress
from wolfhound.result import Result, Trace, TraceRow
from wolfhound.rounding import ends_in_rounding
from wolfhound.stopwatch import time_solving
from wolfhound.threads import one_blas_thread

P = TypeVar("P", bound=Progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to give up."""

    steps: float = math.inf
    passes: float = math.inf
    seconds: float = math.inf

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("steps", "passes", "seconds"):
            validate.number(getattr(self, name), f"max_{name}", low=0.0)

    def after(self, steps: int) -> Limits:
        """Limits of a run that goes on: steps count from its beginning."""
        return replace(self, steps=max(self.steps - steps, 0.0))


DEFAULT = FullyCorrective()
"""The method where none is given."""

DEFAULT_NAME = describe_method(DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[P]):
    """What `drive` saw."""

    last: P
    best: P  # the one with least value; of a run that ends STATIONARY, the last
    status: Status
    rows: list[TraceRow]  # one per state
    seconds: float  # since `began`, without those in which kernels were compiled or loaded


def drive(
    states: Iterator[P],
    *,
    goal: float,
    limits: Limits,
    stake: float = 0.0,
    callback: Callable[[P], bool | None] | None = None,
    began: float | None = None,
    spent: float = 0.0,
    keep: Callable[[Outcome[P]], None] | None = None,
) -> Outcome[P]:
    """Run a method until its gap is at most the goal, or a limit is reached.

    Deadlines and Ctrl-C are also obeyed inside a pass; the last state stays. The first state comes before
    any query. A gap that rounding keeps open is a success only if it is small beside `stake`, how much f
    varies, or beside f. A callback that returns True stops the run; `keep` is called between states with
    what was seen so far, INTERRUPTED. `began` is by ``time.perf_counter()``, now if None; `spent` are the
    seconds of the runs that this one goes on from.
    """
    log: _Log[P] = _Log(time.perf_counter() if began is None else began, spent, limits, stake)
    status = None
    try:
        with one_blas_thread(), on_progress(log.watch):
            while status is None and (state := _next(states, log)) is not None:
                status = state if isinstance(state, Status) else log.add(state, goal, callback)
                if status is None and keep is not None:
                    keep(log.run(Status.INTERRUPTED))
    except KeyboardInterrupt:
        if not log.rows:
            raise
        status = Status.INTERRUPTED
    return log.run(status)


def _next(states: Iterator[P], log: _Log[P]) -> P | Status | None:
    """Return the next state, why there is none, or None if the method is done."""
    try:
        return next(states, None)
    except Cut as cut:
        return cut.status
    except OSError:
        if not log.rows:
            raise
        return Status.LOST


class _Log(Generic[P]):
    """The states so far, and when to stop."""

    def __init__(self, began: float, spent: float, limits: Limits, stake: float) -> None:
        self.rows: list[TraceRow] = []
        self._stake, self._spent = stake, spent
        self._began, self._limits, self._stopped = began, limits, False
        self._last: P | None = None
        self._best: P | None = None

    def watch(self, swept: int) -> None:
        """Obey the callback and the deadline inside a step, once there is a state to return."""
        if self._stopped:
            raise Cut(Status.STOPPED)
        if self.rows and time.perf_counter() - self._began > self._limits.seconds:
            raise Cut(Status.MAX_SECONDS)

    def add(self, state: P, goal: float, callback: Callable[[P], bool | None] | None) -> Status | None:
        """Note a state; return why to stop, if so."""
        if math.isnan(state.value):
            raise FloatingPointError(f"f is nan at step {state.t}: is it finite on the whole hull?")
        seconds = time.perf_counter() - self._began
        inner = state.kind == INNER
        if not inner:
            self._last = state
            if self._best is None or state.value <= self._best.value:
                self._best = state
        numbers = state.t, state.value, state.lower, state.passes, state.scored
        self.rows.append(TraceRow(*numbers, self._seconds(), state.ratio, state.kind))
        self._stopped = self._stopped or (callback is not None and bool(callback(state)))
        if inner:
            return None  # nothing is proved here: the method ends the step, at once if it is to stop
        reasons = (
            (Status.GAP_REACHED, state.value - state.lower <= goal),
            (Status.STOPPED, self._stopped),
            (state.end, state.end is not None),
            (Status.MAX_STEPS, state.t - self.rows[0].t >= self._limits.steps),
            (Status.MAX_PASSES, state.passes >= self._limits.passes),
            (Status.MAX_SECONDS, seconds > self._limits.seconds),
        )
        return next((status for status, holds in reasons if holds), None)

    def run(self, status: Status | None) -> Outcome[P]:
        """Close the log; without a status the method had nothing left to do."""
        if self._last is None or self._best is None:
            raise RuntimeError("the method yielded no state")
        if status is None:
            # Rounding at the last point says nothing of a better one before.
            rounding = ends_in_rounding(self._best, self._last.lower, self._stake)
            status = Status.ROUNDING if rounding else Status.STALLED
        # A point is known to be stationary where that was proved, not where f is least.
        best = self._last if status is Status.STATIONARY else self._best
        return Outcome(last=self._last, best=best, status=status, rows=self.rows, seconds=self._seconds())

    def _seconds(self) -> float:
        return self._spent + time_solving(self._began)


def minimize(
    objective: Objective,
    atoms: Oracle | AtomsLike,
    *,
    method: Method | None = None,
    rtol: float = 1e-6,
    atol: float = 0.0,
    max_steps: float = math.inf,
    max_passes: float = math.inf,
    max_seconds: float = math.inf,
    max_memory: float | str | None = None,
    exclude: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    start: Result | tuple[ArrayLike, ArrayLike] | None = None,
    callback: Callable[[State], bool | None] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: bool | None = None,
    seed: int | np.random.Generator = 0,
) -> Result:
    """Minimise a smooth f over the convex hull of the atoms, with a proved gap.

    Parameters
    ----------
    objective
        f, e.g. `SquaredDistance(target)`.
    atoms : oracle, atoms, (n, d) array, table, path, or a list of paths
        Anything but an oracle is searched by `Scan`. A frame becomes atoms as `encode` has it; rows
        with missing values are left out, and ids are those of the frame.
    method
        `FullyCorrective()` by default.
    rtol, atol
        The goal is a gap of at most ``max(rtol * scale, atol)``, where scale is
        the larger of the Frank-Wolfe gap at a cold start over a random pool, and
        median minus minimum of f over some of its atoms.
    max_steps, max_passes, max_seconds
        Limits; the best point so far is returned with its status.
    max_memory
        Bytes, or a text such as "1GB", to work in, besides atoms in memory, f, and Python with
        its libraries: for blocks, harvest, screening and pool. Not for an oracle, which has
        its own. Default: no limit.
    exclude : (e,) ids, optional
        Atoms that must not be used.
    names : n strings, optional
        The result carries those of its active atoms.
    start : Result or (ids, weights), optional
        Warm start. Its lower bound is not taken over. Where the run ends there without a proof, or f is
        not finite there, it goes on from a cold start: the better of both is returned.
    callback
        Called with every `State`; returning True stops.
    checkpoint : path, optional
        A file that is written after every pass. The same call with the same file goes on
        from there, or returns the result of a run that has ended; `max_steps` and
        `max_passes` count the whole run, `max_seconds` this call. Other atoms, another
        objective, method or option is refused; for that all atoms are read once, and hashed.
    progress
        Whether to show on stderr how far it is; None: on a terminal or in a notebook, after two seconds.
    seed
        Of the random pool. The same seed gives the same answer.

    Returns
    -------
    Result
        With ``lower <= min f <= value``, rounding included. Only rows that were
        read are checked for nan.

    Examples
    --------
    The point of the simplex closest to (1, 0.2, 0):

    >>> from wolfhound import SquaredDistance
    >>> result = minimize(SquaredDistance([1.0, 0.2, 0.0]), np.eye(3))
    >>> result.x.round(6)
    array([0.9, 0.1, 0. ])
    """
    began = time.perf_counter()
    table = find_rows(atoms)
    if table is not None:
        refuse_gaps(table, checkpoint, "checkpoint")
        options: dict[str, Any] = {
            "method": method,
            "rtol": rtol,
            "atol": atol,
            "max_steps": max_steps,
            "seed": seed,
            "max_passes": max_passes,
            "max_seconds": max_seconds,
            "max_memory": max_memory,
        }
        options |= {"exclude": exclude, "names": names, "start": start, "callback": callback}
        options["progress"] = progress
        given = call_by_places(table, options | {"checkpoint": checkpoint})
        found = minimize(objective, table.atoms, **given)
        return replace(found, ids=table.name_rows(found.ids), fingerprint=fingerprint(table))
    limits = Limits(steps=max_steps, passes=max_passes, seconds=max_seconds)
    rtol, atol = validate.number(rtol, "rtol", low=0.0), validate.number(atol, "atol", low=0.0)
    method = DEFAULT if method is None else method
    check_kinds(objective, method, start, callback)
    oracle, method = _as_oracle(atoms, method, max_memory)
    n, d = oracle.atoms.shape
    validate.require(objective.dim in (None, d), "atoms", f"rows of {objective.dim} entries", f"{d}")
    names = as_names(names, n)
    banned = np.empty(0, np.int64) if exclude is None else validate.ids(exclude, "exclude", n)
    # Before the run: afterwards the atoms may no longer be readable.
    source, what = fingerprint(oracle.atoms), (repr(objective), _name(method))
    chance, warm = Chance(seed), as_start(start, n, banned)
    decided = {"rtol": rtol, "atol": atol, "exclude": banned, "start": warm, "seed": chance}
    keeper = Keeper(checkpoint, source).open(objective, method, decided, oracle.atoms)
    if keeper.ended is not None:
        return replace(keeper.ended, names=pick_names(names, keeper.ended.ids))
    # An interior target needs 4d random atoms around it; a Newton model starts well from fewer.
    least = 4 * d if objective.quadratic else 0
    with one_blas_thread():
        drawn = _pool(oracle.atoms, banned, least, chance)
        begun = method.begin(objective, drawn, chance.generator)
        first, *others = _starts(begun, warm, oracle.atoms)
        scale, stake = find_scale(objective, (first, *others))
        goal = max(atol, rtol * scale)
    starts = (keeper.restart(first), *others)
    states = try_starts(method, objective, oracle, starts, goal=goal, stake=stake, rng=chance.generator)

    def finish(run: Outcome[State]) -> Result:
        return _result(_describe(run, goal), source, names, what)

    with show_progress(progress, read_gap(n, goal, d * oracle.atoms.dtype.itemsize), callback) as hear:
        run = drive(
            states,
            goal=goal,
            limits=limits.after(keeper.steps),
            stake=stake,
            callback=hear,
            began=began,
            spent=keeper.seconds,
            keep=keeper.keep(finish),
        )
    return keeper.end(run, finish)


def _starts(begun: Start, warm: tuple[Ids, Vector, int] | None, atoms: Atoms) -> list[Start]:
    """A cold start, after the warm one if there is one."""
    if warm is None:
        return [begun]
    ids, weights, t = warm
    return [replace(begun, ids=ids, weights=weights, rows=finite_rows(atoms, ids), t=t), begun]


def _name(method: Method) -> str:
    return DEFAULT_NAME if method is DEFAULT else describe_method(method)


def _as_oracle(value: Any, method: Method, max_memory: float | str | None) -> tuple[Oracle, Method]:
    if max_memory is None:
        return (value if validate.is_oracle(value) else Scan(as_atoms(value))), method
    rule = "None for an oracle, which has its own memory: give the atoms, or Scan(atoms, max_memory=...)"
    validate.require(not validate.is_oracle(value), "max_memory", rule, max_memory)
    return fit_memory(as_atoms(value), method, max_memory)


def _pool(atoms: Atoms, exclude: NDArray[np.int64], least: int, chance: Chance) -> Start:
    """Draw the random pool; ids, because files may be ordered."""
    n, size = atoms.shape[0], max(POOL, least) + len(exclude)
    drawn = draw_some(n, size, chance.generator) if size < n else np.arange(n)
    ids = chance.shuffle(drawn[~np.isin(drawn, exclude)] if len(exclude) else drawn)
    validate.require(len(ids) > 0, "exclude", "fewer than all atoms", f"{len(exclude)} of {n}")
    rows = finite_rows(atoms, ids)
    return Start(ids=ids[:0], weights=np.empty(0), rows=rows[:0], pool_ids=ids, pool=rows, exclude=exclude)


def _describe(run: Outcome[State], goal: float) -> dict[str, Any]:
    best, last = run.best, run.last
    return {
        "x": best.point.x,
        "ids": best.ids,
        "weights": best.weights,
        "value": best.value,
        "lower": last.lower,
        "status": run.status,
        "goal": goal,
        "steps": last.t,
        "passes": last.passes,
        "scored": last.scored,
        "seconds": run.seconds,
        "trace": Trace.of(run.rows),
    }


def _result(
    found: dict[str, Any], source: Fingerprint, names: Sequence[str] | None, what: tuple[str, str]
) -> Result:
    known = pick_names(names, found["ids"])
    return Result(**found, names=known, fingerprint=source, objective=what[0], method=what[1])
