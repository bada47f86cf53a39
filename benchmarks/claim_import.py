"""Claim: nobody waits long for the first answer: imports are quick, little is compiled, and that once.

Protocol: all is measured in fresh processes, one at a time, in rounds in which everything takes its turn;
medians of three rounds. CPU seconds are those of the whole process, user and system (`RUSAGE_CHILDREN`), so
that others on the machine change little; Python's own compiled files are there. The reference is a process
that imports numba and compiles one loop, run before every door. A door is a first use of the library, in a
process with an empty folder for kernels, then in the next process, which finds them there:

- minimize, 3 atoms: the example of its docstring; 5,000 atoms: a projection onto 5,000 x 20 atoms;
- herd: 50 of 5,000 x 20 rows; npmle: 2,000 normal means; design: D-optimal, 5,000 x 20 candidates;
- LshIndex, ClusterIndex: built on 5,000 x 20 atoms, and asked one query;
- minimize_many: 100 targets over 300 x 20 and over 20,000 x 20 atoms.

Beside CPU seconds stand the functions that numba compiled (overloads, helpers included) and the kernels on
disk. Imports: `import wolfhound` next to `import numpy`, and `wolfhound --help` and `--version`.

Threshold: an empty folder costs at most 5 times the reference for minimize, herd, npmle and design, 7 times
for LshIndex, ClusterIndex and minimize_many over few atoms, 10 times over many; the next process at most 1.5
times. `import wolfhound` takes at most the CPU seconds of `import numpy`, help and version at most 4 times.
A tiny run uses the kernels that are there.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rig import Claim

PACKAGE = Path(__file__).parents[1] / "src" / "wolfhound"

REFERENCE = """
@numba.njit
def add(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total
good = add(np.ones(9)) == 9.0
"""

INDEX = """
index = wh.{0}.build(rng.standard_normal((5000, 20)))
good = index.query(np.ones((1, 20))).ids[0, 0] >= 0
"""
MANY = """
result = wh.minimize_many(rng.standard_normal((100, 20)), rng.standard_normal(({0}, 20)))
good = result.success
"""


class Door(NamedTuple):
    """A first use of the library: its code, and how many times the reference it may cost."""

    code: str
    limit: float


DOORS = {
    "minimize, 3 atoms": Door(
        "good = wh.minimize(wh.SquaredDistance([1.0, 0.2, 0.0]), np.eye(3)).success", 5.0
    ),
    "minimize, 5,000 atoms": Door(
        "atoms = rng.standard_normal((5000, 20))\n"
        "good = wh.minimize(wh.SquaredDistance(np.full(20, 2.0)), atoms).success",
        5.0,
    ),
    "herd": Door("good = len(wh.herd(rng.standard_normal((5000, 20)), 50).ids) == 50", 5.0),
    "npmle": Door(
        "x = rng.standard_normal(2000) + 3.0 * rng.integers(0, 2, 2000)\n"
        "good = wh.npmle(x, wh.Normal()).success",
        5.0,
    ),
    "design": Door("good = wh.design(rng.standard_normal((5000, 20))).success", 5.0),
    "LshIndex": Door(INDEX.format("LshIndex"), 7.0),
    "ClusterIndex": Door(INDEX.format("ClusterIndex"), 7.0),
    "minimize_many, 300 atoms": Door(MANY.format(300), 7.0),
    "minimize_many, 20,000 atoms": Door(MANY.format(20_000), 10.0),
}
NEXT = 1.5
"""How many times the reference the process after the first may cost."""

SCRIPT = """
import json
import numba
import numpy as np
from numba.core import event
import wolfhound as wh
rng = np.random.default_rng(0)
with event.install_recorder("numba:compile") as compiled:
{code}
print(json.dumps([bool(good), sum(each.is_start for _, each in compiled.buffer)]))
"""


class Run(NamedTuple):
    """What a process took, and what it said: whether it was right, and the overloads that it compiled."""

    cpu: float
    good: bool
    overloads: int = 0
    kernels: int = 0


def run(arguments: Sequence[str], settings: Mapping[str, str]) -> tuple[float, str]:
    """CPU seconds of a fresh process of this interpreter, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def run_code(code: str, settings: Mapping[str, str]) -> Run:
    """Run a door, or the reference, in a process of its own."""
    indented = "\n".join(f"    {line}" for line in code.strip().splitlines())
    cpu, said = run(["-c", SCRIPT.format(code=indented)], settings)
    folder = settings.get("NUMBA_CACHE_DIR")
    kernels = 0 if folder is None else sum(1 for _ in Path(folder).rglob("*.kernel"))
    good, overloads = json.loads(said.splitlines()[-1])
    return Run(cpu, good, overloads, kernels)


def measure_doors(claim: Claim, settings: Mapping[str, str]) -> dict[str, list[Run]]:
    """Run every door after the reference, first with an empty folder for kernels, then with what is there."""
    found: dict[str, list[Run]] = {}
    wanted = {name: door for name, door in DOORS.items() if claim.wants(name)}
    for _ in range(claim.options.repeats):
        for name, door in list(wanted.items())[: 1 if claim.options.tiny else None]:
            with tempfile.TemporaryDirectory() as empty:
                folder = {} if claim.options.tiny else {"NUMBA_CACHE_DIR": empty}
                found.setdefault("reference", []).append(run_code(REFERENCE, settings))
                for turn in ("empty folder", "next process"):
                    made = run_code(door.code, {**settings, **folder})
                    found.setdefault(f"{name}, {turn}", []).append(made)
            claim.say(f"{name}: " + ", ".join(f"{each[-1].cpu:.2f}" for each in list(found.values())[-2:]))
    return found


def measure_imports(claim: Claim, settings: Mapping[str, str]) -> dict[str, list[Run]]:
    """Run processes that only import, and those that only say what there is."""
    found: dict[str, list[Run]] = {}
    for _ in range(claim.options.repeats):
        for module in ("numpy", "wolfhound"):
            code = f"import sys, {module}; print('numba' not in sys.modules)"
            cpu, said = run(["-c", code], settings)
            found.setdefault(f"import {module}", []).append(Run(cpu, said.strip() == "True"))
        for option in ("--help", "--version"):
            cpu, said = run(["-m", "wolfhound", option], settings)
            found.setdefault(f"wolfhound {option}", []).append(Run(cpu, "wolfhound" in said))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=3)
    # Python's compiled files may be switched off here; no program that is installed does without.
    compileall.compile_dir(str(PACKAGE), quiet=2)
    settings = {"PYTHONDONTWRITEBYTECODE": ""}
    found = measure_imports(claim, settings) | measure_doors(claim, settings)
    cpu = {name: statistics.median(each.cpu for each in runs) for name, runs in found.items()}
    for name, runs in found.items():
        counts = {"overloads": runs[-1].overloads, "kernels": runs[-1].kernels}
        told = {"repeats": len(runs)} | ({} if name.startswith(("import", "wolfhound")) else counts)
        times = None if "," not in name else cpu[name] / cpu["reference"]
        claim.row(what=name, cpu_seconds=cpu[name], times_reference=times, **told)
    claim.holds("import wolfhound leaves numba alone", all(each.good for each in found["import wolfhound"]))
    claim.holds("every answer is right", all(each.good for runs in found.values() for each in runs))
    claim.at_most("import wolfhound / import numpy", cpu["import wolfhound"] / cpu["import numpy"], 1.0)
    for option in ("--help", "--version"):
        name = f"wolfhound {option}"
        claim.at_most(f"{name} / import numpy", cpu[name] / cpu["import numpy"], 4.0, full_size=True)
    for name, door in DOORS.items():
        for turn, limit in (("empty folder", door.limit), ("next process", NEXT)):
            if (what := f"{name}, {turn}") in cpu:
                claim.at_most(f"{what} / reference", cpu[what] / cpu["reference"], limit, full_size=True)
    return claim.finish()


if __name__ == "__main__":
    sys.exit(main())
