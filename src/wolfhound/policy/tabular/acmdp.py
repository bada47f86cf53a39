"""`ACMDP`: finitely many states, actions in the hull of many given vectors.

Knows the model, checks it (rows are distributions, gradients belong to values) and evaluates policies
exactly; must not know how a policy is improved.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.core.rounding import UNIT
from wolfhound.data.atoms import as_atoms, block_rows
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.policy.actions import ActionSet, Subset
from wolfhound.policy.tabular.models import (
    AffineReward,
    AffineTransition,
    QuadraticReward,
    Reward,
    Transition,
)

_SUM = 1e-6  # allowed error of a sum of probabilities: that of atoms in float32

_STEP = 6e-6  # of central differences, near the third root of the rounding error

_CELLS = 1 << 24  # probabilities that are looked at together


def _check_distributions(chances: Vector, rule: str, where: str, names: Sequence[int]) -> None:
    """Raise ValueError if a row of P is no distribution, saying where, by its name."""
    low, sums = chances.min(axis=1), chances.sum(axis=1)
    bad = np.flatnonzero((low < -_SUM) | (np.abs(sums - 1.0) > _SUM))
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"`transition` must give {rule}. Got a row of sum {sums[i]:g} "
            f"with least entry {low[i]:g} {where.format(names[i])}."
        )


def check_affine(transition: AffineTransition, atoms: Atoms, subsets: Sequence[Subset] | None) -> None:
    """Raise ValueError unless every action of a state leads to a distribution.

    For atoms in the simplex and distributions per coordinate nothing more need be
    computed; else all n S^2 probabilities are.
    """
    tensor, states = transition.tensor, transition.shape[0]
    plain = transition.offset is None and bool((tensor >= 0.0).all())
    plain = plain and bool((np.abs(tensor.sum(axis=2) - 1.0) <= _SUM).all())
    if subsets is not None:
        for s, part in enumerate(subsets):
            _check_block(transition, range(s, s + 1), atoms.take(part.ids), part.ids.tolist())
        return
    for first, block in atoms.blocks(block_rows(atoms)):
        if plain and bool((block >= 0.0).all() and (np.abs(block.sum(axis=1) - 1.0) <= _SUM).all()):
            continue
        _check_block(transition, range(states), block, range(first, first + len(block)))


def _check_block(transition: AffineTransition, states: range, rows: Matrix, names: Sequence[int]) -> None:
    step = max(1, _CELLS // transition.shape[0])
    for s in states:
        offset = 0.0 if transition.offset is None else transition.offset[s]
        for at in range(0, len(rows), step):
            chances = rows[at : at + step] @ transition.tensor[s] + offset
            where = f"for atom {{}} in state {s}"
            _check_distributions(chances, "distributions for all actions", where, names[at : at + step])


def _check_gradients(
    name: str, value: Callable[[Vector], Vector], slopes: Vector, policy: Vector, rtol: float
) -> float:
    """Compare gradients with central differences; return the largest difference, see `ACMDP.check`."""
    found = np.empty_like(slopes)
    for j in range(policy.shape[1]):
        above, below = policy.copy(), policy.copy()
        above[:, j] += _STEP
        below[:, j] -= _STEP
        found[:, j] = (value(above) - value(below)) / (above[:, j] - below[:, j])
    # Differences of values carry their rounding: no fault of the gradient.
    noise = 64.0 * UNIT * float(np.abs(value(policy)).max()) / _STEP
    scale = max(float(np.abs(found).max()), float(np.abs(slopes).max()), 1e-300)
    excess = np.maximum(np.abs(found - slopes) - noise, 0.0) / scale
    s, j = (int(i) for i in np.unravel_index(excess.argmax(), excess.shape))
    if excess[s, j] > rtol:
        raise ValueError(
            f"`gradient` of the {name} gives {slopes[s, j]:g} for coordinate {j} in state {s}, "
            f"but differences of its value give {found[s, j]:g}."
        )
    return float(excess[s, j])


# ---------------------------------------------------------------- the problem

_MIXED = 3  # random atoms of the point at which gradients are checked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """A policy and what it is worth; see `ACMDP.evaluate`.

    Attributes
    ----------
    policy : (S, d)
        One action per state.
    values : (S,)
        V(s), the discounted reward from each state on.
    score : float
        J, the mean of V over the first state.
    gradients : (S, d)
        grad_a Q(s, a) at a = policy[s].
    residual : (S,)
        ``r + gamma P V - V``: what rounding has left of Bellman's equation.
    error : float
        Bound on |J - true J|, from the residual and the rounding of sums.
    smoothness : float
        L_a: Lipschitz constant of grad_a Q(s, a) in a, for this V.
    chances : (S, S)
        P(t | s, policy[s]).
    """

    policy: Vector
    values: Vector
    score: float
    gradients: Vector
    residual: Vector
    error: float
    smoothness: float
    chances: Vector


@final
class ACMDP:
    """A decision process whose actions are the hull of n given vectors.

    Parameters
    ----------
    reward
        r(s, a): a model, or (S, d) weights of an `AffineReward`.
    transition
        P(t | s, a): a model, or an (S, d, S) tensor of an `AffineTransition`.
    gamma
        Discount in [0, 1).
    start : (S,)
        Distribution mu of the first state.
    actions
        An `ActionSet`, or its atoms. All states share it.
    subsets : S vectors of ids, optional
        The actions of each state, where they differ: the hull of these atoms.

    Raises
    ------
    ValueError
        If an action leads to no distribution, or if finite differences contradict
        the gradients of a caller's functions.

    Examples
    --------
    Two states; the first coordinate of an action stays, the second leaves:

    >>> stay_or_leave = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    >>> acmdp = ACMDP([[0.0, 0.0], [1.0, 0.0]], stay_or_leave, 0.5, [1.0, 0.0], np.eye(2))
    >>> acmdp.evaluate(acmdp.atoms_of([1, 0])).score
    1.0
    """

    def __init__(
        self,
        reward: Reward | ArrayLike,
        transition: Transition | ArrayLike,
        gamma: float,
        start: ArrayLike,
        actions: ActionSet | AtomsLike,
        *,
        subsets: Sequence[ArrayLike] | None = None,
    ) -> None:
        self.actions = actions if isinstance(actions, ActionSet) else ActionSet(as_atoms(actions, "actions"))
        self.reward: Reward = _as_model(
            reward, "gradients", lambda given: AffineReward(validate.matrix(given, "reward"))
        )
        self.transition: Transition = _as_model(
            transition, "pull", lambda given: AffineTransition(validate.matrix(given, "transition", axes=3))
        )
        self.gamma = validate.number(gamma, "gamma", low=0.0)
        validate.require(self.gamma < 1.0, "gamma", "in [0, 1)", gamma)
        self.start = validate.vector(start, "start")
        good = bool((self.start >= 0.0).all()) and abs(self.start.sum() - 1.0) <= 1e-9
        validate.require(good, "start", ">= 0 with sum 1", f"sum {self.start.sum():g}")
        self.subsets: tuple[Subset, ...] | None = None
        if subsets is not None:
            validate.kind(subsets, "subsets", "a list of vectors of ids", list, tuple, np.ndarray)
            validate.require(len(subsets) == self.states, "subsets", f"{self.states} vectors", len(subsets))
            self.subsets = tuple(self.actions.subset(ids, "subsets") for ids in subsets)
        shape = (self.states, self.actions.dim)
        for name, model in (("reward", self.reward), ("transition", self.transition)):
            rule = f"a model of {shape[0]} states and actions of {shape[1]} entries"
            got = f"{model.shape} (states, entries)"
            validate.require(model.shape in (None, shape), name, rule, got)
        if isinstance(self.transition, AffineTransition):
            check_affine(self.transition, self.actions.atoms, self.subsets)
        if not (self.reward.exact and self.transition.exact):  # at a policy well inside the hull
            rng = np.random.default_rng(0)
            some = [self.atoms_of(self.random_ids(rng)) for _ in range(_MIXED)]
            self.check(np.asarray(np.mean(some, axis=0), np.float64))

    @property
    def states(self) -> int:
        """S, how many states."""
        return len(self.start)

    @property
    def dim(self) -> int:
        """Dimension d of an action."""
        return self.actions.dim

    @property
    def concave(self) -> bool:
        """Whether Q(s, .) is concave for every policy: then optima can be proved."""
        return self.reward.concave and self.transition.affine

    @property
    def affine(self) -> bool:
        """Whether Q(s, .) is affine: then single atoms are optimal."""
        return self.concave and self.reward.smoothness == 0.0

    def __repr__(self) -> str:
        """The sizes, the models and the actions."""
        sets = "one action set" if self.subsets is None else "an action set per state"
        return (
            f"ACMDP({self.states} states, {sets} of {self.actions.n} x {self.dim}, gamma={self.gamma:g}, "
            f"{type(self.reward).__name__}, {type(self.transition).__name__})"
        )

    def with_actions(self, actions: ActionSet) -> ACMDP:
        """Return the same problem, its atoms searched in another way.

        Examples
        --------
        >>> acmdp = random_acmdp(20, 1000, 8)
        >>> acmdp.with_actions(ActionSet(acmdp.actions.atoms, cache=0)).states
        20
        """
        validate.kind(actions, "actions", "an ActionSet", ActionSet)
        check_same_atoms(self.actions.atoms, actions.atoms, "actions")
        other = copy.copy(self)
        other.actions = actions
        return other

    # ------------------------------------------------------------ policies

    def atoms_of(self, ids: ArrayLike, name: str = "ids") -> Vector:
        """(S, d) the policy that takes one atom in each state.

        Parameters
        ----------
        ids : (S,)
        name
            What the caller calls them, for errors.
        """
        chosen = validate.array(ids, name, "a vector of integer ids")
        validate.require(chosen.shape == (self.states,), name, f"{self.states} ids", f"shape {chosen.shape}")
        validate.ids(np.unique(chosen), name, self.actions.n)
        return self.actions.atoms.take(chosen.astype(np.int64)).astype(np.float64)

    def random_ids(self, rng: np.random.Generator) -> Ids:
        """(S,) a random atom for every state, of its own set."""
        actions = self.actions if self.subsets is None else self.actions.within(self.subsets)
        return actions.take_random(self.states, rng)[1]

    def evaluate(self, policy: ArrayLike) -> Evaluation:
        """Evaluate a policy exactly: one linear system of S equations.

        ``V = r + gamma P V``, and ``grad_a Q = grad_a r + gamma grad_a sum_t P(t | s, a) V(t)``.

        Parameters
        ----------
        policy : (S, d)
            Actions; that they lie in the hull is the caller's affair.
        """
        pi = self._actions(policy)
        chances, rewards = self.transition.matrix(pi), self.reward.values(pi)
        _check_distributions(chances, "distributions", "in state {}", range(self.states))
        values = np.asarray(np.linalg.solve(np.eye(self.states) - self.gamma * chances, rewards), np.float64)
        residual = rewards + self.gamma * (chances @ values) - values
        size = float(np.abs(values).max()) + float(np.abs(rewards).max())
        slack = 4.0 * (self.states + self.dim) * UNIT * size
        return Evaluation(
            policy=pi,
            values=values,
            score=float(self.start @ values),
            gradients=self.reward.gradients(pi) + self.gamma * self.transition.pull(pi, values),
            residual=residual,
            error=(float(np.abs(residual).max()) + slack) / (1.0 - self.gamma),
            # Values may be shifted, as chances have sum 1: half their span counts.
            smoothness=self.reward.smoothness
            + self.gamma * self.transition.smoothness * 0.5 * float(np.ptp(values)),
            chances=chances,
        )

    def occupancy(self, here: Evaluation) -> Vector:
        """(S,) ``d(s) = sum_t gamma^t Pr(s_t = s)``, of sum 1 / (1 - gamma); at least mu."""
        system = (np.eye(self.states) - self.gamma * here.chances).T
        return np.asarray(np.linalg.solve(system, self.start), np.float64)

    def check(self, policy: ArrayLike, *, rtol: float = 1e-5) -> float:
        """Compare all gradients at a policy with finite differences.

        Returns the largest difference, relative to the largest slope; raises ValueError,
        naming model, state and coordinate, if it exceeds `rtol`.
        """
        tolerance, pi = validate.number(rtol, "rtol", low=0.0), self._actions(policy)
        weights = np.random.default_rng(1).uniform(-1.0, 1.0, len(pi))
        found = {
            "reward": (self.reward.values, self.reward.gradients(pi)),
            "transition": (lambda a: self.transition.matrix(a) @ weights, self.transition.pull(pi, weights)),
        }
        return max(_check_gradients(name, *pair, pi, tolerance) for name, pair in found.items())

    def _actions(self, policy: ArrayLike) -> Vector:
        pi, shape = validate.matrix(policy, "policy"), (self.states, self.dim)
        validate.require(pi.shape == shape, "policy", f"of shape {shape}", f"shape {pi.shape}")
        return pi


def _as_model(value: Any, member: str, make: Callable[[Any], Any]) -> Any:
    """Return a model, which has this member, as it is, and make one of numbers."""
    return value if hasattr(value, member) and not isinstance(value, type) else make(value)


def random_acmdp(
    states: int,
    n: int,
    dim: int,
    *,
    curvature: float = 0.0,
    gamma: float = 0.9,
    successors: int = 5,
    seed: int | np.random.Generator = 0,
) -> ACMDP:
    """Make a random problem: n sparse distributions over `dim` pure actions.

    Each pure action of a state leads to `successors` random states and has a
    reward in [0, 1]; atoms are drawn from a Dirichlet distribution of parameter 0.3.
    With a curvature, ``curvature/2 |a - centre(s)|^2`` is subtracted.

    Examples
    --------
    >>> random_acmdp(20, 1000, 8)
    ACMDP(20 states, one action set of 1000 x 8, gamma=0.9, AffineReward, AffineTransition)
    """
    rng = validate.rng(seed)
    dim, states = validate.count(dim, "dim", low=1), validate.count(states, "states", low=1)
    atoms = rng.standard_gamma(0.3, (validate.count(n, "n", low=1), dim)) + 1e-300
    atoms /= atoms.sum(axis=1, keepdims=True)
    wide = min(validate.count(successors, "successors", low=1), states)
    tensor = np.zeros((states * dim, states))
    places = np.argsort(rng.random(tensor.shape), axis=1)[:, :wide]
    np.put_along_axis(tensor, places, rng.dirichlet(np.ones(wide), states * dim), axis=1)
    weights, centres = rng.random((states, dim)), rng.dirichlet(np.ones(dim), states)
    reward: Reward = AffineReward(weights)
    if validate.number(curvature, "curvature", low=0.0) > 0.0:
        reward = QuadraticReward(weights, centres, curvature=curvature)
    transition = AffineTransition(tensor.reshape(states, dim, states))
    return ACMDP(reward, transition, gamma, np.full(states, 1.0 / states), atoms)
