"""Short texts of what holds many numbers, for reprs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIRST = 3
"""Entries of each axis that are shown."""


def shorten(values: NDArray[Any]) -> str:
    """Return the first few entries of an array of one or two axes in one line.

    Examples
    --------
    >>> shorten(np.array([[1.0, 2.25], [3.0, 4.0]])), shorten(np.arange(9))
    ('[[1, 2.25], [3, 4]]', '[0, 1, 2, ...]')
    """
    more = ["..."] if len(values) > _FIRST else []
    shown = [_text(value) if values.ndim == 1 else shorten(value) for value in values[:_FIRST]]
    return f"[{', '.join([*shown, *more])}]"


def span(values: NDArray[Any]) -> str:
    """Return the least and the largest of some whole numbers, one of them if they are the same.

    Examples
    --------
    >>> span(np.array([3, 1200])), span(np.array([5, 5]))
    ('3 to 1,200', '5')
    """
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def known(value: float, form: str = ".3g", *, unknown: str = "not known") -> str:
    """Return a number as text, or a word for one that is infinite or nan.

    Examples
    --------
    >>> known(0.12345), known(float("inf")), known(float("-inf"), unknown="none")
    ('0.123', 'not known', 'none')
    """
    return f"{value:{form}}" if math.isfinite(value) else unknown


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)
