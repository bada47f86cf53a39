"""What an oracle is expected to cost, from two speeds of the machine: how fast it reads and multiplies.

Every entry of `INDEXES` says what it builds and what a query reads; here that becomes seconds. The
factors were measured once, relative to these two speeds; benchmarks/claim_plan.py judges what follows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from wolfhound.core.contracts import AtomsLike, Oracle, Singles
from wolfhound.core.rounding import product
from wolfhound.core.threads import get_threads, map_ordered
from wolfhound.core.validate import kind, number, require

_CALL, _QUERY = 1e-4, 1e-5  # seconds of any call, and of any further query in it
_FURTHER = 0.35  # products for a byte that one more query of a call takes
_SCATTERED = 1.7  # how much slower bytes are read and scored that lie here and there
_ENCODE = 24.0  # products for a byte of rows that becomes codes
_PATIENCE = 0.4  # seconds that each speed is measured for
_FILE, _FETCH = 10.0, 4.5e-6
"""How much slower files are read than memory, and seconds for a row of one that is read alone."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast a machine is, in seconds, with the threads that are set.

    Parameters
    ----------
    byte
        Per byte of a plain read of rows in memory.
    product
        Per product in a matrix product of float32.
    """

    byte: float = 3e-11
    product: float = 1.5e-11

    def __post_init__(self) -> None:
        for name in ("byte", "product"):
            value = number(getattr(self, name), name, low=0.0, strict=True)
            require(math.isfinite(value), name, "finite", value)

    @classmethod
    def here(cls) -> Speeds:
        """Return those of this machine, measured in about a second, once per process and thread count."""
        return _measure(get_threads())


@functools.cache
def _measure(threads: int) -> Speeds:
    """Read 128 MB and multiply blocks, again and again; the fastest counts.

    In time of the processor: what others do at this moment is no speed of the machine.
    """
    table = np.ones((1 << 18, 128), np.float32)
    parts = np.split(table, 256)
    # Numbers that stay small, and centres enough for whole blocks of the product.
    centres = np.full((128, 128), 1e-3, np.float32)

    def find_fastest(work: Callable[[Singles], Any], tasks: Sequence[Singles]) -> float:
        fastest, end = math.inf, time.perf_counter() + _PATIENCE
        while time.perf_counter() < end:
            begin = time.process_time()
            for _ in map_ordered(work, tasks):
                pass
            fastest = min(fastest, time.process_time() - begin)
        return fastest / threads

    read = find_fastest(np.max, parts)
    multiply = find_fastest(lambda rows: product(rows, centres)[0, 0], parts[:16])
    return Speeds(byte=read / table.nbytes, product=multiply / (16 * parts[0].size * centres.shape[1]))


def check_speeds(speeds: Speeds | None) -> Speeds:
    """Return speeds that were given; None: those of this machine."""
    if speeds is None:
        return Speeds.here()
    kind(speeds, "speeds", "a Speeds", Speeds)
    return speeds


class Make(Protocol):
    """Makes an oracle over atoms; the seed is that of whatever is random in it."""

    def __call__(self, atoms: AtomsLike, *, seed: int = 0) -> Oracle:
        """Build it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be done, as an entry of `INDEXES` is told."""

    n: int
    d: int
    row: int  # bytes of a row
    in_files: bool = False  # whether rows are read from files
    ratio: float = 1.0  # the gap ratio that is wanted; 1: as the index is by default
    interior: bool = False  # whether the queries come from inside the hull
    batch: int = 1  # queries that are asked together
    max_memory: float = math.inf  # bytes that an oracle may take
    speeds: Speeds

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.n * self.row

    def query_seconds(self, nbytes: float, *, scattered: bool = False, shared: bool = True) -> float:
        """Return the seconds per query that reads so many bytes of rows or codes.

        `scattered`: they lie here and there; `shared`: one read serves all queries of a call.
        """
        slower = _SCATTERED if scattered else 1.0
        first = self.speeds.byte * nbytes
        further = _FURTHER * self.speeds.product * nbytes if shared else first
        more = (self.batch - 1) * (_QUERY + slower * further)
        return (_CALL + slower * first + more) / self.batch

    def fetch_seconds(self, rows: int) -> float:
        """Return the seconds to read so many rows one by one; in memory they are part of a call."""
        return rows * _FETCH if self.in_files else 0.0

    def file_seconds(self, passes: float, nbytes: float | None = None) -> float:
        """Return the seconds by which reading all rows, or so many bytes of them, from files is slower."""
        size = self.nbytes if nbytes is None else nbytes
        return passes * _FILE * self.speeds.byte * size if self.in_files else 0.0

    def build_seconds(self, products: float = 0.0, *, encoded: float = 0.0, passes: int = 0) -> float:
        """Return the seconds to build what takes these products, bytes of rows to encode, and passes."""
        return (products + _ENCODE * encoded) * self.speeds.product + self.file_seconds(passes)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an oracle is expected to cost and to give, set up for a `Workload`.

    Attributes
    ----------
    recipe : str
        How it is made by hand.
    make : Make
        Makes it.
    build, query : float
        Seconds to build, and per query.
    scored : float
        Atoms that a query scores, as rows or codes; centres and hashes count too.
    nbytes : float
        Memory beside the atoms.
    ratio : float
        The gap ratio that is typical of it, 1 if it is exact.
    """

    recipe: str
    make: Make
    build: float
    query: float
    scored: float
    nbytes: float
    ratio: float = 1.0
