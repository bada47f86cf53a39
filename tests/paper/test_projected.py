"""`Projected`: what the index finds among mapped atoms, scored with the caller's query."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tests.conformance.oracle import check_hits, check_oracle
from tests.oracles.degraded import Degraded, EveryOther
from wolfhound.core.contracts import Atoms, Matrix, Vector
from wolfhound.data.atoms import ArrayAtoms, MappedAtoms, norms
from wolfhound.oracles.scan import Scan
from wolfhound.paper import theory
from wolfhound.paper.adaptive import QuantizedQueries
from wolfhound.paper.projected import Projected
from wolfhound.paper.transforms import (
    johnson_lindenstrauss,
    paper_atom,
    paper_query,
    sphere_atom,
    sphere_query,
)

SEEDS = st.integers(0, 10**6)


def lifted(atoms: Atoms) -> MappedAtoms:
    """The atoms on the sphere."""
    size = float(norms(atoms).max()) or 1.0
    return MappedAtoms(atoms, lambda y: sphere_atom(y, size), atoms.shape[1] + 2)


def padded(queries: Matrix) -> Matrix:
    """Queries for atoms on the sphere: |q| phi1(q), so that zero is no exception."""
    return np.hstack([queries, np.zeros((len(queries), 2))])


def scaled(queries: Matrix) -> Matrix:
    """phi1, each query scaled by its own norm."""
    return sphere_query(queries, np.linalg.norm(queries, axis=1))


# ---------------------------------------------------------------- conformance


@pytest.mark.slow
@pytest.mark.parametrize("extra", [0, 3])
def test_conformance(extra: int) -> None:
    check_oracle(lambda atoms: Projected(Scan(lifted(atoms)), padded, atoms, extra=extra), exact=False)
    check_oracle(lambda atoms: Projected(EveryOther(lifted(atoms)), padded, atoms, extra=extra), exact=False)


@pytest.mark.slow
def test_conformance_of_quantized_forms() -> None:
    def inside(atoms: Atoms) -> Projected:
        return Projected(QuantizedQueries(Scan(lifted(atoms)), side=0.05), padded, atoms)

    check_oracle(inside, exact=False)
    check_oracle(
        lambda atoms: QuantizedQueries(Projected(Scan(lifted(atoms)), padded, atoms), side=0.05), exact=False
    )


# ---------------------------------------------------------------- answers


@given(SEEDS, st.integers(1, 60), st.integers(1, 6), st.integers(1, 5))
def test_maps_that_keep_the_order_lose_nothing(seed: int, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = rng.standard_normal((n, 4)).astype(np.float32), rng.standard_normal((m, 4))
    exclude = rng.integers(-1, n, (m, 3))
    atoms = ArrayAtoms(rows)
    hits = Projected(Scan(lifted(atoms)), scaled, atoms).query(queries, k=k, exclude=exclude)
    exact = Scan(rows).query(queries, k=k, exclude=exclude)
    check_hits(hits, queries, rows, k)
    assert_array_equal(hits.ids, exact.ids)
    assert_array_equal(hits.scores, exact.scores)


@given(SEEDS, st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([1e-3, 1.0, 100.0]))
def test_a_share_of_the_lifted_maximum_is_a_share_of_the_gap(seed: int, c: float, far: float) -> None:
    """(c, phi, psi, tau)-MaxIP with the paper's maps: <z - x, grad> <= c min <y - x, grad>."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((30, 3)) + far
    x, query = rng.dirichlet(np.ones(30)) @ rows, rng.standard_normal((1, 3))
    radius = float(np.linalg.norm(rows, axis=1).max())
    length = float(np.linalg.norm(query))
    size_x, size_y = theory.lift_norms(length, smoothness=0.0, diameter=0.0, radius=radius)
    mapped = MappedAtoms(ArrayAtoms(rows), lambda y: paper_atom(y, size_y), 6)
    index = Degraded(Scan(mapped), c, lambda q: 0.0)
    hits = Projected(index, lambda q: paper_query(np.tile(x, (len(q), 1)), -q, size_x), rows).query(query)
    gaps = (rows - x) @ query[0]
    assert gaps.max() > 0.0
    assert hits.scores[0, 0] - query[0] @ x >= c * gaps.max() - 1e-12 * length * radius
    assert index.ratios[0] * gaps.max() == pytest.approx(gaps[hits.ids[0, 0]], abs=1e-12 * length * radius)


