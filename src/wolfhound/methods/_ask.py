"""Asking the oracle: the sign flip, the certificate and the counters, once.

A query maximises and f is minimised, so the query is the negative gradient:
this is the only place that knows it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.core import UNIT, Hits, Ids, Objective, Oracle, Point, State, Status, Vector, gamma


def cutgap(gap: float, excess: float) -> float:
    """Largest possible decrease of f, given a proved Frank-Wolfe gap.

    All atoms satisfy <grad, s - x> >= -gap. The minimum of a quadratic f over
    that half-space is ``f(x) - (gap - gap^2 / (2 N))`` if ``gap < N``, else
    ``f(x) - N/2``, with N = 2 (f(x) - min f over R^d) = `excess`. For other f
    (excess = inf) it is the gap itself. Rounded up.

    Examples
    --------
    >>> round(cutgap(1.0, 2.0), 12), round(cutgap(5.0, 2.0), 12), cutgap(3.0, np.inf)
    (0.75, 1.0, 3.0)
    """
    if gap >= excess:
        return 0.5 * excess
    cut = gap * (1.0 - 0.5 * gap / excess) if math.isfinite(excess) else gap
    return cut * (1.0 + (4.0 * UNIT if math.isfinite(excess) else 0.0))


class Asker:
    """Queries along one run; keeps `lower`, passes, atoms scored, ratio, slack."""

    def __init__(self, objective: Objective, oracle: Oracle, exclude: Ids) -> None:
        self.objective = objective
        self.oracle = oracle
        self.exclude = exclude
        self.lower = objective.floor if objective.convex else -math.inf
        self.passes = 0.0
        self.scored = 0
        self.ratio = math.nan
        self.slack = math.inf

    def __call__(self, point: Point, *, k: int = 1, wanted: float | None = None) -> Hits:
        """Find atoms of largest gap <-grad, s - x>; raise `lower` if proved.

        Parameters
        ----------
        point
            Where to ask.
        k
            Atoms wanted.
        wanted
            Any atom with at least this gap will do.
        """
        here = -float(point.grad @ point.x)
        hits = self.query(
            -point.grad[None], k=k, thresholds=None if wanted is None else np.array([here + wanted])
        )
        self._certify(point, hits, here)
        return hits

    def query(self, queries: Vector, *, k: int = 1, thresholds: Vector | None = None) -> Hits:
        """Ask for atoms without a certificate; counted like any other query."""
        exclude = None
        if len(self.exclude):
            exclude = np.broadcast_to(self.exclude, (len(queries), len(self.exclude)))
        hits = self.oracle.query(queries, k=k, thresholds=thresholds, exclude=exclude)
        self.passes += hits.passes
        self.scored += int(hits.scored.sum())
        self.ratio = math.nan
        return hits

    def _certify(self, point: Point, hits: Hits, here: float) -> None:
        bound = float(hits.bounds[0])
        if not math.isfinite(bound):
            return
        gap = bound - here
        if gap > 0.0:
            self.ratio = (float(hits.scores[0, 0]) - here) / gap
        size, length = float(np.linalg.norm(point.grad)), float(np.linalg.norm(point.x))
        radius = max(hits.radius, length)
        rounding = 1.01 * gamma(len(point.x) + 4) * size * radius
        if point.grad_error > 0.0:
            rounding += 2.0 * point.grad_error * radius
        self.slack = 2.0 * (point.value_error + rounding) + 4.0 * UNIT * abs(point.value)
        if self.objective.convex:
            cut = cutgap(max(gap + rounding, 0.0), point.excess)
            proved = point.value - point.value_error - cut
            self.lower = max(self.lower, proved - 4.0 * UNIT * abs(proved))

    def state(
        self,
        t: int,
        point: Point,
        ids: Ids,
        weights: Vector,
        *,
        kind: str,
        hit: int = -1,
        end: Status | None = None,
    ) -> State:
        """Snapshot the run."""
        return State(
            t=t,
            point=point,
            lower=self.lower,
            ids=ids.copy(),
            weights=weights.copy(),
            passes=self.passes,
            scored=self.scored,
            ratio=self.ratio,
            slack=self.slack,
            kind=kind,
            hit=hit,
            end=end,
        )
