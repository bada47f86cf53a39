"""`FaissIndex`: inner products found well, alike at any thread count, never proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

import wolfhound
from tests.conformance.oracle import check_hits, check_oracle
from wolfhound.atoms import ConcatAtoms, FileAtoms
from wolfhound.core import AtomsLike, Hits, Ids, Matrix, Status, Vector
from wolfhound.oracles import _faiss, faiss_index
from wolfhound.oracles.faiss_index import FaissIndex, Hnsw, IvfPq, Pq
from wolfhound.progress import Cut, on_progress
from wolfhound.threads import set_threads

Make = Callable[[AtomsLike], FaissIndex]


def built(kind: Pq | IvfPq | Hnsw, seed: int = 0) -> Make:
    return lambda atoms: FaissIndex.build(atoms, kind=kind, seed=seed)


def wrapped(factory: str, metric: int = faiss.METRIC_INNER_PRODUCT, rerank: int = 8) -> Make:
    """Make an index as a caller would, and wrap it."""

    def make(atoms: AtomsLike) -> FaissIndex:
        mine = wolfhound.atoms.as_atoms(atoms)
        rows = mine.take(np.arange(mine.shape[0])).astype(np.float32)
        index = faiss.index_factory(rows.shape[1], factory, metric)
        with _faiss.threads(1):  # a graph built by several depends on their timing
            index.train(rows)
            index.add(rows)
        return FaissIndex.wrap(index, mine, rerank=rerank)

    return make


MAKES: dict[str, Make] = {
    "pq": built(Pq(rerank=8)),
    "ivf pq": built(IvfPq(rerank=8, lists=12, probes=3)),
    "hnsw": built(Hnsw(rerank=8, links=8)),
    "wrapped flat": wrapped("Flat"),
    "wrapped graph": wrapped("HNSW8"),
    "wrapped flat by distance": wrapped("Flat", faiss.METRIC_L2),
}
SMALL = {
    "defaults of pq": built(Pq()),
    "defaults of ivf pq": built(IvfPq()),
    "defaults of hnsw": built(Hnsw()),
    "few probes": built(IvfPq(rerank=1, probes=1)),
    "wide codes": built(Pq(columns=4, rerank=1)),
    "narrow codes": built(Pq(columns=1, rerank=3)),
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
@pytest.mark.parametrize("make", (MAKES | SMALL).values(), ids=MAKES | SMALL)
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


@pytest.mark.parametrize("make", list(MAKES.values())[:3], ids=list(MAKES)[:3])
@pytest.mark.parametrize("shift", [0.0, 50.0])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e15])
def test_a_shift_or_a_scale_of_all_atoms_changes_no_ranking(make: Make, shift: float, scale: float) -> None:
    rows = clustered().astype(np.float64)
    queries = check_question(30)
    moved = scale * (rows + shift)
    hits = make(moved.astype(np.float32)).query(queries)
    expected = queries @ rows.T
    found = np.take_along_axis(expected, hits.ids, 1)[:, 0]
    middle = expected.mean(axis=1)
    assert ((found - middle) / (expected.max(axis=1) - middle)).mean() > 0.9


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
    index = FaissIndex.build(rows, kind=Pq(rerank=8))
    np.testing.assert_array_equal(index.query(scale * queries).ids, index.query(queries).ids)


@pytest.mark.parametrize(
    "rows",
    [1e300 * np.ones((40, 3)), np.finfo(np.float64).max * np.eye(3)[np.arange(40) % 3], 5e-324 * np.eye(40)],
    ids=["large", "largest", "smallest"],
)
@pytest.mark.parametrize("kind", [Pq(rerank=2), IvfPq(rerank=2), Hnsw(rerank=2)], ids=repr)
def test_entries_at_the_ends_of_the_range(rows: Matrix, kind: Pq | IvfPq | Hnsw) -> None:
    queries = np.eye(rows.shape[1])[:2]
    check_hits(FaissIndex.build(rows, kind=kind).query(queries), queries, rows, 1)


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
    for k, kind in ((1, Pq()), (200, IvfPq()), (300, Hnsw())):
        hits = FaissIndex.build(rows, kind=kind).query(queries, k=k)
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
    index = FaissIndex.build(rows, kind=IvfPq(rerank=8))
    exclude = np.arange(50)[:, None]
    whole = index.query(queries, k=3, exclude=exclude)
    monkeypatch.setattr(faiss_index, "_GATHER", 7 * 9 * 13 * 4)
    groups = index.query(queries, k=3, exclude=exclude)
    np.testing.assert_array_equal(groups.ids, whole.ids)
    np.testing.assert_array_equal(groups.scored, whole.scored)
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


def test_a_poor_graph_still_answers() -> None:
    rows, queries = clustered(2000, 1), check_question(200, 1)
    index = FaissIndex.build(rows, kind=Hnsw(links=2, construction=2, search=1, rerank=1))
    walked = index._engine.search(faiss_index._points(queries, index._anchor, 1.0), 1001)[0]
    exclude = np.tile(np.sort(walked[0])[-1000:], (200, 1))
    assert (walked[0] < 0).any()  # fewer than wanted, and all of them excluded
    hits = index.query(queries, exclude=exclude)
    check_hits(hits, queries, rows, 1)
    assert (hits.ids >= 0).all()
    assert not np.isin(hits.ids, exclude).any()


def test_an_exclusion_of_one_query_changes_no_other() -> None:
    rows, queries = clustered(), check_question(2)
    index = FaissIndex.build(rows, kind=Pq(rerank=8))
    exclude = np.full((2, 100), -1)
    exclude[1] = np.arange(100)
    both = index.query(queries, k=8, exclude=exclude)
    np.testing.assert_array_equal(both.ids[0], index.query(queries[:1], k=8).ids[0])


def test_lists_are_probed_until_they_hold_enough() -> None:
    rows, queries = clustered(), check_question(4)
    index = FaissIndex.build(rows, kind=IvfPq(lists=50, probes=1, rerank=1))
    few, many = index.query(queries), index.query(queries, k=1000)
    assert (many.ids >= 0).all()
    assert (few.scored < 1000).all()
    assert (many.scored >= 1000).all()
    assert (many.scored < 2000).all()
    assert (many.scores[:, 0] >= few.scores[:, 0]).all()
    mixed = np.full((4, 1000), -1)
    mixed[0] = np.arange(1000)
    np.testing.assert_array_equal(index.query(queries, exclude=mixed).ids[0] >= 1000, True)


# ---------------------------------------------------------------- cost


def test_the_cost_is_the_codes_that_were_scored() -> None:
    rows, queries = clustered(), check_question(7)
    assert (FaissIndex.build(rows, kind=Pq(rerank=8)).query(queries).scored == 3000).all()
    assert (wrapped("Flat")(rows).query(queries).scored == 3000).all()
    assert (built(IvfPq(lists=20, probes=20, rerank=8))(rows).query(queries).scored == 3000).all()


def test_the_cost_of_lists_is_the_sum_of_the_probed() -> None:
    rows, queries = clustered(), check_question(7)
    index = FaissIndex.build(rows, kind=IvfPq(lists=20, probes=3, rerank=8))
    inner = index._engine.index
    centres = inner.quantizer.reconstruct_n(0, inner.nlist)
    members = np.array([inner.invlists.list_size(i) for i in range(inner.nlist)])
    assert members.sum() == 3000
    lists = np.argsort(-(queries @ centres[:, :13].T), axis=1)[:, :3]
    np.testing.assert_array_equal(index.query(queries).scored, members[lists].sum(axis=1))


@pytest.mark.parametrize("make", [built(Hnsw(rerank=8)), wrapped("IVF9,Flat")], ids=["graph", "lists"])
def test_a_common_cost_is_shared(make: Make) -> None:
    index, queries = make(clustered()), check_question(7)
    before = _faiss._counts()
    scored = index.query(queries).scored
    assert scored.sum() == _faiss._counts() - before
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Pq(), IvfPq(), Hnsw()], ids=repr)
def test_the_same_bytes_at_any_thread_count(kind: Pq | IvfPq | Hnsw) -> None:
    rows = clustered(6000)
    seen = set()
    for threads in (1, 2, 3):
        set_threads(threads)
        faiss.omp_set_num_threads(4 - threads)
        seen.add(_faiss.to_bytes(FaissIndex.build(rows, kind=kind)._engine.index).tobytes())
    assert len(seen) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Pq(), IvfPq()], ids=repr)
def test_another_seed_trains_on_other_atoms(kind: Pq | IvfPq) -> None:
    rows = clustered(20000, 4)
    one, two = (
        _faiss.to_bytes(FaissIndex.build(rows, kind=kind, seed=seed)._engine.index).tobytes()
        for seed in (0, 1)
    )
    assert one != two


@pytest.mark.parametrize("kind", [Pq(rerank=8), IvfPq(rerank=8), Hnsw(rerank=8)], ids=repr)
def test_a_file_is_indexed_as_an_array_is(kind: Pq | IvfPq | Hnsw, tmp_path: Path) -> None:
    rows, queries = clustered(), check_question(9)
    np.save(tmp_path / "rows.npy", rows)
    in_file = FaissIndex.build(FileAtoms(tmp_path / "rows.npy"), kind=kind)
    in_memory = FaissIndex.build(rows, kind=kind)
    assert in_file.nbytes == in_memory.nbytes
    np.testing.assert_array_equal(in_file.query(queries, k=3).ids, in_memory.query(queries, k=3).ids)


def test_building_can_be_left() -> None:
    def leave(rows: int) -> None:
        raise Cut(Status.INTERRUPTED)

    with on_progress(leave), pytest.raises(Cut):
        FaissIndex.build(clustered())


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize("kind", [Pq(), IvfPq(), Hnsw()], ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_atoms_must_be_finite(kind: Pq | IvfPq | Hnsw, bad: float) -> None:
    rows = clustered()
    rows[1234, 5] = bad
    with pytest.raises(ValueError, match=f"`atoms` must be finite. Got {bad} in row 1234, column 5"):
        FaissIndex.build(rows, kind=kind)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pq(columns=0), "`columns` must be an integer >= 1"),
        (lambda: Pq(rerank=0), "`rerank` must be an integer >= 1"),
        (lambda: IvfPq(lists=0), "`lists` must be an integer >= 1"),
        (lambda: IvfPq(probes=0), "`probes` must be an integer >= 1"),
        (lambda: IvfPq(rerank=0), "`rerank` must be an integer >= 1"),
        (lambda: Hnsw(links=1), "`links` must be an integer >= 2"),
        (lambda: Hnsw(construction=0), "`construction` must be an integer >= 1"),
        (lambda: Hnsw(search=0), "`search` must be an integer >= 1"),
        (lambda: FaissIndex.build(np.eye(3), seed=-1), "`seed` must be an integer >= 0"),
        (lambda: FaissIndex.wrap(faiss.IndexFlatIP(3), np.eye(3), rerank=0), "`rerank` must be an integer"),
    ],
)
def test_wrong_settings(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_kind_is_an_object() -> None:
    with pytest.raises(TypeError, match=r"`kind` must be a Pq, IvfPq or Hnsw. Got 'pq'"):
        FaissIndex.build(np.eye(3), kind="pq")  # type: ignore[arg-type]


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
        (flat(5, 2, faiss.METRIC_L1), "`index` must be of metric inner product or L2. Got 2"),
    ],
)
def test_an_index_that_does_not_fit_the_atoms(index: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaissIndex.wrap(index, np.ones((5, 2)))


def test_what_is_wrapped_is_an_index() -> None:
    with pytest.raises(TypeError, match=r"`index` must be a faiss.Index. Got list"):
        FaissIndex.wrap([], np.ones((5, 2)))


@pytest.mark.parametrize(("ids", "got"), [(np.arange(50) + 7, "id"), (np.arange(50) // 2, "id [0-9]+ twice")])
def test_ids_of_a_wrapped_index_are_positions(ids: Ids, got: str) -> None:
    index = faiss.IndexIDMap(faiss.IndexFlatIP(3))
    index.add_with_ids(np.sort(check_question(50, 3), axis=0).astype(np.float32), ids)
    oracle = FaissIndex.wrap(index, np.ones((50, 3)), rerank=45)
    with pytest.raises(
        ValueError, match=f"`index` must be one whose ids are the positions of 50 atoms. Got {got}"
    ):
        oracle.query(np.ones((1, 3)))


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (np.zeros((2, 1)), "`thresholds` must be an array with 1 axes"),
        (np.zeros(3), "`thresholds` must be a vector of length 2. Got length 3"),
        (np.array([0.0, np.nan]), "`thresholds` must be numbers. Got nan"),
    ],
)
def test_wrong_thresholds(thresholds: Vector, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaissIndex.build(np.eye(3)).query(np.ones((2, 3)), thresholds=thresholds)


def test_repr_names_atoms_and_settings() -> None:
    index = FaissIndex.build(clustered(400), kind=IvfPq(lists=9, probes=30))
    assert repr(index) == (
        "FaissIndex(ArrayAtoms(400 x 13, float32), kind=IvfPq(lists=9, probes=9, columns=2, rerank=64))"
    )
    assert repr(wrapped("Flat")(np.eye(9))).endswith("kind=Wrapped(rerank=8))")


def test_one_file_imports_faiss() -> None:
    root = Path(wolfhound.__file__).parent
    importing = re.compile(r"^\s*(import|from) faiss\b", re.MULTILINE)
    assert [p.name for p in root.rglob("*.py") if importing.search(p.read_text())] == ["_faiss.py"]


def test_no_more_lists_are_probed_than_there_are() -> None:
    rows = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    index = FaissIndex.build(rows, kind=IvfPq(lists=3, probes=2))._engine.index
    engine = _faiss.lists_of(index, 10**15)
    assert engine.probes == 3
    assert engine.search(rows[:2], 5)[0].shape == (2, 5)
