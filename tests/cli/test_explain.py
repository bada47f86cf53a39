"""`wolfhound explain` against a direct projection, and every way to misuse it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from scipy.optimize import nnls

import wolfhound as wh
from tests.cli.conftest import NAMES, Run, words
from wolfhound.cli import _output as output
from wolfhound.many.run import ManyState

Array = np.ndarray[Any, np.dtype[np.float64]]


def distance(rows: Array, target: Array) -> float:
    """Distance to the hull by non-negative least squares with a heavy sum-to-one row."""
    heavy = 1e5
    weights, _ = nnls(np.vstack([rows.T, np.full(len(rows), heavy)]), np.append(target, heavy))
    return float(np.linalg.norm(rows.T @ weights / weights.sum() - target))


def documents(text: str) -> list[dict[str, Any]]:
    """Return the explanations of a JSON document."""
    found: list[dict[str, Any]] = json.loads(text)["targets"]
    return found


@pytest.mark.slow
def test_targets_from_a_file(run: Run, folder: Path, rows: Array) -> None:
    ran = run("explain", "atoms.npy", "--targets", "points.npy", "--rtol", "1e-8", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = documents(ran.out)
    assert [document["target"] for document in found] == ["0", "1", "2"]
    expected = [distance(rows, point) for point in np.load("points.npy")]
    np.testing.assert_allclose([document["distance"] for document in found], expected, rtol=1e-5)
    for document in found:
        assert document["lower"] <= document["value"]
        assert document["gap"] <= document["goal"]
        assert document["support"] == len(document["atoms"])
        np.testing.assert_allclose(sum(atom["weight"] for atom in document["atoms"]), 1.0)


def test_an_atom_is_explained_by_itself(run: Run, folder: Path) -> None:
    document = documents(run("explain", "atoms.npy", "--target", "17", "--json").out)[0]
    assert document["target"] == "17"
    assert [(atom["id"], atom["name"]) for atom in document["atoms"]] == [(17, None)]


@pytest.mark.parametrize("target", ["17", "atom-17"])
def test_exclude_self_by_name_or_id(run: Run, folder: Path, rows: Array, target: str) -> None:
    arguments = ["--names", "names.txt", "--target", target, "--exclude-self", "--rtol", "1e-8", "--json"]
    document = documents(run("explain", "atoms.npy", *arguments).out)[0]
    assert document["target"] == "atom-17"
    assert 17 not in [atom["id"] for atom in document["atoms"]]
    assert [atom["name"] for atom in document["atoms"]] == [NAMES[atom["id"]] for atom in document["atoms"]]
    expected = distance(np.delete(rows, 17, axis=0), rows[17])
    np.testing.assert_allclose(document["distance"], expected, rtol=1e-4, atol=1e-3)


def test_exclude_self_of_a_file_of_all_atoms(run: Run, folder: Path) -> None:
    arguments = ["--targets", "atoms.npy", "--names", "names.txt", "--exclude-self", "--json"]
    found = documents(run("explain", "atoms.npy", *arguments).out)
    assert [document["target"] for document in found] == list(NAMES)
    assert [i for i, document in enumerate(found) if i in [atom["id"] for atom in document["atoms"]]] == []


def test_a_name_goes_before_an_id(run: Run, folder: Path) -> None:
    Path("numbers.txt").write_text("\n".join(str(59 - i) for i in range(60)))
    document = documents(
        run("explain", "atoms.npy", "--names", "numbers.txt", "--target", "7", "--json").out
    )[0]
    assert [atom["id"] for atom in document["atoms"]] == [52]


def test_names_come_from_the_only_text_column(run: Run, folder: Path, rows: Array) -> None:
    with open("atoms.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["word", "a", "b", "c", "d", "e"])
        writer.writerows([name, *row] for name, row in zip(NAMES, rows, strict=True))
    document = documents(run("explain", "atoms.csv", "--target", "atom-5", "--json").out)[0]
    assert [atom["name"] for atom in document["atoms"]] == ["atom-5"]


def test_the_text_names_distance_atoms_and_proof(run: Run, folder: Path) -> None:
    ran = run("explain", "atoms.npy", "--targets", "points.npy", "--names", "names.txt", "--top", "1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "0"
    assert lines[1].startswith("atom-")
    assert "█" * 24 in lines[1]
    assert lines[2].split()[1] == "more"
    assert lines[3].startswith("distance ")
    assert "proved gap" in lines[3]
    assert lines[-1].startswith("3 of 3 targets are proved")


def test_no_atoms_are_printed_for_top_0(run: Run, folder: Path) -> None:
    ran = run("explain", "atoms.npy", "--targets", "points.npy", "--top", "0")
    assert ran.code == 0
    assert "█" not in ran.out


def test_a_target_may_hold_brackets(run: Run, folder: Path) -> None:
    Path("odd.txt").write_text("\n".join(f"[red]{i}[/red]" for i in range(60)))
    ran = run("explain", "atoms.npy", "--names", "odd.txt", "--target", "[red]4[/red]")
    assert ran.out.startswith("[red]4[/red]\n[red]4[/red]")


@pytest.mark.parametrize("name", [r"x\[/b]", r"\[red]z", "a\\", r"b\\", r"\\[/]", r"c\[5", ":cat:", "[/]"])
def test_a_name_is_printed_as_it_stands(run: Run, folder: Path, name: str) -> None:
    Path("odd.txt").write_text("\n".join([name, *(f"atom-{i}" for i in range(1, 60))]))
    ran = run("explain", "atoms.npy", "--names", "odd.txt", "--target", name, "--exclude-self")
    assert (ran.code, ran.out.splitlines()[0]) == (0, name)
    ran = run("explain", "atoms.npy", "--names", "odd.txt", "--target", name)
    assert ran.out.splitlines()[1].startswith(f"{name} ")


@given(st.text(r"\[]/ab#@= ", max_size=12))
def test_text_is_shown_as_it_stands_whatever_follows(text: str) -> None:
    shown = output.plain(text)
    for markup in (shown, f"[bold]{shown}[/]", f"{shown}[dim]x[/]", f"{shown} x"):
        assert Text.from_markup(markup, emoji=False).plain.startswith(text)
    assert Text.from_markup(f"[bold]{shown}[/]", emoji=False).plain == text


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_a_limit_of_time_is_not_negative(run: Run, folder: Path, seconds: str) -> None:
    ran = run("explain", "atoms.npy", "--target", "1", "--max-seconds", seconds)
    assert ran.code == 2
    assert "`--max-seconds` must be a number >= 0. Got" in ran.err


def _from_csv(path: Path) -> list[tuple[str, int, str, float]]:
    with open(path, newline="") as file:
        return [(r["target"], int(r["id"]), r["name"], float(r["weight"])) for r in csv.DictReader(file)]


def _from_json(path: Path) -> list[tuple[str, int, str, float]]:
    return [(r["target"], r["id"], r["name"], r["weight"]) for r in json.loads(path.read_text())]


def _from_npy(path: Path) -> list[tuple[str, int, str, float]]:
    table = np.load(path, allow_pickle=False)
    assert table.dtype.names == ("target", "id", "name", "weight")
    found: list[tuple[str, int, str, float]] = table.tolist()
    return found


def _from_parquet(path: Path) -> list[tuple[str, int, str, float]]:
    rows = pyarrow.parquet.read_table(path).to_pylist()
    return [(r["target"], r["id"], r["name"], r["weight"]) for r in rows]


@pytest.mark.parametrize("names", [["--names", "names.txt"], []])
@pytest.mark.parametrize(
    ("ending", "read"),
    [
        ("csv", _from_csv),
        ("json", _from_json),
        ("npy", _from_npy),
        ("parquet", _from_parquet),
        ("CSV", _from_csv),
    ],
)
def test_every_format_holds_all_weights(
    run: Run, folder: Path, ending: str, read: Any, names: list[str]
) -> None:
    out = folder / f"mixtures.{ending}"
    ran = run("explain", "atoms.npy", "--targets", "points.npy", *names, "--out", out, "--json", "--top", "1")
    assert ran.code == 0
    expected = [
        (document["target"], atom["id"], atom["name"] or "", atom["weight"])
        for document in documents(ran.out)
        for atom in document["atoms"]
    ]
    assert read(out) == expected
    assert [path.name for path in folder.glob(".*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("targets", [["--target", "3"], ["--targets", "points.npy"]])
def test_a_picture_is_drawn(run: Run, folder: Path, targets: list[str]) -> None:
    assert run("explain", "atoms.npy", *targets, "--plot", "gaps.png").code == 0
    assert Path("gaps.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def many_points(folder: Path) -> Path:
    """As many points as two chunks hold."""
    np.save("many.npy", np.random.default_rng(3).standard_normal((300, 5)))
    return folder / "many.npy"


def test_no_time_leaves_targets_unproved(run: Run, many_points: Path) -> None:
    ran = run("explain", "atoms.npy", "--targets", "many.npy", "--max-seconds", "0", "--summary", "all.csv")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("256 of 300 targets are proved")
    assert "... 280 more: --out and --summary write all" in ran.out
    with open("all.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [line["status"] for line in table] == ["GAP_REACHED"] * 256 + ["MAX_SECONDS"] * 44
    assert all(float(line["lower"]) <= float(line["value"]) for line in table)


def test_ctrl_c_keeps_what_is_done_and_exits_with_130(
    run: Run, many_points: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(state: ManyState) -> None:
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def interrupted(*_: object) -> Iterator[Callable[[ManyState], None]]:
        yield interrupt

    monkeypatch.setattr("wolfhound.many.run.show_progress", interrupted)
    ran = run("explain", "atoms.npy", "--targets", "many.npy", "--json")
    assert ran.code == 130
    found = [document["status"] for document in documents(ran.out)]
    assert found == ["GAP_REACHED"] * 256 + ["INTERRUPTED"] * 44


def test_a_run_over_a_file_is_saved_and_goes_on(run: Run, many_points: Path) -> None:
    options = ("--targets", "many.npy", "--save", "run")
    assert run("explain", "atoms.npy", *options).code == 0
    assert wh.load("run").success
    assert run("explain", "atoms.npy", *options).code == 0
    ran = run("explain", "atoms.npy", *options, "--exclude-self")
    assert ran.code == 2
    ran = run("explain", "atoms.npy", *options, "--seed", "3")
    assert "`--save` must be new, or hold a run" in words(ran.err)


def test_targets_that_are_not_finite_are_skipped_if_asked(run: Run, many_points: Path) -> None:
    points = np.load("many.npy")
    points[7, 2] = np.inf
    np.save("holes.npy", points)
    ran = run("explain", "atoms.npy", "--targets", "holes.npy")
    assert ran.code == 2
    assert "inf" in ran.err
    assert run("explain", "atoms.npy", "--targets", "holes.npy", "--skip", "--out", "all.csv").code == 0
    assert "7" not in {line[0] for line in _from_csv(Path("all.csv"))}


@pytest.mark.parametrize("option", [["--summary", "x.csv"], ["--save", "x"], ["--skip"]])
def test_options_of_a_file_of_targets(run: Run, folder: Path, option: list[str]) -> None:
    ran = run("explain", "atoms.npy", "--target", "1", *option)
    assert ran.code == 2
    assert f"`{option[0]}` must be given with `--targets` only" in words(ran.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "`--target` or `--targets` must be given, and not both."),
        (
            ["--target", "1", "--targets", "points.npy"],
            "`--target` or `--targets` must be given, and not both.",
        ),
        (["--target", "60"], "`--target` must be an id in [0, 60). Got 60."),
        (["--target=-1"], "`--target` must be an id in [0, 60). Got -1."),
        (["--names", "names.txt", "--target", "atom-x7"], "Did you mean"),
        (["--targets", "A.npy", "--exclude-self"], "`--exclude-self` must come with 60 targets"),
        (["--targets", "wide.npy"], "`--targets` must have 5 columns, as the atoms. Got 6 in wide.npy."),
        (["--targets", "missing.npy"], "missing.npy"),
        (["--targets", "names.txt"], "names.txt"),
        (
            ["--target", "1", "--names", "short.txt"],
            "`--names` must hold 60 names, one per atom. Got 2 in short",
        ),
        (["--target", "1", "--names", "missing.txt"], "missing.txt"),
        (
            ["--target", "1", "--out", "x.xlsx"],
            "`--out` must end in .csv, .json, .npy, .parquet, .arrow, .feather. Got x.xlsx.",
        ),
        (["--target", "1", "--out", "no/x.csv"], "`--out` must be in a folder that exists. Got no/x.csv."),
        (["--target", "1", "--plot", "x.csv"], "`--plot` must end in .png, .svg, .pdf. Got x.csv."),
        (["--target", "1", "--rtol=-1"], "`--rtol` must be a number >= 0. Got -1.0."),
    ],
)
def test_mistakes_are_named(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    Path("short.txt").write_text("a\nb\n")
    np.save("wide.npy", np.zeros((2, 6)))
    ran = run("explain", "atoms.npy", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


def test_one_target_may_have_a_checkpoint(run: Run, folder: Path) -> None:
    options = ("explain", "atoms.npy", "--target", "17", "--exclude-self", "--checkpoint", "kept", "--json")
    first, again = run(*options), run(*options)
    assert (first.code, again.code, again.err) == (0, 0, "the run in kept has ended\n")
    assert documents(again.out)[0]["atoms"] == documents(first.out)[0]["atoms"]
    ran = run("explain", "atoms.npy", "--targets", "points.npy", "--checkpoint", "kept")
    assert ran.code == 2
    assert "`--checkpoint` must be given with one `--target`. Got `--targets`; see --save." in ran.err


WORDS = "word,u,v\nw0,0,0\nw1,1,0\nw2,,1\nw3,.3,1\nw4,5,5\nw5,2,.5\n"


@pytest.fixture
def holes(folder: Path) -> None:
    """A table in which row w2 has a missing value, and the same without it."""
    Path("words.csv").write_text(WORDS)
    Path("kept.csv").write_text(WORDS.replace("w2,,1\n", ""))


def test_targets_are_named_as_the_atoms_that_are_kept(run: Run, holes: None) -> None:
    options = ["--targets", "kept.csv", "--exclude-self", "--summary", "gaps.csv", "--json"]
    ran = run("explain", "words.csv", *options)
    assert ran.code == 0
    kept = ["w0", "w1", "w3", "w4", "w5"]
    found = documents(ran.out)
    assert [document["target"] for document in found] == kept
    with open("gaps.csv") as file:
        assert [line["target"] for line in csv.DictReader(file)] == kept
    for document in found:
        names = [atom["name"] for atom in document["atoms"]]
        assert names == [f"w{atom['id']}" for atom in document["atoms"]]
        assert document["target"] not in names


def test_targets_with_missing_values_are_passed_over_if_asked(run: Run, holes: None) -> None:
    ran = run("explain", "words.csv", "--targets", "words.csv", "--missing", "drop")
    assert ran.code == 2
    remedy = "pass over such rows with --skip, or fill them in the file. Got some, the first in row 2: u (1)."
    assert f"`--targets` must be free of missing values; {remedy}" in words(ran.err)
    ran = run("explain", "words.csv", "--targets", "words.csv", "--skip", "--json")
    assert ran.code == 0
    statuses = [document["status"] for document in documents(ran.out)]
    assert [i for i, status in enumerate(statuses) if status == "SKIPPED"] == [2]


@pytest.mark.parametrize("options", [[], ["--numeric-only"]])
def test_the_names_are_found_beside_categories(run: Run, folder: Path, options: list[str]) -> None:
    lines = [f"w{i},{'ab'[i % 2]},{i},{i * i % 7}" for i in range(9)]
    Path("kinds.csv").write_text("word,kind,u,v\n" + "\n".join(lines) + "\n")
    ran = run("explain", "kinds.csv", "--target", "w1", *options, "--json")
    assert ran.code == 0
    assert [document["target"] for document in documents(ran.out)] == ["w1"]


def test_a_category_is_no_name(run: Run, folder: Path) -> None:
    Path("kinds.csv").write_text("kind,u\na,0\nb,1\na,2\n")
    assert run("explain", "kinds.csv", "--target", "b", "--numeric-only").code == 2


@pytest.mark.parametrize("options", [["--target", "w1"], ["--targets", "kept.csv"]])
def test_what_became_of_the_table_is_told(run: Run, holes: None, options: list[str]) -> None:
    table = json.loads(run("explain", "words.csv", *options, "--json").out)["table"]
    assert (table["rows"], table["dropped"], table["counted"]) == (6, 1, ["u", "v"])
    assert json.loads(run("explain", "atoms.npy", "--target", "3", "--json").out)["table"] is None


def test_an_atom_is_explained_by_a_cone_with_a_price(run: Run, folder: Path, rows: Array) -> None:
    options = ("--target", "17", "--exclude-self", "--cone", "--price", "0.05", "--json")
    ran = run("explain", "atoms.npy", *options)
    assert (ran.code, ran.err) == (0, "")
    document = documents(ran.out)[0]
    x = sum(atom["weight"] * rows[atom["id"]].astype(float) for atom in document["atoms"])
    assert document["over"] == "Cone(price=0.05)"
    assert document["distance"] == pytest.approx(float(np.linalg.norm(x - rows[17])), rel=1e-6)


def test_points_of_a_file_are_explained_over_a_set(run: Run, folder: Path, rows: Array) -> None:
    options = ("--targets", "points.npy", "--cone", "--price", "0.05", "--ridge", "0.1", "--json")
    ran = run("explain", "atoms.npy", *options)
    assert (ran.code, ran.err) == (0, "")
    known = wh.minimize_many(np.load("points.npy"), rows, over=wh.Cone(price=0.05), ridge=0.1, rtol=1e-4)
    found = documents(ran.out)
    np.testing.assert_allclose([document["value"] for document in found], known.value)
    assert [document["mass"] for document in found] == [None] * 3  # inf
    refused = run("explain", "atoms.npy", "--targets", "points.npy", "--cap", "0.001")
    assert refused.code == 2
    assert "`--cap` must be of sum >= 1" in words(refused.err)
