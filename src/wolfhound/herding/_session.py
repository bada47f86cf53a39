"""A run of kernel herding from its settings, and going on with one."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import Fingerprint, as_atoms, fingerprint
from wolfhound.core import Atoms, AtomsLike, Ids, Progress, Status, Vector
from wolfhound.herding._arguments import shares_of
from wolfhound.herding._by import Labels
from wolfhound.herding._flock import Flock, Picks, states
from wolfhound.herding._reference import Known
from wolfhound.herding._report import Subject, evaluated, skipped
from wolfhound.herding._task import Task, digest_of, gather
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.result import HerdResult
from wolfhound.result import Trace
from wolfhound.solve import Limits, Run, drive
from wolfhound.store import StoreError

Callback = Callable[[Progress], bool | None]

_EVALUATION = 1 << 20
"""Second word of the seed of an evaluation; embeddings have the number of their label."""


# ---------------------------------------------------------------- runs


def run(
    task: Task,
    m: int,
    *,
    begun: Ids,
    make: Callable[[], Flock],
    max_seconds: float,
    callback: Callback | None,
    began: float,
) -> HerdResult:
    """Pick until there are m rows, weight and evaluate them.

    Parameters
    ----------
    task
        What decides the run.
    m
        Rows in all.
    begun
        Rows that the flock will have.
    make
        Makes the flock.
    max_seconds, callback
        As in `herd`.
    began
        ``time.perf_counter()`` at the start.
    """
    flocks: list[Flock] = []
    lost: list[OSError] = []

    def made() -> Flock:
        try:
            flocks.append(make())
        except OSError as error:
            lost.append(error)
            raise
        return flocks[0]

    driven = drive(
        states(made, m, begun=begun, swap=task.swap),
        goal=0.0,
        limits=Limits(seconds=max_seconds),
        callback=callback,
        began=began,
    )
    if driven.last.kind == "start":
        nothing(driven.status, max_seconds, lost)
    flock = flocks[0]
    if not np.array_equal(flock.ids, driven.last.ids) or driven.status is Status.INTERRUPTED:
        flock = flock.again(driven.last.ids)  # Ctrl-C may have come between two of its numbers
    return _result(task, flock, driven, began)


def nothing(status: Status, max_seconds: float, lost: Sequence[OSError] = ()) -> None:
    """Raise: there is no pick to return."""
    if lost:
        raise lost[0]
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if status is Status.STOPPED:
        raise RuntimeError("the callback stopped the run before the first pick")
    raise TimeoutError(
        f"`max_seconds` = {max_seconds:g} was over before the first pick: the rows must be read once."
        " Raise it, or ask `expected` first."
    )


def _result(task: Task, flock: Flock, driven: Run[Picks], began: float) -> HerdResult:
    ids = flock.ids.copy()
    weights = flock.fitted() if task.weights else flock.equal(flock.size)
    seconds = time.perf_counter() - began
    report = evaluated(_subject(task, flock, weights), _evaluation(task)) if task.evaluate else skipped()
    return HerdResult(
        ids=ids,
        weights=weights,
        mmd=report.mmd,
        mmd_random=report.mmd_random,
        mmd_random_spread=report.mmd_random_spread,
        mmd_by=None if task.labels is None or not task.evaluate else flock.within(weights),
        reference=report.reference,
        seconds=seconds,
        evaluation_seconds=report.evaluation_seconds,
        passes=driven.last.passes,
        scored=driven.last.scored,
        status=driven.status,
        trace=Trace.of(driven.rows),
        kernel=task.kernel,
        space=in_words(task.kernel),
        labels=None if task.labels is None else task.labels.values[ids],
        fingerprint=fingerprint(task.rows),
        measured=report.measured,
        record=task.record(),
        session=Kept(task=task, ids=ids, flock=flock),
    )


def in_words(kernel: Kernel) -> str:
    """Name of a kernel, its lengthscale to four digits."""
    length = getattr(kernel, "lengthscale", None)
    return repr(kernel) if length is None else f"{type(kernel).__name__}(lengthscale={length:.4g})"


def _evaluation(task: Task) -> np.random.Generator:
    return np.random.default_rng([task.seed, _EVALUATION])


def _subject(task: Task, flock: Flock, weights: Vector) -> Subject:
    known = Known(
        target=task.rows if task.target is None else task.target,
        row_weights=task.row_weights,
        kernel=task.kernel,
        embeddings=flock.embeddings,
        shares=flock.shares,
        features=flock.features,
        used=flock.used,
    )
    return Subject(
        rows=task.rows,
        known=known,
        ids=flock.ids,
        weights=weights,
        prefix=None if task.labels is None else flock.equal,
        exclude=task.exclude,
    )


# ---------------------------------------------------------------- going on


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """A run that can go on; pickled, it is None: rows are not copied along.

    Attributes
    ----------
    task : Task
        What decides it.
    ids : (k,)
        Rows so far.
    flock : Flock, optional
        Their scores; None: made anew.
    """

    task: Task
    ids: Ids
    flock: Flock | None

    @property
    def rows(self) -> Atoms:
        """The rows that were herded."""
        return self.task.rows

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> HerdResult:
        """Go on to m rows."""
        began = time.perf_counter()
        most = len(self.task.init) + sum(self.task.counts)
        size = validate.count(m, "m", low=1)
        rule = f"more than the {len(self.ids)} rows so far, at most the {most} candidates"
        validate.require(len(self.ids) < size <= most, "m", rule, m)
        return run(
            self.task,
            size,
            begun=self.ids,
            make=self._flock,
            max_seconds=max_seconds,
            callback=callback,
            began=began,
        )

    def _flock(self) -> Flock:
        if self.flock is not None:
            return self.flock.copy()
        flock = gather(self.task)
        flock.replay(self.ids[flock.held :])
        return flock

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Pickle as None."""
        return _none, ()


