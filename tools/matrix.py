"""Test with the lowest and the newest dependencies, on every interpreter found.

Lowest: what pyproject.toml declares as a lower bound is installed to the letter, so
a bound that is not true, or not a version, fails. Newest: whatever pip finds. The wheel
is installed with the extras that need no accelerator, into environments in build/matrix;
then the quick tests that need neither torch nor ray run on it.

``python tools/matrix.py --python 3.12 --kind lowest --tests tests/cli`` runs a part of it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, build_wheel, clean_settings, find_interpreters, install, make_environment
from packaging.requirements import Requirement

EXTRAS = ("data", "faiss", "files", "polars", "sklearn")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "safetensors")
"""Of the extra `dev`: what the tests themselves import."""

TESTS = (
    "tests/cli",
    "tests/data/test_readers.py",
    "tests/data/test_tables.py",
    "tests/data/test_datasets.py",
    "tests/show/test_plot.py",
    "tests/herding/test_herd.py",
    "tests/oracles/int8",
    "tests/oracles/test_faiss_index.py",
)
"""Every command, every format of files, pictures, and what hangs on compilers and on faiss."""

NEED_TORCH = ("tests/cli/test_own_index.py", "tests/cli/test_policy.py")

SHOWN = ("numpy", "scipy", "numba", "faiss-cpu", "matplotlib", "pandas", "pyarrow", "typer", "rich")


class Outcome(NamedTuple):
    """What became of an environment."""

    python: str
    kind: str
    passed: bool
    seconds: float
    versions: str


def read_requirements(kinds: Sequence[str], names: Sequence[str] = ()) -> Iterator[Requirement]:
    """Yield what pyproject.toml declares: of dependencies, or of extras; of these names if given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for kind in kinds:
        texts = project["dependencies"] if kind == "" else project["optional-dependencies"][kind]
        found = [Requirement(text) for text in texts]
        yield from (each for each in found if not names or each.name in names)


def pin_lowest(version: str) -> list[str]:
    """Return constraints that hold every dependency at its lower bound for a version of Python.

    Of several lines for one package the last whose marker holds counts.

    Parameters
    ----------
    version
        Such as "3.12".
    """
    pins: dict[str, str] = {}
    for each in read_requirements(["", *EXTRAS]):
        if each.marker is None or each.marker.evaluate({"python_version": version}):
            (bound,) = (part.version for part in each.specifier if part.operator == ">=")
            pins[each.name] = f"{each.name}=={bound}"
    return list(pins.values())


def prepare(python: Path, wheel: Path, pins: Sequence[str]) -> None:
    """Install the wheel with its extras and what the tests need, within constraints."""
    tools = [str(each) for each in read_requirements(["dev"], TOOLS)]
    project = f"{wheel}[{','.join(EXTRAS)}]"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(pins))
        constraints.flush()
        install(python, "--upgrade", "-c", constraints.name, project, *tools)


def test(python: Path, tests: Sequence[str], *, lowest: bool) -> bool:
    """Run the tests; say whether all passed."""
    command = [str(python), "-m", "pytest", "-q", "-m", "not slow", "-n", "2", "-p", "no:cacheprovider"]
    command += [f"--ignore={path}" for path in NEED_TORCH]
    # Of old packages only answers are asked; of new ones also that they do not warn.
    command += ["-W", "default"] if lowest else []
    return subprocess.run([*command, *tests], cwd=ROOT, env=clean_settings(), check=False).returncode == 0


def list_versions(python: Path) -> str:
    """Return the versions that an environment has."""
    script = "import importlib.metadata, sys; print(*map(importlib.metadata.version, sys.argv[1:]))"
    done = subprocess.run([python, "-c", script, *SHOWN], capture_output=True, text=True, check=True)
    return ", ".join(map(" ".join, zip(SHOWN, done.stdout.split(), strict=True)))


def run(python: str, kind: str, wheel: Path, tests: Sequence[str]) -> Outcome:
    """Make an environment, install, test."""
    begin = time.perf_counter()
    print(f"== Python {python}, {kind} dependencies", flush=True)
    inside = make_environment(ROOT / "build" / "matrix" / f"{python}-{kind}", find_interpreters()[python])
    try:
        prepare(inside, wheel, pin_lowest(python) if kind == "lowest" else ())
    except subprocess.CalledProcessError:
        return Outcome(python, kind, False, time.perf_counter() - begin, "cannot be installed")
    passed = test(inside, tests, lowest=kind == "lowest")
    return Outcome(python, kind, passed, time.perf_counter() - begin, list_versions(inside))


def main(argv: Sequence[str] | None = None) -> int:
    """Run all; return the exit code."""
    found = find_interpreters()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", action="append", choices=list(found), help="Of all that are found.")
    parser.add_argument("--kind", action="append", choices=["lowest", "newest"])
    parser.add_argument("--tests", nargs="+", default=TESTS)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        outcomes = [
            run(python, kind, wheel, options.tests)
            for python in options.python or found
            for kind in options.kind or ("lowest", "newest")
        ]
    for each in outcomes:
        word = "PASS" if each.passed else "FAIL"
        print(f"{word} Python {each.python} {each.kind}, {each.seconds:.0f} s: {each.versions}")
    return 0 if all(each.passed for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
