"""The certificate over the continuum: an upper bound on G(theta) = sum_j w_j p_j(theta) / f_j.

For any positive f: max over all mixing distributions of sum_j w_j log(h_j / f_j) <= log max G.
Cells halve from one root; an observation touches cells as wide as itself and near it, where
its likelihood is interpolated with a remainder in closed form; polynomials of wide cells
are restricted to the narrow ones that stand in them, and bounded on the leaves.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wolfhound.core import Ints, Matrix, Vector
from wolfhound.mixtures import _continuum_kernels as kernels
from wolfhound.mixtures._chebyshev import FINE, FINE_POINTS, NODES, make_maps
from wolfhound.mixtures._continuum_kernels import (
    BINOMIAL,
    DEGREE,
    LEBESGUE,
    NORMAL,
    POISSON,
    REACH,
    Cells,
    Touched,
    Waves,
)
from wolfhound.rounding import SAFE, UNIT, gamma

DEEPEST = 48
"""Most levels of cells: deeper ones would have numbers that float64 does not hold."""

DEPTH = 20
"""Most bisections of a leaf."""

LEAST = 1e-280
"""Where a mixture's likelihood is smaller, nothing is proved."""

_SMALLEST = 1e-300
_BLOCK = 1 << 20


class ContinuumProof(NamedTuple):
    """What is known of G."""

    upper: float  # proved: log G <= this everywhere
    attained: float  # largest value that was seen
    places: Vector  # local maxima, in z
    heights: Vector  # G there
    slack: float = 0.0  # the part of `upper` that is rounding


def to_theta(kind: int, z: Vector) -> Vector:
    """From z to the family's parameter."""
    if kind == NORMAL:
        return z
    return z * z if kind == POISSON else np.asarray(np.sin(z) ** 2)


def from_theta(kind: int, theta: Vector) -> Vector:
    """From the family's parameter to z."""
    if kind == NORMAL:
        return theta
    root = np.sqrt(np.maximum(theta, 0.0))
    return root if kind == POISSON else np.arcsin(np.minimum(root, 1.0))


def tabulate(kind: int, z: Vector) -> tuple[Vector, Vector]:
    """u and v of places."""
    if kind == BINOMIAL:
        return np.sin(z) ** 2, np.cos(z) ** 2
    return (z, z) if kind == NORMAL else (z * z, z * z)


def tabulate_theta(kind: int, theta: Vector) -> tuple[Vector, Vector]:
    """u and v of parameters, from these alone."""
    return theta, 1.0 - theta if kind == BINOMIAL else theta


def log_shares(waves: Waves, table: tuple[Vector, Vector]) -> Matrix:
    """(n, k) logarithms of likelihoods at a table of places, as shares of their maxima."""
    out = np.empty((len(waves.a), len(table[0])))
    u, v = (np.ascontiguousarray(each, np.float64) for each in table)
    kernels.fill(waves, u, v, out)
    return out


