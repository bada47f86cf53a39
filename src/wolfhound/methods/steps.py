"""Step sizes: how far to go along a line. They see phi(s) = f(x + s d) only."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import math
import sys
from dataclasses import KW_ONLY, dataclass

from wolfhound.core.contracts import Line
from wolfhound.core.rounding import UNIT
from wolfhound.core.validate import number, require, within

_TRIALS = 200


class _Memoryless:
    """A rule with nothing to estimate."""

    __slots__ = ()

    def begin(self) -> float:
        """Nothing to estimate."""
        return 0.0


class _Schedule(_Memoryless, abc.ABC):
    """A rule that looks at the time only."""

    __slots__ = ()

    @abc.abstractmethod
    def at(self, t: int) -> float:
        """Step of time t = 0, 1, ..."""

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        """Follow the schedule, up to the end of the line."""
        return min(end, self.at(t)), estimate


@dataclass(frozen=True, slots=True)
class OpenLoop(_Schedule):
    """The schedule ``ell / (t + ell)``, whatever f does.

    ``ell = 1`` makes x the mean of all hits (herding), 2 is the classical
    rule, ``2 / c`` suits an oracle that finds a share c of the gap.

    Parameters
    ----------
    ell
        Larger steps for longer.

    Examples
    --------
    >>> OpenLoop(2.0).at(0), OpenLoop(2.0).at(2)
    (1.0, 0.5)
    """

    ell: float = 2.0

    def __post_init__(self) -> None:
        number(self.ell, "ell", low=0.0, strict=True)
        require(math.isfinite(self.ell), "ell", "finite", self.ell)

    def at(self, t: int) -> float:
        """Step of time t = 0, 1, ..."""
        return self.ell / (t + self.ell)


@dataclass(frozen=True, slots=True)
class Clipped(_Schedule):
    """The schedule ``min(1, 2 / (c (t + 2)))`` for a share c of the gap.

    As the paper on sublinear Frank-Wolfe has it, but clipped: unclipped, the first
    step exceeds 1 for every c < 1 and leaves the hull. ``OpenLoop(2 / c)``, that is
    2 / (c t + 2), needs no clipping. For what is promised, compare
    `theory.gap_after_clipped` with `theory.gap_after`.

    Parameters
    ----------
    ratio
        c, the share of the gap that every answer has, in (0, 1].

    Examples
    --------
    >>> [Clipped(0.5).at(t) for t in (0, 2, 6)]
    [1.0, 1.0, 0.5]
    """

    ratio: float

    def __post_init__(self) -> None:
        within(self.ratio, "ratio", "(0, 1]")

    def at(self, t: int) -> float:
        """Step of time t = 0, 1, ..."""
        return min(1.0, 2.0 / (self.ratio * (t + 2)))


@dataclass(frozen=True, slots=True)
class ShortStep(_Memoryless):
    """Minimiser of the quadratic model, ``-phi'(0) / (L |d|^2)``; f never rises.

    If every answer has at least a share c of the best gap, the least of the gaps
    g_0, ..., g_T of the vanilla direction is at most
    ``max(2 h_0 / (T+1), sqrt(2 L D^2 h_0 / (T+1))) / c``, with h_0 = f(w_0) - min f
    and D the diameter of the hull. f need not be convex: where it is not, this is
    all that is promised, and no lower bound is claimed.

    Parameters
    ----------
    smoothness
        L, a Lipschitz constant of the gradient.
    """

    smoothness: float

    def __post_init__(self) -> None:
        number(self.smoothness, "smoothness", low=0.0, strict=True)
        require(math.isfinite(self.smoothness), "smoothness", "finite", self.smoothness)

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        """Minimise the quadratic model on [0, end]."""
        return _model_step(line.slope(0.0), self.smoothness * line.sq_length, end), estimate


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Short steps with an estimated constant, by backtracking; f never rises.

    The estimate shrinks a little at every step and grows until the quadratic
    model lies above f (Pedregosa, Negiar, Askari and Jaggi 2020).

    Parameters
    ----------
    smoothness
        First estimate of the Lipschitz constant of the gradient.
    shrink, grow
        Factors of the estimate before a step and after a failed trial.
    """

    smoothness: float = 1.0
    _: KW_ONLY
    shrink: float = 0.9
    grow: float = 2.0

    def __post_init__(self) -> None:
        number(self.smoothness, "smoothness", low=0.0, strict=True)
        require(math.isfinite(self.smoothness), "smoothness", "finite", self.smoothness)
        within(self.shrink, "shrink", "(0, 1]")
        require(1.0 < number(self.grow, "grow") < math.inf, "grow", "finite and > 1", self.grow)

    def begin(self) -> float:
        """Return the first estimate of the constant."""
        return self.smoothness

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        """Backtrack until the model lies above f."""
        slope, sq_length = line.slope(0.0), line.sq_length
        # Near the optimum the fall of f drowns in its rounding: without this the estimate explodes.
        rounding = _rounding(line)
        smoothness = max(self.shrink * estimate, sys.float_info.min)
        while math.isfinite(smoothness):
            curvature = smoothness * sq_length
            s = _model_step(slope, curvature, end)
            model = line.start.value + s * (slope + 0.5 * s * curvature)
            if line.value(s) <= model + rounding:
                return s, smoothness
            smoothness *= self.grow
        return 0.0, estimate


