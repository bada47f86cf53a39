"""Herding in a feature space that the user gives, as a `HerdResult`.

The algorithm is `finite.in_features`; here its outcome is evaluated. The mean
of all features is known, so every MMD is exact.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound import validate
from wolfhound.atoms import as_atoms, fingerprint
from wolfhound.core import Atoms, Ids, Matrix, Oracle, Progress, StepSize, Vector
from wolfhound.herding._draw import draw_ids, taken
from wolfhound.herding._report import Report, curve_sizes, effort, skipped
from wolfhound.herding._session import nothing
from wolfhound.herding._task import naming_rows
from wolfhound.herding.features import Features
from wolfhound.herding.finite import FiniteRun, in_features, mapped
from wolfhound.herding.result import Curve, HerdResult
from wolfhound.result import Trace
from wolfhound.solve import Limits
from wolfhound.threads import one_blas_thread

Search = Oracle | Callable[[Atoms], Oracle]


@final
@dataclass(frozen=True, slots=True)
class Mapped:
    """A plain function as `Features`."""

    fn: Callable[[Matrix], NDArray[Any]]
    dim_out: int

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, dim_out) features of the rows."""
        return np.asarray(self.fn(rows))


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """All that decides a run in a feature space; also what it needs to go on.

    Attributes
    ----------
    rows : Atoms
        The rows, for pictures.
    atoms, features : Atoms, Features
        What is mapped and the map; None: the atoms are features already.
    oracle : Oracle or what makes one, optional
        Searches the features. None: fresh samples, never an index: what an index cannot
        find adds up in the residual, until it finds nothing else (claim_herding).
    step : StepSize, optional
        Decides the weights.
    target : Atoms, optional
        To stand for, mapped in the same way.
    row_weights : (t,), optional
        Weights of the target's rows.
    exclude : (e,)
        Rows that must not be picked.
    evaluate : bool
        Whether random subsets are measured.
    seed : int
        Of all that is random.
    done : FiniteRun, optional
        What there is so far.
    """

    rows: Atoms
    atoms: Atoms
    features: Features | None
    oracle: Search | None
    step: StepSize | None
    target: Atoms | None
    row_weights: Vector | None
    exclude: Ids
    evaluate: bool
    seed: int
    done: FiniteRun | None = None

    def extend(
        self, m: int, *, max_seconds: float, callback: Callable[[Progress], bool | None] | None
    ) -> HerdResult:
        """Go on to m picks, by the schedule of the first ones."""
        so_far = 0 if self.done is None else len(self.done.picks)
        size = validate.count(m, "m", low=1)
        validate.require(size > so_far, "m", f"more than the {so_far} picks so far", m)
        return self.run(size, self.done, max_seconds=max_seconds, callback=callback)

    def run(
        self,
        m: int,
        init: FiniteRun | Ids | None,
        *,
        max_seconds: float,
        callback: Callable[[Progress], bool | None] | None,
    ) -> HerdResult:
        """Pick until there are m, and evaluate them."""
        began = time.perf_counter()
        with naming_rows():
            run = in_features(
                self.atoms,
                m,
                self.features,
                oracle=self.oracle,
                step=self.step,
                target=self.target,
                row_weights=self.row_weights,
                init=init,
                exclude=self.exclude,
                limits=Limits(seconds=max_seconds),
                callback=callback,
                rng=self.seed
                if self.done is None
                else np.random.default_rng([self.seed, len(self.done.picks)]),
            )
        if not len(run.ids):
            nothing(run.status, max_seconds)
        return self._result(run, time.perf_counter() - began)

    def _result(self, run: FiniteRun, seconds: float) -> HerdResult:
        report = self._evaluated(run) if self.evaluate else skipped()
        dim = len(run.mean)
        return HerdResult(
            ids=run.ids,
            weights=run.weights,
            mmd=report.mmd,
            mmd_random=report.mmd_random,
            mmd_random_spread=report.mmd_random_spread,
            reference=report.reference,
            seconds=seconds,
            evaluation_seconds=report.evaluation_seconds,
            passes=run.passes,
            scored=run.scored,
            status=run.status,
            trace=run.trace,
            kernel=None,
            space=f"a space of {dim:,} features",
            fingerprint=fingerprint(self.rows),
            measured=report.measured,
            session=replace(self, done=run),
        )

    def _evaluated(self, run: FiniteRun) -> Report:
        began = time.perf_counter()
        space = mapped(self.atoms, self.features)
        rng = np.random.default_rng([self.seed, 1])
        k, draws = len(run.picks), effort(len(run.picks))[1]
        sizes = curve_sizes(k)
        with one_blas_thread():
            curves = [
                _distances(
                    taken(space, rng.permutation(draw_ids(space.shape[0], k, self.exclude, rng)), "rows"),
                    run.mean,
                    sizes,
                )
                for _ in range(draws)
            ]
        random = np.array(curves)
        return Report(
            mmd=run.distance,
            mmd_random=float(random[:, -1].mean()),
            mmd_random_spread=float(random[:, -1].std(ddof=1)),
            reference=f"the mean of all features (exact); {draws} random subsets",
            evaluation_seconds=time.perf_counter() - began,
            measured=_curve(run.trace, sizes, random.mean(axis=0)),
        )

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Pickle as None: rows are not copied along."""
        return _none, ()


def _none() -> None:
    """Stand for what is not pickled."""


def _distances(features: Matrix, mean: Vector, sizes: Ids) -> Vector:
    """|mean of the first rows - mean| for these sizes."""
    firsts = np.concatenate([[0], sizes[:-1]])
    sums = np.cumsum(np.add.reduceat(features, firsts, axis=0, dtype=np.float64), axis=0)
    return np.asarray(np.linalg.norm(sums / sizes[:, None] - mean, axis=1))


def _curve(trace: Trace, sizes: Ids, random: Vector) -> Curve:
    """The distances on the way, where the trace has them."""
    last = np.searchsorted(trace.t, sizes, side="right") - 1
    known = (last >= 0) & (trace.t[np.maximum(last, 0)] == sizes)
    return Curve(sizes[known], np.sqrt(2.0 * trace.value[last[known]]), random[known])


def as_features(features: Any, rows: Atoms, exclude: Ids) -> tuple[Atoms, Features | None]:
    """Return what is mapped and the map, from whatever the caller has.

    Parameters
    ----------
    features
        A map, or (n, p) features of the rows: an array, atoms or a path. None: the rows.
    rows
        What was to be herded.
    exclude : (e,)
        Rows that need not be mapped.
    """
    if features is None:
        return rows, None
    if not callable(features):
        table = as_atoms(features, "features")
        n = rows.shape[0]
        validate.require(table.shape[0] == n, "features", f"{n} rows, one per row", f"{table.shape[0]} rows")
        return table, None
    dim = getattr(features, "dim_out", None)
    if dim is not None:
        return rows, features
    one = np.asarray(features(rows.take(draw_ids(rows.shape[0], 1, exclude, np.random.default_rng(0)))))
    good = one.ndim == 2 and len(one) == 1
    validate.require(good, "features", "a map of (r, d) rows to (r, p)", f"shape {one.shape} for one row")
    return rows, Mapped(features, one.shape[1])
