"""The search for a design: a first pool of full rank, then pools, passes and proofs, by a generator.

The best design over a pool is found by Newton steps, each of which is a projection.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import solve_triangular

from wolfhound.compiled.corral import BLOCK, Corral, correct, most_violated
from wolfhound.core.contracts import Atoms, Ids, Ints, Matrix, Oracle, Status, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import UNIT
from wolfhound.data.atoms import ArrayAtoms, finite_rows
from wolfhound.designs.criteria import SINGULAR, AliasedTerms, find_null_space
from wolfhound.designs.proof import certify
from wolfhound.methods.asking import POOL
from wolfhound.oracles.forms import FormScan, survey

# ---------------------------------------------------------------- the best design over a pool

STEPS = 60  # Newton steps at most; three to eight are usual
_SMALL = 1e-13  # weights below are dropped
_MANY = 12  # times as many active candidates as terms: more than an optimal design has


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is minimised, with M = (1 - share) sum w_i x_i x_i' + share * fixed."""

    root: Vector | None  # (d, r) C of trace C'M^-1 C; None: -log det M
    fixed: Vector  # (d, d) information of the given runs, a mean over them
    share: float = 0.0

    def information(self, rows: Vector, weights: Vector) -> Vector:
        """(d, d) M."""
        mixed = (rows * weights[:, None]).T @ rows
        return np.asarray((1.0 - self.share) * mixed + self.share * self.fixed)


class Local:
    """The criterion at M = LL': a target, and how far each candidate of a pool leads to it.

    Efficiency is at least 1 / (1 + `gap`) among these candidates.
    """

    def __init__(self, task: Task, rows: Vector, information: Vector) -> None:
        factor = np.linalg.cholesky(information)
        share = task.share
        self.left = solve_triangular(factor, rows.T, lower=True, check_finite=False).T
        self.pull: Vector | None = None
        self.right, pace = self.left, 2.0
        if task.root is not None:
            pull = solve_triangular(factor, task.root, lower=True, check_finite=False)
            # By a power of two: all that follows is relative, and squares must not overflow.
            self.pull = np.ldexp(pull, -int(np.frexp(np.abs(pull).max())[1]))
            self.right, pace = self.left @ self.pull, 1.5
        self.scores = np.einsum("ij,ij->i", self.right, self.right)
        level = float(information.shape[0]) if self.pull is None else float((self.pull**2).sum())
        self.linear = pace * self.scores
        reached = float(self.scores.max())
        if share:
            half = solve_triangular(factor, task.fixed, lower=True, check_finite=False)
            settled = solve_triangular(factor, half.T, lower=True, check_finite=False)
            kept = settled if self.pull is None else settled @ self.pull
            self.linear = (self.linear - share * _forms(self.left, kept, self.right)) / (1.0 - share)
            there = np.trace(kept) if self.pull is None else np.sum(kept * self.pull)
            reached = (1.0 - share) * reached + share * float(there)
        self.gap = reached / level - 1.0
        self._share = share
        self._tol = 0.0

    def price(self, corral: Corral) -> tuple[float, Ints]:
        """Return the model's value, and places that violate optimality, best first."""
        report_rows(0)
        held, weights = corral.labels, corral.weights
        mixed = (self.left[held] * weights[:, None]).T @ self.right[held]
        scores = self.linear - _forms(self.left, mixed, self.right)
        here = float(weights @ scores[held])
        value = -0.5 * (float(weights @ self.linear[held]) + here)
        violation = scores - here
        violation[held] = -np.inf
        return value, most_violated(violation, self._tol)[: 4 * BLOCK]

    def gram(self, new: Ints, held: Ints) -> tuple[Vector, Vector, Vector]:
        """(cross, gram, linear) of the new places."""
        left, right = self.left[new], self.right[new]
        cross = (left @ self.left[held].T) * (right @ self.right[held].T)
        return cross, (left @ left.T) * (right @ right.T), self.linear[new]

    def swap(self, joined: Ints, left: Ints) -> None:
        """Nothing to note."""

    def step(self, weights: Vector) -> Vector:
        """Return the weights after one Newton step with an exact line search."""
        active = np.flatnonzero(weights > 0.0)
        _, width = self.left.shape
        room = width * self.right.shape[1] + 1 + BLOCK
        size = self.scores * np.einsum("ij,ij->i", self.left, self.left)
        noise = 64.0 * UNIT * float(size.max())
        # A product: the power of a huge gap would raise an error.
        share = min(1e-3, 0.01 * self.gap, 0.01 * (self.gap * self.gap))
        self._tol = max(noise, share * float(self.scores.max()))
        corral = Corral(min(room, len(weights) + BLOCK), float(size[active].mean()))
        first = active
        if len(active) > _MANY * width:  # they depend on each other: begin with a few, others join
            first = active[np.argsort(-weights[active], kind="stable")[: 2 * width]]
        corral.adopt(first, weights[first], self)
        correct(corral, self)
        aim = -weights
        aim[corral.labels] += corral.weights / corral.weights.sum()
        moved = np.flatnonzero(aim)
        turn = (1.0 - self._share) * (self.left[moved] * aim[moved, None]).T @ self.left[moved]
        out = np.maximum(weights + self._search(turn) * aim, 0.0)
        out[out < _SMALL] = 0.0
        return np.asarray(out / out.sum())

    def _search(self, turn: Vector) -> float:
        """How far to go, at most 1: sum c / (1 + s l)^power falls until its slope is zero."""
        values, vectors = np.linalg.eigh(0.5 * (turn + turn.T))
        shares = np.ones(len(values)) if self.pull is None else ((vectors.T @ self.pull) ** 2).sum(axis=1)
        power = 1 if self.pull is None else 2

        def slope(s: float) -> float:
            return -float((shares * values / (1.0 + s * values) ** power).sum())

        low, high = 0.0, 1.0 if 1.0 + values[0] > 0.0 else min(1.0, -0.999999 / float(values[0]))
        if slope(high) <= 0.0:
            return high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
        return low


def _forms(left: Vector, matrix: Vector, right: Vector) -> Vector:
    """u'Sv of every pair of rows."""
    return np.asarray(np.einsum("ij,ij->i", left @ matrix, right))


def improve(task: Task, rows: Vector, weights: Vector, goal: float) -> Vector:
    """Solve the design problem over a pool of (r, d) float64 rows; the best weights seen.

    The weights to begin with must have an M of full rank; `goal` is the wanted gap of the pool, relative.
    """
    best, least, idle = weights, np.inf, 0
    for _ in range(STEPS):
        active = weights > 0.0
        try:
            # Candidates far outside of what M spans overflow; such a step leads nowhere, and is the last.
            with np.errstate(over="ignore", invalid="ignore"):
                here = Local(task, rows, task.information(rows[active], weights[active]))
                idle = 0 if here.gap < 0.7 * least else idle + 1
                if here.gap < least:
                    best, least = weights, here.gap
                if least <= goal or idle > 6:
                    break
                weights = here.step(weights)
        except np.linalg.LinAlgError:  # a step too far: rounding has eaten what was gained
            break
        if not np.isfinite(weights).all():
            break
    return best


# ---------------------------------------------------------------- the search: pools, passes and proofs


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
