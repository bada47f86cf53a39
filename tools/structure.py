"""Numbers that tell how the tree is built: ``python tools/structure.py [--names] [folder]``.

Lines by what they are (blank, docstring, comment, import, signature, statement), files, entries at the
root, lines of tests; modules, imports between them and cycles; the largest file, class and function; how
long functions are, and how many private ones are used once; the most positional arguments of a kernel;
classes that share a name; functions named by a participle; public arguments of any type; and, for the
main calls, files visited and hops between files. ``--names`` lists the names that are counted.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import ast
import contextlib
import io
import statistics
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

PACKAGE = "wolfhound"
KINDS = ("blank", "docstring", "comment", "import", "signature", "statement")
LONG = 40
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
NOUNS_IN_ED = {"seed", "need", "feed", "speed", "embed", "exceed", "proceed", "shed"}
OTHER_PARTICIPLES = {
    "drawn",
    "held",
    "swept",
    "kept",
    "built",
    "made",
    "found",
    "taken",
    "given",
    "known",
    "shown",
}


class Module(NamedTuple):
    """A file of the package, parsed."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The package below the root that it belongs to, or its own name."""
        return ".".join(self.name.split(".")[:2])


def modules(folder: Path) -> list[Module]:
    """Parse all files."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text()
        found.append(Module(name, path, text, ast.parse(text)))
    return found


# ---------------------------------------------------------------- imports


def imports(all_modules: list[Module]) -> dict[str, set[str]]:
    """Which modules each module imports, inside functions and for types too."""
    names = {module.name for module in all_modules}
    edges: dict[str, set[str]] = {name: set() for name in names}
    for module in all_modules:
        for node in ast.walk(module.tree):
            for target in _targets(node):
                known = _known(target, names)
                if known not in ("", module.name, PACKAGE):
                    edges[module.name].add(known)
    return edges


def _known(target: str, names: set[str]) -> str:
    """The module that a dotted name is, or is defined in."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.startswith(PACKAGE))
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cycles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which reaches all others (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = set(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            groups.extend([group] if len(group) > 1 else [])

    for name in sorted(edges):
        if name not in order:
            visit(name)
    return groups


# ---------------------------------------------------------------- sizes and names


def definitions(all_modules: list[Module], *kinds: type[ast.AST]) -> Iterator[tuple[Module, Any]]:
    """All classes or functions, with their modules."""
    for module in all_modules:
        for node in ast.walk(module.tree):
            if isinstance(node, kinds):
                yield module, node


def _lines(node: Any) -> int:
    return int(node.end_lineno - node.lineno + 1)


def count_lines(module: Module) -> Counter[str]:
    """Lines of a file by what they are; every line is one thing."""
    kinds: dict[int, str] = {}

    def note(kind: str, first: int, last: int) -> None:
        kinds.update(dict.fromkeys(range(first, last + 1), kind))

    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            note("signature", node.lineno, node.body[0].lineno - 1)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            note("import", node.lineno, node.end_lineno or node.lineno)
        for text in _texts(node):
            note("docstring", text.lineno, text.end_lineno)
    found: Counter[str] = Counter()
    for number, line in enumerate(module.text.splitlines(), 1):
        kind = kinds.get(number, "statement")
        if kind != "docstring":
            kind = "comment" if line.strip().startswith("#") else kind if line.strip() else "blank"
        found[kind] += 1
    return found


def _texts(node: ast.AST) -> list[Any]:
    """Docstrings of a module, class or function, and texts below a constant or a field."""
    body: list[Any] = getattr(node, "body", []) if isinstance(node, DOCUMENTED) else []
    return [each for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]


def list_single_uses(all_modules: list[Module]) -> list[str]:
    """Private functions of modules that only one place of the package names."""
    uses: Counter[str] = Counter()
    for module in all_modules:
        for node in ast.walk(module.tree):
            uses[getattr(node, "id", "") if isinstance(node, ast.Name) else getattr(node, "attr", "")] += 1
    return sorted(
        f"{module.name}.{node.name}"
        for module in all_modules
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and uses[node.name] == 1
    )


def list_long(all_modules: list[Module]) -> list[str]:
    """Functions of more than 40 lines of statements: no signature, docstring, comment or blank line."""
    found = []
    for module, node in definitions(all_modules, ast.FunctionDef):
        text = "\n".join(module.text.splitlines()[node.lineno - 1 : node.end_lineno])
        part = module._replace(text=text, tree=ast.parse(textwrap.dedent(text)))
        if count_lines(part)["statement"] > LONG:
            found.append(f"{module.name}.{node.name}")
    return sorted(found)


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is compiled."""
    return any(isinstance(mark, ast.Name) and mark.id.endswith("kernel") for mark in node.decorator_list)


def is_property(node: ast.FunctionDef) -> bool:
    """Whether a function is read like a field, which may be a noun or a participle."""
    return any(isinstance(mark, ast.Name) and mark.id.endswith("property") for mark in node.decorator_list)


def is_participle(node: ast.FunctionDef) -> bool:
    """Whether a function is named for what it gives rather than for what it does."""
    first = node.name.strip("_").split("_")[0]
    if is_property(node):
        return False
    return first in OTHER_PARTICIPLES or (first.endswith("ed") and first not in NOUNS_IN_ED)


def loose_arguments(all_modules: list[Module]) -> list[str]:
    """Arguments of public functions that are typed `object` or `Any`."""
    found = []
    for module, node in definitions(all_modules, ast.FunctionDef):
        private = any(part.startswith("_") for part in (*module.name.split("."), node.name))
        given = [] if private else [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        loose = {"object", "Any", "object | None", "Any | None"}
        names = [each.arg for each in given if each.annotation and ast.unparse(each.annotation) in loose]
        found += [f"{module.name}.{node.name}({name})" for name in names]
    return found


def names(folder: Path) -> dict[str, list[str]]:
    """The names that `report` counts."""
    found = modules(folder)
    homes: dict[str, list[str]] = defaultdict(list)
    for module, node in definitions(found, ast.ClassDef):
        homes[node.name].append(module.name)
    functions = definitions(found, ast.FunctionDef)
    return {
        "class names with two homes": [
            f"{name}: {', '.join(sorted(where))}" for name, where in sorted(homes.items()) if len(where) > 1
        ],
        "participle function names": sorted(
            f"{module.name}.{node.name}" for module, node in functions if is_participle(node)
        ),
        "public arguments of any type": sorted(loose_arguments(found)),
        "functions used once": list_single_uses(found),
        f"functions over {LONG} lines": list_long(found),
    }


def report(folder: Path) -> dict[str, str]:
    """All numbers of the files, by what they are."""
    found = modules(folder)
    rooms = {module.name: module.room for module in found}
    edges = imports(found)
    pairs = [(a, b) for a, others in edges.items() for b in others]
    between = sum(rooms[a] != rooms[b] for a, b in pairs)
    classes = [(module, node) for module, node in definitions(found, ast.ClassDef)]
    functions = [(module, node) for module, node in definitions(found, ast.FunctionDef)]
    kernels = [(module, node) for module, node in functions if is_kernel(node)]
    file = max(found, key=lambda module: module.text.count("\n"))
    biggest, longest = (
        max(classes, key=lambda pair: _lines(pair[1])),
        max(functions, key=lambda pair: _lines(pair[1])),
    )
    widest = max(kernels, key=lambda pair: len(pair[1].args.args))
    kinds = sum(map(count_lines, found), Counter())
    middle = statistics.median(_lines(node) for _, node in functions)
    return {
        "lines": f"{sum(kinds.values()):,}",
        **{f"  {kind}": f"{kinds[kind]:,}" for kind in KINDS},
        "files": str(len(found)),
        "entries at the root": str(sum(each.name != "__pycache__" for each in folder.iterdir())),
        "functions": f"{len(functions):,}, median {middle:g} lines",
        "imports between packages": str(between),
        "imports within packages": str(len(pairs) - between),
        "cycles": "; ".join(", ".join(sorted(group)) for group in cycles(edges)) or "none",
        "largest file": f"{file.text.count(chr(10))} lines, {file.name}",
        "largest class": f"{_lines(biggest[1])} lines, {biggest[0].name}.{biggest[1].name}",
        "largest function": f"{_lines(longest[1])} lines, {longest[0].name}.{longest[1].name}",
        "widest kernel": f"{len(widest[1].args.args)} arguments, {widest[0].name}.{widest[1].name}",
    } | {name: str(len(listed)) for name, listed in names(folder).items()}


# ---------------------------------------------------------------- how a call runs


def walk(call: Callable[[], object], folder: Path) -> tuple[int, int]:
    """Files of the package that a call visits, and calls that go from one file to another."""
    inside = str(folder)
    visited: set[str] = set()
    hops: dict[tuple[str, str], int] = defaultdict(int)

    def note(frame: FrameType, event: str, _: object) -> None:
        here = frame.f_code.co_filename
        if event != "call" or not here.startswith(inside):
            return
        visited.add(here)
        back = frame.f_back
        if (
            back is not None
            and back.f_code.co_filename.startswith(inside)
            and back.f_code.co_filename != here
        ):
            hops[back.f_code.co_filename, here] += 1

    call()  # imports and compiles
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(visited), len(hops)


def calls() -> dict[str, Callable[[], object]]:
    """The main calls, small."""
    import numpy as np  # noqa: PLC0415 - only where calls are made

    import wolfhound  # noqa: PLC0415
    from wolfhound.cli import main as command  # noqa: PLC0415

    rows = np.random.default_rng(0).standard_normal((5000, 8))
    found: dict[str, Callable[[], object]] = {
        "minimize": lambda: wolfhound.minimize(wolfhound.SquaredDistance(np.full(8, 2.0)), rows),
        "herd(X, 500)": lambda: wolfhound.herd(rows, 500),
    }
    table = Path(tempfile.mkdtemp(prefix="structure-")) / "rows.csv"
    np.savetxt(table, rows[:500], delimiter=",", header=",".join("abcdefgh"), comments="")

    def herd_csv() -> None:
        sys.argv = ["wolfhound", "herd", str(table), "-m", "20"]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            command()

    found["wolfhound herd rows.csv"] = herd_csv
    with contextlib.suppress(ImportError):  # without the extra `rl`
        import gymnasium  # noqa: PLC0415

        from wolfhound.policy import SFWPO  # noqa: PLC0415

        cart = gymnasium.make("CartPole-v1")
        found["SFWPO.learn"] = lambda: SFWPO(cart, [[-1.0], [1.0]]).learn(1200)
    return found


def main() -> None:
    """Print all numbers, or the names."""
    here = Path(__file__).parents[1] / "src" / PACKAGE
    parser = argparse.ArgumentParser(description="Numbers that tell how the tree is built.")
    parser.add_argument("folder", nargs="?", type=Path, default=here, help="a package (default: ours)")
    parser.add_argument("--names", action="store_true", help="list the names that are counted")
    given = parser.parse_args()
    if not (given.folder / "__init__.py").is_file() or given.folder.resolve().name != PACKAGE:
        parser.error(f"folder must be that of the package {PACKAGE}, such as src/{PACKAGE}: {given.folder}")
    if given.names:
        for name, listed in names(given.folder).items():
            print(f"{name}: {len(listed)}", *listed, sep="\n  ")
        return
    for name, text in report(given.folder).items():
        print(f"{name:28} {text}")
    tests = [path for path in (here.parents[1] / "tests").rglob("*.py") if given.folder is here]
    if tests:
        print(f"{'lines of tests':28} {sum(path.read_text().count(chr(10)) for path in tests):,}")
    for name, call in (calls() if given.folder is here else {}).items():
        files, hops = walk(call, here)
        print(f"{name:28} {files} files visited, {hops} pairs of files between which calls go")


if __name__ == "__main__":
    main()
