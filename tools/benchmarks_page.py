"""The benchmarks page of the site, from the results of the claims: no number is copied by hand.

``python tools/benchmarks_page.py`` prints it. Every claim has the same parts in its JSON
(`benchmarks/rig.py`), so it gets the same parts here: what is claimed, the machine, its
checks, its rows. What a reader wants to compare side by side is a `Pivot`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stale_claims import HistoryError, find_ages

Row: TypeAlias = Mapping[str, Any]

_MOST_ROWS = 70
"""Claims with more rows than this show their tables only, and name the file that has the rest."""


class Pivot(NamedTuple):
    """A table of a claim: problems down, methods across.

    Attributes
    ----------
    title
        What is compared.
    down
        Keys whose values name a line.
    across
        Key whose value names a column.
    columns
        Its values, in this order, and what they are called.
    cell
        What is shown of a row.
    where
        Rows that count: these keys have these values.
    whole
        Whether only lines count in which no column is empty.
    note
        What the names mean.
    """

    title: str
    down: Mapping[str, str]
    across: str
    columns: Mapping[str, str]
    cell: Callable[[Row], str]
    where: Mapping[str, Any] = {}
    whole: bool = False
    note: str = ""


# ---------------------------------------------------------------- numbers


def show_number(value: Any) -> str:
    """Return a cell as text: three digits, no more."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def show_seconds(seconds: float) -> str:
    """Return a time in the unit that reads best.

    Examples
    --------
    >>> [show_seconds(s) for s in (0.0000364, 0.0299, 0.5, 12.6)]
    ['36 us', '30 ms', '0.5 s', '13 s']
    """
    scaled, unit = seconds, "s"
    if seconds < 0.0995:
        scaled, unit = (1e3 * seconds, "ms") if seconds >= 0.9995e-4 else (1e6 * seconds, "us")
    return f"{scaled:.2g} {unit}" if scaled < 99.5 else f"{scaled:.0f} {unit}"


def _passes(row: Row) -> str:
    seconds = row.get("seconds 1e-6", row.get("seconds"))
    if row.get("status") == "MAX_SECONDS" or seconds is None:
        return f"> {show_seconds(row['seconds'])} ({row['gap']:.0e})"
    return f"{_count_passes(row.get('passes 1e-6', row.get('passes')))}{show_seconds(row['seconds'])}"


def _count_passes(passes: float | None) -> str:
    return "" if passes is None else f"{passes:.3g} passes, "


def _milliseconds(row: Row) -> str:
    return show_seconds(1e-3 * row["milliseconds"])


def _herded(row: Row) -> str:
    return f"{row['over_random']:.2f}, {show_seconds(row['seconds'])}" if "seconds" in row else row["note"]


def _per_target(row: Row) -> str:
    return show_seconds(1e-6 * row["microseconds_per_target"])


def _fitted(row: Row) -> str:
    return f"{show_seconds(row['seconds'])}, gap {row['gap']:.0e}"


def _designed(row: Row) -> str:
    return f"{show_seconds(row['seconds'])}, {row['passes']:.3g} passes, gap {row['gap']:.0e}"


def _read(row: Row) -> str:
    peak = row.get("peak_gb")
    return show_seconds(row["seconds"]) + ("" if peak is None else f", {peak:.2f} GB of memory")


# ---------------------------------------------------------------- what stands side by side

