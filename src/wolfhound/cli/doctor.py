"""`wolfhound doctor`: what is installed, how it is set up, what is wrong."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Exit, Option

import wolfhound as wh
from wolfhound.cli import _facts as facts
from wolfhound.cli._console import stdout, write
from wolfhound.cli._facts import Package

_FACTS: Mapping[str, Callable[[], str]] = {
    "wolfhound": lambda: f"{wh.__version__} in {Path(wh.__file__).parent}",
    "python": lambda: f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}",
    "system": platform.platform,
    "processor": facts.describe_processor,
    "memory": facts.describe_memory,
    "threads": facts.describe_threads,
    "blas": facts.describe_blas,
    "kernels": facts.describe_kernels,
    "calibration": facts.describe_calibration,
    "plugins": lambda: ", ".join(facts.list_plugins()) or "none",
}


def doctor(
    imports: Annotated[
        bool, Option("--imports", help="Also import every package, each in a process: takes seconds.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Say what is installed, how it is set up and what is wrong, for reports of bugs.

    Exits with 1 if a package is missing that is needed, is older than it may be, or
    cannot be imported. Nothing is sent anywhere.

    Examples
    --------
    wolfhound doctor

    wolfhound doctor --imports --json > doctor.json
    """
    told = {name: facts.answer(ask) for name, ask in _FACTS.items()}
    settings = {name: os.environ[name] for name in facts.SETTINGS if name in os.environ}
    packages = facts.list_packages(try_imports=imports)
    problems = [f"{each.name} {each.problem}" for each in packages if each.problem]
    if as_json:
        listed = [asdict(each) for each in packages]
        document = {**told, "settings": settings, "packages": listed, "problems": problems}
        write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        told["settings"] = " ".join(f"{name}={value}" for name, value in settings.items()) or "none"
        write("".join(f"{name:<12} {text}\n" for name, text in told.items()) + "\n")
        _print_packages(packages)
        write("".join(f"wrong: {each}\n" for each in problems) or "nothing is wrong that can be seen\n")
    if problems:
        raise Exit(1)


def _print_packages(packages: Sequence[Package]) -> None:
    if not packages:
        write("wolfhound is not installed but run from its source: what it needs cannot be told\n")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("package", "installed", "declared", "extra"):
        table.add_column(title)
    for each in packages:
        table.add_row(each.name, each.version or "-", each.bound, ", ".join(each.extras))
    stdout().print(table)
    write("\n")
