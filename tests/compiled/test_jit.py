"""Compiled kernels on disk: never stale, never in the way.

A small copy of the package, with two kernel files of its own, is run in processes
of their own.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wolfhound.compiled import jit

PACKAGE = Path(str(jit.__file__)).parents[1]
CALLEE = """\
from wolfhound.compiled.jit import kernel

@kernel
def inner(x):
    return x + 1
"""
CALLER = """\
from wolfhound._callee import inner
from wolfhound.core.rounding import UNIT
from wolfhound.compiled.jit import kernel

@kernel
def outer(x):
    return inner(x) + UNIT
"""
CALL = "print(outer(1.0), sum(outer.stats.cache_hits.values()))"
IMPORT = "from wolfhound._caller import outer\n"


def environment(folder: Path, **extra: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    return own | {"PYTHONPATH": str(folder), "HOME": str(folder)} | extra


def start(folder: Path, code: str = IMPORT + CALL, **extra: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    env = environment(folder, **extra)
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder: Path, code: str = IMPORT + CALL, **extra: str) -> tuple[float, int, str]:
    """Return outer(1), how many kernels came from disk, and what was said."""
    process = start(folder, code, **extra)
    out, err = process.communicate()
    assert process.returncode == 0, err
    value, hits = out.split()
    return float(value), int(hits), err


def install(folder: Path) -> Path:
    inside = folder / "wolfhound"
    inside.mkdir(parents=True)
    shutil.copy(PACKAGE / "__init__.py", inside)
    for room in ("core", "compiled"):
        shutil.copytree(PACKAGE / room, inside / room, ignore=shutil.ignore_patterns("__pycache__"))
    (inside / ".#core.py").symlink_to("an editor's lock")
    (inside / "_callee.py").write_text(CALLEE)
    (inside / "_caller.py").write_text(CALLER)
    return folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose kernels are on disk."""
    folder = install(tmp_path_factory.mktemp("compiled") / "site")
    assert run(folder) == (2.0, 0, "")
    return folder


@pytest.fixture
def site(compiled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled, tmp_path / "site", symlinks=True))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel*"))


@pytest.mark.slow
def test_the_next_process_loads_what_the_first_compiled(site: Path) -> None:
    assert run(site) == (2.0, 1, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "value"),
    [("_callee.py", "x + 1", "x + 7", 8.0), ("core/rounding.py", "UNIT = 2.0**-53", "UNIT = 0.5", 2.5)],
)
def test_an_edit_of_another_file_is_seen(site: Path, file: str, old: str, new: str, value: float) -> None:
    before = kept(site)
    edit(site / "wolfhound" / file, old, new)
    assert run(site) == (value, 0, "")
    assert len(kept(site)) == len(before)
    assert set(kept(site)).isdisjoint(before)


@pytest.mark.slow
def test_a_process_whose_files_change_under_it_keeps_nothing(tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    path = site / "wolfhound" / "_callee.py"
    change = f"import pathlib; pathlib.Path({str(path)!r}).write_text({CALLEE.replace('+ 1', '+ 70')!r})\n"
    assert run(site, IMPORT + change + CALL) == (2.0, 0, "")
    assert kept(site) == []
    assert run(site) == (71.0, 0, "")


def shorten(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [shorten, flip])
def test_a_damaged_file_is_compiled_again(site: Path, damage: Callable[[bytes], bytes]) -> None:
    before = {path: path.read_bytes() for path in site.rglob("__pycache__/*.[kn]*")}
    for path, data in before.items():
        path.write_bytes(damage(data))
    assert run(site) == (2.0, 0, "")
    assert set(kept(site)) == set(before)
    assert run(site) == (2.0, 1, "")


@pytest.mark.slow
def test_several_processes_may_compile_at_once(tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    together = [start(site) for _ in range(3)]
    answers = [process.communicate() for process in together]
    assert [(out.split()[0], err) for out, err in answers] == [("2.0", "")] * 3
    assert [path.suffix for path in kept(site)] == [".kernel"] * 2
    assert run(site) == (2.0, 1, "")


# ---------------------------------------------------------------- where they are kept


def lock(site: Path) -> Path:
    """Leave no place for a cache: a file where its folder would be stops root too."""
    shutil.rmtree(site / "wolfhound" / "__pycache__", ignore_errors=True)
    (site / "wolfhound" / "__pycache__").touch()
    return site / "wolfhound" / "__init__.py" / "home"


@pytest.mark.slow
def test_without_any_place_it_compiles_and_says_so_once(site: Path) -> None:
    home = str(lock(site))
    value, hits, said = run(site, HOME=home)
    assert (value, hits) == (2.0, 0)
    assert said.count("\n") == 1
    assert re.match(
        r"wolfhound: compiled kernels cannot be kept \(tried .*\), .*Set NUMBA_CACHE_DIR to", said
    )
    assert home in said


@pytest.mark.slow
def test_a_locked_package_keeps_them_in_the_users_cache(site: Path, tmp_path: Path) -> None:
    lock(site)
    home = tmp_path / "home"
    assert run(site, HOME=str(home)) == (2.0, 0, "")
    assert run(site, HOME=str(home)) == (2.0, 1, "")
    assert len(kept(home / ".cache" / "wolfhound")) == 2
    assert run(site, XDG_CACHE_HOME=str(tmp_path / "xdg")) == (2.0, 0, "")
    assert len(kept(tmp_path / "xdg" / "wolfhound")) == 2


@pytest.mark.slow
def test_the_folder_that_numba_was_told_is_the_only_one(site: Path, tmp_path: Path) -> None:
    named = str(tmp_path / "named")
    assert run(site, NUMBA_CACHE_DIR=named) == (2.0, 0, "")
    assert run(site, NUMBA_CACHE_DIR=named) == (2.0, 1, "")


def test_a_function_without_a_file_is_compiled_and_not_kept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(jit, "_folders", lambda: [tmp_path])
    space: dict[str, Any] = {}
    exec(compile("def twice(x):\n    return 2 * x", "<prompt>", "exec"), space)
    assert jit.kernel(space["twice"])(4) == 8
    assert kept(tmp_path) == []


def test_all_that_kernel_files_import_is_part_of_the_key() -> None:
    hashed = {path for path, _ in jit._SOURCES.stamps}
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in hashed}
    texts = [path.read_text() for path in hashed]
    lines = re.compile(r"^(?:from|import) (wolfhound[\w.]*)(?: import (\w+))?", re.M)
    found = [pair for text in texts for pair in lines.findall(text)]
    imported = {name if name in modules else f"{name}.{member}" for name, member in found}
    assert "wolfhound.data.atoms" not in modules
    assert {"wolfhound.compiled.jit", "wolfhound.oracles.int8.layout"} <= imported
    assert imported <= modules
