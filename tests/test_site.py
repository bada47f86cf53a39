"""The documentation site: nothing is forgotten, nothing is copied by hand, it builds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import benchmarks_page
import claims_table
import draw_band
import pytest
import site_hooks
from markdown_it import MarkdownIt

import wolfhound

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
CLAIMS = sorted(path.stem for path in RESULTS.glob("*.json"))
REFERENCE = re.compile(r"^::: (\S+)$", re.MULTILINE)
IMPORT = re.compile(r"^from (wolfhound\.[\w.]+) import ([\w, ]+)$", re.MULTILINE)
MADE = ("benchmarks.md", "examples.md")  # in part from the tree


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def documented() -> Counter[str]:
    return Counter(name for page in DOCS.glob("api/*.md") for name in REFERENCE.findall(page.read_text()))


# ---------------------------------------------------------------- the reference


def test_every_public_name_is_in_the_reference_once() -> None:
    wanted = {f"wolfhound.{name}" for name in wolfhound._MODULE_OF}
    counts = documented()
    assert {name: counts[name] for name in wanted} == dict.fromkeys(wanted, 1)
    assert set(counts.values()) == {1}


def test_what_pages_import_from_rooms_is_in_the_reference() -> None:
    text = "\n".join(page.read_text() for page in [*pages(), ROOT / "README.md"])
    used = {f"{room}.{name.strip()}" for room, names in IMPORT.findall(text) for name in names.split(",")}
    known = set(documented())
    short = {name.rsplit(".", 1)[-1] for name in known}
    assert {name for name in used if name not in known and name.rsplit(".", 1)[-1] not in short} == set()


# ---------------------------------------------------------------- navigation and links


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    written = {str(page.relative_to(DOCS)) for page in pages()}
    assert named == written | set(site_hooks.ROOT_PAGES)


@pytest.mark.parametrize(
    ("place", "link", "turned"),
    [
        ("docs/many.md", "(minimize.md#stopping)", "(minimize.md#stopping)"),
        ("docs/many.md", "(../benchmarks/results/claim_many.json)", "(benchmarks.md#claim_many)"),
        ("docs/many.md", "(../benchmarks/claim_many.py)", "(benchmarks.md#claim_many)"),
        ("docs/many.md", "(../benchmarks/results)", "(benchmarks.md)"),
        ("docs/many.md", "(../examples/same_mean.py)", "(examples.md#same_mean)"),
        ("docs/api/many.md", "(../../examples/same_mean.py)", "(../examples.md#same_mean)"),
        ("docs/index.md", "(../CHANGELOG.md)", "(changelog.md)"),
        ("CHANGELOG.md", "(docs/scale.md)", "(scale.md)"),
        ("CONTRIBUTING.md", "(CHANGELOG.md)", "(changelog.md)"),
        ("CONTRIBUTING.md", "(https://pre-commit.com)", "(https://pre-commit.com)"),
    ],
)
def test_links_that_leave_docs_turn_inwards(place: str, link: str, turned: str) -> None:
    assert site_hooks.turn_links(f"see [this]{link}, ![a]{link}", place) == f"see [this]{turned}, ![a]{link}"


def test_files_that_no_page_shows_keep_their_name_only() -> None:
    assert (
        site_hooks.turn_links("in [pyproject.toml](pyproject.toml).", "CONTRIBUTING.md")
        == "in pyproject.toml."
    )


def test_every_example_is_on_the_page_of_programs() -> None:
    text = site_hooks.write_programs(ROOT / "examples")
    assert re.findall(r"\{#(\w+)\}", text) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert "SPDX" not in text


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("module", [benchmarks_page, site_hooks])
def test_examples_of_the_tools(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def test_every_claim_with_results_is_on_the_benchmarks_page() -> None:
    text = benchmarks_page.write_claims(ROOT / "benchmarks")
    assert sorted(re.findall(r"^## .*\{#(claim_\w+)\}$", text, re.MULTILINE)) == CLAIMS


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_its_machine_and_what_does_not_hold(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    text = benchmarks_page.write_claim(result)
    failed = [check["name"] for check in result["checks"] if check["outcome"] == "FAIL"]
    assert result["machine"]["cpu"] in text
    assert ("**not:**" in text) is bool(failed)
    assert all(check in text for check in failed)


TABLES = [(name, pivot) for name, pivots in benchmarks_page.PIVOTS.items() for pivot in pivots]


@pytest.mark.parametrize(("name", "pivot"), TABLES, ids=lambda part: getattr(part, "title", part))
def test_a_table_has_lines_and_no_column_is_empty(name: str, pivot: benchmarks_page.Pivot) -> None:
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    lines = [line for line in benchmarks_page.write_pivot(pivot, rows).split("\n") if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert all(any(column) for column in zip(*cells, strict=True))
    assert len(cells) > 0


def test_the_readme_has_the_numbers_of_the_claims() -> None:
    text = (ROOT / "README.md").read_text()
    assert claims_table.renew(text, claims_table.write_table(RESULTS)) == text, "python tools/claims_table.py"


@pytest.mark.slow
def test_the_picture_shows_a_band_that_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, classical = draw_band.solve_both()
    assert ours.success and ours.passes <= 2
    assert classical.passes == draw_band.MOST_PASSES and classical.gap > 1e6 * ours.gap
    monkeypatch.setattr(sys, "argv", ["draw_band", str(tmp_path / "band.svg")])
    monkeypatch.setattr(draw_band, "solve_both", lambda: (ours, classical))
    draw_band.main()
    assert (tmp_path / "band.svg").read_text().startswith("<?xml")
    assert draw_band.PICTURE.stat().st_size < 150_000


# ---------------------------------------------------------------- the site itself


class Words(HTMLParser):
    """The visible text of a page, without white space."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._hidden = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hidden = tag in {"script", "style", "button"} or ("class", "headerlink") in attrs
        self._hidden = self._hidden or tag * hidden

    def handle_endtag(self, tag: str) -> None:
        self._hidden = self._hidden * (tag != self._hidden)

    def handle_data(self, data: str) -> None:
        self.text += "".join(data.split()) * (not self._hidden)


def words_of(html: str) -> str:
    reader = Words()
    reader.feed(html)
    return reader.text


def build_site(place: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


LOADS = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="(https?:[^"]*)"')
MARKDOWN = MarkdownIt("commonmark").enable("table")


@pytest.mark.slow
def test_the_site_is_built_whole(tmp_path: Path) -> None:
    """One test: workers that share the tests would build the site once each."""
    build_site(tmp_path)
    html = {str(page.relative_to(tmp_path)): page.read_text() for page in tmp_path.rglob("*.html")}
    # Every public name has a heading.
    text = "\n".join(text for name, text in html.items() if name.startswith("api/"))
    ids = set(re.findall(r'id="(wolfhound\.[\w.]+)"', text))
    assert {f"wolfhound.{name}" for name in wolfhound._MODULE_OF} - ids == set()
    # Nothing is loaded from elsewhere.
    assert {url for page in html.values() for url in LOADS.findall(page)} == set()
    # Pages say what their source says: Python-Markdown reads some things otherwise than others do.
    plain = [page for page in DOCS.glob("*.md") if page.name not in MADE]
    built = {page.stem: html[f"{page.stem}.html"] for page in plain}
    shown = {
        name: words_of(text[text.index("<article") : text.index("</article>")])
        for name, text in built.items()
    }
    assert shown == {page.stem: words_of(MARKDOWN.render(page.read_text())) for page in plain}
