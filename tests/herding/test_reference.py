"""References: exact where they can be, close where they are drawn."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wolfhound import ArrayAtoms
from wolfhound.core import Vector
from wolfhound.herding import Gaussian, Laplace, Linear, Reference, Stein, mmd
from wolfhound.herding._reference import Known, Noting
from wolfhound.herding.embedding import Embedding, embed
from wolfhound.herding.kernels import Kernel

LARGE = np.random.default_rng(0).normal(size=(21_000, 3)).astype(np.float32)
SMALL = LARGE[:400]


def known(rows: Any, kernel: Kernel, weights: Vector | None = None, count: int = 1000) -> Known:
    noting = Noting(kernel)
    found: Embedding = embed(
        rows,
        kernel if isinstance(kernel, Linear) or kernel.centred else noting,
        count=count,
        row_weights=weights,
        rng=np.random.default_rng(0),
    )
    return Known(
        target=ArrayAtoms(rows),
        row_weights=weights,
        kernel=kernel,
        embeddings=[found],
        shares=np.ones(1),
        features=noting.noted,
        used=np.union1d(found.ids, found.base_ids),
    )


def test_features_stay_the_same() -> None:
    noting = Noting(Gaussian(1.0))
    first = noting.features(3, 8, np.random.default_rng(0))
    assert first is not None
    assert noting.features(3, 8, np.random.default_rng(1)) is first
    assert noting.noted is first
    assert noting.fitted(SMALL) is noting
    assert not noting.centred
    np.testing.assert_array_equal(noting.gram(SMALL, SMALL), Gaussian(1.0).gram(SMALL, SMALL))
    np.testing.assert_array_equal(noting.diagonal(SMALL), np.ones(400))


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.5), Laplace(3.0), Linear()], ids=["gaussian", "laplace", "linear"]
)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_a_small_target_is_taken_whole(kernel: Kernel, weighted: bool) -> None:
    weights = [None, np.linspace(1.0, 2.0, 400) / np.linspace(1.0, 2.0, 400).sum()][weighted]
    reference, words = known(SMALL, kernel, weights).reference(100, np.random.default_rng(1))
    assert words == "all 400 rows (exact)"
    assert reference.exact
    wanted = mmd(SMALL[:20], SMALL, kernel, right_weights=weights)
    assert reference.mmd(SMALL[:20]) == pytest.approx(wanted, abs=1e-5)


def test_linear_means_are_exact_at_any_size() -> None:
    reference, words = known(LARGE, Linear()).reference(100, np.random.default_rng(1))
    assert words == "all 21,000 rows (exact)"
    assert reference.mmd(LARGE[:50]) == pytest.approx(mmd(LARGE[:50], LARGE, Linear()), rel=1e-6)


def test_labels_are_put_together() -> None:
    """Two labels with their shares are the target as a whole."""
    kernel, parts = Gaussian(1.5), (SMALL[:100], SMALL[100:])
    both = [known(part, kernel) for part in parts]
    whole = Known(
        target=ArrayAtoms(SMALL),
        row_weights=None,
        kernel=kernel,
        embeddings=[each.embeddings[0] for each in both],
        shares=np.array([0.25, 0.75]),
        features=None,
        used=np.arange(400),
    )
    reference, _ = whole.reference(100, np.random.default_rng(1))
    assert reference.mmd(SMALL[:20]) == pytest.approx(mmd(SMALL[:20], SMALL, kernel), abs=1e-5)


def test_a_known_mean_needs_no_rows() -> None:
    rows = np.hstack([SMALL, -SMALL])
    reference, words = known(rows, Stein(1.0)).reference(100, np.random.default_rng(1))
    assert words == "the density itself (exact)"
    assert len(reference.rows) == 0


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_held_out_rows_are_calibrated(weighted: bool) -> None:
    """Much closer to the truth than rows as they were drawn, and none was used before."""
    weights = [None, np.exp(LARGE[:, 0].astype(np.float64))][weighted]
    weights = None if weights is None else weights / weights.sum()
    kernel, herd = Gaussian(2.0), LARGE[:2000]
    about = known(LARGE, kernel, weights)
    truth = mmd(herd, LARGE, kernel, right_weights=weights) ** 2
    ours, plain = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        reference, words = about.reference(2000, rng)
        ours.append(reference.mmd(herd) ** 2 - truth)
        plain.append(
            Reference.draw(LARGE, kernel, count=2000, row_weights=weights, exclude=about.used, rng=rng).mmd(
                herd
            )
            ** 2
            - truth
        )
        assert words == "2,000 rows held out, calibrated"
        assert not (reference.rows[:, None, 0] == LARGE[about.used[:500], 0]).any()
    assert np.abs(ours).max() < 0.25 * np.abs(plain).max()
