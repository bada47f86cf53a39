"""The driver: why a run ends, and what it then returns."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound import (
    Adaptive,
    ArrayAtoms,
    Away,
    BlendedPairwise,
    Custom,
    FileAtoms,
    FrankWolfe,
    FullyCorrective,
    MixtureLikelihood,
    OpenLoop,
    Pairwise,
    RandomSubset,
    Result,
    Scan,
    SquaredDistance,
    Status,
    SublinearFrankWolfe,
    Vanilla,
    minimize,
)
from wolfhound.core import progress
from wolfhound.core.contracts import (
    Atoms,
    Hits,
    Ids,
    Matrix,
    Method,
    Objective,
    Oracle,
    Point,
    Start,
    State,
    Vector,
)
from wolfhound.core.progress import Cut, on_progress, report_rows
from wolfhound.solve.driver import Limits, Outcome, drive

DISTANCE = SquaredDistance([3.0, -1.0, 0.5, 2.0])
METHODS: tuple[Method, ...] = (FullyCorrective(), FrankWolfe(Away()))


def cloud(n: int = 3000, d: int = 4, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, d))


# ---------------------------------------------------------------- states by hand


def state(t: int, value: float, lower: float = 0.0, **more: Any) -> State:
    point = Point(x=np.zeros(2), value=value, grad=np.zeros(2))
    fields: dict[str, Any] = {"passes": 0.0, "scored": 0, "ratio": math.nan, "slack": math.inf}
    fields |= {"kind": "forward"} | more
    return State(t=t, point=point, lower=lower, ids=np.array([0]), weights=np.ones(1), **fields)


def run(states: Iterator[State] | list[State], *, goal: float = 0.0, **more: Any) -> Outcome[State]:
    callback = more.pop("callback", None)
    stake = more.pop("stake", 0.0)
    return drive(iter(states), goal=goal, limits=Limits(**more), stake=stake, callback=callback)


def falling(values: int = 5, **more: Any) -> list[State]:
    return [state(t, float(values - t), passes=0.5 * t, **more) for t in range(values)]


def interrupted(error: BaseException) -> Iterator[State]:
    yield state(0, 3.0)
    yield state(1, 2.0)
    raise error


@pytest.mark.parametrize(
    ("states", "options", "status", "seen"),
    [
        (falling(), {"goal": 2.0}, Status.GAP_REACHED, 4),
        (falling(), {"goal": 9.0}, Status.GAP_REACHED, 1),
        (falling(), {"steps": 2}, Status.MAX_STEPS, 3),
        (falling(), {"steps": 0}, Status.MAX_STEPS, 1),
        (falling(), {"passes": 1}, Status.MAX_PASSES, 3),
        (falling(), {"callback": lambda s: s.t == 1}, Status.STOPPED, 2),
        (falling(), {"callback": lambda s: None}, Status.STALLED, 5),
        (falling(), {}, Status.STALLED, 5),
        (falling(slack=0.125), {}, Status.ROUNDING, 5),
        (falling(slack=0.12), {}, Status.STALLED, 5),
        (falling(slack=0.125), {"stake": 1e4}, Status.ROUNDING, 5),
        (falling(slack=0.125), {"stake": 0.9e4}, Status.STALLED, 5),
        ([state(0, 1.0, slack=0.1), state(1, 9.0, slack=9.0)], {}, Status.STALLED, 2),
        ([state(0, 1.0, slack=0.2), state(1, 9.0, slack=0.1)], {}, Status.ROUNDING, 2),
        ([state(0, 1.0, slack=math.inf), state(1, 9.0, slack=0.2)], {}, Status.ROUNDING, 2),
        ([state(0, 1.0, slack=math.inf), state(1, 9.0, slack=0.1)], {}, Status.STALLED, 2),
        ([state(0, 1.0), state(1, 1.0, end=Status.FINISHED)], {}, Status.FINISHED, 2),
        ([state(0, 1.0), state(1, 1.0, end=Status.NOT_FOUND), state(2, 0.0)], {}, Status.NOT_FOUND, 2),
        ([state(0, 1.0, end=Status.FINISHED)], {"goal": 1.0}, Status.GAP_REACHED, 1),
        (interrupted(KeyboardInterrupt()), {}, Status.INTERRUPTED, 2),
        (interrupted(OSError("gone")), {}, Status.LOST, 2),
        (interrupted(Cut(Status.MAX_SECONDS)), {}, Status.MAX_SECONDS, 2),
    ],
)
def test_drive_says_why_it_ended(
    states: Iterator[State], options: dict[str, Any], status: Status, seen: int
) -> None:
    out = run(states, **options)
    assert out.status is status
    assert len(out.rows) == seen
    assert out.last.t == seen - 1


def test_every_status_has_its_own_sentence_and_four_are_success() -> None:
    assert len({status.value for status in Status}) == len(Status) == 13
    good = [status for status in Status if status.success]
    assert good == [Status.GAP_REACHED, Status.ROUNDING, Status.STATIONARY, Status.FINISHED]


def test_a_stationary_point_is_the_one_that_was_proved() -> None:
    out = run([state(0, 1.0, -math.inf), state(1, 2.0, -math.inf, end=Status.STATIONARY)])
    assert (out.status, out.best.t) == (Status.STATIONARY, 1)


def test_drive_keeps_the_best_state_and_the_last_one() -> None:
    out = run([state(0, 3.0), state(1, 1.0), state(2, 2.0, lower=0.5)])
    assert (out.best.t, out.last.t) == (1, 2)
    assert [row.value for row in out.rows] == [3.0, 1.0, 2.0]


def test_of_equally_good_states_the_later_is_best() -> None:
    assert run([state(0, 3.0), state(1, 3.0)]).best.t == 1


class Lost:
    """States that break off before the first."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> Iterator[State]:
        return self

    def __next__(self) -> State:
        raise self._error


