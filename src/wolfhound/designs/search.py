"""The search for a design: pools, passes and proofs, as a generator of states."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from wolfhound.atoms import ArrayAtoms
from wolfhound.core import Atoms, Ids, Matrix, Oracle, Status, Vector
from wolfhound.designs.newton import Task, improve
from wolfhound.designs.proof import Certificate, certify
from wolfhound.methods._begin import POOL
from wolfhound.oracles.forms import FormScan, survey

HARVEST = 4096
"""Candidates that a pass adds to the pool."""

SAMPLE = 32768
"""Candidates that are solved first, on their own."""

_ROUGH = 1e-3
"""Relative gap to which they are."""

_NEAR = 512
"""Candidates of the last pass that a design keeps, for exact designs."""

_PATIENCE = 3
"""Passes in a row that need not prove more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignState:
    """The best design so far, and what is proved of it: a `Progress`; `value - lower` = -log `efficiency`."""

    t: int
    ids: Ids
    weights: Vector
    efficiency: float  # proved lower bound
    passes: float
    scored: int
    kind: str
    ratio: float = math.nan
    slack: float = math.inf  # what of `value` is owed to proved bounds on rounding; inf if too much
    near: Ids = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))  # best of the last pass
    end: Status | None = None

    @property
    def value(self) -> float:
        """Minus the logarithm of what is proved, above the best that there can be."""
        return -math.log(self.efficiency) if self.efficiency > 0.0 else math.inf

    @property
    def lower(self) -> float:
        """The best that there can be."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched."""

    oracle: Oracle  # of forms, over the candidates
    candidates: Atoms  # rows of terms
    task: Task
    given: Matrix  # (g, d)
    exclude: Ids  # candidates that must not be used
    goal: float  # wanted relative gap
    scale: Vector  # (d,) what the caller's terms were multiplied by
    root_error: float = 0.0  # how well C is known, by share of its rows

    def take(self, ids: Ids) -> Vector:
        """Rows in float64."""
        return np.ascontiguousarray(self.candidates.take(ids), np.float64)

    def states(self, ids: Ids, weights: Vector) -> Iterator[DesignState]:
        """Yield the start, then the best design after every pass; end where no pass helps any more.

        The start is a design on a pool whose information has full rank. Whether rounding is the reason of the
        end is for the driver to say, by the slack that is proved.
        """
        best = DesignState(t=0, ids=ids, weights=weights, efficiency=0.0, passes=0.0, scored=0, kind="start")
        yield best
        idle = 0
        for t in itertools.count(1):
            weights, _ = improve(self.task, self.take(ids), weights, self.goal / 4.0)
            ids, weights = ids[weights > 0.0], weights[weights > 0.0]
            proof = self.certify(ids, weights)
            if proof is None:
                return
            hits = survey(self.oracle, proof.query, HARVEST, self.exclude)
            found = proof.efficiency(hits.bound, hits.radius)
            idle = 0 if 1.0 - found < 0.7 * (1.0 - best.efficiency) else idle + 1
            best = replace(
                best, t=t, kind="pass", passes=best.passes + hits.passes, scored=best.scored + hits.scored
            )
            if found > best.efficiency or t == 1:
                slack = proof.slack(float(hits.scores[0]), hits.bound, hits.radius)
                best = replace(
                    best, ids=ids, weights=weights, efficiency=found, slack=slack, near=hits.ids[:_NEAR]
                )
            yield best
            new = np.setdiff1d(hits.ids, ids)
            if len(new) == 0 or idle > _PATIENCE:
                return
            ids, weights = np.concatenate([ids, new]), np.concatenate([weights, np.zeros(len(new))])

    def certify(self, ids: Ids, weights: Vector) -> Certificate | None:
        """Prepare the proof for a design; None if its information cannot be inverted."""
        return certify(
            self.take(ids),
            weights,
            root=self.task.root,
            given=self.given,
            share=self.task.share,
            root_error=self.root_error,
        )

    def begin(self, ids: Ids, rows: Vector) -> tuple[Ids, Vector]:
        """Solve a sample of candidates, roughly; return its design.

        With the given runs its rows have full rank; the first `POOL` alone, too.
        """
        first = min(len(ids), max(POOL, 4 * rows.shape[1]))
        weights = np.full(first, 1.0 / first)
        if len(ids) == first or self.candidates.shape[0] <= SAMPLE:
            return ids[:first], weights
        sample = ArrayAtoms(rows)
        inside = replace(
            self, oracle=FormScan(sample), candidates=sample, exclude=np.empty(0, np.int64), goal=_ROUGH
        )
        places = np.arange(first)
        for state in itertools.islice(inside.states(places, weights), 5):
            places, weights = state.ids, state.weights
            if state.efficiency >= 1.0 - _ROUGH:
                break
        return ids[places], weights
