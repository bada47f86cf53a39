"""Pages of results in a real browser: quiet, without network, readable, and all that can be clicked works."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

import wolfhound as wh
from tests.browser.chromium import Tab
from tests.browser.conftest import find_faults
from tests.show.cases import HOSTILE, make

pytestmark = pytest.mark.slow

SPACE = 32
WHITE_OR_NOT = "getComputedStyle(document.body).backgroundColor"
LINE = "getComputedStyle(document.querySelector('.plot path[style*=--c0]')).stroke"
THEME = "document.documentElement.dataset.theme"


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    choice = wh.choose_oracle(make("Result").x[None], queries=5)
    path = tmp_path_factory.mktemp("pages") / "run.html"
    return wh.report(
        make("Result"), path, title=f"A run {HOSTILE}", plan=choice, command=f"wolfhound {HOSTILE}"
    )


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("HerdResult", "ManyResult", "MixtureFit", "Design", "TabularResult")
    return wh.report({name: make(name) for name in names}, tmp_path_factory.mktemp("pages") / "several.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_is_quiet_and_readable(page: Tab, report: Path, pictures: Path, dark: bool) -> None:
    page.goto(report, dark=dark).picture(pictures / f"run-{'dark' if dark else 'light'}.png")
    assert page.errors == []
    assert [each for each in page.requests if not each.startswith("data:")] == [report.as_uri()]
    assert find_faults(page) == []
    assert page.evaluate(THEME) == ("dark" if dark else "light")
    assert page.evaluate("document.querySelectorAll('.plot svg').length") == 4


def test_what_can_be_clicked_works(page: Tab, report: Path) -> None:
    page.goto(report)
    light, ink = page.evaluate(WHITE_OR_NOT), page.evaluate(LINE)
    page.click("#theme")
    assert page.evaluate(THEME) == "dark"
    assert page.evaluate(WHITE_OR_NOT) != light
    assert page.evaluate(LINE) != ink
    assert page.evaluate("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    page.press(" ", SPACE)  # the button has the focus
    assert page.evaluate(WHITE_OR_NOT) == light

    opened = "document.querySelectorAll('details[open]').length"
    assert page.evaluate(opened) == 0
    page.click("summary")
    assert page.evaluate(opened) == 1
    assert page.evaluate("document.querySelector('details table').checkVisibility()") is True
    assert find_faults(page) == []

    page.click("nav a", 1)
    assert page.evaluate("location.hash") == page.evaluate("document.querySelectorAll('nav a')[1].hash")
    assert page.errors == []


def test_on_paper_all_is_open_and_light(page: Tab, report: Path) -> None:
    page.goto(report, dark=True)
    page.evaluate("dispatchEvent(new Event('beforeprint')); null")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert page.evaluate(THEME) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint')); null")
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert page.evaluate(THEME) == "dark"


def test_many_kinds_on_a_narrow_screen(page: Tab, several: Path, pictures: Path) -> None:
    page.goto(several, width=390).picture(pictures / "several-narrow.png")
    assert page.errors == []
    assert find_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
    page.set_dark(True).settle()
    assert page.evaluate(THEME) == "dark"
    assert find_faults(page) == []
