"""The tool that runs tests as other machines would: its variants, what they set, what it says."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import any_machine
import pytest
from any_machine import Variant

from tests.conftest import TESTS

CORES = {"haswell", "zen", "skylakex", "sandybridge", "prescott"}


def test_the_kernels_that_are_tried() -> None:
    found = any_machine.list_variants()
    assert {*CORES, "numba-generic", "numba-v2", "numba-v3", "numpy-v2", "v2", "v3", "busy"} <= found.keys()
    assert {found[name].settings["OPENBLAS_CORETYPE"].lower() for name in CORES} == CORES
    assert found["v2"].settings["NUMBA_CPU_FEATURES"] == found["numba-v2"].settings["NUMBA_CPU_FEATURES"]
    assert "avx2" not in found["v2"].settings["NUMBA_CPU_FEATURES"]
    assert "+avx2" in found["v3"].settings["NUMBA_CPU_FEATURES"]
    assert "avx512" not in found["v3"].settings["NUMBA_CPU_FEATURES"]


def test_a_variant_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        any_machine.main(["haswell", "nehalem"])
    assert "VARIANT must be one of haswell, zen," in (said := capsys.readouterr().err)
    assert said.endswith("Got nehalem.\n")


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert any_machine.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(any_machine.list_variants())


def test_kernels_that_the_cpu_has_not_are_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_machine, "read_flags", lambda: frozenset({"avx2"}))
    assert any_machine.run("other", Variant({}, ("avx2", "avx512f")), [])
    assert capsys.readouterr().out == "SKIP other: this CPU has no avx512f\n"


@pytest.mark.parametrize(
    ("text", "flags"), [("flags\t\t: sse avx2\n", {"sse", "avx2"}), ("Features: a\n", set())]
)
def test_flags_of_the_cpu(tmp_path: Path, text: str, flags: set[str]) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{text}")
    assert any_machine.read_flags(tmp_path / "cpuinfo") == flags


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "word"), [("other", "PASS"), ("host", "FAIL")])
def test_one_line_for_a_variant(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wanted: str,
    word: str,
) -> None:
    test = tmp_path / "test_set.py"
    test.write_text(f"import os\ndef test_set():\n    assert os.environ['KIND'] == {wanted!r}\n")
    monkeypatch.setattr(any_machine, "PLACE", tmp_path / "build")
    good = any_machine.run("mine", Variant({"KIND": "other"}, beside=1), ["-c", "/dev/null", str(test)])
    first, *more = capsys.readouterr().out.splitlines()
    assert (good, first.startswith(f"{word} mine: 1 ")) == (word == "PASS", True)
    assert first.endswith(" CPU s")
    assert bool(more) is not good


CODE_OF_A_MACHINE = (
    "from numba.core.registry import cpu_target; print(cpu_target.target_context.codegen().magic_tuple())"
)


@pytest.mark.slow
def test_compiled_kernels_of_two_machines_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    told = set()
    for name in ("numba-generic", "numba-v2", "numba-v3"):
        with monkeypatch.context() as patch:
            for key, value in any_machine.list_variants()[name].settings.items():
                patch.setenv(key, value)
            told.add(
                subprocess.run(
                    [sys.executable, "-c", CODE_OF_A_MACHINE], capture_output=True, check=True
                ).stdout
            )
    assert len(told) == 3


@pytest.mark.slow
def test_what_depends_on_the_machine_is_marked() -> None:
    listed = [sys.executable, "-m", "pytest", "-q", "--co", "-n", "0", "-p", "no:cacheprovider"]
    chosen = ["tests/herding/test_recorded.py", "tests/test_structure.py", "src/wolfhound/core/rounding.py"]
    command = [*listed, "-m", "numerical and (recorded or not slow)", *chosen]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert files == {"tests/herding/test_recorded.py", "src/wolfhound/core/rounding.py"}
