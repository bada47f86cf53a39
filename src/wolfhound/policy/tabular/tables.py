"""Checks of what models are made of, and of what a caller's functions return."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import Vector
from wolfhound.validate import real_array, require, require_finite


def table(value: ArrayLike, name: str, ndim: int) -> Vector:
    """Return finite float64 numbers with `ndim` axes."""
    out = np.ascontiguousarray(real_array(value, name, ndim), np.float64)
    require(out.size > 0, name, "non-empty", f"shape {out.shape}")
    require_finite(out, name)
    return out


def longest(rows: Vector) -> float:
    """Largest norm of vectors along the last axis."""
    return float(np.sqrt(np.square(rows).sum(axis=-1)).max())


def check_answer(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Vector:
    """Check what a caller's function returned; a copy, as it may reuse its arrays."""
    out: NDArray[Any] = np.array(value, np.float64)
    require(out.shape == shape, name, f"of shape {shape}", f"shape {out.shape}")
    if not np.isfinite(out).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise FloatingPointError(f"`{name}` must be finite. Got {out[at]} for state {at[0]}.")
    return out
