"""Who hangs, by CPU time: a slow clock is no hang, a process without progress is one."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.patience import IDLE_POLLS, PATIENCE, Watch, cpu_seconds


def polls_until_a_hang(readings: Iterable[float], allowed: float) -> int:
    """How often a process with these CPU times was found to be alive."""
    told = iter(readings)
    watch = Watch(lambda: next(told), allowed)
    return next(i for i in range(10**6) if watch.hangs())


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.02])
def test_a_busy_machine_stretches_what_is_allowed(share: float) -> None:
    polls = polls_until_a_hang((share * poll for poll in range(10**6)), allowed=60.0)
    assert polls == pytest.approx(60.0 / share, abs=1.5)


@pytest.mark.parametrize(
    "readings",
    [
        lambda poll: 5.0,
        lambda poll: 1e-4 * poll,  # it looks again and again, and sleeps
        lambda poll: float(min(poll, 50)),
    ],
)
def test_without_progress_it_hangs(readings: object) -> None:
    assert callable(readings)
    polls = polls_until_a_hang(map(readings, range(10**6)), allowed=60.0)
    assert IDLE_POLLS - 1 <= polls <= IDLE_POLLS + 50


def test_a_word_begins_all_anew() -> None:
    told = iter(range(10**6))
    watch = Watch(lambda: 10.0 * next(told), allowed=25.0)
    for _ in range(3):
        assert [watch.hangs(), watch.hangs(), watch.hangs()] == [False, False, True]
        watch.heard()


BURN = "import time\nwhile time.process_time() < 1.0: pass\n"
AS_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n"
THEN_WAIT = "print('done', flush=True)\ninput()\n"


@pytest.mark.slow
@pytest.mark.parametrize("work", [BURN, AS_A_CHILD], ids=["itself", "its child"])
def test_what_a_process_and_its_children_took_is_known(work: str) -> None:
    command = [sys.executable, "-c", work + THEN_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert cpu_seconds(process.pid) >= 0.9
        process.communicate("\n", timeout=PATIENCE)


@pytest.mark.slow
def test_a_child_that_still_runs_counts() -> None:
    inner = f"{BURN}{THEN_WAIT}"
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\n"
    command = [sys.executable, "-c", outer]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert cpu_seconds(process.pid) >= 0.9
        process.communicate("\n", timeout=PATIENCE)


WAITS = re.compile(r"\b(?:timeout|deadline)\s*=\s*[\d(]|\.(?:wait|join|result)\([1-9]")
TESTS = Path(__file__).parent


def test_no_other_number_of_seconds_ends_a_test() -> None:
    texts = {path.relative_to(TESTS): path.read_text() for path in TESTS.rglob("*.py")}
    assert [f"{path}: {found[0]}" for path, text in texts.items() for found in WAITS.finditer(text)] == []
