"""Tables of the documentation, from the results of claims: ``python tools/tables.py [--check]``.

What stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` in docs/*.md is written anew from
benchmarks/results, so that a claim that is run again needs no copying by hand. With ``--check``
nothing is written, and the exit code says whether something would be.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from job_tables import JOBS
from paper_tables import PAPER
from table_cells import ROOT, Row, draw, read_check, read_rows, show

REGION = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PROMISE, POLICY = "claim_promise", "claim_policy_tabular"
EXACT = ("Scan", "Int8Scan")


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


# ---------------------------------------------------------------- tables


def solves() -> str:
    """Algorithms 1 and 2 in seconds."""
    heads = ["atoms and targets", "way", "build, s", "MiB", "iterations", "ms per iteration"]
    heads += ["s per problem", "with the build", "beats Alg. 1 from, problems", "beats random samples from"]
    return draw(heads, [_solve(row) for row in read_rows(PROMISE, table="solve")])


def _solve(row: Row) -> list[Any]:
    random = row["pays_from_problems_against_random"]
    beats = "-" if "Random" in row["way"] else ("never" if random is None else round(random))
    keys = ("build_s", "megabytes", "iterations", "ms_per_iteration", "seconds", "with_build_s")
    cells = [row[key] for key in keys]
    return [row["data"], row["way"], *cells, pays(row, "pays_from_problems", row["way"]), beats]


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
    """Seconds to the same eps against n, and exponents."""
    some = [row for row in read_rows(PROMISE) if row.get("table") in ("growth", "solve")]
    some = [row for row in some if row["data"].startswith("gaussian") and row["data"].endswith("interior")]
    sizes = sorted({row["n"] for row in some})
    seconds = {(row["way"], row["n"]): row["seconds"] for row in some}
    lines = []
    for row in read_rows(PROMISE, table="exponents"):
        mine = [seconds[row["way"], n] for n in sizes]
        lines.append([row["way"], *mine, row["exponent"], row["with_build"]])
    heads = ["way", *(f"n = {n:,}" for n in sizes), "exponent of n", "with the build"]
    return draw(heads, lines)


def policies() -> str:
    """Algorithm 5: whole runs in seconds."""
    heads = ["model", "actions", "n", "oracle", "build, s", "MiB", "iterations", "ms per iteration"]
    heads += ["s per run", "with the build", "beats exact ones from, runs", "passes"]
    keys = ("build_s", "megabytes", "steps", "ms_per_step", "seconds", "total_s")
    return draw(
        heads,
        [
            [
                *(row[key] for key in ("model", "actions", "n", "oracle")),
                *(row[key] for key in keys),
                pays(row, "pays_from_runs", row["oracle"]),
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


def four() -> str:
    """The paper's four columns, exact and sublinear, for its three problems."""
    heads = ["problem", "algorithm", "preprocessing, s", "space, MiB", "iterations", "ms per iteration"]
    lines: list[list[Any]] = []
    keys = ("build_s", "megabytes", "iterations", "ms_per_iteration")
    for kind in ("interior", "boundary"):
        for row in read_rows(PROMISE, table="solve", data=f"gaussian 1e6 x 128 {kind}"):
            if row["way"] in ("Alg. 1, Int8Scan", "Alg. 2, LshIndex"):
                lines.append([f"Frank-Wolfe, {kind}", row["way"], *(row[key] for key in keys)])
    keys = ("build_s", "megabytes", "picks_to_eps", "ms_per_pick")
    for row in read_rows(PROMISE, table="herding", data="gaussian 1e6 x 128, identity"):
        if row["way"] in ("Alg. 3, Int8Scan", "Alg. 4, LshIndex"):
            lines.append(["herding", row["way"], *(row[key] for key in keys)])
    keys = ("build_s", "megabytes", "steps", "ms_per_step")
    runs = read_rows(POLICY, table="whole runs", actions="glove100", model="smooth")
    faster = min((row for row in runs if row["oracle"] in EXACT), key=lambda row: float(row["total_s"]))
    for row in runs:
        if row["oracle"] in (faster["oracle"], "LshIndex"):
            lines.append(["policies, smooth", f"Alg. 5, {row['oracle']}", *(row[key] for key in keys)])
    return f"{draw(heads, lines)}\n\nFrom `benchmarks/{PROMISE}.py` and `benchmarks/{POLICY}.py`."


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


