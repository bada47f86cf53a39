"""Claim: `import wolfhound` and `wolfhound --help` are quick, and kernels are compiled once.

Protocol: every number comes from fresh processes, medians of interleaved repeats.
Import: `import wolfhound` next to `import numpy` alone. First solve: a projection
onto the hull of 5,000 x 20 atoms, with an empty numba cache folder (it compiles),
then in new processes with the cache that this left. The seconds of the solve call
include loading numba and the kernels; those of the whole process are reported. Help
and version: `python -m wolfhound --help` and `--version`, from the start of the process
to its end, with Python's own compiled files there.

Threshold: import under 0.3 s; help and version under 0.5 s; the first solve at most
15 s with an empty cache and under 1 s with a filled one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rig import Claim, Timed, interleave

IMPORT = """
import json, sys, time
begin = time.perf_counter()
import {module}
print(json.dumps([time.perf_counter() - begin, "numba" not in sys.modules]))
"""
SOLVE = """
import json, time
import numpy as np
import wolfhound
atoms = np.random.default_rng(0).standard_normal((5000, 20)).astype(np.float32)
begin = time.perf_counter()
result = wolfhound.minimize(wolfhound.SquaredDistance(np.full(20, 2.0)), atoms)
print(json.dumps([time.perf_counter() - begin, bool(result.gap <= result.goal)]))
"""


class Answer(NamedTuple):
    """What a fresh process printed: the seconds it measured, and a fact."""

    seconds: float
    good: bool


def run(script: str, settings: Mapping[str, str]) -> Answer:
    """Run a script in a fresh process with these environment variables."""
    environment = {**os.environ, **settings}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return Answer(*json.loads(done.stdout.splitlines()[-1]))


def ask(option: str, settings: Mapping[str, str]) -> Answer:
    """Run the command line in a fresh process; the seconds are those of the whole process."""
    environment = {**os.environ, **settings}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wolfhound", option],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(time.perf_counter() - begin, done.returncode == 0 and "wolfhound" in done.stdout)


def time_commands(repeats: int) -> dict[str, Timed[Answer]]:
    """Time help and version, after one run each that fills Python's cache."""
    with tempfile.TemporaryDirectory() as compiled:
        # The cache may be switched off here; no program that is installed does without.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        asked = {option: functools.partial(ask, option, kept) for option in ("--help", "--version")}
        interleave(asked, repeats=1)
        return interleave(asked, repeats=repeats)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv)
    repeats, tiny = claim.options.repeats, claim.options.tiny
    with tempfile.TemporaryDirectory() as empty:
        # Compiling takes a minute on a busy machine: a tiny run uses the cache that is there.
        settings = {} if tiny else {"NUMBA_CACHE_DIR": empty}
        timed = interleave(
            {
                f"import {module}": functools.partial(run, IMPORT.format(module=module), settings)
                for module in ("numpy", "wolfhound")
            },
            repeats=repeats,
        )
        timed |= time_commands(repeats)
        timed |= interleave({"solve, empty cache": functools.partial(run, SOLVE, settings)}, repeats=1)
        timed |= interleave({"solve, filled cache": functools.partial(run, SOLVE, settings)}, repeats=repeats)
    for name, answers in timed.items():
        claim.row(
            what=name, seconds=middle(answers), process_seconds=answers.median, repeats=len(answers.seconds)
        )
    claim.holds("import wolfhound leaves numba alone", all(a.good for a in timed["import wolfhound"].answers))
    asked = timed["--help"].answers + timed["--version"].answers
    claim.holds("help and version are printed", all(answer.good for answer in asked))
    solves = timed["solve, empty cache"].answers + timed["solve, filled cache"].answers
    claim.holds("every solve is proved", all(answer.good for answer in solves))
    for name, limit in {
        "import wolfhound": 0.3,
        "--help": 0.5,
        "--version": 0.5,
        "solve, empty cache": 15.0,
        "solve, filled cache": 1.0,
    }.items():
        claim.at_most(f"{name}: seconds", middle(timed[name]), limit, full_size=True)
    return claim.finish()


def middle(timed: Timed[Answer]) -> float:
    """Median of the seconds that the processes measured themselves."""
    return statistics.median(answer.seconds for answer in timed.answers)


if __name__ == "__main__":
    sys.exit(main())
