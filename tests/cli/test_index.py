"""`wolfhound index`: build, info and check, and every way to misuse them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from tests.cli.conftest import Run, words
from wolfhound.core.contracts import Hits
from wolfhound.data import store
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.indexes import find_saved
from wolfhound.oracles.int8.scan import Int8Scan

ROWS = np.random.default_rng(3).standard_normal((3000, 6)).astype(np.float32)
NAMES = {"int8": "Int8Scan", "clusters": "ClusterIndex", "lsh": "LshIndex", "int8-file": "Int8FileScan"}


@pytest.fixture(autouse=True)
def atoms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with atoms, made the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", ROWS)


# ---------------------------------------------------------------- build


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMES)
def test_every_kind_is_built_described_and_checked(run: Run, kind: str) -> None:
    built = run("index", "build", "atoms.npy", "-o", "made", "--kind", kind)
    assert (built.code, built.err) == (0, "")
    assert built.out.startswith(f"{NAMES[kind]}, ")
    assert built.out.endswith(": made\n")
    assert run("index", "info", "made").code == 0
    checked = run("index", "check", "made", "atoms.npy", "--queries", "40")
    assert (checked.code, checked.err) == (0, "")
    assert "Intact, made from these atoms" in checked.out


def test_auto_takes_what_is_chosen_and_says_why(run: Run) -> None:
    ran = run("index", "build", "atoms.npy", "-o", "made", "--queries", "100000000", "--ratio", "0.9")
    assert (ran.code, ran.err) == (0, "")
    expected = wh.choose_oracle(ROWS, queries=10**8, ratio=0.9, proof=False, savable=True)
    assert ran.out.startswith(f"{expected}\n\n")
    assert expected.chosen.name == "clusters"
    assert repr(ClusterIndex.load("made", ROWS)) == repr(expected.build())


def test_auto_is_exact_unless_told_otherwise(run: Run) -> None:
    assert run("index", "build", "atoms.npy", "-o", "made").code == 0
    assert find_saved("made").name == "int8"


def test_json_of_a_build(run: Run) -> None:
    ran = run("index", "build", "atoms.npy", "-o", "made", "--json")
    document = json.loads(ran.out)
    assert document["kind"] == "int8"
    assert document["bytes"] == Int8Scan.load("made", ROWS).nbytes
    assert document["path"] == "made"


def test_the_ratio_sets_the_budget_of_clusters(run: Run) -> None:
    for ratio, folder in (("0.5", "low"), ("0.9", "high")):
        arguments = ["--kind", "clusters", "--ratio", ratio, "-o", folder]
        assert run("index", "build", "atoms.npy", *arguments).code == 0
    low, high = (store.load(folder, "index").params["budget"] for folder in ("low", "high"))
    assert low < high


def test_the_seed_decides(run: Run) -> None:
    for seed, folder in ((1, "a"), (1, "b"), (2, "c")):
        run("index", "build", "atoms.npy", "--kind", "clusters", "--seed", seed, "-o", folder)
    centres = [store.load(folder, "index").arrays["centres"] for folder in "abc"]
    assert np.array_equal(centres[0], centres[1])
    assert not np.array_equal(centres[0], centres[2])


def test_an_index_may_be_replaced_by_another(run: Run) -> None:
    assert run("index", "build", "atoms.npy", "-o", "made", "--kind", "int8").code == 0
    assert run("index", "build", "atoms.npy", "-o", "made", "--kind", "clusters").code == 0
    assert find_saved("made").name == "clusters"


def _result(folder: Path) -> None:
    wh.minimize(wh.SquaredDistance(np.ones(6)), ROWS).save(folder)


def _folder(path: Path) -> None:
    path.mkdir()


def _file(path: Path) -> None:
    path.with_suffix(".safetensors").write_text("all of it")


@pytest.mark.parametrize(
    ("make", "got"),
    [(_result, "Got a result in made"), (_folder, "Got a folder, made"), (_file, "Got made.safetensors: ")],
)
def test_nothing_but_an_index_is_written_over(run: Run, make: Callable[[Path], None], got: str) -> None:
    make(Path("made"))
    before = sorted(Path().rglob("*"))
    ran = run("index", "build", "atoms.npy", "-o", "made")
    assert (ran.code, ran.out) == (2, "")
    assert "`--out` must be a new file, or one that holds a saved index." in ran.err
    assert got in ran.err
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "int8", "--queries", "5"], "`--queries` must not be given with --kind int8. Got 5."),
        (["--kind", "int8", "--ratio", "0.5"], "`--ratio` must not be given with --kind int8. Got 0.5."),
        (
            ["--kind", "clusters", "--ratio", "0.99"],
            "`--ratio` must be at most 0.91 for --kind clusters and these atoms. Got 0.99.",
        ),
        (["--ratio", "1.5"], "`--ratio` must be in (0, 1]. Got 1.5."),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, arguments: list[str], message: str) -> None:
    ran = run("index", "build", "atoms.npy", "-o", "made", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not Path("made").exists()


def test_progress_follows_the_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wolfhound.core.progress._LINE_INTERVAL", 0.0)
    lines = run("index", "build", "atoms.npy", "-o", "made", "--kind", "int8").err.splitlines()
    assert any(line.startswith("building, 100 % of ") for line in lines)


def test_codes_on_disk_are_built_where_they_stay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wh.Int8FileScan, "save", None)
    assert (
        run("index", "build", "atoms.npy", "-o", "made", "--kind", "int8-file", "--max-memory", "1kB").code
        == 0
    )
    assert find_saved("made").name == "int8-file"
    wh.load("made", ROWS)


def test_an_index_that_takes_too_much_memory_is_refused(run: Run) -> None:
    ran = run("index", "build", "atoms.npy", "-o", "made", "--kind", "int8", "--max-memory", "40kB")
    assert ran.code == 2
    assert "`--max-memory` must be at least 42 kB for --kind int8" in ran.err
    assert (
        run("index", "build", "atoms.npy", "-o", "made", "--kind", "int8", "--max-memory", "42kB").code == 0
    )


# ---------------------------------------------------------------- info


def test_info_needs_no_atoms(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made", "--kind", "clusters")
    Path("atoms.npy").unlink()
    ran = run("index", "info", "made")
    assert (ran.code, ran.err) == (0, "")
    said = words(ran.out)
    assert said.startswith("kind clusters, ClusterIndex format wolfhound 1 size ")
    digest = store.load("made", "index").fingerprint[0].digest
    assert f"atoms 3,000 x 6 float32, fingerprint {digest}" in said
    assert "codes.n 3000" in said


def test_json_of_info(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made", "--kind", "lsh")
    document = json.loads(run("index", "info", "made", "--json").out)
    assert document["kind"] == "lsh"
    assert document["format"] == "wolfhound 1"
    assert document["bytes"] > 3000 * 6 / 4
    assert document["params"]["budget"] > 0
    assert document["atoms"][0]["n"] == 3000


def test_info_of_something_else(run: Run) -> None:
    _result(Path("made"))
    ran = run("index", "info", "made")
    assert (ran.code, ran.out) == (2, "")
    assert "`INDEX` must hold an index. Got a result in made.safetensors." in ran.err
    np.save("atoms.npy", ROWS)
    assert run("index", "check", "made", "atoms.npy").code == 2
    assert run("index", "info", "missing").code == 2


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def test_info_of_a_damaged_index(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    _flip(Path("made.safetensors"))
    ran = run("index", "info", "made")
    assert (ran.code, ran.out) == (2, "")
    assert "is damaged: the checksum of" in ran.err


# ---------------------------------------------------------------- check


def test_an_exact_index_is_checked_to_be_exact(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    said = words(run("index", "check", "made", "atoms.npy").out)
    assert "kind int8 answers exact, with proof ratio mean 1.0000, 10th percentile 1.0000" in said
    assert "for all 100 queries, in one pass" in said
    assert said.endswith("Intact, made from these atoms, and all answers are right.")


@pytest.mark.slow
def test_clusters_with_proof_are_exact_too(run: Run) -> None:
    ClusterIndex.build(ROWS, proof=True).save("made")
    document = json.loads(run("index", "check", "made", "atoms.npy", "--json").out)
    assert (document["passed"], document["exact"], document["ratio"]) == (True, True, 1.0)


def test_an_approximate_index_is_measured(run: Run) -> None:
    ClusterIndex.build(ROWS, budget=50).save("made")
    ran = run("index", "check", "made", "atoms.npy", "--queries", "30", "--json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert (document["passed"], document["exact"]) == (True, False)
    assert 0.0 < document["ratio_p10"] <= document["ratio"] < 1.0
    assert document["seconds"] > 0.0


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_damaged_index_fails_the_check(run: Run, as_json: list[str]) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    _flip(Path("made.safetensors"))
    ran = run("index", "check", "made", "atoms.npy", *as_json)
    assert (ran.code, ran.err) == (1, "")
    assert "is damaged: the checksum of" in ran.out


def test_json_of_a_failed_check(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    _flip(Path("made.safetensors"))
    document = json.loads(run("index", "check", "made", "atoms.npy", "--json").out)
    assert document["passed"] is False
    assert len(document["faults"]) == 1


@pytest.mark.slow
def test_other_atoms_fail_the_check(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    np.save("others.npy", ROWS + 1)
    ran = run("index", "check", "made", "others.npy")
    assert ran.code == 1
    assert (
        "WRONG `atoms` must be the atoms that made.safetensors was made from. Got a row 0 that is not"
        in ran.out
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"scores": 1.0}, "a score is not the inner product of query and atom"),
        ({"bounds": -1.0}, "the best atom lies above a bound"),
        ({"bounds": np.inf}, "an answer is not proved"),
    ],
)
def test_wrong_answers_fail_the_check(
    run: Run, monkeypatch: pytest.MonkeyPatch, change: dict[str, float], fault: str
) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    right = Int8Scan.query

    def wrong(self: Int8Scan, queries: Any, **options: Any) -> Hits:
        hits = right(self, queries, **options)
        return replace(hits, **{name: getattr(hits, name) + by for name, by in change.items()})

    monkeypatch.setattr(Int8Scan, "query", wrong)
    ran = run("index", "check", "made", "atoms.npy")
    assert ran.code == 1
    assert f"WRONG {fault}" in ran.out
    assert "Intact" not in ran.out


def test_missing_atoms_are_wrong_use(run: Run) -> None:
    run("index", "build", "atoms.npy", "-o", "made")
    assert run("index", "check", "made", "missing.npy").code == 2


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    ran = run("index")
    assert "Build, ask, edit, describe and check indexes of atoms." in words(ran.out + ran.err)


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("build", "wolfhound index build atoms.npy -o codes"),
        ("info", "wolfhound index info codes"),
        ("check", "wolfhound index check codes atoms.npy --queries 1000"),
    ],
)
def test_help_shows_examples(run: Run, command: str, example: str) -> None:
    ran = run("index", command, "--help")
    assert ran.code == 0
    assert example in words(ran.out)
