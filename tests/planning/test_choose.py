"""`choose_oracle`: the cheapest that will do, the same every time, and why."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolfhound as wh
from wolfhound.core.contracts import Ids, Matrix
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.indexes import Speeds
from wolfhound.planning.plan import Choice, choose_oracle

FIXED = Speeds()
SLOW = Speeds(product=1.0)
ROWS = np.random.default_rng(0).standard_normal((3000, 6)).astype(np.float32)
MANY = np.random.default_rng(0).standard_normal((40_000, 24)).astype(np.float32)


class Shape:
    """Atoms of any size, without rows: only the shape may be looked at."""

    def __init__(self, n: int, d: int, dtype: str = "f4") -> None:
        self.shape = (n, d)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def take(self, ids: Ids) -> Matrix:
        raise AssertionError("a row was read")

    def blocks(self, rows: int) -> Any:
        raise AssertionError("all rows were read")


MILLION = Shape(1_000_000, 128)


def chosen(**wanted: Any) -> str:
    return choose_oracle(MILLION, **({"speeds": FIXED} | wanted)).chosen.name


# ---------------------------------------------------------------- what is chosen


def test_one_query_is_a_scan() -> None:
    assert chosen() == "scan"


def test_many_proved_queries_are_scans_of_codes() -> None:
    assert chosen(queries=1000) == "int8"


def test_few_proved_queries_do_not_pay_for_codes() -> None:
    assert chosen(queries=5) == "scan"


def test_very_many_unproved_queries_are_probes() -> None:
    assert chosen(queries=10**6, ratio=0.9, proof=False) == "clusters"


def test_inside_the_hull_random_atoms_serve_a_low_ratio() -> None:
    assert chosen(queries=100, ratio=0.6, proof=False, interior=True) == "subset"
    assert chosen(queries=10**6, ratio=0.9, proof=False, interior=True) == "lsh"


@pytest.mark.parametrize("queries", [1, 1000, 10**9])
def test_the_best_atom_takes_an_exact_oracle(queries: int) -> None:
    choice = choose_oracle(MILLION, queries=queries, ratio=1.0, proof=False, speeds=FIXED)
    assert choice.chosen.proves
    assert {each.objection for each in choice.options if not each.proves} == {"ratio too low"}


@pytest.mark.parametrize("queries", [1, 1000, 10**9])
def test_a_proof_takes_an_exact_oracle(queries: int) -> None:
    choice = choose_oracle(MILLION, queries=queries, ratio=0.5, speeds=FIXED)
    assert choice.chosen.proves
    assert {each.objection for each in choice.options if not each.proves} == {"proves nothing"}


def test_memory_is_a_limit() -> None:
    assert chosen(queries=1000, max_memory=130e6) == "scan"  # the codes take 136 MB
    assert chosen(queries=1000, max_memory=140e6) == "int8"
    assert choose_oracle(MILLION, max_memory=0.0, speeds=FIXED).chosen.nbytes == 0


def test_an_index_that_can_be_saved() -> None:
    choice = choose_oracle(MILLION, savable=True, speeds=FIXED)
    assert choice.chosen.name == "int8"
    objections = {each.name: each.objection for each in choice.options}
    assert objections["scan"] == "nothing to save"
    with pytest.raises(
        ValueError, match=r"`max_memory` must be enough for one of the oracles\. Got 1000 bytes"
    ):
        choose_oracle(MILLION, savable=True, max_memory=1000, speeds=FIXED)


def test_the_model_is_asked_with_the_speeds_given() -> None:
    assert chosen(queries=10**6, speeds=SLOW) == "scan"


# ---------------------------------------------------------------- properties


wishes = st.fixed_dictionaries(
    {
        "ratio": st.floats(0.05, 1.0),
        "proof": st.booleans(),
        "interior": st.booleans(),
        "batch": st.sampled_from([1, 2, 64, 1000]),
        "max_memory": st.none() | st.floats(0.0, 1e10),
    }
)
shapes = st.builds(Shape, st.integers(1, 10**9), st.integers(1, 4096))


@settings(max_examples=300)
@given(atoms=shapes, wish=wishes, few=st.integers(1, 10**6), more=st.integers(0, 10**10))
def test_more_queries_never_lead_back(atoms: Shape, wish: dict[str, Any], few: int, more: int) -> None:
    first = choose_oracle(atoms, queries=few, speeds=FIXED, **wish).chosen
    later = choose_oracle(atoms, queries=few + more, speeds=FIXED, **wish).chosen
    assert later.query_seconds <= first.query_seconds
    assert later.build_seconds >= first.build_seconds


@pytest.mark.slow
@settings(max_examples=300)
@given(atoms=shapes, wish=wishes, queries=st.integers(1, 10**9))
def test_the_chosen_is_eligible_and_the_cheapest(atoms: Shape, wish: dict[str, Any], queries: int) -> None:
    choice = choose_oracle(atoms, queries=queries, speeds=FIXED, **wish)
    eligible = [each for each in choice.options if not each.objection]
    assert choice.chosen in eligible
    assert choice.chosen.total_seconds == min(each.total_seconds for each in eligible)
    assert choice.chosen.nbytes <= choice.workload.max_memory
    assert choice.chosen.ratio >= wish["ratio"] * (1.0 - 1e-9)
    for each in choice.options:
        assert each.total_seconds == each.build_seconds + queries * each.query_seconds


@pytest.mark.slow
@settings(max_examples=300)
@given(atoms=shapes, wish=wishes)
def test_the_break_even_is_where_totals_meet(atoms: Shape, wish: dict[str, Any]) -> None:
    scan, *others = choose_oracle(atoms, speeds=FIXED, **wish).options
    for each in [each for each in others if each.pays_from < 1e15]:
        start = each.pays_from
        assert each.build_seconds + start * each.query_seconds <= start * scan.query_seconds * (1.0 + 1e-9)
        before = max(start - 1.0, 0.0)
        assert each.build_seconds + before * each.query_seconds >= before * scan.query_seconds * (1.0 - 1e-9)
    for each in [each for each in others if each.pays_from == float("inf")]:
        assert each.query_seconds >= scan.query_seconds


def test_the_same_speeds_give_the_same_choice_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock() -> float:
        raise AssertionError("a clock was read")

    first = choose_oracle(MILLION, queries=10**5, ratio=0.9, proof=False, speeds=FIXED)
    for name in ("time", "monotonic", "perf_counter", "process_time"):
        monkeypatch.setattr(time, name, no_clock)
    again = choose_oracle(MILLION, queries=10**5, ratio=0.9, proof=False, speeds=FIXED)
    assert again == first
    assert repr(again) == repr(first)


# ---------------------------------------------------------------- building


@pytest.mark.parametrize(
    ("wish", "kind"),
    [
        ({}, wh.Scan),
        ({"queries": 10**6, "batch": 64}, wh.Int8Scan),
        ({"queries": 10**9, "ratio": 0.9, "proof": False}, wh.ClusterIndex),
        ({"queries": 10**9, "ratio": 0.8, "proof": False, "interior": True}, wh.LshIndex),
        ({"queries": 10, "ratio": 0.5, "proof": False, "interior": True}, wh.RandomSubset),
    ],
)
def test_what_is_chosen_is_built(wish: dict[str, Any], kind: type) -> None:
    oracle = choose_oracle(MANY, speeds=FIXED, **wish).build()
    assert isinstance(oracle, kind)
    assert oracle.query(MANY[:1].astype(np.float64)).ids.shape == (1, 1)


def test_all_options_can_be_built() -> None:
    choice = choose_oracle(ROWS, ratio=0.9, proof=False, speeds=FIXED)
    queries = ROWS[:20].astype(np.float64)
    truth = wh.Scan(ROWS).query(queries).scores
    for each in choice.options:
        scores = choice.build(each.name).query(queries).scores
        assert (scores <= truth).all()
        assert np.array_equal(scores, truth) or not each.proves


def test_the_seed_decides() -> None:
    choice = choose_oracle(ROWS, ratio=0.5, proof=False, interior=True, speeds=FIXED)
    ids = [choice.build(seed=seed).query(ROWS[:40].astype(np.float64)).ids.tolist() for seed in (3, 3, 4)]
    assert ids[0] == ids[1] != ids[2]
    with pytest.raises(ValueError, match="`seed` must be an integer >= 0"):
        choice.build(seed=-1)


def test_atoms_are_kept_as_they_are() -> None:
    atoms = ArrayAtoms(ROWS)
    assert choose_oracle(atoms, speeds=FIXED).build().atoms is atoms


def test_a_choice_can_be_pickled() -> None:
    choice = choose_oracle(MANY, queries=10**9, ratio=0.9, proof=False, speeds=FIXED)
    back: Choice = pickle.loads(pickle.dumps(choice))
    assert back == choice
    assert isinstance(back.build(), wh.ClusterIndex)


# ---------------------------------------------------------------- text


TEXT = """\
ClusterIndex, for 200,000 queries one at a time: gap ratio 0.9, no proof needed
1,000,000 x 128

