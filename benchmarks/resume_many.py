"""`minimize_many(out=)` is killed at random moments, and goes on: a part of claim_resume.

`kill_many` starts the run in a process of its own, kills that by SIGKILL after a random
share of the time that a whole run takes, and makes the same call again here. Whatever
the moment, the answer must be that of a run that was never killed, to the bit.

    python benchmarks/resume_many.py FOLDER PROBLEM    # what is killed
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from reference import Matrix

import wolfhound as wh
from wolfhound.many.run import ManyState

COLUMNS = ("indptr", "ids", "weights", "value", "lower", "goal", "codes", "passes")


class Problem(NamedTuple):
    """Targets over atoms."""

    targets: Matrix
    atoms: Matrix


def make_few(tiny: bool) -> Problem:
    """Many targets over few atoms: groups of 16,384."""
    rng = np.random.default_rng(0)
    return Problem(rng.standard_normal((40_000 if tiny else 400_000, 6)), rng.standard_normal((60, 6)))


def make_many(tiny: bool) -> Problem:
    """Targets over many atoms: eight groups, each a chunk that shares its passes."""
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((4_000 if tiny else 20_000, 24))
    return Problem(2.0 * rng.standard_normal((400 if tiny else 4_000, 24)), atoms)


PROBLEMS: dict[str, Callable[[bool], Problem]] = {"few": make_few, "many": make_many}


def kill_many(kills: int, tiny: bool) -> dict[str, float]:
    """Kill runs at random moments; tell how they went on.

    Parameters
    ----------
    kills
        How many, over both regimes in turn.
    tiny
        Whether the problems are small.

    Returns
    -------
    dict
        "kills"; "in_time": those that came before the end of the run; "resumed": those after
        which the same call gave the same answer, to the bit; "kept": mean share of the
        targets that were not solved again.
    """
    rng = np.random.default_rng(7)
    in_time, resumed, kept = 0, 0, []
    whole = {name: _measure(name, tiny) for name in PROBLEMS}
    for turn in range(kills):
        name = list(PROBLEMS)[turn % len(PROBLEMS)]
        known, seconds = whole[name]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            in_time += _kill_after(float(rng.uniform(0.0, seconds)), out, name, tiny)
            share, again = _go_on(out, name, tiny)
            kept.append(share)
            resumed += all(np.array_equal(getattr(known, c), getattr(again, c)) for c in COLUMNS)
    return {"kills": kills, "in_time": in_time, "resumed": resumed, "kept": float(np.mean(kept))}


def _measure(name: str, tiny: bool) -> tuple[wh.ManyResult, float]:
    """The answer without a kill, and how long a process works on it once it is ready."""
    known = wh.minimize_many(*PROBLEMS[name](tiny))
    with tempfile.TemporaryDirectory() as folder:
        process = _start(Path(folder) / "run", name, tiny)
        begin = time.perf_counter()
        process.wait()
        return known, time.perf_counter() - begin


def _start(out: Path, name: str, tiny: bool) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own, and wait until it begins."""
    command = [sys.executable, __file__, str(out), name, *(["--tiny"] if tiny else [])]
    source = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": source})
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _kill_after(seconds: float, out: Path, name: str, tiny: bool) -> bool:
    """Kill a run; False if it was over before."""
    process = _start(out, name, tiny)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    return process.returncode < 0


def _go_on(out: Path, name: str, tiny: bool) -> tuple[float, wh.ManyResult]:
    """Make the same call again; return the share that was there, and the answer."""
    states: list[ManyState] = []
    result = wh.minimize_many(*PROBLEMS[name](tiny), out=out, callback=states.append)
    before = states[0].before if states else len(result)
    return before / len(result), result


def main(argv: list[str]) -> int:
    """Run what is to be killed: says that it begins, then solves."""
    out, name, *tiny = argv
    targets, atoms = PROBLEMS[name](bool(tiny))
    wh.minimize_many(targets[:8], atoms)  # kernels are compiled or read before
    print("begin", flush=True)
    wh.minimize_many(targets, atoms, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
