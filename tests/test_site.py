"""The documentation site: nothing is forgotten, nothing is copied by hand, it builds."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import doctest
import inspect
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
import draw_guides
import numpy as np
import pytest
import site_hooks
from markdown_it import MarkdownIt

import wolfhound
from wolfhound.core.contracts import Hits
from wolfhound.herding.select import HerdingSelector

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


# ---------------------------------------------------------------- words of others


def said_here() -> list[str]:
    """Code of the right-hand columns of "Your words, and ours"."""
    text = (DOCS / "comparison.md").read_text()
    section = text[text.index("## Your words, and ours") : text.index("## FrankWolfe.jl")]
    rows = [line for line in section.split("\n") if line.startswith("| ") and not line.endswith("| here |")]
    return sorted({code for row in rows for code in re.findall(r"`([^`]+)`", row.rsplit(" | ", 1)[-1])})


ANSWERS: tuple[type, ...] = (
    wolfhound.Result,
    wolfhound.HerdResult,
    wolfhound.MixtureFit,
    wolfhound.WeightsFit,
)
ANSWERS += (wolfhound.Design, wolfhound.ClusterIndex, Hits)


@pytest.mark.parametrize("code", said_here())
def test_what_is_said_for_words_of_others_exists(code: str) -> None:
    public = {name: getattr(wolfhound, name) for name in wolfhound._MODULE_OF}
    public |= {"HerdingSelector": HerdingSelector, "len": len, "np": np}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in public:
            assert hasattr(public[node.value.id], node.attr)
        elif isinstance(node, ast.Attribute):
            assert any(hasattr(kind, node.attr) for kind in ANSWERS) or code.startswith("wolfhound.")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            words = {str(word.arg): word.value for word in node.keywords}
            inspect.signature(public[node.func.id]).bind(*node.args, **words)


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


# ---------------------------------------------------------------- found by readers of all kinds

MAPPED = re.compile(r"^- \[[^\]]+\]\(([^)]+)\): \S.*\.$")


def mapped() -> list[str]:
    """Where the map for language models leads: its form is that of llmstxt.org."""
    text = (DOCS / "llms.txt").read_text()
    assert re.match(r"# wolfhound\n\n> \S[^\n]+\n\n", text)
    links = [line for part in text.split("\n## ")[1:] for line in part.split("\n")[1:] if line]
    return [found[1] if (found := MAPPED.match(line)) else f"no link: {line}" for line in links]


def test_the_map_for_language_models_leads_to_every_page_once() -> None:
    wanted = [*(page.name for page in DOCS.glob("*.md")), *site_hooks.ROOT_PAGES, "api/index.md"]
    assert sorted(mapped()) == sorted(name.removesuffix(".md") + ".html" for name in wanted)


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("stratified", "herding"),
        ("lfsr", "mixtures"),
        ("sparse", "minimize"),
        ("sparse", "files"),
        ("nnls", "many"),
        ("nnls", "unmix"),
        ("endmembers", "unmix"),
    ],
)
def test_a_search_finds_the_word_on_its_page(word: str, page: str) -> None:
    prose = re.sub(r"```.*?```", "", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL)
    assert re.search(rf"\b{word}\b", prose, re.IGNORECASE)


@pytest.mark.parametrize("kind", ["title", "version"])
def test_what_to_cite_is_said_twice_and_the_same(kind: str) -> None:
    plain = " ".join((ROOT / "CITATION.cff").read_text().replace(">-", "").replace('"', "").split())
    page = " ".join((DOCS / "citing.md").read_text().replace("{MaxIP}", "MaxIP").split())
    said = re.findall(rf"\b{kind} *= \{{(.*?)\}}", page)
    assert len(said) == {"title": 2, "version": 1}[kind]
    assert all(f" {kind}: {each} " in plain for each in said)


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
@pytest.mark.parametrize("name", list(draw_guides.DRAW))
def test_pictures_of_guides_are_drawn(name: str, tmp_path: Path) -> None:
    draw_guides.DRAW[name](tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    guides = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert f"images/{name}.png" in guides and (ROOT / "docs" / "images" / f"{name}.png").exists()


@pytest.mark.slow
def test_the_picture_shows_a_band_that_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, classical = draw_band.solve_both()
    assert ours.success and ours.passes <= 2
    assert classical.passes == draw_band.MOST_PASSES and classical.gap > 1e6 * ours.gap
    monkeypatch.setattr(sys, "argv", ["draw_band", str(tmp_path / "band.svg")])
    monkeypatch.setattr(draw_band, "solve_both", lambda: (ours, classical))
    draw_band.main()
    assert (tmp_path / "band.svg").read_text().startswith("<?xml")
    for picture in (tmp_path / "band.svg", draw_band.PICTURE):
        assert "@media (prefers-color-scheme: dark)" in picture.read_text()
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
    # The map for language models is there, and leads to pages.
    assert (tmp_path / "llms.txt").exists() and set(mapped()) <= set(html)
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