_PROBLEM = {"problem": "problem", "shape": "n x d"}
PIVOTS: dict[str, tuple[Pivot, ...]] = {
    "claim_passes": (
        Pivot(
            "To a proved relative gap of 1e-6; where time was up, the gap that was reached",
            _PROBLEM,
            "method",
            {
                "ours 1e-6": "wolfhound",
                "corrective, scan per step": "fully corrective, a scan per step",
                "blended pairwise": "lazified blended pairwise",
                "blended pairwise, screened": "the same, screened",
                "classical": "Frank-Wolfe, line search",
            },
            _passes,
            note="A: the target is in the hull. B: a point outside. C: least squares. T: a target just off "
            "the hull. Screened: a query may be answered from an earlier pass.",
        ),
    ),
    "claim_smooth": (
        Pivot(
            "Losses that are not quadratic, to 1e-6 (mixtures: nats per observation)",
            _PROBLEM,
            "method",
            {"ours 1e-6": "wolfhound", "blended pairwise": "lazified blended pairwise", "EM": "EM"},
            _passes,
        ),
    ),
    "claim_int8": (
        Pivot(
            "One exact query of a random direction, its top 256, one thread",
            {"data": "atoms"},
            "method",
            {
                "ours top 256": "`Int8Scan`",
                "Scan top 256": "`Scan`",
                "matvec": "numpy matvec, float32",
                "faiss top 256": "faiss IndexFlatIP",
                "ours batch of 64": "`Int8Scan`, per query of 64",
                "faiss batch of 64": "faiss, per query of 64",
            },
            _milliseconds,
            {"threads": 1, "queries": "random"},
        ),
    ),
    "claim_scan": (
        Pivot(
            "One exact query with its proof, summed in float64, one thread",
            {"data": "atoms", "shape": "n x d"},
            "method",
            {
                "ours": "`Scan`, top 256",
                "plain read": "a plain read",
                "matvec": "numpy matvec, float32",
                "faiss top 256": "faiss IndexFlatIP, top 256",
            },
            _milliseconds,
            {"threads": 1},
        ),
    ),
    "claim_herding": (
        Pivot(
            "1,000 rows that stand for all: MMD over that of random rows, time",
            {"data": "rows", "n": "n"},
            "method",
            {
                "herd": "`herd`",
                "herd, weights": "with weights",
                "exact in features": "exact herding in 256 random features",
                "fresh blocks in features": "fresh random blocks in them",
                "coreax KernelHerding": "KernelHerding of coreax",
            },
            _herded,
            {"m": 1000},
        ),
        Pivot(
            "Sizes that compress++ makes: MMD over that of random rows, time",
            {"data": "rows", "n": "n", "m": "m"},
            "method",
            {"herd": "`herd`", "compress++": "compress++ of goodpoints"},
            _herded,
            whole=True,
        ),
    ),
    "claim_many": (
        Pivot(
            "Per target, all proved, one thread",
            {"problem": "problem", "atoms": "atoms"},
            "method",
            {
                "minimize_many": "`minimize_many`",
                "loop of minimize": "a loop of `minimize`",
                "scipy nnls": "nnls of scipy with a row of ones",
                "projected gradient": "projected gradient",
            },
            _per_target,
        ),
    ),
    "claim_mixtures": (
        Pivot(
            "Mixture weights from likelihoods (observations x components)",
            {"problem": "problem", "size": "size"},
            "method",
            {"fit_weights": "`fit_weights`", "mixsqp": "mixsqp", "EM": "EM"},
            _fitted,
        ),
        Pivot(
            "Mixing distributions, proved over the continuum",
            {"problem": "problem", "size": "observations"},
            "method",
            {"npmle": "`npmle`"},
            _fitted,
        ),
    ),
    "claim_designs": (
        Pivot(
            "D-optimal designs, to an efficiency of 1 - 1e-6",
            {"problem": "problem", "candidates": "candidates x terms"},
            "method",
            {
                "design": "`design`",
                "compiled exchange": "compiled randomised exchange",
                "vertex direction": "vertex direction",
                "multiplicative": "multiplicative",
            },
            _designed,
        ),
        Pivot(
            "From disk",
            {"problem": "problem", "candidates": "candidates x terms"},
            "method",
            {"design, from disk": "`design`"},
            _designed,
        ),
    ),
    "claim_out_of_core": (
        Pivot(
            "A file larger than memory, to a proved 1e-6",
            {"gigabytes": "GB"},
            "method",
            {
                "minimize": "`minimize`",
                "minimize with codes": "with int8 codes",
                "build of codes": "to make the codes",
                "plain read": "one plain read",
            },
            _read,
        ),
    ),
}
"""Claims with tables, the first ones of the page."""


