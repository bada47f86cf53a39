"""Sixteen rows of int8 codes against int16 queries, as vector instructions.

The code generators emit plain LLVM vectors, no instruction of one processor: LLVM
turns the products of pairs into the best that the machine has (vpdpwssd, pmaddwd,
smlal, ...), and into scalar code if it has none.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wolfhound.compiled.jit import intrinsic
from wolfhound.oracles.int8.layout import GROUP, PAIR, ROWS, RULE, Address

_CHAINS = 4  # sums that are under way at a time, a power of two
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_FLOAT = ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_INT, ROWS), ir.VectorType(_FLOAT, ROWS)
_PAIRS = ir.VectorType(_SHORT, 2 * ROWS)
_BITS = ir.IntType(ROWS)


def _long(value: int) -> ir.Constant:
    return ir.Constant(_LONG, value)


def _pick(places: range | list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INT, len(places)), list(places))


def _load(build: Any, address: Any, offset: int, kind: Any) -> Any:
    """Load a value that need not be aligned."""
    return build.load(build.inttoptr(build.add(address, _long(offset)), kind.as_pointer()), align=1)


def _splat(build: Any, value: Any) -> Any:
    kind = ir.VectorType(value.type, ROWS)
    first = build.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    return build.shuffle_vector(first, first, _pick([0] * ROWS))


def _products_of_pairs(build: Any, a: Any, b: Any) -> Any:
    """(32,) x (32,) int16 -> (16,) int32: a[0] b[0] + a[1] b[1], ..."""
    wide = ir.VectorType(_INT, 2 * ROWS)
    products = build.mul(build.sext(a, wide), build.sext(b, wide))
    even = build.shuffle_vector(products, products, _pick(range(0, 2 * ROWS, 2)))
    odd = build.shuffle_vector(products, products, _pick(range(1, 2 * ROWS, 2)))
    return build.add(even, odd)


def _sums(build: Any, queries: int, codes: Any, levels: Any, pairs: Any) -> list[Any]:
    """Emit the loops over pairs of columns; return (16,) int32 sums per query."""
    # Each addition waits for the one before it: a query alone adds to several sums in turn.
    chains = max(1, _CHAINS // queries)
    sums = [[cgutils.alloca_once(build, _INTS) for _ in range(chains)] for _ in range(queries)]
    for place in itertools.chain(*sums):
        build.store(ir.Constant(_INTS, None), place)
    stride = build.shl(pairs, _long(2))

    def add(pair: Any, chain: int) -> None:
        here = build.add(codes, build.mul(pair, _long(PAIR)))
        rows = build.sext(_load(build, here, 0, ir.VectorType(_BYTE, 2 * ROWS)), _PAIRS)
        for q in range(queries):
            at = build.add(build.add(levels, build.mul(stride, _long(q))), build.shl(pair, _long(2)))
            level = build.bitcast(_splat(build, _load(build, at, 0, _INT)), _PAIRS)
            place = sums[q][chain]
            build.store(build.add(build.load(place), _products_of_pairs(build, rows, level)), place)

    whole = build.and_(pairs, _long(-chains))
    with cgutils.for_range_slice(build, _long(0), whole, _long(chains), _LONG) as (pair, _):
        for chain in range(chains):
            add(build.add(pair, _long(chain)), chain)
    if chains > 1:
        with cgutils.for_range_slice(build, whole, pairs, _long(1), _LONG) as (pair, _):
            add(pair, 0)
    return [functools.reduce(build.add, map(build.load, mine)) for mine in sums]


def _emit(build: Any, queries: int, args: Any) -> list[Any]:
    """Write what the rows reach; return, per query, the bits of those at or above its floor."""
    address, out = args
    codes, scales, errors, levels, rules, pairs = (
        build.extract_value(address, at) for at in range(len(Address._fields))
    )
    sums = _sums(build, queries, codes, levels, pairs)
    scale, error = _load(build, scales, 0, _FLOATS), _load(build, errors, 0, _FLOATS)
    reached = []
    for q in range(queries):
        start, step, size, floor = (
            _splat(build, _load(build, rules, RULE.itemsize * q + offset, kind))
            for offset, kind in zip((0, 4, 8, 12), (_INT, _FLOAT, _FLOAT, _FLOAT), strict=True)
        )
        total = build.sitofp(build.add(sums[q], start), _FLOATS)
        upper = build.fadd(build.fmul(build.fmul(scale, step), total), build.fmul(error, size))
        place = build.inttoptr(build.add(out, _long(4 * ROWS * q)), _FLOATS.as_pointer())
        build.store(upper, place, align=4)
        reached.append(build.bitcast(build.fcmp_ordered(">=", upper, floor), _BITS))
    return reached


@intrinsic
def rows_of_one(context: Any, address: Any, out: Any) -> Any:
    """Bound the 16 rows of a block for one query.

    `out` is the address of (queries, 16) float32, which become ``scale step (sum + start) + error size``,
    every operation rounded once, in this order. Bit r of what is returned is set if row r is at or above
    the floor.
    """
    return types.int32(address, out), lambda _, build, __, args: build.zext(_emit(build, 1, args)[0], _INT)


@intrinsic
def block_of_many(context: Any, address: Any, out: Any) -> Any:
    """As `rows_of_one`, for `GROUP` queries; bit q is set if a row of query q is at or above its floor."""

    def emit(_: Any, build: Any, __: Any, args: Any) -> Any:
        flags: Any = ir.Constant(_INT, 0)
        for q, reached in enumerate(_emit(build, GROUP, args)):
            some = build.icmp_unsigned("!=", reached, ir.Constant(_BITS, 0))
            flags = build.or_(flags, build.shl(build.zext(some, _INT), ir.Constant(_INT, q)))
        return flags

    return types.int32(address, out), emit


@intrinsic
def lowest_bit(context: Any, bits: Any) -> Any:
    """Place of the lowest bit that is set; 64 if none is."""
    return types.intp(types.intp), lambda _, build, __, args: build.cttz(
        args[0], ir.Constant(ir.IntType(1), 0)
    )


@intrinsic
def prefetch(context: Any, address: Any) -> Any:
    """Ask for the cache line at an address."""

    def emit(_: Any, build: Any, __: Any, args: Any) -> Any:
        pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(build.module, kind, "llvm.prefetch.p0")
        flags = [ir.Constant(_INT, value) for value in (0, 3, 1)]  # to read, keep in all caches, data
        build.call(function, [build.inttoptr(args[0], pointer), *flags])
        return ir.Constant(_INT, 0)

    return types.int32(types.intp), emit
