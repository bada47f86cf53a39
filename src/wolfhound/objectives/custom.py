"""An objective from a function of the caller, for example of JAX or torch."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import Ids, Matrix, Point, Vector
from wolfhound.core.rounding import SAFE, TINY, UNIT, drift_length, length
from wolfhound.core.validate import as_floats, flag, function, ids, number, require, vector
from wolfhound.objectives.plain import PlainObjective, outside

ValueAndGrad: TypeAlias = Callable[[Vector], tuple[float, ArrayLike]]

_SINGLE = 8.0 * 2.0**-24  # relative rounding of a function that answers in float32
_STEP = (3.0 * UNIT) ** (1.0 / 3.0)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Custom(PlainObjective):
    """f from a function that returns its value and gradient.

    Nothing can be proved about a foreign function: its rounding errors are taken
    as 0 (as 8 units of float32 if its gradients are, as those of JAX by default), and
    `convex`, `smoothness` and `floor` are believed. There is no lift.
    Outside its domain it may return inf or nan, with any gradient: steps then stay
    inside. A run that finds a value below its own lower bound raises, since then the
    gradient, `convex` or `floor` is wrong.

    Parameters
    ----------
    value_and_grad
        Maps x, a (d,) float64 copy, to (value, (d,) gradient).
    convex
        Whether f is convex. A wrong True makes the gaps wrong, if it goes unnoticed.
    smoothness
        A Lipschitz constant of the gradient, if known.
    floor
        A lower bound of f, if known.

    Examples
    --------
    >>> f = Custom(lambda x: (float(x @ x), 2.0 * x), convex=True)
    >>> f.at(np.array([1.0, 2.0])).grad
    array([2., 4.])
    >>> f.check(np.array([1.0, 2.0])) < 1e-6
    True
    """

    value_and_grad: ValueAndGrad
    _: KW_ONLY
    convex: bool
    smoothness: float = math.inf
    floor: float = -math.inf

    def __post_init__(self) -> None:
        function(self.value_and_grad, "value_and_grad")
        smoothness, floor = number(self.smoothness, "smoothness", low=0.0), number(self.floor, "floor")
        self._set(convex=flag(self.convex, "convex"), smoothness=smoothness, floor=floor)

    def __repr__(self) -> str:
        name = getattr(self.value_and_grad, "__name__", type(self.value_and_grad).__name__)
        kind = "convex" if self.convex else "not convex"
        return f"Custom({name}, {kind}; trusted, not proved)"

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x; outside the domain the value is inf and the gradient 0.

        The drift is covered to second order: by `smoothness`, or by the gradient at
        another point that is as far from x as the drift.
        """
        x = as_floats(x, "x")
        value, grad, lost = self._evaluate(x)
        if not _finite(value, grad):
            return outside(x)
        away = drift_length(drift, len(x))
        turn = self._bend(x, grad, drift, away) if away > 0.0 else 0.0
        slope = length(grad) + turn if away > 0.0 else 0.0
        return Point(
            x=x,
            value=value,
            grad=grad,
            value_error=SAFE * slope * away + lost * abs(value),
            grad_error=lost * length(grad),
            turn=turn,
        )

    def _bend(self, x: Vector, grad: Vector, drift: Vector | float, away: float) -> float:
        """How far the gradient may change within the drift."""
        if math.isfinite(self.smoothness):
            return self.smoothness * away
        # Any signs will do, but those of a plain pattern may be orthogonal to the curvature. What has
        # no drift to speak of is exact, such as a zero at the edge of a domain.
        signs = np.where(np.random.default_rng(0).random(len(x)) < 0.5, -1.0, 1.0)
        value, moved, _ = self._evaluate(np.where(drift > TINY, x + signs * drift, x))
        return length(moved - grad) if _finite(value, moved) else 0.0

    def values(self, rows: Matrix) -> Vector:
        """f at each row, inf outside the domain."""
        found = [self._evaluate(row) for row in as_floats(rows, "rows")]
        return np.array([value if _finite(value, grad) else math.inf for value, grad, _ in found])

    def lift(self, rows: Matrix) -> None:
        """None: there is no lift."""
        return

    def slope(self, point: Point) -> NoReturn:
        """Raise: there is no lift."""
        raise TypeError("Custom has no lift, so it has no slope there: use `at(x).grad`.")

    def pull(self, slope: Vector) -> NoReturn:
        """Raise: there is no lift."""
        raise TypeError("Custom has no lift, so there is nothing to pull back.")

    def curvature(self, point: Point) -> NoReturn:
        """Raise: there is no lift."""
        raise TypeError("Custom has no lift, so it has no curvature there.")

    def check(self, x: Vector, *, rtol: float = 1e-5, coordinates: Ids | None = None) -> float:
        """Compare the gradient at x with central finite differences.

        Parameters
        ----------
        x : (d,)
            Where to check.
        rtol
            Allowed difference, relative to the largest slope.
        coordinates
            Which to check, two evaluations each; all by default.

        Returns
        -------
        float
            The largest difference, relative to the largest slope.

        Raises
        ------
        ValueError
            If a difference is larger than allowed; names the coordinate.
        """
        x = vector(x, "x")
        rtol = number(rtol, "rtol", low=0.0, strict=True)
        which = np.arange(len(x)) if coordinates is None else ids(coordinates, "coordinates", len(x))
        require(len(which) > 0, "coordinates", "non-empty", "none")
        value, grad, _ = self._evaluate(x)
        require(_finite(value, grad), "x", "a point where value and gradient are finite", f"f(x) = {value}")
        steps = _STEP * np.maximum(1.0, np.abs(x[which]))
        found = np.array([self._difference(x, int(j), h) for j, h in zip(which, steps, strict=True)])
        # Differences of f carry its rounding, about |f| u / h: no fault of the gradient.
        noise = 64.0 * UNIT * abs(value) / steps
        scale = max(float(np.abs(found).max()), float(np.abs(grad).max()), 1e-300)
        excess = np.maximum(np.abs(found - grad[which]) - noise, 0.0) / scale
        worst = int(excess.argmax())
        if excess[worst] > rtol:
            raise ValueError(
                f"`value_and_grad` returns {grad[which[worst]]:g} as coordinate {which[worst]} of the "
                f"gradient, but differences of its value give {found[worst]:g}."
            )
        return float(excess[worst])

    def _difference(self, x: Vector, j: int, h: float) -> float:
        above, below = x.copy(), x.copy()
        above[j] += h
        below[j] -= h
        return (self._evaluate(above)[0] - self._evaluate(below)[0]) / float(above[j] - below[j])

    def _evaluate(self, x: Vector) -> tuple[float, Vector, float]:
        """Value, gradient, and the relative rounding of both."""
        # A copy in and a copy out: the function may reuse its arrays.
        answer = self.value_and_grad(x.copy())
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(f"`value_and_grad` must return (value, gradient). Got {type(answer).__name__}.")
        value, grad = np.array(answer[0], np.float64), np.array(answer[1], np.float64)
        require(value.shape == (), "value", "one number", f"shape {value.shape}")
        require(grad.shape == x.shape, "gradient", f"of shape {x.shape}, like x", f"shape {grad.shape}")
        if value == -math.inf:
            raise FloatingPointError("`value_and_grad` returned the value -inf: f has no minimum.")
        single = np.asarray(answer[1]).dtype in (np.float16, np.float32)
        return float(value), grad, _SINGLE if single else 0.0


def _finite(value: float, grad: Vector) -> bool:
    """Whether x is inside the domain."""
    return math.isfinite(value) and bool(np.isfinite(grad).all())
