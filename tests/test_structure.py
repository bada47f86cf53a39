"""The numbers of `tools/structure.py`, on a package whose numbers are known."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "structure.py"

FILES = {
    "__init__.py": '"""Root."""\n',
    "a.py": "from wolfhound.room import b\n\nclass Twin:\n    pass\n\n\n"
    "def asked(loose: object, x: int):\n    return b\n\n\n@property\ndef kept(self):\n    return b\n",
    "room/__init__.py": "",
    "room/b.py": "def seed():\n    from wolfhound.room.c import Twin\n    return Twin\n",
    "room/c.py": "import wolfhound.room.b\n\nclass Twin:\n    x = 1\n    y = 2\n\n\n"
    "@fast_kernel\ndef wide(p, q, r):\n    return p\n",
}


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("structure", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "structure", module)
    spec.loader.exec_module(module)
    return module


def test_numbers_of_a_small_package(structure: Any, tmp_path: Path) -> None:
    folder = tmp_path / "wolfhound"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    found = structure.report(folder)
    assert found["files"] == "5"
    assert found["entries at the root"] == "3"
    assert found["lines"] == "27"
    kinds = ("blank", "docstring", "comment", "import", "signature", "statement")
    assert [found[f"  {kind}"] for kind in kinds] == ["8", "1", "0", "3", "6", "9"]
    assert found["functions"] == "4, median 2 lines"
    assert found["functions used once"] == "0"
    assert found["functions over 40 lines"] == "0"
    assert found["imports between packages"] == "1"
    assert found["imports within packages"] == "2"
    assert found["cycles"] == "wolfhound.room.b, wolfhound.room.c"
    assert found["largest class"] == "3 lines, wolfhound.room.c.Twin"
    assert found["widest kernel"] == "3 arguments, wolfhound.room.c.wide"
    assert found["class names with two homes"] == "1"
    assert found["participle function names"] == "1"
    assert found["public arguments of any type"] == "1"
    listed = structure.names(folder)
    assert listed["class names with two homes"] == ["Twin: wolfhound.a, wolfhound.room.c"]
    assert listed["participle function names"] == ["wolfhound.a.asked"]
    assert listed["public arguments of any type"] == ["wolfhound.a.asked(loose)"]


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_wrong_folder_is_refused_in_one_line(folder: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path / folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "folder must be that of the package wolfhound" in done.stderr.splitlines()[-1]


def test_files_and_hops_of_a_call(structure: Any, tmp_path: Path) -> None:
    (tmp_path / "one_file.py").write_text("def inner():\n    return 1\n")
    (tmp_path / "other_file.py").write_text("import one_file\n\ndef outer():\n    return one_file.inner()\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        outer = importlib.import_module("other_file").outer
    assert structure.walk(outer, tmp_path) == (2, 1)
