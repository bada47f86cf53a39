"""Frank-Wolfe policy optimisation: `fwpo` with an exact oracle, `sfwpo` with any.

Algorithm 5 of Shrivastava, Song and Xu, corrected. Yields states to the one
driver; stopping, time and the trace are its affair.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import validate
from wolfhound.core.contracts import Ids, Status, Vector
from wolfhound.core.rounding import UNIT, is_rounding
from wolfhound.data.atoms import fingerprint
from wolfhound.policy.actions import ActionSet, Chosen, HullPoints
from wolfhound.policy.tabular.acmdp import ACMDP, Evaluation
from wolfhound.policy.tabular.result import TabularResult
from wolfhound.policy.tabular.steps import PerState, PolicyMove, PolicyStep
from wolfhound.solve.driver import Limits, drive
from wolfhound.solve.result import Trace


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
        ghat of the last query, at this policy; inf before the first.
    bounds : (S,)
        Proved upper bounds on the gaps g, inf where there are none.
    measure : float
        sqrt(sum g^2), proved where all bounds are finite; else ghat / ratio stands for g in
        states with an answer, and the wanted gap in states with none.
    lower : float
        Minus a proved upper bound on the best J, -inf if none.
    kind : str
        "start", "forward", or "confirm" if a pass answered states in the oracle's place.
    """

    t: int
    here: Evaluation
    gaps: Vector
    bounds: Vector
    measure: float = math.nan
    lower: float = -math.inf
    passes: float = 0.0
    scored: int = 0
    ratio: float = math.nan
    slack: float = math.inf
    kind: str = "start"
    end: Status | None = None

    @property
    def value(self) -> float:
        """Proved upper bound on -J."""
        return self.here.error - self.here.score

    @property
    def gap(self) -> float:
        """``value - lower``: how far from the optimum this can be."""
        return self.value - self.lower


# ---------------------------------------------------------------- a policy as shares of atoms


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
        shares = np.stack([np.ones(len(self.policy)), *self._alphas[:t]], axis=1)
        # Share of a step that later ones leave: the product of what they keep.
        later = np.ones_like(shares)
        later[:, :-1] = np.cumprod(1.0 - shares[:, :0:-1], axis=1)[:, ::-1]
        shares *= later
        weights = np.concatenate([self._first.weights * shares[:, :1], shares[:, 1:]], axis=1)
        # Each atom once per state, none of weight 0.
        ids, totals = np.full(weights.shape, -1, np.int64), np.zeros(weights.shape)
        for s, (mine, share) in enumerate(zip(np.concatenate(columns, axis=1), weights, strict=True)):
            unique, place = np.unique(mine[share > 0.0], return_inverse=True)
            total = np.bincount(place, share[share > 0.0], minlength=len(unique))
            order = np.argsort(-total, kind="stable")
            ids[s, : len(unique)], totals[s, : len(unique)] = unique[order], total[order]
        wide = int((ids >= 0).sum(axis=1).max())
        return ids[:, :wide].copy(), totals[:, :wide].copy()


def make_start(acmdp: ACMDP, start: HullPoints | ArrayLike | None, rng: np.random.Generator) -> Shares:
    """The first policy: a random atom per state, given atoms, or given mixtures."""
    if isinstance(start, HullPoints):
        shape, got = (acmdp.states, acmdp.dim), start.points.shape
        validate.require(got == shape, "start", f"points of shape {shape}", f"shape {got}")
        return Shares(start)
    ids = acmdp.random_ids(rng) if start is None else validate.array(start, "start", "ids or HullPoints")
    points = acmdp.atoms_of(ids, "start")
    mine = ids.astype(np.int64)[:, None]
    for s, part in enumerate(acmdp.subsets or ()):
        own = bool(part.has(mine[s])[0])
        validate.require(own, "start", "atoms of the states' own sets", f"atom {mine[s, 0]} in state {s}")
    return Shares(HullPoints(points=points, ids=mine, weights=np.ones((acmdp.states, 1))))


# ---------------------------------------------------------------- the loop


