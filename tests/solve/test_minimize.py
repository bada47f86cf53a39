"""minimize: what goes in, what comes out, and that it is always the same."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.fuzz import exact, problems
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
    SublinearFrankWolfe,
    minimize,
    set_threads,
)
from wolfhound.core.contracts import Matrix, Method, State, Vector
from wolfhound.methods.asking import POOL

DISTANCE = SquaredDistance([3.0, -1.0, 0.5, 2.0])
METHODS: tuple[Method, ...] = (FullyCorrective(), FrankWolfe(Away()))


def cloud(n: int = 3000, d: int = 4, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, d))


def test_the_goal_is_the_same_for_every_method() -> None:
    rows, methods = cloud(400), (*METHODS, SublinearFrankWolfe(ratio=0.9))
    goals = {minimize(DISTANCE, rows, method=method, rtol=0.1, max_steps=3).goal for method in methods}
    assert len(goals) == 1


# ---------------------------------------------------------------- warm starts, names, exclude


@pytest.mark.parametrize("seed", range(20))
def test_a_warm_start_whose_f_differs_by_rounding_ends_as_well_as_a_cold_one(seed: int) -> None:
    """All atoms of a finite f are the same: what f varies by is rounding, and proves no stake."""
    rows = np.repeat([1.0, 0.0], [10, 3])[:, None]
    start = np.arange(3), np.random.default_rng(seed).dirichlet(np.ones(3))
    cold = minimize(MixtureLikelihood(), rows, rtol=0.01)
    warm = minimize(MixtureLikelihood(), rows, rtol=0.01, start=start)
    assert cold.success
    assert warm.success


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


def test_names_of_a_table_go_by_place_not_by_label() -> None:
    rows = cloud(30)
    names = pd.Series([f"atom {i}" for i in range(30)], index=np.arange(30)[::-1])
    result = minimize(DISTANCE, rows, names=names)
    assert result.names == tuple(f"atom {i}" for i in result.ids)


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


@pytest.mark.slow
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
        lambda rows, folder: pd.DataFrame(rows),
        lambda rows, folder: pd.DataFrame(rows, columns=["atoms", "query", "take", "blocks"]),
        lambda rows, folder: torch.tensor(rows),
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
    drawn = np.random.default_rng(0).choice(20_000, POOL, replace=False)
    where = int(np.setdiff1d(np.arange(20_000), drawn)[-1])
    rows[where, 1] = np.nan
    with pytest.raises(ValueError, match=f"`atoms` must be finite. Got nan in row {where}, column 1"):
        minimize(DISTANCE, rows, method=method, rtol=1e-9)


def test_a_bad_row_of_a_warm_start_is_named() -> None:
    rows = cloud(20_000)
    drawn = np.random.default_rng(0).choice(20_000, POOL, replace=False)
    where = int(np.setdiff1d(np.arange(20_000), drawn)[0])
    rows[where, 0] = np.inf
    with pytest.raises(ValueError, match=f"Got inf in row {where}, column 0"):
        minimize(DISTANCE, rows, start=([where], [1.0]))


def falls_to_an_edge(x: Vector) -> tuple[float, Vector]:
    return (x.sum(), np.ones(4)) if x[0] > -1.0 else (math.nan, np.ones(4))


@pytest.mark.parametrize("method", METHODS)
def test_a_function_that_becomes_nan_ends_at_the_edge(method: Method) -> None:
    """f falls up to the edge of its domain, where rounding may cross it: there is no proof to be had."""
    result = minimize(Custom(falls_to_an_edge, convex=True), cloud(), method=method)
    assert result.status is Status.STALLED
    assert -1.0 < result.x[0] < -0.99
    assert math.isfinite(result.value)
    with pytest.raises(FloatingPointError, match="finite at the start"):
        minimize(Custom(lambda x: (math.nan, x), convex=True), cloud(), method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e158, 1e300])
def test_atoms_whose_squares_overflow_are_refused(method: Method, scale: float) -> None:
    """In the pool, in a row that only a query finds, in a warm start."""
    named = "`atoms` must (be at most|have norms below) 1e"
    for rows in (scale * cloud(50), np.vstack([cloud(20_000), np.full((1, 4), scale)])):
        with pytest.raises(ValueError, match=named):
            minimize(DISTANCE, rows, method=method)
    with pytest.raises(ValueError, match=named):
        minimize(DISTANCE, scale * cloud(50), method=method, start=([3], [1.0]))


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
    lazy = minimize(DISTANCE, cloud(20), method=FrankWolfe(lazy=True))
    assert lazy.method == "FrankWolfe(lazy=True)"


def test_a_mixture_may_have_any_dimension() -> None:
    rows = np.random.default_rng(0).random((30, 7))
    assert minimize(MixtureLikelihood(), rows, atol=1e-9).success


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (5, 1), (3, 3)])
def test_the_smallest_problems_are_proved(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).standard_normal(shape)
    target = np.full(shape[1], 0.3)
    result = minimize(SquaredDistance(target), rows, atol=1e-9)
    least = exact.least_half_square(rows, None, target)
    here = exact.half_square(exact.images(None, exact.mix(rows[result.ids], result.weights)), target)
    assert Fraction(result.lower) <= least
    assert here.low <= Fraction(result.value)
    assert result.gap <= result.goal


# ---------------------------------------------------------------- what attacks have found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "batch"),
    [(3217679842, 175), (4028066429, 337), (4028066429, 841), (4259619126, 289), (4259619126, 565)],
)
def test_cases_of_an_attack(seed: int, batch: int) -> None:
    """ROUNDING beside slopes that know no bounds; overflow of a model; warm starts that stalled."""
    steps = [step for step in problems.judge(seed, batch) if not isinstance(step, str)]
    assert sum(step.counts["problems"] for step in steps) > 20
    assert [wrong for step in steps for wrong in step.violations] == []


def test_what_f_varies_by_is_told_by_values_where_slopes_know_no_bounds() -> None:
    # Logarithms at an edge: f varies by some hundreds, slopes by 1e78, and what rounding leaves open by 1e51.
    rows = np.array(
        [[6e-8, 1e-60, 1e-39, 4e-145, 3e-73, 1e-52], [5e-45, 7e-138, 5e-105, 2e-65, 1e-156, 1e-125]]
    )
    shares = np.array([0.14, 0.24, 0.05, 0.12, 0.19, 0.26])
    f = Custom(lambda x: (-float(shares @ np.log(x)), -shares / x), convex=True)
    method = SublinearFrankWolfe(ratio=1.0)
    found = minimize(f, rows, method=method, rtol=0.0, start=([0], [1.0]), max_steps=200)
    assert found.gap > 1e40
    assert not found.success
