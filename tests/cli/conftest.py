"""A small set of atoms in files, and a way to run commands on them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from typer.testing import CliRunner

from wolfhound.cli._app import app
from wolfhound.core import progress

NAMES = tuple(f"atom-{i}" for i in range(60))


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Run: TypeAlias = Callable[..., Ran]


def words(text: str) -> str:
    """Return text without escape codes, boxes and line breaks: whatever the width."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; it reports no progress, however slow the machine."""
    monkeypatch.setattr(progress, "_LINE_INTERVAL", math.inf)

    def call(*arguments: object) -> Ran:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def rows() -> np.ndarray[Any, np.dtype[np.float64]]:
    """60 atoms in 5 dimensions."""
    return np.random.default_rng(7).standard_normal((60, 5))


@pytest.fixture
def folder(
    tmp_path: Path, rows: np.ndarray[Any, np.dtype[np.float64]], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder, made the current one, with atoms, names, and files for every objective."""
    rng = np.random.default_rng(8)
    np.save(tmp_path / "atoms.npy", rows)
    np.save(tmp_path / "points.npy", 2.0 * rng.standard_normal((3, 5)))
    np.save(tmp_path / "point.npy", np.full(5, 3.0))
    np.save(tmp_path / "A.npy", rng.standard_normal((20, 5)))
    np.save(tmp_path / "b.npy", rng.standard_normal(20))
    np.save(tmp_path / "y.npy", np.where(rng.random(20) < 0.5, -1.0, 1.0))
    np.save(tmp_path / "likelihoods.npy", rng.random((60, 5)) + 0.1)
    (tmp_path / "names.txt").write_text("\n".join(NAMES) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
