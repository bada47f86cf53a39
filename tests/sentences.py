"""Sentences about speed in the documentation, and the claims that they rest on.

A page is cut into blocks: headings, tables, list items, paragraphs; code is left out. A block
is about performance if it has a number with a unit: a time, bytes, passes, "times". Such a
block must name a claim: itself, or, if it is a table, in the paragraphs beside it or in the first
ones of its sections. Its numbers must stand in the JSON of these claims: in prose
those with a unit or a decimal point, in a table all.

A number stands there if a value rounds to it at the digits that are printed. Times are looked for
among times (whatever their unit), bytes among bytes, passes among passes, "times" among
checks, ratios, and quotients of two times. Where a line names some of the JSON's rows, by its data
or its sizes, only these count. Thresholds of checks count too: "at most 3 passes".
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
NUMBER = r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
UNITS = {
    "s": ("time", 1.0),
    "seconds": ("time", 1.0),
    "ms": ("time", 1e-3),
    "us": ("time", 1e-6),
    "min": ("time", 60.0),
    "minutes": ("time", 60.0),
    "GB": ("bytes", 1e9),
    "MB": ("bytes", 1e6),
    "TB": ("bytes", 1e12),
    "pass": ("passes", 1.0),
    "passes": ("passes", 1.0),
    "reads": ("passes", 1.0),
    "times": ("times", 1.0),
    "%": ("", 1e-2),
}
UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
QUANTITY = re.compile(rf"({NUMBER})(?:\s*({UNIT})(?![\w/]))?")
CLAIM = re.compile(r"claim_[a-z0-9_]+")
SKIP = re.compile(r"<!-- not judged: \S.*-->")
WORDS = ("data", "problem")
SIZES = ("shape", "size", "atoms", "candidates", "n", "m", "queries", "rows")
"""Cells that say what a row is about."""


# ---------------------------------------------------------------- pages


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a page: "heading", "table", "item" or "text"."""

    kind: str
    line: int
    lines: list[str]
    judged: bool = True

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)

    @property
    def claims(self) -> set[str]:
        return set(CLAIM.findall(self.text))


def blocks_of(text: str) -> list[Block]:
    """Cut a page into blocks; a comment "not judged: why" excuses the next one."""
    out: list[Block] = []
    fenced = excused = broken = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if fence or fenced or not line.strip() or line.startswith("<!--"):
            excused |= bool(SKIP.fullmatch(line.strip()))
            broken = True
            continue
        kind = _kind(line)
        if not broken and out and kind in (out[-1].kind, "text") and kind not in ("item", "heading"):
            out[-1].lines.append(line)
        elif kind == "text" and out and out[-1].kind == "item" and line.startswith(" ") and not fence:
            out[-1].lines.append(line)
        else:
            out.append(Block(kind, number, [line], judged=not excused))
            excused = False
        broken = kind == "heading"
    return out


def _kind(line: str) -> str:
    if line.startswith("#"):
        return "heading"
    if line.startswith("|"):
        return "table"
    return "item" if re.match(r"\s*([-*]|\d+\.) ", line) else "text"


def claims_of(blocks: Sequence[Block], at: int) -> set[str]:
    """Claims named by a block; if it is a table, by the text after it, before it, or atop its section."""
    block = blocks[at]
    if block.claims or block.kind != "table":
        return block.claims
    below = next((each for each in blocks[at + 1 :] if each.kind != "table"), block)
    above = next((each for each in reversed(blocks[:at]) if each.kind != "table"), block)
    tops = (second for first, second in reversed(list(pairwise(blocks[:at]))) if first.kind == "heading")
    return next((each.claims for each in (below, above, *tops) if each.claims), set())


