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
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from wolfhound.core.validate import count

if TYPE_CHECKING:
    from threadpoolctl import LibController

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


# ---------------------------------------------------------------- what threads share


class _Alone:
    """A lock for a few instructions, of this process: a forked child begins with a free one (`_renew`)."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a generator may be closed, so BLAS be let go, at any instruction

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


alone = _Alone()
"""Held while something that threads share is changed; not kept in oracles, so they can be pickled."""


class Tally:
    """A number that several threads count up."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def add(self, count: int = 1) -> int:
        """Count up; return what the number was before."""
        with alone:
            before = self.total
            self.total += count
        return before


# ---------------------------------------------------------------- BLAS held to one thread

_BRING_BLAS = ("numpy", "scipy.linalg", "faiss")  # packages that load a BLAS of their own


@functools.cache
def _blas(loaded: tuple[bool, ...]) -> tuple[tuple[LibController, ...], tuple[LibController, ...]]:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - 20 ms, not at import

    every = ThreadpoolController().select(user_api="blas").lib_controllers
    of_thread = tuple(each for each in every if getattr(each, "threading_layer", "") == "openmp")
    return tuple(each for each in every if each not in of_thread), of_thread


def _find_blas() -> tuple[tuple[LibController, ...], tuple[LibController, ...]]:
    """Libraries that count threads per process, and those that do per thread, as OpenMP does."""
    return _blas(tuple(name in sys.modules for name in _BRING_BLAS))


def _set(library: LibController, threads: int) -> None:
    """Set the threads of a library, from whatever thread.

    threadpoolctl 3.8 lets only the first thread that sets them do so again, and silently
    ignores others; here threads take turns, so what lies below that rule is called.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_holders: dict[str, tuple[LibController, int, int]] = {}
"""By file: a library that is held to one thread, by how many, and what the last of them sets it back to."""


class _Local(threading.local):
    """What a thread knows of itself."""

    def __init__(self) -> None:
        self.ours = False
        self.holds = 0
        self.held: tuple[LibController, ...] = ()


_local = _Local()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold every BLAS that is loaded to one thread: its sums then have one order.

    Any number of threads may; what was set comes back when the last one leaves.
    """
    of_process, of_thread = _find_blas()
    with alone:
        for each in (*of_process, *of_thread):
            now = each.num_threads
            _, holders, before = _holders.get(each.filepath) or (each, 0, now)
            _holders[each.filepath] = (each, holders + 1, before)
            if now != 1:  # setting takes ten times as long as asking
                _set(each, 1)
    _local.holds += 1
    try:
        yield
    finally:
        _local.holds -= 1
        with alone:
            for each in (*of_process, *of_thread):
                # In a forked child none is held any more.
                _, holders, before = _holders.pop(each.filepath, (each, 0, 0))
                if holders > 1:
                    _holders[each.filepath] = (each, holders - 1, before)
                here = each in of_thread and _local.holds == 0  # for this thread, whoever else holds it
                if before != 1 and (holders == 1 or (here and holders)):
                    _set(each, before)


def _hold_openmp() -> None:
    """Hold the BLAS that counts threads per thread on this thread of ours, for good."""
    libraries = _find_blas()[1]
    if _local.held is not libraries:
        for each in libraries:
            each.set_num_threads(1)
        _local.held = libraries


# ---------------------------------------------------------------- our threads


@functools.lru_cache(maxsize=1)
def _executor(threads: int, pid: int) -> ThreadPoolExecutor:
    begin = functools.partial(setattr, _local, "ours", True)  # in each of them
    return ThreadPoolExecutor(threads, thread_name_prefix="wolfhound", initializer=begin)


def _renew() -> None:
    """Begin anew in a forked child: threads that held anything are not there."""
    alone.lock = threading.RLock()
    for library, _, before in _holders.values():
        _set(library, before)
    _holders.clear()


os.register_at_fork(after_in_child=_renew)


def map_ordered(work: Callable[[T], R], tasks: Iterable[T], *, blas: bool = True) -> Iterator[R]:
    """Yield ``work(task)`` in the order of the tasks, run on our threads.

    At most two tasks per thread are taken ahead. Leaving the iterator early
    waits for the tasks under way, and closes a generator of tasks. Work that calls
    no BLAS can say so: holding it to one thread takes longer than a small task. Work
    that itself comes here is run where it is: threads that wait for each other would
    wait for ever.
    """
    threads = get_threads()
    hold = one_blas_thread() if blas else contextlib.nullcontext()
    # A generator that reads ahead has a thread, which must not outlive the work.
    close = contextlib.closing(tasks) if isinstance(tasks, Generator) else contextlib.nullcontext()
    with hold, close:
        if threads == 1 or _local.ours:
            yield from map(work, tasks)
            return

        def run(task: T) -> R:
            if blas:
                _hold_openmp()
            return work(task)

        pending: deque[Future[R]] = deque()
        pool = _executor(threads, os.getpid())
        try:
            for task in tasks:
                pending.append(pool.submit(run, task))
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
