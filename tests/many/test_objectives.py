"""Lists of objectives: the same bounds as `minimize` proves."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.many.test_gram_solver import normal
from tests.many.test_many import same
from tests.many.test_oracle_solver import Watched
from wolfhound.core.contracts import Objective, Status

ATOMS = normal(300, 5)
TARGETS = 2.0 * normal(7, 5, seed=1)
DESIGN = normal(4, 5, seed=2)
TALL = normal(50, 5, seed=3)
LABELS = np.sign(normal(50, 1, seed=4)[:, 0])

LISTS: dict[str, list[Any]] = {
    "shared design": [wh.LeastSquares(DESIGN, b) for b in normal(6, 4, seed=5)],
    "tall design": [wh.LeastSquares(TALL, b) for b in normal(6, 50, seed=5)],
    "own designs": [wh.LeastSquares(normal(6, 5, seed=i), normal(1, 6, seed=i)[0]) for i in range(5)],
    "logistic": [wh.Logistic(TALL * c, LABELS) for c in (0.5, 1.0, 2.0)],
    "mixed": [wh.SquaredDistance(TARGETS[0]), wh.Logistic(TALL, LABELS)],
}


def test_squared_distances_are_points() -> None:
    assert same(
        wh.minimize_many([wh.SquaredDistance(t) for t in TARGETS], ATOMS), wh.minimize_many(TARGETS, ATOMS)
    )


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("exclude", [None, [3, 5]])
def test_every_objective_is_proved(name: str, exclude: Any) -> None:
    objectives: list[Objective] = LISTS[name]
    result = wh.minimize_many(objectives, ATOMS, exclude=exclude)
    assert result.success
    assert (result.gap <= result.goal * (1.0 + 1e-6)).all()
    for i, objective in enumerate(objectives):
        alone = wh.minimize(objective, ATOMS, exclude=exclude)
        assert result.lower[i] <= alone.value
        assert alone.lower <= result.value[i]
        assert objective.at(result.x(i)).value <= result.value[i] + 1e-12
    assert not np.isin(result.ids, [] if exclude is None else exclude).any()


@pytest.mark.parametrize("name", LISTS)
def test_goals_are_those_of_minimize(name: str) -> None:
    result = wh.minimize_many(LISTS[name], ATOMS)
    np.testing.assert_allclose(result.goal, [wh.minimize(f, ATOMS).goal for f in LISTS[name]], rtol=1e-6)


def test_a_list_may_be_bounded_and_limited() -> None:
    squares = LISTS["shared design"]
    few = wh.minimize_many(squares, ATOMS, max_atoms=2, over=wh.Hull(at_most=True))
    assert few.support.max() <= 2
    free = wh.minimize_many(squares, ATOMS, over=wh.Hull(at_most=True))
    assert (free.lower <= few.value).all()


def test_negative_values_are_saved(tmp_path: Path) -> None:
    linear = [wh.Custom(lambda x: (float(x[0]), np.eye(5)[0]), convex=True) for _ in range(2)]
    result = wh.minimize_many(linear, ATOMS)
    assert result.value[0] == pytest.approx(ATOMS[:, 0].min())
    result.save(tmp_path / "saved")
    assert same(wh.load(tmp_path / "saved"), result)
    assert (result.distance == 0.0).all()


def test_lists_that_are_cut_short() -> None:
    late = wh.minimize_many(LISTS["logistic"] * 12, ATOMS, max_seconds=0.0, rtol=1e-12)
    assert set(late.status) == {Status.MAX_SECONDS}
    assert np.isfinite(late.value[0])
    assert np.isinf(late.value[1:]).all()
    stopped = wh.minimize_many(LISTS["logistic"] * 12, ATOMS, callback=lambda state: True)
    assert set(stopped.status[1:]) == {Status.STOPPED}
    lost = wh.minimize_many(LISTS["logistic"], Watched(wh.Scan(ATOMS), lives=0))
    assert set(lost.status) == {Status.LOST}


def test_ctrl_c_ends_all_runs() -> None:
    class Interrupted(Watched):
        def query(self, queries: Any, **options: Any) -> Any:
            raise KeyboardInterrupt

    result = wh.minimize_many(LISTS["logistic"], Interrupted(wh.Scan(ATOMS)))
    assert set(result.status) == {Status.INTERRUPTED}


@pytest.mark.parametrize(
    ("targets", "options", "error", "text"),
    [
        ([LISTS["mixed"][0], 3], {}, TypeError, "`targets\\[1\\]` must be an objective"),
        ([wh.SquaredDistance([1.0, 2.0])], {}, ValueError, "`targets\\[0\\]` must be of dimension 5"),
        (LISTS["mixed"], {"out": "x"}, ValueError, "`out` must be None with objectives"),
        (LISTS["mixed"], {"max_atoms": 2}, ValueError, "`max_atoms` must be left out"),
        (LISTS["mixed"], {"over": "hull"}, TypeError, r"`over` must be Hull\(\) or Cone\(\)"),
    ],
)
def test_wrong_lists(targets: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wh.minimize_many(targets, ATOMS, **options)


def test_few_atoms_that_are_left_give_the_scale() -> None:
    atoms, targets = normal(20_000, 4), normal(2, 4, seed=1)
    exclude = np.arange(5, 20_000)
    curved = [wh.Logistic(normal(9, 4, seed=i), np.resize([1.0, -1.0], 9)) for i in range(2)]
    squares = wh.minimize_many(targets, atoms, exclude=exclude)
    for objective, goal in zip(map(wh.SquaredDistance, targets), squares.goal, strict=True):
        alone = wh.minimize(objective, atoms, exclude=exclude)
        assert goal == pytest.approx(alone.goal, rel=1e-9)
        assert alone.goal > 0.0
    assert squares.success
    for given in (exclude, [exclude, exclude]):
        found = wh.minimize_many(curved, atoms, exclude=given)
        assert found.success
        assert found.ids.max() < 5


def test_without_any_atom_the_origin_is_left() -> None:
    atoms = normal(2000, 4)
    found = wh.minimize_many(normal(2, 4, seed=1), atoms, exclude=np.arange(2000), over=wh.Hull(at_most=True))
    assert len(found.ids) == 0
