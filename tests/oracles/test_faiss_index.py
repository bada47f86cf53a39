"""`FaissIndex`: what an index of faiss finds, scored exactly, alike at any thread count, never proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import builtins
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

import wolfhound
from tests.conformance.oracle import check_hits, check_oracle
from wolfhound.core.contracts import AtomsLike, Hits, Ids, Matrix, Vector
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ConcatAtoms
from wolfhound.oracles import faiss_index
from wolfhound.oracles.faiss_index import FaissIndex

Make = Callable[[AtomsLike], FaissIndex]


def wrapped(factory: str, rerank: int = 8, **settings: int) -> Make:
    """Make an index as a caller would, and wrap it."""

    def make(atoms: AtomsLike) -> FaissIndex:
        mine = wolfhound.data.atoms.as_atoms(atoms)
        rows = mine.take(np.arange(mine.shape[0])).astype(np.float32)
        index = faiss.index_factory(rows.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        for name, value in settings.items():
            setattr(index, name, value)
        with faiss_index._hold_threads(1):  # a graph built by several depends on their timing
            index.train(rows)
            index.add(rows)
        return FaissIndex(index, mine, rerank=rerank)

    return make


SMALL = {
    "flat": wrapped("Flat"),
    "graph": wrapped("HNSW8"),
    "codes": wrapped("SQ8"),
    "one": wrapped("Flat", 1),
}
MAKES: dict[str, Make] = {
    **{name: SMALL[name] for name in ("flat", "graph", "codes")},
    "lists": wrapped("IVF12_HNSW,SQ8", nprobe=6),
}
every_kind = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    """Give faiss and the library their own numbers of threads back."""
    before = faiss.omp_get_max_threads()
    yield
    set_threads(None)
    faiss.omp_set_num_threads(before)


def clustered(n: int = 3000, d: int = 13) -> Matrix:
    """Rows around 40 centres, of lengths from 0.2 to 5 or so."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((40, d))
    rows = centres[rng.integers(0, 40, n)] + 0.4 * rng.standard_normal((n, d))
    return np.asarray(rows * np.exp(0.8 * rng.standard_normal((n, 1))), np.float32)


def check_question(m: int, d: int = 13) -> Vector:
    return np.random.default_rng(6).standard_normal((m, d))


def quality(hits: Hits, queries: Matrix, rows: Matrix) -> float:
    """Mean of (found - mean score) / (best - mean score)."""
    scores = queries @ rows.astype(np.float64).T
    middle = scores.mean(axis=1)
    return float(((hits.scores[:, 0] - middle) / (scores.max(axis=1) - middle)).mean())


# ---------------------------------------------------------------- answers


@pytest.mark.slow
@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_conformance(make: Make) -> None:
    check_oracle(make, exact=False)


@every_kind
def test_good_atoms_are_found(make: Make) -> None:
    rows, queries = clustered(), check_question(60)
    hits = make(rows).query(queries, k=5)
    check_hits(hits, queries, rows, 5)
    assert quality(hits, queries, rows) > 0.9
    assert (hits.ids >= 0).all()
    assert (hits.bounds == np.inf).all()
    assert (hits.passes, hits.radius) == (0.0, np.inf)