class _Answer(NamedTuple):
    """What was found at a policy; `measure` is that of `PolicyState`, `gaps` are >= 0."""

    move: PolicyMove
    ids: Ids
    bounds: Vector
    proved: NDArray[np.bool_]
    slack: float
    measure: float
    gaps: Vector

    @property
    def ratio(self) -> float:
        """Mean share of the gap that was found, where the true gap is known and positive."""
        known = self.proved & (self.bounds > 4.0 * self.slack)
        return float((self.gaps[known] / self.bounds[known]).mean()) if known.any() else math.nan


@final
@dataclass(slots=True, kw_only=True)
class PolicySearch:
    """One run: asks, measures, steps. Its goals are known after the first query.

    Every state has a wanted gap. An answer with less than its share `ratio` leaves the state in
    doubt; when the states in doubt hold half of the squared wanted gaps, one exact pass answers
    for all, and each then wants half of what the pass has proved. So no state waits for the others.
    """

    acmdp: ACMDP
    actions: ActionSet  # whom to ask
    exact: ActionSet | None  # answers where states are in doubt; None: nobody; all want atol / sqrt|S|
    step: PolicyStep
    rtol: float
    wanted: InitVar[float | None]  # `atol` of `sfwpo`
    ratio: float = 1.0
    insist: bool = False
    atol: float = math.nan
    goal: float = math.nan
    gaps_wanted: Vector = field(init=False)
    passes: float = 0.0
    scored: int = 0

    def __post_init__(self, wanted: float | None) -> None:
        validate.kind(self.step, "step", "a step such as PerState()", "__call__")
        self.atol = math.nan if wanted is None else validate.number(wanted, "atol", low=0.0)
        self.rtol = validate.number(self.rtol, "rtol", low=0.0)
        self.gaps_wanted = np.full(self.acmdp.states, self._least)

    def states(self, shares: Shares) -> Iterator[PolicyState]:
        """Yield the start, then the state of every policy once it was measured."""
        here = self.acmdp.evaluate(shares.policy)
        unknown = np.full(self.acmdp.states, np.inf)
        yield PolicyState(t=0, here=here, gaps=unknown, bounds=unknown)
        estimate, lower = 0.0, -math.inf
        for t in itertools.count():
            answer, kind = self._find_move(here)
            lower = max(lower, self._prove_lower(here, answer))
            slack = 2.0 * (here.error + answer.slack / (1.0 - self.acmdp.gamma))
            end = self._end(here.error - here.score - lower, slack, answer)
            yield PolicyState(
                t=t,
                here=here,
                gaps=answer.move.gaps,
                bounds=answer.bounds,
                measure=answer.measure,
                lower=lower,
                passes=self.passes,
                scored=self.scored,
                ratio=answer.ratio,
                slack=slack,
                kind=kind,
                end=end,
            )
            if end is not None or not (answer.move.gaps > 0.0).any():
                return
            alphas, estimate = self.step(self.acmdp, answer.move, estimate)
            shares.add(answer.ids, alphas)
            here = self.acmdp.evaluate(answer.move.after(alphas))

    def _find_move(self, here: Evaluation) -> tuple[_Answer, str]:
        """Ask; where enough is in doubt, ask the exact one for all that is not proved."""
        found = self._ask(self.actions, here, np.arange(self.acmdp.states))
        answer = self._weigh(here, found)
        if math.isnan(self.goal):
            self._set_goals(answer)
        if self.exact is None or not self._is_doubtful(answer):
            return answer, "forward"
        open_ = np.flatnonzero(~answer.proved)
        sure = self._ask(self.exact, here, open_)
        self.actions.winners.remember(sure.ids, sure.rows)  # what the oracle missed it would miss again
        for name in ("rows", "ids", "bounds"):
            getattr(found, name)[open_] = getattr(sure, name)
        answer = self._weigh(here, found)
        self.gaps_wanted[open_] = np.maximum(0.5 * answer.bounds[open_], self._least)
        return answer, "confirm"

    def _set_goals(self, answer: _Answer) -> None:
        """Make the goals relative to the first query."""
        if math.isnan(self.atol):
            self.atol = self.rtol * answer.measure
        promised = np.where(answer.proved, answer.bounds, answer.gaps / self.ratio)
        self.goal = self.rtol * self._above(promised)
        self.gaps_wanted = np.full(self.acmdp.states, self._least)
        if self.exact is not None:
            self.gaps_wanted = np.maximum(self.gaps_wanted, promised)

    def _is_doubtful(self, answer: _Answer) -> bool:
        """Whether the states whose answer is too poor hold half of what is wanted."""
        squares = np.where(answer.proved, 0.0, np.square(self.gaps_wanted))
        poor = (answer.gaps < self.ratio * self.gaps_wanted) | (answer.gaps <= 0.0)
        poor &= ~answer.proved
        return bool(poor.any() and squares[poor].sum() >= 0.5 * squares.sum())

    @property
    def _least(self) -> float:
        """The gap below which a state is in Case 1."""
        return 0.0 if math.isnan(self.atol) else self.atol / math.sqrt(self.acmdp.states)

    def _ask(self, actions: ActionSet, here: Evaluation, states: Ids) -> Chosen:
        """One query for each of these states; the answers are fresh arrays."""
        gradients = here.gradients[states]
        scores = np.einsum("ij,ij->i", gradients, here.policy[states])
        floors = scores + self.ratio * self.gaps_wanted[states] if self.insist else None
        if (parts := self.acmdp.subsets) is not None:
            actions = actions.within([parts[s] for s in states])
        chosen = actions.argmax(gradients, thresholds=floors)
        self.passes += chosen.passes
        self.scored += chosen.scored
        return chosen

    def _weigh(self, here: Evaluation, found: Chosen) -> _Answer:
        """Gaps, their bounds and their measure."""
        move = PolicyMove.towards(here, found.rows)
        gaps = np.maximum(move.gaps, 0.0)
        bounds = found.bounds - np.einsum("ij,ij->i", here.gradients, here.policy)
        proved, bounds = np.isfinite(bounds), np.maximum(bounds, gaps)
        wanted = self.gaps_wanted
        promised = np.where(gaps >= self.ratio * wanted, gaps / self.ratio, wanted)
        sizes = np.sqrt(np.square(here.gradients).sum(axis=1).max())
        lengths = np.square(found.rows).sum(axis=1).max(), np.square(here.policy).sum(axis=1).max()
        return _Answer(
            move=move,
            ids=found.ids,
            bounds=bounds,
            proved=proved,
            gaps=gaps,
            slack=float(8.0 * (self.acmdp.dim + 8) * UNIT * sizes * np.sqrt(max(lengths))),
            measure=float(np.sqrt(np.square(np.where(proved, bounds, promised)).sum())),
        )

    # ------------------------------------------------------------ what it proves

    def _prove_lower(self, here: Evaluation, answer: _Answer) -> float:
        """Minus an upper bound on J*, by one step of value iteration from V.

        For any V, ``T V <= V + e`` gives ``V* <= T V + gamma/(1 - gamma) max e``. Where Q is concave,
        ``T V <= V + residual + g``.
        """
        if not (self.acmdp.concave and answer.proved.all()):
            return -math.inf
        return -(here.score + self._above(here.residual + answer.bounds + answer.slack) + here.error)

    def _above(self, gaps: Vector) -> float:
        """How far J* can be above J: ``sum_s mu g + gamma/(1 - gamma) max g``."""
        gamma = self.acmdp.gamma
        return float(self.acmdp.start @ gaps) + gamma / (1.0 - gamma) * max(float(gaps.max()), 0.0)

    def _end(self, gap: float, slack: float, answer: _Answer) -> Status | None:
        """Why the run is over, if it is."""
        proved = bool(answer.proved.all())
        reasons = (
            (Status.GAP_REACHED, gap <= self.goal),
            (Status.ROUNDING, is_rounding(gap, slack)),
            (Status.FINISHED, proved and answer.measure <= self.atol),
            (Status.NOT_FOUND, bool((answer.move.gaps < self.ratio * self._least).all()) and not proved),
        )
        return next((status for status, holds in reasons if holds), None)


