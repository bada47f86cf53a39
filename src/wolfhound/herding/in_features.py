"""`herd_in_features`: a few weighted atoms whose mean feature is that of all.

The paper's Algorithms 3 and 4, corrected: Frank-Wolfe on 1/2 |w - mu|^2 over the hull of the features
Phi(X), mu a mean of features, from the origin. The loop is `FrankWolfe`'s and the driver `solve.drive`: this
file knows the mean, the schedule and the picks, and no kernel. The mean of all features is known, so every
MMD is exact.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import validate
from wolfhound.core.contracts import (
    Atoms,
    AtomsLike,
    Hits,
    Ids,
    Ints,
    Matrix,
    Oracle,
    Start,
    State,
    Status,
    StepSize,
    Vector,
)
from wolfhound.core.progress import time_solving
from wolfhound.data.atoms import MappedAtoms, as_atoms, finite_rows
from wolfhound.herding.features import Features, Identity, feature_mean
from wolfhound.herding.greedy import refuse_nothing
from wolfhound.herding.mmd import Measured, draw_ids, evaluate
from wolfhound.herding.result import HerdResult
from wolfhound.herding.session import Callback, HerdData, Session, check_start, seed_number
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import OpenLoop
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import LEAST, RandomSubset
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe
from wolfhound.paper.sublinear_herding import Onwards, SublinearHerding
from wolfhound.show.markup import pick
from wolfhound.solve.driver import Limits, Outcome, drive
from wolfhound.solve.result import Trace

Steps: TypeAlias = FrankWolfe | SublinearFrankWolfe | SublinearHerding
Searched: TypeAlias = Oracle | Callable[[Atoms], Oracle]
FeaturesLike: TypeAlias = Features | Callable[[Matrix], NDArray[Any]] | AtomsLike

SMALL = 300  # below so many picks a sample has 5 % of the atoms: each pick counts for more
_UNLIMITED = Limits()
_ORACLES = "an oracle such as Scan(atoms), or what makes one, such as Scan"
_TAKEN = ("forward", "exact", "pairwise")  # steps that give weight to the atom that was found


def herd_in_features(
    atoms: AtomsLike,
    m: int,
    features: FeaturesLike | None = None,
    *,
    oracle: Oracle | Callable[[Atoms], Oracle] | None = None,
    step: StepSize | None = None,
    target: AtomsLike | None = None,
    start: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    row_weights: ArrayLike | None = None,
    max_seconds: float = math.inf,
    callback: Callback | None = None,
    seed: int | np.random.Generator = 0,
    evaluate: bool = True,
) -> HerdResult:
    """Pick m atoms, with weights, whose mean feature is close to that of all, by Frank-Wolfe.

    Picks are made over all atoms; they may repeat and are merged into weights. To match
    the mean in a kernel, use `herd`.

    Parameters
    ----------
    atoms : (n, d) array, atoms, path, or a list of these
        What to pick from; never all in memory if in files.
    m
        Picks in all, those of `start` included.
    features : (n, p) array, atoms, path, or a map of rows to R^p, optional
        Whose mean is matched; None: the atoms themselves.
    oracle
        Searches the features: an oracle over them, or what makes one, such as `Scan`.
        Default: fresh random samples. Never an index: what it cannot find adds up in
        the residual, until it finds nothing else (claim_herding).
    step
        Decides the weights; ``OpenLoop(1)`` by default: each pick weighs the same.
    target : (t, d), optional
        Other atoms to stand for, mapped in the same way; if features are given as an
        array, it has p columns.
    start : ids, optional
        Atoms that are picked already, with equal weights: the first ids of the result.
    exclude : ids, optional
        Atoms that must not be picked. They count in the mean that is matched.
    row_weights : (n,), optional
        Weights >= 0 of the atoms (of the target, if given) in the mean; only ratios matter.
    max_seconds, callback, seed, evaluate
        As for `herd`; a state is a `State` of Frank-Wolfe.

    Returns
    -------
    HerdResult
        ``ids``, ``weights``, ``mmd``, ``mmd_random``, ...; ``.extend(m)``, ``.plot()``.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(2000, 2))
    >>> result = herd_in_features(rows, 50, np.cos)
    >>> result.space, result.gain > 2.0
    ('a space of 2 features', True)
    """
    validate.flag(evaluate, "evaluate")
    given = as_atoms(atoms)
    goal = None if target is None else as_atoms(target, "target")
    chosen, banned = check_start(given.shape[0], m, start, exclude)
    source, phi = _find_features(features, given, banned)
    shares = validate.row_shares(row_weights, (given if goal is None else goal).shape[0], "row_weights")
    session = FeatureSession(
        data=HerdData(atoms=given, target=goal, labels=None, row_weights=shares),
        pick=partial(
            pick_in_features,
            source,
            features=phi,
            oracle=oracle,
            step=step,
            target=goal,
            row_weights=shares,
            exclude=banned,
        ),
        space=map_atoms(source, phi),
        exclude=banned,
        evaluate=evaluate,
        seed=seed_number(seed),
    )
    return HerdResult(**session.run(m, chosen, Limits(seconds=max_seconds), callback))


@final
@dataclass(frozen=True, slots=True)
class PlainFeatures:
    """A plain function as `Features`."""

    fn: Callable[[Matrix], NDArray[Any]]
    dim_out: int

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, dim_out) features of the rows."""
        return np.asarray(self.fn(rows))


