"""What every `Kernel` promises, checked on a few rows."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import numpy as np

from wolfhound.core.contracts import Vector
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.herding.kernels import KERNELS, Kernel

COUNT = 40_000
"""Random features: k is met to a few times 1 / sqrt(COUNT) of its diagonal."""


def check_kernel(kernel: Kernel, *, d: int = 6) -> None:
    """Check a kernel: its values, its fast paths, its features and what is saved of it.

    Parameters
    ----------
    kernel
        Of a class in the table `KERNELS`; it need not be fitted.
    d
        Columns of rows that it takes; more than one.
    """
    rng = np.random.default_rng(0)
    rows, others = rng.standard_normal((20, d)), rng.standard_normal((7, d))
    for array in (rows, others):
        array.flags.writeable = False
    fitted = kernel.fit(rows)
    assert fitted.fit(others) == fitted
    _check_values(fitted, rows)
    _check_paths(fitted, rows, others)
    _check_features(fitted, rows)
    _check_mean(fitted, rows, others)
    for each in (kernel, fitted):
        _check_json(each)


def _check_values(kernel: Kernel, rows: Vector) -> None:
    gram = np.asarray(kernel.gram(rows, rows), np.float64)
    size = float(np.abs(gram).max())
    np.testing.assert_allclose(gram, gram.T, atol=1e-12 * size)
    np.testing.assert_allclose(kernel.diagonal(rows), np.diag(gram), atol=1e-12 * size)
    assert np.linalg.eigvalsh(gram).min() >= -1e-10 * size
    single = rows.astype(np.float32)
    np.testing.assert_allclose(kernel.gram(single, single), gram, atol=1e-4 * size)


def _check_paths(kernel: Kernel, rows: Vector, others: Vector) -> None:
    gram = kernel.gram(rows, others)
    size = float(np.abs(gram).max())
    assert gram.shape == (len(rows), len(others))
    np.testing.assert_allclose(kernel.against(rows)(others), gram, atol=1e-12 * size)
    np.testing.assert_allclose(kernel.against(rows, single=True)(others), gram, atol=1e-4 * size)
    row = kernel.row(rows)
    for j, other in enumerate(others):
        np.testing.assert_allclose(row(other), gram[:, j], atol=1e-12 * size)


def _check_features(kernel: Kernel, rows: Vector) -> None:
    features = kernel.features(rows.shape[1], COUNT, np.random.default_rng(1), centre=rows.mean(axis=0))
    if features is None:
        return
    mapped = features(rows)
    assert mapped.shape == (len(rows), features.dim_out)
    gram, top = kernel.gram(rows, rows), float(kernel.diagonal(rows).max())
    np.testing.assert_allclose(mapped @ mapped.T, gram, atol=8.0 * top / COUNT**0.5)


def _check_mean(kernel: Kernel, rows: Vector, others: Vector) -> None:
    """Where a row stands for the mean of all, k with it is the mean of k."""
    weights = np.arange(1.0, len(rows) + 1.0) / np.arange(1.0, len(rows) + 1.0).sum()
    for given, shares in ((None, np.full(len(rows), 1.0 / len(rows))), (weights, weights)):
        mean = kernel.mean(ArrayAtoms(rows), given, "atoms")
        if mean is not None:
            np.testing.assert_allclose(
                kernel.gram(mean[None], others)[0], shares @ kernel.gram(rows, others), atol=1e-10
            )


def _check_json(kernel: Kernel) -> None:
    known = KERNELS[kernel.name]
    assert type(kernel) is known
    assert known.from_json(json.loads(json.dumps(kernel.to_json()))) == kernel
    assert type(kernel).__name__ in repr(kernel)
