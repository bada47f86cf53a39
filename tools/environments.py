"""Interpreters that are found here, and environments made with them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST, NEWEST = 11, 19
"""Minor versions that are looked for."""


def find_interpreters() -> dict[str, Path]:
    """Return the interpreters by version, such as "3.12": the first of each on PATH, else of pyenv."""
    found: dict[str, Path] = {}
    for path in _list_candidates():
        version = _ask_version(path)
        if version is not None:
            found.setdefault(version, path)
    return {f"3.{minor}": found[f"3.{minor}"] for minor in range(OLDEST, NEWEST) if f"3.{minor}" in found}


def _list_candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    for name in ["python3", *(f"python3.{minor}" for minor in range(OLDEST, NEWEST))]:
        path = shutil.which(name)
        if path is not None:
            yield Path(path)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(root.glob("versions/3.*/bin/python"))


def _ask_version(path: Path) -> str | None:
    """Return "3.12"; None if it does not run, as a shim of pyenv may not, or cannot make environments."""
    script = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def make_environment(folder: Path, interpreter: Path) -> Path:
    """Make an empty environment; return its interpreter."""
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install by pip into an environment; wheels only, as a user without compilers does."""
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
    ]
    subprocess.run([*pip, *arguments], check=True, env=clean_settings())


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this tree into a folder; return it."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def clean_settings() -> Mapping[str, str]:
    """Return the environment variables without those that would bring this tree in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
