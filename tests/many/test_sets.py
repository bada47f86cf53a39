"""`minimize_many` over caps, cones and ridges: exact minima, `minimize`'s answers, folders, wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import nnls as scipy_nnls

import wolfhound as wh
from tests.many.judge import value_of
from tests.weight_sets import fractions, least, paid, shares
from wolfhound.core.contracts import WeightSet
from wolfhound.core.weights import caps_of
from wolfhound.data.store import StoreError

Array = NDArray[Any]

NONE = np.empty(0, np.int64)
SETS: dict[str, tuple[wh.Hull | wh.Cone, float]] = {
    "ridge": (wh.Hull(), 0.5),
    "at most, ridge": (wh.Hull(at_most=True), 0.25),
    "cap": (wh.Hull(cap=0.5), 0.0),
    "caps, ridge": (wh.Hull(cap=[0.3, 0.5, 0.25, 0.9]), 0.25),
    "at most, cap": (wh.Hull(at_most=True, cap=0.3), 0.0),
    "cone": (wh.Cone(), 0.0),
    "price": (wh.Cone(price=0.5), 0.0),
    "cone, ridge": (wh.Cone(), 0.5),
    "price, ridge": (wh.Cone(price=0.25), 0.5),
    "cone, cap": (wh.Cone(cap=0.75), 0.0),
    "mass": (wh.Cone(price=0.25, mass=1.5), 0.0),
    "mass 1": (wh.Cone(mass=1.0), 0.0),
}
HULLS = ("ridge", "at most, ridge")
BATCHES = ("price", "cone, ridge", "price, ridge")
HALVES = st.integers(-6, 6).map(lambda k: k / 2.0)
POINT = st.tuples(HALVES, HALVES, HALVES)


def normal(m: int, n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((m, n))


def check_exactly(
    found: wh.ManyResult, targets: Array, atoms: Array, name: str, banned: Array = NONE
) -> None:
    """Values are at least F, lower bounds at most the exact minimum, and weights are of the set."""
    over, ridge = SETS[name]
    bound = over.bind(len(atoms), ridge, banned) or WeightSet()
    kept = np.delete(np.arange(len(atoms)), banned)
    for i, target in enumerate(targets):
        here = slice(found.indptr[i], found.indptr[i + 1])
        ids, weights = found.ids[here], found.weights[here]
        assert not np.isin(ids, banned).any()
        assert (weights > 0.0).all()
        assert (weights <= caps_of(bound, ids)).all()
        assert weights.sum() <= bound.total * (1.0 + 1e-12)
        assert bound.at_most or weights.sum() >= bound.total * (1.0 - 1e-12)
        at = value_of(atoms[ids], weights, target, at_most=bound.at_most) + paid(
            bound, shares(bound, weights)
        )
        mass = math.inf if found.mass is None else float(found.mass[i])
        within = bound if math.isinf(mass) else replace(bound, total=mass)
        points, caps = [fractions(row) for row in atoms[kept]], caps_of(bound, kept)
        truth = least(points, fractions(target), within, caps.tolist())
        assert at <= Fraction(float(found.value[i]))
        assert Fraction(float(found.lower[i])) <= truth
        assert float(at - truth) <= 1e-5 * (1.0 + float(target @ target))


@pytest.mark.parametrize("name", SETS)
@given(st.lists(POINT, min_size=4, max_size=4), st.lists(POINT, min_size=1, max_size=3))
def test_exact_minima_lie_between_the_bounds(
    name: str, rows: list[tuple[float, ...]], points: list[tuple[float, ...]]
) -> None:
    """Atoms may be zero, repeat, or hold a line."""
    over, ridge = SETS[name]
    atoms, targets = np.array(rows), np.array(points)
    check_exactly(wh.minimize_many(targets, atoms, over=over, ridge=ridge), targets, atoms, name)


@pytest.mark.parametrize("name", SETS)
def test_atoms_that_must_not_be_used(name: str) -> None:
    over, ridge = SETS[name]
    atoms, targets = normal(4, 3) + 0.5, normal(5, 3, seed=1)
    found = wh.minimize_many(targets, atoms, over=over, ridge=ridge, exclude=[2])
    assert found.success
    check_exactly(found, targets, atoms, name, np.array([2]))
    each = wh.minimize_many(targets, atoms, over=over, ridge=ridge, exclude=np.full((5, 1), 2))
    np.testing.assert_array_equal(each.lower, found.lower)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("asked", [wh.Scan, lambda rows: wh.Tiered(wh.RandomSubset(rows, size=9))])
def test_every_target_is_solved_as_minimize_does(name: str, asked: Any) -> None:
    over, ridge = SETS[name] if name != "caps, ridge" else (wh.Hull(cap=np.linspace(0.1, 0.3, 30)), 0.25)
    atoms, targets = normal(30, 6), 2.0 * normal(20, 6, seed=1)
    found = wh.minimize_many(targets, asked(atoms), over=over, ridge=ridge, rtol=1e-8)
    assert found.success
    for target, value, lower in zip(targets, found.value, found.lower, strict=True):
        alone = wh.minimize(wh.SquaredDistance(target), atoms, over=over, ridge=ridge, rtol=1e-8)
        assert lower <= alone.value
        assert alone.lower <= value
        assert value == pytest.approx(alone.value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", HULLS)
def test_ridges_of_few_atoms_are_proved_by_their_gram_matrix(name: str) -> None:
    over, ridge = SETS[name]
    targets, atoms = normal(200, 6, seed=1), normal(300, 6) + 5.0
    found = wh.minimize_many(targets, atoms, over=over, ridge=ridge, rtol=1e-9)
    assert found.success
    assert (found.passes == 1).all()
    few = wh.minimize_many(targets, atoms, over=over, ridge=ridge, max_atoms=3)
    assert few.success
    assert few.support.max() <= 3
    assert (few.lower <= found.value).all()


@pytest.mark.parametrize("name", BATCHES)
def test_cones_of_few_atoms_are_proved_by_their_gram_matrix(name: str) -> None:
    over, ridge = SETS[name]
    found = wh.minimize_many(normal(200, 6, seed=1), normal(300, 6), over=over, ridge=ridge, rtol=1e-9)
    assert found.success
    assert (found.passes == 1).all()
    assert found.mass is not None
    assert np.isinf(found.mass).all()


@pytest.mark.parametrize("name", ["cone", "price"])
def test_cones_of_many_atoms_are_proved_by_passes_for_all(name: str) -> None:
    """The pool of a target is what its passes found; atoms that must not be used never join."""
    over, _ = SETS[name]
    targets, atoms = normal(70, 8, seed=1), normal(2000, 8) + (0.0 if over == SETS["price"][0] else 1.5)
    atoms[::100], exclude = 0.0, np.tile(np.arange(900), (70, 1))
    found = wh.minimize_many(targets, atoms, over=over, rtol=1e-9, exclude=exclude)
    assert found.success
    assert found.passes.min() >= 1
    assert found.passes.max() <= 15
    assert found.ids.min() >= 900
    assert found.mass is not None
    assert np.isinf(found.mass).all()
    for i in range(0, 70, 10):
        alone = wh.minimize(wh.SquaredDistance(targets[i]), atoms[900:], over=over, rtol=1e-9)
        assert found.lower[i] <= alone.value
        assert alone.lower <= found.value[i]
        assert found.value[i] == pytest.approx(alone.value, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", ["cone", "price"])
def test_pools_of_cones_are_proved_exactly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Atoms may be zero, repeat, or hold a line; no Gram matrix of all of them is made."""
    monkeypatch.setattr("wolfhound.many.solve.SMALL", 0)
    monkeypatch.setattr("wolfhound.solve.cones.JOIN", 1)
    over, rng = SETS[name][0], np.random.default_rng(2)
    for _ in range(40):
        low = int(rng.integers(-4, 1))
        atoms, targets = rng.integers(low, 5, (4, 3)) / 2.0, rng.integers(-6, 7, (3, 3)) / 2.0
        check_exactly(wh.minimize_many(targets, atoms, over=over), targets, atoms, name)