What every oracle costs; ClusterIndex is chosen:
  oracle           scored   build  per query   in all  memory  ratio  pays from
  Scan          1,000,000       -      15 ms   52 min  8.0 MB      1          -
  Int8Scan      1,000,000  184 ms     4.2 ms   14 min  136 MB      1         17
* ClusterIndex     14,000    15 s     199 us     55 s  145 MB  ~0.90        980
  LshIndex         63,000  944 ms     540 us  1.8 min  144 MB  ~0.90         64
  RandomSubset    250,000       -     6.6 ms   22 min       -  ~0.90          1

ClusterIndex pays from about 41,000 queries on (980 against Scan alone).
Made by ClusterIndex.build(atoms, budget=12251)
Ratios ~ are typical, not promised. Seconds are estimates, for \
a machine that reads 33 GB/s and makes 67 billion products a second."""


def test_the_text_explains_the_choice() -> None:
    choice = choose_oracle(MILLION, queries=200_000, ratio=0.9, proof=False, speeds=FIXED)
    assert repr(choice) == TEXT
    assert str(choice) == TEXT


INSIDE = {"queries": 9, "ratio": 0.5, "proof": False, "interior": True}


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({}, "Scan, for 1 query one at a time: the best atom, with proof"),
        ({}, "Int8Scan would pay from about 17 queries on."),
        ({"max_memory": 1e6}, "Nothing that will do pays, however many queries there are."),
        ({"max_memory": 1e6}, "Scan, for 1 query one at a time: the best atom, with proof, at most 1.0 MB"),
        ({"queries": 1000}, "Int8Scan pays from about 17 queries on."),
        ({"savable": True}, "Int8Scan pays from about 17 queries on."),
        (
            INSIDE,
            "RandomSubset, for 9 queries one at a time: gap ratio 0.5, no proof needed, from inside the hull",
        ),
        (INSIDE, "RandomSubset pays from the first query on."),
        (INSIDE, "Made by RandomSubset(atoms, size=32)"),
        (
            {"queries": 2560, "batch": 256},
            "Int8Scan, for 2,560 queries 256 at a time: the best atom, with proof",
        ),
    ],
)
def test_lines_of_the_text(wish: dict[str, Any], line: str) -> None:
    assert line in repr(choose_oracle(MILLION, **({"speeds": FIXED} | wish))).splitlines()


def test_codes_of_one_column_never_pay() -> None:
    text = repr(choose_oracle(Shape(10**6, 1), savable=True, speeds=FIXED))  # they take more than the rows
    assert "Int8Scan never pays against Scan, which needs no building." in text


def test_the_text_says_that_rows_are_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    choice = choose_oracle(wh.FileAtoms(tmp_path / "rows.npy"), speeds=FIXED)
    assert repr(choice).splitlines()[1] == "3,000 x 6 in files"


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"queries": 0}, "`queries` must be an integer >= 1. Got 0"),
        ({"batch": 0}, "`batch` must be an integer >= 1. Got 0"),
        ({"ratio": 0.0}, r"`ratio` must be in \(0, 1\]. Got 0.0"),
        ({"ratio": 1.1}, r"`ratio` must be in \(0, 1\]. Got 1.1"),
        ({"max_memory": -1}, "`max_memory` must be a number >= 0. Got -1"),
    ],
)
def test_wrong_arguments_are_named(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_oracle(ROWS, speeds=FIXED, **wish)


def test_queries_are_a_whole_number() -> None:
    with pytest.raises(TypeError, match=r"`queries` must be an integer >= 1\. Got 1\.5"):
        choose_oracle(ROWS, queries=1.5, speeds=FIXED)  # type: ignore[arg-type]