# ---------------------------------------------------------------- numbers on a page


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it is printed, what it measures ("": nothing known), and in what unit.

    `sure`: the unit stands beside it, and not in the head of its column, which may be about two things.
    """

    text: str
    kind: str = ""
    scale: float = 1.0
    sure: bool = True

    @property
    def value(self) -> float:
        return float(self.text.replace(",", ""))

    @property
    def half(self) -> float:
        """Half a unit of the last digit that is printed."""
        mantissa, _, power = self.text.replace(",", "").partition("e")
        decimals = len(mantissa.partition(".")[2])
        return float(0.5 * 10.0 ** (int(power or 0) - decimals))

    def among(self, values: NDArray[np.float64]) -> bool:
        """Whether one of some values, in the same unit, rounds to this number; signs are not read."""
        return bool((np.abs(np.abs(values) - self.value) <= self.half * (1.0 + 1e-9)).any())


@dataclass(frozen=True, slots=True)
class Line:
    """What is judged together: a line of a table or a sentence."""

    number: int
    text: str
    quantities: list[Quantity]


def lines_of(block: Block) -> Iterator[Line]:
    """The lines of a table, or the sentences of a text, with the numbers to be judged."""
    if block.kind == "table":
        units = [_header_unit(cell) for cell in _cells(block.lines[0])]
        for offset, line in enumerate(block.lines[2:], 2):
            pairs = list(zip(_cells(line), units, strict=False))
            found = [_with_unit(each, unit) for cell, unit in pairs for each in quantities_of(cell)]
            sizes = " ".join(re.findall(NUMBER, block.lines[0]))
            yield Line(block.line + offset, f"{line} {sizes}", found)
        return
    for sentence in re.split(r"(?<=[.;:]) (?=\S)", _plain(block.text)):
        found = [each for each in quantities_of(sentence) if each.kind or "." in each.text]
        yield Line(block.line, sentence, found)


def quantities_of(text: str) -> list[Quantity]:
    """All numbers of a text."""
    found = QUANTITY.findall(_plain(text))
    return [Quantity(number.rstrip(","), *UNITS.get(unit, ("", 1.0))) for number, unit in found]


def measures(block: Block) -> bool:
    """Whether a block is about performance."""
    header = block.kind == "table" and any(_header_unit(cell)[0] for cell in _cells(block.lines[0]))
    return header or any(each.kind for line in lines_of(block) for each in line.quantities)


def _plain(text: str) -> str:
    """Without code, addresses, and sizes such as 1,000 x 64."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\d[\d,]*( x \d[\d,]*)+", " ", text)


def _cells(line: str) -> list[str]:
    return line.strip().strip("|").split("|")


def _header_unit(cell: str) -> tuple[str, float]:
    words = set(re.findall(r"[A-Za-z]+", _plain(cell))) & {"s", "seconds", "ms", "us", "MB", "GB", "times"}
    return UNITS[min(words)] if words else ("", 1.0)


def _with_unit(quantity: Quantity, unit: tuple[str, float]) -> Quantity:
    known = quantity.kind or quantity.scale != 1.0 or not unit[0]
    return quantity if known else Quantity(quantity.text, *unit, sure=False)


# ---------------------------------------------------------------- numbers of a claim


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a claim's JSON, in the row `owner` of its table; -1: a check, its threshold or a note."""

    value: float
    kind: str
    scale: float
    owner: int = -1


class Results:
    """What a claim has measured.

    Parameters
    ----------
    about : list of (set of str, set of str)
        The words and the sizes that say what a row is about.
    values : list of Value
    said : set of float
        Numbers in texts: sizes, parameters, protocol.
    """

    def __init__(self, about: list[tuple[set[str], set[str]]], values: list[Value], said: set[float]) -> None:
        self._about, self._said = about, said
        self._value = np.array([each.value for each in values], np.float64)
        self._base = self._value * np.array([each.scale for each in values], np.float64)
        self._kind = np.array([each.kind for each in values], np.str_)
        self._owner = np.array([each.owner for each in values], np.int64)

    def missing(self, line: Line) -> set[Quantity]:
        """Numbers of a line that stand neither in the rows that it names, nor in checks and notes."""
        mine = np.isin(self._owner, [-1, *self._named(line.text)])
        return {each for each in line.quantities if not self._holds(each, mine)}

    def _named(self, text: str) -> list[int]:
        """Rows that a text names, by their sizes and then by their data; all if it does not."""
        words, every = _tokens(text), range(len(self._about))
        sized = [at for at in every if self._about[at][1] and self._about[at][1] <= words]
        rows = [*sized, *(at for at in every if not self._about[at][1])] if sized else list(every)
        return [at for at in rows if self._about[at][0] & words] or rows

    def _holds(self, quantity: Quantity, mine: Mask) -> bool:
        if not quantity.kind:
            return quantity.value in self._said or quantity.among(self._value[mine])
        alike = mine & (self._kind == quantity.kind)
        if quantity.kind == "times":
            alike |= (self._owner == -1) & (self._kind == "")
        if quantity.among(self._base[alike] / quantity.scale):
            return True
        if not quantity.sure:
            return self._holds(Quantity(quantity.text), mine)
        spent = self._base[mine & (self._kind == "time") & (self._base > 0.0)]
        return quantity.kind == "times" and quantity.among(spent[:, None] / spent)