@pytest.mark.parametrize("power", range(-105, -89, 3))
def test_scores_whose_squares_underflow_are_taken_off_for_a_ridge(power: int) -> None:
    """The square of a score falls below what floats hold, over the ridge it is a part of F."""
    atoms, size = np.array([[1.0, 0.1]]) * 10.0**power, 10.0**power
    targets = np.array([[3.0, 0.01], [0.1, 2.0], [-1.0, 0.3]]) * size
    for ridge in (100.0 * size * size, size * size, 0.01 * size * size):
        found = wh.minimize_many(targets, atoms, over=wh.Cone(), ridge=ridge)
        bound = wh.Cone().bind(1, ridge, NONE)
        for target, lower, value in zip(targets, found.lower, found.value, strict=True):
            truth = least([fractions(atoms[0])], fractions(target), bound, [np.inf])
            assert Fraction(float(lower)) <= truth <= Fraction(float(value))


def test_a_cone_without_a_price_is_non_negative_least_squares() -> None:
    atoms, targets = (
        np.abs(normal(60, 20)) * np.ldexp(1.0, np.arange(60) % 9)[:, None],
        normal(50, 20, seed=1),
    )
    found, known = wh.minimize_many(targets, atoms, over=wh.Cone(), rtol=1e-10), wh.nnls(atoms.T, targets.T)
    assert (found.passes == 1).all()
    np.testing.assert_allclose(found.to_dense(), known.x.T, atol=1e-7)
    np.testing.assert_allclose(found.distance, [scipy_nnls(atoms.T, t)[1] for t in targets], rtol=1e-8)


