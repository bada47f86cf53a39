# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wolfhound

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = sorted(path for path in (ROOT / "src").rglob("*.py") if path.stat().st_size)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def test_import_loads_nothing_heavy() -> None:
    heavy = ("faiss", "matplotlib", "numba", "numpy", "pyarrow", "scipy", "typer")
    code = f"import sys, wolfhound; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_dir_lists_the_public_names() -> None:
    assert dir(wolfhound) == sorted(wolfhound.__all__)
    assert {"minimize", "Result", "__version__"} <= set(dir(wolfhound))


@pytest.mark.parametrize("name", sorted(wolfhound._MODULE_OF))
def test_public_name_is_the_one_of_its_module(name: str) -> None:
    module = importlib.import_module(wolfhound._MODULE_OF[name])
    assert getattr(wolfhound, name) is getattr(module, name)


def test_type_checkers_see_the_names_that_are_loaded() -> None:
    tree = ast.parse(Path(str(wolfhound.__file__)).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names if alias.asname}
    assert seen == wolfhound._MODULE_OF


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wolfhound' has no attribute 'minimise'"):
        getattr(wolfhound, "minimise")  # noqa: B009 - mypy knows that it does not exist


def test_types_are_shipped() -> None:
    assert (ROOT / "src" / "wolfhound" / "py.typed").exists()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_says_what_it_knows_and_its_licence(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert "\n# SPDX-License-Identifier: Apache-2.0\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_resolve(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