def _find_features(features: Any, atoms: Atoms, exclude: Ids) -> tuple[Atoms, Features | None]:
    """Return what is mapped and the map, from whatever the caller has; no excluded atom is mapped."""
    if features is None:
        return atoms, None
    if isinstance(features, type):
        raise TypeError(f"`features` must be a map of rows, or an array. Got {validate.describe(features)}.")
    n = atoms.shape[0]
    if not callable(features):
        table = as_atoms(features, "features")
        got = f"{table.shape[0]} rows"
        validate.require(table.shape[0] == n, "features", f"{n} rows, one per atom", got)
        return table, None
    if getattr(features, "dim_out", None) is not None:
        return atoms, features  # checked where it is used
    one = np.asarray(features(atoms.take(draw_ids(n, 1, exclude, np.random.default_rng(0)))))
    good = one.ndim == 2 and len(one) == 1
    validate.require(good, "features", "a map of (r, d) rows to (r, p)", f"shape {one.shape} for one row")
    return atoms, PlainFeatures(features, one.shape[1])


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureSession(Session):
    """All that decides a run in a feature space; also what it needs to go on."""

    pick: Callable[..., FeatureRun]  # `pick_in_features` with what stays the same
    space: Atoms  # the features
    exclude: Ids
    evaluate: bool
    seed: int
    done: FeatureRun | None = None

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m picks, by the schedule of the first ones; return the fields of the result."""
        so_far = 0 if self.done is None else len(self.done.picks)
        size = validate.count(m, "m", low=1)
        validate.require(size > so_far, "m", f"more than the {so_far} picks so far", m)
        return self.run(size, self.done, Limits(seconds=max_seconds), callback)

    def run(
        self, m: int, start: FeatureRun | Ids | None, limits: Limits, callback: Callback | None
    ) -> dict[str, Any]:
        """Pick until there are m, and evaluate them; return the fields of `HerdResult`."""
        began = time.perf_counter()
        draws = self.seed if self.done is None else np.random.default_rng([self.seed, len(self.done.picks)])
        run = self.pick(m, start=start, limits=limits, callback=callback, seed=draws)
        if not len(run.ids):
            refuse_nothing(run.status, limits.seconds)
        seconds = time_solving(began)
        quality = evaluate(
            self.space,
            len(run.picks),
            self.exclude,
            (lambda sizes, _: _measure_run(run, sizes)) if self.evaluate else None,
            rng=np.random.default_rng([self.seed, 1]),
            deadline=began + limits.seconds,
        )
        return quality._asdict() | {
            **pick(run, "ids", "weights", "passes", "scored", "status", "trace"),
            "seconds": seconds,
            "space": f"a space of {len(run.mean):,} features",
            "fingerprint": self.data.fingerprint,
            "session": replace(self, done=run),
        }


def _measure_run(run: FeatureRun, sizes: Ints) -> Measured:
    """The distances on the way, where the trace has them; those of others are computed."""

    def distances(features: Matrix) -> Vector:
        firsts = np.concatenate([[0], sizes[:-1]])
        sums = np.cumsum(np.add.reduceat(features, firsts, axis=0, dtype=np.float64), axis=0)
        return np.asarray(np.linalg.norm(sums / sizes[:, None] - run.mean, axis=1))

    trace, words = run.trace, "the mean of all features (exact)"
    last = np.maximum(np.searchsorted(trace.t, sizes, side="right") - 1, 0)
    curve = np.where(trace.t[last] == sizes, np.sqrt(2.0 * trace.value[last]), math.nan)
    return Measured(words, run.distance, curve, None, distances)


# ---------------------------------------------------------------- picks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureRun:
    """Picks, their weights, and how close they come to the mean.

    Empty if a limit ended the run before the first pick; FINISHED: all picks were made, or x is as close to
    mu as can be.
    """

    ids: Ids  # (k,) distinct, in the order of their first pick
    weights: Vector  # (k,) repeats merged; sum 1
    picks: Ids  # (t,) as they were picked, repeats included, those of `start` first
    x: Vector  # (p,) sum_i weights_i Phi(ids_i)
    mean: Vector  # (p,) mu
    value: float  # proved upper bound on 1/2 |x - mu|^2
    lower: float  # proved lower bound on its minimum over the hull
    status: Status
    t: int  # steps of the schedule so far, those of `start` included
    passes: float  # over all atoms, that of the mean included
    scored: int
    seconds: float
    trace: Trace

    @property
    def distance(self) -> float:
        """|x - mu|: the maximum mean discrepancy in this feature space."""
        return float(np.linalg.norm(self.x - self.mean))


def pick_in_features(
    atoms: AtomsLike,
    m: int,
    features: Features | None = None,
    *,
    oracle: Searched | None = None,
    step: StepSize | None = None,
    method: Steps | None = None,
    target: AtomsLike | None = None,
    row_weights: ArrayLike | None = None,
    start: FeatureRun | ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    limits: Limits = _UNLIMITED,
    callback: Callable[[State], bool | None] | None = None,
    seed: int | np.random.Generator = 0,
) -> FeatureRun:
    """Pick m atoms, one after the other, whose mean feature comes close to mu.

    ``x_t = argmax <mu - w_t, Phi(x)>``, ``w_(t+1) = w_t + eta_t (Phi(x_t) - w_t)`` from
    w_0 = 0. With eta_t = 1/(t+1), the default, this is herding, W += mu - Phi(x_t) with
    W_t = t (mu - w_t), and all picks weigh the same; with ``OpenLoop(2)`` the t-th pick weighs
    eta_t prod_(j>t) (1 - eta_j). A schedule takes its step even where no atom that was found is
    better than w_t.

    The arguments are those of `herd_in_features`. Phi is computed anew whenever a row is read. The default
    oracle is a fresh random sample for every pick, of 1 % of the atoms (5 % for m < 300) but at least 1000.
    Instead of `step`, a `method` may ask for a verified share: `SublinearHerding` of |w - mu|^2,
    `SublinearFrankWolfe` of the gap that is left, or a `FrankWolfe` of your own. A run given as `start` goes
    on with its own weights and schedule. The mean is computed whatever the limits.

    Examples
    --------
    The corners of a square, mean (1/2, 1/2): two that are opposite will do.

    >>> run = pick_in_features([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 4, oracle=Scan)
    >>> run.picks, run.weights, run.distance, run.status.name
    (array([3, 0]), array([0.5, 0.5]), 0.0, 'FINISHED')
    """
    began = time.perf_counter()
    rows = as_atoms(atoms)
    if features is not None:
        validate.kind(features, "features", "a map such as Identity(d)", "dim_out", "__call__")
    validate.kind(limits, "limits", "Limits(...)", Limits)
    if oracle is not None and not validate.is_oracle(oracle):
        validate.function(oracle, "oracle", _ORACLES)
    if step is not None:
        validate.kind(step, "step", "a step such as LineSearch()", "begin", "__call__")
    if callback is not None:
        validate.function(callback, "callback", "a function of a state")
    space = map_atoms(rows, features)
    n = space.shape[0]
    validate.count(m, "m", low=1)
    banned = validate.ids([] if exclude is None else exclude, "exclude", n)
    validate.require(len(banned) < n, "exclude", "fewer than all atoms", f"{len(banned)} of {n}")
    before, begin = _begin(space, start, banned, m)
    loop = _loop(method, step, m)
    draws = validate.rng(seed)
    search = _oracle(space, oracle, m, draws)
    source = rows if target is None else as_atoms(target, "target")
    d, got = rows.shape[1], source.shape[1]
    validate.require(got == d, "target", f"rows of {d} columns, as the atoms have", got)
    validate.row_shares(row_weights, source.shape[0], "row_weights")
    phi, name = Identity(d) if features is None else features, "atoms" if target is None else "target"
    mean = feature_mean(source, phi, weights=row_weights, name=name)
    states = loop.states(
        SquaredDistance(mean), _Whole(search) if method is None else search, begin, goal=0.0, rng=draws
    )
    picked: list[int] = []
    run = drive(
        _until(states, m - len(before), picked), goal=0.0, limits=limits, callback=callback, began=began
    )
    picks = np.concatenate([before, np.array(picked, np.int64)])
    return _finish(run, picks, mean, passes=1.0 if target is None else 0.0)


def map_atoms(atoms: AtomsLike, features: Features | None) -> Atoms:
    """Return the features of atoms, as atoms: what an oracle has to search."""
    rows = as_atoms(atoms)
    return rows if features is None else MappedAtoms(rows, features, features.dim_out, rows.dtype)


def sample_fresh(atoms: Atoms, m: int, rng: np.random.Generator) -> RandomSubset:
    """Return the oracle of m picks where nothing is known of the features.

    A fresh random sample for every pick: herding's query turns so fast that nothing
    can be kept from one pick to the next, and the best atom hardly matters.
    """
    n = atoms.shape[0]
    return RandomSubset(atoms, size=max(LEAST, n // 20 if m < SMALL else n // 100), seed=rng)


# ---------------------------------------------------------------- arguments


def _loop(method: object | None, step: StepSize | None, m: int) -> Steps:
    if method is None:
        rule = OpenLoop(1.0) if step is None else step
        # A sample that happens to hold nothing good is no reason to stop.
        return FrankWolfe(Onwards(), rule, patience=max(FrankWolfe().patience, m))
    if not isinstance(method, (FrankWolfe, SublinearFrankWolfe, SublinearHerding)):
        names = "FrankWolfe, SublinearFrankWolfe or SublinearHerding"
        raise TypeError(f"`method` must be a {names}. Got {validate.describe(method)}.")
    validate.require(step is None, "step", "left out where `method` is given, which has its own", step)
    return method


def _oracle(space: Atoms, oracle: Searched | None, m: int, rng: np.random.Generator) -> Oracle:
    if oracle is None:
        return sample_fresh(space, m, rng)
    made = oracle if validate.is_oracle(oracle) else oracle(space)  # type: ignore[operator] # a function
    if not validate.is_oracle(made):
        raise TypeError(f"`oracle` must be {_ORACLES}. Got what makes {validate.describe(made)}.")
    got = made.atoms.shape
    rule = f"an oracle over the {space.shape[0]} x {space.shape[1]} features"
    validate.require(got == space.shape, "oracle", rule, f"one over {got[0]} x {got[1]}")
    return made


def _begin(space: Atoms, start: FeatureRun | ArrayLike | None, exclude: Ids, m: int) -> tuple[Ids, Start]:
    """Return the picks that are made already, and where they lead."""
    if isinstance(start, FeatureRun):
        picks, ids, weights, t = start.picks, start.ids, start.weights, start.t
    else:
        given = validate.array([] if start is None else start, "start", "a vector of integer ids")
        repeats = given.ndim == 1 and given.dtype.kind in "iu"  # ids may repeat; else they are none
        validate.ids(np.unique(given) if repeats else given, "start", space.shape[0])
        picks = given.astype(np.int64)
        ids, times = np.unique(picks, return_counts=True)
        weights, t = times / max(1, len(picks)), len(picks)
    validate.require(len(picks) < m, "start", f"fewer than m = {m} picks", f"{len(picks)}")
    rows = finite_rows(space, validate.ids(ids, "start", space.shape[0]))
    begin = Start(ids=ids, weights=weights, rows=rows, pool_ids=ids[:0], pool=rows[:0], exclude=exclude, t=t)
    return picks, begin


# ---------------------------------------------------------------- the run


@final
class _Whole:
    """Asks an oracle for the best that it can find, and never for nothing.

    Half of what is left, with which `FrankWolfe` would be content, is too little: equal
    weights want more than half of the best gap. Where all that an oracle looked at is
    excluded, a pass answers.
    """

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._oracle.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries, see `Oracle.query`; thresholds are ignored."""
        hits = self._oracle.query(queries, k=k, exclude=exclude)
        if (hits.ids[:, 0] >= 0).all():
            return hits
        found = Scan(self.atoms, screen=False).query(queries, k=k, exclude=exclude)
        return replace(found, scored=found.scored + hits.scored, passes=found.passes + hits.passes)


def _until(states: Iterator[State], m: int, picked: list[int]) -> Iterator[State]:
    """Note the picks of a run, and end it when there are m or w is mu."""
    for state in states:
        if state.hit >= 0 and state.kind in _TAKEN:
            picked.append(state.hit)
        # Without a gradient all atoms are alike, and none brings w closer.
        there = len(state.ids) > 0 and not state.point.grad.any()
        done = state.end is None and (there or len(picked) >= m)
        yield replace(state, end=Status.FINISHED) if done else state


def _finish(run: Outcome[State], picks: Ids, mean: Vector, *, passes: float) -> FeatureRun:
    last = run.last
    distinct, first = np.unique(picks, return_index=True)
    order = np.argsort(first[np.searchsorted(distinct, last.ids)])
    proved = run.status in (Status.GAP_REACHED, Status.ROUNDING)
    # A proof that nothing is left to do is a state of its own, and no step of the schedule.
    idle = sum(1 for _ in itertools.takewhile(lambda row: row.kind == "null", reversed(run.rows)))
    return FeatureRun(
        ids=last.ids[order],
        weights=last.weights[order],
        picks=picks,
        x=last.point.x,
        mean=mean,
        value=last.value,
        lower=last.lower,
        status=Status.FINISHED if proved else run.status,
        t=last.t - idle,
        passes=passes + last.passes,
        scored=last.scored,
        seconds=run.seconds,
        trace=Trace.of(run.rows),
    )
