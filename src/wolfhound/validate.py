"""Argument checks: one clear error that names the argument, the rule, the value.

Knows numpy only.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from wolfhound.core import Ids, Vector


def require(ok: bool, name: str, rule: str, got: object) -> None:
    """Raise ValueError "`name` must be rule. Got ...".

    Examples
    --------
    >>> require(-1 >= 0, "rtol", ">= 0", -1)
    Traceback (most recent call last):
    ...
    ValueError: `rtol` must be >= 0. Got -1.
    """
    if not ok:
        raise ValueError(f"`{name}` must be {rule}. Got {got}.")


def number(value: Any, name: str, *, low: float = -math.inf, strict: bool = False) -> float:
    """Return a real number >= low (> low if strict); inf is allowed, nan is not."""
    rule = f"a number {'>' if strict else '>='} {low:g}" if low > -math.inf else "a number"
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be {rule}. Got {value!r}.") from None
    require(out > low if strict else out >= low, name, rule, value)
    return out


def count(value: Any, name: str, *, low: int = 0) -> int:
    """Return an integer >= low."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer >= {low}. Got {value!r}.")
    require(bool(value >= low), name, f"an integer >= {low}", value)
    return int(value)


def real_array(value: Any, name: str, ndim: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array of real numbers with `ndim` axes, not copied if it is one."""
    if type(value).__module__.startswith("scipy.sparse"):
        raise TypeError(f"`{name}` must be a dense array. Got a scipy.sparse {type(value).__name__}.")
    out = np.asarray(value)
    if out.dtype.kind not in "fiub" or out.dtype.itemsize > 8:
        raise TypeError(f"`{name}` must be an array of real numbers. Got dtype {out.dtype}.")
    require(out.ndim == ndim, name, f"an array with {ndim} axes", f"shape {out.shape}")
    return out


def vector(value: Any, name: str, *, size: int | None = None) -> Vector:
    """Return a finite float64 vector, optionally of a given size."""
    out = np.ascontiguousarray(real_array(value, name, 1), np.float64)
    if size is not None:
        require(len(out) == size, name, f"a vector of length {size}", f"length {len(out)}")
    finite(out, name)
    return out


def matrix(value: Any, name: str) -> Vector:
    """Return a finite, non-empty, C-ordered float64 matrix."""
    out = np.ascontiguousarray(real_array(value, name, 2), np.float64)
    require(out.size > 0, name, "non-empty", f"shape {out.shape}")
    finite(out, name)
    return out


def finite(value: np.ndarray[Any, Any], name: str) -> None:
    """Raise if an entry is nan or infinite, naming the first."""
    bad = ~np.isfinite(value)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        at = where[0] if len(where) == 1 else where
        raise ValueError(f"`{name}` must be finite. Got {value[where]} at index {at}.")


def ids(value: Any, name: str, n: int) -> Ids:
    """Return a vector of distinct int64 atom ids in [0, n)."""
    out = np.asarray(value)
    if out.size == 0:
        return np.empty(0, np.int64)
    if out.dtype.kind not in "iu" or out.ndim != 1:
        raise TypeError(f"`{name}` must be a vector of integer ids. Got {out.dtype}, shape {out.shape}.")
    out = out.astype(np.int64)
    require(bool(out.min() >= 0 and out.max() < n), name, f"ids in [0, {n})", f"{out.min()} .. {out.max()}")
    require(len(np.unique(out)) == len(out), name, "distinct ids", "repeated ids")
    return out


def path(value: Any, name: str) -> Path:
    """Return a path that names something: no None, no bytes, not "", which would be where we are."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise TypeError(f"`{name}` must be a path. Got {value!r}.")
    text = os.fspath(value)
    require(text != "" and "\0" not in text, name, "a path", repr(text))
    return Path(text)


def rng(seed: int | np.random.Generator) -> np.random.Generator:
    """Return the generator itself or a new one from an integer seed."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(count(seed, "seed"))
