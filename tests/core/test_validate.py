"""Argument checks name the argument, the rule and the value."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from wolfhound import Scan
from wolfhound.core import validate
from wolfhound.herding.features import RandomFourier

REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (validate.require, (False, "a", "small", 9), {}, ValueError, r"`a` must be small\. Got 9\."),
    (validate.number, ("x", "a"), {}, TypeError, r"`a` must be a number\. Got 'x'\."),
    (validate.number, (None, "a"), {"low": 0}, TypeError, r"`a` must be a number >= 0\. Got None\."),
    (validate.number, (math.nan, "a"), {}, ValueError, r"`a` must be a number\. Got nan\."),
    (validate.number, (-1, "a"), {"low": 0}, ValueError, r"`a` must be a number >= 0\. Got -1\."),
    (
        validate.number,
        (0, "a"),
        {"low": 0, "strict": True},
        ValueError,
        r"`a` must be a number > 0\. Got 0\.",
    ),
    (validate.count, (1.0, "a"), {}, TypeError, r"`a` must be an integer >= 0\. Got 1\.0\."),
    (validate.count, (True, "a"), {}, TypeError, r"`a` must be an integer >= 0\. Got True\."),
    (validate.count, (2, "a"), {"low": 3}, ValueError, r"`a` must be an integer >= 3\. Got 2\."),
    (
        validate.real_array,
        (np.zeros(2, complex), "a", 1),
        {},
        TypeError,
        "real numbers. Got dtype complex128",
    ),
    (
        validate.real_array,
        (np.zeros(2, np.longdouble), "a", 1),
        {},
        TypeError,
        "`a` must be an array of real",
    ),
    (validate.real_array, (["x"], "a", 1), {}, TypeError, "`a` must be an array of real numbers"),
    (validate.real_array, (np.zeros(2), "a", 2), {}, ValueError, r"with 2 axes. Got shape \(2,\)"),
    (
        validate.real_array,
        (scipy.sparse.eye_array(2), "a", 2),
        {},
        TypeError,
        "dense.*scipy.sparse dia_array",
    ),
    (
        validate.vector,
        ([1.0, 2.0], "a"),
        {"size": 3},
        ValueError,
        "`a` must be a vector of length 3. Got length 2",
    ),
    (validate.vector, ([1.0, math.nan], "a"), {}, ValueError, "`a` must be finite. Got nan at index 1"),
    (validate.matrix, (np.zeros((0, 2)), "a"), {}, ValueError, r"`a` must be non-empty. Got shape \(0, 2\)"),
    (
        validate.matrix,
        ([[1.0], [math.inf]], "a"),
        {},
        ValueError,
        r"must be finite. Got inf at index \(1, 0\)",
    ),
    (validate.ids, ([0.5], "a", 3), {}, TypeError, "`a` must be a vector of integer ids. Got float64"),
    (validate.ids, ([[1]], "a", 3), {}, TypeError, r"`a` must be a vector of integer ids.*shape \(1, 1\)"),
    (validate.ids, ([0, 3], "a", 3), {}, ValueError, r"`a` must be ids in \[0, 3\)\. Got 0 \.\. 3"),
    (validate.ids, ([-1], "a", 3), {}, ValueError, r"`a` must be ids in \[0, 3\)"),
    (validate.ids, ([1, 1], "a", 3), {}, ValueError, "`a` must be distinct ids. Got repeated ids"),
    (validate.rng, (-1,), {}, ValueError, "`seed` must be an integer >= 0. Got -1"),
    (validate.rng, (None,), {}, TypeError, "`seed` must be an integer >= 0. Got None"),
    (validate.number, ("5", "a"), {}, TypeError, r"`a` must be a number\. Got '5'\."),
    (validate.number, (True, "a"), {}, TypeError, r"`a` must be a number\. Got True\."),
    (
        validate.number,
        (np.ones(1), "a"),
        {},
        TypeError,
        r"`a` must be a number\. Got an array of float64, shape",
    ),
    (validate.number, (10**400, "a"), {}, TypeError, r"`a` must be a number\. Got 10+\.\.\.\."),
    (validate.number, (np.ma.masked, "a"), {}, ValueError, r"`a` must be a number\. Got --\."),
    (validate.within, (0.0, "a", "(0, 1]"), {}, ValueError, r"`a` must be in \(0, 1\]\. Got 0\.0\."),
    (validate.within, (1.0, "a", "[0, 1)"), {}, ValueError, r"`a` must be in \[0, 1\)\. Got 1\.0\."),
    (validate.within, (math.nan, "a", "[0, 1]"), {}, ValueError, r"`a` must be in \[0, 1\]\. Got nan\."),
    (validate.within, ("x", "a", "[0, 1]"), {}, TypeError, r"`a` must be a number in \[0, 1\]\. Got 'x'\."),
    (
        validate.vector,
        (np.ma.masked_equal([1, 2], 2), "a"),
        {},
        TypeError,
        "`a` must .*1 of 2 masked: fill or",
    ),
    (validate.real_array, ([[1], [1, 2]], "a", 2), {}, TypeError, "`a` must be .* a list: .*unequal length"),
    (validate.ids, ([[1], [1, 2]], "a", 3), {}, TypeError, "`a` must be a vector of integer ids.*unequal"),
    (validate.ids, ({1}, "a", 3), {}, TypeError, r"`a` must be a vector of integer ids\. Got \{1\}\."),
    (validate.flag, ("no", "a"), {}, TypeError, r"`a` must be True or False\. Got 'no'\."),
    (validate.flag, (1, "a"), {}, TypeError, r"`a` must be True or False\. Got 1\."),
    (validate.function, (5, "a"), {}, TypeError, r"`a` must be a function\. Got 5\."),
    (validate.kind, (5, "a", "a list", list, tuple), {}, TypeError, r"`a` must be a list\. Got 5\."),
    (
        validate.kind,
        (list, "a", "a list", "append"),
        {},
        TypeError,
        r"`a` must be a list\. Got the class list\.",
    ),
    (validate.kind, ((), "a", "a list", "append"), {}, TypeError, r"`a` must be a list\. Got \(\)\."),
    (
        validate.oracle,
        (np.eye(2), "a"),
        {},
        TypeError,
        r"`a` must be an oracle such as Scan\(atoms\)\. Got an array",
    ),
]


@pytest.mark.parametrize(("check", "args", "options", "error", "text"), REFUSED)
def test_wrong_values_are_refused(
    check: Callable[..., object],
    args: tuple[Any, ...],
    options: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        check(*args, **options)


@given(st.floats(allow_nan=False))
def test_numbers_pass(value: float) -> None:
    assert validate.number(value, "a") == value
    assert validate.number(np.float64(value), "a", low=value) == value


@given(st.integers(0, 2**62))
def test_counts_pass(value: int) -> None:
    assert validate.count(np.int64(value), "a", low=value) == value
    assert type(validate.count(np.int64(value), "a")) is int


def test_plain_arrays_pass_without_a_copy() -> None:
    rows = np.ones((2, 3))
    rows.flags.writeable = False
    assert np.shares_memory(validate.matrix(rows, "a"), rows)
    assert np.shares_memory(validate.real_array(rows, "a", 2), rows)
    assert np.shares_memory(validate.vector(rows[0], "a", size=3), rows)


def test_other_arrays_become_float64_in_c_order() -> None:
    out = validate.matrix(np.asfortranarray(np.eye(3, dtype=np.int8)), "a")
    assert out.dtype == np.float64
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out, np.eye(3))


def test_ids_become_int64() -> None:
    out = validate.ids(np.array([2, 0], np.uint8), "a", 3)
    assert out.dtype == np.int64
    np.testing.assert_array_equal(out, [2, 0])
    assert validate.ids([], "a", 3).dtype == np.int64


def test_a_masked_array_without_masked_entries_passes() -> None:
    np.testing.assert_array_equal(validate.vector(np.ma.masked_equal([1.0, 2.0], 9.0), "a"), [1.0, 2.0])


@pytest.mark.parametrize("interval", ["[0, 1]", "(-inf, inf)", "[1, 1]", "(0.5, 1]"])
def test_numbers_within_an_interval_pass(interval: str) -> None:
    assert validate.within(np.float32(1.0), "a", interval) == 1.0


def test_members_and_types_both_make_a_kind() -> None:
    validate.kind([], "a", "a list", "append", "pop")
    validate.kind((), "a", "a tuple", list, tuple)
    validate.function(len, "a")
    assert validate.flag(np.True_, "a") is True


def test_an_oracle_has_a_query_and_atoms() -> None:
    scan = Scan(np.eye(2))
    assert validate.oracle(scan, "a") is scan
    assert not validate.is_oracle(pd.DataFrame({"atoms": [1.0]}))
    assert not validate.is_oracle(Scan)


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "value", ["a\nb", np.zeros((9, 9)), pd.DataFrame({"a": range(9)}), "x" * 999, Silent()]
)
def test_what_is_shown_is_one_short_line(value: object) -> None:
    assert "\n" not in validate.describe(value)
    assert len(validate.describe(value)) < 220
    with pytest.raises(TypeError) as raised:
        validate.function(value, "a")
    assert "\n" not in str(raised.value)


def test_a_generator_is_kept_and_a_seed_repeats() -> None:
    generator = np.random.default_rng(0)
    assert validate.rng(generator) is generator
    assert validate.rng(5).integers(1 << 60) == validate.rng(np.int32(5)).integers(1 << 60)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [3.5e38, -1e300])
def test_what_float32_cannot_hold_is_refused_where_we_choose_it(value: float) -> None:
    assert validate.singles(np.array([[1.0, 3.4e38]]), "x").dtype == np.float32
    with pytest.raises(ValueError, match=r"^`x` must be at most 3.4e\+38 in size, as float32 holds"):
        validate.singles(np.array([[1.0, value]]), "x")
    with pytest.raises(ValueError, match=r"^`frequencies` must be at most 3.4e\+38 in size"):
        RandomFourier(np.array([[1.0, value]]))