def test_a_line_in_a_cone_is_named_by_its_mass(tmp_path: Path) -> None:
    found = wh.minimize_many([[1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], over=wh.Cone())
    assert found.mass is not None
    assert found.mass[0] < math.inf
    assert "holds a line" in repr(found)
    found.save(tmp_path / "kept")
    again = wh.ManyResult.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.mass, found.mass)
    assert again.over == found.over == "Cone()"


def test_atoms_of_zeros_alone() -> None:
    found = wh.minimize_many([[3.0, 4.0]], np.zeros((2, 2)), over=wh.Cone(price=1.0))
    assert found.value[0] == pytest.approx(12.5)
    assert found.success


@pytest.mark.parametrize("name", ["cap", "price", "ridge"])
def test_a_folder_knows_its_set(name: str, tmp_path: Path) -> None:
    over, ridge = SETS[name]
    atoms, targets, out = normal(40, 5), normal(40, 5, seed=1), tmp_path / "run"
    cut = wh.minimize_many(targets, atoms, over=over, ridge=ridge, out=out, callback=lambda _: True)
    whole = wh.minimize_many(targets, atoms, over=over, ridge=ridge, out=out)
    assert whole.success
    assert name != "cap" or not cut.success
    read = wh.load(out, atoms)
    assert read.over == whole.over
    for column in ("value", "lower", "weights", "ids"):
        np.testing.assert_array_equal(getattr(read, column), getattr(whole, column))
    with pytest.raises(StoreError, match="Got over = "):
        wh.minimize_many(targets, atoms, over=wh.Cone(price=0.01), out=out)


def test_a_generator_gives_a_cut_run_the_same_bits(tmp_path: Path) -> None:
    atoms, targets, out = normal(3000, 5), normal(40, 5, seed=1), tmp_path / "run"
    options: dict[str, Any] = {"over": wh.Hull(cap=0.2), "rtol": 1e-3}
    whole = wh.minimize_many(targets, atoms, seed=np.random.default_rng(3), **options)
    stop: dict[str, Any] = {"callback": lambda _: True, "out": out}
    wh.minimize_many(targets, atoms, seed=np.random.default_rng(3), **options, **stop)
    again = wh.minimize_many(targets, atoms, seed=np.random.default_rng(3), out=out, **options)
    np.testing.assert_array_equal(again.value, whole.value)
    np.testing.assert_array_equal(again.weights, whole.weights)


def test_other_caps_are_another_run(tmp_path: Path) -> None:
    atoms, targets, caps = normal(4, 2), normal(2, 2, seed=1), np.array([0.5, 0.6, 0.7, 0.9])
    wh.minimize_many(targets, atoms, over=wh.Hull(cap=caps), out=tmp_path / "run")
    with pytest.raises(StoreError, match="Got caps = "):
        wh.minimize_many(targets, atoms, over=wh.Hull(cap=caps[[0, 2, 1, 3]]), out=tmp_path / "run")


def test_targets_that_caps_leave_nothing_are_refused() -> None:
    exclude = [NONE, np.array([0, 1])]
    with pytest.raises(ValueError, match="`cap` must be of sum >= 1 over the atoms that may be used"):
        wh.minimize_many(normal(2, 2), normal(3, 2), over=wh.Hull(cap=0.4), exclude=exclude)


def test_lists_of_objectives_take_sets_as_minimize_does() -> None:
    atoms, rows = normal(30, 4), normal(9, 4, seed=1)
    objectives: list[Any] = [wh.Logistic(rows, np.resize([1.0, -1.0], 9)), wh.SquaredDistance(rows[0])]
    found = wh.minimize_many(objectives, atoms, over=wh.Hull(cap=0.2))
    assert found.success
    assert found.weights.max() <= 0.2
    squares = [wh.LeastSquares(rows, rows @ atoms[i]) for i in range(3)]
    cone = wh.minimize_many(squares, atoms, over=wh.Cone(price=0.1), rtol=1e-8)
    alone = wh.minimize(squares[1], atoms, over=wh.Cone(price=0.1), rtol=1e-8)
    assert cone.value[1] == pytest.approx(alone.value, rel=1e-5)


def test_skipped_targets_and_no_time() -> None:
    atoms, targets = normal(30, 4), normal(6, 4, seed=1)
    targets[2] = np.nan
    for over in (wh.Cone(price=0.1), wh.Hull(cap=0.2)):
        found = wh.minimize_many(targets, atoms, over=over, skip=True)
        assert [i for i, status in enumerate(found.status) if status is wh.Status.SKIPPED] == [2]
        assert found.success
        every = [np.arange(30), *[NONE] * 5]
        if isinstance(over, wh.Cone):
            left = wh.minimize_many(targets, atoms, over=over, skip=True, exclude=every)
            assert left.status[0] is wh.Status.SKIPPED
    late = wh.minimize_many(normal(6, 4, seed=1), atoms, over=wh.Hull(cap=0.2), max_seconds=0.0)
    assert not late.success
    assert (late.lower <= late.value).all()
