"""Transitions of finitely many states, differentiable in the action.

Every model takes a policy, (S, d) one action per state, and works on all states
at once. It must not know what the actions are made of.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import Vector
from wolfhound.policy.tabular.rewards import check_answer, longest, table
from wolfhound.validate import function, number, require


class Transition(Protocol):
    """P(t | s, a), for all states at once."""

    @property
    def shape(self) -> tuple[int, int] | None:
        """(S, d), or None if the model does not know."""

    @property
    def smoothness(self) -> float:
        """L_P: of the gradient of ``sum_t P(t | s, a) v(t)`` in a, for every |v| <= 1."""

    @property
    def affine(self) -> bool:
        """Whether P is affine in the action."""

    @property
    def exact(self) -> bool:
        """Whether gradients are known to belong to the values."""

    @property
    def slope(self) -> float:
        """Bound on the norm of that gradient, for every |v| <= 1."""

    def matrix(self, policy: Vector) -> Vector:
        """(S, S) P(t | s, policy[s])."""

    def pull(self, policy: Vector, values: Vector) -> Vector:
        """(S, d) gradient of ``sum_t P(t | s, a) values[t]`` at policy[s]."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AffineTransition:
    """``P(t | s, a) = sum_j a_j tensor[s, j, t] + offset[s, t]``.

    Where the actions lie in the simplex and every tensor[s, j] is a distribution,
    so is every P(. | s, a). An `ACMDP` checks this for its atoms, whatever they are.

    Parameters
    ----------
    tensor : (S, d, S)
    offset : (S, S), optional

    Examples
    --------
    >>> flip = AffineTransition(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    >>> flip.matrix(np.array([[0.25, 0.75], [1.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    smoothness: ClassVar[float] = 0.0
    affine: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    tensor: Vector
    offset: Vector | None = None

    def __post_init__(self) -> None:
        tensor = table(self.tensor, "tensor", 3)
        states = len(tensor)
        require(tensor.shape[2] == states, "tensor", "an (S, d, S) array", f"shape {tensor.shape}")
        object.__setattr__(self, "tensor", tensor)
        if self.offset is not None:
            offset = table(self.offset, "offset", 2)
            square = offset.shape == (states, states)
            require(square, "offset", f"of shape {(states, states)}", f"shape {offset.shape}")
            object.__setattr__(self, "offset", offset)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, d)."""
        states, dim, _ = self.tensor.shape
        return states, dim

    @property
    def slope(self) -> float:
        """The longest gradient that values in [-1, 1] can give."""
        return longest(np.abs(self.tensor).sum(axis=2))

    def matrix(self, policy: Vector) -> Vector:
        """(S, S) P(t | s, policy[s])."""
        linear = (policy[:, None, :] @ self.tensor)[:, 0, :]
        return np.asarray(linear if self.offset is None else linear + self.offset)

    def pull(self, policy: Vector, values: Vector) -> Vector:
        """(S, d) gradient of ``sum_t P(t | s, a) values[t]``, the same for all a."""
        return np.asarray(self.tensor @ values)

    def __repr__(self) -> str:
        """The number of states and dimensions."""
        return f"AffineTransition({self.shape[0]} states, {self.shape[1]} dimensions)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SoftmaxTransition:
    """``P(. | s, a)`` proportional to ``exp(logits[s] a)``: a distribution for every a.

    Parameters
    ----------
    logits : (S, S, d)
        Row t of state s gives the logit of going to t.

    Examples
    --------
    >>> SoftmaxTransition(np.zeros((2, 2, 3))).matrix(np.ones((2, 3)))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """

    affine: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    logits: Vector

    def __post_init__(self) -> None:
        logits = table(self.logits, "logits", 3)
        require(logits.shape[0] == logits.shape[1], "logits", "an (S, S, d) array", f"shape {logits.shape}")
        object.__setattr__(self, "logits", logits)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, d)."""
        states, _, dim = self.logits.shape
        return states, dim

    @property
    def _spread(self) -> float:
        """At least the distance of any two rows of logits of a state."""
        return 2.0 * longest(self.logits - self.logits.mean(axis=1, keepdims=True))

    @property
    def smoothness(self) -> float:
        """Half the square of the spread D of a state's logits.

        The second derivative of E[v] along u is E[(v - E v)(l - E l)^2] with l = logits u: at most
        2 for |v| <= 1, times a variance of at most (D |u| / 2)^2.
        """
        return 0.5 * self._spread**2

    @property
    def slope(self) -> float:
        """Half the spread: the covariance of v and l."""
        return 0.5 * self._spread

    def matrix(self, policy: Vector) -> Vector:
        """(S, S) P(t | s, policy[s])."""
        scores = np.einsum("std,sd->st", self.logits, policy)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def pull(self, policy: Vector, values: Vector) -> Vector:
        """(S, d) gradient of ``sum_t P(t | s, a) values[t]`` at policy[s]."""
        chances = self.matrix(policy)
        away = chances * (values - (chances @ values)[:, None])
        return np.asarray(np.einsum("st,std->sd", away, self.logits))

    def __repr__(self) -> str:
        """The number of states and dimensions."""
        return f"SoftmaxTransition({self.shape[0]} states, {self.shape[1]} dimensions)"


@dataclass(frozen=True, slots=True, eq=False)
class SmoothTransition:
    """Any differentiable transition, from two functions of a policy.

    An `ACMDP` compares the gradient with finite differences when it is made, and
    checks that every row is a distribution whenever it evaluates a policy.

    Parameters
    ----------
    value
        (S, d) policy to (S, S) probabilities; a row depends on its own action.
    gradient
        (S, d) policy and (S,) v to the (S, d) gradients of ``sum_t P(t | s, a) v(t)``.
    smoothness
        L_P, a Lipschitz constant of that gradient for every |v| <= 1.

    Examples
    --------
    >>> stay = SmoothTransition(
    ...     lambda a: np.eye(len(a)), lambda a, v: np.zeros_like(a), smoothness=0.0
    ... )
    >>> stay.pull(np.ones((2, 3)), np.ones(2)).shape
    (2, 3)
    """

    shape: ClassVar[None] = None
    affine: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    slope: ClassVar[float] = math.inf
    value: Callable[[Vector], ArrayLike]
    gradient: Callable[[Vector, Vector], ArrayLike]
    _: KW_ONLY
    smoothness: float

    def __post_init__(self) -> None:
        function(self.value, "value", "a function of a policy")
        function(self.gradient, "gradient", "a function of a policy and values")
        number(self.smoothness, "smoothness", low=0.0)

    def matrix(self, policy: Vector) -> Vector:
        """(S, S) P(t | s, policy[s])."""
        return check_answer(self.value(policy.copy()), "value(policy)", (len(policy), len(policy)))

    def pull(self, policy: Vector, values: Vector) -> Vector:
        """(S, d) gradient of ``sum_t P(t | s, a) values[t]`` at policy[s]."""
        return check_answer(self.gradient(policy.copy(), values.copy()), "gradient(policy, v)", policy.shape)
