"""Kernels of int8 codes against plain numpy; those of `_instructions` bit for bit."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wolfhound.oracles.asking import lengths
from wolfhound.oracles.int8 import _kernels as _encode_kernels
from wolfhound.oracles.int8._instructions import block_of_many, lowest_bit, prefetch, rows_of_one
from wolfhound.oracles.int8.layout import GROUP, ROWS, RULE, Address, CodedQueries, empty_queries

Array = NDArray[Any]

# Not cached on disk: a cache would not see that `_instructions` has changed.


def compiled(block: Any) -> Any:
    """An intrinsic as a function of arrays."""

    @numba.njit()
    def run(codes: Array, levels: Array, scales: Array, errors: Array, rules: Array, out: Array) -> Any:
        at = Address(
            codes.ctypes.data,
            scales.ctypes.data,
            errors.ctypes.data,
            levels.ctypes.data,
            rules.ctypes.data,
            codes.shape[0],
        )
        return block(at, out.ctypes.data)

    return run


_one, _many = compiled(rows_of_one), compiled(block_of_many)


@numba.njit()
def _lowest(bits: int) -> Any:
    return lowest_bit(bits)


def emitted(codes: Array, levels: Array, scales: Array, errors: Array, rules: Array) -> tuple[Array, int]:
    """Uppers (m, 16), and the bits of the rows of one query, or of the queries of a group."""
    m = len(levels)
    out = np.full((m, ROWS), np.nan, np.float32)
    run = {1: _one, GROUP: _many}[m]
    return out, int(run(codes, levels, scales, errors, rules, out))


def sums_of(codes: Array, levels: Array, rules: Array) -> NDArray[np.int64]:
    pairs = levels.reshape(len(levels), -1, 2).astype(np.int64)
    sums = np.einsum("prc,qpc->qr", codes.astype(np.int64), pairs)
    return np.asarray(sums + rules["start"][:, None])


def twin(codes: Array, levels: Array, scales: Array, errors: Array, rules: Array) -> tuple[Array, int]:
    """What `emitted` must return: exact sums, then one rounding per operation."""
    total = sums_of(codes, levels, rules).astype(np.int32).astype(np.float32)
    step, size, floor = (rules[name][:, None] for name in ("step", "size", "floor"))
    upper = (scales * step) * total + errors * size
    reached = upper >= floor
    which = reached[0] if len(levels) == 1 else reached.any(axis=1)
    return upper, int((which << np.arange(len(which))).sum())


def rules_for(rng: np.random.Generator, m: int) -> Array:
    rules = np.zeros(m, RULE)
    rules["start"] = rng.integers(-(2**20), 2**20, m)
    rules["step"] = np.exp(rng.uniform(-12.0, -3.0, m))
    rules["size"] = rng.uniform(0.5, 1.0, m)
    rules["floor"] = -np.inf
    return rules


def check(codes: Array, levels: Array, scales: Array, errors: Array, rules: Array) -> Array:
    """Compare with the twin, as a group and one by one; return the uppers."""
    upper, flags = emitted(codes, levels, scales, errors, rules)
    expected, expected_flags = twin(codes, levels, scales, errors, rules)
    np.testing.assert_array_equal(upper, expected)
    assert flags == expected_flags
    for q in range(len(levels)):
        here = slice(q, q + 1)
        alone, bits = emitted(codes, levels[here], scales, errors, rules[here])
        np.testing.assert_array_equal(alone, expected[here])
        assert bits == twin(codes, levels[here], scales, errors, rules[here])[1]
    return expected


@given(bits=st.integers(1, 2**62))
def test_lowest_bit_is_the_one_that_subtracting_one_clears(bits: int) -> None:
    assert 1 << _lowest(bits) == bits & -bits


def test_no_bit_is_the_lowest_of_zero() -> None:
    assert _lowest(0) == 64


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 40),
    exponents=st.tuples(st.integers(-40, 30), st.integers(-40, 30)),
    m=st.sampled_from([1, GROUP]),
)
@settings(max_examples=80)
def test_every_bit_is_that_of_the_twin(seed: int, d: int, exponents: tuple[int, int], m: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = -(-d // 2)
    codes = rng.integers(-128, 128, (pairs, ROWS, 2)).astype(np.int8)
    levels = np.zeros((m, 2 * pairs), np.int16)
    levels[:, :d] = rng.integers(-32767, 32768, (m, d))  # d = 40 cannot overflow
    scales = (10.0 ** exponents[0] * rng.random(ROWS)).astype(np.float32)
    errors = (10.0 ** exponents[1] * rng.random(ROWS)).astype(np.float32)
    rules = rules_for(rng, m)
    upper = check(codes, levels, scales, errors, rules)
    # Floors about the largest upper: some queries reach them, some do not.
    rules["floor"] = np.nextafter(upper.max(axis=1), np.float32(np.inf) * rng.choice([-1, 1], m))
    check(codes, levels, scales, errors, rules)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("d", [1, 2, 3, 100, 517, 1024, 4097])
@pytest.mark.parametrize("zero", [0, 128])
def test_sums_at_the_limit_of_int32_are_exact(d: int, zero: int, sign: int) -> None:
    pairs, most = -(-d // 2), min(32767, (2**31 - 1) // ((127 + zero) * d))
    codes = np.full((pairs, ROWS, 2), 127, np.int8)
    codes[:, 1::2] = -127 - zero // 128
    levels = np.zeros((GROUP, 2 * pairs), np.int16)
    levels[:, :d] = sign * most
    levels[1::2, : d // 2] = -sign * most
    rules = np.zeros(GROUP, RULE)
    rules["start"] = zero * levels.sum(axis=1, dtype=np.int64)
    rules["step"], rules["size"], rules["floor"] = 1.0, 1.0, 0.0
    top = np.abs(sums_of(codes, levels, rules)).max()
    assert 0.999 * min(2**31, 32767 * (127 + zero) * d) < top < 2**31
    check(codes, levels, np.ones(ROWS, np.float32), np.zeros(ROWS, np.float32), rules)


@pytest.mark.parametrize("q", range(GROUP))
def test_a_flag_says_that_a_row_is_at_or_above_the_floor(q: int) -> None:
    rng = np.random.default_rng(q)
    codes = rng.integers(-127, 128, (5, ROWS, 2)).astype(np.int8)
    levels = rng.integers(-3000, 3000, (GROUP, 10)).astype(np.int16)
    scales, errors = rng.random((2, ROWS)).astype(np.float32)
    rules = rules_for(rng, GROUP)
    rules["floor"] = np.inf
    upper, flags = emitted(codes, levels, scales, errors, rules)
    assert flags == 0
    rules["floor"][q] = upper[q].max()
    assert emitted(codes, levels, scales, errors, rules)[1] == 1 << q
    rules["floor"][q] = np.nextafter(upper[q].max(), np.float32(np.inf))
    assert emitted(codes, levels, scales, errors, rules)[1] == 0
    rules["floor"] = -np.inf
    assert emitted(codes, levels, scales, errors, rules)[1] == 2**GROUP - 1


def test_each_row_has_its_bit() -> None:
    codes = np.ones((1, ROWS, 2), np.int8)
    levels, errors = np.ones((1, 2), np.int16), np.zeros(ROWS, np.float32)
    rules = np.array([(0, 1.0, 1.0, 6.0)], RULE)
    for row in range(ROWS):
        scales = np.ones(ROWS, np.float32)
        scales[row] = 3.0  # 3 * (1 + 1)
        upper, bits = emitted(codes, levels, scales, errors, rules)
        assert bits == 1 << row
        np.testing.assert_array_equal(upper[0], 2.0 * scales)


def test_products_that_underflow_are_those_of_ieee() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(-127, 128, (3, ROWS, 2)).astype(np.int8)
    levels = rng.integers(-32767, 32768, (GROUP, 6)).astype(np.int16)
    scales = (2.0**-126 * (1.0 + rng.random(ROWS))).astype(np.float32)
    errors = np.full(ROWS, 2.0**-149, np.float32)
    upper = check(codes, levels, scales, errors, rules_for(rng, GROUP))
    assert (np.abs(upper[upper != 0.0]) < 2.0**-100).all()
    assert (upper != 0.0).any()


def test_codes_need_not_be_aligned() -> None:
    rng = np.random.default_rng(2)
    bytes_ = rng.integers(-128, 128, 2 * ROWS * 7 + 1).astype(np.int8)
    levels = rng.integers(-32767, 32768, (GROUP, 14)).astype(np.int16)
    scales, errors = rng.random((2, ROWS)).astype(np.float32)
    check(bytes_[1:].reshape(7, ROWS, 2), levels, scales, errors, rules_for(rng, GROUP))


@numba.njit()
def _prefetch_rows(values: Array) -> Any:
    return prefetch(values.ctypes.data + 4096) + values[0]


def test_prefetch_changes_nothing_even_beyond_the_end() -> None:
    values = np.arange(3.0)
    assert _prefetch_rows(values) == 0.0
    np.testing.assert_array_equal(values, np.arange(3.0))


# ---------------------------------------------------------------- small kernels

singles = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e38, max_value=1e38)


@given(value=singles)
def test_rounding_up_to_float32(value: float) -> None:
    up = _encode_kernels.above(value)
    assert value <= float(up)
    # As floats: numpy would round the value to float32 before it compares.
    assert float(np.nextafter(up, np.float32(-np.inf))) < value or float(up) == value


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 300),
    exponent=st.integers(-300, 300),
    most=st.sampled_from([1, 100, 32767]),
)
def test_queries_are_rounded_to_levels(seed: int, d: int, exponent: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    query, middle = 10.0**exponent * rng.standard_normal((1, d)), rng.standard_normal(d)
    size = lengths(query)
    mine = int(np.frexp(size[0])[1])
    scale = _encode_kernels.CodeScale(middle, 0, 7, 1.0, 1.0, 2.0, most)
    out = CodedQueries(*empty_queries(d, np.empty((1, 0), np.int64)))
    _encode_kernels.code_queries(query, size, scale, out)
    levels, rules, (base, slack, exponents, hopeless), _ = out
    y = np.ldexp(query[0].astype(np.longdouble), -mine)
    small = np.ldexp(size[0], -mine).astype(np.float32)
    assert rules[0].tolist() == (0, rules["step"][0], np.nextafter(small, np.float32(2)), -np.inf)
    assert (exponents[0], hopeless[0]) == (mine + 7, mine + 7 < -900)
    step = np.longdouble(rules["step"][0])
    assert not levels[0, d:].any()
    assert np.abs(levels).max() == most
    assert (np.abs(y - step * levels[0, :d]) <= 0.5 * step * (1.0 + 1e-6)).all()
    distance = np.sqrt(np.square(y - step * levels[0, :d]).sum())
    assert distance <= slack[0] <= 1.001 * distance + 1e-5  # a height of 1, and the float32 of the kernel
    np.testing.assert_allclose(base[0], float(y @ middle), rtol=1e-12, atol=1e-12)