# ---------------------------------------------------------------- the door

Callback = Callable[[PolicyState], bool | None]

_ROOM = 32  # past winners kept per state: the corners that a state's action is a mixture of
_MOST_ROOM = 16384


def fwpo(
    acmdp: ACMDP,
    *,
    step: PolicyStep | None = None,
    start: HullPoints | ArrayLike | None = None,
    rtol: float = 1e-3,
    atol: float | None = None,
    max_steps: float = 1000,
    max_seconds: float = math.inf,
    callback: Callback | None = None,
    seed: int | np.random.Generator = 0,
) -> TabularResult:
    """Improve a policy by Frank-Wolfe steps, with an exact scan per step.

    Every step evaluates the policy, asks for the best atom in the direction of grad_a Q
    in every state, and moves each action towards its atom. Where Q(s, .) is concave the
    gaps prove how far from optimal the policy is: with g the gaps,
    ``J* <= J + sum_s mu(s) g(s) + gamma / (1 - gamma) max_s g(s)``.

    Parameters
    ----------
    acmdp
        The problem.
    step
        Step sizes; default `PerState`. The others are for comparison, and
        `Backtracking` for models of unknown smoothness.
    start : (S,) ids or HullPoints, optional
        The first policy; default: a random atom of each state's set.
    rtol
        The run ends when the proved distance from the optimum is this share of that of the
        start, or the root of the summed squared gaps is at most `atol`.
    atol
        Default: rtol times that of the start.
    max_steps, max_seconds
        Limits; the best policy so far is returned with its status.
    callback
        Called with every `PolicyState`; returning True stops.
    seed
        Of the first policy.

    Returns
    -------
    TabularResult
        Where Q is concave, the policy of the highest J; else, as the theorem has it, the one
        whose squared gaps have the least sum. (That sum need not fall: it is not the last.)

    Examples
    --------
    >>> from wolfhound.policy import random_acmdp
    >>> result = fwpo(random_acmdp(20, 1000, 8))
    >>> result.status.name, result.steps <= 10, result.gap <= result.goal
    ('GAP_REACHED', True, True)
    """
    validate.kind(acmdp, "acmdp", "an ACMDP", ACMDP)
    exact = acmdp.actions if acmdp.actions.exact else ActionSet(acmdp.actions.atoms)
    step = PerState() if step is None else step
    search = PolicySearch(acmdp=acmdp, actions=exact, exact=exact, step=step, rtol=rtol, wanted=atol)
    return _solve("fwpo", search, start, Limits(steps=max_steps, seconds=max_seconds), callback, seed)