@every_kind
def test_inner_product_is_no_cosine(make: Make) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((500, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries = rows[:20].copy()  # the best cosine is that of the atom itself
    rows[300:] *= 20.0  # the best inner product is not
    hits = make(rows).query(queries)
    assert (hits.ids[:, 0] >= 300).all()
    assert quality(hits, queries, rows) > 0.97


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e150, 1e300])
def test_the_length_of_a_query_does_not_matter(scale: float) -> None:
    rows, queries = clustered(), check_question(5)
    index = wrapped("SQ8")(rows)
    np.testing.assert_array_equal(index.query(scale * queries).ids, index.query(queries).ids)


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("n", [1, 2, 15, 17])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_few_atoms_are_answered_and_nothing_is_printed(
    make: Make, n: int, d: int, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(n).standard_normal((n, d)).astype(np.float32)
    hits = make(rows).query(check_question(3, d), k=2)
    check_hits(hits, check_question(3, d), rows, 2)
    assert capfd.readouterr() == ("", "")


def test_where_all_atoms_are_candidates_the_answer_is_exact() -> None:
    rows, queries = clustered(200), check_question(9)
    for k, rerank in ((1, 200), (200, 1), (300, 64)):
        hits = wrapped("HNSW8", rerank)(rows).query(queries, k=k)
        expected = np.argsort(-(queries @ rows.astype(np.float64).T), axis=1)[:, :k]
        np.testing.assert_array_equal(hits.ids[:, : expected.shape[1]], expected)
        assert (hits.scored == 200).all()


@every_kind
def test_a_zero_query_gets_the_first_atom(make: Make) -> None:
    hits = make(clustered(400)).query(np.zeros((2, 13)), exclude=np.array([[-1], [0]]))
    assert (hits.scores == 0.0).all()
    assert (hits.ids >= 0).all()


def test_a_large_batch_is_answered_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = clustered(), check_question(50)
    index = wrapped("HNSW8")(rows)
    exclude = np.arange(50)[:, None]
    whole = index.query(queries, k=3, exclude=exclude)
    monkeypatch.setattr(faiss_index, "_GATHER", 7 * 9 * 13 * 4)
    groups = index.query(queries, k=3, exclude=exclude)
    np.testing.assert_array_equal(groups.ids, whole.ids)
    assert groups.scored.sum() == whole.scored.sum()
    check_hits(groups, queries, rows, 3)


# ---------------------------------------------------------------- exclusion


@every_kind
def test_excluded_atoms_make_room_for_others(make: Make) -> None:
    rows, queries = clustered(), check_question(20)
    scores = queries @ rows.astype(np.float64).T
    best = np.argsort(-scores, axis=1)[:, :60]
    exclude = np.where(np.arange(20)[:, None] % 2, best, -1)
    hits = make(rows).query(queries, k=4, exclude=exclude)
    np.put_along_axis(scores[1::2], best[1::2], -np.inf, 1)
    assert not (hits.ids[:, :, None] == exclude[:, None]).any()
    assert (hits.ids >= 0).all()
    middle = np.median(scores, axis=1)
    assert ((hits.scores[:, 0] - middle) / (scores.max(axis=1) - middle)).mean() > 0.95


def test_lists_that_hold_too_little_still_answer() -> None:
    rows, queries = clustered(2000), check_question(20)
    index = wrapped("IVF200,Flat", 1)(rows)
    found = index.index.search(faiss_index._make_units(queries), 1001)[1]
    exclude = np.sort(found, axis=1)[:, -1000:]
    assert (found < 0).any(axis=1).all()  # fewer than wanted, and all of them excluded
    hits = index.query(queries, exclude=exclude)
    check_hits(hits, queries, rows, 1)
    assert (hits.ids >= 0).all()
    assert not (hits.ids[:, :, None] == exclude[:, None]).any()


def test_an_exclusion_of_one_query_changes_no_other() -> None:
    rows, queries = clustered(), check_question(2)
    index = wrapped("SQ8")(rows)
    exclude = np.full((2, 100), -1)
    exclude[1] = np.arange(100)
    both = index.query(queries, k=8, exclude=exclude)
    np.testing.assert_array_equal(both.ids[0], index.query(queries[:1], k=8).ids[0])


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize("factory", ["Flat", "SQ8", "IVF1,Flat"])
def test_the_cost_is_what_was_scored(factory: str) -> None:
    assert (wrapped(factory)(clustered()).query(check_question(7)).scored == 3000).all()


@pytest.mark.parametrize("make", [wrapped("HNSW32"), wrapped("IVF9,Flat")], ids=["graph", "lists"])
def test_a_common_cost_is_shared(make: Make) -> None:
    index, queries = make(clustered()), check_question(7)
    before = faiss_index._count_scored()
    scored = index.query(queries).scored
    assert scored.sum() == faiss_index._count_scored() - before
    assert scored.max() - scored.min() <= 1
    assert 8 <= scored.min() <= scored.max() < 3000


# ---------------------------------------------------------------- repeatable


@every_kind
def test_threads_change_nothing(make: Make) -> None:
    rows = clustered(6000)
    atoms = ConcatAtoms([rows[i : i + 500] for i in range(0, 6000, 500)])
    seen = []
    for threads in (1, 2, 3):
        set_threads(threads)
        faiss.omp_set_num_threads(4 - threads)
        index = make(atoms)
        hits = index.query(check_question(64), k=5)
        alone = index.query(check_question(1), k=5)
        seen.append([part.tobytes() for part in (hits.ids, hits.scores, hits.scored, alone.ids)])
        assert faiss.omp_get_max_threads() == 4 - threads
    assert seen[0] == seen[1] == seen[2]


# ---------------------------------------------------------------- wrong use


def flat(n: int, d: int, metric: int = faiss.METRIC_INNER_PRODUCT) -> Any:
    index = faiss.IndexFlat(d, metric)
    index.add(np.ones((n, d), np.float32))
    return index


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (flat(5, 3), "`index` must be of dimension 2, as the atoms are. Got 3"),
        (flat(4, 2), "`index` must be of 5 vectors, as many as there are atoms. Got 4"),
        (faiss.IndexPQ(2, 1, 4), "`index` must be trained"),
        (flat(5, 2, faiss.METRIC_L2), "`index` must be of the metric inner product. Got metric 1"),
    ],
)
def test_an_index_that_does_not_fit_the_atoms(index: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaissIndex(index, np.ones((5, 2)))


def test_what_is_wrapped_is_an_index() -> None:
    with pytest.raises(TypeError, match=r"`index` must be a faiss.Index. Got list"):
        FaissIndex([], np.ones((5, 2)))


@pytest.mark.parametrize(("ids", "got"), [(np.arange(50) + 7, "id"), (np.arange(50) // 2, "id [0-9]+ twice")])
def test_ids_of_a_wrapped_index_are_positions(ids: Ids, got: str) -> None:
    index = faiss.IndexIDMap(faiss.IndexFlatIP(3))
    index.add_with_ids(np.sort(check_question(50, 3), axis=0).astype(np.float32), ids)
    oracle = FaissIndex(index, np.ones((50, 3)), rerank=45)
    with pytest.raises(
        ValueError, match=f"`index` must be one whose ids are the positions of 50 atoms. Got {got}"
    ):
        oracle.query(np.ones((1, 3)))


def test_rerank_is_a_count() -> None:
    with pytest.raises(ValueError, match="`rerank` must be an integer >= 1"):
        FaissIndex(flat(5, 2), np.ones((5, 2)), rerank=0)


def test_repr_names_the_index_and_the_atoms() -> None:
    expected = "FaissIndex(IndexFlat, ArrayAtoms(9 x 9, float64), rerank=8)"
    assert repr(wrapped("Flat")(np.eye(9))) == expected


def test_it_can_be_sent_to_another_process() -> None:
    index = wrapped("HNSW8")(clustered())
    copy: FaissIndex = pickle.loads(pickle.dumps(index))
    np.testing.assert_array_equal(copy.query(check_question(5)).ids, index.query(check_question(5)).ids)
    assert copy.nbytes == index.nbytes


def test_without_faiss_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "faiss":
            raise ImportError("no such thing")
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"needs faiss: pip install 'wolfhound\[faiss\]'"):
        FaissIndex(None, np.ones((5, 2)))


def test_one_file_imports_faiss() -> None:
    root = Path(wolfhound.__file__).parent
    importing = re.compile(r"^\s*(import|from) faiss\b", re.MULTILINE)
    assert [p.name for p in root.rglob("*.py") if importing.search(p.read_text())] == ["faiss_index.py"]
