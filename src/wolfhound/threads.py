"""Our own threads: fixed blocks, one thread each, BLAS held to one thread.

A block's result never depends on how many threads there are, and results are
consumed in block order, so the same bits come out at any thread count.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from wolfhound.validate import count

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

_threads: int | None = None


def available() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def set_threads(threads: int | None) -> None:
    """Set how many threads a pass uses; None: back to the default.

    The default is the environment variable WOLFHOUND_NUM_THREADS, else the
    cores that this process may use. No answer depends on it.
    """
    global _threads  # noqa: PLW0603 - a process-wide setting, like numba's
    _threads = None if threads is None else count(threads, "threads", low=1)


def get_threads() -> int:
    """How many threads a pass uses."""
    if _threads is not None:
        return _threads
    text = os.environ.get("WOLFHOUND_NUM_THREADS", "")
    if not text:
        return available()
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"WOLFHOUND_NUM_THREADS must be an integer >= 1. Got {text!r}.")
    return int(text)


@functools.lru_cache(maxsize=1)
def _executor(threads: int, pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="wolfhound")


_BRING_BLAS = ("numpy", "scipy.linalg", "faiss")
"""Packages that load a BLAS of their own."""


_local = threading.local()


@functools.cache
def _blas(loaded: tuple[bool, ...]) -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - 20 ms, not at import

    return ThreadpoolController()


def _loaded_blas() -> ThreadpoolController:
    return _blas(tuple(name in sys.modules for name in _BRING_BLAS))


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold every BLAS that is loaded to one thread: its sums then have one order."""
    with _loaded_blas().limit(limits=1, user_api="blas"):
        yield


def _hold_openmp() -> None:
    """Hold the BLAS that counts threads per thread, as OpenMP does, on this thread of ours."""
    controller = _loaded_blas()
    if getattr(_local, "held", None) is not controller:
        controller.select(threading_layer="openmp").limit(limits=1)
        _local.held = controller


def ordered(work: Callable[[T], R], tasks: Iterable[T], *, blas: bool = True) -> Iterator[R]:
    """Yield ``work(task)`` in the order of the tasks, run on our threads.

    At most two tasks per thread are taken ahead. Leaving the iterator early
    waits for the tasks under way. Work that calls no BLAS can say so: holding it
    to one thread takes longer than a small task.
    """
    threads = get_threads()
    with one_blas_thread() if blas else contextlib.nullcontext():
        if threads == 1:
            yield from map(work, tasks)
            return

        def held(task: T) -> R:
            if blas:
                _hold_openmp()
            return work(task)

        pending: deque[Future[R]] = deque()
        try:
            for task in tasks:
                pending.append(_executor(threads, os.getpid()).submit(held, task))
                if len(pending) >= 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            for future in pending:
                if not future.cancelled():
                    future.exception()
