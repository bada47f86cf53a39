"""`minimize_many`: many targets over the same atoms, each with its own proof."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import ConcatAtoms, as_atoms, fingerprint, finite_rows
from wolfhound.core import Atoms, Ids, Oracle, Status
from wolfhound.many._given import Excluded, Targets, read_exclude, read_targets
from wolfhound.many._portion import (
    Portion,
    Regime,
    Wanted,
    join_portions,
    make_unsolved,
    mark_skipped,
    solve_portion,
)
from wolfhound.many._small import build_small
from wolfhound.many.result import ManyResult
from wolfhound.threads import one_blas_thread, ordered

SMALL = 1024
"""Up to so many atoms, all their products are kept."""

MEMORY = 4.0 * 2**30
"""Bytes to work in, unless the caller says otherwise."""

POOL = 1300
"""Least number of random atoms that give the scale of rtol, as in `minimize`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyState:
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Targets that are finished, and all.
    proved : int
        Those whose gap is at most the goal.
    seconds : float
        Since the start.
    """

    done: int
    total: int
    proved: int
    seconds: float


@dataclass(slots=True)
class _Clock:
    """When to stop."""

    deadline: float
    stopped: bool = False

    def over(self) -> bool:
        """Whether there is no time left."""
        return self.stopped or time.perf_counter() > self.deadline


@dataclass(frozen=True, slots=True)
class _Setting:
    """How the atoms are used: bytes to work in, whether the origin is one, when to stop."""

    memory: float
    origin: bool
    clock: _Clock


@dataclass(frozen=True, slots=True)
class _Job:
    """All that a chunk needs."""

    regime: Regime
    targets: Targets
    excluded: Excluded
    wanted: Wanted

    def solve(self, span: tuple[int, int]) -> Portion:
        """Solve targets start .. stop."""
        starts, banned = self.excluded.read(*span)
        rows, good = self.targets.read(*span), self.targets.good[slice(*span)]
        portion = solve_portion(self.regime, rows, starts, banned, self.wanted)
        return mark_skipped(portion, ~good)


def minimize_many(
    targets: ArrayLike | Sequence[ArrayLike],
    atoms: Oracle | Atoms | ArrayLike | str | PathLike[str] | Sequence[Any],
    *,
    rtol: float = 1e-6,
    atol: float = 0.0,
    exclude: ArrayLike | Sequence[ArrayLike] | None = None,
    at_most_one: bool = False,
    max_atoms: int | None = None,
    max_memory: float | None = None,
    max_seconds: float = math.inf,
    skip: bool = False,
    out: str | PathLike[str] | None = None,
    callback: Callable[[ManyState], bool | None] | None = None,
    seed: int | np.random.Generator = 0,
) -> ManyResult:
    """Minimise 1/2 |x - t|^2 over the hull of the atoms for every target t, with proved gaps.

    Each target is solved as `minimize` would, but all share the atoms: few atoms by their
    Gram matrix, many by passes that are products of matrices.

    Parameters
    ----------
    targets : (m, d) or (rows, columns, d) array, table, or list of vectors
        The points t.
    atoms : atoms, (n, d) array, path, a list of paths, or an oracle
        Of an oracle, the atoms are used.
    rtol, atol
        The goal of each target is that of `minimize`: a gap of at most
        ``max(rtol * scale, atol)``.
    exclude : ids, m vectors of ids, or an (m, e) array padded with -1, optional
        Atoms that must not be used, by all targets or by each.
    at_most_one
        Whether weights sum to at most 1 rather than to 1: the origin is one more atom, whose
        weight is left out (shadow, in unmixing).
    max_atoms
        Most atoms per target. Where the minimum needs more, they are chosen greedily, and
        `ManyResult.price` says what that costs; gaps still are to the minimum over the hull.
    max_memory
        Bytes to work in, besides atoms, targets and the answer.
    max_seconds
        What is not finished then is returned as it is, with its status.
    skip
        Whether a target that is not finite or of another width is passed over, with
        `Status.SKIPPED`, rather than refused.
    out : folder, optional
        Where answers are written as they come. It can be read at any time
        (`ManyResult.load`), and a run that was cut short goes on from there.
    callback
        Called with a `ManyState` now and then; returning True stops.
    seed
        Of the random atoms that give the scale of rtol. The same seed gives the same answer.

    Returns
    -------
    ManyResult
        With ``lower <= min f <= value`` for every target, rounding included.

    Examples
    --------
    >>> pixels = np.array([[0.5, 0.5], [3.0, 1.0]])
    >>> result = minimize_many(pixels, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> result.to_dense().round(6)
    array([[0. , 0.5, 0.5],
           [0. , 1. , 0. ]])
    """
    began = time.perf_counter()
    rtol, atol = validate.number(rtol, "rtol", low=0.0), validate.number(atol, "atol", low=0.0)
    deadline = began + validate.number(max_seconds, "max_seconds", low=0.0)
    room = MEMORY if max_memory is None else validate.number(max_memory, "max_memory", low=0.0, strict=True)
    if callback is not None:
        validate.function(callback, "callback", "a function of a ManyState")
    most = None if max_atoms is None else validate.count(max_atoms, "max_atoms", low=1)
    source = atoms.atoms if validate.is_oracle(atoms) else as_atoms(atoms)
    n, d = source.shape
    given = read_targets(targets, d, skip=validate.flag(skip, "skip"))
    excluded = read_exclude(exclude, len(given.rows), n)
    origin = validate.flag(at_most_one, "at_most_one")
    given = _drop_hopeless(given, excluded, n, skip=skip, origin=origin)
    rng = validate.rng(seed)
    setting = _Setting(room, origin, _Clock(deadline))
    with one_blas_thread():
        regime = _choose(source, setting, rng)
    job = _Job(regime, given, excluded, Wanted(rtol, atol, most, n if origin else -1))
    portions = _run(job, _spans(len(given.rows), regime.chunk(len(given.rows))), setting.clock, callback)
    return _result(portions, given, source, began, priced=most is not None)


def _draw_pool(n: int, d: int, rng: np.random.Generator) -> Ids:
    """Draw the atoms that give the scale of rtol, as `minimize` does."""
    drawn = np.sort(rng.choice(n, min(n, max(POOL, 4 * d)), replace=False).astype(np.int64))
    return rng.permutation(drawn)


def _drop_hopeless(given: Targets, excluded: Excluded, n: int, *, skip: bool, origin: bool) -> Targets:
    """Refuse, or skip, targets that may use no atom at all."""
    if origin:
        return given
    left = excluded.counts(len(given.rows)) < n
    if not (left | ~given.good).all() and not skip:
        first = int(np.flatnonzero(~left & given.good)[0])
        validate.require(False, "exclude", "fewer than all atoms", f"all {n} for target {first}")
    return given._replace(good=given.good & left)


def _choose(source: Atoms, setting: _Setting, rng: np.random.Generator) -> Regime:
    """Few atoms by their Gram matrix, many by passes."""
    n, d = source.shape
    pool = _draw_pool(n, d, rng)
    if n <= SMALL and 12 * n * n <= setting.memory:
        rows = finite_rows(source, np.arange(n))
        validate.moderate(rows, "atoms")
        if setting.origin:
            rows = np.concatenate([rows, np.zeros((1, d), rows.dtype)])
        return build_small(rows, pool, zero=setting.origin)
    from wolfhound.many._large import build_large  # noqa: PLC0415 - compiles only what is used

    atoms = ConcatAtoms([source, np.zeros((1, d), source.dtype)]) if setting.origin else source
    keep = 4 * n * (d + 1) <= setting.memory / 2
    return build_large(atoms, pool, rng, zero=setting.origin, keep=keep, over=setting.clock.over)


def _spans(m: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, m)) for start in range(0, m, size)]


def _run(
    job: _Job,
    spans: list[tuple[int, int]],
    clock: _Clock,
    callback: Callable[[ManyState], bool | None] | None,
) -> list[Portion]:
    """Solve the chunks in order; those that there is no time for come back unsolved."""
    began, total = time.perf_counter(), len(job.targets.rows)
    portions: list[Portion] = []
    proved, status = 0, Status.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt), _closing(_solve_all(job, spans), clock) as solved:
        for portion in solved:
            portions.append(portion)
            proved += int((portion.codes == 0).sum())
            now = time.perf_counter()
            state = ManyState(
                done=spans[len(portions) - 1][1], total=total, proved=proved, seconds=now - began
            )
            if callback is not None and callback(state):
                status = Status.STOPPED
                break
            if now > clock.deadline:
                status = Status.MAX_SECONDS
                break
    return portions + [make_unsolved(stop - start, status) for start, stop in spans[len(portions) :]]


@contextlib.contextmanager
def _closing(solved: Iterator[Portion], clock: _Clock) -> Iterator[Iterator[Portion]]:
    """Tell chunks under way to stop, then wait for them."""
    with contextlib.closing(solved):  # type: ignore[type-var]
        try:
            yield solved
        finally:
            clock.stopped = True


def _solve_all(job: _Job, spans: list[tuple[int, int]]) -> Iterator[Portion]:
    yield from ordered(job.solve, spans)


def _result(
    portions: list[Portion], given: Targets, source: Atoms, began: float, *, priced: bool
) -> ManyResult:
    whole = join_portions([*portions, make_unsolved(0, Status.SKIPPED)])
    return ManyResult(
        **whole._replace(price=None)._asdict() if not priced else whole._asdict(),
        seconds=time.perf_counter() - began,
        shape=given.shape,
        fingerprint=fingerprint(source),
        atoms=source,
    )
