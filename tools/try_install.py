"""Walk the path of a new user: the built wheel, an empty environment, a first file.

The environment lies outside this tree, and nothing of this tree is on its path. Every
command must end with 0 and print what it promises; every file must be there and be what
its name says.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, build_wheel, clean_settings, install, make_environment

EXTRAS = "data"
ROWS = 500

IN_PYTHON = f"""
import pandas as pd
import wolfhound as wh
flights = pd.read_csv("flights.csv")
core = wh.herd(flights, {ROWS}, by="carrier")
core.frame.to_parquet("python.parquet")
wh.report(core, "python.html")
"""
LOOK = """
import sys, pandas as pd
chosen, flights = pd.read_parquet(sys.argv[1]), pd.read_csv("flights.csv")
assert len(chosen) == int(sys.argv[2]), len(chosen)
assert set(chosen["carrier"]) <= set(flights["carrier"]), sorted(set(chosen["carrier"]))
assert flights.isna().any(axis=None), "the table is to have missing values"
"""


class Step(NamedTuple):
    """A command of a new user, what it prints, and the files that it leaves, with their first bytes."""

    command: tuple[str, ...]
    says: str = ""
    leaves: tuple[tuple[str, bytes], ...] = ()


HERD = "herd flights.csv -m {rows} --by carrier -o core.parquet --report r.html"
STEPS = (
    Step(("wolfhound", "--version"), "wolfhound "),
    Step(("wolfhound", "--help"), "Start here:"),
    Step(("wolfhound", "demo"), "king", (("wolfhound-demo.png", b"\x89PNG"),)),
    Step(("wolfhound", "doctor"), ", kept in "),
    Step(
        ("wolfhound", *HERD.format(rows=ROWS).split()),
        leaves=(("core.parquet", b"PAR1"), ("r.html", b"<!doctype html")),
    ),
    Step(("python", "-c", LOOK, "core.parquet", str(ROWS))),
    Step(
        ("python", "-c", IN_PYTHON), leaves=(("python.parquet", b"PAR1"), ("python.html", b"<!doctype html"))
    ),
    Step(("python", "-c", LOOK, "python.parquet", str(ROWS))),
)


def find_fault(step: Step, done: subprocess.CompletedProcess[str], folder: Path) -> str:
    """Return what is wrong with a step that ran; empty: nothing."""
    if done.returncode != 0:
        return f"it ended with {done.returncode}"
    if step.says not in done.stdout:
        return f"it did not say {step.says!r}"
    for name, first in step.leaves:
        path = folder / name
        if not path.exists():
            return f"it left no {name}"
        if not path.read_bytes().lower().startswith(first.lower()):
            return f"{name} does not begin with {first!r}"
    return ""


def walk(binaries: Path, folder: Path, steps: Sequence[Step] = STEPS) -> bool:
    """Take the steps in a folder until one fails; say whether none did."""
    for step in steps:
        name, *arguments = step.command
        shown = (
            " ".join([name, *arguments]) if name == "wolfhound" else "the same in Python, and a look at it"
        )
        done = subprocess.run(
            [binaries / name, *arguments],
            cwd=folder,
            env=clean_settings(),
            capture_output=True,
            text=True,
            check=False,
        )
        fault = find_fault(step, done, folder)
        print(f"{'FAIL' if fault else 'PASS'} {shown}", flush=True)
        if fault:
            print(f"{fault}\n{done.stdout}{done.stderr}")
            return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Build, install, walk; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="Makes the environment.")
    options = parser.parse_args(argv)
    (flights,) = ROOT.glob("tests/data/**/flights.csv")
    with tempfile.TemporaryDirectory(prefix="wolfhound-") as name:
        folder = Path(name)
        python = make_environment(folder / "environment", options.python)
        install(python, f"{build_wheel(folder)}[{EXTRAS}]")
        (folder / "work").mkdir()
        shutil.copy(flights, folder / "work" / "flights.csv")
        return 0 if walk(python.parent, folder / "work") else 1


if __name__ == "__main__":
    sys.exit(main())
