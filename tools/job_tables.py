"""Tables of the pages about jobs: herding, mixtures, designs, many targets, policies."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks_page import show_seconds
from table_cells import Row, draw, read_rows, show, spread_rows

HERDS = {
    "`herd`": "herd",
    "with swaps": "herd, swaps",
    "with weights": "herd, weights",
    "fresh blocks in features": "fresh blocks in features",
    "`LshIndex` in features": "LshIndex in features",
    "exact in features": "exact in features",
}
ROWS = {
    "flights[:, :10]": "flights, 327,346 x 10",
    "glove100": "glove100, 341,479 x 100",
    "mixture 1e6 x 128": "mixture, 1,000,000 x 128",
    "fashion_mnist": "fashion_mnist, 70,000 x 784",
}
THINNERS = ("compress++", "coreax KernelHerding")


def herds() -> str:
    """MMD over that of random rows, and seconds, of every way on all rows."""
    rows = [row for row in read_rows("claim_herding") if "m" in row]
    found = spread_rows(rows, ["data", "n", "m"], "method")
    whole = {data: max(n for name, n, _ in found if name == data) for data in ROWS}
    lines = [
        [ROWS[data], m, *(_herd(line.get(way)) for way in HERDS.values())]
        for data in ROWS
        for (name, n, m), line in found.items()
        if (name, n) == (data, whole[data]) and "LshIndex in features" in line
    ]
    return draw(["MMD / random, time", "m", *HERDS], lines)


def thinners() -> str:
    """The same beside compress++ and coreax, on the rows that they are given."""
    rows = [row for row in read_rows("claim_herding") if row.get("seconds") is not None]
    found = spread_rows(rows, ["data", "n", "m"], "method")
    lines = [
        [f"{way}, {ROWS[data].partition(',')[0]}", n, m, _herd(line["herd"]), _herd(line[way])]
        for (data, n, m), line in found.items()
        for way in THINNERS
        if way in line
    ]
    return draw(["against", "rows", "m", "`herd`", "the other"], lines)


def _herd(row: Row | None) -> str:
    if row is None or row.get("seconds") is None:
        return "-"
    return f"{row['over_random']:.2f}, {show_seconds(row['seconds'])}"


MANY = {
    "words": "words, to 1e-4",
    "20k words": "words, to 1e-4",
    "unmixing": "pixels, to 1e-6",
    "patches": "pixels over measured reflectances",
    "placebos": "units, each by all others",
}


def many() -> str:
    """Many targets beside a loop of `minimize`, nnls and FNNLS."""
    found = spread_rows(read_rows("claim_many"), ["problem"], "method")
    lines = []
    for name, what in MANY.items():
        line = found[(name,)]
        ours = line["minimize_many"]
        rivals = [_each(line.get(rival)) for rival in ("loop of minimize", "scipy nnls")]
        fast = _each(line.get("FNNLS")) or "not measured yet" * ("scipy nnls" in line)
        lines.append([f"{show(ours['targets'])} {what}", ours["atoms"], f"**{_each(ours)}**", *rivals, fast])
    heads = ["targets", "atoms", "per target, all proved", "a loop of `minimize`", "nnls with a row of ones"]
    return draw([*heads, "compiled FNNLS"], lines)


def _each(row: Row | None) -> str:
    return "" if row is None else show_seconds(1e-6 * row["microseconds_per_target"])


def weights() -> str:
    """Mixture weights beside mixsqp and EM."""
    found = spread_rows(read_rows("claim_mixtures"), ["size"], "method")
    lines = []
    for (size,), line in found.items():
        if "fit_weights" in line:
            ((rival, other),) = [pair for pair in line.items() if pair[0] != "fit_weights"]
            lines.append([size, _fit(line["fit_weights"]), f"{rival} {_fit(other)}"])
    return draw(["likelihoods", "wolfhound: time, gap", "rival: time, gap"], lines)


def _fit(row: Row) -> str:
    reads = f", {row['reads']} reads" if row["reads"] else ""
    return f"{show_seconds(row['seconds'])}, {row['gap']:.0e}{reads}"


CONTINUUM = {
    "normal": "normal means, standard errors from 0.3 to 3",
    "poisson": "Poisson with exposures",
    "binomial": "Binomial",
    "million": "normal means",
}


def continuum() -> str:
    """Fits that are proved over the continuum."""
    rows = {row["problem"]: row for row in read_rows("claim_mixtures", method="npmle")}
    return draw(
        ["over the continuum", "observations", "time", "gap, proved"],
        [
            [what, rows[name]["size"], show_seconds(rows[name]["seconds"]), f"{rows[name]['gap']:.0e}"]
            for name, what in CONTINUUM.items()
        ],
    )


DESIGNS = {
    "gauss 20": "Gaussian",
    "quadratic 45": "quadratic model in 8 factors",
    "gauss 5": "Gaussian",
    "heavy 30": "heavy-tailed",
    "quadratic 21": "quadratic model in 5 factors",
}


def designs() -> str:
    """D-optimal designs beside exchange and the multiplicative algorithm."""
    found = spread_rows(read_rows("claim_designs"), ["problem"], "method")
    lines = [[what, *_design(found[(name,)])] for name, what in DESIGNS.items()]
    huge = found[("huge",)]["design, from disk"]
    memory = f"{huge['gigabytes']:.2g} GB"
    lines.append(["from disk", huge["candidates"], f"**{_passed(huge)}, {memory}**", "", ""])
    heads = ["D-optimal designs, to 1 - 1e-6", "candidates x terms", "wolfhound"]
    return draw([*heads, "compiled randomised exchange", "multiplicative algorithm"], lines)


def _design(line: Mapping[str, Row]) -> Iterable[str]:
    ours, slow = line["design"], line["multiplicative"]
    after = f"{slow['gap']:.0e} after {slow['passes']}"
    return (
        ours["candidates"],
        f"**{_passed(ours)}**",
        _passed(line["compiled exchange"]),
        f"> {show_seconds(slow['seconds'])} ({after})",
    )


def _passed(row: Row) -> str:
    return f"{show_seconds(row['seconds'])}, {round(row['passes'])} passes"


def searches() -> str:
    """A batch of directions by the fastest exact search and by an index."""
    heads = ["n", "fastest exact, ms", "index, ms", "times faster", "gap ratio: mean, 5th percentile"]
    heads += ["per update, ms: exact, index", "times faster", "random n/20 instead, ms, gap ratio"]
    return draw(
        heads, [_search(n) for n in dict.fromkeys(row["n"] for row in read_rows("claim_policy_search"))]
    )


def _search(n: int) -> list[Any]:
    rows = [row for row in read_rows("claim_policy_search") if row["n"] == n]
    index = next(row for row in rows if "search" in row and row["faster"] == 1.0)
    exact = min((row for row in rows if row.get("gap_ratio") == 1.0), key=lambda row: float(row["ms"]))
    slow, fast = (row for row in rows if "update_with" in row)
    return [
        n,
        f"{show(exact['ms'])} ({exact['search']})",
        index["ms"],
        exact["faster"],
        f"{index['gap_ratio']:.2f}, {index['ratio_p5']:.2f}",
        f"{show(slow['ms_per_update'])}, {show(fast['ms_per_update'])}",
        slow["faster"],
        _sampled([row for row in rows if row.get("sample") == "random n/20"]),
    ]


def _sampled(rows: Sequence[Row]) -> str:
    return ", ".join(f"{show(row['ms'])}, {row['gap_ratio']:.2f}" for row in rows) or "not measured yet"


JOBS: Mapping[str, Callable[[], str]] = {
    "herds": herds,
    "thinners": thinners,
    "many": many,
    "mixture-weights": weights,
    "mixture-continuum": continuum,
    "designs": designs,
    "policy-search": searches,
}
