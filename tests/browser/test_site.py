"""The documentation site in a browser, opened from its folder: search, light and dark, no network."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Tab
from tests.browser.conftest import find_faults
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
LOOKED_AT = ("index", "tutorial", "herding", "oracles", "paper", "benchmarks", "comparison", "api/minimize")
READY = "document.querySelector('.md-search-result__meta').textContent.includes('Type to start')"
AT_REST = "Promise.allSettled(document.getAnimations().map((each) => each.finished)).then(() => true)"
RESULTS = "document.querySelectorAll('.md-search-result__item').length"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="pip install 'wolfhound[docs]'")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    subprocess.run(command, cwd=ROOT, check=True)
    return place


def wait_for(page: Tab, script: str) -> object:
    """Return what a script says once it says something."""
    end = time.monotonic() + PATIENCE
    while not (found := page.evaluate(script)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def read(page: Tab, place: Path, **settings: Any) -> Tab:
    """Open a page, and wait until all that moves at the start is at rest."""
    page.goto(place, **settings)
    page.evaluate(AT_REST)
    return page.settle()


def strangers(page: Tab) -> list[str]:
    return [url for url in page.requests if not url.startswith(("file:", "data:", "about:", "blob:"))]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_pages_are_sound(name: str, dark: bool, site: Path, page: Tab, pictures: Path) -> None:
    read(page, site / f"{name}.html", dark=dark)
    page.picture(pictures / "site" / f"{name.replace('/', '-')}-{'dark' if dark else 'light'}.png")
    assert page.errors == []
    assert strangers(page) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)'") is dark
    assert find_faults(page) == []


FOUND = {
    "enclosing_ellipsoid": {"designs.html", "index.html"},
    "stratified": {"herding.html"},
    "lfsr": {"mixtures.html"},
    "sparse": {"minimize.html", "concepts.html", "explain.html"},
    "nnls": {"nnls.html", "minimize.html"},
    "unmixing": {"unmix.html", "many.html"},
}
"""Where the first page that a search finds should be."""


@pytest.mark.slow
@pytest.mark.parametrize("word", list(FOUND))
def test_the_search_finds_a_word_without_a_network(word: str, site: Path, page: Tab, pictures: Path) -> None:
    read(page, site / "index.html")
    page.click("input[name=query]")
    assert wait_for(page, READY)
    page.ask("Input.insertText", text=word)
    page.press("Shift", 16)  # it listens to keys
    assert wait_for(page, RESULTS)
    page.picture(pictures / "site" / "search.png")
    first = page.evaluate("document.querySelector('.md-search-result__link').href")
    assert Path(first.partition("?")[0]).name in FOUND[word]
    assert (page.errors, strangers(page)) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_first_picture_follows_the_theme(dark: bool, site: Path, page: Tab) -> None:
    read(page, site / "index.html", dark=dark)
    style = "getComputedStyle(document.querySelector('.md-content img'))"
    # It is dark where its colour scheme is; a filter would turn it over once more.
    assert page.evaluate(f"{style}.filter") == "none"
    assert page.evaluate(f"{style}.colorScheme") == ("dark" if dark else "light")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKED_AT)
def test_nothing_is_wider_than_a_telephone(name: str, site: Path, page: Tab) -> None:
    read(page, site / f"{name}.html", width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
