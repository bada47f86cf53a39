"""Every kind of result gives a page that is whole, asks for nothing, and lets nothing in."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.show.cases import CASES, HOSTILE, make
from wolfhound.show import report
from wolfhound.show.markup import HasSummary

VOID = {"meta", "link", "img", "input", "br", "hr"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


class Outline(HTMLParser):
    """What there is in a page; tags must be closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.levels: list[int] = []
        self.attributes: set[str] = set()
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags[tag] += 1
        self.attributes |= set(found)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self.levels += [int(tag[1])] if re.fullmatch(r"h[1-6]", tag) else []
        self.scripts += [found.get("type") or ""] if tag == "script" else []
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    return found


def make_page(result: object, **told: Any) -> str:
    labels = report.PageLabels(told.get("names"), told.get("thumbnails"))
    return report.make_page(result, told.get("title"), labels, told.get("plan"), told.get("command"))


def test_a_policy_before_any_query_says_what_is_not_known() -> None:
    text = re.sub(r"<(script|style).*?</\1>", "", make_page(make("TabularResult before a query")), flags=re.S)
    assert "not known" in text
    assert re.search(r"\b(nan|inf)\b", text) is None


def test_levels_of_one_factor_are_named() -> None:
    text = make_page(make("Design of one factor with levels"))
    assert re.findall(r"<text[^>]*>(none|zinc|&lt;script[^<]*)</text>", text)[:3] == [
        "none",
        "zinc",
        '&lt;script&gt;alert("\u2026',
    ]


def show_text(result: object) -> str:
    """What is read on a page: no scripts, styles or tags; the names of curves."""
    return re.sub(r"<style.*?</style>|<[^>]*>", " ", make_page(result), flags=re.S)


def test_of_a_function_of_the_user_nothing_is_said_to_be_proved() -> None:
    text = show_text(make("Result that is trusted"))
    assert "trusted, not proved" in text
    claims = text.replace("trusted, not proved", "")
    assert "a proved" not in claims and "rounding included" not in claims
    assert "proved gap" not in claims and "proved band" not in claims and "(proved)" not in claims


def test_a_bound_that_is_not_there_is_none() -> None:
    text = show_text(make("Result without a bound"))
    assert re.search(r"lower\s+none\s", text) and re.search(r"gap\s+none\s", text)
    assert re.search(r"[^\w]-?inf\b", text.split("To repeat it")[0]) is None


def test_every_kind_of_result_is_a_case() -> None:
    public = [getattr(wh, name) for name in wh.__all__]
    found = {each.__name__ for each in public if isinstance(each, type) and issubclass(each, HasSummary)}
    assert {"Result", "HerdResult"} <= found <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_whole_asks_for_nothing_and_lets_nothing_in(name: str) -> None:
    text = make_page(make(name), title=HOSTILE, command=f"wolfhound {HOSTILE}")
    found = outline(text)
    assert found.open == []
    assert max(Counter(found.ids).values()) == 1
    assert [each for each in found.addresses if not each.startswith(("#", "data:"))] == []
    assert not re.search(r"url\((?!#)|@import", text)
    assert found.levels[0] == 1
    assert found.levels.count(1) == 1
    assert max(np.diff(found.levels)) <= 1
    assert found.tags["caption"] == found.tags["table"]
    assert found.scripts == [""]  # that of the page itself
    assert found.tags["figure"] == found.tags["svg"]
    assert not any(name.startswith("on") for name in found.attributes)
    assert "<script>alert" not in text
    assert "onerror=alert(2)>" not in text


def test_an_answer_is_told_with_names_and_pictures() -> None:
    result = make("Result")
    best = int(result.ids[0])
    text = make_page(result, names={best: "best & first"}, thumbnails={best: PNG})
    assert 'alt="picture of best &amp; first"' in text
    assert "data:image/png;base64,iVBORw0KGgo" in text
    assert f"<dt>value</dt><dd>{result.value:.9g}</dd>" in text


