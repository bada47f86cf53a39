"""Cells of the documentation's tables: read from the results of claims, written in Markdown."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[1]
Row: TypeAlias = dict[str, Any]


def read_rows(claim: str, **cells: str) -> list[Row]:
    """Rows of a claim with these cells."""
    rows = _read(claim)["rows"]
    return [row for row in rows if all(row.get(key) == value for key, value in cells.items())]


def not_measured(claim: str) -> str:
    """What stands where a claim has no rows yet."""
    return f"*`benchmarks/{claim}.py` has not measured this yet.*"


def read_check(claim: str, part: str) -> float:
    """The number of the check whose name contains this."""
    found = [check["measured"] for check in _read(claim)["checks"] if part in check["name"]]
    return float(found[0]) if found[0] is not None else float("inf")


def _read(claim: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{claim}.json").read_text())


def show(value: Any) -> str:
    """Three digits, thousands with commas; - for what is not there.

    Examples
    --------
    >>> show(1234567), show(0.012345), show(None), show("a"), show(12.0)
    ('1,234,567', '0.0123', '-', 'a', '12')
    """
    if value is None or isinstance(value, str):
        return value or "-"
    if isinstance(value, int) or abs(value) >= 1000.0:
        return f"{round(value):,}"
    return f"{value:.3g}" if value == 0.0 or abs(value) >= 1e-3 else f"{value:.1e}"


def draw(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    rows = [heads, ["---"] * len(heads), *([show(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def list_rows(claim: str, table: str, columns: Mapping[str, str]) -> Callable[[], str]:
    """A table of the rows of a claim: its headings, and the cell that stands under each."""

    def write() -> str:
        rows = read_rows(claim, table=table)
        return draw(list(columns), [[row.get(key) for key in columns.values()] for row in rows])

    return write


def spread_rows(
    rows: Iterable[Row], down: Sequence[str], across: str
) -> dict[tuple[Any, ...], dict[Any, Row]]:
    """Rows by what names their line, then by what names their column."""
    out: dict[tuple[Any, ...], dict[Any, Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in down), {})[row[across]] = row
    return out
