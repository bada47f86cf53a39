"""Claims whose results are older than the code that they measure: ``python tools/stale_claims.py [folder]``.

With ``--order`` it prints the scripts instead, in the order in which they are to be measured: those without
results, those that state something else by now, then those whose code has changed most; and how long all of
them took the last time.

A result names the commit that was measured. What a claim measures are the files that its script
imports, and those that they import in turn, read from their text: the package, the helpers of
`benchmarks` and of `tests`. An import that is never reached counts, one that is made by a name in a
string does not; of ``import wolfhound`` the names that are used count. A changed file may not matter:
a list says where to look, not what to measure.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "wolfhound"
SHOWN = 3
"""Files that are named."""


class HistoryError(Exception):
    """There is no history to compare with."""


class Age(NamedTuple):
    """What became of the code of a claim since it was measured.

    Attributes
    ----------
    commit, date
        Of the measurement.
    dirty
        Whether files had changes then that no commit has.
    known
        Whether this clone has the commit.
    changed
        Files that differ, those with the most lines first.
    lines
        How many lines of these came or went.
    restated
        Whether the claim states something else by now.
    seconds
        What measuring took.
    """

    claim: str
    commit: str
    date: str
    dirty: bool
    known: bool
    changed: tuple[str, ...]
    lines: int
    restated: bool
    seconds: float

    @property
    def flag(self) -> str:
        """What is to be said of it; nothing if it is up to date."""
        parts = [f"measured with changes that no commit has, on top of {self.commit[:7]}"] * self.dirty
        if not self.known:
            parts.append(f"commit {self.commit[:7]} is not in this clone")
        if self.restated:
            parts.append("the claim states something else by now")
        if self.changed:
            more = ", ..." if len(self.changed) > SHOWN else ""
            files = "file has" if len(self.changed) == 1 else "files have"
            parts.append(
                f"{len(self.changed)} {files} changed since: {', '.join(self.changed[:SHOWN])}{more}"
            )
        return "; ".join(parts)


# ---------------------------------------------------------------- what a claim measures


def find_sources(script: Path, root: Path) -> set[Path]:
    """Return the script and all files below root that it imports, directly or not."""
    found, left = set[Path](), [script]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left.extend(_find_imports(path, root))
    return found


@cache
def _find_imports(path: Path, root: Path) -> frozenset[Path]:
    """Files that one file names in its imports."""
    tree, public = ast.parse(path.read_text()), _read_public(root)
    found = set[Path]()
    for name in _name_imports(tree, public):
        places = (folder / Path(*name.split(".")) for folder in (root / "src", root / "benchmarks", root))
        files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
        # The table of public names changes with each of them, and is measured by nobody.
        found.update(
            file for file in files if file.is_file() and file != root / "src" / PACKAGE / "__init__.py"
        )
    return frozenset(found)


def _name_imports(tree: ast.AST, public: dict[str, str]) -> Iterator[str]:
    """Modules that may be meant: of ``from a.b import c`` a, a.b and a.b.c; of a public name its module."""
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == PACKAGE
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
        ):
            names = [f"{PACKAGE}.{node.attr}"]
        else:
            continue
        for name in names:
            parts = public.get(name, name).split(".")
            yield from (".".join(parts[:size]) for size in range(1, len(parts) + 1))


@cache
def _read_public(root: Path) -> dict[str, str]:
    """Public names of the package and the modules that have them, from its table for type checkers."""
    path = root / "src" / PACKAGE / "__init__.py"
    nodes = ast.walk(ast.parse(path.read_text())) if path.is_file() else ()
    return {
        f"{PACKAGE}.{alias.name}": node.module or PACKAGE
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


# ---------------------------------------------------------------- what has changed


def find_ages(root: Path) -> list[Age]:
    """Return the age of every claim that has results.

    Raises
    ------
    HistoryError
        If there is no git, no repository or a part of its history only.
    """
    if _git(root, "rev-parse", "--is-shallow-repository") != "false":
        raise HistoryError("A shallow clone has no history to compare with: git fetch --unshallow.")
    return [_find_age(root, path) for path in sorted((root / "benchmarks" / "results").glob("*.json"))]


def _find_age(root: Path, path: Path) -> Age:
    result = json.loads(path.read_text())
    commit, _, dirty = result["commit"].partition(" ")
    known, changed, sizes = True, list[str](), dict[str, str]()
    script = root / "benchmarks" / f"{result['claim']}.py"
    sources = {str(file.relative_to(root)) for file in find_sources(script, root)}
    try:
        lines = _git(root, "diff", "--numstat", "--no-renames", commit, "--").splitlines()
        sizes = {name: f"{added}+{gone}" for added, gone, name in (line.split("\t") for line in lines)}
        changed = sorted(sources & set(sizes), key=lambda name: (-_add(sizes[name]), name))
    except HistoryError:
        known = False
    return Age(
        claim=result["claim"],
        commit=commit,
        date=result["date"][:10],
        dirty=bool(dirty),
        known=known,
        changed=tuple(changed),
        lines=sum(_add(sizes[name]) for name in changed),
        restated=result["statement"].strip() != _read_statement(script),
        seconds=float(result["seconds"]),
    )


def _read_statement(script: Path) -> str:
    """What a claim says it shows: the docstring of its script."""
    return (ast.get_docstring(ast.parse(script.read_text()), clean=False) or "").strip()


def order_scripts(root: Path, ages: list[Age]) -> list[Path]:
    """Scripts of all claims, the first to be measured first."""
    known = {age.claim: (True, not age.restated, -age.lines) for age in ages}
    scripts = sorted((root / "benchmarks").glob("claim_*.py"))
    return sorted(scripts, key=lambda script: known.get(script.stem, (False, False, 0)))


def _add(size: str) -> int:
    """Lines that came and went; a file of bytes has none."""
    return sum(int(part) for part in size.split("+") if part.isdigit())


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise HistoryError("Without git there is no history to compare with.") from None
    except subprocess.CalledProcessError:
        raise HistoryError("There is no history to compare with here.") from None
    return done.stdout.strip()


def main() -> int:
    """Print every claim that has results, with what became of its code; 1 if that cannot be known."""
    ordered, given = "--order" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--order"]
    root = Path(given[0]) if given else ROOT
    try:
        ages = find_ages(root)
    except HistoryError as error:
        print(error, file=sys.stderr if ordered else sys.stdout)
        return 1
    if ordered:
        minutes = sum(age.seconds for age in ages) / 60.0
        print(f"All {len(ages)} claims took {minutes:.0f} minutes the last time.", file=sys.stderr)
        print(*order_scripts(root, ages), sep="\n")
        return 0
    for age in ages:
        print(f"{age.claim:<22} {age.commit[:7]} {age.date}  {age.flag or 'up to date'}")
    print(f"{sum(bool(age.flag) for age in ages)} of {len(ages)} claims are older than their code.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
