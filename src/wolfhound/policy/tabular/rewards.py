"""Rewards of finitely many states, differentiable in the action.

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

from wolfhound.core import Vector
from wolfhound.validate import flag, function, matrix, number, real_array, require, require_finite, vector


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AffineReward:
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

    smoothness: ClassVar[float] = 0.0
    concave: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    weights: Vector
    offset: Vector | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", matrix(self.weights, "weights"))
        if self.offset is not None:
            object.__setattr__(self, "offset", vector(self.offset, "offset", size=len(self.weights)))

    @property
    def shape(self) -> tuple[int, int]:
        """(S, d)."""
        states, dim = self.weights.shape
        return states, dim

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

    def __repr__(self) -> str:
        """The number of states and dimensions."""
        return f"AffineReward({self.shape[0]} states, {self.shape[1]} dimensions)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuadraticReward:
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
    def shape(self) -> tuple[int, int]:
        """(S, d)."""
        states, dim = self.weights.shape
        return states, dim

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
        states, dim = self.shape
        return f"QuadraticReward({states} states, {dim} dimensions, curvature={self.curvature:g})"


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


def table(value: ArrayLike, name: str, ndim: int) -> Vector:
    """Return finite float64 numbers with `ndim` axes."""
    out = np.ascontiguousarray(real_array(value, name, ndim), np.float64)
    require(out.size > 0, name, "non-empty", f"shape {out.shape}")
    require_finite(out, name)
    return out


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
