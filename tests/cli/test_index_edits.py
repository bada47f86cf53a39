"""`wolfhound index query`, `append` and `remove`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words
from wolfhound.oracles.indexes import find_saved
from wolfhound.oracles.int8.scan import Int8Scan

ROWS = np.random.default_rng(3).standard_normal((300, 4)).astype(np.float32)
MORE = np.random.default_rng(4).standard_normal((20, 4)).astype(np.float32)
QUERIES = np.random.default_rng(5).standard_normal((12, 4))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with atoms, an index and queries, made the current one."""
    monkeypatch.chdir(tmp_path)
    files: dict[str, Any] = {"atoms": ROWS, "more": MORE, "queries": QUERIES, "narrow": MORE[:, :2]}
    for name, rows in files.items():
        np.save(f"{name}.npy", rows)
    Int8Scan.build(ROWS).save("codes")


# ---------------------------------------------------------------- query


def test_answers_are_those_of_the_index(run: Run) -> None:
    hits = Int8Scan.build(ROWS).query(QUERIES, k=3)
    asked = "index", "query", "codes", "atoms.npy", "queries.npy", "-k", "3"
    ran = run(*asked, "-o", "hits.npz", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert {name: document[name] for name in ("kind", "queries", "k", "passes")} == {
        "kind": "int8",
        "queries": 12,
        "k": 3,
        "passes": 1.0,
    }
    assert [each["ids"] for each in document["hits"]] == hits.ids.tolist()
    assert [each["scores"] for each in document["hits"]] == hits.scores.tolist()
    with np.load("hits.npz") as arrays:
        np.testing.assert_array_equal(arrays["ids"], hits.ids)
        np.testing.assert_array_equal(arrays["bounds"], hits.bounds)
    assert run(*asked, "--out", "hits.npy").code == 0
    table = np.load("hits.npy")
    assert table.dtype.names == ("query", "rank", "id", "score", "bound")
    np.testing.assert_array_equal(table["id"].reshape(12, 3), hits.ids)
    assert table["rank"][:4].tolist() == [1, 2, 3, 1]


def test_an_index_may_be_edited_in_place_by_its_name(run: Run) -> None:
    assert run("index", "append", "codes", "atoms.npy", "more.npy", "-o", "codes").code == 0
    assert run("index", "check", "codes", "atoms.npy,more.npy").code == 0


def test_a_query_that_is_not_finite_is_named_by_its_row(run: Run) -> None:
    queries = np.resize(QUERIES, (2000, 4))
    queries[1500, 2] = np.nan
    np.save("queries.npy", queries)
    ran = run("index", "query", "codes", "atoms.npy", "queries.npy")
    assert ran.code == 2
    assert "`QUERIES` must be finite. Got nan in row 1500, column 2." in words(ran.err)


def test_the_first_answers_are_printed(run: Run) -> None:
    ran = run("index", "query", "codes", "atoms.npy", "queries.npy")
    best = Int8Scan.build(ROWS).query(QUERIES[0])
    assert f"{best.ids[0, 0]} ({best.scores[0, 0]:.6g})" in ran.out
    assert "12 queries, the first 10 are shown" in ran.out


# ---------------------------------------------------------------- append and remove


@pytest.mark.parametrize("kind", ["int8", "clusters", "lsh"])
def test_an_index_is_edited_in_place_and_asked(run: Run, kind: str) -> None:
    built = wh.INDEXES[kind].build
    assert built is not None
    index = built(ROWS)
    index.save("index")  # type: ignore[attr-defined]
    ran = run("index", "append", "index", "atoms.npy", "more.npy")
    assert (ran.code, ran.err) == (0, "")
    assert f"{wh.INDEXES[kind].title}, 300 -> 320 atoms" in ran.out
    assert ran.out.endswith("Its atoms are now atoms.npy,more.npy.\n")
    assert run("index", "check", "index", "atoms.npy,more.npy", "--queries", "5").code == 0
    Path("gone.txt").write_text("319\n7\n")
    command = "index", "remove", "index", "atoms.npy,more.npy", "--ids", "0, 5", "--ids-file", "gone.txt"
    ran = run(*command, "--write-atoms", "kept.npy", "--json")
    document = json.loads(ran.out)
    assert [document[name] for name in ("kind", "atoms", "before")] == [kind, 316, 320]
    kept = np.delete(np.concatenate([ROWS, MORE]), [0, 5, 7, 319], axis=0)
    np.testing.assert_array_equal(np.load("kept.npy"), kept)
    assert run("index", "check", "index", "kept.npy", "--queries", "5").code == 0


def test_another_file_leaves_the_first_as_it_was(run: Run) -> None:
    before = Path("codes.safetensors").read_bytes()
    assert run("index", "remove", "codes", "atoms.npy", "--ids", "3", "-o", "two").code == 0
    assert Path("codes.safetensors").read_bytes() == before
    assert find_saved("two").name == "int8"
    assert wh.load("two", np.delete(ROWS, 3, axis=0)).atoms.shape == (299, 4)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("query codes more.npy queries.npy", "`ATOMS` must be the atoms that codes.safetensors was made"),
        ("append codes atoms.npy more.npy --write-atoms codes.safetensors", "`--write-atoms` must end in"),
        ("query codes atoms.npy narrow.npy", "`QUERIES` must be rows of 4 numbers, as the atoms. Got 2."),
        ("query codes atoms.npy queries.npy -o hits.txt", "`--out` must end in"),
        ("query codes atoms.npy queries.npy -o queries.npy", "`--out` must not be what QUERIES reads"),
        ("append codes atoms.npy narrow.npy", "`ROWS` must be vectors of 4 entries, as the atoms"),
        (
            "append codes atoms.npy more.npy --write-atoms more.npy",
            "`--write-atoms` must not be what ROWS reads",
        ),
        ("append codes atoms.npy more.npy --write-atoms all.csv", "`--write-atoms` must end in .npy"),
        ("remove codes atoms.npy", "`--ids` must be at least one id, here or in --ids-file. Got none."),
        ("remove codes atoms.npy --ids 300", "`--ids` must be ids in [0, 300)"),
        ("remove codes atoms.npy --ids x", "`--ids` must be ids of atoms, such as 3,17. Got x."),
        ("remove codes atoms.npy --ids 1 --ids-file no.txt", "no.txt"),
    ],
)
def test_wrong_use_is_told_and_nothing_is_written(run: Run, command: str, text: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}
    ran = run("index", *command.split())
    assert ran.code == 2
    assert text in words(ran.err)
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()} == before


