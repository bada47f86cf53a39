"""Numbers as people say them, tables of them, and short texts of arrays for reprs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


def seconds_text(seconds: float) -> str:
    """Return "270 us", "12 ms", "1.3 s", "2.5 h"; "-" for none.

    Examples
    --------
    >>> [seconds_text(s) for s in (0.0, 2.7e-4, 0.0123, 1.34, 86400.0)]
    ['-', '270 us', '12 ms', '1.3 s', '24 h']
    """
    return _in_units(seconds, {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6})


def bytes_text(nbytes: float) -> str:
    """Return "136 MB"; "-" for none.

    Examples
    --------
    >>> [bytes_text(b) for b in (0, 900, 136e6)]
    ['-', '900 B', '136 MB']
    """
    return _in_units(nbytes, {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0})


def _in_units(number: float, units: Mapping[str, float]) -> str:
    """A number in the first unit that it reaches, or in the last, to two digits."""
    if number == 0.0:
        return "-"
    unit, size = next((each for each in units.items() if number >= each[1]), [*units.items()][-1])
    return f"{number / size:.1f} {unit}" if number < 9.95 * size else f"{number / size:,.0f} {unit}"


def count_text(number: float) -> str:
    """Return a count of an estimate, to two digits.

    Examples
    --------
    >>> [count_text(n) for n in (7, 42, 2345)]
    ['7', '42', '2,300']
    """
    return f"{float(f'{number:.2g}'):,.0f}"


def passes_text(passes: float) -> str:
    """Return "1 pass", "2 passes", "0.25 passes"."""
    return f"{passes:.3g} {'pass' if passes == 1 else 'passes'}"


def cost_text(passes: float, scored: int, seconds: float) -> str:
    """Return what a run took, in one phrase.

    Examples
    --------
    >>> cost_text(1.0, 1200, 0.0123)
    '1 pass, 1,200 atoms scored, 0.0123 s'
    """
    return f"{passes_text(passes)}, {scored:,} atoms scored, {seconds:.3g} s"


def about_text(number: float) -> str:
    """Return "the first query", "about 2,300 queries"."""
    return "the first query" if number <= 1.0 else f"about {count_text(number)} queries"


def table_lines(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Return rows of cells, the heading first, as lines with aligned columns, those of `left` to the left.

    Examples
    --------
    >>> table_lines([("name", "n"), ("a", "100")])
    ['name    n', 'a     100']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if at in left else str.rjust for at in range(len(widths))]
    cells = ([pad(cell, wide) for pad, cell, wide in zip(sides, row, widths, strict=True)] for row in rows)
    return ["  ".join(line).rstrip() for line in cells]


# ---------------------------------------------------------------- for errors and reprs

_LISTED = 8  # names that an error shows
_FIRST = 3  # entries of each axis that are shown


def list_some(parts: Iterable[str]) -> str:
    """Some of many names, as errors show them."""
    every = list(parts)
    more = f", ... ({len(every)} in all)" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


def shorten(values: NDArray[Any]) -> str:
    """Return the first few entries of an array of one or two axes in one line.

    Examples
    --------
    >>> import numpy as np
    >>> shorten(np.array([[1.0, 2.25], [3.0, 4.0]])), shorten(np.arange(9))
    ('[[1, 2.25], [3, 4]]', '[0, 1, 2, ...]')
    """
    more = ["..."] if len(values) > _FIRST else []
    if values.ndim == 2:
        shown = [shorten(value) for value in values[:_FIRST]]
    else:
        form = ".6g" if values.dtype.kind == "f" else ""
        shown = [f"{value:{form}}" for value in values[:_FIRST]]
    return f"[{', '.join([*shown, *more])}]"


def finite_text(value: float, form: str = ".3g", *, unknown: str = "not known") -> str:
    """Return a number as text, or a word for one that is infinite or nan.

    Examples
    --------
    >>> finite_text(0.12345), finite_text(float("inf")), finite_text(float("-inf"), unknown="none")
    ('0.123', 'not known', 'none')
    """
    return f"{value:{form}}" if math.isfinite(value) else unknown
