"""`wolfhound herd` against the library, and every way to misuse it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run, words
from wolfhound.core.contracts import Progress, Status
from wolfhound.data import readers
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.herding import Gaussian, Kernel, Laplace, Linear, Stein, with_scores
from wolfhound.herding.result import HerdResult

# The module: the package may well have a function of that name.
library = importlib.import_module("wolfhound.herding.herd")

N, D, M = 400, 3, 12
Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture
def points() -> Array:
    """400 rows of two groups."""
    rng = np.random.default_rng(3)
    rows: Array = rng.standard_normal((N, D)) + 4.0 * (np.arange(N) % 4 == 0)[:, None]
    return rows


@pytest.fixture
def here(tmp_path: Path, points: Array, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made the current one, with the rows in every format."""
    monkeypatch.chdir(tmp_path)
    labels = np.where(np.arange(N) % 4 == 0, "few", "many")
    columns = {name: points[:, i] for i, name in enumerate("abc")}
    table = pa.table(
        {"name": [f"row {i}" for i in range(N)], **columns, "label": labels, "group": labels == "few"}
    )
    table = table.append_column("code", pa.array((labels == "few").astype(np.int64)))
    pq.write_table(table, "rows.parquet", row_group_size=64)
    np.save("rows.npy", points)
    np.save("scores.npy", -points)
    np.save("target.npy", points[points[:, 0] > 0.0])
    np.save("codes.npy", (labels == "few").astype(np.int64))
    Path("labels.txt").write_text("\n".join(labels) + "\n")
    with open("rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "a", "b", "c", "label"])
        writer.writerows([f"row {i}", *points[i].tolist(), labels[i]] for i in range(N))
    return tmp_path


def document(text: str) -> dict[str, Any]:
    """Parse the one JSON document of a command."""
    found: dict[str, Any] = json.loads(text)
    return found


def ids(text: str) -> list[int]:
    """Return the ids of a JSON document."""
    return [row["id"] for row in document(text)["rows"]]


# ---------------------------------------------------------------- the same as the library


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ([], {}),
        (["--weights", "--swap"], {"weights": True, "swap": True}),
        (["--candidates", 60, "--seed", 5], {"candidates": 60, "seed": 5}),
        (["--start", "3,17", "--exclude", "5, 6,"], {"start": [3, 17], "exclude": [5, 6]}),
        (["--by", "labels.txt"], {"by": "labels"}),
        (["--by", "codes.npy", "--balanced"], {"by": "codes", "balanced": True}),
        (["--target", "target.npy"], {"target": "target.npy"}),
        (["--kernel", "laplace"], {"kernel": Laplace()}),
        (["--kernel", "linear"], {"kernel": Linear()}),
        (["--lengthscale", 0.5], {"kernel": Gaussian(0.5)}),
    ],
)
def test_the_rows_are_those_of_the_library(
    run: Run, here: Path, points: Array, options: list[Any], arguments: dict[str, Any]
) -> None:
    by = {"labels": np.array(readers.read_names("labels.txt")), "codes": np.load("codes.npy")}
    given = {name: by[value] if name == "by" else value for name, value in arguments.items()}
    expected = library.herd(points, M, **given)
    ran = run("herd", "rows.npy", "-m", M, *options, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = document(ran.out)
    assert [row["id"] for row in found["rows"]] == expected.ids.tolist()
    assert [row["weight"] for row in found["rows"]] == expected.weights.tolist()
    assert found["mmd"] == expected.mmd
    assert found["mmd_random"] == expected.mmd_random
    assert found["mmd_random_spread"] == expected.mmd_random_spread
    assert found["gain"] == expected.mmd_random / expected.mmd
    assert found["ess"] == expected.ess
    assert (found["passes"], found["scored"]) == (expected.passes, expected.scored)
    assert (found["status"], found["success"]) == (expected.status.name, True)
    assert (found["n"], found["d"], found["m"]) == (N, D, M)


@pytest.mark.parametrize("kernel", [Stein(), Stein(2.0)])
def test_stein(run: Run, here: Path, points: Array, kernel: Stein) -> None:
    scale = [] if kernel.lengthscale is None else ["--lengthscale", kernel.lengthscale]
    ran = run("herd", "rows.npy", "-m", M, "--kernel", "stein", "--scores", "scores.npy", *scale, "--json")
    expected = library.herd(with_scores(points, -points), M, kernel=kernel)
    assert ids(ran.out) == expected.ids.tolist()
    assert document(ran.out)["d"] == D


@pytest.mark.parametrize("path", ["rows.parquet", "rows.csv"])
def test_named_columns(run: Run, here: Path, points: Array, path: str) -> None:
    expected = library.herd(points[:, [2, 0]], M).ids.tolist()
    ran = run("herd", path, "-m", M, "--columns", "c, a", "--json")
    assert ids(ran.out) == expected
    assert document(ran.out)["columns"] == ["c", "a"]


@pytest.mark.parametrize("label", ["label", "code"])
def test_a_label_is_no_coordinate(run: Run, here: Path, points: Array, label: str) -> None:
    ran = run("herd", "rows.parquet", "-m", M, "--columns", "a,b,c", "--by", label, "--json")
    expected = library.herd(points, M, by=pq.read_table("rows.parquet")[label].to_pylist())
    assert ids(ran.out) == expected.ids.tolist()
    drawn = [row["label"] for row in document(ran.out)["rows"]]
    assert drawn == pq.read_table("rows.parquet")[label].take(expected.ids).to_pylist()
    counted = document(run("herd", "rows.parquet", "-m", M, "--by", "code", "--json").out)["columns"]
    assert counted == ["a", "b", "c", "label", "group"]


@pytest.mark.parametrize("name", ["gaps.csv", "gaps.parquet", "gaps.arrow"])
@pytest.mark.parametrize("missing", ["level", "drop"])
def test_missing_labels_are_one_label_in_every_format(run: Run, here: Path, name: str, missing: str) -> None:
    rng = np.random.default_rng(0)
    labels = [None if label == "NA" else label for label in rng.choice(["x", "y", "NA"], N)]
    frame = pd.DataFrame({"a": rng.random(N), "b": rng.random(N), "of": labels})
    frame.to_csv("gaps.csv", index=False)
    frame.to_parquet("gaps.parquet")
    frame.to_feather("gaps.arrow")
    expected = library.herd(frame, 12, by="of", missing=missing)
    ran = run("herd", name, "-m", 12, "--by", "of", "--missing", missing, "--json")
    assert ids(ran.out) == expected.ids.tolist()
    named = {row["label"] for row in document(ran.out)["rows"]}
    assert named == {"x", "y"} | ({"missing"} if missing == "level" else set())


def test_options_that_are_repeated_add_up(run: Run, here: Path) -> None:
    once = ids(run("herd", "rows.csv", "-m", M, "--columns", "c,a", "--exclude", "5,6", "--json").out)
    again = ["--columns", "c", "--columns", "a", "--exclude", 5, "--exclude", 6]
    assert ids(run("herd", "rows.csv", "-m", M, *again, "--json").out) == once
    both = document(run("herd", "rows.csv", "-m", M, "--start", 3, "--start", "1,4", "--json").out)["rows"]
    assert {1, 3, 4} <= {row["id"] for row in both}


def test_several_labels_are_one_together(run: Run, here: Path) -> None:
    np.save("half.npy", np.arange(N) % 2)
    ran = run("herd", "rows.csv", "-m", M, "--by", "label", "--by", "half.npy", "--balanced", "--json")
    labels = np.array([row["label"] for row in document(ran.out)["rows"]])
    assert {label: int((labels == label).sum()) for label in set(labels.tolist())} == {
        "('few', 0)": 4,
        "('many', 0)": 4,
        "('many', 1)": 4,
    }


def test_a_name_may_hold_a_comma(run: Run, here: Path) -> None:
    Path("comma.csv").write_text('"x, y",z\n' + "".join(f"{i % 7},{i % 5}\n" for i in range(40)))
    ran = run("herd", "comma.csv", "-m", 3, "--columns", "x, y", "--json")
    assert document(ran.out)["columns"] == ["x, y"]


def test_standardized_columns(run: Run, here: Path, points: Array) -> None:
    scale = np.array([1.0, 1000.0, 1e-3])
    np.save("units.npy", points * scale)
    np.save("units-target.npy", np.load("target.npy") * scale)
    spread = points.std(axis=0)
    arguments = ["-m", M, "--target", "units-target.npy", "--standardize", "--json"]
    found = ids(run("herd", "units.npy", *arguments).out)
    expected = library.herd(
        (points - points.mean(0)) / spread, M, target=(np.load("target.npy") - points.mean(0)) / spread
    )
    assert found == expected.ids.tolist()


def test_standardized_scores(run: Run, here: Path, points: Array) -> None:
    spread, mean = points.std(axis=0), points.mean(axis=0)
    arguments = ["--kernel", "stein", "--scores", "scores.npy", "--standardize", "--json"]
    expected = library.herd(with_scores((points - mean) / spread, -points * spread), M, kernel=Stein())
    assert ids(run("herd", "rows.npy", "-m", M, *arguments).out) == expected.ids.tolist()


def test_the_columns_of_a_target_go_by_name(run: Run, here: Path, points: Array) -> None:
    far = points[points[:, 0] > 0.0]
    pq.write_table(pa.table({"c": far[:, 2], "other": far[:, 1], "a": far[:, 0]}), "target.parquet")
    ran = run("herd", "rows.csv", "-m", M, "--columns", "a,c", "--target", "target.parquet", "--json")
    expected = library.herd(points[:, [0, 2]], M, target=far[:, [0, 2]])
    assert ids(ran.out) == expected.ids.tolist()


# ---------------------------------------------------------------- what is written


def test_all_columns_are_carried(run: Run, here: Path) -> None:
    ran = run(
        "herd", "rows.parquet", "-m", M, "--columns", "a,b,c", "--weights", "-o", "core.parquet", "--json"
    )
    assert ran.code == 0
    found, whole = pq.read_table("core.parquet"), pq.read_table("rows.parquet")
    rows = document(ran.out)["rows"]
    assert found["id"].to_pylist() == [row["id"] for row in rows]
    assert found["weight"].to_pylist() == [row["weight"] for row in rows]
    assert found.drop_columns(["id", "weight"]).equals(whole.take(found["id"]))


def test_an_output_is_where_the_next_run_begins(run: Run, here: Path) -> None:
    first = ids(run("herd", "rows.csv", "-m", 5, "-o", "core.csv", "--json").out)
    assert ids(run("herd", "rows.csv", "-m", 9, "--start", "core.csv", "--json").out)[:5] == first
    for file in ("core.npy", "core.parquet"):
        assert run("herd", "rows.npy", "-m", 5, "-o", file).code == 0
        rest = ids(run("herd", "rows.npy", "-m", 5, "--exclude", file, "--json").out)
        assert set(rest) & set(first) == set()


def test_ids_in_a_file(run: Run, here: Path) -> None:
    np.save("ids.npy", np.array([8, 2]))
    Path("ids.txt").write_text("8\n2\n")
    expected = ids(run("herd", "rows.npy", "-m", 4, "--start", "8,2", "--json").out)
    assert expected[:2] == [8, 2]
    assert ids(run("herd", "rows.npy", "-m", 4, "--start", "ids.npy", "--json").out) == expected
    assert ids(run("herd", "rows.npy", "-m", 4, "--start", "ids.txt", "--json").out) == expected


@pytest.mark.slow
def test_save_and_plot(run: Run, here: Path, points: Array) -> None:
    ran = run(
        "herd", "rows.npy", "-m", M, "--save", "run", "--plot", "run.svg", "--by", "labels.txt", "--json"
    )
    assert ran.code == 0
    result = HerdResult.load("run", atoms=ArrayAtoms(points))
    assert result.ids.tolist() == ids(ran.out)
    assert result.labels is not None
    assert result.labels.tolist() == [row["label"] for row in document(ran.out)["rows"]]
    assert "<svg" in Path("run.svg").read_text()


@pytest.mark.slow
def test_a_picture_of_a_sample_is_without_its_scores(
    run: Run, here: Path, points: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    original = HerdResult.plot

    def noted(result: HerdResult, *, atoms: Any) -> Any:
        drawn.append(atoms)
        return original(result, atoms=atoms)

    monkeypatch.setattr(HerdResult, "plot", noted)
    arguments = ["--kernel", "stein", "--scores", "scores.npy", "--plot", "run.png"]
    assert run("herd", "rows.npy", "-m", 3, *arguments).code == 0
    assert [rows.shape for rows in drawn] == [points.shape]
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")


def test_the_text_says_what_the_document_says(run: Run, here: Path) -> None:
    arguments = ["herd", "rows.parquet", "-m", M, "--by", "label", "--columns", "a,b,c"]
    found = document(run(*arguments, "--json").out)
    ran = run(*arguments, "-o", "core.csv")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("HerdResult(FINISHED: ")
    assert [line.split()[0] for line in lines[1:8]] == "atoms mmd labels by on cost in".split()
    assert f"{M} of {N}, effective {found['ess']:,.6g}: {found['rows'][0]['id']}, " in lines[1]
    assert f"MMD {found['mmd']:.3g}, {found['gain']:.3g} times closer than random" in lines[2]
    assert f"({found['mmd_random']:.3g} +- {found['mmd_random_spread']:.1g})" in lines[2]
    assert "few: 3, many: 9" in lines[3]
    assert lines[5].endswith(found["reference"]) and lines[7].endswith(found["kernel"])
    assert f"{found['scored']:,} atoms scored" in lines[6]
    assert lines[8] == "Written to core.csv"


def test_a_choice_that_is_no_better_says_so(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = library.herd(np.load("rows.npy"), M)
    closer, farther = result.mmd_random / result.mmd, {"mmd": 2.0, "mmd_random": 1.0}
    assert closer > 1.0
    fields = {name: getattr(result, name) for name in HerdResult.__slots__}
    monkeypatch.setattr(library, "herd", lambda *_, **__: HerdResult(**fields | farther))
    assert "2 times farther than random" in run("herd", "rows.npy", "-m", M).out
    monkeypatch.setattr(library, "herd", lambda *_, **__: HerdResult(**fields | {"mmd": 0.0}))
    assert "MMD 0, random " in run("herd", "rows.npy", "-m", M).out
    assert document(run("herd", "rows.npy", "-m", M, "--json").out)["gain"] is None


# ---------------------------------------------------------------- limits and progress


def test_no_time_at_all_is_exit_1(run: Run, here: Path) -> None:
    ran = run("herd", "rows.npy", "-m", M, "--max-seconds", 0, "-o", "core.csv")
    assert (ran.code, ran.out) == (1, "")
    assert "before the first pick" in ran.err
    assert not Path("core.csv").exists()
    ran = run("herd", "rows.npy", "-m", M, "--max-seconds", 0, "--json")
    assert (ran.code, ran.err, document(ran.out)["status"]) == (1, "", "MAX_SECONDS")


@pytest.mark.parametrize(
    ("error", "code", "status"), [(None, 1, "STOPPED"), (KeyboardInterrupt, 130, "INTERRUPTED")]
)
def test_what_was_picked_until_then_is_written(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, error: Any, code: int, status: str
) -> None:
    original = library.herd
    answers: dict[Any, Callable[[], bool]] = {None: lambda: True, KeyboardInterrupt: interrupt}

    def cut(*arguments: Any, **options: Any) -> HerdResult:
        def callback(state: Progress) -> bool:
            return state.t == 5 and answers[error]()

        found: HerdResult = original(*arguments, **{**options, "callback": callback})
        return found

    monkeypatch.setattr(library, "herd", cut)
    ran = run("herd", "rows.csv", "-m", M, "-o", "core.json", "--json")
    assert ran.code == code
    assert (document(ran.out)["status"], document(ran.out)["success"]) == (status, False)
    assert [row["id"] for row in json.loads(Path("core.json").read_text())] == ids(ran.out)
    assert len(ids(ran.out)) == 5


def interrupt() -> bool:
    """Act as Ctrl-C does."""
    raise KeyboardInterrupt


def test_progress_shows_passes_then_rows(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `run` sets the interval to infinity first; here every report is shown.
    monkeypatch.setattr("wolfhound.core.progress._LINE_INTERVAL", 0.0)
    lines = run("herd", "rows.npy", "-m", M, "--swap").err.splitlines()
    assert any(" over all rows, " in line for line in lines)
    assert any(line.startswith(f"{M} of {M} rows, ") for line in lines)
    assert any(line.startswith(f"{M} of {M} rows, {M} tried for a swap, ") for line in lines)


def test_json_is_all_that_is_printed(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wolfhound.core.progress._LINE_INTERVAL", 0.0)
    ran = run("herd", "rows.parquet", "-m", M, "-o", "core.csv", "--json")
    assert ran.err == ""
    assert document(ran.out)["m"] == M


@pytest.mark.slow
def test_help_shows_examples_and_loads_nothing_heavy(run: Run) -> None:
    ran = run("herd", "--help")
    assert ran.code == 0
    assert "wolfhound herd rows.parquet -m 500 -o core.parquet --by label --balanced" in words(ran.out)
    code = (
        "import sys; from typer.testing import CliRunner; from wolfhound.cli._app import app;"
        "assert CliRunner().invoke(app, ['herd', '--help']).exit_code == 0;"
        "print([m for m in ('numba', 'scipy', 'matplotlib', 'pyarrow', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.npy", "-m", "401"], "`-m` must be"),
        (["rows.npy", "--size", "401"], "`--size` must be"),
        (["rows.npy", "-m", "5", "--kernel", "stein"], "`--scores` must be given with --kernel stein."),
        (
            ["rows.npy", "-m", "5", "--scores", "scores.npy"],
            "`--scores` must not be given with --kernel gaussian.",
        ),
        (
            ["rows.npy", "-m", "5", "--kernel", "stein", "--scores", "scores.npy", "--target", "target.npy"],
            "`--target` must not be given with --kernel stein",
        ),
        (
            ["rows.npy", "-m", "5", "--kernel", "stein", "--scores", "target.npy"],
            "`--scores` must be 400 x 3, as ATOMS.",
        ),
        (
            ["rows.npy", "-m", "5", "--kernel", "linear", "--lengthscale", "1"],
            "`--lengthscale` must not be given with --kernel linear.",
        ),
        (["rows.npy", "-m", "5", "--lengthscale=-1"], "`--lengthscale` must be a number > 0."),
        (["rows.npy", "-m", "5", "--balanced"], "`--balanced` must come with --by."),
        (
            ["rows.npy", "-m", "5", "--by", "label"],
            "`--by` must be a .npy or .txt file of labels. Got label.",
        ),
        (
            ["rows.csv", "-m", "5", "--by", "lable"],
            "`--by` must be one of name, a, b, c, label, or a .npy or .txt file of labels. Got lable.",
        ),
        (
            ["rows.npy", "-m", "5", "--by", "short.txt"],
            "`--by` must hold 400 labels, one per row. Got shape (1,)",
        ),
        (["rows.npy", "-m", "5", "--columns", "a"], "`--columns` must be left out"),
        (
            ["rows.csv", "-m", "5", "--columns", "a,z"],
            "`--columns` must be among name, a, b, c, label. Got z.",
        ),
        (
            ["rows.npy", "-m", "5", "--target", "narrow.npy"],
            "`--target` must have 3 columns, as ATOMS. Got 2",
        ),
        (
            ["rows.csv", "-m", "5", "--target", "narrow.csv"],
            "`--target` must be a table with the columns that count. Got no c, label.",
        ),
        (
            ["rows.npy", "-m", "5", "--start", "1,x"],
            "`--start` must be ids with commas between, or a file of ids. Got x.",
        ),
        (["rows.npy", "-m", "5", "--exclude", "400"], "`--exclude` must be ids in [0, 400)."),
        (["rows.npy", "-m", "5", "--start", "narrow.csv"], "`--start` must be a file with a column id."),
        (
            ["rows.npy", "-m", "5", "-o", "core.xlsx"],
            "`--out` must end in .csv, .json, .npy, .parquet, .arrow, .feather. Got core.xlsx.",
        ),
        (["rows.npy", "-m", "5", "--plot", "no/run.png"], "`--plot` must be in a folder that exists."),
        (["nan.npy", "-m", "5"], "row 7"),
        (["same.npy", "-m", "5"], "`--lengthscale` must be given where rows do not differ."),
        (["missing.npy", "-m", "5"], "missing.npy"),
        (["missing.parquet", "-m", "5"], "missing.parquet"),
    ],
)
def test_mistakes_are_named(run: Run, here: Path, points: Array, arguments: list[str], message: str) -> None:
    Path("short.txt").write_text("a\n")
    np.save("narrow.npy", points[:, :2])
    Path("narrow.csv").write_text("a,b\n1,2\n")
    holed = points.copy()
    holed[7, 1] = np.nan
    np.save("nan.npy", holed)
    np.save("same.npy", np.ones((50, 2)))
    ran = run("herd", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    "arguments", [["rows.npy"], ["rows.npy", "-m", "0"], ["rows.npy", "-m", "5", "--kernel", "cosine"]]
)
def test_wrong_use_is_exit_2(run: Run, here: Path, arguments: list[str]) -> None:
    assert run("herd", *arguments).code == 2


def test_the_kernels_are_those_of_the_library(run: Run, here: Path) -> None:
    kernels: dict[str, Kernel] = {"gaussian": Gaussian(2.0), "laplace": Laplace(2.0)}
    for name, kernel in kernels.items():
        found = document(run("herd", "rows.npy", "-m", 3, "--kernel", name, "--lengthscale", 2, "--json").out)
        assert found["kernel"] == library.herd(np.load("rows.npy"), 3, kernel=kernel).space
        assert found["status"] == Status.FINISHED.name
