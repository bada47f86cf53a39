"""Tables of the documentation, from the results of claims: ``python tools/tables.py [--check]``.

What stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` in docs/*.md is written anew from
benchmarks/results, so that a claim that is run again needs no copying by hand. With ``--check``
nothing is written, and the exit code says whether something would be.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import itertools
import math
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from job_tables import JOBS
from paper_tables import PAPER
from table_cells import ROOT, Row, draw, not_measured, read_rows, show

REGION = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PROMISE, POLICY = "claim_promise", "claim_policy_tabular"
EXACT, INDEXES = ("Scan", "Int8Scan"), ("ClusterIndex", "LshIndex")


def main(argv: Sequence[str] | None = None) -> int:
    """Write all tables anew, or check them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a table is old")
    check = parser.parse_args(argv).check
    old = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text()
        new = REGION.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n\n{match[3]}", text)
        if new != text:
            old.append(page.name)
            if not check:
                page.write_text(new)
    print(f"{'old' if check else 'renewed'}: {', '.join(old) or 'none'}")
    return 1 if check and old else 0


def pays(row: Row, key: str, way: str) -> str | float | None:
    """From how many on it pays: "never" where that is not a number, - for the exact ways themselves."""
    exact = way.rpartition(", ")[2] in EXACT
    return None if exact else ("never" if row[key] is None else round(row[key]))


def beside_random(row: Row) -> str | float | None:
    """From how many runs on an index beats all random samples; - for other ways, or if not measured."""
    index = row["oracle"] in INDEXES and "pays_beside_random" in row
    return pays(row, "pays_beside_random", row["oracle"]) if index else None


# ---------------------------------------------------------------- tables


MISSING = not_measured(PROMISE)
ATOMS = "atoms / exact"


def _draw_rows(table: str, columns: Mapping[str, str]) -> str:
    """Rows of claim_promise under headings, or that there are none yet."""
    rows = read_rows(PROMISE, table=table)
    return (
        draw(list(columns), [[row.get(key) for key in columns.values()] for row in rows]) if rows else MISSING
    )


WAYS = {
    "exact": "Alg. 1, Int8Scan",
    "index, memory and sample": "Alg. 2, LshIndex, memory and sample",
    "memory and sample": "Alg. 2, memory and sample",
    "index alone": "Alg. 2, LshIndex alone",
    "random 1,000": "Alg. 2, random 1,000",
    "`minimize`": "minimize, its default",
}
"""Columns of the verdict, that in which all are measured first."""


def verdict() -> str:
    """Medians over all sets, inside and at the boundary: iterations and atoms over exact, and seconds."""
    lines = []
    for kind, eps in itertools.product(("interior", "boundary"), ("0.01", "0.001")):
        rows = [row for row in read_rows(PROMISE, table="verdict", kind=kind) if f"{row['eps']:g}" == eps]
        if rows:
            found = ([row for row in rows if row["way"] == way] for way in WAYS.values())
            lines.append([kind, eps, *(_weigh(mine) for mine in found)])
    said = "Iterations, atoms and seconds, over those of exact passes (`Int8Scan`); medians over all sets."
    return f"{said}\n\n{draw(['targets', 'eps', *WAYS], lines)}" if lines else MISSING


def _weigh(rows: Sequence[Row]) -> str:
    """Iterations, atoms and seconds over exact, the seconds last."""
    cells = (_median(rows, f"{key}_over_exact") for key in ("iterations", "atoms", "seconds"))
    return ", ".join(map(show, cells))


def _median(rows: Sequence[Row], key: str) -> float | None:
    """The median of what was reached; None if on most sets nothing was."""
    values = [math.inf if row[key] is None else row[key] for row in rows]
    middle = statistics.median(values or [math.inf])
    return middle if math.isfinite(middle) else None


