"""Lists from codes: what is not listed is bounded, as a float64 product shows."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from tests.many.test_gram_solver import normal
from wolfhound.data.atoms import as_atoms
from wolfhound.many.batch import Banned
from wolfhound.many.rows import EncodedRows, RowBlocks, encode_rows, encode_some, measure_atoms


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rho", [0.0, float(np.float32(0.1))])
@pytest.mark.parametrize("kind", ["codes", "rows", "exact", "some"])
def test_keys_outside_a_list_are_bounded(dtype: type, rho: float, kind: str) -> None:
    atoms = as_atoms((7.0 + normal(1003, 9) * np.linspace(0.01, 20.0, 1003)[:, None]).astype(dtype))
    measured = measure_atoms(atoms, np.full(9, 7.1))
    rows = measured.units.convert(atoms.take(np.arange(1003)))
    queries = normal(19, 9, seed=1)
    queries = (0.999 * queries / np.linalg.norm(queries, axis=1)[:, None]).astype(np.float32).astype(float)
    banned = Banned(np.array([3, 5, 3]), np.array([0, 17, 1002]))
    plain = RowBlocks(measured.units, float(measured.lengths.max()), np.empty((0, 10), np.float32), atoms)
    sheets: dict[str, RowBlocks | EncodedRows] = {
        "codes": encode_rows(atoms, measured),
        "some": encode_some(atoms, np.arange(1003), measured),
        "rows": plain,
        "exact": plain.exact(),
    }
    sheet = sheets[kind]
    keys = queries @ rows.T + rho * np.linalg.norm(rows, axis=1)
    keys[banned.targets, banned.atoms] = -np.inf
    for level in (None, np.sort(keys, axis=1)[:, -90].astype(np.float32)):
        found = sheet.list_atoms(queries, rho, banned, 60, level=level)
        assert found is not None
        assert (np.linalg.norm(rows, axis=1) <= measured.lengths).all()
        for t in range(19):
            listed = found.ids[t, : found.fill[t]]
            assert len(set(listed.tolist())) == len(listed) >= 40
            assert not set(listed) & set(banned.atoms[banned.targets == t])
            assert np.delete(keys[t], listed).max() <= found.edge[t]
            assert found.edge[t] <= np.sort(keys[t])[-55] + 0.05


def test_a_list_that_holds_all_says_so() -> None:
    atoms = as_atoms(normal(30, 4))
    sheet = encode_rows(atoms, measure_atoms(atoms, np.zeros(4)))
    found = sheet.list_atoms(np.eye(4)[:1] * 0.5, 0.0, Banned(np.array([0]), np.array([7])), 64)
    assert found is not None
    assert found.edge.tolist() == [-np.inf]
    assert sorted(found.ids[0, : found.fill[0]]) == [i for i in range(30) if i != 7]


def test_a_query_that_is_nothing_proves_nothing() -> None:
    atoms = as_atoms(normal(100, 4))
    sheet = encode_rows(atoms, measure_atoms(atoms, np.zeros(4)))
    found = sheet.list_atoms(np.zeros((1, 4)), 0.0, Banned(np.empty(0, int), np.empty(0, int)), 8)
    assert found is not None
    assert found.edge.tolist() == [np.inf]