def summary() -> str:
    """What is true, in numbers."""
    name = "gaussian 1e6 x 128"
    solve = {row["way"]: row for row in read_rows(PROMISE, table="solve", data=f"{name} interior")}
    picks = {row["way"]: row for row in read_rows(PROMISE, table="herding", data=f"{name}, identity")}
    slopes = {row["way"]: row["exponent"] for row in read_rows(PROMISE, table="exponents")}
    hashed = solve["Alg. 2, LshIndex"]
    edge = read_rows(PROMISE, table="solve", data=f"{name} boundary", way="Alg. 2, LshIndex")[0]
    cells = {
        "slope": slopes["Alg. 2, LshIndex"],
        "exact_slope": slopes["Alg. 1, Int8Scan"],
        "build": hashed["build_s"],
        "hashed": hashed["seconds"],
        "coded": solve["Alg. 1, Int8Scan"]["seconds"],
        "first": pays(hashed, "pays_from_problems", ""),
        "picks": picks["Alg. 4, LshIndex"]["with_build_s"],
        "exact_picks": picks["Alg. 3, Int8Scan"]["with_build_s"],
        "share": read_check(PROMISE, "picks by LshIndex / by Int8Scan"),
        "few": solve["Alg. 2, RandomSubset 1,000"]["seconds"],
        "rival": _from_problem(hashed),
        "edge": _from_problem(edge),
        "default": solve["minimize, its default"]["seconds"],
    }
    return SUMMARY.format(**{key: show(cell) for key, cell in cells.items()})


def _from_problem(row: Row) -> str:
    """From which problem on a way is ahead of random samples."""
    least = pays(row, "pays_from_problems_against_random", "")
    return "at no number of problems" if least == "never" else f"from problem {show(least)} on"


SUMMARY = """\
- **Sublinear it is.** To the same eps inside the hull, the seconds of Algorithm 2 on `LshIndex` grow like
  n^{slope} from 1e4 to 4e6 atoms, those of Algorithm 1 on `Int8Scan`, the fastest exact oracle, like
  n^{exact_slope}.
- **It pays with its build included, where problems share their atoms.** At 1e6 x 128 a problem takes
  {hashed} s by Algorithm 2 on `LshIndex`, after a build of {build} s, and {coded} s by Algorithm 1 on
  `Int8Scan`: hashing is ahead from problem {first} on. 1,000 picks of herding take {picks} s with the
  build, and {exact_picks} s by exact passes with theirs: {share} of the time
  (`benchmarks/claim_promise.py`).
- **Inside the hull random samples do it too.** The best of 1,000 fresh random atoms per step needs no build
  and {few} s per problem. Hashing is ahead of random samples {rival} inside the hull, and {edge} at its
  boundary, where samples must be confirmed by passes again and again (`benchmarks/claim_promise.py`).
- **Another method needs neither.** `minimize` with its default takes {default} s for the same problem
  (`benchmarks/claim_promise.py`). Its
  method is not one of the paper's; it is the reason why theirs are not the default."""


def plots() -> str:
    """The plots that claim_promise has drawn, with their captions."""
    return PLOTS


PLOTS = """\
![Seconds to the same eps against n, one problem without the build and ten with it](images/promise-n.svg)

*Total time against n, Gaussian atoms in 128 dimensions, targets inside the hull
(`benchmarks/claim_promise.py`).*

![Seconds against c, by hashing, clusters and random samples](images/promise-c.svg)

*Total time against c at 1e6 x 128: the budget of an index, and the size of a random sample, are such that the
mean gap ratio is c, and steps are 2/(ct+2). Left inside the hull, right at its boundary
(`benchmarks/claim_promise.py`).*"""


TABLES: Mapping[str, Callable[[], str]] = {
    **PAPER,
    **JOBS,
    "promise-summary": summary,
    "promise-plots": plots,
    "promise-four": four,
    "promise-solve": solves,
    "promise-herding": herding,
    "promise-growth": growth,
    "policy-whole": policies,
    "policy-steps": steps_of_policies,
    "lsh": rivals,
    "adaptive-planted": planted,
    "adaptive-runs": adaptive,
}


if __name__ == "__main__":
    sys.exit(main())
