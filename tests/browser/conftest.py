"""A browser for the whole run, a fresh tab for every test; pictures go to build/browser."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import NAMES, Browser, Tab, find_chromium

PICTURES = Path(__file__).parents[2] / "build" / "browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip(f"no {' or '.join(NAMES)} on PATH: `make test-browser` says how to get one")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Tab]:
    """A tab without network: `page.goto(path)` opens a file or an address."""
    tab = browser.open()
    yield tab
    tab.close()


@pytest.fixture(scope="session")
def pictures() -> Path:
    return PICTURES


def find_faults(page: Tab) -> list[str]:
    """What a reader would stumble over: names, structure, contrast."""
    faults: list[str] = page.evaluate((Path(__file__).parent / "faults.js").read_text())
    return faults
