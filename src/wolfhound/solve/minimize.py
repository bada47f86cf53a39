"""`minimize`: check, pool, method, drive, result."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import (
    INNER,
    Atoms,
    AtomsLike,
    Ids,
    Method,
    Objective,
    Oracle,
    Start,
    State,
    Vector,
    WeightSet,
)
from wolfhound.core.progress import read_gap, show_progress
from wolfhound.core.rounding import UNIT, ends_in_rounding, gamma
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import hint_keywords
from wolfhound.core.weights import Cone, Hull, caps_of, fill, fill_pool
from wolfhound.data.atoms import (
    as_atoms,
    draw_some,
    find_rows,
    fingerprint,
    finite_rows,
    hear_rows,
    refuse_gaps,
    to_places,
    to_rows,
)
from wolfhound.data.encoding import TableAtoms
from wolfhound.methods.asking import POOL, SAMPLE, best_atom
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.oracles.scan import Scan, least_memory
from wolfhound.solve.checkpoint import CheckpointWriter
from wolfhound.solve.driver import Limits, Outcome, drive
from wolfhound.solve.result import Result, Trace

HULL = Hull()

_SAME = 64.0 * UNIT  # relative difference of atoms that are one point but for rounding


@hint_keywords
def minimize(
    objective: Objective,
    atoms: Oracle | AtomsLike,
    *,
    over: Hull | Cone = HULL,
    ridge: float = 0.0,
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
    """Minimise a smooth f over the convex hull of the atoms, or their cone, with a proved gap.

    Parameters
    ----------
    objective
        f, e.g. `SquaredDistance(target)`.
    atoms : oracle, atoms, (n, d) array, table, path, or a list of paths
        Anything but an oracle is searched by `Scan`. A frame becomes atoms as `encode` has it; rows
        with missing values are left out, and ids are those of the frame.
    over : Hull or Cone
        What weights may be: `Hull()` of sum 1, with caps or a sum of at most 1; `Cone()` of any sum, with a
        price, caps or a largest sum. A cone with none of these is for `SquaredDistance` and `LeastSquares`;
        other f need a cap, a mass or a ridge.
    ridge
        ``ridge / 2 * |weights|^2`` is added to f.
    method
        `FullyCorrective()` by default, and the only one for other weights than those of `Hull()`.
    rtol, atol
        The goal is a gap of at most ``max(rtol * scale, atol)``, where scale is
        the larger of the Frank-Wolfe gap at the best atom of a random pool, and median minus minimum of f
        over some of its atoms: the same for every method; over a cone, f(0) less the floor of f.
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
        With ``lower <= min F <= value``, rounding included, where F is f with price and ridge. Only rows
        that were read are checked for nan.

    Examples
    --------
    The point of the simplex closest to (1, 0.2, 0):

    >>> from wolfhound import SquaredDistance
    >>> result = minimize(SquaredDistance([1.0, 0.2, 0.0]), np.eye(3))
    >>> result.x.round(6)
    array([0.9, 0.1, 0. ])

    Where no weight is above 0.6:

    >>> minimize(SquaredDistance([1.0, 0.2, 0.0]), np.eye(3), over=Hull(cap=0.6)).x.round(6)
    array([0.6, 0.3, 0.1])
    """
    began = time.perf_counter()
    table = find_rows(atoms)  # its rows that are kept are the atoms; ids of the result are rows of it
    refuse_gaps(table, checkpoint, "checkpoint")
    limits = Limits(steps=max_steps, passes=max_passes, seconds=max_seconds)
    rtol, atol = validate.number(rtol, "rtol", low=0.0), validate.number(atol, "atol", low=0.0)
    method = FullyCorrective() if method is None else method
    _check_kinds(objective, method, start, callback)
    oracle, method = _as_oracle(atoms if table is None else table.atoms, method, max_memory)
    n, d = oracle.atoms.shape
    validate.require(objective.dim in (None, d), "atoms", f"rows of {objective.dim} entries", f"{d}")
    names = as_names(names if table is None else table.pick(names, "names"), n)
    exclude = to_places(table, [] if exclude is None else exclude, "exclude", strict=False)
    banned = validate.ids(exclude, "exclude", n)
    weights = _as_weights(over, ridge, table, n, banned, kinds=(objective, method))
    warm, rng = _as_start(start, table, n, banned, weights), validate.rng(seed)
    # Before the run: afterwards the atoms may no longer be readable.
    source, writer = fingerprint(oracle.atoms if table is None else table), None
    if checkpoint is not None:
        options: dict[str, Any] = {"rtol": rtol, "atol": atol, "exclude": np.unique(banned)}
        options |= {"start": warm, "seed": rng, "over": weights}
        writer = CheckpointWriter(checkpoint, objective, method, options).open(oracle.atoms, source)
        if writer.ended is not None:
            return replace(writer.ended, names=_pick_names(names, writer.ended.ids))
        limits = limits.after(writer.steps)

    with one_blas_thread():
        pool = _draw_pool(objective, oracle.atoms, banned, rng, weights)
        starts, cold = _choose_starts(method, objective, oracle.atoms, pool, warm, rng=rng)
        scale, stake = _find_scale(objective, cold, cone=isinstance(over, Cone))
    goal = max(atol, rtol * scale)
    if writer is not None:
        starts[0] = writer.restart(starts[0])
    states = _try_starts(method, objective, oracle, starts, goal=goal, stake=stake, rng=rng)

    known = {"fingerprint": source, "objective": repr(objective), "method": _describe_method(method)}
    finish = partial(_finish, table, names, known | {"goal": goal, "over": describe_weights(over, ridge)})
    keep: dict[str, Any] = {}
    if writer is not None:
        keep = {"spent": writer.seconds, "keep": partial(writer.write_due, finish)}
    read = read_gap(n, goal, d * oracle.atoms.dtype.itemsize)
    with show_progress(progress, read, hear_rows(table, callback)) as hear:
        run = drive(states, goal=goal, limits=limits, stake=stake, callback=hear, began=began, **keep)
    return finish(run) if writer is None else writer.end(finish, run)


def _draw_pool(
    objective: Objective, atoms: Atoms, exclude: Ids, rng: np.random.Generator, over: WeightSet | None
) -> Start:
    """Draw the random atoms that a run begins with; ids, because files may be ordered."""
    n, d = atoms.shape
    # An interior target needs 4d random atoms around it; a Newton model starts well from fewer.
    size = max(POOL, 4 * d if objective.quadratic else 0) + len(exclude)
    drawn = draw_some(n, size, rng) if size < n else np.arange(n)
    if over is not None:
        drawn = fill_pool(over, drawn, n, exclude)
    ids = rng.permutation(drawn[~np.isin(drawn, exclude)] if len(exclude) else drawn)
    validate.require(len(ids) > 0, "exclude", "fewer than all atoms", f"{len(exclude)} of {n}")
    rows = finite_rows(atoms, ids)
    return Start(
        ids=ids[:0], weights=np.empty(0), rows=rows[:0], pool_ids=ids, pool=rows, exclude=exclude, over=over
    )


def _choose_starts(
    method: Method, objective: Objective, atoms: Atoms, pool: Start, warm: Any, *, rng: np.random.Generator
) -> tuple[list[Start], Start]:
    """Return where to begin, a warm start first, and the best atom of the pool: its goal is all methods'."""
    begun = method.begin(objective, pool, rng)
    usual = isinstance(method, (FullyCorrective, FrankWolfe))  # which begin there: f is not computed twice
    cold = begun if usual else best_atom(objective, pool)
    if warm is None:
        return [begun], cold
    return [replace(begun, rows=finite_rows(atoms, warm.ids), **warm._asdict()), begun], cold


