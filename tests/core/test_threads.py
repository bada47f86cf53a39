"""The same results, in the same order, at any thread count; what threads and processes may share."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.patience import PATIENCE
from wolfhound import BlendedPairwise, FrankWolfe, FullyCorrective, SquaredDistance, minimize
from wolfhound.core.contracts import Matrix, Method, Oracle
from wolfhound.core.threads import Tally, available, get_threads, map_ordered, one_blas_thread, set_threads
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited, Tiered
from wolfhound.paper.adaptive import QuantizedQueries

THREADS = [1, 2, 4]


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    set_threads(None)


def blas_threads(layer: str = "") -> set[int]:
    """Threads of every BLAS that is loaded; of one threading layer, if it is named."""
    every = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in every if layer in ("", library["threading_layer"])}


@pytest.mark.parametrize("threads", THREADS)
def test_results_are_the_same_bits_in_order(threads: int) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 30, 50))
    query = np.random.default_rng(1).normal(size=(50, 8))
    with one_blas_thread():
        expected = [block @ query for block in rows]
    set_threads(threads)
    for got, wanted in zip(map_ordered(lambda block: block @ query, rows), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_slow_task_keeps_its_place() -> None:
    set_threads(2)
    later = threading.Event()

    def first() -> int:
        later.wait(timeout=PATIENCE)
        return 1

    def second() -> int:
        later.set()
        return 2

    assert list(map_ordered(lambda task: task(), [first, second])) == [1, 2]


@pytest.mark.parametrize("threads", THREADS)
def test_no_tasks_give_no_results(threads: int) -> None:
    set_threads(threads)
    assert list(map_ordered(str, [])) == []


@pytest.mark.parametrize("threads", THREADS)
def test_errors_of_work_and_tasks_reach_the_caller(threads: int) -> None:
    set_threads(threads)
    got: list[float] = []
    with pytest.raises(ZeroDivisionError):
        got.extend(map_ordered(lambda task: 1 / task, [1, 2, 0, 4]))

    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(map_ordered(str, broken()))
    assert list(map_ordered(str, range(3))) == ["0", "1", "2"]


@pytest.mark.parametrize("threads", THREADS)
def test_tasks_are_taken_only_a_little_ahead(threads: int) -> None:
    set_threads(threads)
    taken = count()
    results = map_ordered(str, taken)
    assert list(islice(results, 5)) == ["0", "1", "2", "3", "4"]
    assert next(taken) <= 5 + 2 * threads


@pytest.mark.parametrize("threads", THREADS)
def test_leaving_early_waits_and_frees_blas(threads: int) -> None:
    pytest.importorskip("faiss")  # its BLAS counts threads per thread, numpy's per process
    set_threads(threads)
    before = blas_threads()
    running: set[int] = set()

    def work(task: int) -> set[int]:
        running.add(task)
        inside = blas_threads()
        running.discard(task)
        return inside

    results = map_ordered(work, count())
    assert next(results) == {1}
    results.close()  # type: ignore[attr-defined]
    assert running == set()
    assert blas_threads() == before


def test_the_number_of_threads_comes_from_call_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WOLFHOUND_NUM_THREADS", raising=False)
    assert get_threads() == available() >= 1
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", "3")
    assert get_threads() == 3
    set_threads(5)
    assert get_threads() == 5
    set_threads(None)
    assert get_threads() == 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", text)
    with pytest.raises(ValueError, match=f"WOLFHOUND_NUM_THREADS must be an integer >= 1. Got '{text}'"):
        get_threads()


def test_a_wrong_number_of_threads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`threads` must be an integer >= 1. Got 0"):
        set_threads(0)
    with pytest.raises(TypeError, match="`threads`"):
        set_threads(2.0)  # type: ignore[arg-type]


# ---------------------------------------------------------------- BLAS, held by several


def test_blas_is_held_until_the_last_thread_leaves() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        inside, leave = threading.Barrier(2), threading.Event()

        def other() -> set[int]:
            with one_blas_thread():
                inside.wait(timeout=PATIENCE)
                leave.wait(timeout=PATIENCE)
                # Those of OpenMP are set for each thread, and tell what was set last.
                return blas_threads("pthreads")

        with ThreadPoolExecutor(1) as pool:
            with one_blas_thread():
                held = pool.submit(other)
                inside.wait(timeout=PATIENCE)
            leave.set()
            assert held.result() <= {1}
        assert blas_threads() == before


def test_blas_may_be_let_go_in_any_order() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_work_that_comes_back_does_not_wait_for_itself() -> None:
    set_threads(2)
    nested = map_ordered(lambda task: sum(map_ordered(lambda x: x * task, range(50))), range(20))
    assert list(nested) == [1225 * task for task in range(20)]


def test_threads_may_be_changed_during_a_query() -> None:
    rows = np.random.default_rng(0).standard_normal((3000, 20))
    queries = np.random.default_rng(1).standard_normal((6, 20))
    scan, expected = Scan(rows, screen=False), Scan(rows, screen=False).query(queries, k=4)

    def change() -> None:
        for threads in (1, 3, 2, 4) * 100:
            set_threads(threads)

    with ThreadPoolExecutor(3) as pool:
        changes = pool.submit(change)
        answers = [pool.submit(scan.query, queries, k=4) for _ in range(20)]
        changes.result()
    for answer in answers:
        np.testing.assert_array_equal(answer.result().ids, expected.ids)
        np.testing.assert_array_equal(answer.result().bounds, expected.bounds)


# ---------------------------------------------------------------- oracles, shared

ROWS = np.random.default_rng(2).standard_normal((2000, 6)).astype(np.float32)

SHARED: dict[str, Callable[[Matrix], Oracle]] = {
    "scan": Scan,
    "int8": Int8Scan.build,
    "int8 on disk": Int8FileScan.build,
    "clusters": lambda rows: ClusterIndex.build(rows, proof=True),
    "lsh": lambda rows: LshIndex.build(rows, proof=True),
    "tiered": lambda rows: Tiered(LshIndex.build(rows)),
    "audited": lambda rows: Audited(Scan(rows), every=3),
    "quantized": lambda rows: QuantizedQueries(Scan(rows), side=1e-3),
    "subset": lambda rows: Audited(RandomSubset(rows, size=50), every=2),
}


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads change places as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("method", [FrankWolfe(BlendedPairwise()), FullyCorrective()], ids=["fw", "fc"])
def test_runs_that_share_an_oracle_prove_no_falsehood(name: str, method: Method) -> None:
    objectives = [SquaredDistance(2.0 * row.astype(np.float64)) for row in ROWS[:4]]
    best = [minimize(f, ROWS, rtol=1e-10).value for f in objectives]
    oracle = SHARED[name](ROWS)
    with ThreadPoolExecutor(8) as pool:  # objectives are shared as well
        runs = pool.map(
            lambda f: minimize(f, oracle, method=method, max_steps=30), [*objectives, *objectives]
        )
        for result, least in zip(runs, [*best, *best], strict=True):
            assert result.lower <= least <= result.value * (1.0 + 1e-9)


@pytest.mark.usefixtures("restless")
def test_counts_of_shared_oracles_are_exact() -> None:
    tiered, audited, tally = Tiered(RandomSubset(ROWS)), Audited(Scan(ROWS), every=7), Tally()

    def ask(i: int) -> None:
        tiered.query(ROWS[i : i + 1], thresholds=np.array([3.0]))
        audited.query(ROWS[i : i + 1])
        tally.add(2)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(160)))
    assert sum(tiered.counts.values()) == 160
    assert audited.audits == 23
    assert tally.total == 320


@pytest.mark.usefixtures("restless")
def test_a_shared_random_subset_draws_the_samples_of_its_seed() -> None:
    def answers(threads: int) -> list[int]:
        subset, query = RandomSubset(ROWS, size=5, seed=3), ROWS[:1]
        with ThreadPoolExecutor(threads) as pool:
            return sorted(pool.map(lambda _: int(subset.query(query).ids[0, 0]), range(100)))

    assert answers(8) == answers(1)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("make", [lambda rows: Scan(rows, screen=False), Int8Scan.build, LshIndex.build])
def test_oracles_that_remember_nothing_answer_alike_when_shared(make: Callable[[Matrix], Oracle]) -> None:
    oracle = make(ROWS)
    expected = [oracle.query(ROWS[i : i + 1], k=9) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: oracle.query(ROWS[i : i + 1], k=9), range(40)))
    for answer, wanted in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(answer.ids, wanted.ids)
        np.testing.assert_array_equal(answer.scores, wanted.scores)
        np.testing.assert_array_equal(answer.scored, wanted.scored)
