"""What every kind of atoms must do."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms

Rows = NDArray[np.float64]


def check_atoms(
    make: Callable[[Rows], Atoms], *, shapes: Sequence[tuple[int, int]] = ((23, 5), (1, 3), (4, 1))
) -> None:
    """Check atoms made from rows of small integers, which every dtype holds exactly.

    Parameters
    ----------
    make
        Makes the atoms of some rows. It is given a read-only array.
    shapes
        Shapes to try.
    """
    for seed, shape in enumerate(shapes):
        rows = np.random.default_rng(seed).integers(0, 100, shape).astype(np.float64)
        rows.flags.writeable = False
        before = rows.copy()
        for atoms in (made := make(rows), pickle.loads(pickle.dumps(made))):
            _check_shape(atoms, rows)
            _check_take(atoms, rows)
            _check_blocks(atoms, rows)
        np.testing.assert_array_equal(rows, before)


def _check_shape(atoms: Atoms, rows: Rows) -> None:
    assert atoms.shape == rows.shape
    assert all(type(size) is int for size in atoms.shape)
    assert atoms.dtype in (np.dtype(np.float32), np.dtype(np.float64))


def _check_array(array: NDArray[Any], atoms: Atoms, expected: Rows) -> None:
    assert array.dtype == atoms.dtype
    assert array.dtype.isnative
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, expected)


def _check_take(atoms: Atoms, rows: Rows) -> None:
    n = len(rows)
    several = np.random.default_rng(n).integers(0, n, 2 * n + 3)  # unsorted and repeated
    for ids in (np.arange(n), np.arange(n)[::-1], several, np.array([n - 1]), np.empty(0, np.int64)):
        _check_array(atoms.take(ids), atoms, rows[ids])
    fresh = atoms.take(np.array([0]))
    fresh += 1  # nobody else sees this
    _check_array(atoms.take(np.array([0])), atoms, rows[:1])
    for wrong in (np.array([n]), np.array([0, -1])):
        with pytest.raises(IndexError):
            atoms.take(wrong)


def _check_blocks(atoms: Atoms, rows: Rows) -> None:
    n = len(rows)
    for size in (1, 2, 7, n, n + 1, 10 * n):
        blocks = list(atoms.blocks(size))
        assert all(0 < len(block) <= size for _, block in blocks)
        assert [first for first, _ in blocks] == [0, *np.cumsum([len(block) for _, block in blocks])[:-1]]
        assert not any(block.flags.writeable for _, block in blocks)
        for first, block in blocks:
            _check_array(block, atoms, rows[first : first + len(block)])
        assert sum(len(block) for _, block in blocks) == n
    early = atoms.blocks(1)
    _check_array(next(early)[1], atoms, rows[:1])
    del early  # leaving a pass early is allowed
    with pytest.raises(ValueError, match="rows"):
        next(atoms.blocks(0))
