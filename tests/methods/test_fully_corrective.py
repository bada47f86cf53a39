# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.methods.losses import gaussian, huber, inside, logistic, outside, quartic, regression
from wolfhound import (
    Away,
    FrankWolfe,
    FullyCorrective,
    Huber,
    Logistic,
    MixtureLikelihood,
    OpenLoop,
    Result,
    Scan,
    Status,
    Vanilla,
    minimize,
)
from wolfhound.core.contracts import INNER, Atoms, Hits, Ids, Ints, Matrix, Method, Objective, State, Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.methods.asking import POOL
from wolfhound.methods.atom_sets import AtomPool
from wolfhound.methods.fully_corrective import COVERED


def independent_gap(objective: Objective, result: Result, rows: Matrix) -> float:
    """Frank-Wolfe gap at the result, by plain float64 numpy."""
    grad = objective.at(result.x).grad
    return float(grad @ result.x - (rows.astype(np.float64) @ grad).min())


# ---------------------------------------------------------------- the method


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"harvest": 0}, ValueError, "`harvest` must be an integer >= 1"),
        ({"pool": 1}, ValueError, "`pool` must be an integer >= 2"),
        ({"pool": 2.5}, TypeError, "`pool` must be an integer"),
        ({"effort": 0.0}, ValueError, "`effort` must be a number > 0"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        FullyCorrective(**options)


@pytest.mark.parametrize("d", [8, 64])
@pytest.mark.parametrize("make", [outside, regression, logistic, huber])
def test_a_handful_of_passes_proves_a_millionth(make: Callable[[Matrix], Objective], d: int) -> None:
    rows = gaussian(20_000, d)
    objective = make(rows)
    result = minimize(objective, rows, rtol=1e-6)
    assert result.status is Status.GAP_REACHED
    assert result.passes <= 4.0
    assert result.gap <= result.goal
    kinds = result.trace.kind[result.trace.kind != INNER].tolist()
    assert kinds[0] == "start"
    assert set(kinds[1::2]) == {"corrective"}
    assert set(kinds[2::2]) == {"pass"}
    assert (np.diff(result.trace.lower) >= 0.0).all()


@pytest.mark.parametrize("make", [outside, logistic])
def test_states_on_the_way_show_f_falling_between_passes(make: Callable[[Matrix], Objective]) -> None:
    rows = gaussian(8_000, 160)
    trace = minimize(make(rows), rows, rtol=1e-6).trace
    first = int(np.flatnonzero(trace.kind == "corrective")[0])
    assert set(trace.kind[1:first]) == {INNER}
    assert (np.diff(trace.value[: first + 1]) <= 1e-12 * trace.value[0]).all()
    assert (np.diff(trace.t) >= 0).all()
    assert set(trace.passes[: first + 1]) == {0.0}


@pytest.mark.parametrize("make", [outside, logistic])
def test_a_callback_may_stop_on_the_way_and_the_answer_is_proved(make: Callable[[Matrix], Objective]) -> None:
    rows = gaussian(8_000, 160)
    objective = make(rows)
    result = minimize(objective, rows, callback=lambda state: state.kind == INNER)
    assert result.status is Status.STOPPED
    assert result.trace.kind.tolist() == ["start", INNER, "corrective"]
    assert result.value >= objective.at(result.weights @ rows[result.ids]).value
    assert result.passes == 0.0


@pytest.mark.parametrize("n", [20_000, 80_000])
def test_an_interior_target_is_proved_without_a_pass(n: int) -> None:
    """What is read does not grow with n: only the random pool."""
    rows = gaussian(n, 32)
    result = minimize(inside(rows), rows, rtol=1e-6)
    assert result.status is Status.GAP_REACHED
    assert (result.passes, result.scored) == (0.0, POOL)
    assert result.lower == 0.0
    assert result.value <= result.goal
    assert result.support <= 33


@pytest.mark.parametrize("make", [outside, regression, logistic, huber, quartic])
def test_the_value_never_rises(make: Callable[[Matrix], Objective]) -> None:
    rows = gaussian(3000, 12)
    objective = make(rows)
    result = minimize(objective, rows, rtol=1e-6, max_passes=30)
    values = result.trace.value
    assert result.success
    assert (np.diff(values) <= 1e-13 * np.abs(values[1:])).all()
    assert result.steps >= result.support - 1


@pytest.mark.parametrize("make", [outside, regression, logistic, huber])
def test_the_gap_is_the_true_one(make: Callable[[Matrix], Objective]) -> None:
    """Proved, and not much larger than what plain numpy finds at the same point."""
    rows = gaussian(3000, 12)
    objective = make(rows)
    result = minimize(objective, rows, rtol=1e-7)
    gap = independent_gap(objective, result, rows)
    assert result.gap <= 1.001 * gap + 1e-11 * (1.0 + result.value)
    best = minimize(objective, rows, rtol=1e-10)
    assert result.lower <= best.value
    assert best.lower <= result.value


@pytest.mark.parametrize("make", [logistic, huber])
@pytest.mark.parametrize("rtol", [1e-8, 1e-10])
def test_smooth_losses_reach_small_gaps(make: Callable[[Matrix], Objective], rtol: float) -> None:
    rows = gaussian(3000, 12)
    result = minimize(make(rows), rows, rtol=rtol, max_passes=30)
    assert result.status is Status.GAP_REACHED


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("rtol", [1e-7, 1e-9])
def test_small_problems_of_all_sizes_reach_small_gaps(seed: int, rtol: float) -> None:
    """Separable logistic and linear Huber have almost no curvature: a model that bends more must get there.

    All atoms are in the pool from the start, so a pass brings nothing new: that alone is no reason to stop.
    """
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([5, 20, 100])), int(rng.choice([2, 5, 10]))
    rows = float(rng.choice([0.1, 1.0, 10.0])) * rng.standard_normal((n, d))
    design = rng.standard_normal((5, d))
    response = 3.0 * design @ rng.standard_normal(d)
    for objective in (Huber(design, response), Logistic(design, np.where(response > 0.0, 1.0, -1.0))):
        assert minimize(objective, rows, rtol=rtol, max_passes=100).success


