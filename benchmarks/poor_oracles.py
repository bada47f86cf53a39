"""Adversarial oracles of policies: the worst answer that still keeps a promise."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.policy import ACMDP, ActionSet
from wolfhound.policy.tabular.models import Reward


@dataclass
class Poor:
    """Finds the worst atom that still has a share of the best gap, or score.

    Attributes
    ----------
    here : (S, d), optional
        The policy from which gaps are measured, one query per state; None: shares of the score.
    """

    rows: Vector
    share: float
    here: Vector | None = None

    @property
    def atoms(self) -> Atoms:
        return ArrayAtoms(self.rows)

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        scores = queries @ self.rows.T
        base = np.zeros(len(queries)) if self.here is None else np.einsum("ij,ij->i", queries, self.here)
        best = scores.max(axis=1)
        floors = np.minimum(base + self.share * (best - base), best)[:, None] - 1e-12
        ids = np.where(scores >= floors, scores, np.inf).argmin(axis=1)[:, None]
        return Hits(
            ids=ids,
            scores=np.take_along_axis(scores, ids, axis=1),
            bounds=np.full(len(queries), np.inf),
            rows=self.rows[ids[:, 0]],
            slots=np.arange(len(queries))[:, None],
            scored=np.full(len(queries), len(self.rows)),
            passes=0.0,
        )


@dataclass
class Spied:
    """A reward that tells an oracle at which policy it was last evaluated."""

    reward: Reward
    oracle: Poor

    @property
    def shape(self) -> tuple[int, int] | None:
        return self.reward.shape

    @property
    def smoothness(self) -> float:
        return self.reward.smoothness

    @property
    def concave(self) -> bool:
        return self.reward.concave

    @property
    def exact(self) -> bool:
        return self.reward.exact

    def slope(self, radius: float) -> float:
        return self.reward.slope(radius)

    def values(self, policy: Vector) -> Vector:
        return self.reward.values(policy)

    def gradients(self, policy: Vector) -> Vector:
        self.oracle.here = policy
        return self.reward.gradients(policy)


def _rows(acmdp: ACMDP) -> Vector:
    return acmdp.actions.atoms.take(np.arange(acmdp.actions.n)).astype(np.float64)


def with_share_of_gap(acmdp: ACMDP, share: float) -> ACMDP:
    """The problem with the poorest oracle that finds this share of every gap."""
    oracle = Poor(_rows(acmdp), share)
    actions = ActionSet(oracle.rows, oracle=oracle, cache=0)
    return ACMDP(Spied(acmdp.reward, oracle), acmdp.transition, acmdp.gamma, acmdp.start, actions)


def with_share_of_score(acmdp: ACMDP, share: float) -> ACMDP:
    """The problem with the poorest oracle that finds this share of every best score."""
    oracle = Poor(_rows(acmdp), share)
    return acmdp.with_actions(ActionSet(oracle.rows, oracle=oracle, cache=0))