def _find_scale(objective: Objective, start: Start, *, cone: bool) -> tuple[float, float]:
    """Return what rtol is relative to, and how much f varies over what was seen; 0 if that is rounding.

    Of the best atom of the pool, so that neither the method nor a warm start changes goal or success; it
    takes no pass. Values tell how much f varies, slopes where these do not: at the edge of a domain slopes
    know no bounds. Over a cone, and for one atom whose weight may be less than 1, f at the origin tells.
    """
    single = start.over is not None and start.over.slack and len(start.pool) == 1
    if (cone or single) and objective.floor > -math.inf:
        origin = objective.at(np.zeros(start.pool.shape[1])).value - objective.floor
        if 0.0 < origin < math.inf:
            return origin, origin
    low, high = start.pool.min(axis=0).astype(np.float64), start.pool.max(axis=0).astype(np.float64)
    top = np.maximum(-low, high)
    cold = objective.at(start.weights @ start.rows.astype(np.float64))
    values = objective.values(start.pool[:SAMPLE])
    values, slope, noise, blur = values[np.isfinite(values)], 0.0, 0.0, 0.0
    scale = float(np.median(values) - values.min()) if len(values) else 0.0
    if math.isfinite(cold.value):
        slope = max(float((cold.grad @ cold.x - start.pool.astype(np.float64) @ cold.grad).max()), 0.0)
        unit = gamma(len(cold.x) + len(start.weights) + 2)
        noise = 4.0 * unit * float(np.abs(cold.grad) @ top)  # of slopes; of values that of x alone
        blur = 4.0 * unit * float(np.abs(cold.grad) @ np.abs(cold.x))
        values = np.append(values, cold.value)
    spread = float(np.ptp(values)) if len(values) else 0.0
    same = bool((high - low <= _SAME * top).all())
    by_slope = slope if slope > noise else 0.0
    return max(scale, slope), 0.0 if same else spread if spread > blur else by_slope


