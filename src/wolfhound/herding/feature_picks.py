"""Herding in a finite feature space: the paper's Algorithms 3 and 4, corrected.

Frank-Wolfe on 1/2 |w - mu|^2 over the hull of the features Phi(X), mu a mean of
features, from the origin. The loop is `FrankWolfe`'s and the driver `solve.drive`:
this file knows the mean, the schedule and the picks, and no kernel.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import MappedAtoms, as_atoms, finite_rows
from wolfhound.core import Atoms, AtomsLike, Hits, Ids, Matrix, Oracle, Start, State, Status, StepSize, Vector
from wolfhound.herding.kernels.features import Features, Identity, feature_mean, row_shares
from wolfhound.herding.sublinear import Onwards, SublinearHerding
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import OpenLoop
from wolfhound.methods.sublinear import SublinearFrankWolfe
from wolfhound.objectives.quadratic import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import LEAST, RandomSubset
from wolfhound.result import Trace
from wolfhound.solve import Limits, Outcome, drive

Steps: TypeAlias = FrankWolfe | SublinearFrankWolfe | SublinearHerding
Searched: TypeAlias = Oracle | Callable[[Atoms], Oracle]

SMALL = 300
"""Below so many picks a sample has 5 % of the atoms: each pick counts for more."""

_UNLIMITED = Limits()
_ORACLES = "an oracle such as Scan(atoms), or what makes one, such as Scan"
_TAKEN = ("forward", "pairwise")  # steps that give weight to the atom that was found


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
    check_picking(oracle, step, callback)
    space = map_atoms(rows, features)
    n = space.shape[0]
    validate.count(m, "m", low=1)
    banned = validate.ids([] if exclude is None else exclude, "exclude", n)
    validate.require(len(banned) < n, "exclude", "fewer than all atoms", f"{len(banned)} of {n}")
    before, begin = _begin(space, start, banned, m)
    loop = _loop(method, step, m)
    draws = validate.rng(seed)
    search = _oracle(space, oracle, m, draws)
    mean = _mean(rows, features, target, row_weights)
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
    """Return the features of atoms, as atoms: what an oracle has to search.

    Examples
    --------
    >>> map_atoms([[1.0, 2.0]], None)
    ArrayAtoms(1 x 2, float64)
    """
    rows = as_atoms(atoms)
    return rows if features is None else MappedAtoms(rows, features, features.dim_out, rows.dtype)


def sample_fresh(atoms: Atoms, m: int, rng: np.random.Generator) -> RandomSubset:
    """Return the oracle of m picks where nothing is known of the features.

    A fresh random sample for every pick: herding's query turns so fast that nothing
    can be kept from one pick to the next, and the best atom hardly matters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [sample_fresh(as_atoms(np.ones((200_000, 1))), m, rng).size for m in (100, 1000)]
    [10000, 2000]
    """
    n = atoms.shape[0]
    return RandomSubset(atoms, size=max(LEAST, n // 20 if m < SMALL else n // 100), seed=rng)


# ---------------------------------------------------------------- arguments


def check_picking(oracle: object, step: object, callback: object) -> None:
    """Raise TypeError where an argument is of another kind than it can be."""
    if oracle is not None and not validate.is_oracle(oracle):
        validate.function(oracle, "oracle", _ORACLES)
    if step is not None:
        validate.kind(step, "step", "a step such as LineSearch()", "begin", "__call__")
    if callback is not None:
        validate.function(callback, "callback", "a function of a state")


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


def _mean(
    rows: Atoms, features: Features | None, target: AtomsLike | None, weights: ArrayLike | None
) -> Vector:
    source = rows if target is None else as_atoms(target, "target")
    d, got = rows.shape[1], source.shape[1]
    validate.require(got == d, "target", f"rows of {d} entries, as the atoms have", got)
    phi = Identity(d) if features is None else features
    row_shares(weights, source.shape[0], "row_weights")
    return feature_mean(source, phi, weights=weights, name="atoms" if target is None else "target")


def _begin(space: Atoms, start: FeatureRun | ArrayLike | None, exclude: Ids, m: int) -> tuple[Ids, Start]:
    """Return the picks that are made already, and where they lead."""
    if isinstance(start, FeatureRun):
        picks, ids, weights, t = start.picks, start.ids, start.weights, start.t
    else:
        picks = _sequence([] if start is None else start, space.shape[0])
        ids, times = np.unique(picks, return_counts=True)
        weights, t = times / max(1, len(picks)), len(picks)
    validate.require(len(picks) < m, "start", f"fewer than m = {m} picks", f"{len(picks)}")
    validate.ids(ids, "start", space.shape[0])
    rows = finite_rows(space, ids)
    none = ids[:0], rows[:0]
    begin = Start(ids=ids, weights=weights, rows=rows, pool_ids=none[0], pool=none[1], exclude=exclude, t=t)
    return picks, begin


def _sequence(value: ArrayLike, n: int) -> Ids:
    """Return ids that may repeat."""
    given = validate.array(value, "start", "a vector of integer ids")
    if given.size == 0 or given.dtype.kind not in "iu" or given.ndim != 1:
        return validate.ids(given, "start", n)
    validate.ids(np.unique(given), "start", n)
    return given.astype(np.int64)


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
