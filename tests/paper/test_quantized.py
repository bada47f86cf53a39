"""`QuantizedQueries`: few queries reach the oracle, errors are bounded, proofs hold."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.conformance.oracle import check_hits, check_oracle, true_scores
from tests.oracles.degraded import Degraded, EveryOther, Follower
from tests.problems import rational
from wolfhound.core.contracts import Matrix, Oracle, Vector
from wolfhound.data.atoms import ArrayAtoms, norms
from wolfhound.methods.directions import Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.steps import OpenLoop
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.scan import Scan
from wolfhound.paper import theory
from wolfhound.paper.adaptive import AdaptivePlan, QuantizedQueries, _locate, plan_adaptive
from wolfhound.solve.minimize import minimize

SEEDS = st.integers(0, 10**6)
SHARES = st.sampled_from([0.3, 0.63, 0.9, 1.0])
DIMS = st.integers(1, 6)


def zero(query: Vector) -> float:
    """The share c is one of scores."""
    return 0.0


def unit_rows(rng: np.random.Generator, n: int, d: int) -> Vector:
    rows = rng.standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def plan_for(c: float, eps: float, *, d: int = 100, diameter: float = 1.0, size: float = 1.0) -> AdaptivePlan:
    """A plan for a million atoms."""
    return plan_adaptive(
        n=10**6, d=d, c=c, eps=eps, curvature=3.0, first=2.0, diameter=diameter, size=size, delta=0.01
    )


# ---------------------------------------------------------------- conformance


@pytest.mark.slow
def test_conformance_around_indexes() -> None:
    check_oracle(
        lambda atoms: QuantizedQueries(ClusterIndex.build(atoms), side=0.1, radius=float(norms(atoms).max())),
        exact=False,
    )


# ---------------------------------------------------------------- the lattice


@given(SEEDS, DIMS, st.floats(1e-6, 1.99), st.sampled_from([1e-310, 1e-200, 1.0, 1e200, 1e307]))
def test_a_query_is_near_the_centre_of_its_cell(seed: int, d: int, side: float, scale: float) -> None:
    queries = scale * np.random.default_rng(seed).uniform(-1.0, 1.0, (20, d))
    cells = math.ceil(2.0 / side)
    lattice = _locate(queries, cells)
    unit = queries / np.abs(queries).max(axis=1)[:, None]
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    assert (np.abs(unit - lattice.centres) <= 1.0 / cells + 1e-12).all()
    assert 1.0 / cells <= side / 2.0
    assert (lattice.offsets <= lattice.sizes * math.sqrt(d) / cells * (1.0 + 1e-12) + 1e-12).all()
    odd = lattice.centres * cells
    assert_allclose(odd, np.rint(odd), atol=1e-9 * cells)
    assert ((np.rint(odd) + cells) % 2 == 1).all()


def test_queries_of_a_cell_are_one_query() -> None:
    index = EveryOther(np.eye(2))
    oracle = QuantizedQueries(index, side=0.5)
    queries = np.random.default_rng(0).standard_normal((5000, 2))
    queries[:4] = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]  # corners of the cube
    oracle.query(queries)
    seen = index.calls[-1]["queries"]
    assert oracle.cells == 16
    assert len(np.unique(seen, axis=0)) == 12  # the inner four do not meet the circle
    for scale in (1e-250, 0.3, 7.0, 1e250):
        oracle.query(scale * queries)
        assert_array_equal(index.calls[-1]["queries"], seen)
    assert np.abs(seen).max() == 0.75


def test_zero_stays_zero() -> None:
    index = EveryOther(np.eye(3))
    QuantizedQueries(index, side=0.5).query(np.zeros((1, 3)))
    assert_array_equal(index.calls[-1]["queries"], np.zeros((1, 3)))
    hits = QuantizedQueries(Scan(np.eye(3)), side=0.5).query(np.zeros((1, 3)), thresholds=np.ones(1))
    assert hits.scores[0, 0] == 0.0 <= hits.bounds[0] <= 1e-300


# ---------------------------------------------------------------- the error


@given(SEEDS, DIMS, SHARES, st.sampled_from([1e-4, 0.01, 0.1, 0.3]), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_additive_error_is_at_most_lambda(
    seed: int, d: int, c: float, error: float, scale: float
) -> None:
    """(c, tau, lambda)-MaxIP around an oracle that answers with the worst it may."""
    rng = np.random.default_rng(seed)
    rows, query = unit_rows(rng, 40, d), scale * rng.standard_normal((1, d))
    length = float(np.linalg.norm(query))
    best = float((rows @ query[0]).max()) / length
    assume(best >= error)
    side = theory.lattice_side(error, d, c=c)
    oracles: list[Oracle] = [Scan(rows), Degraded(Scan(rows), c, zero)]
    for inner in oracles:
        hits = QuantizedQueries(inner, side=side).query(query)
        assert hits.scores[0, 0] / length >= c * best - error - 1e-12


def error_of_the_worst_pair(side: float, c: float) -> float:
    """c max - answer, for two atoms across the query that moved most along the circle."""
    angles = np.linspace(0.0, 2.0 * math.pi, 20001)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    centres = _locate(points, math.ceil(2.0 / side)).centres
    turned = np.column_stack([-centres[:, 1], centres[:, 0]])
    along = ((points - centres) * turned).sum(axis=1) / np.linalg.norm(centres, axis=1)
    at = int(np.abs(along).argmax())
    sign, middle = math.copysign(1.0, along[at]), math.atan2(centres[at, 1], centres[at, 0])
    ahead, behind = math.asin(0.1), math.asin(0.1 * c * (1.0 + 1e-9))
    atoms = [middle + sign * (math.pi / 2 - ahead), middle - sign * (math.pi / 2 - behind)]
    rows, query = np.column_stack([np.cos(atoms), np.sin(atoms)]), points[at : at + 1]
    hits = QuantizedQueries(Degraded(Scan(rows), c, zero), side=side).query(query)
    return float(c * (rows @ query[0]).max() - hits.scores[0, 0])


@pytest.mark.parametrize("c", [0.5, 0.9])
def test_the_error_comes_close_to_lambda_and_exceeds_it_in_the_lattice_of_the_appendix(c: float) -> None:
    assert 0.8e-3 < error_of_the_worst_pair(theory.lattice_side(1e-3, 2, c=c), c) <= 1e-3
    assert error_of_the_worst_pair(2e-3 / math.sqrt(2.0), c) > 1e-3  # cells of diameter 2 lambda


@given(SEEDS, DIMS, SHARES, st.sampled_from([0.01, 0.1, 0.5]))
def test_gaps_lose_at_most_the_error_of_the_plan(seed: int, d: int, c: float, share: float) -> None:
    """Far from the origin, where scores are large: only the diameter counts."""
    rng = np.random.default_rng(seed)
    rows, query = rng.standard_normal((30, d)) + 10.0, rng.standard_normal((1, d))
    x = rng.dirichlet(np.ones(30)) @ rows
    diameter = max(float(np.linalg.norm(a - b)) for a in rows for b in rows)
    size, gaps = float(np.linalg.norm(query)), (rows - x) @ query[0]
    plan = plan_for(c, share * size * diameter, d=d, diameter=diameter, size=size)
    assume(gaps.max() >= plan.gap_error)
    inner = Degraded(Scan(rows), c, lambda q: float(q @ x))
    hits = QuantizedQueries(inner, side=plan.side).query(query)
    assert hits.scores[0, 0] - query[0] @ x >= c * gaps.max() - plan.gap_error - 1e-11


# ---------------------------------------------------------------- proofs


def exact_best(queries: Matrix, rows: Matrix) -> list[Fraction]:
    """Best scores in rational numbers."""
    atoms = rational(rows)
    return [
        max(sum((a * b for a, b in zip(query, row, strict=True)), Fraction()) for row in atoms)
        for query in rational(queries)
    ]


@given(SEEDS, st.sampled_from([2.0**-50, 1e-9, 0.7]), st.sampled_from([1e-310, 1.0, 1e150]))
def test_offsets_and_raised_bounds_are_rounded_up(seed: int, side: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    queries, bounds = scale * rng.standard_normal((6, 2)), rng.standard_normal(6)
    lattice = _locate(queries, math.ceil(2.0 / side))
    raised = lattice.lift(bounds, 0.7)
    units = [Fraction(2) ** int(e) for e in lattice.exponents]
    (sizes,), (offsets,), (best,) = rational(lattice.sizes), rational(lattice.offsets), rational(bounds)
    for i, (query, centre) in enumerate(zip(rational(queries), rational(lattice.centres), strict=True)):
        away = [q / units[i] - sizes[i] * x for q, x in zip(query, centre, strict=True)]
        assert sum(x * x for x in away) <= offsets[i] ** 2
        assert (
            units[i] * (sizes[i] * best[i] + offsets[i] * Fraction(0.7))
            <= Fraction(raised[i]) + Fraction(2) ** -1070
        )


@given(
    SEEDS,
    st.sampled_from([2.0**-50, 1e-9, 0.01, 0.7, 1.9]),
    st.sampled_from([5e-324, 1e-300, 1e-6, 1.0, 1e6, 1e150]),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.booleans(),
)
def test_bounds_stay_proved(seed: int, side: float, scale: float, size: float, given_radius: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = size * rng.standard_normal((12, 3)), scale * rng.integers(-9, 10, (5, 3))
    radius = float(norms(ArrayAtoms(rows)).max())
    hits = QuantizedQueries(Scan(rows), side=side, radius=radius if given_radius else None).query(queries)
    check_hits(hits, queries, rows, 1)
    # Twice the distance: once in the bound, once from the query to the centre.
    sizes = np.array([math.hypot(*query) for query in queries])
    room = 2.0 * math.sqrt(3.0) / math.ceil(2.0 / side) * sizes * radius
    rounding = 1e-14 * np.abs(queries).sum(axis=1) * radius + 1e-300
    for bound, best, more in zip(hits.bounds, exact_best(queries, rows), room + rounding, strict=True):
        assert best <= Fraction(float(bound)) <= best + Fraction(1.001 * float(more))


def test_the_bound_of_the_centre_proves_nothing() -> None:
    rng = np.random.default_rng(0)
    rows, queries = rng.standard_normal((50, 3)), unit_rows(rng, 200, 3)
    centres = _locate(queries, 20).centres
    best = true_scores(queries, rows).max(axis=1)
    assert (Scan(rows).query(centres).bounds < best).any()
    assert (QuantizedQueries(Scan(rows), side=0.1).query(queries).bounds >= best).all()


def test_bounds_of_nothing_and_of_no_proof_stay() -> None:
    rows, queries = np.eye(3), np.ones((2, 3))
    exclude = np.array([[0, 1, 2], [0, 1, -1]])
    hits = QuantizedQueries(Scan(rows), side=0.1).query(queries, exclude=exclude)
    assert hits.bounds[0] == -np.inf
    assert 1.0 <= hits.bounds[1] < 1.2
    assert_array_equal(hits.ids[:, 0], [-1, 2])
    assert (QuantizedQueries(EveryOther(rows), side=0.1).query(queries).bounds == np.inf).all()


# ---------------------------------------------------------------- thresholds


@given(SEEDS, st.sampled_from([1e-3, 0.1, 1.0]), st.sampled_from([1e-200, 1.0, 1e200]))
def test_an_atom_that_reaches_a_threshold_reaches_the_lowered_one(
    seed: int, side: float, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = rng.standard_normal((20, 4)), scale * rng.standard_normal((6, 4))
    index = EveryOther(rows)
    thresholds = (queries @ rows.T).max(axis=1)
    thresholds[:2] = np.inf, -np.inf
    QuantizedQueries(index, side=side).query(queries, thresholds=thresholds)
    call = index.calls[-1]
    assert_array_equal(call["thresholds"][:2], [np.inf, -np.inf])
    best = true_scores(call["queries"], rows).max(axis=1)
    assert (call["thresholds"] <= best)[2:].all()
    worst = 2.0 * math.sqrt(4.0) / math.ceil(2.0 / side) * float(norms(ArrayAtoms(rows)).max())
    assert (call["thresholds"] >= best - worst - 1e-9)[2:].all()


def test_without_thresholds_there_are_none() -> None:
    index = EveryOther(np.eye(3))
    QuantizedQueries(index, side=0.1).query(np.ones((2, 3)))
    assert index.calls[-1]["thresholds"] is None
    assert index.calls[-1]["exclude"] is None


# ---------------------------------------------------------------- the radius and the cost


def test_the_radius_is_measured_once_and_only_if_needed() -> None:
    rows, queries, wanted = 3.0 * np.eye(3), np.ones((1, 3)), np.zeros(1)
    oracle = QuantizedQueries(EveryOther(rows), side=0.1)
    assert [oracle.query(queries).passes, oracle.query(queries).radius] == [0.0, np.inf]
    passes = [oracle.query(queries, thresholds=wanted).passes for _ in range(3)]
    assert passes == [1.0, 0.0, 0.0]
    assert 3.0 <= oracle.query(queries).radius <= 3.0 * (1.0 + 1e-12)
    told = QuantizedQueries(EveryOther(rows), side=0.1, radius=5.0)
    hits = told.query(queries, thresholds=wanted)
    assert (hits.passes, hits.radius) == (0.0, 5.0)
    proving = QuantizedQueries(Scan(rows, screen=False), side=0.1)
    assert [proving.query(queries, thresholds=t).passes for t in (None, wanted, wanted)] == [1.0] * 3


def test_answers_are_scored_again() -> None:
    rows = np.random.default_rng(1).standard_normal((30, 3))
    hits = QuantizedQueries(Scan(rows), side=0.1).query(rows[:2], k=4)
    assert_array_equal(hits.scored, [34, 34])
    assert_allclose(hits.scores, np.take_along_axis(rows[:2] @ rows.T, hits.ids, 1), rtol=1e-12)


# ---------------------------------------------------------------- plans


def test_three_numbers_of_copies() -> None:
    plan = plan_for(0.9, 2e-3 / 0.9)
    assert plan.error == pytest.approx(1e-3)
    assert (plan.printed, plan.union, plan.lattice) == (3063, 539, 430)
    for text in ("3,063 as printed", "539 by its union bound", "430 for this lattice", f"{plan.steps:,}"):
        assert text in repr(plan)
    assert plan.side == pytest.approx(theory.lattice_side(1e-3, 100, c=0.9))
    oracle = QuantizedQueries(Scan(np.ones((1, 100))), side=plan.side)
    assert theory.copies(oracle.cells, 0.01) == plan.lattice


@given(SHARES, st.floats(1e-6, 1e3), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_a_plan_splits_eps_in_halves(c: float, eps: float, diameter: float, size: float) -> None:
    plan = plan_for(c, eps, d=7, diameter=diameter, size=size)
    assert plan.gap_error / c == pytest.approx(eps / 2)
    after = theory.gap_after(plan.steps, c=c, curvature=3.0, first=2.0, error=plan.gap_error)
    assert after <= eps * (1 + 1e-9)
    assert plan.error == pytest.approx(min(1.0, plan.gap_error / (diameter * size)), rel=1e-12)
    assert (1 + c) * 0.5 * plan.side * math.sqrt(7.0) == pytest.approx(plan.error)
    QuantizedQueries(Scan(np.ones((1, 7))), side=max(plan.side, 2.0**-50))


def test_lambda_as_printed_never_reaches_eps() -> None:
    """lambda = eps / (4 c^2) leaves a floor of lambda / c, above eps for c < 0.63."""
    for c, reaches in ((0.3, False), (0.5, False), (0.629, False), (0.631, True), (0.9, True)):
        printed = 1.0 / (4.0 * c**2)
        forever = theory.gap_after(10**15, c=c, curvature=1.0, first=1.0, error=printed)
        assert (forever <= 1.0) == reaches
        assert theory.additive_error(1.0, c=c) / c == pytest.approx(0.5)
    with pytest.raises(ValueError, match="`eps` must be > error / c"):
        theory.steps(1.0, c=0.5, curvature=1.0, first=1.0, error=1.0 / (4.0 * 0.5**2))


@pytest.mark.parametrize("c", [0.5, 0.9])
def test_a_run_by_the_plan_reaches_eps(c: float) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((60, 4))
    target = rng.dirichlet(np.ones(60)) @ rows  # in the hull: min f = 0, and |grad f| <= D_max
    diameter = max(float(np.linalg.norm(a - b)) for a in rows for b in rows)
    eps, first = 0.03 * diameter**2, 0.5 * diameter**2
    plan = plan_adaptive(
        n=60,
        d=4,
        c=c,
        eps=eps,
        curvature=diameter**2,
        first=first,
        diameter=diameter,
        size=diameter,
        delta=0.1,
    )
    follower = Follower()
    oracle = QuantizedQueries(Degraded(Scan(rows), c, follower.here), side=plan.side)
    method = FrankWolfe(Vanilla(), OpenLoop(2.0 / c))
    result = minimize(
        SquaredDistance(target), oracle, method=method, rtol=0.0, max_steps=plan.steps, callback=follower
    )
    assert len(result.trace) > 10
    assert result.value <= eps


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("side", [0.0, -1.0, 1e-300, 2.0, np.inf, np.nan])
def test_sides_outside_the_sphere_are_refused(side: float) -> None:
    with pytest.raises(ValueError, match="`side` must be"):
        QuantizedQueries(Scan(np.eye(2)), side=side)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="`radius` must be"):
        QuantizedQueries(Scan(np.eye(2)), side=0.1, radius=-1.0)
    oracle = QuantizedQueries(Scan(np.eye(2)), side=0.1)
    with pytest.raises(ValueError, match="`queries` must be"):
        oracle.query(np.ones((1, 3)))
    with pytest.raises(ValueError, match="`thresholds` must be"):
        oracle.query(np.ones((1, 2)), thresholds=np.ones(3))
    with pytest.raises(ValueError, match="`queries` must be so small"):
        oracle.query(np.full((1, 2), 1e305))
    with pytest.raises(ValueError, match="`eps` must be"):
        plan_for(0.5, 0.0)
    with pytest.raises(ValueError, match="`diameter` must be"):
        plan_for(0.5, 1.0, diameter=0.0)
    with pytest.raises(ValueError, match="`size` must be"):
        plan_for(0.5, 1.0, size=0.0)


def test_repr_names_the_oracle_and_the_side() -> None:
    text = repr(QuantizedQueries(Scan(np.eye(2)), side=0.1))
    assert text == "QuantizedQueries(Scan(ArrayAtoms(2 x 2, float64), screen=False), side=0.1)"
