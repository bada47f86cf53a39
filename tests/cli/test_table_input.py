"""A table with missing values, texts and numbers, at the first command and in six lines of Python."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run
from wolfhound import Missing, encode, herd, load

FLIGHTS = Path(__file__).parents[1] / "data" / "flights.csv"
COUNTED = ["dep_time", "dep_delay", "arr_delay", "air_time"]
M = 40

pytestmark = pytest.mark.slow


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("flights.csv").write_bytes(FLIGHTS.read_bytes())
    return tmp_path


# ---------------------------------------------------------------- herd


def test_the_first_command_works(run: Run, here: Path) -> None:
    ran = run(
        "herd", "flights.csv", "-m", 500, "--by", "carrier", "-o", "core.parquet", "--report", "core.html"
    )
    assert ran.code == 0
    for said in (
        "values are levels of their own: dep_time (54)",
        "origin (3)",
        "carrier (label), tailnum (more than 64 different texts)",
        "flight makes up 77.1 % of the squared distances",
    ):
        assert said in ran.out
    core, frame = pq.read_table("core.parquet").to_pandas(), pd.read_csv("flights.csv")
    assert len(core) == 500
    assert abs(core["weight"].sum() - 1.0) < 1e-12
    rows = frame.loc[core["id"]]
    assert rows[COUNTED].isna().any(axis=None)
    assert core["carrier"].tolist() == rows["carrier"].tolist()
    np.testing.assert_array_equal(core["arr_delay"], rows["arr_delay"])
    page = Path("core.html").read_text()
    assert "values are levels of their own" in page
    chosen = page.partition("The chosen rows, with their columns")[2]
    assert re.findall(r'class="left">(\d+)</th>', chosen) == [str(i) for i in core["id"][:50]]


def test_six_lines_of_python(run: Run, here: Path) -> None:
    frame = pd.read_csv("flights.csv")
    result = herd(frame, M, by="carrier", standardize=True, missing="drop")
    core = result.frame
    core.to_csv("core.csv", index=False)
    assert "63 of 2,000 rows" in repr(result)
    options = ["--by", "carrier", "--standardize", "--missing", "drop", "--json"]
    document = json.loads(run("herd", "flights.csv", "-m", M, *options).out)
    assert [row["id"] for row in document["rows"]] == result.ids.tolist()
    assert (document["n"], document["table"]["dropped"]) == (2000, 63)
    pd.testing.assert_frame_equal(core[frame.columns], frame.iloc[result.ids])
    np.testing.assert_array_equal(core["weight"], result.weights)
    assert core.index.tolist() == core["id"].tolist() == result.ids.tolist()


def test_the_frame_is_of_the_kind_that_came_in(here: Path) -> None:
    frame = pd.read_csv("flights.csv")
    expected = herd(frame, 5)
    polar = herd(pl.read_csv("flights.csv", null_values="NA"), 5).frame
    assert isinstance(polar, pl.DataFrame)
    arrow = herd(pa.Table.from_pandas(frame), 5).frame
    assert isinstance(arrow, pa.Table)
    file = herd("flights.csv", 5).frame
    for found in (polar["id"].to_list(), arrow["id"].to_pylist(), file["id"].tolist()):
        assert found == expected.ids.tolist()
    assert list(expected.to_frame().columns) == ["id", "weight"]
    with pytest.raises(ValueError, match="`frame` needs a table"):
        herd(np.eye(9), 3).frame  # noqa: B018
    named = herd(frame.assign(weight=1.0), 3).frame
    assert {"weight", "id", "herd_weight"} <= set(named.columns)


def test_several_keys_and_rows_that_are_left_out(here: Path) -> None:
    frame = pd.read_csv("flights.csv")
    result = herd(frame, M, by=["origin", "month"], columns=["dep_delay", "distance"])
    assert result.labels is not None
    wanted = frame.iloc[result.ids]
    pairs = zip(wanted["origin"], wanted["month"], strict=True)
    assert result.labels.tolist() == [str(pair) for pair in pairs]
    assert len(set(result.labels)) == 36
    seen: list[Any] = []

    def note(state: Any) -> None:
        seen.append(state.ids)

    start, gone = [20, 5], [int(frame["dep_delay"].isna().argmax()), 9]
    more = herd(frame, 5, start=start, exclude=gone, missing="drop", callback=note, seed=2)
    assert more.ids[:2].tolist() == start
    assert not set(more.ids) & set(gone)
    np.testing.assert_array_equal(seen[-1], more.ids)
    with pytest.raises(ValueError, match="`start` must be rows that are kept"):
        herd(frame, 5, start=gone, missing="drop")
    with pytest.raises(ValueError, match="`by` must be a column among month"):
        herd(frame, 5, by="carriers")
    holes = frame[["distance", "month"]].assign(
        kind=[None if month == 2 else "a" for month in frame["month"]]
    )
    with pytest.raises(ValueError, match=r"`by` must be a column without missing values: encode\(table"):
        herd(encode(holes, columns=["distance"]), 5, by="kind")
    labelled = herd(encode(holes, columns=["distance"], labels=["kind"]), 5, by="kind")
    assert (holes["month"].iloc[labelled.ids] != 2).all()
    with pytest.raises(ValueError, match="`by` must be labels, one per row, or a column of a table"):
        herd(np.eye(9), 3, by="carrier")


def test_a_saved_run_over_a_table_goes_on(here: Path) -> None:
    frame = pd.read_csv("flights.csv")
    result = herd(
        frame, 6, by="origin", exclude=[1, 2], missing=Missing.MEAN, standardize=True, numeric_only=True
    )
    result.save("run")
    loaded = load("run", None)
    assert loaded.table == result.table
    again = loaded.extend(9, atoms=frame, by="origin")
    np.testing.assert_array_equal(again.ids, result.extend(9).ids)
    np.testing.assert_array_equal(again.ids[:6], result.ids)


def test_a_target_with_texts(here: Path) -> None:
    frame = pd.read_csv("flights.csv")
    jfk = frame[frame["origin"] == "JFK"]
    found = herd(frame, M, target=jfk, columns=["origin", "distance"], standardize=True).frame
    assert (found["origin"] == "JFK").mean() > 0.8


def test_what_is_to_be_done_with_missing_values(run: Run, here: Path) -> None:
    ran = run("herd", "flights.csv", "-m", 5, "--missing", "error")
    assert ran.code == 2
    assert "ATOMS must be free of missing values" in ran.err
    assert "the first in row 11: dep_time (54), dep_delay (54), arr_delay (63), air_time (63)." in ran.err
    ran = run("herd", "flights.csv", "-m", 5, "--missing", "mean", "--numeric-only", "-o", "core.csv")
    assert "234 values filled with means" in ran.out
    assert "one-hot" not in ran.out
    assert run("herd", "flights.csv", "-m", 5, "--missing", "guess").code == 2


# ---------------------------------------------------------------- the others


def test_explain_counts_categories_and_names_rows(run: Run, here: Path) -> None:
    lines = ["name,x,y,kind"]
    lines += [f"n{i},{'NA' if i == 3 else i % 7},{i % 5},{'ab'[i % 2]}" for i in range(90)]
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    ran = run("explain", "rows.csv", "--target", "n50", "--target", "88", "--exclude-self", "--json")
    assert "missing: 1 of 90 rows left out for missing values: x (1)" in ran.err
    first, second = json.loads(ran.out)["targets"]
    assert (first["target"], second["target"]) == ("n50", "n88")
    for document in (first, second):
        assert all(atom["name"] == f"n{atom['id']}" for atom in document["atoms"])
        assert document["distance"] < 1e-6
    Path("targets.csv").write_text("kind,y,x\na,1,3\nb,0,2\n")
    ran = run("explain", "rows.csv", "--targets", "targets.csv", "--json")
    points = [document["distance"] for document in json.loads(ran.out)["targets"]]
    assert max(points) < 1e-2
    assert run("explain", "rows.csv", "--target", "n3").code == 2
    assert run("explain", "rows.csv", "--targets", "targets.csv", "--save", "run").code == 2


def test_design_leaves_rows_out_by_their_own_ids(run: Run, here: Path) -> None:
    cells = [(t, kind) for t in (10, 20, 30) for kind in "ab"]
    lines = ["t,kind,name", "NA,a,first", *(f"{t},{kind},s{i}" for i, (t, kind) in enumerate(cells * 12))]
    Path("possible.csv").write_text("\n".join(lines) + "\n")
    ran = run("design", "possible.csv", "--json", "--runs", 4)
    document = json.loads(ran.out)
    assert (document["table"]["dropped"], document["table"]["rows"]) == (1, 73)
    assert document["table"]["carried"] == [["name", "more than 64 different texts"]]
    for row in document["design"] + document["plan"]["rows"]:
        assert (float(row["t"]), row["kind"]) == (
            float(cells[(row["id"] - 1) % 6][0]),
            cells[(row["id"] - 1) % 6][1],
        )
    text = run("design", "possible.csv").out
    assert "1 of 73 rows left out for missing values: t (1)" in text
    assert run("design", "possible.csv", "--missing", "error").code == 2
    assert run("design", "possible.csv", "--numeric-only", "--json").code == 0


def test_npmle_keeps_every_row_in_its_place(run: Run, here: Path) -> None:
    lines = ["name,z,s", "a,1.0,1", "b,NA,1", "c,-2,", "d,2.5,2", "e,0,1"]
    Path("data.csv").write_text("\n".join(lines) + "\n")
    ran = run("npmle", "data.csv", "--x", "z", "--se", "s", "-o", "posterior.csv")
    assert ran.code == 0
    assert "2 of 5 rows left out for missing values: z (1), s (1)" in ran.out
    written = pd.read_csv("posterior.csv")
    assert written["name"].tolist() == list("abcde")
    assert written["posterior_mean"].isna().tolist() == [False, True, True, False, False]
    ran = run("npmle", "data.csv", "--x", "z", "--se", "s", "--missing", "error")
    assert ran.code == 2
    assert "the first in row 1: z (1), s (1)." in ran.err
    assert (
        "a mean is no observation"
        in run("npmle", "data.csv", "--x", "z", "--se", "1", "--missing", "mean").err
    )
