"""The loop of `fwpo` and `sfwpo`: states for the driver, and the shares of atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound.core import Ids, Matrix, Status, Vector
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import Chosen, HullPoints
from wolfhound.policy.tabular.acmdp import ACMDP, Evaluation
from wolfhound.policy.tabular.steps import Move, PolicyStep
from wolfhound.rounding import UNIT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyState:
    """A `Progress` with its policy: f is -J. A callback may keep it.

    Attributes
    ----------
    t : int
        Steps taken.
    here : Evaluation
        The policy and its worth.
    gaps : (S,)
        ghat of the last query, at this policy; nan before the first.
    bounds : (S,)
        Proved upper bounds on the gaps g, inf where there are none.
    measure : float
        sqrt(sum g^2), proved where all bounds are finite; else ghat / c stands for g in states
        with an answer, and the wanted gap in states with none.
    lower : float
        Minus a proved upper bound on the best J, -inf if none.
    kind : str
        "start", "forward", or "confirm" if a pass answered in the oracle's place.
    """

    t: int
    here: Evaluation
    gaps: Vector
    bounds: Vector
    measure: float
    lower: float
    passes: float
    scored: int
    ratio: float
    slack: float
    kind: str
    end: Status | None = None

    @property
    def value(self) -> float:
        """Proved upper bound on -J."""
        return self.here.error - self.here.score

    @property
    def gap(self) -> float:
        """``value - lower``: how far from the optimum this can be."""
        return self.value - self.lower


@final
class Shares:
    """A policy as shares of atoms, step by step: weights are made when asked for."""

    def __init__(self, first: HullPoints) -> None:
        self.policy = first.points
        self._first = first
        self._ids: list[Ids] = []
        self._alphas: list[Vector] = []

    def add(self, ids: Ids, alphas: Vector) -> None:
        """Note a step towards these atoms."""
        self._ids.append(ids)
        self._alphas.append(alphas)

    def at(self, t: int) -> tuple[Ids, Vector]:
        """(S, k) atoms and weights after t steps, by decreasing weight, padded with -1 and 0."""
        columns = [self._first.ids, *(ids[:, None] for ids in self._ids[:t])]
        kept = np.stack([1.0 - alphas for alphas in self._alphas[:t]] or [np.ones(len(self.policy))], axis=1)
        # Share of a step that later ones leave: the product of what they keep.
        later = np.cumprod(kept[:, ::-1], axis=1)[:, ::-1] if t else kept
        weights = [self._first.weights * later[:, :1]]
        for i in range(t):
            rest = later[:, i + 1] if i + 1 < t else 1.0
            weights.append((self._alphas[i] * rest)[:, None])
        return _merged(np.concatenate(columns, axis=1), np.concatenate(weights, axis=1))


def _merged(ids: Ids, weights: Vector) -> tuple[Ids, Vector]:
    """Each atom once per row, by decreasing weight; none of weight 0."""
    rows = []
    for mine, shares in zip(ids, weights, strict=True):
        unique, place = np.unique(mine[shares > 0.0], return_inverse=True)
        total = np.bincount(place, shares[shares > 0.0], minlength=len(unique))
        order = np.argsort(-total, kind="stable")
        rows.append((unique[order], total[order]))
    wide = max(len(unique) for unique, _ in rows)
    out, shares = np.full((len(rows), wide), -1, np.int64), np.zeros((len(rows), wide))
    for s, (unique, total) in enumerate(rows):
        out[s, : len(unique)], shares[s, : len(unique)] = unique, total
    return out, shares


def begun(acmdp: ACMDP, start: HullPoints | ArrayLike | None, rng: np.random.Generator) -> Shares:
    """The first policy: a random atom per state, given atoms, or given mixtures."""
    if isinstance(start, HullPoints):
        shape = (acmdp.states, acmdp.dim)
        got = start.points.shape
        validate.require(got == shape, "start", f"points of shape {shape}", f"shape {got}")
        return Shares(start)
    ids = acmdp.random_ids(rng) if start is None else validate.array(start, "start", "ids or HullPoints")
    points = acmdp.atoms_of(ids, "start")
    mine = ids.astype(np.int64)[:, None]
    if acmdp.subsets is not None:
        for s, part in enumerate(acmdp.subsets):
            own = bool(part.has(mine[s])[0])
            validate.require(own, "start", "atoms of the states' own sets", f"atom {mine[s, 0]} in state {s}")
    return Shares(HullPoints(points=points, ids=mine, weights=np.ones((acmdp.states, 1))))


class _Found(NamedTuple):
    """What an action set answered at a policy."""

    move: Move
    ids: Ids
    bounds: Vector
    proved: NDArray[np.bool_]
    slack: float


@final
class Search:
    """One run: asks, measures, steps. Its goals are known after the first query.

    Parameters
    ----------
    acmdp, actions
        The problem, and whom to ask.
    exact
        Confirms "none" in all states; None: nobody does.
    step, rtol, eps, c, insist
        As in `sfwpo`.
    """

    def __init__(
        self,
        acmdp: ACMDP,
        actions: ActionSet,
        exact: ActionSet | None,
        *,
        step: PolicyStep,
        rtol: float,
        eps: float | None,
        c: float = 1.0,
        insist: bool = False,
    ) -> None:
        self.acmdp = acmdp
        self.step = step
        self.c = c
        self.goal = math.nan
        self.eps = math.nan if eps is None else validate.number(eps, "eps", low=0.0)
        self._rtol = validate.number(rtol, "rtol", low=0.0)
        self._actions, self._exact, self._insist = actions, exact, insist
        self._passes, self._scored = 0.0, 0

    def states(self, shares: Shares) -> Iterator[PolicyState]:
        """Yield the start, then the state of every policy once it was measured."""
        here = self.acmdp.evaluate(shares.policy)
        unknown = np.full(self.acmdp.states, np.nan)
        yield self._state(0, here, unknown, np.full_like(unknown, np.inf), measure=math.nan)
        memory, lower = self.step.init(), -math.inf
        for t in itertools.count():
            found, measure, kind = self._measured(here)
            lower = max(lower, self._lower(here, found))
            state = self._state(
                t, here, found.move.gaps, found.bounds, measure=measure, lower=lower, kind=kind, found=found
            )
            yield state
            if state.end is not None or not (found.move.gaps > 0.0).any():
                return
            alphas, memory = self.step(self.acmdp, found.move, memory)
            shares.add(found.ids, alphas)
            here = self.acmdp.evaluate(found.move.after(alphas))

    # ------------------------------------------------------------ one query per state

    def _measured(self, here: Evaluation) -> tuple[_Found, float, str]:
        """Ask; where the oracle says "none" for all states, ask the exact one."""
        found = self._ask(self._actions, here)
        measure = self._measure(found)
        self._aim(found, measure)
        none = found.move.gaps < self.c * self._wanted
        sure = found.proved.all() and measure <= self.eps
        if none.all() and not sure and self._exact not in (None, self._actions):
            found = self._ask(self._exact, here)
            return found, self._measure(found), "confirm"
        return found, measure, "forward"

    def _aim(self, found: _Found, measure: float) -> None:
        """Set the goals that are relative to the first query."""
        if math.isnan(self.eps):
            self.eps = self._rtol * measure
        if math.isnan(self.goal):
            gaps = np.where(found.proved, found.bounds, np.maximum(found.move.gaps, 0.0) / self.c)
            self.goal = self._rtol * self._above(gaps)

    @property
    def _wanted(self) -> float:
        """The gap below which a state is in Case 1."""
        return 0.0 if math.isnan(self.eps) else self.eps / math.sqrt(self.acmdp.states)

    def _ask(self, actions: ActionSet, here: Evaluation) -> _Found:
        scores = np.einsum("ij,ij->i", here.gradients, here.policy)
        floors = scores + self.c * self._wanted if self._insist else None
        chosen = self._answers(actions, here.gradients, floors)
        self._passes += sum(one.passes for one in chosen)
        self._scored += sum(one.scored for one in chosen)
        rows: Matrix = np.concatenate([one.rows for one in chosen])
        move = Move.towards(here, rows)
        bounds = np.concatenate([one.bounds for one in chosen]) - scores
        sizes = np.sqrt(np.square(here.gradients).sum(axis=1).max())
        lengths = np.sqrt(max(np.square(rows).sum(axis=1).max(), np.square(here.policy).sum(axis=1).max()))
        return _Found(
            move=move,
            ids=np.concatenate([one.ids for one in chosen]),
            bounds=np.maximum(bounds, np.maximum(move.gaps, 0.0)),
            proved=np.isfinite(bounds),
            slack=float(8.0 * (self.acmdp.dim + 8) * UNIT * sizes * lengths),
        )

    def _answers(self, actions: ActionSet, directions: Vector, floors: Vector | None) -> list[Chosen]:
        if self.acmdp.subsets is None:
            return [actions.argmax(directions, thresholds=floors)]
        return [
            actions.argmax(
                directions[s : s + 1], thresholds=None if floors is None else floors[s : s + 1], subset=part
            )
            for s, part in enumerate(self.acmdp.subsets)
        ]

    # ------------------------------------------------------------ what it proves

    def _measure(self, found: _Found) -> float:
        """Root of the sum of squared gaps; see `PolicyState.measure`."""
        gaps = np.maximum(found.move.gaps, 0.0)
        promised = np.where(gaps >= self.c * self._wanted, gaps / self.c, self._wanted)
        return float(np.sqrt(np.square(np.where(found.proved, found.bounds, promised)).sum()))

    def _lower(self, here: Evaluation, found: _Found) -> float:
        """Minus an upper bound on J*, by one step of value iteration from V.

        For any V, ``T V <= V + e`` gives ``V* <= T V + gamma/(1 - gamma) max e``. Where Q is concave,
        ``T V <= V + residual + g``.
        """
        if not (self.acmdp.concave and found.proved.all()):
            return -math.inf
        return -(here.score + self._above(here.residual + found.bounds + found.slack) + here.error)

    def _above(self, gaps: Vector) -> float:
        """How far J* can be above J: ``sum_s mu g + gamma/(1 - gamma) max g``."""
        gamma = self.acmdp.gamma
        return float(self.acmdp.start @ gaps) + gamma / (1.0 - gamma) * max(float(gaps.max()), 0.0)

    def _state(
        self,
        t: int,
        here: Evaluation,
        gaps: Vector,
        bounds: Vector,
        *,
        measure: float,
        lower: float = -math.inf,
        kind: str = "start",
        found: _Found | None = None,
    ) -> PolicyState:
        slack, ratio, end = math.inf, math.nan, None
        if found is not None:
            slack = 2.0 * (here.error + found.slack / (1.0 - self.acmdp.gamma))
            ratio = _ratio(found)
            gap = here.error - here.score - lower
            end = self._end(gap, measure, slack, found)
        return PolicyState(
            t=t,
            here=here,
            gaps=gaps,
            bounds=bounds,
            measure=measure,
            lower=lower,
            passes=self._passes,
            scored=self._scored,
            ratio=ratio,
            slack=slack,
            kind=kind,
            end=end,
        )

    def _end(self, gap: float, measure: float, slack: float, found: _Found) -> Status | None:
        """Why the run is over, if it is."""
        proved = bool(found.proved.all())
        none = bool((found.move.gaps < self.c * self._wanted).all())
        reasons = (
            (Status.GAP_REACHED, gap <= self.goal),
            (Status.ROUNDING, gap <= 8.0 * slack),
            (Status.FINISHED, proved and measure <= self.eps),
            (Status.NOT_FOUND, none and not proved),
        )
        return next((status for status, holds in reasons if holds), None)


def _ratio(found: _Found) -> float:
    """Mean share of the gap that was found, where the true gap is known and positive."""
    known = found.proved & (found.bounds > 4.0 * found.slack)
    if not known.any():
        return math.nan
    return float((np.maximum(found.move.gaps, 0.0)[known] / found.bounds[known]).mean())
