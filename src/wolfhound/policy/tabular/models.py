"""Rewards and transitions of finitely many states, differentiable in the action.

Every model takes a policy, (S, d) one action per state, and works on all states
at once. It must not know what the actions are made of.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Vector
from wolfhound.core.validate import flag, function, matrix, number, require, vector


class Reward(Protocol):
    """r(s, a), for all states at once."""

    @property
    def shape(self) -> tuple[int, int] | None:
        """(S, d), or None if the model does not know."""

    @property
    def smoothness(self) -> float:
        """L_r: Lipschitz constant of the gradient in the action."""

    @property
    def concave(self) -> bool:
        """Whether r(s, .) is concave for every s."""

    @property
    def exact(self) -> bool:
        """Whether gradients are known to belong to the values."""

    def slope(self, radius: float) -> float:
        """Bound on |grad_a r| for actions of norm at most `radius`."""

    def values(self, policy: Vector) -> Vector:
        """(S,) r(s, policy[s])."""

    def gradients(self, policy: Vector) -> Vector:
        """(S, d) grad_a r(s, policy[s])."""


class _Table:
    """What models of given numbers share: they say their sizes."""

    __slots__ = ()
    numbers: ClassVar[tuple[str, int]]  # the array that has a row per state, and its axis of dimensions

    @property
    def shape(self) -> tuple[int, int]:
        """(S, d)."""
        name, axis = self.numbers
        sizes = getattr(self, name).shape
        return sizes[0], sizes[axis]

    def __repr__(self) -> str:
        """The number of states and dimensions."""
        return f"{type(self).__name__}({self.shape[0]} states, {self.shape[1]} dimensions)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AffineReward(_Table):
    """``r(s, a) = <weights[s], a> + offset[s]``.

    Parameters
    ----------
    weights : (S, d)
    offset : (S,), optional

    Examples
    --------
    >>> AffineReward([[1.0, 2.0]]).values(np.array([[0.5, 0.5]]))
    array([1.5])
    """

    numbers: ClassVar[tuple[str, int]] = ("weights", 1)
    smoothness: ClassVar[float] = 0.0
    concave: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    weights: Vector
    offset: Vector | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", matrix(self.weights, "weights"))
        if self.offset is not None:
            object.__setattr__(self, "offset", vector(self.offset, "offset", size=len(self.weights)))

    def slope(self, radius: float) -> float:
        """The longest of the weights."""
        return longest(self.weights)

    def values(self, policy: Vector) -> Vector:
        """(S,) r(s, policy[s])."""
        linear = np.einsum("ij,ij->i", self.weights, policy)
        return np.asarray(linear if self.offset is None else linear + self.offset)

    def gradients(self, policy: Vector) -> Vector:
        """(S, d) the weights."""
        return self.weights


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuadraticReward(_Table):
    """``r(s, a) = <weights[s], a> - curvature/2 |a - centres[s]|^2``.

    Parameters
    ----------
    weights, centres : (S, d)
    curvature
        At least 0; it is L_r.

    Examples
    --------
    >>> QuadraticReward([[1.0]], [[0.0]], curvature=4.0).gradients(np.array([[0.5]]))
    array([[-1.]])
    """

    numbers: ClassVar[tuple[str, int]] = ("weights", 1)
    concave: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    weights: Vector
    centres: Vector
    _: KW_ONLY
    curvature: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", matrix(self.weights, "weights"))
        object.__setattr__(self, "centres", matrix(self.centres, "centres"))
        alike = self.centres.shape == self.weights.shape
        require(alike, "centres", f"like `weights`, {self.weights.shape}", f"shape {self.centres.shape}")
        bend = number(self.curvature, "curvature", low=0.0)
        require(bend < math.inf, "curvature", "finite and >= 0", self.curvature)

    @property
    def smoothness(self) -> float:
        """The curvature."""
        return self.curvature

    def slope(self, radius: float) -> float:
        """Weights, and the curvature times the largest distance from a centre."""
        return longest(self.weights) + self.curvature * (radius + longest(self.centres))

    def values(self, policy: Vector) -> Vector:
        """(S,) r(s, policy[s])."""
        away = policy - self.centres
        linear = np.einsum("ij,ij->i", self.weights, policy)
        return np.asarray(linear - 0.5 * self.curvature * np.einsum("ij,ij->i", away, away))

    def gradients(self, policy: Vector) -> Vector:
        """(S, d) grad_a r(s, policy[s])."""
        return self.weights - self.curvature * (policy - self.centres)

    def __repr__(self) -> str:
        """The number of states and dimensions, and the curvature."""
        return f"{_Table.__repr__(self)[:-1]}, curvature={self.curvature:g})"


@dataclass(frozen=True, slots=True, eq=False)
class SmoothReward:
    """Any differentiable reward, from two functions of a policy.

    An `ACMDP` compares the gradient with finite differences when it is made.

    Parameters
    ----------
    value
        (S, d) policy to (S,) rewards; that of a state depends on its own action.
    gradient
        (S, d) policy to the (S, d) gradients.
    smoothness
        L_r, a Lipschitz constant of the gradient on the hull.
    concave
        Whether r(s, .) is concave; what is proved of the optimum rests on it.

    Examples
    --------
    >>> bowl = SmoothReward(
    ...     lambda a: -(a**2).sum(axis=1), lambda a: -2.0 * a, smoothness=2.0, concave=True
    ... )
    >>> bowl.values(np.array([[3.0]]))
    array([-9.])
    """

    shape: ClassVar[None] = None
    exact: ClassVar[bool] = False
    value: Callable[[Vector], ArrayLike]
    gradient: Callable[[Vector], ArrayLike]
    _: KW_ONLY
    smoothness: float
    concave: bool = False

    def __post_init__(self) -> None:
        function(self.value, "value", "a function of a policy")
        function(self.gradient, "gradient", "a function of a policy")
        flag(self.concave, "concave")
        number(self.smoothness, "smoothness", low=0.0)

    def slope(self, radius: float) -> float:
        """Unknown."""
        return math.inf

    def values(self, policy: Vector) -> Vector:
        """(S,) r(s, policy[s])."""
        return check_answer(self.value(policy.copy()), "value(policy)", policy.shape[:1])

    def gradients(self, policy: Vector) -> Vector:
        """(S, d) grad_a r(s, policy[s])."""
        return check_answer(self.gradient(policy.copy()), "gradient(policy)", policy.shape)


# ---------------------------------------------------------------- checks of all models


def longest(rows: Vector) -> float:
    """Largest norm of vectors along the last axis."""
    return float(np.sqrt(np.square(rows).sum(axis=-1)).max())


def check_answer(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Vector:
    """Check what a caller's function returned; a copy, as it may reuse its arrays."""
    out: NDArray[Any] = np.array(value, np.float64)
    require(out.shape == shape, name, f"of shape {shape}", f"shape {out.shape}")
    if not np.isfinite(out).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise FloatingPointError(f"`{name}` must be finite. Got {out[at]} for state {at[0]}.")
    return out


# ---------------------------------------------------------------- transitions


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
class AffineTransition(_Table):
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

    numbers: ClassVar[tuple[str, int]] = ("tensor", 1)
    smoothness: ClassVar[float] = 0.0
    affine: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    tensor: Vector
    offset: Vector | None = None

    def __post_init__(self) -> None:
        tensor = matrix(self.tensor, "tensor", axes=3)
        states = len(tensor)
        require(tensor.shape[2] == states, "tensor", "an (S, d, S) array", f"shape {tensor.shape}")
        object.__setattr__(self, "tensor", tensor)
        if self.offset is not None:
            offset = matrix(self.offset, "offset")
            square = offset.shape == (states, states)
            require(square, "offset", f"of shape {(states, states)}", f"shape {offset.shape}")
            object.__setattr__(self, "offset", offset)

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SoftmaxTransition(_Table):
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

    numbers: ClassVar[tuple[str, int]] = ("logits", 2)
    affine: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    logits: Vector

    def __post_init__(self) -> None:
        logits = matrix(self.logits, "logits", axes=3)
        require(logits.shape[0] == logits.shape[1], "logits", "an (S, S, d) array", f"shape {logits.shape}")
        object.__setattr__(self, "logits", logits)

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