def test_atoms_that_do_not_open_together_must_be_written(run: Run) -> None:
    np.save("a,b.npy", MORE)
    np.savetxt("more.csv", np.round(MORE), delimiter=",", fmt="%.9g")
    np.save("exact.npy", np.round(MORE).astype(np.float64))
    before = Path("codes.safetensors").read_bytes()
    for rows in ("a,b.npy", "more.csv", "exact.npy"):
        ran = run("index", "append", "codes", "atoms.npy", rows)
        assert ran.code == 2
        assert f"`--write-atoms` must be given: atoms.npy,{rows} does not open" in words(ran.err)
    assert Path("codes.safetensors").read_bytes() == before
    command = "index", "append", "codes", "atoms.npy", "a,b.npy", "--write-atoms", "all.npy"
    assert run(*command).code == 0
    assert run("index", "query", "codes", "all.npy", "queries.npy").code == 0


def test_parts_of_two_types_open_together(run: Run) -> None:
    np.save("wide.npy", ROWS.astype(np.float64))
    Int8Scan.build(ROWS.astype(np.float64)).save("wide")
    assert run("index", "append", "wide", "wide.npy", "more.npy").code == 0
    assert run("index", "query", "wide", "wide.npy,more.npy", "queries.npy").code == 0


def test_columns_in_another_order_are_refused(run: Run) -> None:
    frame = pd.DataFrame(ROWS[:30].astype(np.float64), columns=list("abcd"))
    frame.to_csv("abcd.csv", index=False)
    frame[list("dcba")].to_csv("dcba.csv", index=False)
    Int8Scan.build("abcd.csv").save("table")
    for command, name in {
        "index append table abcd.csv dcba.csv --write-atoms all.npy": "ROWS",
        "index query table abcd.csv dcba.csv": "QUERIES",
        "unmix dcba.csv --library abcd.csv": "CUBE",
    }.items():
        ran = run(*command.split())
        assert ran.code == 2
        assert f"`{name}` must be a table with the columns of the atoms in their order" in words(ran.err)
    assert not Path("all.npy").exists()
