"""Rows to be herded, and the exact MMD of a subset, without a line of the library.

The kernel is exp(-|x - y|^2 / (2 l^2)), l the median distance of pairs of rows; rows are
divided by l, so that l = 1 everywhere else. The mean embedding is exact: for real data
the double sum over all pairs of rows, kept in the data cache; for the mixture that of
its distribution, in closed form.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import data
import numpy as np
from reference import Ids, Matrix, Vector
from threadpoolctl import threadpool_limits

_PAIRS = 20_000
_BLOCK = 512
"""Rows of a block: a tile of the kernel matrix stays in the cache."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """Rows, and the distribution that some of them should stand for.

    Attributes
    ----------
    rows : (n, d) float32
        In units of the lengthscale.
    means : callable
        ids -> E k(x, Y) at these rows, float64.
    square : float
        E k(Y, Y').
    """

    rows: Matrix
    means: Callable[[Ids], Vector]
    square: float

    def mmd(self, ids: Ids, weights: Vector | None = None) -> float:
        """Distance of the mean embeddings of weighted rows and of the distribution."""
        shares = np.full(len(ids), 1.0 / len(ids)) if weights is None else weights
        distinct, places = np.unique(ids, return_inverse=True)
        mass = np.bincount(places, shares).astype(np.float64, copy=False)
        cross = float(mass @ self.means(distinct))
        return math.sqrt(max(0.0, _quadratic(self.rows[distinct], mass) - 2.0 * cross + self.square))

    def first(self, n: int) -> Target:
        """Return the first n rows, to stand for the same."""
        return Target(self.rows[:n], self.means, self.square)

    def random(self, m: int, *, draws: int = 10, seed: int = 0) -> Vector:
        """(draws,) MMD of random subsets of m rows."""
        rng = np.random.default_rng(seed)
        subsets = (rng.choice(len(self.rows), m, replace=False, shuffle=False) for _ in range(draws))
        return np.array([self.mmd(ids) for ids in subsets])


def in_lengthscales(rows: Matrix, *, seed: int = 0) -> tuple[Matrix, float]:
    """Rows divided by the median distance of random pairs, and that distance."""
    rng = np.random.default_rng(seed)
    pairs = [rows[rng.integers(0, len(rows), _PAIRS)].astype(np.float64) for _ in range(2)]
    length = float(np.median(np.linalg.norm(pairs[0] - pairs[1], axis=1)))
    return (rows / np.float32(length)).astype(np.float32, copy=False), length


# ---------------------------------------------------------------- real rows


def real_rows(name: str) -> Matrix:
    """Return real data in random order; of the flights, the ten numbers."""
    if name != "flights":
        return data.atoms(name)
    raw = data.load(name)
    return raw[np.random.default_rng(0).permutation(len(raw)), :10]


def of_rows(name: str, rows: Matrix, cuts: Sequence[int], say: Say) -> dict[int, Target]:
    """Targets that are all of the first so many rows, by their number.

    The sums are read from the data cache if they are those of these rows.
    """
    scaled, _ = in_lengthscales(rows)
    sizes = sorted({*(cut for cut in cuts if cut < len(rows)), len(rows)})
    print_of = f"{zlib.crc32(scaled.data):08x}-{'-'.join(map(str, sizes))}"
    path = data.folder() / f"herding-{name}-{print_of}.npy"
    if not path.exists():
        aside = path.with_name(f".{os.getpid()}.{path.name}")
        np.save(aside, row_sums(scaled, sizes, say))
        aside.replace(path)
    sums = np.cumsum(np.load(path), axis=0)
    return {size: _of_sums(scaled[:size], sums[at, :size]) for at, size in enumerate(sizes)}


def _of_sums(rows: Matrix, sums: Vector) -> Target:
    means = sums / len(rows)
    return Target(rows, lambda ids: means[ids], float(means.mean()))


def row_sums(rows: Matrix, cuts: Sequence[int], say: Say) -> Vector:
    """(segments, n): sums of k over the rows up to the first cut, from there to the second, ...

    Every pair once, float32 within a block and float64 beyond.
    """
    begins = [at for low, high in zip([0, *cuts], cuts, strict=False) for at in range(low, high, _BLOCK)]
    ends = [*begins[1:], len(rows)]
    segment = np.searchsorted(cuts, begins, side="right")
    left, right = _factors(rows)
    workers = os.cpu_count() or 1
    steps = max(1, len(begins) // (10 * workers))

    def work(mine: range) -> Vector:
        out = np.zeros((len(cuts), len(rows)))
        for i in mine:
            at = slice(begins[i], ends[i])
            for j in range(i, len(begins)):
                to = slice(begins[j], ends[j])
                tile = left[at] @ right[to].T
                np.exp(tile, out=tile)
                out[segment[j], at] += tile @ _ones(tile.shape[1])
                if j > i:
                    out[segment[i], to] += _ones(tile.shape[0]) @ tile
        return out

    # Blocks are dealt out in turns, as the first ones meet the most others.
    tasks = [range(start, len(begins), steps) for start in range(steps)]
    total = np.zeros((len(cuts), len(rows)))
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        for done, part in enumerate(pool.map(work, tasks), 1):
            total += part
            say(f"exact sums of the kernel over {len(rows):,} rows, kept: {done} of {len(tasks)} parts")
    return total


def _ones(size: int) -> Matrix:
    return np.ones(size, np.float32)


def _factors(rows: Matrix) -> tuple[Matrix, Matrix]:
    """(n, d + 2) each, so that left @ right.T = -|x - y|^2 / 2."""
    halves = -0.5 * np.square(rows, dtype=np.float64).sum(1, keepdims=True)
    ones = np.ones_like(halves)
    pair = np.hstack([rows, halves, ones]), np.hstack([rows, ones, halves])
    return pair[0].astype(np.float32), pair[1].astype(np.float32)


def _quadratic(rows: Matrix, mass: Vector) -> float:
    """mass' K mass, float64; k(x, x) = 1 to the last digit."""
    left, right = _factors(rows)
    total = float(mass @ mass)
    for at in range(0, len(rows), _BLOCK):
        tile = np.exp(left[at : at + _BLOCK] @ right.T)
        np.fill_diagonal(tile[:, at:], 0.0)
        total += float(mass[at : at + _BLOCK] @ (tile @ mass))
    return total


# ---------------------------------------------------------------- a mixture


def of_mixture(n: int, d: int, *, clusters: int = 200, seed: int = 0) -> tuple[Target, Ids]:
    """Rows of a Gaussian mixture, the mixture as their target, and their clusters.

    Centres are normal with deviations j^-0.3 and clusters 0.7 times as wide, as in
    `data.mixture`. The target is the mixture with the clusters' shares of the rows: it
    is as far from the rows themselves as n rows are from it by chance.
    """
    rng = np.random.default_rng(seed)
    spectrum = (np.arange(1, d + 1) ** -0.3).astype(np.float32)
    centres = rng.standard_normal((clusters, d), dtype=np.float32) * spectrum
    labels = rng.integers(0, clusters, n)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows *= np.float32(0.7) * spectrum
    for at in range(0, n, 100_000):
        rows[at : at + 100_000] += centres[labels[at : at + 100_000]]
    scaled, length = in_lengthscales(rows)
    shares = np.bincount(labels, minlength=clusters) / n
    middle = centres.astype(np.float64) / length
    spread = np.square(0.7 * spectrum.astype(np.float64) / length)

    def means(ids: Ids) -> Vector:
        return _smoothed(scaled[ids].astype(np.float64), middle, spread) @ shares

    return Target(scaled, means, float(shares @ _smoothed(middle, middle, 2.0 * spread) @ shares)), labels


def _smoothed(points: Vector, centres: Vector, spread: Vector) -> Vector:
    """(p, c) E k(x, Y) for Y normal about a centre with these variances."""
    wide = 1.0 + spread
    near, far = points / np.sqrt(wide), centres / np.sqrt(wide)
    squares = np.square(near).sum(1)[:, None] + np.square(far).sum(1) - 2.0 * near @ far.T
    out: Vector = np.exp(-0.5 * squares) / math.sqrt(float(np.prod(wide)))
    return out
