"""How codes lie in memory: the one file that knows strides.

Sixteen rows make a block. A block holds, for each pair of neighbouring columns, the 16 pairs
of codes; a pair of int8 is one int16. So one vector instruction multiplies a pair of columns
of 16 rows. Addresses go to `_instructions`: arrays must be C-ordered.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound.compiled.jit import lean_kernel
from wolfhound.core.contracts import Ids, Singles, Vector
from wolfhound.core.rounding import TINY

Shorts = NDArray[np.int16]

ROWS = 16  # rows of a block
GROUP = 8  # queries that share one reading of a block
PAIR = 2 * ROWS  # bytes of a pair of columns of a block

RULE = np.dtype([("start", np.int32), ("step", np.float32), ("size", np.float32), ("floor", np.float32)])
"""One query: its bound is ``scale step (sum + start) + error size``; below the floor rows are dropped."""


class PackedRows(NamedTuple):
    """What kernels read of the codes of n rows."""

    blocks: Shorts  # (b, pairs, 16)
    scales: Singles  # (16 b,)
    errors: Singles  # (16 b,)
    ids: Ids  # (n,) atom at each place; empty if atom i is at place i
    n: int


BareRows: TypeAlias = tuple[Shorts, Singles, Singles, Ids, int]  # the fields of `PackedRows`


def shape_of(n: int, d: int) -> tuple[int, int, int]:
    """Shape of the blocks of n rows with d columns."""
    return -(-n // ROWS), -(-d // 2), ROWS


def empty_rows(n: int, d: int, ids: Ids) -> PackedRows:
    """Room for n rows; what is beyond the last is 0."""
    shape = shape_of(n, d)
    blocks = allocate(shape, np.int16)
    blocks[-1] = 0
    scales, errors = np.zeros((2, ROWS * shape[0]), np.float32)
    return PackedRows(blocks, scales, errors, ids, n)


def allocate(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an empty array that starts at a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


class CodedQueries(NamedTuple):
    """m queries as integers, and what their bounds add up to.

    ``base + upper + slack``, with the upper of the kernel, is at least the true and the computed float64
    score; ``base + upper - 2 size error - slack`` at most. All are in units of ``2**exponent``.
    """

    levels: Shorts  # (m, 2 pairs), zeros before they are written: the last one may stay so
    rules: NDArray[Any]  # (m,) `RULE`; the floors may be raised by kernels
    numbers: Vector  # (4, m): base, slack, exponents, and whether they are hopeless
    exclude: Ids  # (m, e) atoms that must not be found; each row ascending

    @property
    def slack(self) -> Vector:
        """(m,) what bounds must be raised by."""
        return np.asarray(self.numbers[1])

    @property
    def hopeless(self) -> NDArray[np.bool_]:
        """(m,) whether they are zero, or so small that products underflow."""
        return np.asarray(self.numbers[3] > 0.0)

    def scores(self, keys: Singles) -> Vector:
        """Turn (m, c) keys of the kernel into upper bounds in the caller's units."""
        base, slack, exponents, _ = self.numbers
        total = keys + (base + slack)[:, None]
        with np.errstate(over="ignore"):
            scores = np.ldexp(total * (1.0 + 1e-15 * np.sign(total)), exponents.astype(np.int64)[:, None])
        return np.asarray(scores + TINY)


BareQueries: TypeAlias = tuple[Shorts, NDArray[Any], Vector, Ids]  # the fields of `CodedQueries`


def empty_queries(d: int, exclude: Ids) -> BareQueries:
    """Room for queries of dimension d that exclude these atoms each."""
    m = len(exclude)
    return np.zeros((m, d + d % 2), np.int16), np.empty(m, RULE), np.empty((4, m)), exclude


class Address(NamedTuple):
    """Where the operands of an instruction begin, and the pairs of columns that it multiplies."""

    codes: int
    scales: int
    errors: int
    levels: int
    rules: int
    pairs: int


@lean_kernel
def address(rows: PackedRows, queries: CodedQueries) -> Address:
    """Address of the first block and the first query."""
    codes, scales, errors = rows.blocks.ctypes.data, rows.scales.ctypes.data, rows.errors.ctypes.data
    levels, rules = queries.levels.ctypes.data, queries.rules.ctypes.data
    return Address(codes, scales, errors, levels, rules, rows.blocks.shape[1])


@lean_kernel
def move(first: Address, block: int, query: int) -> Address:
    """Address of another block and query."""
    codes, levels = first.codes + block * PAIR * first.pairs, first.levels + 4 * first.pairs * query
    scales, errors = first.scales + 4 * ROWS * block, first.errors + 4 * ROWS * block
    return Address(codes, scales, errors, levels, first.rules + _RULE_BYTES * query, first.pairs)


_RULE_BYTES = RULE.itemsize


# ---------------------------------------------------------------- writing and reading rows


@lean_kernel
def put_rows(codes: Shorts, flip: Any, first: int, count: int, blocks: Shorts) -> None:
    """Put `count` rows of pairs of codes, their bits flipped by `flip`, at consecutive places."""
    if count == ROWS and first % ROWS == 0:  # in the order of memory
        block = blocks[first // ROWS]
        for pair in range(block.shape[0]):
            for row in range(ROWS):
                block[pair, row] = codes[row, pair] ^ flip
        return
    for i in range(count):
        block, row = blocks[(first + i) // ROWS], (first + i) % ROWS
        for pair in range(block.shape[0]):
            block[pair, row] = codes[i, pair] ^ flip


@lean_kernel
def get_row(blocks: Shorts, place: int, zero: int, out: Vector) -> Any:
    """Write the codes of the row at a place, as numbers; return the lowest as it is kept."""
    block, row = blocks[place // ROWS], place % ROWS
    lowest = np.int64(127)
    for pair in range(block.shape[0]):
        both = np.int64(block[pair, row])
        second = both >> 8
        first = ((both & 255) ^ 128) - 128
        lowest = min(lowest, first, second)
        out[2 * pair], out[2 * pair + 1] = np.float64(first + zero), np.float64(second + zero)
    return lowest
