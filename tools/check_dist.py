"""Check what is about to be released: names, versions and sizes of wheel and sdist.

python tools/check_dist.py dist
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 4_000_000
"""Bytes of a wheel."""

IN_WHEEL = (
    "wolfhound/__init__.py",
    "wolfhound/py.typed",
    "wolfhound/data/shipped_files/glove100_20k_int8.npz",
    "wolfhound-{version}.dist-info/entry_points.txt",
    "wolfhound-{version}.dist-info/licenses/LICENSE",
    "wolfhound-{version}.dist-info/licenses/NOTICE",
)
IN_SDIST = ("pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "NOTICE", "tests/conftest.py")
NOT_SHIPPED = re.compile(r"__pycache__|\.py[co]$|\.kernel$|\.nb[ci]$|\.env$|(^|/)\.(?!git(ignore|keep))")


def read_version() -> str:
    """Return the version, from the one place where it stands."""
    text = (ROOT / "src" / "wolfhound" / "__init__.py").read_text()
    return str(re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0])


def find_faults(folder: Path) -> list[str]:
    """Return what is wrong with the files in a folder, a line each."""
    version = read_version()
    wheel = folder / f"wolfhound-{version}-py3-none-any.whl"
    sdist = folder / f"wolfhound-{version}.tar.gz"
    there = sorted(path.name for path in folder.iterdir())
    if there != sorted([wheel.name, sdist.name]):
        return [f"{folder} must hold {wheel.name} and {sdist.name} alone. Got {', '.join(there)}."]
    faults = []
    if wheel.stat().st_size > LARGEST:
        faults.append(f"{wheel.name} must have at most {LARGEST:,} bytes. Got {wheel.stat().st_size:,}.")
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    tops = {f"wolfhound-{version}.dist-info", "wolfhound"}
    faults += [f"{wheel.name} must not hold {name}." for name in inside if name.split("/")[0] not in tops]
    faults += _compare(wheel.name, inside, [name.format(version=version) for name in IN_WHEEL])
    with tarfile.open(sdist) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    return faults + _compare(sdist.name, inside, IN_SDIST)


def _compare(archive: str, inside: Sequence[str], wanted: Sequence[str]) -> list[str]:
    faults = [f"{archive} must hold {name}." for name in wanted if name not in inside]
    return faults + [f"{archive} must not hold {name}." for name in inside if NOT_SHIPPED.search(name)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is wrong; return the exit code."""
    (folder,) = map(Path, sys.argv[1:] if argv is None else argv)
    faults = find_faults(folder)
    sizes = [f"{path.name}: {path.stat().st_size:,} bytes" for path in sorted(folder.iterdir())]
    print("\n".join(faults or sizes))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
