"""`Sharded` over threads: the answer of one oracle, whatever becomes of its shards."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.patience import PATIENCE
from wolfhound import (
    ClusterIndex,
    Int8Scan,
    Scan,
    Sharded,
    SquaredDistance,
    Status,
    herd_in_features,
    minimize,
    minimize_many,
)
from wolfhound.core.contracts import Hits, Matrix, Oracle
from wolfhound.core.progress import Cut, on_progress, report_rows
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, fingerprint
from wolfhound.designs.design import design
from wolfhound.oracles.forms import FormScan, find_candidates
from wolfhound.oracles.sharded import LocalShard, ShardDown, ShardHost, ShardPlace, Take, Ticket

EXACT = functools.partial(Scan, screen=False)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def normal(*shape: int) -> Matrix:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def cut(rows: Matrix, inner: Sequence[int]) -> list[Matrix]:
    ends = sorted({0, len(rows), *(at for at in inner if at < len(rows))})
    return [rows[a:b] for a, b in itertools.pairwise(ends)]


def shard(rows: Matrix, threads: ThreadPoolExecutor, *inner: int, width: int | None = None) -> Sharded:
    return Sharded.over([EXACT(part) for part in cut(rows, inner)], threads, width=width)


def same(mine: Hits, other: Hits) -> None:
    for name in ("ids", "scores", "bounds"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
    assert mine.radius == other.radius
    found = other.ids >= 0
    np.testing.assert_array_equal(mine.rows[mine.slots[found]], other.rows[other.slots[found]])


# ---------------------------------------------------------------- the same answers

small = st.integers(-3, 3).map(float)


@pytest.mark.slow
@given(
    rows=st.tuples(st.integers(1, 12), st.integers(1, 3)).flatmap(
        lambda shape: arrays(np.float32, shape, elements=small)
    ),
    inner=st.lists(st.integers(1, 11), max_size=3),
    m=st.integers(1, 7),
    k=st.integers(1, 14),
    seed=st.integers(0, 2**16),
)
def test_the_answer_of_a_scan_to_the_bit(
    threads: ThreadPoolExecutor, rows: Matrix, inner: list[int], m: int, k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.integers(-2, 3, (m, rows.shape[1])) + rng.choice([0.0, 0.1], (m, 1))
    exclude = rng.integers(-1, len(rows), (m, 4))
    mine, other = shard(rows, threads, *inner), EXACT(rows)
    for banned in (None, exclude):
        same(
            mine.query(queries, k=k, exclude=banned, thresholds=np.zeros(m)),
            other.query(queries, k=k, exclude=banned),
        )
    assert mine.query(queries).passes == 1.0


def test_a_solve_is_the_same_with_one_round_trip_per_pass_and_one_for_the_pool(
    threads: ThreadPoolExecutor,
) -> None:
    rows, f = normal(6000, 8), SquaredDistance(np.full(8, 2.0))
    oracle = shard(rows, threads, 1000, 1700)
    mine, other = minimize(f, oracle), minimize(f, EXACT(rows))
    assert mine.status is other.status is Status.GAP_REACHED
    assert (mine.value, mine.lower, mine.passes) == (other.value, other.lower, other.passes)
    np.testing.assert_array_equal(mine.ids, other.ids)
    np.testing.assert_array_equal(mine.weights, other.weights)
    assert oracle.counts == {"query": mine.passes, "take": 1, "waits": 0}


@pytest.mark.slow
def test_shards_screen_for_themselves(threads: ThreadPoolExecutor) -> None:
    rows, f = normal(60_000, 8), SquaredDistance(np.full(8, 2.0))
    oracle = Sharded.over([Scan(rows[:20_000], screen=True), Scan(rows[20_000:], screen=True)], threads)
    result, plain = minimize(f, oracle), minimize(f, EXACT(rows))
    assert result.passes < plain.passes
    assert result.lower <= plain.value
    assert plain.lower <= result.value
    assert result.gap <= result.goal


def test_narrow_answers_keep_the_best_and_the_bound(threads: ThreadPoolExecutor) -> None:
    rows, queries = normal(300, 5), normal(6, 5).astype(np.float64)
    mine, other = shard(rows, threads, 100, 200, width=2).query(queries, k=12), EXACT(rows).query(queries)
    np.testing.assert_array_equal(mine.ids[:, 0], other.ids[:, 0])
    np.testing.assert_array_equal(mine.bounds, other.bounds)
    assert (mine.ids >= 0).all()  # a shard gives at least its share of k


def test_indexes_prove_nothing_and_find_something(threads: ThreadPoolExecutor) -> None:
    rows = normal(400, 6)
    oracle = Sharded.over([ClusterIndex.build(part) for part in cut(rows, [150])], threads)
    hits = oracle.query(rows[:5].astype(np.float64), k=3)
    assert np.isinf(hits.bounds).all()
    assert hits.passes == 0.0
    assert (hits.ids[:, 0] >= 0).all()


def test_the_atoms_of_all_shards(threads: ThreadPoolExecutor) -> None:
    rows, whole = normal(40, 3), ConcatAtoms(cut(normal(40, 3), [1, 5]))
    oracle = shard(rows, threads, 1, 5)
    assert (oracle.atoms.shape, oracle.atoms.dtype) == ((40, 3), np.dtype(np.float32))
    assert fingerprint(oracle.atoms) == fingerprint(whole)
    assert oracle.counts["take"] == 0  # the shards have said theirs
    ids = np.random.default_rng(1).integers(0, 40, 90)
    np.testing.assert_array_equal(oracle.atoms.take(ids), rows[ids])
    assert oracle.counts["take"] == 1
    assert oracle.atoms.take(ids[:0]).shape == (0, 3)
    for mine, other in zip(oracle.atoms.blocks(10), whole.blocks(10), strict=True):
        assert mine[0] == other[0]
        assert not mine[1].flags.writeable
        np.testing.assert_array_equal(mine[1], other[1])
    with pytest.raises(IndexError, match="`ids` must lie in"):
        oracle.atoms.take(np.array([40]))


def test_shards_of_both_precisions(threads: ThreadPoolExecutor) -> None:
    single, double = normal(9, 3), normal(7, 3).astype(np.float64)
    oracle = Sharded.over([EXACT(single), EXACT(double)], threads)
    hits = oracle.query(np.ones((6, 3)), k=16)
    assert oracle.atoms.dtype == hits.rows.dtype == np.float64
    same(hits, EXACT(ConcatAtoms([single, double])).query(np.ones((6, 3)), k=16))


def test_herding_in_features(threads: ThreadPoolExecutor) -> None:
    rows = normal(2000, 4)
    oracle = shard(rows, threads, 700)
    mine = herd_in_features(oracle.atoms, 20, oracle=oracle, evaluate=False)
    other = herd_in_features(rows, 20, oracle=EXACT, evaluate=False)
    np.testing.assert_array_equal(mine.ids, other.ids)


def test_designs_over_shards(threads: ThreadPoolExecutor) -> None:
    rows = normal(600, 3).astype(np.float64)
    oracle = Sharded.over([FormScan(part) for part in cut(rows, [250])], threads)
    candidates = find_candidates(oracle.atoms)
    assert candidates is not None
    np.testing.assert_array_equal(candidates.take(np.arange(600)), rows)
    assert find_candidates(shard(rows, threads, 250).atoms) is None
    mine, other = design(oracle), design(FormScan(rows))
    np.testing.assert_array_equal(mine.ids, other.ids)
    np.testing.assert_allclose(mine.weights, other.weights, atol=1e-9)
    assert mine.status is other.status is Status.GAP_REACHED


@pytest.mark.slow
def test_many_targets_share_the_round_trips(threads: ThreadPoolExecutor) -> None:
    rows = normal(3000, 6)
    oracle = shard(rows, threads, 1200)
    result = minimize_many(2.0 * rows[:20], oracle, rtol=1e-4)
    assert oracle.counts == {"query": result.passes.max(), "take": 1, "waits": 0}
    assert {Status.GAP_REACHED} == set(result.status)


# ---------------------------------------------------------------- shards that fail


class Endless:
    """Sweeps for ever, until it is told to leave."""

    def __init__(self, rows: Matrix) -> None:
        self.atoms = ArrayAtoms(rows)
        self.begun, self.left = threading.Event(), threading.Event()

    def query(self, queries: Matrix, **options: Any) -> Hits:
        self.begun.set()
        try:
            while True:
                report_rows(1)
        finally:
            self.left.set()


@pytest.mark.parametrize("error", [Cut(Status.MAX_SECONDS), KeyboardInterrupt()])
def test_who_leaves_stops_the_work(threads: ThreadPoolExecutor, error: BaseException) -> None:
    slow = Endless(normal(5, 2))
    oracle = Sharded.over([slow, EXACT(normal(5, 2))], threads)

    def leave(rows: int) -> None:
        slow.begun.wait(PATIENCE)
        raise error

    with pytest.raises(type(error)), on_progress(leave):
        oracle.query(np.ones((1, 2)))
    assert slow.left.wait(PATIENCE)


def test_reports_say_what_was_swept(threads: ThreadPoolExecutor) -> None:
    swept: list[int] = []
    oracle = shard(normal(50, 2), threads, 20)
    with on_progress(swept.append):
        oracle.query(np.ones((1, 2)))
    assert sum(swept) == 50


class Ill:
    """A shard that fails at some of its calls."""

    def __init__(self, inner: LocalShard, fails: Callable[[int], Exception | None]) -> None:
        self._inner, self._fails, self._calls = inner, fails, 0

    def begin(self, ticket: Ticket, task: Any, place: ShardPlace) -> Future[Any]:
        error = self._fails(self._calls)
        self._calls += 1
        if error is None:
            return self._inner.begin(ticket, task, place)
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed

    def stop(self, ticket: Ticket) -> None:
        self._inner.stop(ticket)

    def close(self) -> None:
        self._inner.close()


def ill(threads: ThreadPoolExecutor, rows: Matrix, fails: Callable[[int], Exception | None]) -> Sharded:
    half = len(rows) // 2
    shards = [LocalShard(EXACT(part), threads) for part in (rows[:half], rows[half:])]
    return Sharded([shards[0], Ill(shards[1], fails)])


def test_a_shard_that_is_down_is_asked_again(threads: ThreadPoolExecutor) -> None:
    rows, f = normal(3000, 6), SquaredDistance(np.full(6, 2.0))
    oracle = ill(threads, rows, lambda call: ShardDown("starting") if call in (0, 1, 4, 5) else None)
    result = minimize(f, oracle)
    assert result.value == minimize(f, EXACT(rows)).value
    assert oracle.counts == {"query": result.passes, "take": 1, "waits": 1}


def test_a_lost_shard_ends_the_run_with_the_best_proved_point(threads: ThreadPoolExecutor) -> None:
    rows, f = normal(3000, 6), SquaredDistance(np.full(6, 2.0))
    whole = minimize(f, EXACT(rows))
    result = minimize(f, ill(threads, rows, lambda call: OSError("gone") if call > 2 else None))
    assert result.status is Status.LOST
    assert 0.0 < result.lower <= whole.value <= result.value
    assert result.passes == 1.0 < whole.passes


def test_an_error_names_the_shard(threads: ThreadPoolExecutor) -> None:
    rows = normal(8, 2)
    rows[6, 1] = np.nan
    with pytest.raises(ValueError, match=r"shard 1: `atoms` must be finite\. Got nan in row 2, column 1"):
        shard(rows, threads, 4).query(np.ones((1, 2)))


def test_other_atoms_are_refused() -> None:
    host = ShardHost(lambda: EXACT(np.eye(3)))
    place = ShardPlace(0, fingerprint(ArrayAtoms(np.eye(3))))
    np.testing.assert_array_equal(host.run((0, 0), Take(np.array([1])), place), [[0.0, 1.0, 0.0]])
    with pytest.raises(OSError, match="has changed since the shard was first read"):
        host.run((0, 1), Take(np.array([1])), ShardPlace(0, fingerprint(ArrayAtoms(np.ones((3, 3))))))


def test_closed_shards_are_not_asked(threads: ThreadPoolExecutor) -> None:
    with shard(np.eye(3), threads, 1) as oracle:
        oracle.close()
    with pytest.raises(OSError, match="the shards are closed"):
        oracle.query(np.ones((1, 3)))


# ---------------------------------------------------------------- wrong calls


def test_shards_of_another_width_are_refused(threads: ThreadPoolExecutor) -> None:
    parts: list[Oracle] = [Scan(np.eye(3)), Scan(np.eye(3)), Scan(np.eye(4))]
    with pytest.raises(ValueError, match=r"equal dimension\. Got dimension 3 in shard 0 and 4 in shard 2"):
        Sharded.over(parts, threads)


@pytest.mark.parametrize("shards", [None, [], [Scan(np.eye(2))], "ab"])
def test_wrong_shards(shards: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`shards` must be"):
        Sharded(shards)


def test_wrong_oracles(threads: ThreadPoolExecutor) -> None:
    wrong: Any = [np.eye(2)]
    with pytest.raises(TypeError, match="`oracles` must be an oracle such as Scan"):
        Sharded.over(wrong, threads)
    with pytest.raises(TypeError, match="`executor` must be an executor of threads"):
        Sharded.over([Scan(np.eye(2))], wrong)
    with pytest.raises(ValueError, match=r"`width` must be an integer >= 1\. Got 0"):
        Sharded.over([Scan(np.eye(2))], threads, width=0)


def test_a_shard_of_zeros_does_not_widen_the_others(threads: ThreadPoolExecutor) -> None:
    rows = np.array([[1e-39, 0.0], [0.0, 0.0]], np.float32)
    sharded = Sharded.over([Int8Scan.build(rows[:1]), Int8Scan.build(rows[1:])], threads)
    hits, alone = (oracle.query(np.array([[1e-39, 2e-39]])) for oracle in (sharded, Scan(rows)))
    assert hits.radius <= 1.001 * alone.radius
    assert hits.bounds[0] <= 1.001 * alone.bounds[0]