def sets() -> str:
    """Every way on every set, to the smallest eps."""
    rows = [row for row in read_rows(PROMISE, table="verdict") if row["eps"] < 5e-3]
    heads = [
        "atoms",
        "n",
        "targets",
        "way",
        "iterations / exact",
        ATOMS,
        "passes",
        "build, s",
        "s per problem",
    ]
    keys = [
        "data",
        "n",
        "kind",
        "way",
        "iterations_over_exact",
        "atoms_over_exact",
        "passes",
        "build_s",
        "seconds",
    ]
    lines = [
        [*(row[key] for key in keys), pays(row, "pays_from_problems", row["way"]), row["stopped_after"]]
        for row in rows
    ]
    heads += ["ahead of exact from, problems", "stopped after"]
    return draw(heads, lines) if rows else MISSING


def ahead() -> str:
    """Per set, the rivals that score fewer atoms than the mechanism, or take less time."""
    rows = read_rows(PROMISE, table="rivals")
    lines = [
        [row["data"], *(row[key].replace("Alg. 2, ", "") for key in ("fewer_atoms", "less_time"))]
        for row in rows
    ]
    return draw(["atoms, targets", "fewer atoms", "less time"], lines) if rows else MISSING


def shares() -> str:
    """Shares of the best gap along runs."""
    columns = {"atoms": "data", "way": "way", "mean": "mean", "tenth percentile": "tenth_percentile"}
    return _draw_rows("share", columns)


def theorem() -> str:
    """Runs with a fixed tau."""
    columns = {
        "atoms": "n",
        "c": "c",
        "tau": "tau",
        "delta": "delta",
        "queries": "queries",
        "failures": "failures",
    }
    columns |= {
        "runs": "runs",
        "ended by a proved none": "ended",
        "steps": "steps",
        "allowed": "steps_allowed",
    }
    columns |= {"atoms per query": "atoms_per_query"}
    return _draw_rows("theorem", columns | {"log_n of these": "exponent", "rho of the theorem": "rho"})


def herding() -> str:
    """Algorithms 3 and 4 in seconds."""
    heads = ["rows", "way", "build, s", "MiB", "picks to 1e-4", "ms per pick", "s, 1,000 picks"]
    heads += ["with the build", "beats Alg. 3 from, picks", "error, 1,000 picks"]
    keys = ("build_s", "megabytes", "picks_to_eps", "ms_per_pick", "seconds", "with_build_s")
    return draw(
        heads,
        [
            [
                row["data"],
                row["way"],
                *(row[key] for key in keys),
                pays(row, "pays_from_picks", row["way"]),
                row["error"],
            ]
            for row in read_rows(PROMISE, table="herding")
        ],
    )


def growth() -> str:
    """Exponents of n."""
    columns = {
        "atoms": "data",
        "way": "way",
        "atoms per iteration": "atoms_per_iteration",
        "atoms in all": "atoms",
    }
    rows = [row for row in read_rows(PROMISE, table="exponents") if "atoms" in row]
    columns |= {"seconds": "seconds"}
    return draw(list(columns), [[row[key] for key in columns.values()] for row in rows]) if rows else MISSING


def policies() -> str:
    """Algorithm 5: whole runs in seconds."""
    heads = ["model", "actions", "n", "oracle", "build, s", "MiB", "iterations", "ms per iteration"]
    heads += ["s per run", "with the build", "beats exact ones from, runs", "random ones from", "passes"]
    keys = ("build_s", "megabytes", "steps", "ms_per_step", "seconds", "total_s")
    return draw(
        heads,
        [
            [
                *(row[key] for key in ("model", "actions", "n", "oracle")),
                *(row[key] for key in keys),
                pays(row, "pays_from_runs", row["oracle"]),
                beside_random(row),
                row["passes"],
            ]
            for row in read_rows(POLICY, table="whole runs")
        ],
    )


