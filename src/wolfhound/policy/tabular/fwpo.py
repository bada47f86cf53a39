"""Frank-Wolfe policy optimisation: `fwpo` with an exact oracle, `sfwpo` with any.

Algorithm 5 of Shrivastava, Song and Xu, corrected. Yields states to the one
driver; stopping, time and the trace are its affair.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import fingerprint
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.answers import HullPoints
from wolfhound.policy.tabular.acmdp import ACMDP
from wolfhound.policy.tabular.result import TabularResult
from wolfhound.policy.tabular.search import PolicySearch, PolicyState, make_start
from wolfhound.policy.tabular.steps import PerState, PolicyStep
from wolfhound.result import Trace
from wolfhound.solve import Limits, drive

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
