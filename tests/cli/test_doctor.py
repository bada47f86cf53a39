"""`wolfhound doctor`: what it tells, also of what is missing, too old or broken."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import json
import sys
from email.message import Message
from pathlib import Path

import pytest

import wolfhound
from tests.cli.conftest import Run
from wolfhound import jit, machine
from wolfhound.cli import _facts as facts
from wolfhound.machine import Calibration

VERSIONS = {"needed": "1.5", "fancy": "2.0", "old-extra": "0.9"}


def declare(*requirements: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wolfhound be installed with these requirements, and VERSIONS of other packages."""
    about = Message()
    for text in requirements:
        about["Requires-Dist"] = text
    for extra in ("more", "rest", "all", "dev"):
        about["Provides-Extra"] = extra

    def version(name: str) -> str:
        if name not in VERSIONS:
            raise importlib.metadata.PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: about)
    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.PLACE, str(tmp_path / "speeds.json"))


def test_it_tells_what_a_report_of_a_bug_needs(run: Run) -> None:
    ran = run("doctor")
    told = {line.split()[0] for line in ran.out.splitlines() if line}
    assert {"wolfhound", "python", "system", "processor", "threads", "blas", "kernels"} <= told
    assert f"wolfhound    {wolfhound.__version__} in {Path(wolfhound.__file__).parent}\n" in ran.out
    assert ran.err == ""


def test_json_has_the_same_facts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    declare("needed>=1.0", monkeypatch=monkeypatch)
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", "3")
    ran = run("doctor", "--json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["settings"]["WOLFHOUND_NUM_THREADS"] == "3"
    assert document["threads"].startswith("3 of ")
    assert document["problems"] == []
    package = {"name": "needed", "bound": ">=1.0", "extras": [], "version": "1.5", "problem": ""}
    assert document["packages"] == [package]


def test_what_is_needed_comes_first_and_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(
        "fancy>=1; extra == 'more'",
        "fancy>=1; extra == 'rest'",
        "wolfhound[more]; extra == 'all'",
        "linter>=1; extra == 'dev'",
        "needed>=1",
        "needed>=1.2; python_version >= '3.11'",
        "needed>=9; python_version >= '4'",
        monkeypatch=monkeypatch,
    )
    found = [(each.name, each.bound, each.extras) for each in facts.list_packages(try_imports=False)]
    assert found == [("needed", ">=1,>=1.2", ()), ("fancy", ">=1", ("more", "rest"))]


def test_missing_and_old_packages_are_problems_and_missing_extras_are_none(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(
        "needed>=2",
        "absent>=1",
        "not-there>=1; extra == 'more'",
        "old-extra>=1; extra == 'rest'",
        monkeypatch=monkeypatch,
    )
    ran = run("doctor")
    assert ran.code == 1
    wrong = [line for line in ran.out.splitlines() if line.startswith("wrong: ")]
    assert wrong == [
        "wrong: needed 1.5 must be >=2",
        "wrong: absent is missing",
        "wrong: old-extra 0.9 must be >=1",
    ]


def test_a_source_tree_declares_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def metadata(name: str) -> Message:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", metadata)
    ran = run("doctor")
    assert ran.code == 0
    assert "run from its source" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        ("raise ImportError('libgone.so: not found')", "ImportError: libgone.so: not found"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the process died of signal 11"),
        ("import sys; sys.exit(3)", "no reason given"),
    ],
)
def test_broken_packages_are_found_by_importing_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, reason: str
) -> None:
    declare("fancy>=1; extra == 'more'", monkeypatch=monkeypatch)
    (tmp_path / "fancy.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (package,) = facts.list_packages(try_imports=True)
    assert package.problem.removeprefix("cannot be imported: ") == reason


def test_what_is_broken_does_not_stop_the_telling(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch=monkeypatch)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setitem(sys.modules, "wolfhound.jit", None)
    monkeypatch.setenv("WOLFHOUND_NUM_THREADS", "many")
    document = json.loads(run("doctor", "--json").out)
    assert document["blas"].startswith("cannot be told: ModuleNotFoundError: ")
    assert document["kernels"].startswith("cannot be told: ModuleNotFoundError: ")
    assert document["threads"].startswith("cannot be told: ValueError: WOLFHOUND_NUM_THREADS must be ")


def test_calibration_is_none_saved_or_damaged(tmp_path: Path) -> None:
    place = tmp_path / "speeds.json"
    assert facts.describe_calibration().startswith(f"none in {place}, ")
    Calibration().save(place)
    assert facts.describe_calibration() == str(place)
    place.write_text("{")
    assert facts.answer(facts.describe_calibration).startswith("cannot be told: CalibrationError: ")


def test_kernels_are_counted_where_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels"
    monkeypatch.setattr(jit, "_folders", lambda: [folder])
    assert facts.describe_kernels() == f"0 compiled, kept in {folder}"
    assert not folder.exists()
    folder.mkdir()
    for name in (f"{jit._SOURCES.digest}-one.kernel", f"{jit._SOURCES.digest}-two.kernel", "stale.kernel"):
        (folder / name).touch()
    assert facts.describe_kernels() == f"2 compiled, kept in {folder}"


def test_a_folder_that_is_a_file_cannot_keep_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "_folders", lambda: [tmp_path / "file" / "kernels"])
    assert "set NUMBA_CACHE_DIR" in facts.describe_kernels()


def test_entry_points_of_other_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("mine", "my_package.kernels", "wolfhound.plugins")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    assert facts.list_plugins() == ["my_package.kernels"]
