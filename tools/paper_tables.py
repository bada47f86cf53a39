"""Tables of docs/paper.md that are in atoms, picks and exponents: `claim_paper_tables` and others."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from table_cells import Row, draw, list_rows, read_rows, show, spread_rows

TABLES, HERDING = "claim_paper_tables", "claim_paper_herding"
ALIKE = {"data": "data", "n": "n"}
INDEXES = ("uniform subset", "LshIndex", "LshIndex, 8 axes", "ClusterIndex")


def worst_answers() -> str:
    """Steps beside their bound, for the worst answers of a ratio."""
    rows = [row for row in read_rows(TABLES, table="iterations") if row.get("bound") is not None]
    rows = [row for row in rows if row["oracle"] == rows[0]["oracle"]]
    lines = [
        [data, *(f"{show(row['steps'])} / {show(row['bound'])}" for row in line.values())]
        for (data,), line in spread_rows(rows, ["data"], "c").items()
    ]
    ratios = list(dict.fromkeys(row["c"] for row in rows))
    heads = [f"c = {show(ratios[0])}", *map(show, ratios[1:])]
    return draw(["steps / bound, worst answers of ratio c", *heads], lines)


def real_answers() -> str:
    """Steps with a real index."""
    heads = ["data", "real index", "mean c", "least c", "steps", "gap reached", "passes", "scored per step"]
    keys = ["data", "oracle", "mean_ratio", "least_ratio", "steps", "relative_gap", "passes"]
    rows = [row for row in read_rows(TABLES, table="iterations") if row.get("bound") is None]
    return draw(heads, [[row.get(key) for key in [*keys, "scored_per_step"]] for row in rows])


def herding_builds() -> str:
    """What is prepared for herding, at the largest n."""
    heads = ["data", "n", "features", "s to map", "MiB", "`LshIndex`, s", "MiB", "`ClusterIndex`, s", "MiB"]
    built = spread_rows(read_rows(HERDING, table="preprocessing"), ["data", "n"], "index")
    lines = []
    for row in read_rows(HERDING, table="features"):
        line = [row[key] for key in ("data", "n", "features", "seconds", "megabytes")]
        for index in ("LshIndex", "ClusterIndex"):
            made = built[row["data"], row["n"]][index]
            line += [made["seconds"], made["megabytes"]]
        lines.append(line)
    return draw(heads, lines)


def herding_candidates() -> str:
    """Atoms scored per pick, and the ratio along the index's own run."""
    found = spread_rows(read_rows(HERDING, table="candidates"), ["data", "n"], "index")
    lines = [[*name, *(_scored(line[index]) for index in INDEXES)] for name, line in found.items()]
    return draw(["data", "n", *INDEXES], lines)


def _scored(row: Row) -> str:
    own = row.get("own_ratio")
    return show(round(row["candidates"])) + ("" if own is None else f" ({own:.2f})")


def herding_exponents() -> str:
    """How the atoms scored per pick grow with n."""
    found = spread_rows(read_rows(HERDING, table="exponents"), ["data"], "index")
    return draw(
        ["data", *INDEXES],
        [[*name, *(line[index]["exponent"] for index in INDEXES)] for name, line in found.items()],
    )


PICKS = {
    "exact": "exact, 1/(t+1)",
    "2/(t+2)": "exact, 2/(t+2)",
    "line search": "exact, line search",
    "worst of 0.9 / bound": "worst of ratio 0.9",
    "worst of 0.55 / bound": "worst of ratio 0.55",
    "`RandomSubset`": "RandomSubset, timed",
    "`LshIndex`": "LshIndex, timed",
    "verified": "SublinearHerding(c=0.9), LshIndex, timed",
    "`ClusterIndex`": "ClusterIndex, timed",
}
TIMED = ("Scan", "Int8Scan", "RandomSubset", "LshIndex", "ClusterIndex")


def herding_picks() -> str:
    """Picks to eps."""
    found = spread_rows(read_rows(HERDING, table="iterations"), ["data"], "oracle")
    return draw(
        ["data", *PICKS],
        [[*name, *(_picked(line[way]) for way in PICKS.values())] for name, line in found.items()],
    )


def _picked(row: Row) -> Any:
    bound = row.get("bound")
    return row["picks"] if bound is None else f"{show(row['picks'])} / {show(bound)}"


def herding_times() -> str:
    """Milliseconds per pick."""
    found = spread_rows(read_rows(HERDING, table="iterations"), ["data"], "oracle")
    lines = [
        [*name, *(line[f"{way}, timed"]["milliseconds_per_pick"] for way in TIMED)]
        for name, line in found.items()
    ]
    return draw(["data", *(f"`{way}`" for way in TIMED)], lines)


PAPER: Mapping[str, Callable[[], str]] = {
    "paper-preprocessing": list_rows(
        TABLES,
        "preprocessing",
        ALIKE
        | {
            "seconds": "seconds",
            "MiB": "megabytes",
            "us per atom": "microseconds_per_atom",
            "bytes per atom": "bytes_per_atom",
        },
    ),
    "paper-worst": worst_answers,
    "paper-real": real_answers,
    "paper-candidates": list_rows(
        TABLES,
        "candidates",
        ALIKE
        | {
            "`LshIndex`": "candidates",
            "raw construction": "raw",
            "uniform subset": "uniform",
            "times fewer than uniform": "times_fewer",
        },
    ),
    "paper-exponents": list_rows(
        TABLES,
        "exponents",
        {
            "data": "data",
            "`LshIndex`": "candidates",
            "raw construction": "raw",
            "uniform subset": "uniform",
            "planner's tau": "planner_tau",
            "its rho": "planner_rho",
            "rho of cross-polytope tables": "cross_polytope_rho",
        },
    ),
    "paper-constructions": list_rows(
        TABLES,
        "construction",
        {
            "data": "data",
            "construction": "index",
            "candidates": "candidates",
            "us per query": "microseconds",
            "MiB": "megabytes",
        },
    ),
    "paper-space": list_rows(
        TABLES,
        "space",
        {
            "data": "data",
            "tables": "tables",
            "MiB": "megabytes",
            "candidates": "candidates",
            "rho_u": "rho_u",
            "rho_q": "rho_q",
            "rho_q of the curve": "rho_q_of_curve",
        },
    ),
    "paper-scores": list_rows(
        TABLES,
        "scores",
        ALIKE
        | {
            "atoms at 0.9": "atoms_at_0.9",
            "atoms at 0.7": "atoms_at_0.7",
            "atoms at 0.5": "atoms_at_0.5",
            "here": "here",
            "gap": "gap",
            "rho of gap": "rho_of_gap",
            "cosine": "cosine",
            "rho if others orthogonal": "rho_if_others_orthogonal",
        },
    ),
    "paper-promise": list_rows(
        "claim_exponents",
        "exponents",
        {
            "instance": "instance",
            "tau": "tau",
            "c": "c",
            "measured exponent": "measured",
            "formula": "formula",
            "limit": "limit",
            "near-linear rho": "near_linear",
            "filters": "filters",
            "cross-polytope tables": "cross_polytope",
            "balanced": "balanced",
        },
    ),
    "herding-builds": herding_builds,
    "herding-candidates": herding_candidates,
    "herding-exponents": herding_exponents,
    "herding-picks": herding_picks,
    "herding-times": herding_times,
}
