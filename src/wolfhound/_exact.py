"""Which numbers float64 holds, and one refusal for those that a cast would change.

A rounded atom, target or weight makes whatever is proved of it false. Every door casts what
passed here. Knows numpy only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wolfhound.core import Ids

EXACT = 2**53
"""Whole numbers up to this size are all floats; beyond it, most are not."""

HELD = (
    "made of numbers that float64 holds exactly, as whole ones up to 2^53 are; "
    "subtract an offset (of time stamps, the first), leave out what is a key, "
    "or round them yourself with .astype(float)"
)

_SLICE = 1 << 20  # entries that are looked into at once


def require_exact(values: np.ndarray[Any, Any], name: str, rows: int | Ids = 0) -> None:
    """Raise ValueError if a cast to float64 changes an integer, naming the first.

    Only integers of 64 bits are looked at: narrower ones are floats, all of them. `rows` is what the first
    row is called, or each of them.

    Examples
    --------
    >>> require_exact(np.array([2**53, 2**60]), "target")
    >>> require_exact(np.array([3, 2**53 + 1]), "target")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: `target` must be made of numbers that float64 holds ... Got 9007199254740993 at index 1.
    """
    if not is_wide(values.dtype) or not values.size:
        return
    if int(values.max()) <= EXACT and int(values.min()) >= -EXACT:  # two reads, and nothing is copied
        return
    values = np.atleast_1d(values)
    step = max(1, _SLICE // values[0].size)
    for first in range(0, len(values), step):
        part = values[first : first + step]
        changed = _find_changed(part)
        if changed.any():
            place = tuple(np.argwhere(changed)[0].tolist())
            row = rows + first + place[0] if isinstance(rows, int) else int(rows[first + place[0]])
            raise ValueError(f"`{name}` must be {HELD}. Got {part[place]} {_tell(row, *place[1:])}.")


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Whether some integers of a type are no float64."""
    return dtype.kind in "iu" and dtype.itemsize > 4


def _find_changed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Compare integers of 64 bits with what they are as floats."""
    wide = values.astype(np.float64)
    beyond = wide == (2.0**64 if values.dtype.kind == "u" else 2.0**63)  # what it casts to is undefined
    return np.asarray(beyond | (np.where(beyond, 0.0, wide).astype(values.dtype) != values), np.bool_)


def _tell(*place: int) -> str:
    if len(place) == 2:
        return f"in row {place[0]}, column {place[1]}"
    return f"at index {place[0] if len(place) == 1 else place}"


def is_held(value: Any, rounded: float) -> bool:
    """Whether a number is what it became; of fractions all that is known is that they are nearest."""
    whole = isinstance(value, (int, np.integer)) and math.isfinite(rounded)
    return not whole or int(value) == int(rounded)


def join_numbers(parts: Sequence[np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
    """Return arrays one after the other; integers that are rounded because others are floats are refused."""
    if np.result_type(*parts).kind == "f":
        for first, part in zip(np.cumsum([0, *map(len, parts)]).tolist(), parts, strict=False):
            require_exact(part, name, first)
    return np.concatenate(parts)


def cast_objects(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return Python's own numbers: integers as int64, where labels stay apart, others as float64.

    One beyond 2^53 that is no float is refused; smaller decimal fractions are rounded to
    nearest, as those of a text are.
    """
    if all(isinstance(value, (int, np.integer)) for value in values):
        with contextlib.suppress(OverflowError):
            return values.astype(np.int64)
    try:
        out = values.astype(np.float64)
    except OverflowError:  # an integer beyond all floats
        raise ValueError(f"`{name}` must be {HELD}. Got more than {math.inf}.") from None
    require_same(values.tolist, out, name)
    return out


def require_unrounded(value: Any, out: np.ndarray[Any, Any], name: str) -> None:
    """Raise ValueError if integers were rounded when a list or a frame became one array of floats."""
    if out.dtype.kind != "f" or not (np.abs(out) >= EXACT).any():
        return
    for column in _split_frame(value):
        require_exact(column, name)
    if isinstance(value, (list, tuple)):
        require_same(lambda: np.asarray(value, object).reshape(out.shape), out, name)


def _split_frame(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the columns of a frame of pandas or polars, or of a table of Arrow; none of anything else."""
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        yield from (np.asarray(value.iloc[:, i]) for i in range(value.shape[1]))
    elif hasattr(value, "get_columns") or hasattr(value, "itercolumns"):
        columns = value.get_columns() if hasattr(value, "get_columns") else value.itercolumns()
        yield from map(np.asarray, columns)


def require_same(read: Callable[[], Any], out: np.ndarray[Any, Any], name: str) -> None:
    """Raise ValueError if a number beyond 2^53 is not what it became; what it was is read only then."""
    large = np.argwhere(np.abs(out) >= EXACT).tolist()
    kept = np.asarray(read(), object) if large else out
    for place in map(tuple, large):
        if kept[place] != float(out[place]):
            raise ValueError(f"`{name}` must be {HELD}. Got {kept[place]} {_tell(*place)}.")
