"""Few atoms: answers against exact minima, `minimize`, and hostile data."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import wolfhound as wh
from tests.many.judge import check_proofs
from wolfhound.core.contracts import Status
from wolfhound.many.batch import Banned, measure_scales
from wolfhound.many.gram_solver import build_gram_solver

Array = NDArray[Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def hostile() -> dict[str, tuple[Array, Array]]:
    """Atoms and targets by what is nasty about them."""
    base, far = normal(12, 4), normal(6, 4, seed=1)
    line = np.linspace(-1.0, 1.0, 9)[:, None] * normal(1, 4)
    return {
        "plain": (base, far),
        "duplicates": (np.repeat(base[:5], 4, axis=0), far),
        "all equal": (np.repeat(base[:1], 7, axis=0), far),
        "collinear": (line, far),
        "collinear, nearly": (line + 1e-13 * base[:9], far),
        "a plane": (base @ np.diag([1.0, 1.0, 0.0, 0.0]), far),
        "zero atoms": (np.zeros((5, 4)), far),
        "one atom": (base[:1], far),
        "one dimension": (base[:, :1], far[:, :1]),
        "targets are atoms": (base, base[:6]),
        "targets are the mean": (base, np.repeat(base.mean(axis=0)[None], 3, axis=0)),
        "targets far away": (base, 1e9 * far),
        "an offset": (base + 1e7, far + 1e7),
        "an offset, alone": (base + 1e7, far),
        "tiny": (1e-150 * base, 1e-150 * far),
        "huge": (1e149 * base, 1e149 * far),
        "tiny atoms, huge targets": (1e-150 * base, 1e149 * far),
        "huge atoms, tiny targets": (1e149 * base, 1e-150 * far),
        "mixed columns": (base * np.array([1e-8, 1.0, 1e8, 1e-3]), far * np.array([1e-8, 1.0, 1e8, 1e-3])),
        "mixed rows": (base * np.logspace(-9, 9, 12)[:, None], far),
        "float32": (base.astype(np.float32), far.astype(np.float32)),
        "integers": (np.arange(40).reshape(10, 4) % 7, np.arange(12).reshape(3, 4)),
        "subnormal": (base * 5e-324 * 1e10, far * 5e-324 * 1e10),
        "subnormal, targets at the centre": (
            np.array([[0.0, 3e-323], [3e-323, 0.0], [0.0, 3e-323]]),
            np.array([[1e-323, 2e-323], [0.0, 0.0]]),
        ),
        "near ties": (np.eye(6)[:, :4] + 1e-12 * normal(6, 4), np.full((3, 4), 0.2)),
    }


CASES = hostile()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at_most", [False, True])
def test_proofs_are_true(name: str, at_most: bool) -> None:
    atoms, targets = CASES[name]
    result = wh.minimize_many(targets, atoms, over=wh.Hull(at_most=at_most))
    check_proofs(result, targets, atoms, at_most=at_most)
    assert result.success


@pytest.mark.parametrize("rtol", [1e-2, 1e-6, 1e-10, 0.0])
def test_goals_are_those_of_minimize_and_reached(rtol: float) -> None:
    atoms, targets = normal(80, 10), 0.7 * normal(20, 10, seed=1)
    result = wh.minimize_many(targets, atoms, rtol=rtol)
    alone = [wh.minimize(wh.SquaredDistance(t), atoms, rtol=rtol) for t in targets]
    np.testing.assert_allclose(result.goal, [each.goal for each in alone], rtol=1e-9)
    assert all((result.gap <= result.goal) | (result.status == Status.ROUNDING))
    assert (result.lower <= [each.value for each in alone]).all()
    assert (result.value >= [each.lower for each in alone]).all()
    assert (result.gap <= np.maximum(result.goal, 1e-12)).all()


def test_points_are_those_of_minimize() -> None:
    atoms, targets = normal(300, 12), 2.0 * normal(10, 12, seed=1)
    result = wh.minimize_many(targets, atoms, rtol=1e-12)
    for i, target in enumerate(targets):
        alone = wh.minimize(wh.SquaredDistance(target), atoms, rtol=1e-12)
        np.testing.assert_allclose(result.x(i), alone.x, atol=1e-6)
        assert set(result.ids[result.indptr[i] : result.indptr[i + 1]]) == set(alone.ids)


def test_no_answer_depends_on_threads() -> None:
    atoms, targets = normal(70, 9), normal(1100, 9, seed=1)
    answers = []
    for threads in (1, 2, 5):
        wh.set_threads(threads)
        answers.append(wh.minimize_many(targets, atoms))
    wh.set_threads(None)
    for other in answers[1:]:
        for name in ("indptr", "ids", "weights", "value", "lower", "goal", "codes", "passes"):
            np.testing.assert_array_equal(getattr(answers[0], name), getattr(other, name))


def test_each_unit_by_all_others() -> None:
    units = normal(14, 3)
    others = [[i] for i in range(14)]
    result = wh.minimize_many(units, units, exclude=others)
    check_proofs(result, units, units, exclude=others)
    assert result.success
    padded = np.stack([np.arange(14), np.full(14, -1)], axis=1)
    same = wh.minimize_many(units, units, exclude=padded)
    np.testing.assert_array_equal(same.weights, result.weights)


def test_atoms_excluded_for_all() -> None:
    atoms, targets = normal(14, 3), normal(5, 3, seed=1)
    result = wh.minimize_many(targets, atoms, exclude=[0, 3, 13])
    check_proofs(result, targets, atoms, exclude=[[0, 3, 13]] * 5)
    kept = np.setdiff1d(np.arange(14), [0, 3, 13])
    alone = wh.minimize_many(targets, atoms[kept])
    np.testing.assert_array_equal(kept[alone.ids], result.ids)


def test_excluding_all_but_one_leaves_it() -> None:
    atoms = normal(9, 3)
    banned = [list(range(8)), list(range(1, 9))]
    result = wh.minimize_many(normal(2, 3, seed=1), atoms, exclude=banned)
    assert result.ids.tolist() == [8, 0]
    assert result.weights.tolist() == [1.0, 1.0]


def test_the_origin_as_one_more_atom() -> None:
    atoms = np.array([[1.0, 0.0], [0.0, 1.0]])
    result = wh.minimize_many(
        [[0.25, 0.5], [-1.0, -1.0], [2.0, 0.0]], atoms, over=wh.Hull(at_most=True), rtol=1e-12
    )
    np.testing.assert_allclose(result.to_dense(), [[0.25, 0.5], [0.0, 0.0], [1.0, 0.0]], atol=1e-9)
    assert result.support.tolist() == [2, 0, 1]


def test_a_pure_atom_is_found() -> None:
    atoms = normal(40, 6)
    result = wh.minimize_many(atoms, atoms)
    assert result.ids.tolist() == list(range(40))
    np.testing.assert_allclose(result.value, 0.0, atol=1e-20)


def test_inputs_are_only_read() -> None:
    atoms, targets = normal(30, 5), normal(7, 5, seed=1)
    expected = wh.minimize_many(targets, atoms)
    atoms.flags.writeable = targets.flags.writeable = False
    result = wh.minimize_many(targets, atoms)
    np.testing.assert_array_equal(result.weights, expected.weights)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-160, 1e-20, 1.0, 1e30, 1e140]),
    st.sampled_from([0.0, 1.0, 1e8]),
    st.sampled_from([1e-1, 1e-6, 1e-12]),
)
def test_any_small_problem(n: int, d: int, seed: int, scale: float, offset: float, rtol: float) -> None:
    rng = np.random.default_rng(seed)
    atoms = scale * (rng.integers(-3, 4, (n, d)) + offset)
    targets = scale * (rng.integers(-4, 5, (3, d)) / 2 + offset)
    result = wh.minimize_many(targets, atoms, rtol=rtol)
    check_proofs(result, targets, atoms)
    assert result.success


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_atoms_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    atoms, targets = rng.standard_normal((25, 4)), rng.standard_normal((5, 4))
    order = rng.permutation(25)
    one = wh.minimize_many(targets, atoms, rtol=1e-10)
    two = wh.minimize_many(targets, atoms[order], rtol=1e-10)
    first, second = one.to_dense()[:, order], two.to_dense()
    np.testing.assert_allclose(first @ atoms[order], second @ atoms[order], atol=1e-4)
    outside = one.value > one.goal  # inside the hull any atom may be the last, with the same gain
    np.testing.assert_allclose(first[outside], second[outside], atol=1e-4)


def test_proved_values_meet_in_the_middle() -> None:
    atoms, targets = normal(9, 3), normal(4, 3, seed=1)
    coarse, fine = wh.minimize_many(targets, atoms, rtol=0.1), wh.minimize_many(targets, atoms, rtol=1e-12)
    assert (coarse.lower <= fine.value).all()
    assert (fine.lower <= coarse.value).all()
    assert (fine.gap <= coarse.goal).all()


# ---------------------------------------------------------------- values that underflow


@pytest.mark.parametrize("scale", [1e-161, 1e-160, 1e-159, 1e-158])
def test_a_gap_that_underflow_widens_is_rounding(scale: float) -> None:
    rng = np.random.default_rng(7)
    atoms = scale * (rng.standard_normal((13, 1)) + 1e3 * rng.standard_normal())
    result = wh.minimize_many(scale * 1e3 * rng.standard_normal((400, 1)), atoms)
    reached = np.array([status is Status.GAP_REACHED for status in result.status])
    assert (result.gap[reached] <= result.goal[reached]).all()
    assert (result.lower <= result.value).all()


# ---------------------------------------------------------------- the scale of rtol


def test_the_scale_of_a_pool_of_all_atoms_is_that_of_its_order() -> None:
    """Without banned atoms columns stay where they are: the same scales as by columns in the pool's order."""
    rows, targets = normal(300, 7), normal(25, 7, seed=1)
    pool = np.random.default_rng(2).permutation(300)
    solver = build_gram_solver(rows, pool, zero=False)
    moved = solver.units.convert(targets)
    cross = np.zeros((25, solver.gram.shape[1]))
    cross[:, :300] = moved @ solver.atoms.rows.T
    none = Banned(np.zeros(0, np.int64), np.zeros(0, np.int64))
    squares, gram = solver.atoms.squares[pool], solver.gram
    wanted = measure_scales(
        squares, cross[:, pool], np.arange(300), none, lambda near: gram[np.ix_(pool[near], pool)]
    )
    np.testing.assert_array_equal(solver._measure_scales(cross, none), wanted)
