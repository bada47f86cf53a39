"""The script that looks for faults finds those that there are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab
from tests.browser.conftest import find_faults

BAD = {
    '<p style="color: #999">pale</p>': "contrast 2.85",
    '<div style="opacity: 0.5"><p>faint</p></div>': "contrast 3.9",
    "<h3>deep</h3>": "heading skips a level",
    "<img src='data:,'>": "picture without alt",
    '<div role="img"></div>': "no label",
    "<button></button>": "control without a name",
    '<i id="a"></i><b id="a"></b>': "id twice",
    "<table><tr><td>1</td></tr></table>": "table without headings",
}


@pytest.mark.slow
def test_each_fault_is_found(page: Tab, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        f'<!doctype html><html lang="en"><title>x</title><main><h1>x</h1>{"".join(BAD)}</main></html>'
    )
    found = find_faults(page.goto(path))
    assert [fault for fault in BAD.values() if not any(each.startswith(fault) for each in found)] == []
    assert len(found) == len(BAD)


@pytest.mark.slow
def test_errors_and_requests_are_heard(page: Tab, tmp_path: Path) -> None:
    path = tmp_path / "loud.html"
    far = "http://example.invalid/x.png"
    path.write_text(f'<script>console.error("loud"); throw new Error("thrown")</script><img src="{far}">')
    page.goto(path)
    assert far in page.requests
    assert [word for word in ("loud", "thrown") if not any(word in each for each in page.errors)] == []