class Continuum:
    """All observations of one family, and the cells over which G is bounded.

    a, b are x and sigma (NORMAL), exposure (POISSON) or trials (BINOMIAL); w positive, of sum 1 but for
    rounding. Places z of normal means are differences to `origin`: far from 0 they would have few digits.
    """

    def __init__(self, kind: int, a: Vector, b: Vector, w: Vector) -> None:
        self.kind, self.w, self.n = kind, w, len(a)
        self.origin = float(0.5 * a.min() + 0.5 * a.max()) if kind == NORMAL else 0.0
        self.told = Waves(kind, a, b)
        self.modes = a - self.origin if kind == NORMAL else from_theta(kind, a / b)
        self.waves = Waves(kind, self.modes, b) if kind == NORMAL else self.told
        self.reach = b if kind == NORMAL else 1.0 / np.sqrt(2.0 * b)
        self.width = b if kind == NORMAL else 0.5 / np.sqrt(b)
        self.low, self.high = float(self.modes.min()), float(self.modes.max())
        self.lay_cells()

    def to_theta(self, z: Vector) -> Vector:
        """From places to parameters."""
        return to_theta(self.kind, z) + self.origin

    def from_theta(self, theta: Vector) -> Vector:
        """From parameters to places."""
        return from_theta(self.kind, theta - self.origin)

    # ------------------------------------------------------------ cells

    def lay_cells(self, halvings: int = 0) -> None:
        """Cells as wide as observations; each halving divides remainders by 65,536."""
        width = self.width / 2.0**halvings
        least = float(width.min())
        self._root = max(0.5 * (self.high - self.low) * (1.0 + 1e-9), 1e-3 * least)
        self._left = 0.5 * (self.low + self.high) - self._root
        levels = min(max(0, math.ceil(math.log2(self._root / least))), DEEPEST)
        bottom = self._root / 2.0**levels
        level = np.clip(np.floor(np.log2(width / bottom)), 0, levels).astype(np.int64)
        half = np.asarray(bottom * 2.0**level, np.float64)
        first = np.floor((self.modes - REACH * self.reach - self._left) / (2.0 * half))
        last = np.floor((self.modes + REACH * self.reach - self._left) / (2.0 * half))
        most = 2.0 ** (levels - level) - 1.0
        first, last = (np.clip(each, 0.0, most).astype(np.int64) for each in (first, last))
        self._numbers = _find_cells(level, first, last, levels)
        self._offsets = np.concatenate([[0], np.cumsum([len(each) for each in self._numbers])])
        slot = np.empty(self.n, np.int64)
        for each in np.unique(level):
            here = level == each
            slot[here] = self._offsets[each] + np.searchsorted(self._numbers[each], first[here])
        self._touched = Touched(half, first, last - first + 1, slot)
        halves = bottom * 2.0 ** np.arange(levels + 1)
        sizes = [len(each) for each in self._numbers]
        self._half = np.repeat(halves, sizes)
        self._centre = self._left + (2.0 * np.concatenate(self._numbers) + 1.0) * self._half
        u, v = tabulate(self.kind, self._centre[:, None] + self._half[:, None] * NODES)
        # Of nodes, of modes or of theta in units of z, and of products with theta.
        shift = 32.0 * UNIT * (abs(self._left) + np.abs(self._centre) + self._half)
        self._cells = Cells(self._left, u, v, shift)

    # ------------------------------------------------------------ likelihoods

    def likelihood(self, z: Vector, here: slice = slice(None)) -> Matrix:
        """(n, k) likelihoods at places z, as shares of their maxima."""
        return np.exp(log_shares(_some(self.waves, here), tabulate(self.kind, z)))

    def likelihood_of(self, theta: Vector, here: slice = slice(None)) -> Matrix:
        """(n, k) likelihoods of parameters, rounded as `rounding` has it."""
        return np.exp(log_shares(_some(self.told, here), tabulate_theta(self.kind, theta)))

    def mix(self, theta: Vector, mass: Vector) -> Vector:
        """(n,) likelihoods of a mixture of parameters."""
        step = max(1, _BLOCK // len(theta))
        blocks = [slice(first, first + step) for first in range(0, self.n, step)]
        return np.concatenate([self.likelihood_of(theta, here) @ mass for here in blocks])

    def slopes(self, z: Vector, here: slice, out: Matrix) -> None:
        """Likelihoods and their derivatives in z, see `kernels.fill_slopes`."""
        kernels.fill_slopes(_some(self.waves, here), *tabulate(self.kind, z), z, out)

    def rounding(self, f: Vector, terms: int) -> float:
        """Weighted mean of how far the logarithms of likelihoods f, mixed of so many terms, may be off.

        A logarithm -l of a share is off by a few units of l and of the difference of count and
        mean, which is at most 2 l + sqrt(2 x l); both times exp(-l) are concave in that share, so
        that a mixture is off by no more than a term of its own size.
        """
        away = np.maximum(-np.log(np.maximum(f, LEAST)), 0.0)
        return float(self.w @ self.bound_rounding(away)) + gamma(terms + 16)

    def bound_rounding(self, away: Vector | float) -> Vector:
        """(n,) relative rounding of shares exp(-away); of a share of its maximum at 0.4."""
        size = np.full(self.n, 1.0) + 3.0 * away
        if self.kind != NORMAL:
            x, b = self.told[1:]
            size += np.sqrt(2.0 * away * (x if self.kind == POISSON else np.minimum(x, b - x)))
        return SAFE * 48.0 * UNIT * size

    # ------------------------------------------------------------ certificate

    def certify(self, f: Vector, wanted: float = 0.0) -> ContinuumProof:
        """Bound G for likelihoods f; cells are bisected only as far as log G <= `wanted` needs."""
        lost = self.modes[~(f > LEAST)]
        if len(lost):
            return ContinuumProof(math.inf, math.inf, lost, np.full(len(lost), math.inf))
        c = self.w / f
        size = len(self._half)
        values, errors = np.zeros((size, DEGREE + 1)), np.zeros((size, 2))
        kernels.accumulate(self.waves, self._touched, self._cells, c, values, errors)
        errors *= SAFE
        # Sums of positive terms, in order: no node has more than n.
        errors[:, 1] += LEBESGUE * gamma(self.n + 4) * np.abs(values).max(axis=1)
        leaf = self._restrict(values, errors)
        values, errors = values[leaf], errors[leaf]
        maps = make_maps()
        series = values @ maps.chebyshev.T
        coefficients = series @ maps.bernstein.T
        # |T_k| <= 1: what its coefficient lacks does not grow on the way to Bernstein coefficients.
        size = np.abs(values).max(axis=1) * float(np.abs(maps.chebyshev).sum())
        grown = (np.abs(series) @ np.abs(maps.bernstein).T).max(axis=1)
        split = gamma(DEGREE * (DEPTH + 2) + 8) * np.abs(coefficients).max(axis=1)
        errors[:, 1] += SAFE * (gamma(DEGREE + 6) * (size + grown) + split)
        far = SAFE * float(c.sum()) * math.exp(-0.5 * REACH**2)
        errors[:, 0] += far
        upper = kernels.bound_cells(coefficients, errors.sum(axis=1), math.exp(wanted), DEPTH)
        fine = values @ maps.fine.T
        places, heights = self._find_peaks(fine, leaf)
        top, slack = self._log(float(upper.max())), float(errors[upper.argmax(), 1])
        return ContinuumProof(top, float(fine.max()), places, heights, slack)

    def _log(self, upper: float) -> float:
        if not math.isfinite(upper):
            return math.inf
        return math.log(upper / math.fsum(self.w)) + 16.0 * UNIT

    def _restrict(self, values: Matrix, errors: Matrix) -> Ints:
        """Add the polynomials of parents to those of children; the numbers of the leaves."""
        maps = make_maps()
        rows = float(np.abs(maps.left).sum(axis=1).max())
        leaves = []
        for level in range(len(self._numbers) - 1, -1, -1):
            begin = self._offsets[level]
            inner = np.zeros(len(self._numbers[level]), bool)
            if level:
                # Siblings stand together: every second child has another parent.
                parents = np.searchsorted(self._numbers[level], self._numbers[level - 1][::2] >> 1)
                inner[parents] = True
                at, below = begin + parents, self._offsets[level - 1]
                child = below + np.arange(0, 2 * len(parents), 2)
                size = np.abs(values[at]).max(axis=1)
                lost = errors[at]
                lost[:, 1] += LEBESGUE * gamma(DEGREE + 6) * (rows + 1.0) * size
                for half, where in ((maps.left, child), (maps.right, child + 1)):
                    before = np.abs(values[where]).max(axis=1)
                    values[where] += values[at] @ half.T
                    errors[where] += lost
                    errors[where, 1] += LEBESGUE * gamma(2) * before
            leaves.append(begin + np.flatnonzero(~inner))
        return np.concatenate(leaves)

    def _find_peaks(self, fine: Matrix, leaf: Ints) -> tuple[Vector, Vector]:
        order = np.argsort(self._centre[leaf])
        cells = leaf[order]
        z = (self._centre[cells, None] + self._half[cells, None] * FINE_POINTS).ravel()
        step = np.repeat(2.0 * self._half[cells] / FINE, FINE)
        g = fine[order].ravel()
        padded = np.concatenate([[-np.inf], g, [-np.inf]])
        peak = np.flatnonzero((g >= padded[:-2]) & (g > padded[2:]))
        inside = peak[(peak > 0) & (peak < len(g) - 1)]
        curve = np.minimum(g[inside - 1] - 2.0 * g[inside] + g[inside + 1], -_SMALLEST)
        places = z.copy()
        places[inside] += step[inside] * np.clip(0.5 * (g[inside - 1] - g[inside + 1]) / curve, -0.5, 0.5)
        places[0], places[-1] = self.low, self.high
        return np.clip(places[peak], self.low, self.high), np.asarray(g[peak], np.float64)


def _some(waves: Waves, here: slice) -> Waves:
    return Waves(waves.kind, waves.a[here], waves.b[here])


def _find_cells(level: Ints, first: Ints, last: Ints, levels: int) -> list[Ints]:
    """Numbers of the cells of each level: those that are touched, their siblings and ancestors."""
    found: list[Ints] = []
    below = np.empty(0, np.int64)
    for each in range(levels + 1):
        here = level == each
        cells = np.union1d(_join(first[here], last[here]), below >> 1)
        if each < levels:
            cells = np.union1d(cells, cells ^ 1)
        else:
            cells = np.zeros(1, np.int64)
        found.append(cells.astype(np.int64))
        below = cells
    return found


def _join(first: Ints, last: Ints) -> Ints:
    """All whole numbers of some intervals, each once."""
    if len(first) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(first, kind="stable")
    begin, end = first[order], np.maximum.accumulate(last[order])
    new = np.concatenate([[True], begin[1:] > end[:-1] + 1])
    starts = begin[new]
    ends = end[np.concatenate([np.flatnonzero(new)[1:] - 1, [len(end) - 1]])]
    lengths = ends - starts + 1
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.asarray(np.arange(lengths.sum()) + shift)
