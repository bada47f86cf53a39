"""Many atoms: the same answers by passes as by the Gram matrix, and hostile data."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wolfhound as wh
from tests.many.judge import check_proofs
from tests.many.test_gram_solver import CASES, normal
from wolfhound.core.contracts import Status
from wolfhound.data.atoms import FileAtoms
from wolfhound.many import pass_solver, solve

Array = NDArray[Any]


@pytest.fixture
def only_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dictionary is small."""
    monkeypatch.setattr(solve, "SMALL", 0)


@pytest.fixture
def a_ladder(monkeypatch: pytest.MonkeyPatch, only_passes: None) -> Iterator[None]:
    """Also few atoms have codes and a ladder of subsets, and lists are short."""
    monkeypatch.setattr(pass_solver, "CODED", 0)
    monkeypatch.setattr(pass_solver, "LEAST_STEP", 16)
    monkeypatch.setattr(pass_solver, "LIST", 64)
    yield


@pytest.mark.usefixtures("only_passes")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at_most", [False, True])
def test_proofs_are_true(name: str, at_most: bool) -> None:
    atoms, targets = CASES[name]
    result = wh.minimize_many(targets, atoms, over=wh.Hull(at_most=at_most))
    check_proofs(result, targets, atoms, at_most=at_most)
    assert result.success


@pytest.mark.usefixtures("a_ladder")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_passes_and_gram_matrix_agree(dtype: Any, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    atoms, targets = normal(900, 7).astype(dtype), size * normal(40, 7, seed=1)
    exclude = np.arange(40)[:, None]
    found = wh.minimize_many(targets, atoms, exclude=exclude)
    monkeypatch.setattr(solve, "SMALL", 1024)
    known = wh.minimize_many(targets, atoms, exclude=exclude)
    np.testing.assert_allclose(found.goal, known.goal, rtol=1e-9)
    assert found.success
    assert (found.gap <= found.goal).all()
    assert (found.lower <= known.value).all()
    assert (known.lower <= found.value).all()


@pytest.mark.usefixtures("a_ladder")
def test_proofs_by_list_are_true() -> None:
    atoms, targets = normal(600, 3), 2.5 * normal(8, 3, seed=1)
    result = wh.minimize_many(targets, atoms, rtol=1e-3)
    check_proofs(result, targets, atoms)
    assert (result.lower > 0.0).any()
    assert result.success


@pytest.mark.usefixtures("a_ladder")
def test_files_and_arrays_agree(tmp_path: Path) -> None:
    atoms, targets = normal(700, 5).astype(np.float32), normal(30, 5, seed=1)
    np.save(tmp_path / "atoms.npy", atoms)
    one, two = wh.minimize_many(targets, atoms), wh.minimize_many(targets, tmp_path / "atoms.npy")
    small = wh.minimize_many(targets, tmp_path / "atoms.npy", max_memory=400_000)
    for other in (two, small):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-6)
        assert other.success
        assert other.fingerprint == one.fingerprint


def test_a_memory_limit_is_kept(tmp_path: Path) -> None:
    atoms, targets, limit = normal(60_000, 8).astype(np.float32), 2.5 * normal(24, 8, seed=1), 3_000_000
    np.save(tmp_path / "atoms.npy", atoms)
    given = FileAtoms(tmp_path / "atoms.npy")
    free = wh.minimize_many(targets, given)
    wh.minimize_many(targets[:1], given, max_memory=limit)  # compiled, imported
    wh.set_threads(2)
    tracemalloc.start()
    found = wh.minimize_many(targets, given, max_memory=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wh.set_threads(None)
    assert peak <= limit
    assert found.success
    assert (found.lower <= free.value).all()
    assert (free.lower <= found.value).all()
    check_proofs(found, targets, atoms, some=range(0, 24, 8))


@pytest.mark.parametrize("n", [50, 5000])
def test_too_little_memory_is_refused_with_what_would_do(n: int) -> None:
    atoms, targets = normal(n, 4), normal(3, 4, seed=1)
    for given in (atoms, wh.ClusterIndex.build(atoms)):
        with pytest.raises(ValueError, match=r"`max_memory` must be at least [\d,]+ bytes") as error:
            wh.minimize_many(targets, given, max_memory="1kB")
        least = int(str(error.value).split()[5].replace(",", ""))
        assert np.isfinite(wh.minimize_many(targets, given, max_memory=least).value).all()


@pytest.mark.usefixtures("a_ladder")
def test_no_answer_depends_on_threads() -> None:
    atoms, targets = normal(800, 6), 2.0 * normal(300, 6, seed=1)
    answers = []
    for threads in (1, 2, 4):
        wh.set_threads(threads)
        answers.append(wh.minimize_many(targets, atoms))
    wh.set_threads(None)
    for other in answers[1:]:
        for name in ("indptr", "ids", "weights", "value", "lower", "goal", "codes", "passes"):
            np.testing.assert_array_equal(getattr(answers[0], name), getattr(other, name))


@pytest.mark.usefixtures("only_passes")
def test_interior_targets_need_no_pass_beyond_the_first() -> None:
    atoms = normal(2000, 4)
    result = wh.minimize_many(0.01 * normal(20, 4, seed=1), atoms)
    assert (result.lower == 0.0).all()
    assert (result.value <= result.goal).all()


@pytest.mark.usefixtures("a_ladder")
def test_no_time_gives_points_without_proofs() -> None:
    atoms, targets = normal(2000, 6), normal(30, 6, seed=1)
    result = wh.minimize_many(targets, atoms, max_seconds=0.0)
    assert set(result.status) == {Status.MAX_SECONDS}
    assert (result.lower <= result.value).all()


@pytest.mark.slow
@pytest.mark.usefixtures("only_passes")
def test_few_atoms_per_target() -> None:
    atoms, targets = normal(1500, 8), 2.0 * normal(25, 8, seed=1)
    free = wh.minimize_many(targets, atoms)
    few = wh.minimize_many(targets, atoms, max_atoms=3)
    assert few.support.max() <= 3
    assert few.price is not None
    np.testing.assert_allclose(few.value - few.price, free.value, atol=1e-12)
    assert (few.lower <= free.value).all()
    check_proofs(few, targets, atoms)


@pytest.mark.slow
@pytest.mark.usefixtures("only_passes")
@pytest.mark.parametrize("coded", [0, 1 << 60], ids=["codes", "rows"])
def test_atoms_of_nearly_equal_length_and_score(coded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_solver, "CODED", coded)
    atoms, targets = normal(4000, 150).astype(np.float32), 1.5 * normal(12, 150, seed=1)
    result = wh.minimize_many(targets, atoms)
    assert result.success
    assert result.passes.max() <= 3


@pytest.mark.usefixtures("a_ladder")
@pytest.mark.parametrize("coded", [0, 1 << 60], ids=["codes", "rows"])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_bounds_by_lists_are_true(coded: int, offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_solver, "CODED", coded)
    atoms, targets = normal(600, 4) + offset, 3.0 * normal(8, 4, seed=1) + offset
    for at_most in (False, True):
        result = wh.minimize_many(targets, atoms, rtol=1e-3, over=wh.Hull(at_most=at_most))
        check_proofs(result, targets, atoms, at_most=at_most)
        assert result.success
