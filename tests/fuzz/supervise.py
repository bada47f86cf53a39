"""Runs attacks in worker processes: a death or a hang is a finding, not an accident.

A worker (`worker.py`) prints one JSON line when it begins a case and one when it
has judged some. One that dies or hangs is replaced by another, which goes on with the
next batch. A hang is judged by CPU time (`tests/patience.py`): a busy machine is none.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.patience import PATIENCE, POLL, Watch, cpu_seconds

ROOT = Path(__file__).parents[2]

STARTING = 600.0
"""CPU seconds until the first case: all is imported, and what its module needs at once compiled."""


@dataclass
class Findings:
    """What attacks found.

    Attributes
    ----------
    counts
        How often each thing was done.
    violations
        What was wrong, with its case.
    """

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def take(self, other: Findings) -> None:
        """Add what another found."""
        self.counts.update(other.counts)
        self.violations.extend(other.violations)


def run(module: str, seed: int, batches: range, *, limit: float = 600.0, workers: int = 2) -> Findings:
    """Run the batches of a module's attack in several processes.

    Parameters
    ----------
    module
        Of this folder. Its ``judge(seed, batch)`` yields the name of every case
        before it runs, and `Findings` when it has judged some.
    seed
        Of all cases.
    batches
        Which.
    limit
        CPU seconds that a case may take; kernels that it compiles count.
    workers
        Processes.
    """
    found, lock = Findings(), threading.Lock()

    def attend(first: int) -> None:
        while first < batches.stop:
            part, first = _attend(module, seed, (first, batches.stop, workers), limit)
            with lock:
                found.take(part)

    threads = [threading.Thread(target=attend, args=(first,)) for first in batches[:workers]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _attend(module: str, seed: int, batches: tuple[int, int, int], limit: float) -> tuple[Findings, int]:
    """Watch one worker; return what it found and the batch that comes next."""
    command = [sys.executable, "-m", "tests.fuzz.worker", module, str(seed), *map(str, batches)]
    environment = os.environ | {"WOLFHOUND_NUM_THREADS": os.environ.get("WOLFHOUND_NUM_THREADS", "1")}
    found, case, after = Findings(), "before the first case", batches[0] + batches[2]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        lines = _reader(process.stdout)
        errors = _reader(process.stderr)
        watch = Watch(lambda: cpu_seconds(process.pid), max(limit, STARTING))
        while (line := _next(lines, watch)) is not None:
            if line == "":
                break
            watch.allowed = limit
            said = json.loads(line)
            case = said.get("case", case)
            if "counts" in said:
                found.take(Findings(Counter(said["counts"]), said["violations"]))
            after = said["batch"] + batches[2]
        if line is None:
            process.kill()
            found.counts["hangs"] += 1
            found.violations.append(f"hang: {case}")
            return found, after
        code = process.wait()
    if code != 0:
        found.counts["deaths"] += 1
        found.violations.append(f"death by {code}: {case}: {_last(errors)}")
        return found, after
    return found, batches[1]


def _reader(stream: IO[str] | None) -> queue.Queue[str]:
    """Lines of a stream as they come, then an empty one."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in stream or ():
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _next(lines: queue.Queue[str], watch: Watch) -> str | None:
    """Wait for the next line; None if the process hangs."""
    watch.heard()
    while not watch.hangs():
        with contextlib.suppress(queue.Empty):
            return lines.get(timeout=POLL)
    return None


def _last(lines: queue.Queue[str]) -> str:
    """The last words of a process that has ended."""
    said = ""
    with contextlib.suppress(queue.Empty):  # a child of it that lives on holds the stream
        while line := lines.get(timeout=PATIENCE):
            said = line.strip() or said
    return said