def _try_starts(
    method: Method,
    objective: Objective,
    oracle: Oracle,
    starts: Sequence[Start],
    *,
    goal: float,
    stake: float,
    rng: np.random.Generator,
) -> Iterator[State]:
    """Yield a method's states from the first start, and from the next where they end without a proof.

    At the edge of a domain slopes and curvature tell nothing of what lies inside: from a warm start
    there a run may stall that a cold one solves. The next start goes on with counters and proof; those
    before the last are tried only if f is finite there. `stake`: see `core.rounding.ends_in_rounding`.
    """
    best: State | None = None
    last: State | None = None
    for each in starts:
        x = each.weights @ each.rows.astype(np.float64)
        if each is not starts[-1] and not np.isfinite(objective.values(x[None])).all():
            continue
        start, proved = each, -math.inf
        if last is not None:  # which has ended here: counters and proof go on
            start, proved = replace(each, lower=last.lower, proof=last.proof), last.lower
            start = replace(start, t=last.t, passes=last.passes, scored=last.scored)
        for state in method.states(objective, oracle, start, goal=goal, rng=rng):
            best = state if best is None or (state.kind != INNER and state.value <= best.value) else best
            # What was proved stays so, also before the method has proved it again.
            held = min(proved, best.value)
            last = replace(state, lower=held) if held > state.lower else state
            yield last
        if best is None or last is None or ends_in_rounding(best, last, stake):
            return


def _finish(
    table: TableAtoms | None, names: Sequence[str] | None, known: dict[str, Any], run: Outcome[State]
) -> Result:
    """Make the result of what was seen of a run so far; `known` was so before it."""
    best, last = run.best, run.last
    return Result(
        x=best.point.x,
        ids=to_rows(table, best.ids),
        weights=best.weights,
        value=best.value,
        lower=last.lower,
        status=run.status,
        steps=last.t,
        passes=last.passes,
        scored=last.scored,
        seconds=run.seconds,
        trace=Trace.of(run.rows),
        mass=last.mass,
        names=_pick_names(names, best.ids),
        **known,
    )


# ---------------------------------------------------------------- arguments