def test_drive_raises_what_comes_before_any_state() -> None:
    with pytest.raises(OSError, match="gone"):
        run(iter(Lost(OSError("gone"))))
    with pytest.raises(KeyboardInterrupt):
        run(iter(Lost(KeyboardInterrupt())))
    with pytest.raises(RuntimeError, match="no state"):
        run([])


def test_drive_passes_other_errors_on() -> None:
    with pytest.raises(ZeroDivisionError):
        run(interrupted(ZeroDivisionError()))


def test_drive_names_the_step_of_a_nan() -> None:
    with pytest.raises(FloatingPointError, match="nan at step 7"):
        run([state(0, 1.0), state(7, math.nan)])


def test_the_trace_has_a_row_per_state() -> None:
    rows = run([state(0, 2.0, kind="start"), state(3, 1.0, lower=0.5, passes=2.0, scored=9, ratio=0.5)]).rows
    assert [row._replace(seconds=0.0) for row in rows][1] == (3, 1.0, 0.5, 2.0, 9, 0.0, 0.5, "forward")
    assert rows[0].kind == "start"
    assert 0.0 <= rows[0].seconds <= rows[1].seconds


# ---------------------------------------------------------------- the clock


class Clock:
    """Stands in for time.perf_counter: it moves only when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(progress, "COMPILING", progress.Stopwatch())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_deadline_between_states(clock: Clock) -> None:
    def states() -> Iterator[State]:
        for t in range(9):
            clock.now += 1.0
            yield state(t, 1.0)

    out = run(states(), seconds=2.5)
    assert (out.status, out.last.t, out.seconds) == (Status.MAX_SECONDS, 2, 3.0)


def test_a_deadline_inside_a_step(clock: Clock) -> None:
    def states() -> Iterator[State]:
        yield state(0, 1.0)
        for _ in range(9):
            clock.now += 1.0
            report_rows(10)
        yield state(1, 0.0)

    out = run(states(), seconds=2.5)
    assert (out.status, out.last.t, out.seconds) == (Status.MAX_SECONDS, 0, 3.0)


def test_no_deadline_before_the_first_state(clock: Clock) -> None:
    def states() -> Iterator[State]:
        clock.now += 10.0
        report_rows(10)
        yield state(0, 1.0)

    assert run(states(), seconds=1.0).last.t == 0


def test_outer_listeners_hear_the_reports_of_a_run() -> None:
    heard: list[int] = []
    with on_progress(heard.append):
        result = minimize(DISTANCE, Scan(cloud(), screen=False), rtol=1e-9)
    assert sum(heard) == 3000 * result.passes >= 3000
    report_rows(5)
    assert 5 not in heard


@dataclass
class Slow:
    """Atoms whose reading takes time on a clock, or goes wrong, after some passes."""

    inner: Atoms
    act: Callable[[int], None]
    after: int = 0
    taken: Callable[[], None] = lambda: None
    passes: int = field(default=0, init=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    def take(self, ids: Ids) -> Matrix:
        if self.passes:
            self.taken()
        return self.inner.take(ids)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        self.passes += 1
        for first, block in self.inner.blocks(100):
            if self.passes > self.after:
                self.act(first)
            yield first, block


@pytest.mark.parametrize("method", METHODS)
def test_a_deadline_in_the_first_pass_returns_a_point(method: Method, clock: Clock) -> None:
    def tick(first: int) -> None:
        clock.now += 1.0

    atoms = Slow(ArrayAtoms(cloud()), tick)
    result = minimize(DISTANCE, atoms, method=method, max_seconds=5.5)
    assert result.status is Status.MAX_SECONDS
    assert result.seconds < 10.0
    assert (result.passes, result.lower) == (0.0, 0.0)
    assert result.value == pytest.approx(DISTANCE.at(result.x).value)


# ---------------------------------------------------------------- how a run ends


def raiser(error: BaseException) -> Callable[[int], None]:
    def act(first: int) -> None:
        if first >= 500:
            raise error

    return act


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), Status.INTERRUPTED), (OSError("gone"), Status.LOST)]
)
def test_a_pass_that_breaks_off_returns_the_best_point(
    method: Method, error: BaseException, status: Status
) -> None:
    atoms = Slow(ArrayAtoms(cloud()), raiser(error), after=1)
    result = minimize(DISTANCE, Scan(atoms, screen=False), method=method, rtol=0.0, max_steps=5000)
    assert result.status is status
    assert not result.success
    assert result.passes == 1.0
    assert result.lower == max(result.trace.lower)
    assert result.value == min(result.trace.value)


def test_lost_atoms_give_a_result_even_where_no_row_can_be_read() -> None:
    """The point, its weights and the proof so far need no atoms any more."""

    def gone() -> None:
        raise OSError("gone")

    atoms = Slow(ArrayAtoms(cloud()), raiser(OSError("gone")), after=0, taken=gone)
    result = minimize(DISTANCE, Scan(atoms, screen=False), rtol=1e-9)
    assert result.status is Status.LOST
    assert result.support >= 1


def test_a_file_that_is_cut_short_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "atoms.npy"
    np.save(path, cloud())

    def cut(seen: State) -> None:
        path.write_bytes(path.read_bytes()[: 3000 * 8])

    result = minimize(DISTANCE, FileAtoms(path), callback=cut)
    assert result.status is Status.LOST
    assert result.trace.kind[0] == "start"


def test_ctrl_c_in_the_callback() -> None:
    def press(seen: State) -> None:
        if seen.t:
            raise KeyboardInterrupt

    result = minimize(DISTANCE, cloud(), callback=press)
    assert result.status is Status.INTERRUPTED
    assert len(result.trace) == 2


def test_the_callback_stops_and_may_keep_states() -> None:
    kept: list[State] = []

    def stop(seen: State) -> bool:
        kept.append(seen)
        return len(kept) == 4

    result = minimize(DISTANCE, cloud(), method=FrankWolfe(Away()), callback=stop)
    rows = cloud()
    assert result.status is Status.STOPPED
    assert len(result.trace) == 4
    assert [seen.t for seen in kept] == result.trace.t.tolist()
    for seen in kept:
        np.testing.assert_allclose(seen.weights @ rows[seen.ids], seen.point.x, atol=1e-14)
        assert DISTANCE.at(seen.point.x).value == pytest.approx(seen.point.value, rel=1e-12)
        assert seen.gap == seen.value - seen.lower


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"max_steps": 3}, Status.MAX_STEPS),
        ({"max_passes": 2}, Status.MAX_PASSES),
        ({"max_seconds": 0.0}, Status.MAX_SECONDS),
    ],
)
def test_limits(options: dict[str, Any], status: Status) -> None:
    result = minimize(DISTANCE, cloud(), method=FrankWolfe(), rtol=0.0, **options)
    assert result.status is status
    assert not result.success
    assert result.steps <= 3
    assert status.value in result.message


def test_a_goal_of_zero_ends_in_rounding() -> None:
    result = minimize(DISTANCE, cloud(), rtol=0.0, max_passes=20)
    assert result.status is Status.ROUNDING
    assert result.success
    assert result.gap <= 1e-12 * result.value
    assert result.goal == 0.0


@pytest.mark.parametrize("n", [20, 2000])
def test_a_goal_of_zero_inside_the_hull_ends_too(n: int) -> None:
    rows = cloud(n)
    for seed in range(3):
        target = np.random.default_rng(seed).dirichlet(np.ones(n)) @ rows
        result = minimize(SquaredDistance(target), rows, rtol=0.0, seed=seed, max_passes=20)
        assert result.status is Status.ROUNDING
        assert result.value <= 1e-25


def test_atol_alone_is_the_goal() -> None:
    result = minimize(DISTANCE, cloud(), rtol=0.0, atol=0.25)
    assert (result.status, result.goal) == (Status.GAP_REACHED, 0.25)
    assert result.gap <= 0.25


def test_the_larger_of_rtol_and_atol_is_the_goal() -> None:
    tight = minimize(DISTANCE, cloud(), rtol=1e-6).goal
    assert minimize(DISTANCE, cloud(), rtol=1e-6, atol=0.5 * tight).goal == tight
    assert minimize(DISTANCE, cloud(), rtol=1e-6, atol=2.0 * tight).goal == 2.0 * tight
    assert minimize(DISTANCE, cloud(), rtol=2e-6).goal == pytest.approx(2.0 * tight, rel=1e-12)


@dataclass(frozen=True)
class Misses:
    """An index that proves nothing and finds only some atoms."""

    atoms: Atoms
    known: int

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        hits = Scan(self.atoms.take(np.arange(self.known))).query(queries, k=k, exclude=exclude)
        return replace(hits, bounds=np.full(len(queries), math.inf), passes=0.0)


@pytest.mark.parametrize("method", METHODS)
def test_an_oracle_that_misses_atoms_stalls(method: Method) -> None:
    rows = cloud(6000)
    result = minimize(DISTANCE, Misses(ArrayAtoms(rows), 1500), method=method, rtol=1e-9, max_steps=1000)
    assert result.status is Status.STALLED
    assert (result.lower, result.passes) == (0.0, 0.0)
    assert minimize(DISTANCE, rows, rtol=1e-9).lower <= result.value
    assert result.value <= minimize(DISTANCE, rows[:1500], rtol=1e-9).value * (1.0 + 1e-6)


# ---------------------------------------------------------------- every run ends

WALKS: tuple[Method, ...] = (
    FullyCorrective(),
    FrankWolfe(Vanilla()),
    FrankWolfe(Vanilla(), OpenLoop()),
    FrankWolfe(Away()),
    FrankWolfe(Away(), Adaptive()),
    FrankWolfe(Pairwise()),
    FrankWolfe(BlendedPairwise(), lazy=True),
    SublinearFrankWolfe(),
    SublinearFrankWolfe(confirm=False),
    SublinearFrankWolfe(tau=1e-3),
)


def waves(x: Vector) -> tuple[float, Vector]:
    return float(np.sin(3.0 * x).sum() + 0.1 * (x @ x)), 3.0 * np.cos(3.0 * x) + 0.2 * x


WAVES = Custom(waves, convex=False)
FOURTH = Custom(lambda x: (float((x**4).sum()), 4.0 * x**3), convex=True)


def steps_of(objective: Objective, atoms: Any, **options: Any) -> Result:
    """A run that may take as long as it likes, but not for ever."""
    seen: list[State] = []

    def too_many(state: State) -> bool:
        seen.append(state)
        return len(seen) > 5000

    result = minimize(objective, atoms, callback=too_many, **options)
    assert result.status is not Status.STOPPED
    assert (result.weights >= 0.0).all()
    assert abs(float(result.weights.sum()) - 1.0) <= 1e-12
    assert len(np.unique(result.ids)) == len(result.ids) > 0
    return result


@pytest.mark.slow
@pytest.mark.parametrize("objective", [WAVES, FOURTH, MixtureLikelihood(), DISTANCE])
@pytest.mark.parametrize("method", WALKS)
def test_runs_without_a_proof_end(objective: Objective, method: Method) -> None:
    """The gap is infinite, or stays where the floor of f puts it: the value and what is found must do."""
    rows = np.abs(cloud(400)) + 0.01
    for oracle in (RandomSubset(rows, size=40), Misses(ArrayAtoms(rows), 300)):
        result = steps_of(objective, oracle, method=method, rtol=1e-2)
        assert result.success == (
            result.status is not Status.STALLED and result.status is not Status.NOT_FOUND
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rtol"),
    [(FullyCorrective(), 0.0), *((method, 1e-3) for method in (FullyCorrective(), *WALKS[3:8]))],
)
def test_without_convexity_a_stationary_point_is_proved(method: Method, rtol: float) -> None:
    rows = cloud(400)
    result = steps_of(WAVES, rows, method=method, rtol=rtol)
    assert result.status is Status.STATIONARY
    assert result.success
    assert (result.lower, result.gap) == (-math.inf, math.inf)
    grad = waves(result.x)[1]
    assert float(grad @ result.x - (rows @ grad).min()) <= max(result.goal, 1e-12)


@pytest.mark.parametrize(
    "rows", [[[1e-200, 1.0]], [[1e-200, 1.0], [1e-100, 1.0]], [[1e-300, 1.0], [1.0, 1e-300]]]
)
@pytest.mark.parametrize("method", WALKS[:7])
def test_mixtures_of_hostile_scales_end(rows: list[list[float]], method: Method) -> None:
    result = steps_of(MixtureLikelihood(), rows, method=method)
    assert result.lower <= result.value


@dataclass(frozen=True)
class Ends:
    """A method that ends as it is told."""

    end: Status

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        return FullyCorrective().begin(objective, start, rng)

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        for seen in FullyCorrective().states(objective, oracle, start, goal=goal, rng=rng):
            yield replace(seen, end=self.end)


@pytest.mark.parametrize("end", [Status.FINISHED, Status.NOT_FOUND])
def test_a_method_may_say_how_it_ended(end: Status) -> None:
    assert minimize(DISTANCE, cloud(), method=Ends(end)).status is end
