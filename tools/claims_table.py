"""The table of claims in the README, from the results of the claims: one for each machine that measured.

``python tools/claims_table.py`` writes it anew between its two marks, after `make bench`
has measured; ``--check`` only says whether it would change. A test asks the same.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks_page import PIVOTS, Row, show_seconds

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- claims: python tools/claims_table.py -->", "<!-- end of claims -->"


class Headline(NamedTuple):
    """A line: what is done, in which rows of which claim it stands, and how a row is shown."""

    what: str
    claim: str
    ours: Mapping[str, Any]
    rivals: Mapping[str, Mapping[str, Any]]
    cell: Callable[[Row], str]


def _seconds(row: Row) -> str:
    return show_seconds(row["seconds"])


def _counted(row: Row) -> str:
    return f"{row['passes']:.3g} passes, {_seconds(row)}"


def _memory(row: Row) -> str:
    return f"{_seconds(row)}, {row['peak_gb']:.2g} GB of memory" if "peak_gb" in row else _seconds(row)


def _cell(claim: str, table: int = 0) -> Callable[[Row], str]:
    """Return how the benchmarks page shows a row of this claim."""
    return PIVOTS[claim][table].cell


_HULL = {"problem": "glove100 B"}
_QUERY = {"data": "gaussian 1e6 x 128", "threads": 1, "queries": "random"}
_HERD = {"data": "mixture 1e6 x 128", "n": 1_000_000, "m": 1000}
_DESIGN = {"problem": "quadratic 45"}

HEADLINES = (
    Headline(
        "the point closest to a target in the hull of 341,479 x 100 word vectors, to a proved 1e-6",
        "claim_passes",
        {**_HULL, "method": "ours 1e-6"},
        {
            "blended pairwise, screened": {**_HULL, "method": "blended pairwise, screened"},
            "fully corrective, a scan per step": {**_HULL, "method": "corrective, scan per step"},
        },
        _cell("claim_passes"),
    ),
    Headline(
        "one exact query of 1,000,000 x 128, its top 256 and a bound",
        "claim_int8",
        {**_QUERY, "method": "ours top 256"},
        {
            "numpy matvec": {**_QUERY, "method": "matvec"},
            "faiss IndexFlatIP": {**_QUERY, "method": "faiss top 256"},
            "faiss SQ8, re-ranked": {**_QUERY, "method": "faiss SQ8 top 256"},
        },
        _cell("claim_int8"),
    ),
    Headline(
        "10,000 words, each by 341,479 others, per word",
        "claim_many",
        {"problem": "words", "method": "minimize_many"},
        {"a loop of `minimize`": {"problem": "words", "method": "loop of minimize"}},
        _cell("claim_many"),
    ),
    Headline(
        "1,000,000 pixels by 300 spectra, per pixel",
        "claim_many",
        {"problem": "unmixing", "method": "minimize_many"},
        {
            "nnls of scipy": {"problem": "unmixing", "method": "scipy nnls"},
            "compiled FNNLS": {"problem": "unmixing", "method": "FNNLS"},
        },
        _cell("claim_many"),
    ),
    Headline(
        "1,000 rows that stand for 1,000,000: MMD over that of random rows",
        "claim_herding",
        {**_HERD, "method": "herd"},
        {
            # Results without the note are of an older rival, a product with all rows.
            "exact herding in random features by `Int8Scan`": {
                **_HERD,
                "method": "exact in features",
                "note": "by Int8Scan",
            },
            "fresh blocks of 1 % of the rows in them": {**_HERD, "method": "fresh blocks in features"},
        },
        _cell("claim_herding"),
    ),
    Headline(
        "mixture weights, 20,000 observations x 800 components",
        "claim_mixtures",
        {"problem": "20k", "method": "fit_weights"},
        {"mixsqp": {"problem": "20k", "method": "mixsqp"}},
        _cell("claim_mixtures"),
    ),
    Headline(
        "D-optimal design, 1,000,000 candidates x 45 terms",
        "claim_designs",
        {**_DESIGN, "method": "design"},
        {"compiled randomised exchange": {**_DESIGN, "method": "compiled exchange"}},
        _counted,
    ),
    Headline(
        "a file of 20 GB, to a proved 1e-6",
        "claim_out_of_core",
        {"gigabytes": 20.0, "method": "minimize"},
        {"one plain read": {"gigabytes": 20.0, "method": "plain read"}},
        _memory,
    ),
)


def show_row(line: Headline, rows: list[Row], keys: Mapping[str, Any]) -> str:
    """Show the one row that has these values, or say that the claim is yet to measure it."""
    found = [row for row in rows if all(row.get(key) == value for key, value in keys.items())]
    if not found:
        return "(not measured yet)"
    (row,) = found
    return line.cell(row)


def write_table(results: Path) -> str:
    """Return the lines in Markdown, a table for each machine."""
    tables: dict[str, list[str]] = {}
    for line in HEADLINES:
        result = json.loads((results / f"{line.claim}.json").read_text())
        ours = show_row(line, result["rows"], line.ours)
        rivals = "; ".join(
            f"{name} {show_row(line, result['rows'], keys)}" for name, keys in line.rivals.items()
        )
        cells = f"| {line.what} | **{ours}** | {rivals} | `benchmarks/{line.claim}.py` |"
        tables.setdefault(name_machine(result["machine"]), []).append(cells)
    heads = "| {} | wolfhound | others | measured by |\n|---|---|---|---|\n"
    return "\n\n".join(heads.format(machine) + "\n".join(lines) for machine, lines in tables.items())


def name_machine(machine: Mapping[str, Any]) -> str:
    """Processor, cores and memory."""
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB"


def renew(text: str, table: str) -> str:
    """Put the table between the marks of a page."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    """Write the README anew, or say whether it is as it should be."""
    page = ROOT / "README.md"
    text = page.read_text()
    wanted = renew(text, write_table(ROOT / "benchmarks" / "results"))
    if "--check" not in sys.argv:
        page.write_text(wanted)
    return int("--check" in sys.argv and wanted != text)


if __name__ == "__main__":
    sys.exit(main())
