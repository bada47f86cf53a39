# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from wolfhound.core.contracts import Line, Point, StepSize, Vector
from wolfhound.methods.steps import Adaptive, LineSearch, OpenLoop, ShortStep
from wolfhound.objectives.linear import LeastSquares, Logistic


@dataclass
class Curve:
    """A line given by phi and phi'; counts the slopes."""

    phi: Callable[[float], float]
    derivative: Callable[[float], float]
    sq_length: float = 1.0
    slopes: list[float] = field(default_factory=list)

    @property
    def start(self) -> Point:
        return self.at(0.0)

    def value(self, s: float) -> float:
        return self.phi(s)

    def slope(self, s: float) -> float:
        self.slopes.append(s)
        return self.derivative(s)

    def at(self, s: float) -> Point:
        return Point(x=np.array([s]), value=self.phi(s), grad=np.array([self.derivative(s)]))


def parabola(root: float, curvature: float = 1.0) -> Curve:
    return Curve(lambda s: 0.5 * curvature * (s - root) ** 2, lambda s: curvature * (s - root))


def barrier(wall: float) -> Curve:
    """-log(wall - s) - 5 s: least at wall - 1/5, infinite beyond the wall."""

    def phi(s: float) -> float:
        return -math.log(wall - s) - 5.0 * s if s < wall else math.inf

    def derivative(s: float) -> float:
        return 1.0 / (wall - s) - 5.0 if s < wall else math.nan

    return Curve(phi, derivative)


def length(step: StepSize, line: Line, end: float = 1.0, t: int = 0) -> float:
    s, _ = step(line, end, t, step.begin())
    return s


def logistic_line(seed: int) -> Line:
    rng = np.random.default_rng(seed)
    f = Logistic(rng.standard_normal((40, 3)), rng.choice([-1.0, 1.0], 40))
    point = f.at(5.0 * rng.standard_normal(3))
    direction: Vector = -point.grad / np.linalg.norm(point.grad)
    return f.line(point, direction)


# ---------------------------------------------------------------- open loop


@pytest.mark.parametrize("ell", [1.0, 2.0, 2.0 / 0.7])
def test_open_loop_is_the_schedule(ell: float) -> None:
    steps = [length(OpenLoop(ell), parabola(0.5), t=t) for t in range(5)]
    assert np.allclose(steps, [ell / (t + ell) for t in range(5)])
    assert steps[0] == 1.0


def test_open_loop_stays_on_the_line() -> None:
    assert length(OpenLoop(), parabola(0.5), end=0.25, t=1) == 0.25


# ---------------------------------------------------------------- short steps


@pytest.mark.parametrize(("root", "end", "s"), [(0.25, 1.0, 0.125), (3.0, 1.0, 1.0), (-1.0, 1.0, 0.0)])
def test_short_step_minimises_the_model(root: float, end: float, s: float) -> None:
    assert length(ShortStep(2.0), parabola(root), end) == s


def test_short_step_divides_by_the_squared_length() -> None:
    line = parabola(1.0)
    line.sq_length = 4.0
    assert length(ShortStep(1.0), line) == 0.25


def test_nowhere_to_go() -> None:
    line = Curve(lambda s: 1.0, lambda s: 0.0, sq_length=0.0)
    assert [length(step, line) for step in (ShortStep(1.0), Adaptive(), LineSearch())] == [0.0] * 3


@given(st.integers(0, 1000))
def test_short_steps_never_rise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = LeastSquares(rng.standard_normal((5, 3)), rng.standard_normal(5))
    line = f.line(f.at(rng.standard_normal(3)), rng.standard_normal(3))
    assert line.value(length(ShortStep(f.smoothness), line)) <= line.value(0.0)


# ---------------------------------------------------------------- adaptive


def test_adaptive_finds_the_curvature_from_below() -> None:
    s, memory = Adaptive(0.001)(parabola(0.5, 8.0), 1.0, 0, 0.001)
    assert 4.0 <= memory <= 16.0
    assert 0.25 <= s <= 1.0


def test_adaptive_forgets_too_large_an_estimate() -> None:
    line, memory = parabola(0.5), 100.0
    for t in range(60):
        s, memory = Adaptive()(line, 1.0, t, memory)
    assert memory < 2.0
    assert s > 0.25


def test_adaptive_by_hand() -> None:
    """f = 4 (s - 1/2)^2: the models of .9, 1.8, 3.6, 7.2 lie below f, 14.4 is the first above."""
    s, memory = Adaptive(1.0)(parabola(0.5, 8.0), 1.0, 0, 1.0)
    assert math.isclose(memory, 14.4)
    assert math.isclose(s, 4.0 / 14.4)


@given(st.integers(0, 1000), st.sampled_from([1e-3, 1.0, 1e3]))
def test_adaptive_steps_never_rise(seed: int, smoothness: float) -> None:
    line = logistic_line(seed)
    s = length(Adaptive(smoothness), line)
    assert 0.0 < s <= 1.0
    assert line.value(s) <= line.start.value + 2.0 * line.start.value_error + 1e-15


