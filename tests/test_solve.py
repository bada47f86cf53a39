# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound import (
    ArrayAtoms,
    Away,
    ConcatAtoms,
    Custom,
    FileAtoms,
    FrankWolfe,
    FullyCorrective,
    LeastSquares,
    MixtureLikelihood,
    Result,
    Scan,
    SquaredDistance,
    Status,
    minimize,
    set_threads,
    solve,
)
from wolfhound.core import (
    Atoms,
    Cut,
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
    on_pulse,
    pulse,
)
from wolfhound.solve import Limits, Run, drive

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


def run(states: Iterator[State] | list[State], *, goal: float = 0.0, **more: Any) -> Run[State]:
    callback = more.pop("callback", None)
    return drive(iter(states), goal=goal, limits=Limits(**more), callback=callback)


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


def test_every_status_has_its_own_sentence_and_three_are_success() -> None:
    assert len({status.value for status in Status}) == len(Status) == 11
    good = [status for status in Status if status.success]
    assert good == [Status.GAP_REACHED, Status.ROUNDING, Status.FINISHED]


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
            pulse(10)
        yield state(1, 0.0)

    out = run(states(), seconds=2.5)
    assert (out.status, out.last.t, out.seconds) == (Status.MAX_SECONDS, 0, 3.0)


def test_no_deadline_before_the_first_state(clock: Clock) -> None:
    def states() -> Iterator[State]:
        clock.now += 10.0
        pulse(10)
        yield state(0, 1.0)

    assert run(states(), seconds=1.0).last.t == 0


def test_outer_listeners_hear_the_pulses_of_a_run() -> None:
    heard: list[int] = []
    with on_pulse(heard.append):
        result = minimize(DISTANCE, Scan(cloud(), screen=False), rtol=1e-9)
    assert sum(heard) == 3000 * result.passes >= 3000
    pulse(5)
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
        self,
        queries: Matrix,
        *,
        k: int = 1,
        thresholds: Vector | None = None,
        exclude: Ids | None = None,
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


# ---------------------------------------------------------------- warm starts, names, exclude


@pytest.mark.parametrize("method", METHODS)
def test_a_result_is_a_warm_start(method: Method) -> None:
    rows = cloud()
    cold = minimize(DISTANCE, rows, method=method, rtol=1e-6)
    warm = minimize(DISTANCE, rows, method=method, rtol=1e-6, start=cold)
    assert warm.trace.value[0] == pytest.approx(cold.value, rel=1e-13)
    assert warm.goal == cold.goal
    assert warm.trace.lower[0] == 0.0
    assert warm.success
    assert len(warm.trace) <= 3
    again = minimize(DISTANCE, rows, method=method, rtol=1e-6, start=(cold.ids, cold.weights))
    np.testing.assert_array_equal(again.ids, warm.ids)
    np.testing.assert_array_equal(again.weights, warm.weights)


def test_a_warm_start_of_another_problem_still_gets_there() -> None:
    rows = cloud()
    other = minimize(SquaredDistance(-DISTANCE.target), rows)
    warm = minimize(DISTANCE, rows, start=other, rtol=1e-9)
    assert warm.value == pytest.approx(minimize(DISTANCE, rows, rtol=1e-9).value, rel=1e-8)