def steps_of_policies() -> str:
    """What an iteration of Algorithm 5 costs against n."""
    heads = ["n", "oracle", "preprocessing, s", "memory, MB", "ms per iteration", "atoms scored per query"]
    heads += ["gap ratio, first step", "later"]
    keys = ["n", "oracle", "preprocessing_s", "megabytes", "ms_per_step", "scored_per_query"]
    keys += ["gap_ratio", "gap_ratio_later"]
    unbuilt = {"preprocessing_s": None, "megabytes": None}
    rows = [row | (unbuilt if row["oracle"] == "Scan" else {}) for row in read_rows(POLICY, table="policies")]
    return draw(heads, [[row[key] for key in keys] for row in rows])


def rivals() -> str:
    """Indexes at an equal gap ratio."""
    heads = ["queries", "ratio wanted", "index", "parameters", "ratio", "candidates", "us, in a batch"]
    heads += ["us, alone", "build, s", "MiB"]
    keys = ["data", "wanted", "index", "parameters", "ratio", "candidates", "microseconds"]
    keys += ["microseconds_single", "build_seconds", "megabytes"]
    return draw(heads, [[row.get(key) for key in keys] for row in read_rows("claim_lsh")])


def planted() -> str:
    """How often an index with a promise fails."""
    heads = ["data", "atoms", "c", "tau", "copies", "trials", "failures", "95 %", "promised", "candidates"]
    return draw(
        heads,
        [
            [
                *(row[key] for key in ("data", "atoms", "c", "tau", "copies", "trials", "failures")),
                f"{show(row['low'])} .. {show(row['high'])}",
                row["promised"],
                row["candidates"],
            ]
            for row in read_rows("claim_adaptive", table="planted")
        ],
    )


def adaptive() -> str:
    """Failures along runs that follow an index."""
    rows = read_rows("claim_adaptive", table="runs")
    keys = [key for key in rows[0] if key != "table"]
    return draw([key.replace("_", " ") for key in keys], [[row[key] for key in keys] for row in rows])


def votes() -> str:
    """The same for many copies: the best of their answers, behind a lattice, by a vote."""
    columns = {"data": "data", "answers": "tables", "run": "run", "95 %, +-": "run_width"}
    columns |= {"others": "others", "95 %, +-, others": "others_width", "independent": "independent"}
    columns |= {"mean c, run": "ratio_run", "last gap": "last_gap", "exact": "last_gap_exact"}
    rows = read_rows("claim_adaptive", table="votes")
    lines = [[row[key] for key in columns.values()] for row in rows]
    return draw(list(columns), lines) if rows else not_measured("claim_adaptive")


def why() -> str:
    """Where hashes lose to random samples of as many atoms, and what the atoms are like."""
    columns = {"atoms, targets": "data", "dimensions": "dimensions", "spread of lengths": "spread"}
    columns |= {"nearly best": "nearly_best", "hashes of the atoms": "hashes", "atoms scored": "scored"}
    columns |= {"mean c": "ratio", "of a random sample": "random"}
    rows = read_rows("claim_ratio", table="why")
    lines = [[row[key] for key in columns.values()] for row in rows]
    return draw(list(columns), lines) if rows else not_measured("claim_ratio")


def plots() -> str:
    """The plot that claim_promise has drawn, with its caption."""
    return PLOTS if (ROOT / "docs" / "images" / "promise-atoms.svg").exists() else MISSING


PLOTS = """\
![Atoms scored to the same eps against n, inside the hull and at its boundary](images/promise-atoms.svg)

*Atoms scored in all against n, normal atoms in 128 dimensions (`benchmarks/claim_promise.py`).*"""


TABLES: Mapping[str, Callable[[], str]] = {
    **PAPER,
    **JOBS,
    "promise-verdict": verdict,
    "promise-sets": sets,
    "promise-rivals": ahead,
    "promise-plots": plots,
    "promise-shares": shares,
    "promise-growth": growth,
    "promise-theorem": theorem,
    "promise-herding": herding,
    "policy-whole": policies,
    "policy-steps": steps_of_policies,
    "lsh": rivals,
    "ratio-why": why,
    "adaptive-planted": planted,
    "adaptive-runs": adaptive,
    "adaptive-votes": votes,
}


if __name__ == "__main__":
    sys.exit(main())