def write_pivot(pivot: Pivot, rows: Sequence[Row]) -> str:
    """Return a table: a line per problem for which there is the first column."""
    kept = [row for row in rows if all(row.get(key) == value for key, value in pivot.where.items())]
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in kept:
        if row.get(pivot.across) in pivot.columns:
            name = tuple(row.get(key) for key in pivot.down)
            lines.setdefault(name, {})[row[pivot.across]] = pivot.cell(row)
    first = next(iter(pivot.columns))
    needed = set(pivot.columns) if pivot.whole else {first}
    body = [
        [*map(show_number, name), *(_stress(cells.get(key, ""), key == first) for key in pivot.columns)]
        for name, cells in lines.items()
        if needed <= set(cells)
    ]
    table = _write_table([*pivot.down.values(), *pivot.columns.values()], body)
    return "\n\n".join(filter(None, (f"**{pivot.title}**", table, pivot.note))) + "\n"


def _stress(cell: str, ours: bool) -> str:
    """Keep numbers with their units on a line, and ours apart."""
    kept = " ".join(
        f'<span class="n">{part}</span>'
        for part in cell.replace(", ", ",\n").replace(" (", "\n(").split("\n")
    )
    return f"**{kept}**" if ours and cell else kept * bool(cell)


def _write_table(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [list(heads), ["---"] * len(heads), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# ---------------------------------------------------------------- a claim, whole


def write_claim(result: Mapping[str, Any], flag: str = "") -> str:
    """Return the section of one claim; a flag says what became of its code since."""
    name = result["claim"]
    says, _, protocol = result["statement"].partition("\n")
    title = says.removeprefix("Claim: ").rstrip(".")
    parts = [f"## {title[:1].upper()}{title[1:]} {{#{name}}}\n", _write_facts(result)]
    parts += [f"**Older than its code:** {flag}.\n"] * bool(flag)
    parts += [write_pivot(pivot, result["rows"]) for pivot in PIVOTS.get(name, ())]
    if protocol.strip():
        parts.append(_fold("How it is measured, and the thresholds", f"```text\n{protocol.strip()}\n```"))
    parts.append(_fold("Every check", _write_checks(result["checks"])))
    if name not in PIVOTS and len(result["rows"]) <= _MOST_ROWS:
        parts.append(_fold("Every row", _write_rows(result["rows"])))
    return "\n".join(parts)


def _write_facts(result: Mapping[str, Any]) -> str:
    checks, machine = result["checks"], result["machine"]
    failed = [check["name"] for check in checks if check["outcome"] == "FAIL"]
    held = f"{len(checks) - len(failed)} of {len(checks)} checks hold"
    if failed:
        held += f"; **not:** {'; '.join(failed)}"
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return (
        f"`benchmarks/{result['claim']}.py`: {held}. Measured {result['date'][:10]} in "
        f"{show_seconds(result['seconds'])} on {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:g} GB, {machine['system'].split('-')[0]}, load {machine['load_at_start']:g} "
        f"at the start; {versions}; all numbers: `benchmarks/results/{result['claim']}.json`.\n"
    )


def _write_checks(checks: Sequence[Row]) -> str:
    body = [
        [show_number(check["name"]), show_number(check["measured"]), check["threshold"], check["outcome"]]
        for check in checks
    ]
    return _write_table(["check", "measured", "threshold", ""], body)


def _write_rows(rows: Sequence[Row]) -> str:
    kinds: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        kinds.setdefault(tuple(row), []).append(row)
    tables = [
        _write_table(keys, [[show_number(row[key]) for key in keys] for row in of])
        for keys, of in kinds.items()
    ]
    return "\n".join(tables)


def _fold(title: str, text: str) -> str:
    return f'??? note "{title}"\n\n' + textwrap.indent(text, "    ") + "\n"


def write_claims(benchmarks: Path) -> str:
    """Return the sections of all claims that have results, those with tables first.

    Parameters
    ----------
    benchmarks
        The folder of the claims; results are in its folder ``results``.
    """
    found = {
        path.stem: json.loads(path.read_text()) for path in sorted((benchmarks / "results").glob("*.json"))
    }
    try:
        flags = {age.claim: age.flag for age in find_ages(benchmarks.parent)}
    except HistoryError:  # a copy of the sources: what has changed since is not known
        flags = {}
    order = [*(name for name in PIVOTS if name in found), *(name for name in found if name not in PIVOTS)]
    return "\n".join(write_claim(found[name], flags.get(name, "")) for name in order)


if __name__ == "__main__":
    print(write_claims(Path(__file__).parents[1] / "benchmarks"))
