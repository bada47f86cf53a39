"""f along a line, where no image of x is worth keeping."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

from wolfhound.core import Objective, Point, Vector


class PlainLine:
    """phi(s) = f(x + s d) by evaluating f; the last point is kept.

    Outside the domain of f, phi = inf and the slope points back inside.
    """

    def __init__(self, objective: Objective, start: Point, direction: Vector) -> None:
        self._objective = objective
        self._direction = direction
        self._last = (0.0, start)
        self.start = start
        self.sq_length = float(direction @ direction)

    def value(self, s: float) -> float:
        """phi(s)."""
        return self.at(s).value

    def slope(self, s: float) -> float:
        """phi'(s)."""
        point = self.at(s)
        if math.isinf(point.value):
            return math.copysign(math.inf, s)
        return float(point.grad @ self._direction)

    def at(self, s: float) -> Point:
        """Evaluate f at x + s d."""
        if s != self._last[0]:
            self._last = (s, self._objective.at(self.start.x + s * self._direction))
        return self._last[1]


class ParabolaLine(PlainLine):
    """phi(s) = f(x) + s <grad, d> + s^2/2 |d|^2, for f = 1/2 |x - t|^2."""

    def __init__(self, objective: Objective, start: Point, direction: Vector) -> None:
        super().__init__(objective, start, direction)
        self._slope = float(start.grad @ direction)

    def value(self, s: float) -> float:
        """phi(s)."""
        return self.start.value + s * (self._slope + 0.5 * s * self.sq_length)

    def slope(self, s: float) -> float:
        """phi'(s)."""
        return self._slope + s * self.sq_length