def _none() -> None:
    """Stand for what is not pickled."""


def resumed(
    result: HerdResult,
    rows: AtomsLike | None,
    *,
    target: AtomsLike | None,
    by: ArrayLike | None,
    row_weights: ArrayLike | None,
) -> Kept:
    """Return the run of a loaded result, given again what it was made from."""
    record, kernel = result.record, result.kernel
    if record is None or kernel is None:
        raise ValueError(f"a loaded result in {result.space} cannot go on: call herd with its ids as `init`.")
    if rows is None:
        raise ValueError("`rows` must be given: this result was loaded or pickled without them.")
    atoms, goal = (
        as_atoms(rows, "rows"),
        None if target is None else as_atoms(target, "target"),
    )
    n = atoms.shape[0]
    _same("rows", fingerprint(atoms), result.fingerprint)
    _same("target", () if goal is None else fingerprint(goal), record.target)
    shares = shares_of(row_weights, n if goal is None else goal.shape[0])
    labels = None if by is None else Labels.of(by, n, shares)
    _same("by", digest_of(None if labels is None else labels.values), record.digests[0])
    _same("row_weights", digest_of(shares), record.digests[1])
    task = Task(
        rows=atoms,
        kernel=kernel,
        target=goal,
        labels=labels,
        row_weights=shares,
        init=result.ids[: record.held],
        exclude=record.exclude,
        counts=record.counts,
        balanced=record.balanced,
        weights=record.weights,
        swap=record.swap,
        evaluate=record.evaluate,
        seed=record.seed,
    )
    return Kept(task=task, ids=result.ids, flock=None)


def _same(name: str, given: Fingerprint | str, wanted: Fingerprint | str) -> None:
    if given != wanted:
        got = "other data" if given else "none"
        rule = "what the result was made from" if wanted else "left out, as it was when the result was made"
        raise StoreError(f"`{name}` must be {rule}. Got {got}.")
