"""`--report` of every command that gives a result: a page, or one line that says why not."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, words

COMMANDS = {
    "solve": "solve atoms.npy --objective squared-distance --target point.npy",
    "explain": "explain atoms.npy --names names.txt --target atom-3 --exclude-self",
    "explain two": "explain atoms.npy --target 3 --target 4 --exclude-self",
    "explain all": "explain atoms.npy --targets points.npy",
    "unmix": "unmix points.npy --library atoms.npy --names names.txt",
    "npmle": "npmle counts.csv --x x --family poisson --exposure 1",
    "herd": "herd atoms.npy -m 5",
    "design": "design --factor x=-1,0,1 --factor y=a,b --runs 6",
    "plan": "plan --n 1e6 --d 16",
    "policy solve": "policy solve --states 5 --rows 30 --dim 3",
}


@pytest.fixture(autouse=True)
def counts(folder: Path) -> None:
    (folder / "counts.csv").write_text("x,name\n" + "".join(f"{x},<b>\n" for x in (0, 1, 1, 2, 5)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_tells_the_command_that_made_it(run: Run, folder: Path, name: str) -> None:
    typed = [*COMMANDS[name].split(), "--report", "page <1>.html"]
    assert run(*typed).code == 0
    text = (folder / "page <1>.html").read_text()
    shown = shlex.join(["wolfhound", *typed]).replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#x27;")
    assert f"<code>{shown}</code>" in text


def test_names_of_atoms_are_on_the_page(run: Run, folder: Path) -> None:
    run(*COMMANDS["explain"].split(), "--report", "page.html")
    best = run(*COMMANDS["explain"].split(), "--top", 1).out.split()[1]
    assert f'<th scope="row" class="left">{best}</th>' in (folder / "page.html").read_text()


def test_targets_that_share_a_name_are_all_told(run: Run, folder: Path) -> None:
    (folder / "twins.txt").write_text("\n".join(["twin", "twin", "twin (#1)", *map(str, range(3, 60))]))
    typed = (
        "explain atoms.npy --names twins.txt --target twin --target 1 --target 2 --target twin --exclude-self"
    )
    assert run(*typed.split(), "--report", "page.html", "--plot", "a.svg").code == 0
    text = (folder / "page.html").read_text()
    headings = re.findall(r"<h2[^>]*>(twin[^<]*)</h2>", text)
    assert [name.rstrip() for name in headings] == ["twin (#0)", "twin (#1)", "twin (#1)"]


def test_names_that_are_no_utf8_do_not_end_the_work(run: Run, folder: Path) -> None:
    name = os.fsdecode(b"at\xffoms.npy")
    (folder / name).write_bytes((folder / "atoms.npy").read_bytes())
    ran = run("explain", name, "--target", "3", "--exclude-self", "--report", "page.html")
    assert ran.code == 0
    assert "at?oms.npy" in (folder / "page.html").read_text()


def test_what_is_read_is_not_written_over(run: Run, folder: Path) -> None:
    (folder / "atoms.html").symlink_to(folder / "atoms.npy")
    before = (folder / "atoms.npy").read_bytes()
    ran = run(*COMMANDS["solve"].split(), "--report", "atoms.html")
    assert (ran.code, words(ran.err)) == (
        2,
        "error: `--report` must not be what ATOMS reads. Got atoms.html.",
    )
    assert (folder / "atoms.npy").read_bytes() == before
    ran = run(*COMMANDS["herd"].split(), "--report", "x.html", "--plot", "x.html")
    assert ran.code == 2


def test_wrong_places_are_refused_before_any_work(run: Run, folder: Path) -> None:
    np.save(folder / "atoms.npy", np.zeros((2, 2)))
    ran = run(*COMMANDS["solve"].split(), "--report", "page.txt")
    assert (ran.code, words(ran.err)) == (2, "error: `--report` must end in .html, .htm. Got page.txt.")
