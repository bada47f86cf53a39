"""References: exact where they can be, close where they are drawn."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wolfhound import ArrayAtoms
from wolfhound.core.contracts import Vector
from wolfhound.herding import Gaussian, Laplace, Linear, Reference, Stein, mmd
from wolfhound.herding.greedy import Candidates
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.labels import Labels
from wolfhound.herding.session import HerdData, HerdSettings, choose_reference, gather

LARGE = np.random.default_rng(0).normal(size=(21_000, 3)).astype(np.float32)
SMALL = LARGE[:400]


def known(
    rows: Any, kernel: Kernel, weights: Vector | None = None, labels: Labels | None = None
) -> tuple[Candidates, HerdData, Kernel]:
    """What `choose_reference` needs of a run."""
    data = HerdData(atoms=ArrayAtoms(rows), target=None, labels=labels, row_weights=weights)
    settings = HerdSettings(
        kernel=kernel,
        candidates=(1000,) * (1 if labels is None else len(labels.members)),
        held=0,
        exclude=np.empty(0, np.int64),
        balanced=False,
        weights=False,
        swap=False,
        evaluate=True,
        seed=0,
        **data.fingerprints(),
    )
    return gather(data, settings, np.empty(0, np.int64)), data, kernel


@pytest.mark.slow
def test_features_stay_the_same() -> None:
    """Labels that are taken whole need none; all others use those that were drawn first."""
    groups = np.searchsorted([0.1, 1.0], np.random.default_rng(0).random(30_000) * 2.0)
    rows = np.random.default_rng(1).normal(size=(30_000, 2))
    candidates, _, _ = known(rows, Gaussian(1.0), labels=Labels.of(groups, 30_000))
    small, first, second = candidates.embeddings
    assert small.mean.exact
    assert small.features is None
    assert first.features is not None
    assert second.features is first.features
    assert candidates.features is first.features


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.5), Laplace(3.0), Linear()], ids=["gaussian", "laplace", "linear"]
)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_a_small_target_is_taken_whole(kernel: Kernel, weighted: bool) -> None:
    weights = [None, np.linspace(1.0, 2.0, 400) / np.linspace(1.0, 2.0, 400).sum()][weighted]
    reference, words = choose_reference(*known(SMALL, kernel, weights), 100, np.random.default_rng(1))
    assert words == "all 400 rows (exact)"
    assert reference.exact
    wanted = mmd(SMALL[:20], SMALL, kernel, right_weights=weights)
    assert reference.mmd(SMALL[:20]) == pytest.approx(wanted, abs=1e-5)


def test_linear_means_are_exact_at_any_size() -> None:
    reference, words = choose_reference(*known(LARGE, Linear()), 100, np.random.default_rng(1))
    assert words == "all 21,000 rows (exact)"
    assert reference.mmd(LARGE[:50]) == pytest.approx(mmd(LARGE[:50], LARGE, Linear()), rel=1e-6)


def test_labels_are_put_together() -> None:
    """Two labels with their shares are the target as a whole."""
    kernel, labels = Gaussian(1.5), Labels.of(np.arange(400) < 100, 400)
    reference, _ = choose_reference(*known(SMALL, kernel, labels=labels), 400, np.random.default_rng(1))
    assert reference.mmd(SMALL[:20]) == pytest.approx(mmd(SMALL[:20], SMALL, kernel), abs=1e-5)


def test_a_known_mean_needs_no_rows() -> None:
    rows = np.hstack([SMALL, -SMALL])
    reference, words = choose_reference(*known(rows, Stein(1.0)), 100, np.random.default_rng(1))
    assert words == "the density itself (exact)"
    assert len(reference.rows) == 0


@pytest.mark.slow
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
        reference, words = choose_reference(*about, 2000, rng)
        ours.append(reference.mmd(herd) ** 2 - truth)
        plain.append(
            Reference.draw(
                LARGE, kernel, count=2000, row_weights=weights, exclude=about[0].used, rng=rng
            ).mmd(herd)
            ** 2
            - truth
        )
        assert words == "2,000 rows held out, calibrated"
        assert not (reference.rows[:, None, 0] == LARGE[about[0].used[:500], 0]).any()
    assert np.abs(ours).max() < 0.25 * np.abs(plain).max()
