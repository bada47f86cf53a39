"""Compiled answer to one query by a pass over codes, and over the rows in memory that can still win."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from wolfhound.core import Ids, Matrix, Singles, Vector
from wolfhound.jit import kernel, lean_kernel
from wolfhound.oracles._heap_kernels import push
from wolfhound.oracles._one_kernels import BareTop, Top, close, offer_listed
from wolfhound.oracles.int8._encode_kernels import BareCoded, BareScale, CodedRows, CodeScale, code_queries
from wolfhound.oracles.int8._instructions import rows_of_one
from wolfhound.oracles.int8._sweep_kernels import Found, sweep
from wolfhound.oracles.int8.layout import ROWS, BareRows, PackedQueries, PackedRows, address, move
from wolfhound.rounding import TINY

UNDECIDED = -2
"""Instead of a number of answers: codes decide too little."""

BareCodes: TypeAlias = tuple[BareRows, BareScale]
"""The fields of `PackedRows` and of `CodeScale`."""


@kernel
def unscale(key: Any, coded: CodedRows) -> float:
    """Turn a key of the first query into an upper bound in the caller's units, as `CodedQueries.scores`."""
    total = np.float64(key) + (coded.numbers[0, 0] + coded.numbers[1, 0])
    return math.ldexp(total * (1.0 + 1e-15 * np.sign(total)), int(coded.numbers[2, 0])) + TINY


@kernel
def _guess(found: Found, k: int) -> Ids:
    """Numbers of the k candidates that reach most by the middle of their bounds."""
    guesses, picked, fill = np.empty((1, k), np.float32), np.empty((1, k), np.int64), np.zeros(1, np.int64)
    for j in range(found.fill[0]):
        push(guesses, picked, fill, 0, found.keys[0, j] + found.lows[0, j], j)
    return picked[0, : fill[0]]


@kernel
def best_by_codes(
    rows: Matrix,
    query: Vector,
    sizes: Vector,
    exclude: Ids,
    codes: BareCodes,
    asked: BareCoded,
    room: int,
    slack: float,
    bare: BareTop,
) -> int:
    """Bound all rows by their codes, score those that can be among the k best; see `close`.

    The more the first k reach, the fewer others must be scored. Returns `UNDECIDED` if the
    candidates do not fit into the room, or the query is hopeless.
    """
    top, packed, coded = Top(*bare), PackedRows(*codes[0]), CodedRows(*asked)
    k = top.ids.shape[1]
    code_queries(query, sizes, CodeScale(*codes[1]), coded)
    if coded.numbers[3, 0] > 0.0:
        return UNDECIDED
    shape = (1, room)
    keys, lows, places = np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(shape, np.int64)
    found = Found(keys, lows, places, np.zeros(1, np.int64))
    asking = PackedQueries(coded.levels, coded.rules, coded.numbers[1], exclude)
    sweep(packed, (0, packed.blocks.shape[0]), asking, k, found)
    count = found.fill[0]
    if count < 0:
        return UNDECIDED
    ids, fill = np.empty(count, np.int64), np.zeros(1, np.int64)
    for j in range(count):
        ids[j] = packed.ids[places[0, j]] if packed.ids.shape[0] > 0 else places[0, j]
    first = _guess(found, k)
    least = offer_listed(rows, query[0], ids[first], top, fill)
    ids[first] = -1
    more = 0
    for j in range(count):
        if ids[j] >= 0 and unscale(keys[0, j], coded) >= least:
            ids[more] = ids[j]
            more += 1
    offer_listed(rows, query[0], ids[:more], top, fill)
    top.scored[0] += packed.n + first.shape[0] + more
    floor = coded.rules[0].floor
    rest = unscale(floor, coded) if np.isfinite(floor) else -np.inf
    return close(rows, top, fill, slack, rest)


@lean_kernel
def bound_queries(queries: Vector, sizes: Vector, codes: BareCodes, asked: BareCoded, out: Singles) -> None:
    """Upper bound of every row for every query; out: (m, 16 b)."""
    packed, coded = PackedRows(*codes[0]), CodedRows(*asked)
    code_queries(queries, sizes, CodeScale(*codes[1]), coded)
    first = address(packed, coded)
    for q in range(out.shape[0]):
        for block in range(packed.blocks.shape[0]):
            rows_of_one(move(first, block, q), out.ctypes.data + 4 * (q * out.shape[1] + ROWS * block))