def _check_kinds(objective: object, method: object, start: object, callback: object) -> None:
    """Raise TypeError or ValueError if one of these is something else."""
    what = "an objective such as SquaredDistance(target)"
    validate.kind(objective, "objective", what, "dim", "quadratic", "at", "values", "line", "lift")
    validate.kind(method, "method", "a method such as FullyCorrective()", "begin", "states")
    if start is not None:
        validate.kind(start, "start", "a Result, or (ids, weights)", Result, tuple, list)
        pair = isinstance(start, Result) or len(start) == 2  # type: ignore[arg-type] # a tuple or list
        validate.require(pair, "start", "a Result, or (ids, weights)", validate.describe(start))
    if callback is not None:
        validate.function(callback, "callback", "a function of a State")


def as_names(names: Any, n: int) -> Sequence[str] | None:
    """Check that there is a name for every id; a table's own labels do not count."""
    if names is None:
        return None
    rule = f"{n} strings, one per atom"
    unordered = (str, bytes, Mapping)
    if isinstance(names, unordered) or not (hasattr(names, "__len__") and hasattr(names, "__getitem__")):
        raise TypeError(f"`names` must be {rule}. Got {validate.describe(names)}.")
    given: Sequence[str] = names.to_numpy() if hasattr(names, "to_numpy") else names
    validate.require(len(given) == n, "names", rule, len(given))
    return given


def _pick_names(names: Sequence[str] | None, ids: Ids) -> tuple[str, ...] | None:
    """Names of these ids, if there are names."""
    return None if names is None else tuple(str(names[i]) for i in ids)


class WarmStart(NamedTuple):
    """Where a run is to begin, and the steps that led there."""

    ids: Ids
    weights: Vector
    t: int


def _as_weights(
    over: Any, ridge: Any, table: TableAtoms | None, n: int, exclude: Ids, *, kinds: tuple[Objective, Method]
) -> WeightSet | None:
    """Check what weights may be, for such an objective and method; None: the plain hull.

    Caps of a table are those of its rows. Methods that know the hull alone are refused, and cones that
    nothing bounds.
    """
    over, paid = read_weights(over, ridge, table)
    found: WeightSet | None = over.bind(n, paid, exclude)
    if found is None:
        return None
    objective, method = kinds
    only = "FullyCorrective for a cap, a cone, a ridge or `at_most`"
    validate.require(isinstance(method, FullyCorrective), "method", only, _describe_method(method))
    bounded = not found.free or (objective.quadratic and hasattr(objective, "residual"))
    rule = "a cone with a cap, a mass or a ridge, but for SquaredDistance and LeastSquares"
    validate.require(bounded, "over", rule, f"{over!r} for {objective!r}")
    return found


def read_weights(over: Any, ridge: Any, table: TableAtoms | None) -> tuple[Hull | Cone, float]:
    """Check a set and a ridge; caps of a table are those of its rows that are kept."""
    validate.kind(over, "over", "Hull() or Cone()", Hull, Cone)
    paid = validate.number(ridge, "ridge", low=0.0)
    validate.require(paid < math.inf, "ridge", "finite", ridge)
    if table is not None and isinstance(over.cap, np.ndarray):
        over = replace(over, cap=table.pick(over.cap, "cap"))
    return over, paid


def describe_weights(over: Hull | Cone, ridge: float) -> str:
    """What weights may be, in a word."""
    return f"{over!r}, ridge={ridge!r}" if ridge > 0.0 else repr(over)