@pytest.mark.parametrize("rtol", [1e-4, 0.0])
@pytest.mark.parametrize("make", [outside, logistic, huber, quartic])
def test_a_single_atom_is_a_success(make: Callable[[Matrix], Objective], rtol: float) -> None:
    rows = gaussian(1, 3)
    result = minimize(make(rows), rows, rtol=rtol, max_passes=20)
    assert result.success
    assert (result.ids.tolist(), result.weights.tolist()) == ([0], [1.0])


@pytest.mark.parametrize("make", [outside, logistic, huber])
def test_repeated_atoms_do_no_harm(make: Callable[[Matrix], Objective]) -> None:
    rows = gaussian(40, 5)
    objective = make(rows)
    plain = minimize(objective, rows, rtol=1e-9)
    result = minimize(objective, np.repeat(rows, 50, axis=0), rtol=1e-9, max_passes=30)
    assert result.success
    assert result.lower <= plain.value
    assert plain.lower <= result.value


# ---------------------------------------------------------------- pool and harvest


@dataclass
class Spy:
    """A scan that notes how many hits it is asked for, and what it gives."""

    scan: Scan
    wanted: list[int] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    @property
    def atoms(self) -> Atoms:
        return self.scan.atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        self.wanted.append(k)
        self.queries.append(len(queries))
        hits = self.scan.query(queries, k=k, thresholds=thresholds, exclude=exclude)
        self.first.append(int(hits.ids[0, 0]))
        return hits


@pytest.mark.parametrize(
    ("n", "harvest", "wanted"),
    [(20_000, 4096, 4096), (20_000, 300, 300), (2000, 4096, 500), (100, 4096, 100)],
)
def test_a_pass_asks_for_a_harvest(n: int, harvest: int, wanted: int) -> None:
    rows = gaussian(n, 8)
    spy = Spy(Scan(rows))
    result = minimize(outside(rows), spy, method=FullyCorrective(harvest=harvest), rtol=1e-9)
    assert spy.wanted[0] == wanted
    assert set(spy.queries) == {1}
    assert result.success