def sfwpo(
    acmdp: ACMDP,
    *,
    ratio: float = 0.8,
    step: PolicyStep | None = None,
    confirm: bool = True,
    insist: bool = False,
    start: HullPoints | ArrayLike | None = None,
    rtol: float = 1e-3,
    atol: float | None = None,
    max_steps: float = 1000,
    max_seconds: float = math.inf,
    callback: Callback | None = None,
    seed: int | np.random.Generator = 0,
) -> TabularResult:
    """Improve a policy by Frank-Wolfe steps with the oracle of its action set.

    As `fwpo`, with any oracle that finds a share `ratio` of the gap ``g(s) = max_a <grad_a Q, a - pi(s)>``.
    (A share of the inner product itself is worth nothing: most of it is common to all atoms.)
    Every state has a wanted gap Phi; an answer with less than ``ratio Phi`` leaves it in doubt. When the
    states in doubt hold half of all squared Phi, one exact pass answers for all: it moves them, and
    each then wants half of what the pass has proved. So a run with an index ends where the exact one
    does, in fewer passes (`benchmarks/claim_policy_tabular.py`). What passes found joins the past
    winners of the run, for an index misses again what it has missed.

    ``ActionSet(atoms, oracle=QuantizedQueries(index, side=policy_plan(...).side))`` makes the
    theorem hold although queries depend on earlier answers.

    Parameters
    ----------
    acmdp
        The problem, its `actions` made with the oracle.
    ratio
        Share of the gap that answers have, in (0, 1].
    step, start, rtol, atol, max_steps, max_seconds, callback, seed
        As in `fwpo`.
    confirm
        Whether passes answer states in doubt. If not, all want ``atol / sqrt|S|``, and the run ends as
        NOT_FOUND when no state has found its share of that.
    insist
        Whether the oracle is given the wanted score as a threshold, so that an index goes
        on until it has found it or given up; else its first answer counts.

    Examples
    --------
    >>> from wolfhound import choose_oracle
    >>> from wolfhound.policy import random_acmdp
    >>> acmdp = random_acmdp(20, 1000, 8)
    >>> choice = choose_oracle(acmdp.actions.atoms, queries=1000, ratio=0.8, proof=False)
    >>> indexed = ActionSet(acmdp.actions.atoms, oracle=choice.build())
    >>> result = sfwpo(acmdp.with_actions(indexed))
    >>> result.success, bool(np.isfinite(result.bounds).all())
    (True, True)
    """
    validate.kind(acmdp, "acmdp", "an ACMDP", ACMDP)
    validate.within(ratio, "ratio", "(0, 1]")
    validate.flag(confirm, "confirm")
    validate.flag(insist, "insist")
    exact = ActionSet(acmdp.actions.atoms) if confirm else None
    room = min(_ROOM * acmdp.states, _MOST_ROOM)
    search = PolicySearch(
        acmdp=acmdp,
        actions=acmdp.actions.fresh(room) if confirm else acmdp.actions,
        exact=exact,
        step=PerState() if step is None else step,
        rtol=rtol,
        wanted=atol,
        ratio=ratio,
        insist=insist,
    )
    return _solve("sfwpo", search, start, Limits(steps=max_steps, seconds=max_seconds), callback, seed)