def test_adaptive_backs_off_from_a_wall() -> None:
    line = barrier(0.5)
    s = length(Adaptive(1e-6), line)
    assert 0.0 < s < 0.5
    assert line.value(s) < line.value(0.0)


def test_adaptive_survives_rounding() -> None:
    """The fall of 1e-21 is invisible beside f = 1."""
    line = Curve(lambda s: 1.0 + 2e-16 * (s > 0.0), lambda s: -1e-21)
    s, memory = Adaptive()(line, 1.0, 0, 1.0)
    assert memory == 0.9
    assert s > 0.0


def test_adaptive_gives_up() -> None:
    line = Curve(lambda s: 1.0 if s == 0.0 else math.nan, lambda s: -1.0)
    assert Adaptive()(line, 1.0, 0, 3.0) == (0.0, 3.0)


def test_adaptive_on_a_straight_line() -> None:
    line, memory = Curve(lambda s: -s, lambda s: -1.0), 5e-308
    for t in range(50):
        s, memory = Adaptive()(line, 1.0, t, memory)
    assert (s, memory > 0.0) == (1.0, True)


# ---------------------------------------------------------------- line search


@given(root=st.floats(1e-6, 0.999), curvature=st.floats(1e-8, 1e8))
def test_line_search_is_exact_for_quadratics(root: float, curvature: float) -> None:
    line = parabola(root, curvature)
    assert math.isclose(length(LineSearch(), line), root, rel_tol=1e-9)


def test_line_search_needs_one_secant_for_quadratics() -> None:
    line = parabola(0.3)
    length(LineSearch(), line)
    assert len(line.slopes) == 3


@given(st.integers(0, 1000))
def test_line_search_is_the_closed_form_of_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design, x, d = rng.standard_normal((5, 3)), rng.standard_normal(3), rng.standard_normal(3)
    f = LeastSquares(design, rng.standard_normal(5))
    point = f.at(x)
    best = -float(point.grad @ d) / float((design @ d) @ (design @ d))
    assert math.isclose(length(LineSearch(), f.line(point, d)), min(max(best, 0.0), 1.0), abs_tol=1e-9)


@pytest.mark.parametrize("end", [0.5, 10.0, 1000.0])
@pytest.mark.parametrize("seed", range(10))
def test_line_search_agrees_with_scipy_on_logistic(seed: int, end: float) -> None:
    line = logistic_line(seed)
    s = length(LineSearch(), line, end)
    scipy = minimize_scalar(line.value, bounds=(0.0, end), method="bounded", options={"xatol": 1e-12}).x
    assert line.value(s) <= line.value(scipy) + 1e-14
    assert s == end or abs(line.slope(s)) <= 1e-10 * abs(line.slope(0.0))


def test_line_search_takes_the_end_if_f_still_falls() -> None:
    assert length(LineSearch(), parabola(3.0), end=2.0) == 2.0
    assert length(LineSearch(), parabola(2.0), end=2.0) == 2.0


def test_line_search_does_not_climb() -> None:
    assert length(LineSearch(), parabola(-1.0)) == 0.0
    assert length(LineSearch(), parabola(0.0)) == 0.0


@pytest.mark.parametrize("wall", [1e-6, 0.3, 0.999, 1.0])
def test_line_search_stays_in_the_domain(wall: float) -> None:
    line = barrier(wall)
    root = max(wall - 0.2, 0.0)
    assert math.isclose(length(LineSearch(), line), root, abs_tol=1e-9)


def test_line_search_on_a_kink() -> None:
    """No slope is small: the answer is where f stops falling."""
    line = Curve(lambda s: abs(s - 0.7), lambda s: math.copysign(1.0, s - 0.7))
    assert math.isclose(length(LineSearch(), line), 0.7, rel_tol=1e-12)


@given(st.integers(2, 9), st.floats(1e-4, 0.99))
def test_line_search_on_flat_bottoms(power: int, root: float) -> None:
    line = Curve(
        lambda s: abs(s - root) ** (power + 1),
        lambda s: (power + 1) * math.copysign(abs(s - root) ** power, s - root),
    )
    s = length(LineSearch(), line)
    assert abs(line.derivative(s)) <= 1e-10 * abs(line.derivative(0.0))
    assert len(line.slopes) < 120


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("make", [OpenLoop, ShortStep, Adaptive])
def test_positive_numbers(make: Callable[[float], StepSize], value: float) -> None:
    with pytest.raises(ValueError, match=r"`(ell|smoothness)` must be"):
        make(value)


def test_other_arguments() -> None:
    with pytest.raises(ValueError, match="`shrink` must be in"):
        Adaptive(shrink=1.5)
    with pytest.raises(ValueError, match="`grow` must be finite and > 1"):
        Adaptive(grow=1.0)
    with pytest.raises(ValueError, match="`rtol` must be a number >= 0"):
        LineSearch(-1.0)