def test_the_harvest_grows_with_the_active_set() -> None:
    rows = gaussian(20_000, 64)
    spy = Spy(Scan(rows))
    result = minimize(outside(rows, 0.8), spy, method=FullyCorrective(harvest=16))
    assert result.success
    assert 16 < spy.wanted[0] <= 8 * 65


def test_the_best_atom_of_a_pass_is_the_state_s_hit() -> None:
    rows = gaussian(20_000, 8)
    spy = Spy(Scan(rows))
    seen: list[State] = []
    minimize(outside(rows), spy, callback=seen.append)
    assert [state.hit for state in seen if state.kind == "pass"] == spy.first
    assert {state.hit for state in seen if state.kind != "pass"} == {-1}


@pytest.mark.parametrize("make", [outside, regression, logistic, quartic])
@pytest.mark.parametrize("pool", [64, 400])
def test_a_full_pool_is_trimmed(
    make: Callable[[Matrix], Objective], pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is the same, only with more passes; active atoms are never dropped."""
    sizes: list[tuple[int, int]] = []
    keep = AtomPool.keep

    def noted(self: AtomPool, positions: Ints) -> Ints:
        before = self.size
        out = keep(self, positions)
        sizes.append((before, self.size))
        return out

    rows = gaussian(8000, 10)
    objective = make(rows)
    plain = minimize(objective, rows, rtol=1e-6)
    monkeypatch.setattr(AtomPool, "keep", noted)
    result = minimize(
        objective,
        Scan(rows, screen=False),
        method=FullyCorrective(pool=pool, harvest=256),
        rtol=1e-7,
        max_passes=60,
    )
    assert sizes
    assert all(after < before for before, after in sizes)
    assert min(after for _, after in sizes) >= pool // 2
    assert result.success
    assert result.lower <= plain.value
    assert plain.lower <= result.value
    values = result.trace.value
    assert (np.diff(values) <= 1e-13 * np.abs(values[1:])).all()


def test_little_effort_means_more_passes_not_a_worse_answer() -> None:
    rows = gaussian(5000, 20)
    objective = outside(rows, 0.5)
    much = minimize(objective, rows, rtol=1e-6)
    little = minimize(objective, rows, method=FullyCorrective(effort=0.01), rtol=1e-6, max_passes=500)
    assert little.success
    assert little.passes > much.passes
    assert little.lower <= much.value


def test_effort_bounds_the_work_of_one_solve() -> None:
    """The first state after the start comes early, whatever the pool still holds."""
    rows = gaussian(5000, 20)
    states: list[State] = []
    minimize(
        outside(rows, 0.3), rows, method=FullyCorrective(effort=0.01), max_passes=1, callback=states.append
    )
    full: list[State] = []
    minimize(outside(rows, 0.3), rows, max_passes=1, callback=full.append)
    assert states[1].t < full[1].t


# ---------------------------------------------------------------- mixtures


def lonely(n: int, d: int, where: int) -> Matrix:
    """Likelihoods in which one observation is explained by one atom only."""
    rng = np.random.default_rng(0)
    centres, points = rng.uniform(-3.0, 3.0, n), rng.uniform(-3.0, 3.0, d)
    rows = np.exp(-0.5 * (centres[:, None] - points) ** 2)
    rows[:, 0] = 0.0
    rows[where, 0] = 1.0
    return rows.astype(np.float32)


def test_an_observation_that_no_pool_atom_explains_is_covered_by_a_pass() -> None:
    drawn = np.random.default_rng(0).choice(5000, POOL, replace=False)
    where = int(np.setdiff1d(np.arange(5000), drawn)[100])
    rows = lonely(5000, 40, where)
    spy = Spy(Scan(rows))
    states: list[State] = []
    result = minimize(MixtureLikelihood(), spy, rtol=0.0, atol=1e-6, callback=states.append)
    assert states[0].value == math.inf
    assert spy.first[0] == where
    assert states[1].passes >= 1.0
    assert math.isfinite(states[1].value)
    assert result.status is Status.GAP_REACHED
    assert where in result.ids
    assert result.x[0] == pytest.approx(result.weights[result.ids == where].sum(), rel=1e-12)
    # -mean log has its optimum where every atom's mean ratio is at most 1.
    ratios = (rows.astype(np.float64) / result.x).mean(axis=1)
    assert ratios.max() <= 1.0 + 2e-6


def test_more_observations_than_one_pass_covers() -> None:
    d = 2 * COVERED + 10
    rows = np.full((4000, d), 1e-9)
    lucky = np.arange(3000, 3000 + d)
    rows[lucky, np.arange(d)] = 1.0
    spy = Spy(Scan(rows))
    result = minimize(MixtureLikelihood(), spy, rtol=0.0, atol=1e-6)
    assert max(spy.queries) <= COVERED
    assert result.success
    np.testing.assert_array_equal(np.sort(result.ids), lucky)
    np.testing.assert_allclose(result.weights, 1.0 / d, rtol=1e-4)


@dataclass
class Padding:
    """An index that proves nothing, and finds nothing at all for some queries."""

    atoms: Atoms
    found: int

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        hits = Scan(self.atoms).query(queries, k=k, exclude=exclude)
        ids, scores, slots = hits.ids.copy(), hits.scores.copy(), hits.slots.copy()
        ids[self.found :], scores[self.found :], slots[self.found :] = -1, -math.inf, 0
        rows = hits.rows if self.found else hits.rows[:0]
        bounds = np.full(len(queries), math.inf)
        return replace(hits, ids=ids, scores=scores, slots=slots, rows=rows, bounds=bounds, passes=0.0)


@pytest.mark.parametrize("found", [0, 1])
@pytest.mark.parametrize("method", [FullyCorrective(), FrankWolfe(Away()), FrankWolfe(Vanilla(), OpenLoop())])
def test_padding_never_becomes_an_atom(found: int, method: Method) -> None:
    """Three coordinates that no atom covers are asked for; only some queries are answered."""
    rows = np.full((3000, 5), 1e-4)
    rows[:, 4] = np.random.default_rng(0).uniform(0.5, 1.0, 3000)
    drawn = np.random.default_rng(0).choice(3000, POOL, replace=False)
    rows[np.setdiff1d(np.arange(3000), drawn)[0], :4] = [1.0, 0.5, 0.5, 0.5]
    spy, seen = Padding(ArrayAtoms(rows), found), list[State]()

    def enough(state: State) -> bool:
        seen.append(state)
        return len(seen) == 50

    result = minimize(MixtureLikelihood(), spy, method=method, rtol=1e-3, callback=enough)
    assert result.ids.min() >= 0
    np.testing.assert_allclose(result.weights @ rows[result.ids], result.x, rtol=1e-12)


@pytest.mark.parametrize("n", [10, 3000])
def test_an_impossible_observation_is_an_error(n: int) -> None:
    rows = np.random.default_rng(0).random((n, 6))
    rows[:, 3] = 0.0
    with pytest.raises(FloatingPointError, match="f must be finite"):
        minimize(MixtureLikelihood(), rows, atol=1e-6)


def test_a_mixture_on_a_grid() -> None:
    """Two well separated groups of observations: the fit sits on both."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal(60) - 4.0, rng.standard_normal(40) + 4.0])
    grid = np.linspace(-8.0, 8.0, 4001)
    rows = np.exp(-0.5 * (grid[:, None] - points) ** 2).astype(np.float32)
    result = minimize(MixtureLikelihood(), ArrayAtoms(rows), rtol=0.0, atol=1e-7)
    assert result.status is Status.GAP_REACHED
    assert result.passes <= 6.0
    assert result.weights[grid[result.ids] < 0.0].sum() == pytest.approx(0.6, abs=0.02)


def test_a_warm_mixture_starts_where_it_was() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal(50)
    rows = np.exp(-0.5 * (np.linspace(-4.0, 4.0, 3000)[:, None] - points) ** 2)
    cold = minimize(MixtureLikelihood(), rows, rtol=0.0, atol=1e-6)
    warm = minimize(MixtureLikelihood(), rows, rtol=0.0, atol=1e-6, start=cold)
    assert warm.trace.value[0] == pytest.approx(cold.value, rel=1e-12)
    assert warm.passes <= 1.0
