"""Edited indexes: fresh ones of the rows that numpy's own edits give, clusters with their own centres."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conformance.oracle import _same
from tests.data.test_store import run_script
from wolfhound import ClusterIndex, FileAtoms, Int8Scan, Ladder, LshIndex, Scan, SimHash, load
from wolfhound.core.contracts import Matrix
from wolfhound.data.atoms import as_atoms
from wolfhound.oracles.buckets import fill_buckets
from wolfhound.oracles.clusters import CROWDED, ClusterTraining, crowding
from wolfhound.oracles.int8.codes import Codes, encode_atoms

D = 6
QUERIES = np.random.default_rng(5).standard_normal((30, D))
BUILD: dict[str, Callable[..., Any]] = {
    "int8": Int8Scan.build,
    "clusters": ClusterIndex.build,
    "clusters proof": lambda rows: ClusterIndex.build(rows, proof=True),
    "lsh": lambda rows: LshIndex.build(rows, tables=2),
    "lsh axes": lambda rows: LshIndex.build(rows, axes=3, proof=True),
}
every_index = pytest.mark.parametrize("name", BUILD)
clusters = pytest.mark.parametrize("name", ["clusters", "clusters proof"])


def draw(n: int, seed: int, dtype: Any = np.float32) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, D)).astype(dtype)


def edits(index: Any, rows: Matrix, times: int, seed: int) -> Iterator[tuple[Any, Matrix]]:
    """Yield an index and what its rows must be, after each of some random edits."""
    rng = np.random.default_rng(seed)
    for step in range(times):
        if rng.random() < 0.5:
            more = draw(int(rng.integers(1, 30)), seed=1000 + step, dtype=rows.dtype)
            index, rows = index.append(more), np.concatenate([rows, more])
        else:
            gone = rng.permutation(len(rows))[: int(rng.integers(0, min(30, len(rows) // 2)))]
            index, rows = index.remove(gone), np.delete(rows, gone, axis=0)
        yield index, rows


def assert_same_codes(made: Codes, fresh: Codes) -> None:
    for name in ("blocks", "scales", "errors", "ids", "centre"):
        np.testing.assert_array_equal(getattr(made, name), getattr(fresh, name))
    for name in ("zero", "exponent", "n", "height", "error", "radius"):
        assert getattr(made, name) == getattr(fresh, name)


# ---------------------------------------------------------------- the same as fresh ones


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [np.asarray, np.abs])
def test_int8_after_edits_is_the_fresh_one_to_the_bit(dtype: type, sign: Any) -> None:
    rows = sign(draw(200, 0, dtype))
    for index, expected in edits(Int8Scan.build(rows), rows, 10, seed=2):
        np.testing.assert_array_equal(index.atoms.rows, expected)
        assert_same_codes(index._codes, encode_atoms(as_atoms(expected)))
    fresh, scan = Int8Scan.build(expected), Scan(expected, screen=False)
    for k, m in ((1, 1), (5, 30)):
        _same(index.query(QUERIES[:m], k=k), fresh.query(QUERIES[:m], k=k))
        found, true = index.query(QUERIES[:m], k=k), scan.query(QUERIES[:m], k=k)
        np.testing.assert_array_equal(found.ids, true.ids)
        np.testing.assert_array_equal(found.scores, true.scores)


@pytest.mark.parametrize("name", ["lsh", "lsh axes"])
def test_lsh_after_edits_is_the_fresh_one_to_the_bit(name: str) -> None:
    rows = draw(300, 0)
    for index, expected in edits(BUILD[name](rows), rows, 10, seed=3):
        np.testing.assert_array_equal(index.atoms.rows, expected)
        fresh = BUILD[name](expected)
        for made, again in zip(index._searched, fresh._searched, strict=True):
            np.testing.assert_array_equal(made.buckets.offsets, again.buckets.offsets)
            assert_same_codes(made.buckets.codes, again.buckets.codes)
        assert index.budget == fresh.budget
        _same(index.query(QUERIES, k=3), fresh.query(QUERIES, k=3))


@clusters
def test_clusters_after_a_hundred_edits_are_those_of_their_own_centres(name: str) -> None:
    rows = draw(300, 0)
    for index, expected in edits(BUILD[name](rows), rows, 100, seed=3):
        np.testing.assert_array_equal(index.atoms.rows, expected)
        buckets = index._buckets
        fresh = fill_buckets(as_atoms(expected), index._clusters, buckets.codes.centre)
        np.testing.assert_array_equal(buckets.offsets, fresh.offsets)
        assert_same_codes(buckets.codes, fresh.codes)


@clusters
def test_ratios_after_a_hundred_edits_are_those_of_a_fresh_one(name: str) -> None:
    rows = draw(2000, 0)
    *_, (index, expected) = edits(BUILD[name](rows), rows, 100, seed=4)
    fresh, best = BUILD[name](expected), Scan(expected).query(QUERIES).scores[:, 0]
    assert index.budget == fresh.budget
    ratios = [np.mean(each.query(QUERIES).scores[:, 0] / best) for each in (index, fresh)]
    assert ratios[0] >= ratios[1] - 0.02


@pytest.mark.parametrize("name", ["clusters proof", "lsh axes"])
def test_proofs_after_edits_are_those_of_a_scan(name: str) -> None:
    rows = draw(300, 0)
    for index, expected in edits(BUILD[name](rows), rows, 8, seed=6):
        found, true = index.query(QUERIES, k=4), Scan(expected, screen=False).query(QUERIES, k=4)
        np.testing.assert_array_equal(found.ids, true.ids)
        np.testing.assert_array_equal(found.scores, true.scores)
        assert (found.bounds >= found.scores[:, 0]).all()
        assert np.isfinite(found.bounds).all()


# ---------------------------------------------------------------- where rows are, and what is shared


@every_index
def test_an_edit_leaves_the_index_as_it_was(name: str) -> None:
    index = BUILD[name](draw(100, 0))
    before = index.query(QUERIES, k=3)
    index.append(draw(9, 1))
    index.remove([0, 5, 99])
    _same(index.query(QUERIES, k=3), before)
    assert index.remove([]) is index
    assert len(index.append(draw(9, 1)[0]).query(QUERIES[0]).ids) == 1


@every_index
def test_rows_in_files_stay_there_and_answers_are_the_same(name: str, tmp_path: Path) -> None:
    rows, more = draw(100, 0), draw(30, 1)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "more.npy", more)
    here = BUILD[name](rows).append(more).remove([3, 40, 110])
    there = BUILD[name](FileAtoms(tmp_path / "rows.npy")).append(FileAtoms(tmp_path / "more.npy"))
    there = there.remove([3, 40, 110])
    _same(there.query(QUERIES, k=4), here.query(QUERIES, k=4))
    there.save(tmp_path / "index")
    kept = np.delete(np.concatenate([rows, more]), [3, 40, 110], axis=0)
    _same(load(tmp_path / "index", kept).query(QUERIES, k=4), here.query(QUERIES, k=4))


@every_index
def test_what_was_loaded_can_be_edited(name: str, tmp_path: Path) -> None:
    rows = draw(100, 0)
    BUILD[name](rows).save(tmp_path / "saved")
    loaded = load(tmp_path / "saved", rows)
    edited = loaded.append(draw(20, 1)).remove(np.arange(15))
    expected = BUILD[name](rows).append(draw(20, 1)).remove(np.arange(15))
    _same(edited.query(QUERIES), expected.query(QUERIES))
    edited.save(tmp_path / "saved")  # over the file of the old one
    _same(load(tmp_path / "saved", expected.atoms).query(QUERIES), expected.query(QUERIES))
    _same(loaded.query(QUERIES), BUILD[name](rows).query(QUERIES))


# ---------------------------------------------------------------- scales


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e3, 1e30])
@every_index
def test_rows_of_another_scale(name: str, factor: float) -> None:
    rows, more = draw(100, 0), (np.float32(factor) * draw(40, 1)).astype(np.float32)
    index = BUILD[name](rows).append(more)
    whole = np.concatenate([rows, more])
    best = Scan(whole).query(QUERIES)
    index_best = index.query(QUERIES)
    assert (index_best.bounds >= best.scores[:, 0]).all()
    assert_same_codes(Int8Scan.build(rows).append(more)._codes, encode_atoms(as_atoms(whole)))
    left = index.remove(np.arange(100))
    assert (left.query(QUERIES).bounds >= Scan(more).query(QUERIES).scores[:, 0]).all()


def test_rows_of_zeros_and_rows_that_are_alike() -> None:
    for rows in (np.zeros((9, D), np.float32), np.ones((9, D), np.float32)):
        for build in BUILD.values():
            index = build(rows).append(np.full((3, D), 2.0)).remove([0, 10])
            assert index.query(np.ones(D), k=3).ids[0, 0] == 8
            assert index.remove([8, 9]).query(np.ones(D)).scores[0, 0] == rows[0].sum()


# ---------------------------------------------------------------- when k-means is trained anew


def offsets_of(*sizes: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)])


def test_when_it_pays_to_train_anew() -> None:
    def is_stale(edits: int, *sizes: int) -> bool:
        return ClusterTraining(n=100, crowding=10.0, seed=0, edits=edits).is_stale(offsets_of(*sizes))

    assert crowding(offsets_of(*[10] * 10)) == 10.0
    assert not is_stale(90, *[19] * 10)
    assert is_stale(90, *[21] * 10)  # each holds twice as many
    assert is_stale(20, *[10] * 9, 60)  # what came fell into one
    assert not is_stale(50, *[5] * 10)
    assert is_stale(51, *[5] * 9, 4)
    assert is_stale(100, *[10] * 10)
    assert CROWDED == 2.0


def test_clusters_are_built_anew_by_themselves_or_as_is_wished() -> None:
    rows, far = draw(400, 0), draw(150, 1) + np.float32(9.0)
    index, fresh = ClusterIndex.build(rows), ClusterIndex.build(np.concatenate([rows, far]))
    for edited in (index.append(far), index.append(far[:1]).append(far[1:], rebuild=True)):
        _same(edited.query(QUERIES), fresh.query(QUERIES))
        assert edited._training == fresh._training
    kept = index.append(far, rebuild=False)
    assert kept._clusters is index._clusters
    assert (kept._training.edits, kept._training.n) == (150, 400)
    _same(index.remove(np.arange(201)).query(QUERIES), ClusterIndex.build(rows[201:]).query(QUERIES))


# ---------------------------------------------------------------- settings


def test_settings_outlast_edits(tmp_path: Path) -> None:
    index = ClusterIndex.build(draw(200, 0), clusters=5, budget=77, seed=3).append(draw(300, 1))
    assert (index._clusters.buckets, index.budget, index._training.seed) == (5, 77, 3)
    large = ClusterIndex.build(draw(200, 0), seed=1 << 70)
    large.save(tmp_path / "large")
    assert load(tmp_path / "large", draw(200, 0))._training == large._training
    settings: dict[str, Any] = {"axes": 2, "bucket": 8.0, "copies": 2, "seed": 4, "family": SimHash()}
    LshIndex.build(draw(200, 0), budget=77, **settings).save(tmp_path / "saved")
    hashed = load(tmp_path / "saved", draw(200, 0)).append(draw(300, 1))
    fresh = LshIndex.build(hashed.atoms, budget=77, **settings)
    _same(hashed.query(QUERIES), fresh.query(QUERIES))
    assert (hashed.budget, hashed._tables.settings) == (77, fresh._tables.settings)


@pytest.mark.parametrize("tau", [0.5, Ladder(zeta=0.5, low=0.3)])
def test_a_promise_is_measured_again_at_every_edit(tau: Any) -> None:
    rows, more = draw(200, 0), draw(3, 1)
    index, whole = LshIndex.build(rows, tau=tau), np.concatenate([rows, more])
    fresh = LshIndex.build(whole, tau=tau)
    assert index.append(more).promise == fresh.promise
    _same(index.append(more).query(QUERIES), fresh.query(QUERIES))
    free = index.with_budget(40).append(more)
    assert free.promise.taus == ()
    _same(free.query(QUERIES), LshIndex.build(whole, budget=40).query(QUERIES))


# ---------------------------------------------------------------- killed while saving


KEEPER = """
import os, sys
import numpy as np
from tests.oracles.test_edits import BUILD, QUERIES, draw
from tests.data.test_store import kill_at
from wolfhound import load
from wolfhound.data.store import StoreError
from wolfhound.core.threads import set_threads

set_threads(1)  # a process with threads should not be forked
name, path = sys.argv[1:]
old = BUILD[name](draw(120, 0))
new = old.append(draw(30, 1)).remove([3, 5, 130])

def answer(index):
    hits = index.query(QUERIES, k=3)
    return hits.ids.tobytes() + hits.scores.tobytes()

def held():
    try:
        return answer(load(path, old.atoms))
    except StoreError:
        return answer(load(path, new.atoms))

answers = [answer(old), answer(new)]
for step in range(1000):
    old.save(path)
    child = os.fork()
    if not child:
        kill_at(step)
        new.save(path)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(int(killed), answers.index(held()))
    if not killed:
        break
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "clusters", "lsh"])
def test_a_save_of_an_edit_that_is_killed_leaves_the_old_or_the_new(name: str, tmp_path: Path) -> None:
    *during, last = run_script(KEEPER, name, tmp_path / "saved")
    killed, new = zip(*during, strict=True)
    assert set(killed) == {1}
    assert list(new) == sorted(new)
    assert set(new) == {0, 1}
    assert last == [0, 1]