def policy_iteration(
    acmdp: ACMDP, *, max_steps: float = 1000, seed: int | np.random.Generator = 0
) -> TabularResult:
    """Solve an affine problem exactly: every state takes its best atom, until none is better.

    Examples
    --------
    >>> from wolfhound.policy import random_acmdp
    >>> result = policy_iteration(random_acmdp(20, 1000, 8))
    >>> result.success, result.gap < 1e-9
    (True, True)
    """
    validate.kind(acmdp, "acmdp", "an ACMDP", ACMDP)
    validate.require(acmdp.affine, "acmdp", "affine in the action", f"{acmdp!r}")
    return fwpo(acmdp, rtol=0.0, atol=0.0, max_steps=max_steps, seed=seed)


def _solve(  # noqa: PLR0917 - what both functions were given
    name: str,
    search: PolicySearch,
    start: HullPoints | ArrayLike | None,
    limits: Limits,
    callback: Callback | None,
    seed: int | np.random.Generator,
) -> TabularResult:
    """Run a search on the driver and choose the best of its states."""
    acmdp = search.acmdp
    if callback is not None:
        validate.function(callback, "callback", "a function of a PolicyState")
    shares = make_start(acmdp, start, validate.rng(seed))
    measures: list[float] = []
    least: PolicyState | None = None

    def note(state: PolicyState) -> bool | None:
        nonlocal least
        measures.append(state.measure)
        if least is None or not state.measure > least.measure:
            least = state
        return None if callback is None else callback(state)

    # The search itself says when its goal is reached: it is relative to the first query.
    run = drive(search.states(shares), goal=0.0, limits=limits, callback=note)
    best = run.best if acmdp.concave or least is None else least
    ids, weights = shares.at(best.t)
    return TabularResult(
        policy=best.here.policy,
        ids=ids,
        weights=weights,
        values=best.here.values,
        score=-best.value,
        upper=-run.last.lower,
        gaps=np.maximum(best.gaps, 0.0),
        bounds=best.bounds,
        status=run.status,
        goal=search.goal,
        atol=search.atol,
        steps=run.last.t,
        passes=run.last.passes,
        scored=run.last.scored,
        seconds=run.seconds,
        trace=Trace.of(run.rows),
        measures=np.array(measures),
        fingerprint=fingerprint(acmdp.actions.atoms),
        problem=repr(acmdp),
        method=f"{name} ({search.step!r}, {acmdp.actions!r})",
    )
