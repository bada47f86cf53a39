"""The same results, in the same order, at any thread count."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from wolfhound.threads import available, get_threads, one_blas_thread, ordered, set_threads

THREADS = [1, 2, 4]


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    set_threads(None)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("threads", THREADS)
def test_results_are_the_same_bits_in_order(threads: int) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 30, 50))
    query = np.random.default_rng(1).normal(size=(50, 8))
    with one_blas_thread():
        expected = [block @ query for block in rows]
    set_threads(threads)
    for got, wanted in zip(ordered(lambda block: block @ query, rows), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_slow_task_keeps_its_place() -> None:
    set_threads(2)
    later = threading.Event()

    def first() -> int:
        later.wait(timeout=60)
        return 1

    def second() -> int:
        later.set()
        return 2

    assert list(ordered(lambda task: task(), [first, second])) == [1, 2]


@pytest.mark.parametrize("threads", THREADS)
def test_no_tasks_give_no_results(threads: int) -> None:
    set_threads(threads)
    assert list(ordered(str, [])) == []


@pytest.mark.parametrize("threads", THREADS)
def test_errors_of_work_and_tasks_reach_the_caller(threads: int) -> None:
    set_threads(threads)
    got: list[float] = []
    with pytest.raises(ZeroDivisionError):
        got.extend(ordered(lambda task: 1 / task, [1, 2, 0, 4]))

    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(ordered(str, broken()))
    assert list(ordered(str, range(3))) == ["0", "1", "2"]


@pytest.mark.parametrize("threads", THREADS)
def test_tasks_are_taken_only_a_little_ahead(threads: int) -> None:
    set_threads(threads)
    taken = count()
    results = ordered(str, taken)
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

    results = ordered(work, count())
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