def test_a_warm_start_may_hold_duplicate_atoms_and_zero_weights() -> None:
    rows = np.repeat(cloud(50), 2, axis=0)
    start = (np.arange(8), np.array([0.3, 0.2, 0.0, 0.1, 0.1, 0.1, 0.2, 0.0]))
    result = minimize(DISTANCE, rows, start=start, rtol=1e-9)
    assert result.trace.value[0] == pytest.approx(DISTANCE.at(start[1] @ rows[:8]).value, rel=1e-12)
    assert result.success


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (([0, 1], [0.5, 0.6]), "`start weights` must be >= 0 with sum 1"),
        (([0, 1], [1.5, -0.5]), "`start weights` must be >= 0 with sum 1"),
        (([], []), "`start weights` must be >= 0 with sum 1"),
        (([0, 1], [1.0]), "`start weights` must be a vector of length 2"),
        (([0, 0], [0.5, 0.5]), "`start ids` must be distinct"),
        (([0, 3000], [0.5, 0.5]), r"`start ids` must be ids in \[0, 3000\)"),
        (([0, 1], [0.5, np.nan]), "`start weights` must be finite"),
        (([7, 1], [0.5, 0.5]), "`start ids` must be none of `exclude`"),
    ],
)
def test_a_bad_start_is_named(start: tuple[Any, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        minimize(DISTANCE, cloud(), start=start, exclude=[7])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [40, 4000])
def test_excluded_atoms_are_as_if_they_were_not_there(method: Method, n: int) -> None:
    rows = cloud(n)
    exclude = np.argsort(DISTANCE.values(rows))[: n // 4]
    result = minimize(DISTANCE, rows, method=method, exclude=exclude, rtol=1e-6)
    rest = minimize(DISTANCE, np.delete(rows, exclude, axis=0), method=method, rtol=1e-6)
    assert not np.isin(result.ids, exclude).any()
    assert result.success
    assert result.lower <= rest.value
    assert rest.lower <= result.value
    assert minimize(DISTANCE, rows).value < result.lower


def test_all_but_one_atom_excluded() -> None:
    result = minimize(DISTANCE, cloud(10), exclude=np.arange(9))
    assert result.ids.tolist() == [9]
    assert result.success


def test_names_follow_the_weights() -> None:
    rows = cloud(30)
    result = minimize(DISTANCE, rows, names=[f"atom {i}" for i in range(30)])
    assert result.names == tuple(f"atom {i}" for i in result.ids)
    assert (np.diff(result.weights) <= 0.0).all()
    assert minimize(DISTANCE, rows).names is None


# ---------------------------------------------------------------- the same answer


def same(one: Result, other: Result) -> bool:
    arrays = ("x", "ids", "weights")
    numbers = ("value", "lower", "goal", "passes", "scored", "steps", "status")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays) and all(
        getattr(one, name) == getattr(other, name) for name in numbers
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits(method: Method) -> None:
    rows = cloud(4000)
    one = minimize(DISTANCE, rows, method=method, seed=3)
    assert same(one, minimize(DISTANCE, rows, method=method, seed=3))
    assert same(one, minimize(DISTANCE, rows, method=method, seed=np.random.default_rng(3)))
    assert one.lower <= minimize(DISTANCE, rows, method=method, seed=4).value


@pytest.fixture
def restore_threads() -> Iterator[None]:
    yield
    set_threads(None)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("method", [FullyCorrective(), FrankWolfe(Away(), lazy=True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_no_bit(method: Method, dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60_000, 100)).astype(dtype)
    objective = LeastSquares(rng.standard_normal((120, 100)), 5.0 * rng.standard_normal(120))
    set_threads(1)
    one = minimize(objective, rows, method=method, rtol=1e-3, max_steps=200)
    set_threads(2)
    assert same(one, minimize(objective, rows, method=method, rtol=1e-3, max_steps=200))


def test_a_generator_moves_on() -> None:
    rng = np.random.default_rng(0)
    rows = cloud(5000)
    one = minimize(DISTANCE, rows, seed=rng)
    other = minimize(DISTANCE, rows, seed=rng)
    assert one.lower <= other.value
    assert other.lower <= one.value
    assert rng.bit_generator.state != np.random.default_rng(0).bit_generator.state


def test_a_run_in_another_thread_is_the_same() -> None:
    rows, out = cloud(), list[Result]()
    worker = threading.Thread(target=lambda: out.append(minimize(DISTANCE, rows)))
    worker.start()
    here = minimize(DISTANCE, rows)
    worker.join()
    assert same(here, out[0])


def test_a_result_survives_pickling() -> None:
    result = minimize(DISTANCE, cloud(50))
    assert same(result, pickle.loads(pickle.dumps(result)))


# ---------------------------------------------------------------- what atoms may be


def as_file(rows: Matrix, folder: Path) -> Path:
    path = folder / "atoms.npy"
    np.save(path, rows)
    return path


@pytest.mark.parametrize(
    "given",
    [
        lambda rows, folder: rows.tolist(),
        lambda rows, folder: np.asfortranarray(rows),
        lambda rows, folder: np.repeat(rows, 2, axis=0)[::2],
        lambda rows, folder: ArrayAtoms(rows),
        lambda rows, folder: Scan(rows),
        lambda rows, folder: FileAtoms(as_file(rows, folder)),
        as_file,
        lambda rows, folder: str(as_file(rows, folder)),
        lambda rows, folder: np.load(as_file(rows, folder), mmap_mode="r"),
        lambda rows, folder: [rows[:1000], rows[1000:]],
        lambda rows, folder: ConcatAtoms([rows[:7], as_file(rows[7:], folder)]),
    ],
)
def test_atoms_of_all_kinds_give_the_same_answer(
    given: Callable[[Matrix, Path], Any], tmp_path: Path
) -> None:
    rows = cloud()
    plain = minimize(DISTANCE, rows)
    assert same(plain, minimize(DISTANCE, given(rows, tmp_path)))


def test_read_only_arrays_are_not_written() -> None:
    rows = cloud()
    before = rows.copy()
    rows.flags.writeable = False
    exclude, ids, weights = np.arange(3), np.array([5, 6]), np.array([0.25, 0.75])
    for array in (exclude, ids, weights):
        array.flags.writeable = False
    result = minimize(DISTANCE, rows, exclude=exclude, start=(ids, weights))
    assert result.success
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint16, np.int64, np.bool_, ">f4", ">f8"])
def test_other_dtypes_are_widened(dtype: Any) -> None:
    rows = np.abs(4.0 * cloud()).astype(dtype)
    result = minimize(DISTANCE, rows, rtol=1e-9)
    wide = minimize(DISTANCE, rows.astype(np.float64), rtol=1e-9)
    assert result.success
    assert result.lower <= wide.value
    assert wide.lower <= result.value


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("where", [0, 17, 999])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_row_in_the_pool_is_named(where: int, bad: float) -> None:
    rows = cloud(1000)
    rows[where, 2] = bad
    with pytest.raises(
        ValueError, match=rf"`atoms` must be finite. Got -?(nan|inf) in row {where}, column 2"
    ):
        minimize(DISTANCE, rows)


@pytest.mark.parametrize("method", METHODS)
def test_a_bad_row_that_only_a_pass_reads_is_named(method: Method) -> None:
    rows = cloud(20_000)
    pool: set[int] = set()

    def note(seen: State) -> bool:
        pool.update(seen.ids.tolist())
        return True

    minimize(DISTANCE, rows, method=method, callback=note)
    drawn = np.random.default_rng(0).choice(20_000, solve.POOL, replace=False)
    where = int(np.setdiff1d(np.arange(20_000), drawn)[-1])
    rows[where, 1] = np.nan
    with pytest.raises(ValueError, match=f"`atoms` must be finite. Got nan in row {where}, column 1"):
        minimize(DISTANCE, rows, method=method, rtol=1e-9)


def test_a_bad_row_of_a_warm_start_is_named() -> None:
    rows = cloud(20_000)
    drawn = np.random.default_rng(0).choice(20_000, solve.POOL, replace=False)
    where = int(np.setdiff1d(np.arange(20_000), drawn)[0])
    rows[where, 0] = np.inf
    with pytest.raises(ValueError, match=f"Got inf in row {where}, column 0"):
        minimize(DISTANCE, rows, start=([where], [1.0]))


def nan_later(x: Vector) -> tuple[float, Vector]:
    return (1.0, np.ones(4)) if x[0] > -1.0 else (math.nan, np.ones(4))


@pytest.mark.parametrize("method", METHODS)
def test_a_function_that_becomes_nan_is_an_error(method: Method) -> None:
    with pytest.raises(FloatingPointError, match="nan"):
        minimize(Custom(nan_later, convex=True), cloud(), method=method)


def test_a_value_that_overflows_is_an_error_not_a_success() -> None:
    rows = 1e153 * cloud(50)
    with np.errstate(over="ignore"), pytest.raises((FloatingPointError, ValueError)):
        minimize(SquaredDistance([1e200, 0.0, 0.0, 0.0]), rows)


@pytest.mark.parametrize("atoms", [np.zeros((5, 3)), np.zeros((5, 5))])
def test_a_wrong_dimension_is_named(atoms: Matrix) -> None:
    with pytest.raises(ValueError, match="`atoms` must be rows of 4 entries"):
        minimize(DISTANCE, atoms)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"rtol": -1e-6}, ValueError, "`rtol` must be a number >= 0. Got -1e-06"),
        ({"rtol": math.nan}, ValueError, "`rtol` must be"),
        ({"rtol": "small"}, TypeError, "`rtol` must be a number >= 0. Got 'small'"),
        ({"rtol": None}, TypeError, "`rtol` must be"),
        ({"atol": -1.0}, ValueError, "`atol` must be"),
        ({"max_steps": -1}, ValueError, "`max_steps` must be"),
        ({"max_passes": math.nan}, ValueError, "`max_passes` must be"),
        ({"max_seconds": "1 min"}, TypeError, "`max_seconds` must be"),
        ({"exclude": [0, 0]}, ValueError, "`exclude` must be distinct ids"),
        ({"exclude": [10]}, ValueError, r"`exclude` must be ids in \[0, 10\)"),
        ({"exclude": [-1]}, ValueError, r"`exclude` must be ids in \[0, 10\)"),
        ({"exclude": [0.5]}, TypeError, "`exclude` must be a vector of integer ids"),
        ({"exclude": np.arange(10)}, ValueError, "`exclude` must be fewer than all atoms. Got 10 of 10"),
        ({"names": ["a"]}, ValueError, "`names` must be 10 strings, one per atom. Got 1"),
        ({"seed": -1}, ValueError, "`seed` must be"),
        ({"seed": 0.5}, TypeError, "`seed` must be an integer"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        minimize(DISTANCE, cloud(10), **options)


@pytest.mark.parametrize(
    ("atoms", "error"),
    [
        (np.zeros(4), ValueError),
        (np.zeros((0, 4)), ValueError),
        (np.zeros((3, 4), complex), TypeError),
        (np.array([["a"] * 4]), TypeError),
        (np.zeros((2, 2, 4)), ValueError),
        ("no such file.npy", OSError),
    ],
)
def test_bad_atoms_are_refused(atoms: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        minimize(DISTANCE, atoms)


def test_the_result_says_what_was_solved() -> None:
    result = minimize(DISTANCE, cloud(20), method=FullyCorrective(pool=99))
    assert result.objective == "SquaredDistance(d=4)"
    assert result.method == "FullyCorrective(pool=99)"
    assert len(result.trace) == len(result.trace.kind) == len(result.trace.seconds)
    assert result.trace.value[-1] - result.trace.lower[-1] == result.gap
    assert result.fingerprint[0].n == 20


def test_a_mixture_may_have_any_dimension() -> None:
    rows = np.random.default_rng(0).random((30, 7))
    assert minimize(MixtureLikelihood(), rows, atol=1e-9).success
