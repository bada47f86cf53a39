"""`minimize_many`: many targets over the same atoms, each with its own proof."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Objective, Oracle, WeightSet
from wolfhound.core.progress import time_solving
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import hint_keywords
from wolfhound.core.weights import Cone, Hull
from wolfhound.data.atoms import (
    ConcatAtoms,
    Fingerprint,
    draw_some,
    find_rows,
    fingerprint,
    finite_rows,
    refuse_gaps,
    take_by_rows,
    to_rows,
)
from wolfhound.data.encoding import TableAtoms
from wolfhound.many.batch import MEMORY, Goals, TargetBatch, TargetSolver, join_batches
from wolfhound.many.given import (
    Excluded,
    Targets,
    as_points,
    check_target_columns,
    find_excluded,
    is_list_of_objectives,
    lift_shared,
    read_exclude,
    read_objectives,
    read_targets,
    widen_result,
)
from wolfhound.many.gram_solver import build_gram_solver, weigh_gram
from wolfhound.many.result import ManyResult
from wolfhound.many.run import (
    Clock,
    ManyState,
    check_out,
    digest,
    join_on_disk,
    open_out,
    plan_objectives,
    plan_targets,
    run,
)
from wolfhound.many.set_solver import SetSolver
from wolfhound.methods.asking import POOL
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.scan import Scan
from wolfhound.solve.cones import SCORES, ConeAtoms
from wolfhound.solve.minimize import as_names, describe_weights, read_weights

SMALL = 1024
"""Up to so many atoms, all their products are kept."""

EXACT = (Scan, Int8Scan)
"""Oracles that do what passes of our own do faster: their atoms are used."""

HULL = Hull()

_COPIES = 4
"""Copies of all atoms that batches over a cone take at most, beside scores and weights."""

NO_IDS: Ids = np.empty(0, np.int64)


@hint_keywords
def minimize_many(
    targets: ArrayLike | Sequence[ArrayLike] | Sequence[Objective],
    atoms: Oracle | AtomsLike,
    *,
    rtol: float = 1e-6,
    atol: float = 0.0,
    exclude: ArrayLike | Sequence[ArrayLike] | None = None,
    over: Hull | Cone = HULL,
    ridge: float = 0.0,
    max_atoms: int | None = None,
    names: Sequence[str] | None = None,
    max_memory: float | str | None = None,
    max_seconds: float = math.inf,
    skip: bool = False,
    out: str | PathLike[str] | None = None,
    callback: Callable[[ManyState], bool | None] | None = None,
    progress: bool | None = None,
    seed: int | np.random.Generator = 0,
) -> ManyResult:
    """Minimise 1/2 |x - t|^2 over the hull of the atoms, or their cone, for every target t, with proved gaps.

    Each target is solved as `minimize` would, but all share the atoms: few atoms by their
    Gram matrix, many by passes that are products of matrices.

    Parameters
    ----------
    targets : (m, d) or (rows, columns, d) array, table, or list of vectors
        The points t. Or a list of objectives: `SquaredDistance`, or `LeastSquares` of one
        design that is not tall, are solved as points are; others in turn, as `minimize` does.
    atoms : atoms, (n, d) array, path, a list of paths, or an oracle
        An oracle is asked once per pass for all unfinished targets. Of one that proves
        nothing, nothing is proved but that f >= 0, and targets end with `Status.NOT_FOUND`.
        `Scan` and `Int8Scan` stand for their atoms.
    rtol, atol
        The goal of each target is that of `minimize`: a gap of at most
        ``max(rtol * scale, atol)``.
    exclude : ids, m vectors of ids, or an (m, e) array padded with -1, optional
        Atoms that must not be used, by all targets or by each.
    over : Hull or Cone
        What weights may be. By default they sum to 1; ``Hull(at_most=True)`` lets them sum to less: the
        origin is one more atom, whose weight is left out (shadow, in unmixing). Cones without cap and mass
        are solved in batches, too, and ridges over up to 1,024 atoms; other sets one target after the
        other, as `minimize` does.
    ridge
        ``ridge / 2 * |weights|^2`` is added to f.
    max_atoms
        Most atoms per target. Where the minimum needs more, the best of atoms that join and of
        atoms that leave, after exchanges; `ManyResult.price` says what that costs, and gaps still
        are to the minimum over the hull. With `at_most` the origin counts as one. Not for cones and caps.
    names : n strings, optional
        Of the atoms; what is told and drawn of the result uses them.
    max_memory
        Bytes, or a text such as "1GB", to work in, besides atoms, targets and the answer; 4 GiB
        by default. Other sizes may change last bits; one that is too small is refused.
    max_seconds
        What is not finished then is returned as it is, with its status.
    skip
        Whether a target that is not finite or of another width is passed over, with
        `Status.SKIPPED`, rather than refused.
    out : folder, optional
        Where answers are written as they come. It can be read at any time
        (`wolfhound.load`), and a run that was cut short goes on from there, with the same atoms:
        all of them are read once, and hashed.
    callback
        Called with a `ManyState` now and then; returning True stops.
    progress
        As for `minimize`.
    seed
        Of the random atoms that give the scale of rtol. The same seed gives the same answer.

    Returns
    -------
    ManyResult
        With ``lower <= min F <= value`` for every target, rounding included, where F is f with price and
        ridge.

    Examples
    --------
    >>> pixels = np.array([[0.5, 0.5], [3.0, 1.0]])
    >>> result = minimize_many(pixels, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> result.to_dense().round(6)
    array([[0. , 0.5, 0.5],
           [0. , 1. , 0. ]])
    """
    began = time.perf_counter()
    table = find_rows(atoms)  # its rows that are kept are the atoms; ids of the result are rows of it
    refuse_gaps(table, out, "out")
    if table is not None:
        check_target_columns(table, targets)
        atoms, exclude = table.atoms, find_excluded(table, exclude)
    if callback is not None:
        validate.function(callback, "callback", "a function of a ManyState")
    over, ridge = read_weights(over, ridge, table)
    asked = _Asked(
        rtol=validate.number(rtol, "rtol", low=0.0),
        atol=validate.number(atol, "atol", low=0.0),
        exclude=exclude,
        over=over,
        ridge=ridge,
        max_atoms=None if max_atoms is None else validate.count(max_atoms, "max_atoms", low=1),
        memory=MEMORY if max_memory is None else validate.memory(max_memory, "max_memory"),
        clock=Clock(began, began + validate.number(max_seconds, "max_seconds", low=0.0)),
        skip=validate.flag(skip, "skip"),
        out=out,
        callback=callback,
        progress=progress,
        seed=seed,
    )
    oracle = atoms if validate.is_oracle(atoms) else Scan(cast(AtomsLike, atoms))
    size = oracle.atoms.shape[0] if table is None else table.report.rows
    name_rows = partial(_name_rows, table, as_names(names, size))
    if is_list_of_objectives(targets):
        found = read_objectives(cast(Sequence[Objective], targets), oracle.atoms.shape[1])
        points = as_points(found)
        if points is None:
            return name_rows(_minimize_list(found, oracle, asked))
        targets = points
    return name_rows(_minimize_points(targets, oracle, asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the caller asked for, checked."""

    rtol: float
    atol: float
    exclude: Any
    over: Hull | Cone
    ridge: float
    max_atoms: int | None
    memory: float
    clock: Clock
    skip: bool
    out: str | PathLike[str] | None
    callback: Callable[[ManyState], bool | None] | None
    progress: bool | None
    seed: int | np.random.Generator


def _minimize_points(targets: Any, oracle: Oracle, asked: _Asked) -> ManyResult:
    """Solve points, by whatever suits the atoms."""
    source, seed = oracle.atoms, asked.seed
    n, d = source.shape
    check_out(asked.out)
    given = read_targets(targets, d, skip=asked.skip)
    excluded = read_exclude(asked.exclude, len(given.rows), n)
    weights = _bind(asked, n, excluded)
    wide = d + n if asked.ridge > 0.0 else d
    fits = n <= SMALL and (asked.memory >= MEMORY or weigh_gram(n, wide) <= asked.memory)
    few = fits and isinstance(oracle, EXACT)
    apart = weights is not None and not _is_hull(weights, few=few)
    origin = weights is not None and weights.at_most and not apart  # 0 is one more atom
    given = _drop_hopeless(given, excluded, n, skip=asked.skip, origin=origin)
    # Before the run: afterwards the atoms may no longer be readable.
    identity = fingerprint(source)
    rng = validate.rng(seed)
    begun = str(rng.bit_generator.state) if isinstance(seed, np.random.Generator) else int(seed)
    regime: TargetSolver | SetSolver
    with one_blas_thread():
        if weights is not None and apart:
            regime = _solve_apart(oracle, weights, rng, asked, few=few)
        else:
            pool = _draw_pool(n, d, rng, excluded)
            regime = _choose(oracle, rng, pool, asked, origin=origin, few=few)
    wanted = Goals(asked.rtol, asked.atol, asked.max_atoms, n if origin else -1, asked.ridge)
    settings = {"oracle": _name(oracle), "over": describe_weights(asked.over, asked.ridge)}
    if isinstance(asked.over.cap, np.ndarray):
        settings["caps"] = digest(asked.over.cap)
    stream = open_out(asked.out, (given, excluded, wanted, regime), begun, identity, settings)
    job = plan_targets(regime, given, excluded, wanted, stream)
    batches = run(job, asked.clock, asked.callback, asked.progress)
    whole = join_batches(list(batches)) if stream is None else join_on_disk(stream.folder, batches)
    return _result(whole, given.shape, source, identity, asked)


def _bind(asked: _Asked, n: int, excluded: Excluded) -> WeightSet | None:
    """The set for n atoms, None for the plain hull; ValueError if caps leave a target nothing."""
    found = asked.over.bind(n, asked.ridge, excluded.ids if excluded.shared else NO_IDS)
    if found is not None and found.capped and not excluded.shared:
        for first, last in itertools.pairwise(excluded.starts.tolist()):
            asked.over.bind(n, asked.ridge, excluded.ids[first:last])
    return found


def _is_hull(weights: WeightSet, *, few: bool) -> bool:
    """Whether weights are those of the hull, or of that and 0; with a ridge, of a Gram matrix."""
    plain = weights.total == 1.0 and not weights.capped and weights.price == 0.0
    return plain and (few or weights.ridge == 0.0)


def _solve_apart(
    oracle: Oracle, weights: WeightSet, rng: np.random.Generator, asked: _Asked, *, few: bool
) -> SetSolver:
    """Other sets: cones in batches, if all atoms fit, with a ridge few; else one target after the other."""
    rule = "left out over a cone, with a cap, and with a ridge of many atoms"
    validate.require(asked.max_atoms is None, "max_atoms", rule, asked.max_atoms)
    (n, d), cone = oracle.atoms.shape, None
    fits = weights.ridge == 0.0 and 8 * (_COPIES * n * d + 2 * SCORES) <= asked.memory
    if (few or (fits and isinstance(oracle, EXACT))) and weights.total == math.inf and not weights.capped:
        rows = _read_all(oracle.atoms).astype(np.float64)
        cone = ConeAtoms(rows, price=weights.price, ridge=weights.ridge).open(SMALL)
    options = {name: getattr(asked, name) for name in ("over", "ridge", "rtol", "atol", "seed")}
    if isinstance(asked.seed, np.random.Generator):  # a run that was cut goes on with the same
        options["seed"] = int(rng.integers(1 << 31))
    return SetSolver(oracle, options, cone, asked.clock.left)


def _read_all(atoms: Atoms) -> Matrix:
    rows = finite_rows(atoms, np.arange(atoms.shape[0]))
    validate.require_moderate(rows, "atoms")
    return rows


def _name_rows(table: TableAtoms | None, names: Sequence[str] | None, solved: ManyResult) -> ManyResult:
    """The answer by the names of the atoms, and by the rows of a table if they were one."""
    solved = replace(solved, names=names)
    if table is None:
        return solved
    ids, rows = to_rows(table, solved.ids), take_by_rows(table)
    return replace(solved, ids=ids, fingerprint=fingerprint(table), atoms=rows)


def _minimize_list(objectives: list[Objective], oracle: Oracle, asked: _Asked) -> ManyResult:
    """Objectives that are not all distances: as distances where they can be, else one after the other."""
    validate.require(asked.out is None, "out", "None with objectives other than SquaredDistance", asked.out)
    identity, source = fingerprint(oracle.atoms), oracle.atoms
    # Of a cone, what is lost by lifting would grow with the sum of weights.
    lift = isinstance(oracle, EXACT) and isinstance(asked.over, Hull)
    lifted = lift_shared(objectives, source, asked.memory) if lift else None
    if lifted is not None:
        result = _minimize_points(lifted.targets, Scan(lifted.atoms), asked)
        return replace(result, **widen_result(result, lifted.off), atoms=source, fingerprint=identity)
    rule = "left out with objectives of this kind"
    validate.require(asked.max_atoms is None, "max_atoms", rule, asked.max_atoms)
    m, (n, d) = len(objectives), source.shape
    excluded = read_exclude(asked.exclude, m, n)
    _drop_hopeless(
        Targets(np.empty((m, d)), (m,), np.ones(m, np.bool_)), excluded, n, skip=False, origin=False
    )
    options = {name: getattr(asked, name) for name in ("over", "ridge", "rtol", "atol", "seed")}
    job = plan_objectives(objectives, oracle, excluded, asked.clock, options)
    whole = join_batches(list(run(job, asked.clock, asked.callback, asked.progress)))
    return _result(whole, (m,), source, identity, asked)


def _draw_pool(n: int, d: int, rng: np.random.Generator, excluded: Excluded) -> Ids:
    """Draw the atoms that give the scale of rtol, as `minimize` does: of those that all may use."""
    size, gone = max(POOL, 4 * d), excluded.ids if excluded.shared else excluded.ids[:0]
    drawn = draw_some(n, size + len(gone), rng)
    left = drawn[~np.isin(drawn, gone)]
    # Where only the origin is left, a scale is of no use.
    return rng.permutation(left if len(left) else drawn)[:size]


def _drop_hopeless(given: Targets, excluded: Excluded, n: int, *, skip: bool, origin: bool) -> Targets:
    """Refuse, or skip, targets that may use no atom at all."""
    if origin:
        return given
    left = excluded.counts(len(given.rows)) < n
    if not (left | ~given.good).all() and not skip:
        first = int(np.flatnonzero(~left & given.good)[0])
        validate.require(False, "exclude", "fewer than all atoms", f"all {n} for target {first}")
    return given._replace(good=given.good & left)


def _choose(
    oracle: Oracle, rng: np.random.Generator, pool: Ids, asked: _Asked, *, origin: bool, few: bool
) -> TargetSolver:
    """Few atoms by their Gram matrix, many by passes; any oracle but one that reads all atoms is asked."""
    source, memory, over = oracle.atoms, asked.memory, asked.clock.over
    n, d = source.shape
    if not isinstance(oracle, EXACT):
        from wolfhound.many.oracle_solver import build_oracle_solver  # noqa: PLC0415 - compiles only what is used

        return build_oracle_solver(oracle, pool, zero=origin, max_memory=memory, over=over)
    if few:
        rows = _read_all(source)
        if asked.ridge > 0.0:
            rows = np.hstack([rows.astype(np.float64), math.sqrt(asked.ridge) * np.eye(n)])
        if origin:
            rows = np.concatenate([rows, np.zeros((1, rows.shape[1]), rows.dtype)])
        return build_gram_solver(rows, pool, zero=origin, max_memory=memory)
    from wolfhound.many.pass_solver import build_pass_solver  # noqa: PLC0415 - likewise

    atoms = ConcatAtoms([source, np.zeros((1, d), source.dtype)]) if origin else source
    return build_pass_solver(atoms, pool, rng, zero=origin, max_memory=memory, over=over)


def _name(oracle: Oracle) -> str:
    """What kind of oracle answers, as a folder of answers says it."""
    return "exact" if isinstance(oracle, EXACT) else type(oracle).__name__


def _result(
    whole: TargetBatch, shape: tuple[int, ...], source: Atoms, identity: Fingerprint, asked: _Asked
) -> ManyResult:
    left_out = {"price": asked.max_atoms is None, "mass": isinstance(asked.over, Hull)}
    return ManyResult(
        **(whole._asdict() | {name: None for name, out in left_out.items() if out}),
        over=describe_weights(asked.over, asked.ridge),
        seconds=time_solving(asked.clock.began),
        shape=shape,
        fingerprint=identity,
        atoms=source,
    )
