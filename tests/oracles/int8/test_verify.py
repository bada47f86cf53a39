"""Codes of unknown origin: proved to be those of the atoms, or the row is named."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wolfhound.core.contracts import Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.int8.codes import Codes, encode_atoms, find_wrong_row

ROWS = np.random.default_rng(0).standard_normal((37, 5))
ORDER = np.random.default_rng(1).permutation(37)


def meant(codes: Codes, d: int) -> Vector:
    """(n, d) rows that the codes stand for, less the centre, in their units; numpy's way."""
    blocks, pairs, rows = codes.blocks.shape
    split = codes.blocks.transpose(0, 2, 1).copy().view(np.int8).reshape(blocks * rows, 2 * pairs)
    return codes.scales[: codes.n, None] * (split[: codes.n, :d].astype(np.float64) + codes.zero)


def cases() -> list[tuple[NDArray[Any], Codes]]:
    single, positive = ROWS.astype(np.float32), np.abs(ROWS)
    return [
        (ROWS, encode_atoms(ArrayAtoms(ROWS))),
        (single, encode_atoms(ArrayAtoms(single), ids=ORDER, centre=ROWS.mean(axis=0))),
        (positive, encode_atoms(ArrayAtoms(positive), ids=ORDER)),
        (ROWS + 1e9, encode_atoms(ArrayAtoms(ROWS + 1e9), centre=np.full(5, 1e9))),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", range(4))
def test_errors_must_be_the_distances_and_heights_the_sizes(case: int) -> None:
    rows, codes = cases()[case]
    ids = codes.ids if len(codes.ids) else np.arange(37)
    centred = np.ldexp(rows[ids].astype(np.float64) - codes.centre, -codes.exponent)
    distances = np.linalg.norm(centred - meant(codes, 5), axis=1)
    assert find_wrong_row(codes, ArrayAtoms(rows)) is None
    errors = codes.errors.copy()
    errors[:37] = np.nextafter(distances.astype(np.float32), np.float32(np.inf)) * np.float32(1 + 1e-6)
    assert find_wrong_row(replace(codes, errors=errors), ArrayAtoms(rows)) is None
    errors[20] = distances[20] * (1.0 - 1e-6)
    assert find_wrong_row(replace(codes, errors=errors), ArrayAtoms(rows)) == ids[20]
    sizes = np.linalg.norm(meant(codes, 5), axis=1)
    tight = replace(codes, height=float(sizes.max()) * (1.0 + 1e-12))
    assert find_wrong_row(tight, ArrayAtoms(rows)) is None
    tight = replace(codes, height=float(sizes.max()) * (1.0 - 1e-12))
    assert find_wrong_row(tight, ArrayAtoms(rows)) == ids[sizes.argmax()]


def test_a_code_that_could_overflow_sums_is_refused() -> None:
    codes = encode_atoms(ArrayAtoms(ROWS))
    blocks = codes.blocks.copy()
    blocks[0, 0, 3] = -128
    assert find_wrong_row(replace(codes, blocks=blocks, errors=codes.errors + 99), ArrayAtoms(ROWS)) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300])
def test_rows_that_are_not_those_of_the_codes_are_named(value: float) -> None:
    codes = encode_atoms(ArrayAtoms(ROWS))
    rows = ROWS.copy()
    rows[30, 2] = value
    assert find_wrong_row(codes, ArrayAtoms(rows)) == 30
