"""Where commands write: links are followed, and what cannot be written is refused first."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import Run
from wolfhound.cli import _options as places
from wolfhound.data import store


@pytest.fixture(autouse=True)
def here(folder: Path) -> Path:
    """Files for all commands, in the current folder."""
    return folder


@pytest.mark.parametrize("prepare", [Path.touch, Path.absolute], ids=["old", "none yet"])
def test_a_link_stays_and_what_it_points_to_is_replaced(
    run: Run, here: Path, prepare: Callable[[Path], object]
) -> None:
    (here / "real").mkdir()
    target = here / "real" / "weights.csv"
    prepare(target)
    (here / "link.csv").symlink_to(Path("real") / "weights.csv")
    ran = run("explain", "atoms.npy", "--target", 1, "--out", "link.csv")
    assert ran.code == 0
    assert os.readlink("link.csv") == "real/weights.csv"
    assert target.read_text().startswith("target,id,name,weight\n")
    assert [path.name for path in target.parent.iterdir()] == ["weights.csv"]


def test_an_input_is_never_written_over_by_another_name(run: Run, here: Path) -> None:
    os.link("atoms.npy", "hard.npy")
    (here / "soft.npy").symlink_to("atoms.npy")
    before = Path("atoms.npy").read_bytes()
    for name in ("atoms.npy", "hard.npy", "soft.npy", "../" + here.name + "/atoms.npy"):
        ran = run("explain", "atoms.npy", "--target", 1, "--out", name)
        assert ran.code == 2
        assert ran.err == f"error: `--out` must not be what ATOMS reads. Got {name}.\n"
    assert Path("atoms.npy").read_bytes() == before


def test_another_file_may_be_replaced(run: Run) -> None:
    Path("old.csv").write_text("old")
    assert run("explain", "atoms.npy", "--target", 1, "--out", "old.csv").code == 0
    assert Path("old.csv").read_text() != "old"


def test_a_file_that_is_read_is_not_saved_to(run: Run) -> None:
    wh.minimize(wh.SquaredDistance(np.ones(5)), np.load("atoms.npy")).save("run")
    before = Path("run.safetensors").read_bytes()
    solve = "solve", "atoms.npy", "--objective", "squared-distance", "--target", "run.safetensors::x"
    ran = run(*solve, "--save", "run")
    assert (ran.code, ran.err) == (2, "error: `--save` must not be what --target reads. Got run.\n")
    assert Path("run.safetensors").read_bytes() == before


@pytest.mark.slow
def test_a_result_may_be_replaced_by_a_result_only(run: Run) -> None:
    solve = ("solve", "atoms.npy", "--objective", "squared-distance", "--target", "point.npy", "--save")
    assert run(*solve, "run").code == run(*solve, "run").code == 0
    assert run("index", "build", "atoms.npy", "--kind", "int8", "-o", "codes").code == 0
    ran = run(*solve, "codes")
    rule = "`--save` must be a new file, or one that holds a saved result."
    assert (ran.code, ran.err) == (2, f"error: {rule} Got a index in codes.safetensors.\n")
    assert store.describe("codes")[0] == "index"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/x.csv", "must be in a folder that exists"),
        ("names.txt/x.csv", "must be in a folder that exists"),
        ("/proc/x.csv", "must be a file that can be written. Got /proc/x.csv: "),
        ("folder.csv", "must be a file. Got folder.csv, which is none"),
        ("pipe.csv", "must be a file. Got pipe.csv, which is none"),
        ("loop.csv", "must be a file. Got loop.csv, which is none"),
        (f"{'n' * 240}.csv", "File name too long"),
        ("x.txt", "must end in .csv"),
    ],
)
def test_files_that_cannot_be_written(here: Path, path: str, message: str) -> None:
    (here / "folder.csv").mkdir()
    (here / "loop.csv").symlink_to("loop.csv")
    os.mkfifo("pipe.csv")
    before = sorted(os.listdir())
    with pytest.raises(ValueError, match=message):
        places.check_file(Path(path), "--out", [".csv"])
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("names.txt", "Got a file, names.txt"),
        ("names.txt/run", "must be a folder that can be written. Got names.txt/run: Not a directory"),
        ("/proc/run", "must be a folder that can be written. Got /proc/run: "),
        ("n" * 300, "File name too long"),
        (".", "or hold a run of many targets"),
    ],
)
def test_folders_that_cannot_be_written(path: str, message: str) -> None:
    before = sorted(os.listdir())
    with pytest.raises((ValueError, OSError), match=message):
        places.check_run(Path(path), "--save")
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("names.txt/run", "must be a file that can be written. Got names.txt/run: Not a directory"),
        ("/proc/run", "must be a file that can be written. Got /proc/run: "),
        ("n" * 300, "File name too long"),
        (".", "must be a new file, or one that holds a saved result. Got a folder"),
        ("old", "must be a new file, or one that holds a saved result. Got old.safetensors: "),
    ],
)
def test_saves_that_cannot_be_written(path: str, message: str) -> None:
    Path("old.safetensors").write_text("mine")
    before = sorted(os.listdir())
    with pytest.raises((ValueError, OSError), match=message):
        places.check_saved(Path(path), "--save", "result")
    assert sorted(os.listdir()) == before


def test_checks_leave_nothing_behind() -> None:
    before = sorted(os.listdir())
    places.check_file(Path("new.csv"), "--out", [".csv"])
    places.check_saved(Path("new/file"), "--save", "result")
    places.check_run(Path("new/folder"), "--save")
    assert sorted(os.listdir()) == before
