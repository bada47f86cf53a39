"""`wolfhound doctor`: what it tells, also of what is missing or broken."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

import wolfhound
from tests.cli.conftest import Run
from wolfhound.compiled import jit


def test_it_tells_what_a_report_of_a_bug_needs(run: Run) -> None:
    ran = run("doctor")
    told = {line.split()[0] for line in ran.out.splitlines() if line}
    assert {"wolfhound", "python", "numpy", "numba", "blas", "threads", "kernels"} <= told
    assert f"wolfhound    {wolfhound.__version__} in {Path(wolfhound.__file__).parent}\n" in ran.out
    assert (ran.code, ran.err) == (0, "")


def test_extras_are_there_or_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "numpy>=2.0",
        "pytest>=1; extra == 'more'",
        "not-there-1>=1,<2; extra == 'more'",
        "wolfhound[more]; extra == 'all'",
        "linter>=1; extra == 'dev'",
        'numpy>=2; python_version >= "3.11" and extra == "rest"',
    )
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", "3")
    document = json.loads(run("doctor", "--json").out)
    there = importlib.metadata.version("pytest")
    assert document["[more]"] == f"pytest {there}, not-there-1 is not installed"
    assert document["[rest]"] == f"numpy {importlib.metadata.version('numpy')}"
    assert [name for name in document if name.startswith("[")] == ["[more]", "[rest]"]
    assert document["threads"].startswith("3 of ")


def test_what_is_broken_does_not_stop_the_telling(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setitem(sys.modules, "wolfhound.compiled.jit", None)
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", "many")
    document = json.loads(run("doctor", "--json").out)
    assert document["numbers"].startswith("cannot be told: ModuleNotFoundError(")
    assert document["kernels"].startswith("cannot be told: ModuleNotFoundError(")
    assert document["threads"].startswith("cannot be told: ValueError(")
    assert document["extras"].startswith("cannot be told: PackageNotFoundError(")


def test_kernels_are_counted_where_they_are_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell() -> str:
        return str(json.loads(run("doctor", "--json").out)["kernels"])

    folder = tmp_path / "kernels"
    monkeypatch.setattr(jit, "_folders", lambda: [folder])
    assert tell() == f"0 compiled, kept in {folder}"
    assert not folder.exists()
    folder.mkdir()
    for name in (f"{jit._SOURCES.digest}-one.kernel", f"{jit._SOURCES.digest}-two.kernel", "stale.kernel"):
        (folder / name).touch()
    assert tell() == f"2 compiled, kept in {folder}"
    monkeypatch.setattr(jit, "_folders", lambda: [folder / "stale.kernel" / "kernels"])
    assert "set NUMBA_CACHE_DIR" in tell()
