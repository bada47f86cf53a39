"""The cost model against what oracles really take, and its formulas."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pytest

from wolfhound.core.contracts import Matrix
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, MappedAtoms, in_files
from wolfhound.oracles.indexes import INDEXES, Estimate, Speeds, Workload, _measure
from wolfhound.oracles.int8.scan import code_bytes

ROWS = np.random.default_rng(0).standard_normal((5000, 11)).astype(np.float32)


MODELS = {name: kind.expected for name, kind in INDEXES.items() if kind.expected is not None}


class Sized(Protocol):
    """An index that knows its size."""

    nbytes: int


def workload(**changes: Any) -> Workload:
    base = Workload(
        n=5000,
        d=11,
        row=44,
        in_files=False,
        ratio=0.9,
        interior=False,
        batch=1,
        max_memory=math.inf,
        speeds=Speeds(),
    )
    return replace(base, **changes)


def estimate(name: str, **changes: Any) -> Estimate:
    return MODELS[name](workload(**changes))


# ---------------------------------------------------------------- against real ones


@pytest.mark.parametrize("name", ["int8", "clusters", "lsh"])
def test_bytes_are_those_of_the_index(name: str) -> None:
    expected = estimate(name)
    built = cast(Sized, expected.make(ArrayAtoms(ROWS), seed=0))
    assert built.nbytes == pytest.approx(expected.nbytes, rel=0.25, abs=20_000)


def test_bytes_of_codes_are_exact() -> None:
    built = cast(Sized, estimate("int8", n=4992).make(ArrayAtoms(ROWS[:4992]), seed=0))
    assert built.nbytes == code_bytes(4992, 11)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.0])
def test_recipes_make_what_is_made(ratio: float) -> None:
    import wolfhound as wh

    for model in MODELS.values():
        expected = model(workload(ratio=ratio))
        names = {name: getattr(wh, name) for name in wh.__all__}
        by_hand = eval(expected.recipe, {"atoms": ArrayAtoms(ROWS), **names})
        assert repr(by_hand) == repr(expected.make(ArrayAtoms(ROWS), seed=0))


# ---------------------------------------------------------------- ratios


@pytest.mark.parametrize("interior", [True, False])
@pytest.mark.parametrize("ratio", [0.3, 0.7, 0.9, 0.93])
@pytest.mark.parametrize("name", ["clusters", "lsh", "subset"])
def test_sizes_are_set_for_the_ratio(name: str, ratio: float, interior: bool) -> None:
    assert estimate(name, ratio=ratio, interior=interior, n=10**6).ratio >= ratio - 1e-12


def test_a_subset_inside_the_hull_takes_a_power_of_n() -> None:
    assert "size=1585)" in estimate("subset", n=10**5, ratio=0.8, interior=True).recipe  # 1e5 ^ 0.64


def test_at_the_boundary_a_subset_must_be_large() -> None:
    inside, outside = (estimate("subset", n=10**6, interior=interior) for interior in (True, False))
    assert outside.query > 2.0 * inside.query


def test_hashes_need_fewer_atoms_inside_the_hull() -> None:
    inside, outside = (estimate("lsh", n=10**6, interior=interior) for interior in (True, False))
    assert 4.0 * inside.scored < outside.scored


@pytest.mark.parametrize("name", ["clusters", "lsh", "subset"])
def test_what_is_scored_is_what_is_predicted(name: str) -> None:
    expected = estimate(name)
    queries = ROWS[:40].astype(np.float64)
    hits = expected.make(ArrayAtoms(ROWS), seed=0).query(queries)
    assert hits.scored.mean() == pytest.approx(expected.scored, rel=0.15)


@pytest.mark.parametrize("name", ["clusters", "lsh", "subset"])
@pytest.mark.parametrize("interior", [True, False])
def test_nothing_unproved_claims_the_best_atom(name: str, interior: bool) -> None:
    found = estimate(name, ratio=1.0, interior=interior, n=10**6)
    assert 0.0 <= found.ratio < 1.0
    assert not INDEXES[name].proves


@pytest.mark.parametrize("n", [1, 2, 17])
@pytest.mark.parametrize("ratio", [0.1, 0.9, 1.0])
@pytest.mark.parametrize("interior", [True, False])
def test_few_atoms_are_no_trouble(n: int, ratio: float, interior: bool) -> None:
    for model in MODELS.values():
        found = model(workload(n=n, ratio=ratio, interior=interior))
        assert 0.0 <= found.ratio <= 1.0
        assert 0.0 <= found.build < math.inf
        assert 0.0 < found.query < math.inf


# ---------------------------------------------------------------- seconds


def test_scan_takes_what_its_bytes_take() -> None:
    speeds = Speeds()
    assert estimate("scan", n=10**6, row=400).query == pytest.approx(1e-4 + speeds.byte * 4e8)
    assert estimate("scan").build == 0.0


def test_only_scan_and_subset_need_no_building() -> None:
    assert [name for name in MODELS if estimate(name).build == 0.0] == ["scan", "subset"]


def test_clusters_take_longer_to_build_than_their_share() -> None:
    small, large = (estimate("clusters", n=n, d=100, row=400).build for n in (10**7, 10**8))
    assert large > 15.0 * small  # about n^1.5, while codes take n


def test_files_slow_passes_and_rows_read_one_by_one() -> None:
    for name in ("scan", "subset", "int8", "clusters", "lsh"):
        memory, files = (estimate(name, n=10**6, in_files=where) for where in (False, True))
        assert files.query > memory.query
        assert files.build >= memory.build


def test_a_pass_over_a_file_takes_what_the_file_takes() -> None:
    speeds = Speeds()
    expected = 1e-4 + 11.0 * speeds.byte * 4e8
    assert estimate("scan", n=10**6, row=400, in_files=True).query == pytest.approx(expected)


def _same(rows: Matrix) -> Matrix:
    return rows


def test_what_lies_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    file, array = FileAtoms(tmp_path / "rows.npy"), ArrayAtoms(ROWS)
    assert in_files(file)
    assert in_files(ConcatAtoms([array, file]))
    assert in_files(MappedAtoms(file, _same, 11))
    assert not in_files(array)
    assert not in_files(ConcatAtoms([array, array]))


@pytest.mark.parametrize(
    ("max_memory", "expected"), [(math.inf, 40_000.0), (40_000.0, 40_000.0), (39_999.0, 0.0)]
)
def test_scan_screens_where_memory_allows(max_memory: float, expected: float) -> None:
    assert estimate("scan", max_memory=max_memory).nbytes == expected


def test_queries_together_are_cheaper() -> None:
    for name in ("scan", "int8", "clusters", "lsh", "subset"):
        alone, together = (estimate(name, n=10**6, d=100, row=400, batch=batch).query for batch in (1, 256))
        assert together < alone


# ---------------------------------------------------------------- speeds


def test_the_speeds_of_this_machine_are_measured_once() -> None:
    _measure.cache_clear()
    first = Speeds.here()
    # From a slow phone to what no processor reaches.
    assert 1e-13 < first.byte < 1e-7
    assert 1e-14 < first.product < 1e-7
    assert Speeds.here() is first


@pytest.mark.parametrize("wrong", [{"byte": 0.0}, {"product": math.inf}, {"byte": -1.0}])
def test_speeds_are_positive_and_finite(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be "):
        Speeds(**wrong)
