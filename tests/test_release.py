"""What is released, and the tools that try it: names, bounds, archives, the path of a new user."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import re
import stat
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import check_dist
import environments
import matrix
import pytest
import try_install
from try_install import Step

import wolfhound

ROOT = Path(__file__).parents[1]
VERSION = wolfhound.__version__


# ---------------------------------------------------------------- one version, true bounds


def test_the_version_stands_in_one_place() -> None:
    assert check_dist.read_version() == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_lowest_versions_are_the_declared_bounds() -> None:
    pins = dict(pin.split("==") for pin in matrix.pin_lowest("3.11"))
    declared = (ROOT / "pyproject.toml").read_text()
    assert {"numpy", "typer", "pandas"} <= set(pins)
    assert all(f'"{name}>={bound}' in declared for name, bound in pins.items())


def test_a_newer_interpreter_may_need_a_newer_package() -> None:
    assert "numpy==2.0" in matrix.pin_lowest("3.12")
    assert "numpy==2.1" in matrix.pin_lowest("3.13")


def test_this_interpreter_is_found() -> None:
    found = environments.find_interpreters()
    assert found[f"3.{sys.version_info.minor}"] == Path(sys.executable)
    assert all(re.fullmatch(r"3\.1\d", version) for version in found)


def test_tests_of_the_matrix_exist() -> None:
    assert all((ROOT / path).exists() for path in (*matrix.TESTS, *matrix.NEED_TORCH))


# ---------------------------------------------------------------- archives


def pack(folder: Path, wheel: Sequence[str], sdist: Sequence[str], size: int = 10) -> None:
    """Write archives with these names."""
    with zipfile.ZipFile(folder / f"wolfhound-{VERSION}-py3-none-any.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name.format(version=VERSION), b"0" * size)
    with tarfile.open(folder / f"wolfhound-{VERSION}.tar.gz", "w:gz") as archive:
        for name in sdist:
            archive.addfile(tarfile.TarInfo(f"wolfhound-{VERSION}/{name}"), io.BytesIO())


def test_a_release_that_has_all_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack(tmp_path, check_dist.IN_WHEEL, check_dist.IN_SDIST)
    assert check_dist.main([str(tmp_path)]) == 0
    assert "py3-none-any.whl: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wheel", "sdist", "size", "fault"),
    [
        (check_dist.IN_WHEEL[:1], check_dist.IN_SDIST, 10, "must hold wolfhound/py.typed."),
        ((*check_dist.IN_WHEEL, "tests/a.py"), check_dist.IN_SDIST, 10, "must not hold tests/a.py."),
        (
            (*check_dist.IN_WHEEL, "wolfhound/__pycache__/a.kernel"),
            check_dist.IN_SDIST,
            10,
            "must not hold wolfhound/__pycache__/a.kernel.",
        ),
        (check_dist.IN_WHEEL, check_dist.IN_SDIST[1:], 10, "must hold pyproject.toml."),
        (check_dist.IN_WHEEL, (*check_dist.IN_SDIST, ".env"), 10, "must not hold .env."),
        (check_dist.IN_WHEEL, check_dist.IN_SDIST, 10**6, "must have at most 4,000,000 bytes."),
    ],
)
def test_a_release_with_a_fault_is_refused(
    tmp_path: Path, wheel: Sequence[str], sdist: Sequence[str], size: int, fault: str
) -> None:
    pack(tmp_path, wheel, sdist, size)
    assert any(fault in found for found in check_dist.find_faults(tmp_path))


def test_what_an_older_build_left_is_refused(tmp_path: Path) -> None:
    pack(tmp_path, check_dist.IN_WHEEL, check_dist.IN_SDIST)
    (tmp_path / "wolfhound-0.0.1.tar.gz").touch()
    (fault,) = check_dist.find_faults(tmp_path)
    assert fault.endswith("Got " + ", ".join(sorted(path.name for path in tmp_path.iterdir())) + ".")


# ---------------------------------------------------------------- the path of a new user


@pytest.mark.parametrize(
    ("script", "good"),
    [
        ("echo hello; printf PAR1 > core.parquet", True),
        ("echo hello; printf PAR1 > core.parquet; exit 1", False),
        ("printf PAR1 > core.parquet", False),
        ("echo hello", False),
        ("echo hello; printf CSV > core.parquet", False),
    ],
)
def test_a_step_must_end_well_say_it_and_leave_its_file(tmp_path: Path, script: str, good: bool) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    step = Step(("program",), "hello", (("core.parquet", b"PAR1"),))
    assert try_install.walk(tmp_path, tmp_path, [step]) is good


def test_nothing_of_the_tree_is_on_the_path_of_a_new_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    assert "PYTHONPATH" not in environments.clean_settings()
    assert "PATH" in environments.clean_settings()


def test_six_lines_of_python_are_the_same() -> None:
    assert len(try_install.IN_PYTHON.strip().splitlines()) == 6
    compile(try_install.IN_PYTHON, "six lines", "exec")
