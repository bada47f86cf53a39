"""`INDEXES`: what is known of every index, and one that is added from outside."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.conformance.oracle import check_oracle
from tests.outside import COPY, CopyIndex
from wolfhound.data import store
from wolfhound.oracles.indexes import INDEXES, Speeds, find_saved
from wolfhound.planning.plan import plan

ROWS = np.random.default_rng(0).standard_normal((600, 5)).astype(np.float32)


@pytest.fixture
def copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One call adds an index; afterwards the table is what it was."""
    monkeypatch.setattr(INDEXES, "_things", dict(INDEXES._things))
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", ROWS)
    wh.INDEXES.add(COPY)


# ---------------------------------------------------------------- what all entries say


def test_names_are_those_of_the_table() -> None:
    assert list(wh.INDEXES)[:6] == ["scan", "int8", "clusters", "lsh", "subset", "int8-file"]
    for name, kind in wh.INDEXES.items():
        assert kind.name == name
        assert hasattr(wh, kind.title.split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scan", "int8", "clusters", "lsh", "subset", "int8-file"])
def test_every_entry_builds_an_oracle(name: str) -> None:
    kind = INDEXES[name]
    assert kind.build is not None
    check_oracle(kind.build, exact=kind.proves)


@pytest.mark.parametrize("name", ["int8", "clusters", "lsh", "int8-file"])
def test_what_can_be_saved_is_loaded_by_its_name(name: str, tmp_path: Path) -> None:
    kind = INDEXES[name]
    assert kind.build is not None
    built: Any = kind.build(ROWS, seed=3)
    built.save(tmp_path / "made")
    assert find_saved(tmp_path / "made") is kind
    assert repr(wh.load(tmp_path / "made", ROWS)) == repr(built)


def test_what_cannot_be_saved_has_no_loader() -> None:
    assert [name for name, kind in INDEXES.items() if kind.load is None] == ["scan", "subset"]
    assert not hasattr(wh.Scan, "save")
    assert not hasattr(wh.RandomSubset, "save")


@pytest.mark.parametrize(
    ("params", "got"), [({}, "None"), ({"index": "tree"}, "tree"), ({"index": []}, r"\[\]")]
)
def test_an_index_that_is_not_known_is_refused(params: dict[str, Any], got: str, tmp_path: Path) -> None:
    store.save(tmp_path / "made", "index", {}, params)
    with pytest.raises(store.StoreError, match=f"`path` must hold one of the indexes int8, .* Got {got}"):
        wh.load(tmp_path / "made", ROWS)


def test_an_index_is_not_loaded_as_another(tmp_path: Path) -> None:
    wh.Int8Scan.build(ROWS).save(tmp_path / "made")
    with pytest.raises(store.StoreError, match=r"must hold a saved index clusters\. Got int8"):
        wh.ClusterIndex.load(tmp_path / "made", ROWS)


# ---------------------------------------------------------------- one from outside


@pytest.mark.slow
@pytest.mark.usefixtures("copy")
def test_an_index_from_outside_is_weighed_built_saved_and_loaded(tmp_path: Path) -> None:
    choice = wh.choose_oracle(ROWS, queries=10**6, ratio=0.9, proof=False)
    assert (choice.chosen.name, choice.chosen.title) == ("copy", "CopyIndex")
    built = choice.build()
    assert isinstance(built, CopyIndex)
    built.save("made")
    assert isinstance(wh.load("made", ROWS), CopyIndex)
    with pytest.raises(store.StoreError, match="must be the atoms"):
        wh.load("made", ROWS + 1.0)
    found = plan(n=10**6, d=16, queries=10**6)
    assert found.pays
    assert found.chosen.name == "copy"
    assert found.summary().document()["chosen"] == "copy"
    found.plot(tmp_path / "plan.png")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="`name` must be new in the table"):
        INDEXES.add(replace(COPY, name="scan"))
    with pytest.raises(TypeError, match="`index` must have `name`, `title`"):
        INDEXES.add(Speeds)  # type: ignore[arg-type]
