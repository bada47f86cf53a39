"""k-means against plain numpy: near, repeatable, and unmoved by threads."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wolfhound.core.threads import set_threads
from wolfhound.oracles.clusters import kmeans, nearest


def squared_distances(centres: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """(r, c) squared distances in float64, from differences."""
    differences = rows[:, None].astype(np.float64) - centres[None].astype(np.float64)
    return np.asarray(np.square(differences).sum(axis=2))


@pytest.mark.parametrize("scale", [1e-42, 1e-20, 1.0, 1e18, 3e37])
@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_the_nearest_centre_is_nearest(scale: float, shift: float) -> None:
    rng = np.random.default_rng(0)
    unit = 0.01 * (rng.standard_normal((90, 7)) + shift)
    centres, rows = np.split((scale * unit).astype(np.float32), [20])
    ids, distances = nearest(centres, rows)
    # float32 numbers as large as the shift: differences of the products are that coarse.
    truth = squared_distances(centres, rows) / scale**2
    room = 1e-6 * truth.max() + 1e-5 * (scale < 1e-38)
    assert (truth[np.arange(70), ids] <= truth.min(axis=1) + room).all()
    with np.errstate(over="ignore"):
        expected = (truth[np.arange(70), ids] * scale**2).astype(np.float32)
    np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e-40)


def test_equal_centres_give_the_smallest_id() -> None:
    ids, distances = nearest(np.ones((4, 3)), np.zeros((5, 3)))
    np.testing.assert_array_equal(ids, np.zeros(5))
    np.testing.assert_array_equal(distances, np.full(5, 3.0))
    assert ids.dtype == np.int64
    assert distances.dtype == np.float32


def test_clusters_that_lie_apart_are_found() -> None:
    rng = np.random.default_rng(1)
    true = 100.0 * np.eye(6)
    labels = np.arange(600) % 6
    rows = (true[labels] + rng.standard_normal((600, 6))).astype(np.float32)
    ids, distances = nearest(kmeans(rows, 24, seed=0), rows)
    assert distances.max() < 100.0
    assert all(len(np.unique(labels[ids == c])) <= 1 for c in range(24))


def test_a_round_of_means_never_raises_the_distances() -> None:
    rows = np.random.default_rng(2).standard_normal((500, 5)).astype(np.float32)
    spreads = [nearest(kmeans(rows, 20, seed=3, iterations=i), rows)[1].mean() for i in range(6)]
    assert (np.diff(spreads) <= 1e-6).all()
    assert spreads[-1] < 0.9 * spreads[0]


def test_centres_are_the_means_of_their_rows() -> None:
    rows = np.random.default_rng(2).standard_normal((300, 4)).astype(np.float32)
    before = kmeans(rows, 7, seed=5, iterations=2)
    after = kmeans(rows, 7, seed=5, iterations=3)
    ids, _ = nearest(before, rows)
    expected = np.stack([rows[ids == c].mean(axis=0) for c in range(7)])
    np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((1, 1)),
        np.ones((50, 3)),
        np.eye(3)[np.arange(50) % 3],
        np.full((5, 2), 3e38),
        np.zeros((9, 2)),
    ],
    ids=["one", "equal", "three", "huge", "zero"],
)
@pytest.mark.parametrize("clusters", [1, 3, 40])
def test_fewer_distinct_rows_than_clusters(rows: NDArray[Any], clusters: int) -> None:
    centres = kmeans(rows, clusters, seed=0)
    assert centres.shape == (clusters, rows.shape[1])
    assert centres.dtype == np.float32
    assert np.isfinite(centres).all()


def test_an_empty_cluster_starts_again_far_away() -> None:
    few = np.random.default_rng(3).standard_normal((8, 3)).astype(np.float32)
    rows = few[np.maximum(np.arange(300) - 292, 0)]  # the random rows are most likely all the same
    _, distances = nearest(kmeans(rows, 8, seed=0), rows)
    assert distances.max() < 1e-10


def test_centres_do_not_depend_on_the_threads() -> None:
    rows = np.random.default_rng(4).standard_normal((9000, 8)).astype(np.float32)
    rows.flags.writeable = False
    answers = []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            centres = kmeans(rows, 1500, seed=7)
            answers.append((centres.tobytes(), *(part.tobytes() for part in nearest(centres, rows))))
    finally:
        set_threads(None)
    assert answers[0] == answers[1] == answers[2]
    assert kmeans(rows, 30, seed=7).tobytes() != kmeans(rows, 30, seed=8).tobytes()