@dataclass(frozen=True, slots=True)
class LineSearch(_Memoryless):
    """The minimiser of phi on [0, end], for convex f; f never rises, convex or not.

    Finds the root of phi' by the secant rule, which is exact at once for
    quadratics, with Illinois weights and bisections for safety. Where phi' is
    not finite the line has left the domain of f. Where f is not convex a root may
    be no minimum: then the step is halved until f does not rise.

    Parameters
    ----------
    rtol
        Accepted ``|phi'(s)| / |phi'(0)|``.
    """

    rtol: float = 1e-10

    def __post_init__(self) -> None:
        number(self.rtol, "rtol", low=0.0)

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        """Find where f stops falling."""
        first, last = line.slope(0.0), _slope(line, end)
        if not first < 0.0:
            return 0.0, estimate
        s = end if last <= 0.0 else _root(line, (0.0, first), (end, last), self.rtol * -first)
        return step_back(line, s, line.start.value + _rounding(line)), estimate


def step_back(line: Line, s: float, most: float = sys.float_info.max) -> float:
    """The first of s, s/2, ..., 0 where phi is at most this, or finite: a schedule may leave the domain."""
    for _ in range(_TRIALS):
        if s == 0.0 or line.value(s) <= most:
            return s
        s *= 0.5
    return 0.0


def _rounding(line: Line) -> float:
    """How far two values of phi may differ by rounding alone."""
    return 2.0 * line.start.value_error + 8.0 * UNIT * abs(line.start.value)


def _model_step(slope: float, curvature: float, end: float) -> float:
    """Minimiser of ``slope s + curvature s^2 / 2`` on [0, end]."""
    if not slope < 0.0:
        return 0.0
    return end if -slope >= curvature * end else -slope / curvature


def _slope(line: Line, s: float) -> float:
    """phi'(s), inf outside the domain of f."""
    slope = line.slope(s)
    return slope if math.isfinite(slope) else math.inf


def _root(line: Line, low: tuple[float, float], high: tuple[float, float], accepted: float) -> float:
    """Return s between two of either sign with |phi'(s)| <= accepted, or the last where phi still falls."""
    (left, below), (right, above) = low, high
    side = 0
    for trial in range(_TRIALS):
        if math.isinf(above) or trial % 4 == 3:
            s = 0.5 * (left + right)
        else:
            s = left - below * ((right - left) / (above - below))
        if not left < s < right:
            break
        slope = _slope(line, s)
        if abs(slope) <= accepted:
            return s
        if slope < 0.0:
            left, below = s, slope
            above = 0.5 * above if side < 0 else above
            side = -1
        else:
            right, above = s, slope
            below = 0.5 * below if side > 0 else below
            side = 1
    return left