def test_a_page_is_small(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((5000, 8))
    page = wh.report(wh.herd(rows, 200, by=rows[:, 0] > 0.0), tmp_path / "herd.html")
    assert page.stat().st_size < 300_000


def test_several_results_and_a_plan_are_parts_of_one_page() -> None:
    choice = wh.choose_oracle(np.zeros((100, 4), np.float32), queries=5)
    text = make_page({"a run": make("Result"), "a fit": make("MixtureFit")}, plan=choice)
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert headings == ["a run", "a fit", "The plan", "To repeat it"]


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert wh.report(make("MixtureFit"), str(path), title="claims") == path
    before = path.read_bytes()
    assert b"<title>claims</title>" in before
    with pytest.raises(ValueError, match=r"`thumbnails` must be PNG, JPEG, GIF or WebP. Got other bytes"):
        wh.report(make("Result"), path, thumbnails=lambda i: b"<svg onload=alert(1)>")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"`result` must be what a function of .* Got 'text'"):
        wh.report("text", tmp_path / "page.html")
    with pytest.raises(ValueError, match=r"`path` must be a file that ends in .html or .htm"):
        wh.report(make("MixtureFit"), tmp_path / "page.pdf")
    with pytest.raises(ValueError, match=r"`result` must be at least one result"):
        wh.report({}, tmp_path / "page.html")
    with pytest.raises(TypeError, match=r"`title` must be a string"):
        wh.report(make("MixtureFit"), tmp_path / "page.html", title=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"plan": 5}, "`plan` must be a plan or a choice of an oracle. Got 5"),
        ({"plan": "auto"}, "`plan` must be a plan or a choice of an oracle. Got 'auto'"),
        ({"names": 5}, "`names` must be names by id: a sequence or a dict. Got 5"),
        ({"names": "abc"}, "`names` must be names by id: a sequence or a dict. Got 'abc'"),
        ({"thumbnails": 5}, "`thumbnails` must be pictures by id: a sequence, a dict or a function. Got 5"),
        ({"thumbnails": b"abc"}, "`thumbnails` must be pictures by id: a sequence, a dict or a function"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, told: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        wh.report(make("Result"), tmp_path / "a.html", **told)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`path` must be in a folder that exists. Got .*none/a.html"):
        wh.report(make("Result"), tmp_path / "none" / "a.html")


def test_names_that_are_no_utf8_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    page = wh.report(make("Result"), tmp_path / "a.html", names=["a\udcffb"] * 2000)
    assert "a?b" in page.read_text()


# ---------------------------------------------------------------- notebooks


@pytest.mark.parametrize("name", [name for name in CASES if name != "several"])
def test_what_a_notebook_shows_is_whole_and_lets_nothing_in(name: str) -> None:
    result = make(name)
    text = result._repr_html_()
    found = outline(text)
    assert found.open == []
    assert found.tags["script"] == 0
    assert found.addresses == []
    assert found.tags["caption"] == found.tags["table"]
    assert "<img src=x" not in text


def test_a_notebook_shows_what_the_text_says() -> None:
    result = make("Result")
    for line in repr(result).splitlines()[1:4]:
        name, _, text = line.strip().partition(" ")
        assert f"<dt>{name}</dt><dd>{text.strip()}</dd>" in result._repr_html_()


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("Result", "the lower bound, which is proved"),
        ("Result that is trusted", "the lower bound, which is trusted"),
        ("Result without a bound", "How much smaller it can be is not known"),
        ("HerdResult", "MMD is a distance between two tables"),
        ("MixtureFit", "No other spread of any shape"),
        ("TabularResult", "no policy has more than the upper bound"),
    ],
)
def test_a_page_says_what_its_numbers_mean(name: str, meaning: str) -> None:
    assert meaning in make_page(make(name))
    assert meaning not in repr(make(name))
