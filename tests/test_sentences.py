"""Every sentence about speed names its claim, and its numbers stand in that claim's JSON."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import sentences
from tests.sentences import Line, Quantity

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("name", PAGES)
def test_sentences_about_speed_stand_in_their_claims(name: str) -> None:
    assert sentences.judge((ROOT / name).read_text(), RESULTS) == []


# ---------------------------------------------------------------- the detector itself

REPORT: dict[str, Any] = {
    "statement": "Claim: fast. Protocol: batches of 64.",
    "rows": [
        {"data": "words", "shape": "1,000 x 8", "method": "ours", "milliseconds": 2.512, "passes": 3.0},
        {"data": "words", "shape": "1,000 x 8", "method": "theirs", "milliseconds": 25.2, "passes": None},
        {"data": "images", "shape": "500 x 9", "method": "ours", "milliseconds": 7.7, "megabytes": 36.9},
        {"data": "images", "shape": "500 x 9", "method": "growth", "exponent": -0.086},
    ],
    "checks": [
        {"name": "times faster than a scan", "measured": 12.44, "threshold": ">= 8", "outcome": "PASS"}
    ],
    "notes": {"compile_seconds": 4.31},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "claim_it.json").write_text(json.dumps(REPORT))
    sentences.load.cache_clear()
    return tmp_path


RIGHT = [
    "A query of words takes 2.5 ms (`benchmarks/claim_it.py`).",
    "A query of words takes 2,512 us, or 0.0025 s (`claim_it`).",
    "It is 12.4 times faster, at least 8 times (`claim_it`).",
    "That is 10 times less than the 25 ms of others (`claim_it`).",
    "Compiled once in 4.3 s, and images take 37 MB (`claim_it`).",
    "- words in 3 passes,\n  as `claim_it` says",
    "No number with a unit, and so no claim: 7 words.",
    "```\ncode takes 99 s\n```",
    "<!-- not judged: an example -->\nIt took 99 s.",
    "| data | sizes | ours |\n|---|---|---|\n| words | 1,000 x 8 | 2.5 ms |\n\nFrom `claim_it`.",
    "| data | ours, ms |\n|---|---|\n| images | 7.7 |\n\nFrom `claim_it`.",
    "| data | ours, ms | exponent |\n|---|---|---|\n| images | 7.7 | -0.086 |\n\nFrom `claim_it`.",
    "# Top\n\nAll from `claim_it`.\n\n## Below\n\n| data | ours |\n|---|---|\n| words | 2.5 ms |",
]


@pytest.mark.parametrize("page", RIGHT)
def test_what_stands_in_the_claim_is_right(page: str, folder: Path) -> None:
    assert sentences.judge(page, folder) == []


WRONG = [
    ("A query of words takes 2.6 ms (`claim_it`).", "line 1: not in claim_it: 2.6"),
    ("A query of words takes 2.5 s (`claim_it`).", "line 1: not in claim_it: 2.5"),
    ("Text.\n\nA query of words takes 7.7 ms (`claim_it`).", "line 3: not in claim_it: 7.7"),
    ("It is 13.1 times faster (`claim_it`).", "line 1: not in claim_it: 13.1"),
    ("- in 4 passes (`claim_it`)", "line 1: not in claim_it: 4"),
    ("It takes 2.5 ms.\n\nFrom `claim_it`.", "line 1: names no claim: It takes 2.5 ms."),
    ("It takes 2.5 ms (`claim_that_never_ran`).", "line 1: not in claim_that_never_ran: 2.5"),
    ("<!-- not judged: -->\nIt took 99 s.", "line 2: names no claim: It took 99 s."),
    ("| data | ours |\n|---|---|\n| words | 7.7 ms |\n\nFrom `claim_it`.", "line 3: not in claim_it: 7.7"),
    ("| data | ms |\n|---|---|\n| images | 7.8 |\n\nFrom `claim_it`.", "line 3: not in claim_it: 7.8"),
]


@pytest.mark.parametrize(("page", "told"), WRONG)
def test_what_does_not_is_found(page: str, told: str, folder: Path) -> None:
    found = sentences.judge(page, folder)
    assert [each.partition(" | ")[0] for each in found] == [told]


def test_another_result_makes_a_sentence_wrong(folder: Path) -> None:
    page = "A query of words takes 2.5 ms (`claim_it`)."
    assert sentences.judge(page, folder) == []
    report = REPORT | {"rows": [REPORT["rows"][0] | {"milliseconds": 2.7}]}
    (folder / "claim_it.json").write_text(json.dumps(report))
    sentences.load.cache_clear()
    assert sentences.judge(page, folder) != []


def test_most_edits_of_times_are_noticed() -> None:
    """Every time in a unit, a quarter longer, on all pages: a chance hit is the exception."""
    sentences.load.cache_clear()
    noticed = [
        all(results.missing(Line(line.number, line.text, [longer(each)])) for results in known)
        for name in PAGES
        for known, line in judged((ROOT / name).read_text())
        for each in line.quantities
        if each.kind == "time" and each.sure
    ]
    assert len(noticed) > 50
    assert sum(noticed) > 0.8 * len(noticed)


def longer(quantity: Quantity) -> Quantity:
    decimals = len(quantity.text.partition(".")[2])
    return replace(quantity, text=f"{1.25 * quantity.value + 10.0**-decimals:.{decimals}f}")


def judged(text: str) -> list[tuple[list[sentences.Results], Line]]:
    blocks = sentences.blocks_of(text)
    return [
        ([sentences.load(RESULTS, claim) for claim in sentences.claims_of(blocks, at)], line)
        for at, block in enumerate(blocks)
        if block.judged and sentences.claims_of(blocks, at)
        for line in sentences.lines_of(block)
    ]