def _as_start(
    start: Result | tuple[ArrayLike, ArrayLike] | None,
    table: TableAtoms | None,
    n: int,
    exclude: Ids,
    over: WeightSet | None = None,
) -> WarmStart | None:
    """Check a warm start."""
    if start is None:
        return None
    given, shares, t = (start.ids, start.weights, start.steps) if isinstance(start, Result) else (*start, 0)
    ids = validate.ids(to_places(table, given, "start"), "start ids", n)
    weights = validate.vector(shares, "start weights", size=len(ids))
    validate.require(not np.isin(ids, exclude).any(), "start ids", "none of `exclude`", "some of them")
    if over is not None:
        most = caps_of(over, ids) * (1.0 + 1e-6)
        good = bool((weights >= 0.0).all() and (weights <= most).all())
        good = good and bool(weights.sum() <= over.total * (1.0 + 1e-6))
        full = over.at_most or bool(weights.sum() >= over.total * (1.0 - 1e-6))
        validate.require(
            good and full, "start weights", "weights of the set `over`", f"sum {weights.sum():g}"
        )
        held = weights > 0.0
        within = fill(over, weights[held], caps_of(over, ids[held]), np.arange(held.sum()))
        return WarmStart(ids[held], within, t) if held.any() else None
    good = len(ids) > 0 and bool((weights >= 0.0).all()) and abs(weights.sum() - 1.0) <= 1e-6
    validate.require(good, "start weights", ">= 0 with sum 1", f"sum {weights.sum():g} of {len(ids)} weights")
    return WarmStart(ids, weights / weights.sum(), t)


def _describe_method(method: object) -> str:
    """Name of a method with the settings that are not its defaults."""
    if not is_dataclass(method):
        return repr(method)
    settings = []
    for field in fields(method):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = getattr(method, field.name)
        settings += [] if value == default else [f"{field.name}={value!r}"]
    return f"{type(method).__name__}({', '.join(settings)})"


# ---------------------------------------------------------------- atoms, and a memory limit

_COPIES = 4  # of a row of the pool: itself, room to grow, the harvest, and now and then one in float64
_BESIDE = 100  # bytes beside each row: ids, scores, places
_LEAST = FullyCorrective(harvest=64, pool=POOL)


def _as_oracle(atoms: Any, method: Method, max_memory: float | str | None) -> tuple[Oracle, Method]:
    """Return what answers queries, and the method; both keep to a memory limit, if there is one."""
    searched = validate.is_oracle(atoms)
    if max_memory is None:
        return atoms if searched else Scan(atoms), method
    rule = "None for an oracle, which has its own memory: give the atoms, or Scan(atoms, max_memory=...)"
    validate.require(not searched, "max_memory", rule, max_memory)
    return fit_memory(as_atoms(atoms), method, max_memory)


def fit_memory(atoms: Atoms, method: Method, max_memory: float | str) -> tuple[Scan, Method]:
    """Share a memory limit out between the passes and the pool; ValueError says what would do.

    Passes give up screening and large blocks; `FullyCorrective` gives up a large pool
    and harvest. Of other methods only the pool that they start from is known.
    """
    given, passes = validate.memory(max_memory, "max_memory"), least_memory(atoms)
    adjust, pools = isinstance(method, FullyCorrective), _weigh(atoms, _LEAST)
    least = f"at least {passes + pools:,} bytes for these atoms"
    validate.require(given >= passes + pools, "max_memory", least, f"{given:,.0f}")
    fitted = method if isinstance(method, FullyCorrective) else _LEAST
    while adjust and _weigh(atoms, fitted) > max((given - passes) / 2, pools):
        fitted = replace(fitted, harvest=max(fitted.harvest // 2, 64), pool=max(fitted.pool // 2, POOL))
    return Scan(atoms, max_memory=given - _weigh(atoms, fitted)), fitted if adjust else method


def _weigh(atoms: Atoms, method: FullyCorrective) -> int:
    """Bytes that a fully corrective run over these atoms takes, at most: d + 1 atoms are active."""
    d = atoms.shape[1]
    active = min(d + 1, atoms.shape[0])
    rows = max(method.pool, 10 * active, POOL, 4 * d) + max(method.harvest, 8 * active)
    factor = 16 * (d + 65) * d + 24 * (d + 65) ** 2
    return min(rows, atoms.shape[0]) * (_COPIES * d * atoms.dtype.itemsize + _BESIDE) + factor
