"""`wolfhound doctor`: what is installed and how it is set up, for reports of bugs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

import wolfhound as wh
from wolfhound.cli._app import write

NEEDED = re.compile(r"(?P<name>[\w.-]+)[^;]*;.*extra == .(?!all|dev|docs)(?P<extra>[\w-]+).")
"""A line of the package's metadata that an extra for users brings."""


def doctor(
    as_json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Say what is installed and how it is set up, for reports of bugs.

    Nothing is sent anywhere.

    Examples
    --------
    wolfhound doctor

    wolfhound doctor --json > doctor.json
    """
    told = {
        "wolfhound": f"{wh.__version__} in {Path(wh.__file__).parent}",
        "python": f"{platform.python_version()}, {sys.executable}, {platform.platform()}",
    }
    for tell in (_tell_numbers, _tell_threads, _tell_kernels, _tell_extras):
        try:
            told |= tell()
        except Exception as error:  # what is broken is what this is asked for
            told[tell.__name__.removeprefix("_tell_")] = f"cannot be told: {error!r}"
    as_lines = "".join(f"{name:<12} {text}\n" for name, text in told.items())
    write(json.dumps(told, indent=2, ensure_ascii=False) + "\n" if as_json else as_lines)


def _tell_numbers() -> dict[str, str]:
    import numba  # noqa: PLC0415 - each may be broken
    import numpy  # noqa: PLC0415
    import scipy  # noqa: PLC0415
    import threadpoolctl  # noqa: PLC0415

    blas = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    versions = {each.__name__: each.__version__ for each in (numpy, scipy, numba)}
    name = "{internal_api} {version}, {num_threads} threads"
    return versions | {"blas": "; ".join(name.format(**each) for each in blas) or "none that can be told"}


def _tell_threads() -> dict[str, str]:
    from wolfhound.core.threads import available  # noqa: PLC0415

    return {"threads": f"{wh.get_threads()} of {available()} cores that this process may use"}


def _tell_kernels() -> dict[str, str]:
    from wolfhound.compiled.jit import find_folders  # noqa: PLC0415

    for folder in (folders := find_folders()):
        if folder.writable:
            return {"kernels": f"{folder.kernels:,} compiled, kept in {folder.path}"}
    tried = ", ".join(str(each.path) for each in folders)
    return {"kernels": f"cannot be kept in {tried}: set NUMBA_CACHE_DIR"}


def _tell_extras() -> dict[str, str]:
    extras: dict[str, list[str]] = {}
    for found in filter(None, map(NEEDED.match, importlib.metadata.requires("wolfhound") or ())):
        try:
            version = importlib.metadata.version(found["name"])
        except importlib.metadata.PackageNotFoundError:
            version = "is not installed"
        extras.setdefault(found["extra"], []).append(f"{found['name']} {version}")
    return {f"[{extra}]": ", ".join(packages) for extra, packages in extras.items()}
