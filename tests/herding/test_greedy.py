"""Picks and swaps: against a plain float64 loop, brute force and closed forms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wolfhound import get_threads, set_threads
from wolfhound.core.contracts import Ids, Vector
from wolfhound.herding import Gaussian, Laplace, Linear, Stein, mmd
from wolfhound.herding._compiled import best, distances_absolute, distances_squared
from wolfhound.herding.greedy import Candidates, Herd, states
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.mmd import Embedding, embed
from wolfhound.herding.session import fit_weights

KERNELS: list[Kernel] = [Gaussian(1.5), Laplace(2.0), Linear(), Stein(1.5)]
NAMES = ["gaussian", "laplace", "linear", "stein"]
NONE = np.empty(0, np.int64)
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)


def rows_of(n: int, d: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).normal(size=(n, d))


def exactly(rows: NDArray[Any], kernel: Kernel, **more: Any) -> Embedding:
    return embed(rows, kernel, count=len(rows), rng=np.random.default_rng(0), **more)


def begun(embedding: Embedding, kernel: Kernel, rows: NDArray[Any], held: Ids) -> Herd:
    return Herd(Candidates.of(embedding, held, rows[held], used=embedding.ids), kernel)


def begin(rows: NDArray[Any], kernel: Kernel, held: Ids | None = None) -> Herd:
    out = NONE if held is None else held
    return begun(exactly(rows, kernel, exclude=out), kernel, rows, out)


def grown(herd: Herd, m: int) -> Herd:
    for _ in range(m):
        herd.add(herd.pick())
    return herd


def plain(rows: Vector, kernel: Kernel, m: int, held: Ids) -> list[int]:
    """The definition: each pick makes the squared MMD of the set least."""
    gram = kernel.gram(rows, rows).astype(np.float64)
    linear = np.zeros(len(rows)) if kernel.centred else gram.mean(axis=1)
    chosen: list[int] = held.tolist()
    while len(chosen) < m:
        t = len(chosen) + 1
        scores = t * linear - gram[:, chosen].sum(axis=1) - 0.5 * gram.diagonal()
        scores[chosen] = -np.inf
        chosen.append(int(scores.argmax()))
    return chosen[len(held) :]


# ---------------------------------------------------------------- compiled loops


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 7, 64])
def test_distances_are_those_of_numpy(dtype: Any, d: int) -> None:
    rows = rows_of(33, d).astype(dtype)
    out = np.empty(33, dtype)
    distances_squared(rows, rows[3], -0.5, out)
    np.testing.assert_allclose(out, -0.5 * ((rows - rows[3]) ** 2).sum(axis=1), rtol=1e-5, atol=1e-30)
    distances_absolute(rows, rows[3], 2.0, out)
    np.testing.assert_allclose(out, 2.0 * np.abs(rows - rows[3]).sum(axis=1), rtol=1e-5, atol=1e-30)
    assert out[3] == 0.0


def test_best_is_the_first_of_the_largest() -> None:
    linear, half = np.array([1.0, 2.0, 2.0, 9.0]), np.array([0.0, 0.5, 0.5, np.inf])
    scores = np.empty(4)
    assert best(np.array([0.0, 1.0, 1.0, 0.0]), linear, half, 3.0, scores) == 1
    np.testing.assert_array_equal(scores, [3.0, 4.5, 4.5, -np.inf])
    assert best(np.zeros(4), linear, np.full(4, np.inf), 3.0, scores) == -1


@kernels
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_kernel_row_is_a_column_of_the_gram_matrix(kernel: Kernel, dtype: Any, rtol: float) -> None:
    rows = rows_of(50, 6).astype(dtype)
    wanted = kernel.gram(rows, rows)[:, 7]
    np.testing.assert_allclose(kernel.row(rows)(rows[7]), wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=NAMES[:2])
def test_kernel_row_in_blocks_has_the_same_bits(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(1000, 5).astype(np.float32)
    whole = kernel.row(rows)(rows[7]).copy()
    monkeypatch.setattr("wolfhound.herding.kernels.ALONE", 100)
    monkeypatch.setattr("wolfhound.herding.kernels.BLOCK", 1300)
    before = get_threads()
    for threads in (1, 3):
        set_threads(threads)
        np.testing.assert_array_equal(kernel.row(rows)(rows[7]), whole)
    set_threads(before)


# ---------------------------------------------------------------- picks


@kernels
@pytest.mark.parametrize("held", [[], [5, 2, 17]], ids=["from nothing", "from a start"])
def test_picks_are_those_of_the_definition(kernel: Kernel, held: list[int]) -> None:
    rows, begun = rows_of(120, 4), np.array(held, np.int64)
    herd = grown(begin(rows, kernel, begun), 30)
    assert herd.candidates.ids[herd.places].tolist() == plain(rows, kernel, 30 + len(held), begun)
    assert herd.size == 30 + len(held)


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=NAMES[:3])
def test_each_pick_is_the_best_of_all(kernel: Kernel) -> None:
    rows = rows_of(14, 2)
    herd = begin(rows, kernel)
    for _ in range(6):
        tries = {
            c: mmd(rows[[*herd.places, c]], rows, kernel) for c in range(14) if c not in set(herd.places)
        }
        herd.add(herd.pick())
        assert tries[herd.places[-1]] <= min(tries.values()) + 1e-12
        assert np.sqrt(herd.mmd_squared) == pytest.approx(tries[herd.places[-1]], abs=1e-6)


def test_steins_first_pick_is_the_mode() -> None:
    x = np.linspace(-3.0, 3.0, 61)[:, None]  # of a standard normal: the score is -x
    assert x[begin(np.hstack([x, -x]), Stein(1.0)).pick(), 0] == pytest.approx(0.0, abs=1e-12)


def test_ring() -> None:
    """Equally spaced points: the antipode, then the two between, then the rest."""
    angles = 2.0 * np.pi * np.arange(8) / 8
    herd = grown(begin(np.column_stack([np.cos(angles), np.sin(angles)]), Gaussian(1.0)), 8)
    turned = (np.array(herd.places) - herd.places[0]) % 8
    assert turned[1] == 4
    assert set(turned[2:4].tolist()) == {2, 6}
    assert set(turned[4:].tolist()) == {1, 3, 5, 7}
    assert herd.mmd_squared == pytest.approx(0.0, abs=1e-7)


def test_ring_spreads_evenly() -> None:
    angles = 2.0 * np.pi * np.arange(64) / 64
    herd = grown(begin(np.column_stack([np.cos(angles), np.sin(angles)]), Gaussian(0.5)), 16)
    gaps = np.diff(np.sort(herd.places), append=64 + min(herd.places))
    assert gaps.tolist() == [4] * 16


def test_simplex_vertices_in_the_linear_kernel() -> None:
    """The mean of t vertices of n is at the squared distance 1/t - 1/n of the centre."""
    herd = begin(np.eye(9), Linear())
    for t in range(1, 10):
        herd.add(herd.pick())
        assert herd.mmd_squared == pytest.approx(1.0 / t - 1.0 / 9.0, abs=1e-14)
    assert sorted(herd.places) == list(range(9))


def test_weighted_simplex_vertices_come_by_weight() -> None:
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    embedding = exactly(np.eye(4), Linear(), row_weights=weights)
    assert grown(begun(embedding, Linear(), np.eye(4), NONE), 4).places == [1, 3, 2, 0]


def test_overflow_is_named() -> None:
    herd = begin(np.array([[1e200, 0.0], [0.0, 1e200]]), Gaussian(1.0))
    herd._potential[:] = np.inf
    with pytest.raises(FloatingPointError, match="scale the atoms"):
        herd.pick()


# ---------------------------------------------------------------- swaps, weights, copies


@kernels
def test_a_swap_is_the_best_of_all(kernel: Kernel) -> None:
    rows = rows_of(25, 2)
    herd = grown(begin(rows, kernel, np.array([3])), 6)
    gram = kernel.gram(rows, rows).astype(np.float64)
    linear = np.zeros(25) if kernel.centred else gram.mean(axis=1)

    def squared(ids: list[int]) -> float:
        return float(gram[np.ix_(ids, ids)].mean() - 2.0 * linear[ids].mean())

    for at in range(6):
        before = [3, *herd.candidates.ids[herd.places].tolist()]
        rest = before[: at + 1] + before[at + 2 :]
        least = min(squared([*rest, c]) for c in range(25) if c not in rest)
        herd.swap(at)
        after = [3, *herd.candidates.ids[herd.places].tolist()]
        assert squared(after) == pytest.approx(least, abs=1e-12)
        assert after[: at + 1] + after[at + 2 :] == rest
        offset = herd.candidates.square
        assert herd.mmd_squared == pytest.approx(max(0.0, least + offset), abs=1e-6)


def test_a_second_look_at_a_swapped_pick_changes_nothing() -> None:
    herd = grown(begin(rows_of(60, 2), Gaussian(1.0)), 10)
    assert any([herd.swap(at) for at in range(10)])
    herd.swap(9)
    places = herd.places.copy()
    assert not herd.swap(9)
    assert herd.places == places


@kernels
def test_weights_are_optimal(kernel: Kernel) -> None:
    """On the simplex, and no row with weight is worse than another row."""
    rows = rows_of(80, 4)
    embedding = exactly(rows, kernel)
    herd = grown(begun(embedding, kernel, rows, NONE), 14)
    chosen, weights = rows[herd.ids], fit_weights(herd)
    gram = kernel.gram(chosen, chosen).astype(np.float64)
    linear = np.zeros(14) if kernel.centred else kernel.gram(chosen, rows).astype(np.float64).mean(axis=1)
    slope = gram @ weights - linear
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights.min() >= 0.0
    assert slope[weights > 0.0].max() - slope.min() <= 1e-5


def test_copies_grow_on_their_own() -> None:
    herd = grown(begin(rows_of(50, 2), Gaussian(1.0)), 5)
    first, second = herd.copy(), herd.copy()
    assert grown(first, 7).places == grown(second, 7).places
    assert herd.size == 5
    assert grown(herd, 7).places == first.places
    np.testing.assert_array_equal(herd.replay(first.ids).ids, first.ids)


# ---------------------------------------------------------------- states


def test_states_say_where_a_run_is() -> None:
    rows = rows_of(40, 2)
    seen = list(states(lambda: begin(rows, Gaussian(1.0)), 4, begun=NONE, swap=True))
    assert [state.kind for state in seen] == ["start", *["pick"] * 4, *["swap"] * 4]
    assert [state.t for state in seen] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [len(state.ids) for state in seen] == [0, 1, 2, 3, 4, 4, 4, 4, 4]
    assert [state.end is None for state in seen] == [True] * 8 + [False]
    assert [state.passes for state in seen] == [0.0] + [1.0] * 8
    assert (np.diff([state.scored for state in seen]) > 0).all()
    values = [state.value for state in seen]
    assert values[0] == np.inf
    assert (np.diff(values[4:]) <= 0.0).all()
    assert values[4] == pytest.approx(0.5 * mmd(rows[seen[4].ids], rows, Gaussian(1.0)) ** 2, rel=1e-4)
    last = seen[-1]
    assert (last.lower, last.slack) == (-np.inf, np.inf)
    assert np.isnan(last.ratio)
