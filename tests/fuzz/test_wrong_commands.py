"""Every wrong use of the command line: exit code 2, one line that names it, and nothing is written."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import wolfhound
from tests.fuzz.wrong_commands import COMMANDS, IN_A_PROCESS, Wrong, contents, make_files
from wolfhound.cli._app import app
from wolfhound.core import progress


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files: no command may change it."""
    folder = tmp_path_factory.mktemp("wrong")
    make_files(folder)
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, made the current one, and no progress told."""
    monkeypatch.setattr(progress, "_LINE_INTERVAL", math.inf)
    monkeypatch.chdir(made)
    return made


def check(wrong: Wrong, code: int, out: str, err: str) -> None:
    """One line that says what was wrong, and nothing else."""
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert wrong.words in err


def test_there_are_many() -> None:
    assert len({wrong.line for wrong in COMMANDS}) == len(COMMANDS) >= 150


@pytest.mark.slow
@pytest.mark.parametrize("wrong", COMMANDS, ids=lambda wrong: wrong.line[:60])
def test_it_is_told_in_one_line(folder: Path, wrong: Wrong) -> None:
    before = contents(folder)
    ran = CliRunner().invoke(app, wrong.line.split(), catch_exceptions=False)
    check(wrong, ran.exit_code, ran.stdout, ran.stderr)
    assert contents(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("wrong", IN_A_PROCESS, ids=lambda wrong: wrong.line[:60])
def test_it_is_told_in_one_line_by_a_process(folder: Path, wrong: Wrong) -> None:
    before = contents(folder)
    env = {**os.environ, "PYTHONPATH": str(Path(wolfhound.__file__).parents[1])}
    command = [sys.executable, "-m", "wolfhound", *wrong.line.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    check(wrong, ran.returncode, ran.stdout, ran.stderr)
    assert contents(folder) == before
