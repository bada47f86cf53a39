"""Checkpoints: what a run needs to go on after a pass, in one file, whole or not there.

Nothing that is read from one is believed to be proved. A run that goes on evaluates f at
the weights that were kept, and proves its lower bound again, in the first pass that it
makes anyway.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from wolfhound.core.contracts import (
    Atoms,
    AtomsLike,
    Ids,
    Method,
    Objective,
    Start,
    State,
    Status,
    Vector,
    WeightSet,
)
from wolfhound.core.identity import identify, is_known
from wolfhound.core.validate import LARGEST, require
from wolfhound.data import store
from wolfhound.data.atoms import Fingerprint, finite_rows
from wolfhound.data.codec import FINITE, Array, Codec, Json, Scalar, check_weights
from wolfhound.methods.asking import add_paid
from wolfhound.methods.atom_sets import SCALED, ActiveSet, mix
from wolfhound.solve.driver import Outcome
from wolfhound.solve.result import Result, TraceRow, sums_to_one

KIND = "checkpoint"

_MOST = 2.0**62  # no counter of a run gets there
_SAME = 1e-6  # relative difference of two values of one f at one point: rounding, and much more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Checkpoint(Result):
    """The result of a run so far, INTERRUPTED until it has ended, with what it needs to go on.

    `wolfhound.load` gives one, also while the run goes on; `save` keeps the result alone.
    """

    active_ids: Ids  # where the run was; `ids` and `weights` are its best point
    active_weights: Vector
    pool_ids: Ids  # atoms that the method keeps close
    proof: Vector | None  # where `lower` was proved
    estimate: float  # what the step rule remembers; nan: nothing
    settings: Mapping[str, str]  # what tells this run from others

    @classmethod
    def of(cls, result: Result, last: State, settings: Mapping[str, str]) -> Checkpoint:
        """Join a result and the last state of its run."""
        return cls(
            **_list_fields(result),
            active_ids=last.ids,
            active_weights=last.weights,
            pool_ids=np.empty(0, np.int64) if last.pool_ids is None else last.pool_ids,
            proof=last.proof,
            estimate=math.nan if last.estimate is None else last.estimate,
            settings=settings,
        )

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Checkpoint:
        """Read a checkpoint, as `Result.load` reads a result: what was proved is not proved again."""
        return CODEC.load(path, atoms)

    def restart(self, atoms: Atoms, cold: Start) -> Start:
        """Return where the run goes on; rows are read again."""
        return replace(
            cold,
            ids=self.active_ids,
            weights=_scale(self.active_weights, cold.over),
            rows=finite_rows(atoms, self.active_ids),
            pool_ids=self.pool_ids,
            pool=finite_rows(atoms, self.pool_ids),
            t=self.steps,
            passes=self.passes,
            scored=self.scored,
            estimate=None if math.isnan(self.estimate) else self.estimate,
            lower=self.lower,
            proof=self.proof,
        )

    def evaluate(self, objective: Objective, atoms: Atoms, over: WeightSet | None = None) -> State:
        """Return the best point, evaluated again: no lower bound; StoreError if f is another there."""
        rows = finite_rows(atoms, self.ids)
        if over is None:
            active = ActiveSet(self.ids, self.weights, rows)
            point = objective.at(active.x, active.drift)
        else:
            x, drift = mix(self.weights, rows.astype(np.float64))
            point = add_paid(over, objective.at(x, drift), self.weights)
        away, size = abs(point.upper - self.value), max(abs(point.upper), abs(self.value))
        close = size < math.inf and away <= self.goal + _SAME * size
        if not (close or point.upper == self.value):
            now = f"f = {point.upper:g} where it was {self.value:g}"
            raise store.StoreError(f"`checkpoint` must be new, or of the same objective. Got {now}.")
        return State(
            t=self.steps,
            point=point,
            lower=-math.inf,
            ids=self.ids,
            weights=_scale(self.weights, over),
            passes=self.passes,
            scored=self.scored,
            ratio=math.nan,
            slack=math.inf,
            kind="start",
        )

    def result(self, best: State) -> Result:
        """Return the result of a run that has ended; its lower bound is read, not proved again."""
        proved = {"value": best.value, "lower": min(self.lower, best.value)}
        return Result(**(_list_fields(self) | {"x": best.point.x, "weights": best.weights} | proved))


def _list_fields(result: Result) -> dict[str, Any]:
    """What a checkpoint and its result have in common."""
    return {field.name: getattr(result, field.name) for field in fields(Result)}


def _scale(weights: Vector, over: WeightSet | None) -> Vector:
    """Weights of sum 1, where that is the set; those that were scaled before stay as they were."""
    total = float(weights.sum())
    return weights if over is not None or abs(total - 1.0) <= SCALED else weights / total


def _check(found: Checkpoint) -> None:
    Result.codec.check(found)
    for ids, weights in ((found.ids, found.weights), (found.active_ids, found.active_weights)):
        require(len(np.unique(ids)) == len(ids) > 0, "ids", "distinct", "repeated ids, or none")
        if sums_to_one(found.over):
            check_weights(weights)
    require(len(np.unique(found.pool_ids)) == len(found.pool_ids), "pool_ids", "distinct", "repeated ids")
    sizes = found.steps, found.scored, found.passes, found.seconds
    require(all(not size > _MOST for size in sizes), "counters", "moderate", sizes)
    require(not math.isinf(found.estimate), "estimate", "finite", found.estimate)
    reached = found.status is Status.GAP_REACHED
    require(not reached or found.gap <= found.goal, "gap", "<= goal, as it was reached", found.gap)
    require(len(found.trace) > 0, "trace", "not empty", "no states")


CODEC = Codec(
    KIND,
    Checkpoint,
    {
        **Result.codec.fields,
        "active_ids": Array(shape=("active",), dtype=np.int64, low=0, below="n"),
        "active_weights": Array(shape=("active",), low=0.0, high=FINITE),
        "pool_ids": Array(shape=("pool",), dtype=np.int64, low=0, below="n"),
        "proof": Array(shape=("d",), low=-LARGEST, high=LARGEST, optional=True),
        "estimate": Scalar.NUMBER,
        "settings": Json(dict, lambda read: {str(name): str(text) for name, text in dict(read).items()}),
    },
    _check,
)
"""How checkpoints are saved."""


# ---------------------------------------------------------------- the file of a run

Finish: TypeAlias = Callable[[Outcome[State]], Result]
"""Makes a result of what a driver has seen of a run."""


class CheckpointWriter:
    """Writes the file of one run after every pass, and says where a run goes on that was in it before.

    `ended` is its result if the run did already what was asked; `steps` and `seconds` are those so far.
    """

    def __init__(
        self, file: str | PathLike[str], objective: Objective, method: Method, options: Mapping[str, Any]
    ) -> None:
        self._given, self._file = file, store.place(file, "checkpoint")
        self._objective, self._exclude, self._over = objective, options["exclude"], options.get("over")
        # What tells runs over the same atoms apart, as a number or a digest. Objectives and methods are known
        # by class and public fields: a function of the caller by its name, so that only its value at the best
        # point tells whether it is still the same.
        self._settings = {"objective": identify(objective), "method": identify(method)}
        for name, value in options.items():
            self._settings[name] = repr(value) if isinstance(value, float) else identify(value)
        self._start: Callable[[Start], Start] | None = None
        self._best: State | None = None
        self._rows: list[TraceRow] = []
        self._passes = -1.0
        self.ended: Result | None = None
        self.steps, self.seconds = 0, 0.0

    def open(self, atoms: Atoms, source: Fingerprint) -> CheckpointWriter:
        """Read how far the run is; StoreError, which says what differs, if the file is of another."""
        with self._naming():
            store.check_free(str(self._given), KIND)  # before anything is solved
            if not self._file.exists():
                return self
            found = Checkpoint.load(self._file)
        self._compare(found, source)
        self._best = found.evaluate(self._objective, atoms, self._over)
        self._start = functools.partial(found.restart, atoms)
        self._rows, self._passes = list(found.trace), found.passes
        self.steps, self.seconds = found.steps - self._rows[0].t, found.seconds
        # Of a function only the name is known: such a run goes on, and proves its bound again.
        if found.success and is_known(self._objective):
            self.ended = found.result(self._best)
            return self
        with self._naming():  # lest a file that can no longer be written costs a pass
            CODEC.save(found, self._file)
        return self

    def restart(self, begun: Start) -> Start:
        """Where the run goes on; if it is new, where it begins."""
        return begun if self._start is None else self._start(begun)

    def write_due(self, finish: Finish, run: Outcome[State]) -> None:
        """Write what was seen so far after every pass; at the start, lest a file that cannot be costs one."""
        if self._passes < 0.0 or run.last.passes >= self._passes + 1.0:
            self._write(finish(self._join(run)), run.last)

    def end(self, finish: Finish, run: Outcome[State]) -> Result:
        """Return the result; keep it, unless it has won nothing since the file was written."""
        result = finish(self._join(run))
        if result.success or run.last.passes > self._passes:
            self._write(result, run.last)
        return result

    def _join(self, run: Outcome[State]) -> Outcome[State]:
        """The whole run: what was seen now, and before."""
        best = run.best if self._best is None or self._best.value >= run.best.value else self._best
        return replace(run, best=best, rows=[*self._rows, *run.rows])

    def _write(self, result: Result, last: State) -> None:
        if len(last.ids) == 0:
            return  # the origin need not lie in the hull
        with self._naming():
            CODEC.save(Checkpoint.of(result, last, self._settings), str(self._file))
        self._passes = last.passes

    def _compare(self, found: Checkpoint, source: Fingerprint) -> None:
        rule = "`checkpoint` must be new, or hold a run of the same atoms, objective, method and options."
        if found.fingerprint != source:
            raise store.StoreError(f"{rule} Got other atoms in {self._file}.")
        for name, value in self._settings.items():
            there = found.settings.get(name, "")
            if there != value:
                got = f"{name} = {there}" if name in ("rtol", "atol") else f"another {name}"
                raise store.StoreError(f"{rule} Got {got} in {self._file}.")
        if np.isin(np.concatenate([found.ids, found.active_ids, found.pool_ids]), self._exclude).any():
            raise store.StoreError(f"{self._file} is damaged: it uses atoms that are excluded.")

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Call the file what the caller calls it."""
        try:
            yield
        except store.StoreError as error:
            raise store.StoreError(str(error).replace("`path`", "`checkpoint`", 1)) from None
        except OSError as error:
            rule = "`checkpoint` must be a file that can be written."
            why = error.strerror or error
            raise OSError(f"{rule} Got {self._file}: {why}. What it held before is still there.") from None
