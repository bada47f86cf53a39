"""`minimize` over caps, sums of at most 1, cones and ridges: exact minima, closed forms, wrong use."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.weight_sets import fractions, least, paid, shares
from wolfhound import (
    Cone,
    Custom,
    FrankWolfe,
    FullyCorrective,
    Huber,
    Hull,
    Int8Scan,
    LeastSquares,
    Logistic,
    MixtureLikelihood,
    RandomSubset,
    Result,
    Scan,
    SquaredDistance,
    Status,
    SublinearFrankWolfe,
    Tiered,
    load,
    minimize,
)
from wolfhound.core.contracts import Objective, Vector, WeightSet
from wolfhound.core.weights import caps_of
from wolfhound.data.store import StoreError

NONE = np.empty(0, np.int64)
SETS: tuple[tuple[Hull | Cone, float], ...] = (
    (Hull(), 0.5),
    (Hull(cap=0.4), 0.0),
    (Hull(cap=0.4), 0.25),
    (Hull(cap=[0.3, 0.5, 0.25, 0.9]), 0.0),
    (Hull(at_most=True), 0.0),
    (Hull(at_most=True, cap=0.3), 0.25),
    (Cone(price=0.5), 0.0),
    (Cone(), 0.5),
    (Cone(cap=0.75), 0.0),
    (Cone(mass=2.0), 0.0),
    (Cone(price=0.25, cap=0.5, mass=1.5), 0.25),
)
HALVES = st.integers(-6, 6).map(lambda k: k / 2.0)


def bound(over: Hull | Cone, ridge: float, n: int) -> WeightSet:
    return over.bind(n, ridge, NONE) or WeightSet()


@pytest.mark.parametrize(("over", "ridge"), SETS)
@given(st.lists(st.tuples(HALVES, HALVES, HALVES), min_size=4, max_size=4), st.tuples(HALVES, HALVES, HALVES))
def test_exact_minima_lie_between_the_bounds(
    over: Hull | Cone, ridge: float, rows: list[tuple[float, ...]], target: tuple[float, ...]
) -> None:
    """All faces in rational numbers; atoms may repeat, be zero, or leave the optimum open."""
    atoms, b = np.array(rows), np.array(target)
    result = minimize(SquaredDistance(b), atoms, over=over, ridge=ridge, rtol=1e-9)
    known = bound(over, ridge, 4)
    truth = least(
        [fractions(row) for row in atoms], fractions(b), known, caps_of(known, np.arange(4)).tolist()
    )
    held = shares(known, result.weights) if len(result.ids) else []
    x = [
        sum((w * int(2 * atoms[i, j]) for w, i in zip(held, result.ids, strict=True)), 0) / 2
        for j in range(3)
    ]
    here = sum((z - int(2 * t) / 2) ** 2 for z, t in zip(x, b, strict=True)) / 2 + paid(known, held)
    assert result.lower <= truth
    assert here <= result.value
    assert result.value - float(truth) <= max(result.goal, 1e-9)
    assert result.success
    assert (result.weights <= caps_of(known, result.ids)).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_cone_without_anything_is_proved_where_no_line_is_in_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    atoms, b = rng.random((4, 3)), rng.standard_normal(3)
    result = minimize(SquaredDistance(b), atoms, over=Cone(), rtol=1e-10)
    truth = float(
        least(
            [fractions(row) for row in atoms],
            fractions(b),
            WeightSet(total=np.inf, at_most=True),
            [np.inf] * 4,
        )
    )
    assert result.lower <= truth <= result.value
    assert result.gap <= result.goal
    assert math.isinf(result.mass)


def test_a_line_in_a_cone_is_told_with_the_mass_of_the_proof() -> None:
    atoms = np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 1.0]])
    result = minimize(SquaredDistance([3.0, -2.0]), atoms, over=Cone())
    assert result.success
    assert result.x == pytest.approx([3.0, 0.0], abs=1e-6)
    assert result.lower <= 2.0 <= result.value
    assert 3.0 < result.mass < math.inf
    assert "holds a line" in repr(result)


@pytest.mark.parametrize("price", [0.0, 0.3, 2.0, 50.0])
def test_unit_vectors_have_a_closed_form_in_a_cone(price: float) -> None:
    b = np.array([1.0, -2.0, 3.0, 0.25])
    result = minimize(SquaredDistance(b), np.eye(4), over=Cone(price=price), rtol=1e-12)
    dense = np.zeros(4)
    dense[result.ids] = result.weights
    assert dense == pytest.approx(np.maximum(b - price, 0.0), abs=1e-9)


def test_a_ridge_alone_has_a_closed_form() -> None:
    b = np.array([3.0, 1.0])
    result = minimize(SquaredDistance(b), np.eye(2), over=Cone(), ridge=1.0, rtol=1e-12)
    assert result.weights == pytest.approx([1.5, 0.5])
    assert result.value == pytest.approx(0.5 * (1.5**2 + 0.5**2) + 0.5 * (1.5**2 + 0.5**2))


def test_a_large_ridge_spreads_weights_evenly() -> None:
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((300, 5))
    result = minimize(SquaredDistance(rng.standard_normal(5)), atoms, ridge=1e8)
    assert result.success
    assert result.support == 300
    assert result.weights == pytest.approx(np.full(300, 1.0 / 300.0), rel=1e-3)


def test_caps_that_leave_one_point() -> None:
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((49, 3))
    result = minimize(SquaredDistance(np.ones(3)), atoms, over=Hull(cap=1.0 / 49.0))
    assert result.success
    assert result.x == pytest.approx(atoms.mean(axis=0))


@pytest.mark.parametrize("cap", [0.05005, 0.0500001, 0.06])
@pytest.mark.parametrize("seed", range(3))
def test_caps_that_are_nearly_tight_keep_the_sum(seed: int, cap: float) -> None:
    """All but one atom at its cap: a long step once took the last one for rounding."""
    rng = np.random.default_rng(seed)
    atoms, design = rng.standard_normal((20, 3)), rng.standard_normal((5, 3))
    for f in (Logistic(design, design[:, 0] > 0.0), Huber(design, design @ atoms[1], delta=1e-3)):
        result = minimize(f, atoms, over=Hull(cap=cap), rtol=0.0, max_passes=9)
        assert result.weights.sum() == pytest.approx(1.0, abs=1e-14)
        assert (result.weights <= cap).all()


@pytest.mark.parametrize("seed", range(6))
def test_an_atom_at_its_cap_but_for_rounding_hides_no_other(seed: int) -> None:
    """A function of the caller is solved as far as the same one whose lift is known."""
    rng = np.random.default_rng(seed)
    atoms, a, b = rng.standard_normal((21, 12)), rng.standard_normal((20, 12)), rng.standard_normal(20)
    known = minimize(LeastSquares(a, b), atoms, over=Hull(cap=0.2), ridge=0.3, rtol=1e-9)
    f = Custom(lambda x: (0.5 * float((a @ x - b) @ (a @ x - b)), a.T @ (a @ x - b)), convex=True)
    found = minimize(f, atoms, over=Hull(cap=0.2), ridge=0.3, rtol=1e-9)
    assert found.success
    assert found.value == pytest.approx(known.value, rel=1e-7)


OBJECTIVES: dict[str, Any] = {
    "LeastSquares": LeastSquares,
    "Logistic": lambda a, b: Logistic(a, b > 0.0),
    "Huber": lambda a, b: Huber(a, b, delta=0.5),
    "MixtureLikelihood": lambda a, b: MixtureLikelihood(),
    "Custom": lambda a, b: Custom(
        lambda x: (0.5 * float((a @ x - b) @ (a @ x - b)), a.T @ (a @ x - b)), convex=True
    ),
}


@pytest.mark.parametrize(("over", "ridge"), [each for each in SETS if "0.9" not in repr(each)])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_is_proved_over_every_set(name: str, over: Hull | Cone, ridge: float) -> None:
    """Against another optimum: projected gradient steps of F over the weights never go below `lower`."""
    rng = np.random.default_rng(5)
    atoms, design, b = rng.random((30, 6)) + 0.1, rng.standard_normal((40, 6)), rng.standard_normal(40)
    f = OBJECTIVES[name](design, b)
    if name not in ("LeastSquares",) and bound(over, ridge, 30).free:
        with pytest.raises(ValueError, match="`over` must be a cone with a cap, a mass or a ridge"):
            minimize(f, atoms, over=over, ridge=ridge)
        return
    result = minimize(f, atoms, over=over, ridge=ridge, rtol=1e-8)
    assert result.success
    assert result.gap <= result.goal
    known = bound(over, ridge, 30)
    dense = np.zeros(30)
    dense[result.ids] = result.weights

    def whole(w: np.ndarray[Any, Any]) -> float:
        return float(f.at(w @ atoms).value + known.price * w.sum() + 0.5 * known.ridge * float(w @ w))

    assert whole(dense) == pytest.approx(result.value, rel=1e-12, abs=1e-12)
    for _ in range(200):
        other = _draw(rng, known, 30)
        assert whole(other) >= result.lower
        for step in (1e-3, 1e-6):
            assert whole((1.0 - step) * dense + step * other) >= result.lower


def _draw(rng: np.random.Generator, over: WeightSet, n: int) -> np.ndarray[Any, Any]:
    """Weights of the set."""
    total = over.total if over.total < np.inf else 3.0 * rng.random()
    weights = rng.dirichlet(np.full(n, rng.choice([0.05, 1.0]))) * total
    caps = caps_of(over, np.arange(n))
    for _ in range(50):
        beyond = np.maximum(weights - caps, 0.0)
        weights = weights - beyond
        if over.at_most or not beyond.sum() > 0.0:
            break
        room = caps - weights
        weights = weights + np.minimum(room, beyond.sum() * room / room.sum())
    return weights


@pytest.mark.parametrize(("over", "ridge"), SETS)
def test_every_exact_oracle_gives_the_same_proof(over: Hull | Cone, ridge: float) -> None:
    rng = np.random.default_rng(3)
    atoms = rng.standard_normal((4, 3))
    f = SquaredDistance([1.0, 0.5, -0.5])
    values = []
    for oracle in (Scan(atoms), Int8Scan.build(atoms), Tiered(RandomSubset(atoms, size=2))):
        result = minimize(f, oracle, over=over, ridge=ridge, rtol=1e-10)
        assert result.success
        values.append(result.value)
    assert values == pytest.approx([values[0]] * 3, rel=1e-8, abs=1e-10)


def test_many_atoms_are_solved_in_a_few_passes() -> None:
    rng = np.random.default_rng(0)
    atoms = rng.gamma(0.5, 1.0, (20_000, 30))
    for over, ridge in ((Cone(), 0.0), (Cone(price=1.0), 0.0), (Hull(cap=0.1), 0.0), (Hull(cap=0.05), 0.1)):
        result = minimize(SquaredDistance(rng.gamma(0.5, 1.0, 30)), atoms, over=over, ridge=ridge, rtol=1e-9)
        assert result.status is Status.GAP_REACHED
        assert result.passes <= 12.0


def test_a_pool_that_is_halved_keeps_the_zero_atom() -> None:
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((5000, 8))
    small = FullyCorrective(harvest=64, pool=128)
    result = minimize(SquaredDistance(2.0 * np.ones(8)), atoms, over=Cone(mass=2.5, cap=0.4), method=small)
    assert result.success
    assert result.weights.sum() <= 2.5 * (1.0 + 1e-12)
    assert (result.ids >= 0).all()


def test_where_f_is_not_convex_a_stationary_point_is_told() -> None:
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((20, 3))
    f = Custom(lambda x: (-0.5 * float(x @ x), -x), convex=False)
    result = minimize(f, atoms, over=Hull(cap=0.3))
    assert result.status is Status.STATIONARY
    assert result.lower == -math.inf


def test_other_methods_refuse_other_sets_by_name() -> None:
    f = SquaredDistance([1.0, 0.0])
    for over, ridge in ((Hull(cap=0.6), 0.0), (Cone(), 0.0), (Hull(), 1.0), (Hull(at_most=True), 0.0)):
        for method in (FrankWolfe(), SublinearFrankWolfe()):
            with pytest.raises(
                ValueError, match="`method` must be FullyCorrective for a cap, a cone, a ridge"
            ):
                minimize(f, np.eye(2), over=over, ridge=ridge, method=method)
    assert minimize(f, np.eye(2), over=Hull(cap=1.0), method=FrankWolfe()).success


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridge": -1.0}, "`ridge` must be a number >= 0. Got -1.0."),
        ({"ridge": math.inf}, "`ridge` must be finite. Got inf."),
        ({"over": Hull(cap=0.4)}, "`cap` must be of sum >= 1"),
        ({"over": Hull(cap=[0.6, 0.6]), "exclude": [1]}, "`cap` must be of sum >= 1"),
        ({"over": Hull(cap=[0.5, 0.5, 0.5])}, "`cap` must be a number, or 2 numbers"),
        ({"over": Hull(cap=0.6), "start": ([0], [1.0])}, "`start weights` must be weights of the set `over`"),
        (
            {"over": Cone(mass=0.5), "start": ([0], [1.0])},
            "`start weights` must be weights of the set `over`",
        ),
    ],
)
def test_bad_input_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        minimize(SquaredDistance([1.0, 0.0]), np.eye(2), **wrong)
    assert message in str(raised.value)


@pytest.mark.parametrize("over", ["hull", Hull, None, 1.0])
def test_other_things_than_sets_are_refused(over: Any) -> None:
    with pytest.raises(TypeError, match=r"`over` must be Hull\(\) or Cone\(\)"):
        minimize(SquaredDistance([1.0, 0.0]), np.eye(2), over=over)


@pytest.mark.parametrize(("over", "ridge"), SETS)
def test_a_warm_start_from_the_answer_stays_there(over: Hull | Cone, ridge: float) -> None:
    rng = np.random.default_rng(7)
    atoms, f = rng.standard_normal((4, 3)), SquaredDistance([1.0, 0.5, -0.5])
    first = minimize(f, atoms, over=over, ridge=ridge, rtol=1e-9)
    again = minimize(f, atoms, over=over, ridge=ridge, rtol=1e-9, start=first)
    assert again.success
    assert again.value == pytest.approx(first.value, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("over", "ridge"), SETS)
def test_results_carry_their_set_to_a_file_and_back(over: Hull | Cone, ridge: float, tmp_path: Path) -> None:
    atoms = np.random.default_rng(7).standard_normal((4, 3))
    result = minimize(SquaredDistance([1.0, 0.5, -0.5]), atoms, over=over, ridge=ridge)
    result.save(tmp_path / "result")
    again = load(tmp_path / "result", atoms)
    assert isinstance(again, Result)
    assert again.over == result.over
    assert again.mass == result.mass
    assert result.over.startswith(repr(over))
    assert ("ridge=" in result.over) == (ridge > 0.0)
    assert repr(over) in repr(result)


@pytest.mark.parametrize(("over", "ridge"), SETS)
def test_a_checkpoint_goes_on_over_its_set_and_no_other(
    over: Hull | Cone, ridge: float, tmp_path: Path
) -> None:
    atoms = np.random.default_rng(7).random((4, 3)) + np.eye(4, 3)
    f, file = SquaredDistance([1.0, 2.0, 0.5]), tmp_path / "run"
    minimize(f, atoms, over=over, ridge=ridge, rtol=1e-9, checkpoint=file, max_passes=1)
    result = minimize(f, atoms, over=over, ridge=ridge, rtol=1e-9, checkpoint=file)
    assert result.success
    again = minimize(f, atoms, over=over, ridge=ridge, rtol=1e-9, checkpoint=file)
    assert again.value == pytest.approx(result.value, rel=1e-12)
    with pytest.raises(StoreError, match="another over"):
        minimize(f, atoms, rtol=1e-9, checkpoint=file)


def test_caps_of_a_table_are_those_of_its_rows() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, np.nan, 0.0, 0.0], "b": [0.0, 1.0, 1.0, 0.5]})
    caps = np.array([0.25, 0.5, 0.5, 0.75])
    result = minimize(SquaredDistance([1.0, 0.0]), table, over=Hull(cap=caps))
    assert dict(zip(result.ids.tolist(), result.weights.tolist(), strict=True)) == pytest.approx(
        {0: 0.25, 3: 0.75}
    )


@pytest.mark.parametrize("cap", [0.05, "each"])
def test_a_pool_that_is_halved_keeps_who_is_at_its_cap(cap: float | str) -> None:
    rng = np.random.default_rng(1)
    atoms, each = rng.standard_normal((5000, 10)), rng.uniform(0.01, 0.2, 5000)
    caps = each if isinstance(cap, str) else cap
    method = FullyCorrective(harvest=64, pool=128)
    found = minimize(SquaredDistance(np.full(10, 2.0)), atoms, over=Hull(cap=caps), method=method, rtol=1e-9)
    whole = minimize(SquaredDistance(np.full(10, 2.0)), atoms, over=Hull(cap=caps), rtol=1e-9)
    assert found.status is whole.status is Status.GAP_REACHED
    assert abs(found.value - whole.value) <= found.goal + whole.goal


@pytest.mark.parametrize("over", [Hull(cap=4e-4), Cone(cap=4e-4, mass=1.0, price=1e-3)], ids=repr)
@pytest.mark.parametrize("make", [lambda rows, labels: SquaredDistance(rows[0] + 1.0), Logistic])
def test_thousands_of_atoms_at_their_caps_take_few_steps(
    make: Callable[[Vector, Vector], Objective], over: Hull | Cone
) -> None:
    rng = np.random.default_rng(2)
    f = make(rng.standard_normal((50, 8)), (np.arange(50) % 2).astype(np.float64))
    found = minimize(f, rng.standard_normal((6000, 8)), over=over, max_steps=500)
    assert found.success
    assert found.support >= 2500
    assert found.weights.max() <= 4e-4 * (1.0 + 1e-12)
    assert abs(found.weights.sum() - 1.0) <= 1e-12


@pytest.mark.parametrize("seed", [40, 126])
def test_rounding_to_and_fro_is_no_progress(seed: int) -> None:
    b, atom = np.random.default_rng(seed).standard_normal((2, 2))
    f = Custom(lambda x: (0.5 * float((x - b) @ (x - b)), x - b), convex=True)
    found = minimize(f, atom[None], over=Cone(cap=40.0), rtol=0.0, max_passes=60)
    assert found.steps < 500


@pytest.mark.parametrize("price", [0.0, 0.05])
@pytest.mark.parametrize("mass", [1e2, 1e5, 1e7])
def test_a_mass_far_beyond_what_is_needed_costs_no_proof(mass: float, price: float) -> None:
    rng = np.random.default_rng(5)
    atoms, b = rng.gamma(0.5, 1.0, (500, 20)), rng.gamma(0.5, 1.0, 20)
    free = minimize(SquaredDistance(b), atoms, over=Cone(price=price))
    found = minimize(SquaredDistance(b), atoms, over=Cone(price=price, mass=mass))
    assert found.success
    assert found.lower <= free.value
    assert found.value == pytest.approx(free.value, rel=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_a_mass_that_is_used_up_far_from_the_start(size: float) -> None:
    """Weights of 10^6 and of 10^-3: the first room is far too much, or none of it is left."""
    rng = np.random.default_rng(6)
    atoms, b = rng.standard_normal((60, 8)), 3.0 * rng.standard_normal(8)
    needed = minimize(SquaredDistance(b), size * atoms, over=Cone(), rtol=1e-9).weights.sum()
    found = minimize(SquaredDistance(b), size * atoms, over=Cone(mass=0.5 * needed), rtol=1e-9)
    plain = minimize(SquaredDistance(b), size * 0.5 * needed * atoms, over=Hull(at_most=True), rtol=1e-9)
    assert found.success
    assert found.weights.sum() <= 0.5 * needed * (1.0 + 1e-12)
    assert found.lower <= plain.value
    assert found.value == pytest.approx(plain.value, rel=1e-6)


@pytest.mark.parametrize("mass", [40.0, 100.0, 1000.0])
def test_weights_of_a_newton_model_may_be_large(mass: float) -> None:
    """A mass of m is the hull of the atoms and 0, each m times as long."""
    rng = np.random.default_rng(0)
    design, atoms = rng.standard_normal((200, 30)), np.concatenate([np.eye(30), -np.eye(30)])
    labels = np.where(design @ rng.standard_normal(30) + 0.5 * rng.standard_normal(200) > 0.0, 1.0, -1.0)
    found = minimize(Logistic(design, labels), atoms, over=Cone(mass=mass))
    plain = minimize(Logistic(design, labels), mass * atoms, over=Hull(at_most=True))
    assert found.success
    assert found.lower <= plain.value
    assert found.value <= plain.value + found.goal


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("over", [Hull(cap=0.05, at_most=True), Cone(), Cone(cap=3.0), Cone(mass=30.0)])
def test_with_a_ridge_many_atoms_that_are_nearly_active_are_proved_one_by_one(
    over: Hull | Cone, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    design, atoms = rng.standard_normal((60, 16)), 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((50, 16))
    labels = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    for f in (Logistic(design, labels), Huber(design, labels), MixtureLikelihood()):
        rows = np.abs(atoms) + 0.01 if isinstance(f, MixtureLikelihood) else atoms
        found = minimize(f, rows, over=over, ridge=0.01)
        assert found.success
        assert len(found.trace) < 100


def test_a_goal_over_a_cone_is_that_of_any_mass() -> None:
    rng = np.random.default_rng(7)
    atoms, b = rng.standard_normal((30, 4)), rng.standard_normal(4)
    goals = {
        minimize(SquaredDistance(b), atoms, over=Cone(mass=mass)).goal for mass in (0.999, 1.0, 1.001, None)
    }
    assert goals == {1e-6 * SquaredDistance(b).at(np.zeros(4)).value}


def test_of_one_atom_the_origin_gives_the_goal() -> None:
    b, atom = np.array([0.3, 0.4]), np.array([[1.0, 0.0]])
    found = minimize(SquaredDistance(b), atom, over=Hull(at_most=True))
    assert found.goal > 0.0
    assert found.status == Status.GAP_REACHED
    assert found.weights == pytest.approx([0.3])


@pytest.mark.parametrize("over", [Cone(), Cone(mass=10.0), Cone(cap=2.0), Cone(price=0.1)])
@pytest.mark.parametrize("ridge", [0.0, 1e-8])
def test_a_target_at_the_origin_is_reached(over: Cone, ridge: float) -> None:
    atoms = np.random.default_rng(8).standard_normal((4, 3))
    found = minimize(SquaredDistance(np.zeros(3)), atoms, over=over, ridge=ridge)
    assert found.success
    assert found.value <= found.goal


@pytest.mark.parametrize("over", [Hull(cap=0.7, at_most=True), Cone(price=1e8, cap=1.0, mass=2.0)])
@pytest.mark.parametrize("ridge", [1e17, 1e57])
def test_beside_a_huge_ridge_no_weight_is_left(over: Hull | Cone, ridge: float) -> None:
    """The zero atom's own entry cancels the ridge: it was lost beside it, and with it the weight of all."""
    rng = np.random.default_rng(0)
    f = Huber(rng.standard_normal((5, 3)), rng.standard_normal(5))
    found = minimize(f, rng.standard_normal((20, 3)), over=over, ridge=ridge)
    assert found.success
    assert found.weights.sum() <= 1e-10
