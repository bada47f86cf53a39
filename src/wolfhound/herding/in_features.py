"""`herd_in_features`: a few weighted atoms whose mean feature is that of all.

The paper's Algorithms 3 and 4 run in `feature_picks`; here their outcome is evaluated.
The mean of all features is known, so every MMD is exact.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound.atoms import as_atoms, fingerprint
from wolfhound.core import Atoms, AtomsLike, Ids, Ints, Matrix, Oracle, StepSize, Vector
from wolfhound.herding.draw import draw_ids
from wolfhound.herding.evaluation import Measured, evaluate, skip_evaluation
from wolfhound.herding.feature_picks import FeatureRun, check_picking, map_atoms, pick_in_features
from wolfhound.herding.greedy import refuse_nothing
from wolfhound.herding.kernels.features import Features, row_shares
from wolfhound.herding.result import HerdResult
from wolfhound.herding.session import Callback, forget
from wolfhound.herding.settings import check_start, check_width, seed_number
from wolfhound.solve import Limits
from wolfhound.stopwatch import time_solving

FeaturesLike: TypeAlias = Features | Callable[[Matrix], NDArray[Any]] | AtomsLike


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
    check_picking(oracle, step, callback)
    validate.flag(evaluate, "evaluate")
    given = as_atoms(atoms)
    goal = None if target is None else as_atoms(target, "target")
    chosen, banned = check_start(given.shape[0], m, start, exclude)
    source, phi = _find_features(features, given, banned)
    if goal is not None:
        check_width(goal, source.shape[1])
    shares = row_shares(row_weights, (given if goal is None else goal).shape[0], "row_weights")
    session = FeatureSession(
        atoms=given,
        source=source,
        features=phi,
        options={"oracle": oracle, "step": step, "target": goal, "row_weights": shares},
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
class FeatureSession:
    """All that decides a run in a feature space; also what it needs to go on."""

    atoms: Atoms  # what is herded, for pictures
    source: Atoms  # what is mapped
    features: Features | None  # the map; None: the source are features already
    options: dict[str, Any]  # oracle, step, target and row weights, as for `pick_in_features`
    exclude: Ids
    evaluate: bool
    seed: int
    done: FeatureRun | None = None

    @property
    def table(self) -> None:
        """There is none: features are of rows that all count."""

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
        draws = None if self.done is None else np.random.default_rng([self.seed, len(self.done.picks)])
        run = pick_in_features(
            self.source,
            m,
            self.features,
            start=start,
            exclude=self.exclude,
            limits=limits,
            callback=callback,
            seed=self.seed if draws is None else draws,
            **self.options,
        )
        if not len(run.ids):
            refuse_nothing(run.status, limits.seconds)
        seconds, quality = time_solving(began), skip_evaluation("evaluate=False")
        if self.evaluate:
            quality = evaluate(
                map_atoms(self.source, self.features),
                len(run.picks),
                self.exclude,
                lambda sizes, _: _measure_run(run, sizes),
                rng=np.random.default_rng([self.seed, 1]),
                deadline=began + limits.seconds,
            )
        same = ("ids", "weights", "passes", "scored", "status", "trace")
        return quality._asdict() | {
            **{name: getattr(run, name) for name in same},
            "seconds": seconds,
            "space": f"a space of {len(run.mean):,} features",
            "fingerprint": fingerprint(self.atoms),
            "session": replace(self, done=run),
        }

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Pickle as None: atoms are not copied along."""
        return forget, ()


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
