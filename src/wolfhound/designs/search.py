"""The search for a design: a first pool of full rank, then pools, passes and proofs, by a generator."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wolfhound.core.contracts import Atoms, Ids, Matrix, Oracle, Status, Vector
from wolfhound.data.atoms import ArrayAtoms, finite_rows
from wolfhound.designs.criteria import SINGULAR, AliasedTerms, find_null_space
from wolfhound.designs.newton import Task, improve
from wolfhound.designs.proof import certify
from wolfhound.methods.asking import POOL
from wolfhound.oracles.forms import FormScan, survey

HARVEST = 4096  # candidates that a pass adds to the pool
SAMPLE = 32768  # candidates that are solved first, on their own
_ROUGH = 1e-3  # relative gap to which they are
_NEAR = 512  # candidates of the last pass that a design keeps, for exact designs
_PATIENCE = 3  # passes in a row that need not prove more


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
    near: Ids = field(default_factory=lambda: np.empty(0, np.int64))  # best of the last pass
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

    def states(self, ids: Ids, weights: Vector) -> Iterator[DesignState]:
        """Yield the start, then the best design after every pass; end where no pass helps any more.

        The start is a design on a pool whose information has full rank. Whether rounding is the reason of the
        end is for the driver to say, by the slack that is proved.
        """
        best = DesignState(t=0, ids=ids, weights=weights, efficiency=0.0, passes=0.0, scored=0, kind="start")
        yield best
        idle = 0
        for t in itertools.count(1):
            rows = np.ascontiguousarray(self.candidates.take(ids), np.float64)
            weights = improve(self.task, rows, weights, self.goal / 4.0)
            held = weights > 0.0
            ids, weights = ids[held], weights[held]
            proof = certify(
                rows[held],
                weights,
                root=self.task.root,
                given=self.given,
                share=self.task.share,
                root_error=self.root_error,
            )
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


def draw_sample(n: int, exclude: Ids, rng: np.random.Generator) -> Ids:
    """Random candidates of n that are not excluded, in random order."""
    few = n <= 2 * SAMPLE + len(exclude)
    drawn = np.arange(n) if few else np.unique(rng.integers(0, n, SAMPLE + SAMPLE // 4))
    return rng.permutation(np.setdiff1d(drawn, exclude))[:SAMPLE]


def complete_sample(search: Search, ids: Ids, names: Sequence[str]) -> tuple[Ids, Vector, float]:
    """Add candidates until the sample, and its first `POOL`, have full rank: ids, rows, passes it took.

    Where no candidate has a part in what is missing, the error names the terms that are aliased.
    """
    candidates, given, passes = search.candidates, search.given, 0.0
    rows = np.asarray(finite_rows(candidates, ids), np.float64)
    some = max(POOL, 4 * candidates.shape[1])
    null = find_null_space(np.concatenate([rows[:some], given]))
    if null.shape[1] and len(ids) > some:  # rows with a part in the missing directions come first
        parts = ((rows @ null) ** 2).sum(axis=1)
        front = np.argsort(-parts, kind="stable")[: max(256, 4 * null.shape[1])]
        order = np.concatenate([front, np.setdiff1d(np.arange(len(rows)), front)])
        ids, rows = ids[order], rows[order]
        null = find_null_space(np.concatenate([rows[:some], given]))
    while null.shape[1]:
        hits = survey(search.oracle, null @ null.T, 256, search.exclude)
        passes += hits.passes
        rest = float(hits.scores[0]) if len(hits.ids) else 0.0
        new = np.setdiff1d(hits.ids, ids[:some])
        if not rest > (SINGULAR * 1e2) ** 2 * hits.radius or len(new) == 0:
            raise AliasedTerms(null, names)
        ids = np.concatenate([new, np.setdiff1d(ids, new, assume_unique=True)])
        rows = np.asarray(finite_rows(candidates, ids), np.float64)
        null = find_null_space(np.concatenate([rows[:some], given]))
    return ids, rows, passes