def results_of(report: Mapping[str, Any]) -> Results:
    """Sort the numbers of a claim's JSON."""
    about, values = [], []
    for at, row in enumerate(report["rows"]):
        words = {word for key in WORDS for word in _tokens(str(row.get(key, ""))) if not word.isdigit()}
        told = [str(row[key]) for key in SIZES if isinstance(row.get(key), (str, int))]
        about.append((words, {word for word in _tokens(" ".join(told)) if word.isdigit()}))
        values += [Value(cell, *_key_unit(key), at) for key, cell in row.items() if _is_number(cell)]
    for check in report["checks"]:
        limits = [each.value for each in quantities_of(check["threshold"])]
        values += [Value(each, *_key_unit(check["name"])) for each in (check["measured"] or 0.0, *limits)]
    for key, note in report["notes"].items():
        numbers = [note] if _is_number(note) else [each.value for each in quantities_of(str(note))]
        values += [Value(each, *_key_unit(key)) for each in numbers]
    texts = [cell for row in report["rows"] for cell in row.values() if isinstance(cell, str)]
    said = re.findall(NUMBER, " ".join([report["statement"], *texts]))
    return Results(about, values, {Quantity(each.rstrip(",")).value for each in said})


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _tokens(text: str) -> set[str]:
    """Words of three letters and more, and whole numbers in plain digits."""
    bare = re.sub(r"[`*]", "", text.lower())
    numbers = {f"{float(each.replace(',', '')):.0f}" for each in re.findall(NUMBER, bare) if "." not in each}
    return numbers | set(re.findall(r"[a-z][a-z0-9_]{2,}", bare))


def _key_unit(key: str) -> tuple[str, float]:
    """What a cell measures, by its name."""
    words = set(re.split(r"[^a-z0-9%]+|_", key.lower()))
    if re.search(r"faster|times|ratio| / |over", key):
        return "times", 1.0
    for names, unit in (
        ({"microseconds", "us"}, ("time", 1e-6)),
        ({"milliseconds", "ms"}, ("time", 1e-3)),
        ({"seconds", "s", "busy"}, ("time", 1.0)),
        ({"gigabytes", "gb"}, ("bytes", 1e9)),
        ({"megabytes", "mb"}, ("bytes", 1e6)),
        ({"bytes", "nbytes"}, ("bytes", 1.0)),
        ({"passes", "reads", "pass"}, ("passes", 1.0)),
    ):
        if words & names:
            return unit
    return "", 1.0


def judge(text: str, folder: Path) -> list[str]:
    """Find what is wrong with a page: sentences without a claim, numbers that no claim has."""
    out = []
    blocks = blocks_of(text)
    for at, block in enumerate(blocks):
        if block.kind == "heading" or not block.judged or not measures(block):
            continue
        claims = sorted(claims_of(blocks, at))
        if not claims:
            out.append(f"line {block.line}: names no claim: {block.text[:80]}")
            continue
        results = [load(folder, claim) for claim in claims]
        for line in lines_of(block):
            lost = set[Quantity].intersection(*(each.missing(line) for each in results))
            wrong = [each.text for each in line.quantities if each in lost]
            told = f"not in {', '.join(claims)}: {', '.join(wrong)}"
            out += [f"line {line.number}: {told} | {line.text.strip()[:100]}"] if wrong else []
    return out


@cache
def load(folder: Path, claim: str) -> Results:
    """The results of a claim; one that was never run has none."""
    path = folder / f"{claim}.json"
    return results_of(json.loads(path.read_text())) if path.exists() else Results([], [], set())
