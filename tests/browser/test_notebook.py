"""What notebooks show, on the white and on the black ground of notebooks."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab
from tests.browser.conftest import find_faults
from tests.show.cases import make

pytestmark = pytest.mark.slow

SHELL = """<!doctype html><html lang="en"><title>notebook</title>
<style>body {{ background: {ground}; color: {ink}; }}</style><main><h1>Cells</h1>{cells}</main></html>"""


@pytest.mark.parametrize(
    ("ground", "ink"), [("#ffffff", "#000000"), ("#111111", "#e0e0e0")], ids=["light", "dark"]
)
def test_cells_can_be_read(page: Tab, tmp_path: Path, pictures: Path, ground: str, ink: str) -> None:
    names = ("Result", "HerdResult", "Design", "MixtureFit", "Choice")
    cells = "".join(make(name)._repr_html_() for name in names)
    path = tmp_path / "cells.html"
    path.write_text(SHELL.format(ground=ground, ink=ink, cells=cells))
    page.goto(path).picture(pictures / f"notebook-{ground[1:]}.png")
    assert page.errors == []
    assert find_faults(page) == []
