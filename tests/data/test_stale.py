"""What was saved is used with other atoms: one entry of one row changed, at every door that takes them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from wolfhound import Custom, SquaredDistance, design, herd, load, minimize, minimize_many
from wolfhound.core.contracts import Status
from wolfhound.data import atoms as atoms_file
from wolfhound.data import store
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.policy import ACMDP, AffineTransition, QuadraticReward, fwpo

Rows = NDArray[np.float64]

ROWS = np.random.default_rng(0).standard_normal((3000, 4))
TARGET = np.full(4, 3.0)
F = SquaredDistance(TARGET)


class Door(NamedTuple):
    """How something is saved, and how it is used with atoms."""

    save: Callable[[Path], object]
    use: Callable[[Path, Rows], object]


def _solve_policy() -> Any:
    chances = np.zeros((2, 4, 2))
    reward = QuadraticReward(np.ones((2, 4)), np.zeros((2, 4)), curvature=1.0)
    moves = AffineTransition(chances, np.full((2, 2), 0.5))
    return fwpo(ACMDP(reward, moves, 0.5, np.full(2, 0.5), ROWS), max_steps=2)


def _load_atoms(folder: Path, rows: Rows) -> Any:
    return load(folder, atoms=rows)


def _index(oracle: Any, **options: Any) -> Door:
    return Door(lambda folder: oracle.build(ROWS, **options).save(folder), oracle.load)


DOORS = {
    "checkpoint": Door(
        lambda folder: minimize(F, ROWS, checkpoint=folder),
        lambda folder, rows: minimize(F, rows, checkpoint=folder),
    ),
    "checkpoint of a run that goes on": Door(
        lambda folder: minimize(F, ROWS, checkpoint=folder, max_passes=1, rtol=1e-12),
        lambda folder, rows: minimize(F, rows, checkpoint=folder, rtol=1e-12),
    ),
    "checkpoint, loaded": Door(lambda folder: minimize(F, ROWS, checkpoint=folder), _load_atoms),
    "stream": Door(
        lambda folder: minimize_many(TARGET[None], ROWS, out=folder),
        lambda folder, rows: minimize_many(TARGET[None], rows, out=folder),
    ),
    "stream, loaded": Door(lambda folder: minimize_many(TARGET[None], ROWS, out=folder), _load_atoms),
    "result": Door(lambda folder: minimize(F, ROWS).save(folder), _load_atoms),
    "many": Door(lambda folder: minimize_many(TARGET[None], ROWS).save(folder), _load_atoms),
    "herd": Door(lambda folder: herd(ROWS, 3).save(folder), _load_atoms),
    "herd that is extended": Door(
        lambda folder: herd(ROWS, 3).save(folder), lambda folder, rows: load(folder).extend(4, atoms=rows)
    ),
    "design": Door(lambda folder: design(ROWS).save(folder), _load_atoms),
    "policy": Door(lambda folder: _solve_policy().save(folder), _load_atoms),
    "clusters": _index(ClusterIndex),
    "lsh": _index(LshIndex),
    "int8": _index(Int8Scan),
    "int8 on disk": _index(Int8FileScan),
}


@pytest.mark.parametrize("door", DOORS)
def test_one_changed_entry_is_refused_at_every_door(door: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(door))
    DOORS[door].save(tmp_path / "saved")
    for _ in range(6):
        rows = ROWS.copy()
        rows[rng.integers(3000), rng.integers(4)] += 7.0
        with pytest.raises(store.StoreError, match=r"other (atoms|rows|data)|is not the one of these codes"):
            DOORS[door].use(tmp_path / "saved", rows)
    DOORS[door].use(tmp_path / "saved", ROWS.copy())


@pytest.mark.parametrize("door", [name for name in DOORS if not name.startswith("int8")])
def test_the_last_bit_of_an_entry_counts(door: str, tmp_path: Path) -> None:
    DOORS[door].save(tmp_path / "saved")
    rows = ROWS.copy()
    rows[314, 2] = np.nextafter(rows[314, 2], math.inf)
    with pytest.raises(store.StoreError):
        DOORS[door].use(tmp_path / "saved", rows)


def test_a_result_is_saved_where_its_atoms_are_gone_and_vouches_for_none(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.tile(ROWS, (1000, 1)))
    result = minimize(F, tmp_path / "rows.npy", max_passes=1)
    (tmp_path / "rows.npy").unlink()
    result.save(tmp_path / "saved")
    assert load(tmp_path / "saved").lower == result.lower
    with pytest.raises(store.StoreError, match="cannot tell which atoms it was made from: they could not be"):
        load(tmp_path / "saved", atoms=np.tile(ROWS, (1000, 1)))


def test_a_fingerprint_of_some_rows_is_not_compared(tmp_path: Path) -> None:
    minimize(F, ROWS).save(tmp_path / "saved")
    stored = store.load(tmp_path / "saved", "result")
    old = tuple(type(part)(*part.kind, "0" * 32) for part in stored.fingerprint)
    store.save(tmp_path / "saved", "result", stored.arrays, stored.params, old)
    with pytest.raises(store.StoreError, match=r"it knows only some rows. Load it without `atoms`"):
        load(tmp_path / "saved", atoms=ROWS)


def test_groups_of_another_run_are_refused(tmp_path: Path) -> None:
    minimize_many(TARGET[None], ROWS, out=tmp_path / "a")
    minimize_many(TARGET[None], ROWS + 1.0, out=tmp_path / "b")
    (group,) = (tmp_path / "b").glob("targets-*")
    (tmp_path / "a" / group.name).write_bytes(group.read_bytes())
    with pytest.raises(store.StoreError, match=r"must be of the run that it lies in. Got one of other atoms"):
        load(tmp_path / "a")


def test_a_run_of_a_function_is_proved_again_where_it_has_ended(tmp_path: Path) -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

    def solve(slope: float) -> Any:
        # The same at the origin, where the first run ends; lower elsewhere if the slope is negative.
        def value(x: Rows) -> tuple[float, Rows]:
            return float(slope * x.sum()), np.full(2, slope)

        return minimize(Custom(value, convex=True), rows, checkpoint=tmp_path / "saved", atol=1e-9)

    first = solve(1.0)
    again = solve(-1.0)
    assert first.status is Status.GAP_REACHED
    assert -1e-9 <= first.lower <= 0.0 <= first.value <= 1e-9
    assert again.lower <= -1.0 <= again.value < -1.0 + 1e-9


def test_nothing_is_hashed_where_nothing_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wolfhound.data.atoms.hash_rows", None)
    minimize(F, ROWS)
    minimize_many(TARGET[None], ROWS)
    ClusterIndex.build(ROWS)


@pytest.mark.parametrize("door", [name for name in DOORS if not name.startswith("int8")])
def test_a_call_hashes_all_rows_once(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DOORS[door].save(tmp_path / "saved")
    calls: list[Any] = []
    plain = atoms_file.hash_rows

    def hash_rows(*given: Any) -> list[str]:
        calls.append(given)
        return plain(*given)

    monkeypatch.setattr(atoms_file, "hash_rows", hash_rows)
    DOORS[door].use(tmp_path / "saved", ROWS)
    assert len(calls) == 1
