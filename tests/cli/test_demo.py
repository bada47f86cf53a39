"""`wolfhound demo` on a part of the words."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wolfhound.cli import demo
from wolfhound.data import shipped as data


def test_the_words_of_the_demo_are_known() -> None:
    words = data.words()
    assert words.sentence(demo.SENTENCE).shape == (100,)
    assert len({words.id(word) for word in demo.WORDS}) == len(demo.WORDS)


@pytest.mark.slow
def test_demo_explains_races_and_draws(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_CLASSICAL_STEPS", 20)
    monkeypatch.setattr(demo, "WORDS", ("king",))
    monkeypatch.chdir(tmp_path)
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    king = lines.index("king")
    shown = [line.split()[0] for line in lines[king + 1 : king + 7]]
    assert "king" not in shown
    assert {"queen", "prince"} & set(shown)
    assert "x the goal" in ran.out
    assert "wolfhound explain" in lines[-1]
    assert Path("wolfhound-demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_draws_where_it_is_told(run: Run, tmp_path: Path) -> None:
    ran = run("demo", "--plot", tmp_path / "no" / "gaps.png")
    assert ran.code == 2
    assert "`--plot` must be in a folder that exists." in ran.err


def test_demo_stops_when_interrupted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_solve", interrupted)
    ran = run("demo", "--plot", tmp_path / "gaps.png")
    assert ran.code == 130
    assert list(tmp_path.iterdir()) == []
