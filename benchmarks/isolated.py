"""Packages that run in environments of their own: installed once, called by file.

A tool is installed by pip, by name and version, into a folder of the data cache. A
call hands it arrays and gets arrays back; it measures its own seconds, so that neither
the start of Python nor the files count.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import data
import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_BEFORE = """
import os, pathlib, sys, time
import numpy as np
threads = int(sys.argv[3])
given = {path.stem: np.load(path) for path in pathlib.Path(sys.argv[1]).iterdir()}
"""
_AFTER = """
for name, value in answer.items():
    np.save(pathlib.Path(sys.argv[2]) / name, value)
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """A package and how it is called.

    Attributes
    ----------
    name : str
        The package, and its folder.
    packages : tuple of str
        What pip is asked for.
    script : str
        Reads the dict of arrays `given` and the number `threads`, sets the dict of arrays `answer`.
    """

    name: str
    packages: tuple[str, ...]
    script: str


def install(tool: Tool) -> Path:
    """Python of the tool's environment, which is made on first use.

    Raises
    ------
    RuntimeError
        If it cannot be made.
    """
    folder = data.folder() / tool.name
    python, ready = folder / "bin" / "python", folder / "ready"
    wanted = "\n".join(tool.packages)
    if not ready.exists() or ready.read_text() != wanted:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], threads=1, limit=600.0)
        quiet = ("-q", "--disable-pip-version-check")
        _run([str(python), "-m", "pip", "install", *quiet, *tool.packages], threads=1, limit=600.0)
        ready.write_text(wanted)
    return python


def call(tool: Tool, given: Arrays, *, threads: int, limit: float) -> dict[str, NDArray[Any]]:
    """Run the tool's script on arrays, for at most `limit` seconds.

    Raises
    ------
    RuntimeError
        If it cannot be installed, fails, or takes too long; the text says which.
    """
    python = install(tool)
    with tempfile.TemporaryDirectory() as work:
        script, question, answer = (Path(work) / name for name in ("call.py", "given", "answer"))
        script.write_text(_BEFORE + tool.script + _AFTER)
        question.mkdir()
        answer.mkdir()
        for name, value in given.items():
            np.save(question / name, value)
        command = [str(python), str(script), str(question), str(answer), str(threads)]
        _run(command, threads=threads, limit=limit)
        return {path.stem: np.load(path) for path in answer.iterdir()}


def _run(command: list[str], *, threads: int, limit: float) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = os.environ | dict.fromkeys(names, str(threads))
    settings.pop("PYTHONPATH", None)
    what = " ".join(command[1:3]) if command[1] == "-m" else "its script"
    try:
        subprocess.run(command, env=settings, check=True, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not finished within {limit:g} s") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{what} failed: {_last_words(error.stderr)}") from None
    except OSError as error:
        raise RuntimeError(f"{what} failed: {error.strerror}") from None


def _last_words(text: str) -> str:
    # Results are published: no addresses and no folders of this machine.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"\S*/\S*", "...", lines[-1])[:200] if lines else "it said nothing"