def test_a_share_of_plain_scores_says_nothing_of_the_gap() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 3)) + 100.0
    atoms, x, query = ArrayAtoms(rows), rows.mean(axis=0), np.array([[1.0, 2.0, 3.0]])
    index = Degraded(Scan(lifted(atoms)), 0.97, lambda q: 0.0)
    hits = Projected(index, scaled, atoms).query(query)
    assert index.ratios[0] >= 0.97
    assert hits.scores[0, 0] < query[0] @ x


def test_more_answers_of_a_rough_map_are_better() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((500, 200))
    queries = rows[:100] + rng.standard_normal((100, 200))
    matrix = johnson_lindenstrauss(200, 24, 0)
    index = Scan(MappedAtoms(ArrayAtoms(rows), lambda y: y @ matrix, 24))
    best = Scan(rows).query(queries).scores[:, 0]
    found = [
        (Projected(index, lambda q: q @ matrix, rows, extra=extra).query(queries).scores[:, 0] == best).mean()
        for extra in (0, 20, 500)
    ]
    assert found[0] < 0.9 < found[1] < found[2] == 1.0


# ---------------------------------------------------------------- what the index is asked


def test_thresholds_need_a_map_of_their_own() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    queries, wanted = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([4.0, np.inf])
    index = EveryOther(MappedAtoms(ArrayAtoms(rows), lambda y: 2.0 * y, 2))

    def triple(asked: Vector) -> Vector:
        return 3.0 * asked

    Projected(index, triple, rows).query(queries, thresholds=wanted)
    assert index.calls[-1]["thresholds"] is None
    mapped = Projected(index, triple, rows, thresholds=lambda q, t: 6.0 * t + 0.0 * q[:, 0])
    hits = mapped.query(queries, k=2, thresholds=wanted, exclude=np.array([[4, -1], [2, 4]]))
    assert_array_equal(index.calls[-1]["thresholds"], [24.0, np.inf])
    assert_array_equal(index.calls[-1]["queries"], 3.0 * queries)
    assert_array_equal(hits.ids, [[2, 0], [0, -1]])
    assert_array_equal(hits.scores, [[4.0, 0.0], [1.0, -np.inf]])
    mapped.query(queries)
    assert index.calls[-1]["thresholds"] is None
    assert index.calls[-1]["exclude"] is None


def test_the_cost_of_the_index_is_counted_and_its_proof_is_not() -> None:
    rows = np.random.default_rng(2).standard_normal((40, 3))
    atoms = ArrayAtoms(rows)
    hits = Projected(Scan(lifted(atoms)), padded, extra=2).query(rows[:1], k=3)
    assert hits.passes == 1.0
    assert hits.scored[0] == 40 + 5
    assert hits.bounds[0] == hits.radius == np.inf


# ---------------------------------------------------------------- arguments


def test_wrong_arguments_are_named() -> None:
    rows = np.ones((4, 2))
    index = Scan(lifted(ArrayAtoms(rows)))
    with pytest.raises(ValueError, match=r"`index` must be an oracle over the 3 mapped atoms. Got 4 atoms"):
        Projected(index, padded, rows[:3])
    with pytest.raises(TypeError, match="`atoms` must be given"):
        Projected(Scan(rows), padded)
    with pytest.raises(ValueError, match="`extra` must be"):
        Projected(index, padded, rows, extra=-1)
    with pytest.raises(ValueError, match=r"`phi\(queries\)` must be an \(4, 4\) array"):
        Projected(index, lambda q: q, rows).query(rows)
    with pytest.raises(ValueError, match=r"`phi\(queries\)` must be an \(4, 4\) array"):
        Projected(index, lambda q: padded(q)[:2], rows).query(rows)
    with pytest.raises(ValueError, match=r"`phi\(queries\)` must be finite"):
        Projected(index, lambda q: np.nan * padded(q), rows).query(rows)
    with pytest.raises(ValueError, match="`queries` must be"):
        Projected(index, padded, rows).query(padded(rows))
    with pytest.raises(ValueError, match="`thresholds` must be"):
        Projected(index, padded, rows, thresholds=lambda q, t: t[:1]).query(rows, thresholds=np.zeros(4))


def test_repr_names_the_index_and_the_atoms() -> None:
    atoms = ArrayAtoms(np.ones((4, 2)))
    text = repr(Projected(EveryOther(lifted(atoms)), padded, atoms, extra=1))
    assert text.startswith("Projected(")
    assert text.endswith("ArrayAtoms(4 x 2, float64), extra=1)")
