"""Runs that are killed, or whose disk is full: what is finished stays, and the same call goes on."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.many.test_gram_solver import normal
from tests.many.test_many import ATOMS, same, small_groups
from wolfhound.core.contracts import Status
from wolfhound.data import store
from wolfhound.many.run import ManyState

__all__ = ["small_groups"]

TARGETS = normal(1000, 5)

KILLED = """
import os, sys, threading
import wolfhound as wh
from tests.many.test_many import ATOMS
from tests.many.test_resume import TARGETS
from wolfhound.data import store
from wolfhound.many import run
run.GROUPED = 256
owner = store.ArrayWriter if sys.argv[2] == "write" else store
calls, real = [], getattr(owner, sys.argv[2])

def hang(*args, **options):
    calls.append(args)
    if len(calls) == int(sys.argv[3]):
        print("here", flush=True)
        threading.Event().wait()
    return real(*args, **options)

setattr(owner, sys.argv[2], hang)
wh.minimize_many(TARGETS, ATOMS, out=sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    ("where", "call", "there"),
    [("write", 12, 256), ("open_atomically", 1, 0), ("open_atomically", 4, 512)],
    ids=["an array", "what is run", "a file"],
)
def test_a_killed_run_goes_on(where: str, call: int, there: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "out"), where, str(call)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.kill()
    states: list[ManyState] = []
    result = wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out", callback=states.append)
    assert states[0].before == there
    assert same(result, wh.minimize_many(TARGETS, ATOMS))
    assert same(wh.load(tmp_path / "out"), result)


@pytest.mark.usefixtures("small_groups")
def test_a_full_disk_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = store.ArrayWriter.write, []

    def fail(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(store.ArrayWriter, "write", fail)
    with pytest.raises(OSError, match="`out` must be writable, with room: No space left") as told:
        wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out")
    assert told.value.errno == errno.ENOSPC
    part = wh.load(tmp_path / "out")
    assert set(part.status[:256]) == {Status.GAP_REACHED}
    assert set(part.status[256:]) == {Status.INTERRUPTED}
    assert not (tmp_path / "out" / "targets-0000000256.safetensors").exists()
    assert same(wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out"), wh.minimize_many(TARGETS, ATOMS))


def test_a_folder_that_goes_away_is_missed(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def remove(state: ManyState) -> None:
        (out / store.RUN_FILE).unlink(missing_ok=True)

    with pytest.raises(FileNotFoundError, match="`out` must stay where it is"):
        wh.minimize_many(normal(40_000, 5), ATOMS, out=out, callback=remove)


@pytest.mark.usefixtures("small_groups")
def test_targets_that_are_not_solved_yet_count_too(tmp_path: Path) -> None:
    wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out", callback=lambda state: True)
    other = TARGETS.copy()
    other[-1] += 1.0
    with pytest.raises(store.StoreError, match="Got other targets"):
        wh.minimize_many(other, ATOMS, out=tmp_path / "out")


@pytest.mark.usefixtures("small_groups")
def test_a_generator_is_told_from_another(tmp_path: Path) -> None:
    one, two = np.random.default_rng(1), np.random.default_rng(2)
    wh.minimize_many(TARGETS[:9], ATOMS, out=tmp_path / "out", seed=one)
    with pytest.raises(store.StoreError, match="Got seed"):
        wh.minimize_many(TARGETS[:9], ATOMS, out=tmp_path / "out", seed=two)
    again = wh.minimize_many(TARGETS[:9], ATOMS, out=tmp_path / "out", seed=np.random.default_rng(1))
    assert again.success


@pytest.mark.usefixtures("small_groups")
def test_answers_on_disk_are_not_in_memory(tmp_path: Path) -> None:
    result = wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out")
    for column in (result.ids, result.weights, result.value, result.indptr):
        assert isinstance(column.base, np.memmap)
    assert sorted(path.name for path in (tmp_path / "out").iterdir())[0] == "run.safetensors"
    (tmp_path / "out").chmod(0o500)
    assert same(wh.load(tmp_path / "out"), result)
    (tmp_path / "out").chmod(0o700)
    result.save(tmp_path / "saved")
    assert same(wh.load(tmp_path / "saved"), result)
