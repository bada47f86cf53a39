"""The certificate over the continuum: an upper bound on G(theta) = sum_j w_j p_j(theta) / f_j.

For any positive f: max over all mixing distributions of sum_j w_j log(h_j / f_j) <= log max G.
Cells halve from one root; an observation touches cells as wide as itself and near it, where
its likelihood is interpolated with a remainder in closed form; polynomials of wide cells
are restricted to the narrow ones that stand in them, and bounded on the leaves.

Each likelihood is divided by its maximum and written in a variable z in which its width is
constant: Normal theta = z, Poisson theta = z^2, Binomial theta = sin(z)^2. A logarithm is a sum
of terms of one sign, each of the difference to the mode: x log(mean) - mean would lose all digits
of counts of 1e12. A place is told by u = theta and v = 1 - theta.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from wolfhound.compiled.jit import kernel
from wolfhound.core.contracts import Ints, Matrix, Vector
from wolfhound.core.rounding import SAFE, UNIT, gamma

NORMAL, POISSON, BINOMIAL = 0, 1, 2
DEGREE = 15  # degree of the interpolants
LEBESGUE = 2.8  # more than the Lebesgue constant of the Chebyshev nodes, 2/pi log(16) + 1 = 2.77 at most
REACH = 8.5  # beyond so many s an observation is bounded by its envelope exp(-REACH^2 / 2)
# Cramer's constant over 2^K sqrt((K+1)!): |He_k(t)| exp(-t^2/4) <= 1.0864354 sqrt(k!).
CRAMER = 1.0864354 * math.exp(-0.5 * math.lgamma(DEGREE + 2) - DEGREE * math.log(2.0))
# Rounding of a likelihood within reach of a cell, as a share of its maximum, its place being exact.
ROUNDED = 8.0 * UNIT * 0.5 * (REACH + 2.0) ** 2 + 64.0 * UNIT
CLOSE = 1e-14  # a bound so near a value that is attained needs no bisection
# 1/37, ..., 1/5, 1/3: of atanh; the rest is below 1e-18 where it is used.
SERIES = np.array([1.0 / (2.0 * k + 3.0) for k in range(17, -1, -1)])
FINE = 24  # points of a cell at which local maxima are looked for
FINE_POINTS = (np.arange(FINE) + 0.5) / FINE * 2.0 - 1.0
# (16,) of [-1, 1], increasing; as float64 numbers, from which all maps between them are made.
NODES = np.cos((2.0 * np.arange(DEGREE, -1, -1) + 1.0) * np.pi / (2.0 * DEGREE + 2.0))
DEEPEST = 48  # most levels of cells: deeper ones would have numbers that float64 does not hold
DEPTH = 20  # most bisections of a leaf
LEAST = 1e-280  # where a mixture's likelihood is smaller, nothing is proved
_SMALLEST = 1e-300
_BLOCK = 1 << 20
_BITS = 60


# ---------------------------------------------------------------- the proof


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
    fill(waves, u, v, out)
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
        """Likelihoods and their derivatives in z, see `fill_slopes`."""
        fill_slopes(_some(self.waves, here), *tabulate(self.kind, z), z, out)

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

    def prove(
        self, theta: Vector, mass: Vector, wanted: float = 0.0
    ) -> tuple[Vector, float, float, ContinuumProof]:
        """Likelihoods f of a mixture, its gap over the continuum, what of that is rounding, and G."""
        f = self.mix(theta, mass)
        found, lost = self.certify(f, wanted), self.rounding(f, len(theta))
        return f, max(found.upper + lost, 0.0), found.slack + lost, found

    def certify(self, f: Vector, wanted: float = 0.0) -> ContinuumProof:
        """Bound G for likelihoods f; cells are bisected only as far as log G <= `wanted` needs."""
        lost = self.modes[~(f > LEAST)]
        if len(lost):
            return ContinuumProof(math.inf, math.inf, lost, np.full(len(lost), math.inf))
        c = self.w / f
        size = len(self._half)
        values, errors = np.zeros((size, DEGREE + 1)), np.zeros((size, 2))
        accumulate(self.waves, self._touched, self._cells, c, values, errors)
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
        upper = bound_cells(coefficients, errors.sum(axis=1), math.exp(wanted), DEPTH)
        fine = values @ maps.fine.T
        places, heights = self._find_peaks(fine, leaf)
        top, slack = float(upper.max()), float(errors[upper.argmax(), 1])
        top = math.log(top / math.fsum(self.w)) + 16.0 * UNIT if math.isfinite(top) else math.inf
        return ContinuumProof(top, float(fine.max()), places, heights, slack)

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
        below = np.union1d(cells, cells ^ 1).astype(np.int64) if each < levels else np.zeros(1, np.int64)
        found.append(below)
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


# ---------------------------------------------------------------- polynomials by their values at the nodes


class Maps(NamedTuple):
    """Linear maps of the values at the nodes."""

    left: Vector  # (16, 16) to the values at the nodes of either half
    right: Vector
    chebyshev: Vector  # (16, 16) to coefficients of Chebyshev polynomials
    bernstein: Vector  # from these to Bernstein's: at once, values would lose four digits more
    fine: Vector  # (FINE, 16) to values at `FINE_POINTS`


@functools.cache
def make_maps() -> Maps:
    """Make the maps from the exact nodes, in integers that are rounded once: entries are off by one unit."""
    size, comb = DEGREE + 1, math.comb
    # Nodes of [0, 1] as whole multiples of 1 / whole.
    one, whole = 1 << _BITS, 1 << (_BITS + 1)
    roots, places = ([one + int(each * one) for each in some.tolist()] for some in (NODES, FINE_POINTS))
    left, right, fine, chebyshev, bernstein = (np.empty((n, size)) for n in (size, size, FINE, size, size))
    for i in range(size):
        others = [root for j, root in enumerate(roots) if j != i]
        below = math.prod(roots[i] - root for root in others)
        for q, node in enumerate(roots):
            left[q, i] = math.prod(node - 2 * root for root in others) / (below << DEGREE)
            right[q, i] = math.prod(whole + node - 2 * root for root in others) / (below << DEGREE)
        for q, place in enumerate(places):
            fine[q, i] = math.prod(place - root for root in others) / below
        # In t of [-1, 1]: the product of whole t - (2 root - whole), lowest power first, ...
        powers = [1]
        for root in others:
            shifted = zip([0, *(whole * each for each in powers)], [*powers, 0], strict=True)
            powers = [up - (2 * root - whole) * low for up, low in shifted]
        # ... and t^p = 2^(1-p) sum_k comb(p, (p-k)/2) T_k, half of it for k = 0.
        for k in range(size):
            terms = (comb(p, (p - k) // 2) * (powers[p] << (DEGREE - p)) for p in range(k, size, 2))
            chebyshev[k, i] = sum(terms) * (1 if k else 0.5) * 2 / (below << (2 * DEGREE))
    for k in range(size):  # Bernstein coefficients of T_0 .. T_15 as columns
        signed = [(-1) ** (k - i) * comb(2 * k, 2 * i) for i in range(k + 1)]
        for p in range(size):
            inside = range(max(0, p - DEGREE + k), min(k, p) + 1)
            bernstein[p, k] = sum(signed[i] * comb(DEGREE - k, p - i) for i in inside) / comb(DEGREE, p)
    return Maps(left, right, chebyshev, bernstein, fine)


# ---------------------------------------------------------------- compiled


class Waves(NamedTuple):
    """Observations, as the kernels see them; (n,) each.

    a, b: x and sigma, x and exposure, x and trials.
    """

    kind: int
    a: Vector
    b: Vector


class Touched(NamedTuple):
    """The cells that observations touch; (n,) each.

    half: half-width of the cells; first: number of the first; many: how many; slot: where
    the first stands among all cells.
    """

    half: Vector
    first: Ints
    many: Ints
    slot: Ints


class Cells(NamedTuple):
    """All cells: (cells, 16) values u, v at the nodes, and (cells,) how far these may be off in z."""

    low: float
    u: Matrix
    v: Matrix
    shift: Vector


@kernel
def miss(x: float, more: float, ratio: float) -> float:
    """x log(ratio) - more, where ratio = 1 + more / x: never positive, and of full relative precision."""
    if x == 0.0:
        return -more
    r = more / x
    if abs(r) > 0.5:
        return float(x * (np.log(ratio) - r))
    # log(1 + r) = 2 atanh(s); 2 s - r = -r s
    s = r / (2.0 + r)
    t = s * s
    total = 0.0
    for k in range(len(SERIES)):
        total = total * t + SERIES[k]
    return -x * s * (r - 2.0 * t * total)


@kernel
def evaluate(kind: int, a: float, b: float, u: float, v: float) -> float:
    """Logarithm of one likelihood, as a share of its maximum."""
    if kind == NORMAL:
        t = (u - a) / b
        return -0.5 * t * t
    # 1 - theta has its own digits where theta is near 1.
    more = u * b - a if kind == POISSON or u <= 0.5 else (b - a) - v * b
    if kind == POISSON:
        return miss(a, more, u * b / a)
    return miss(a, more, u * b / a) + miss(b - a, -more, v * b / (b - a))


@kernel
def fill(waves: Waves, u: Vector, v: Vector, out: Matrix) -> None:
    """Logarithms of the likelihoods of all observations (rows) at all places (columns)."""
    for j in range(len(waves.a)):
        for k in range(len(u)):
            out[j, k] = evaluate(waves.kind, waves.a[j], waves.b[j], u[k], v[k])


@kernel
def bound_remainder(kind: int, a: float, b: float, c: float, h: float) -> float:
    """Upper bound on |p - interpolant| on [c - h, c + h].

    Normal: h^(K+1) / (2^K (K+1)!) max|p^(K+1)|, by Cramer's inequality. Others: 4 M r^-K / (r-1)
    with M the maximum of |p| on a box around the Bernstein ellipse of parameter r.
    """
    if kind == NORMAL:
        d = max(abs(c - a) - h, 0.0) / b
        return CRAMER * (h / b) ** (DEGREE + 1) * math.exp(-0.25 * d * d)
    r = max(2.0 * math.sqrt(DEGREE) * 0.5 / (math.sqrt(b) * h), 1.5)
    wide, tall = 0.5 * (r + 1.0 / r) * h, 0.5 * (r - 1.0 / r) * h
    lo, hi = c - wide, c + wide
    if kind == POISSON:
        # |z^2x e^-bz^2| = (R + I)^x e^-b(R - I), R = Re^2, I = Im^2
        square = tall * tall
        least = 0.0 if lo <= 0.0 <= hi else min(lo * lo, hi * hi)
        R = min(max(a / b - square, least), max(lo * lo, hi * hi))
        more = (R + square) * b - a
        e = 2.0 * b * square + miss(a, more, (R + square) * b / a)
    else:
        # |sin z|^2 = sin^2 Re + sinh^2 Im, |cos z|^2 = cos^2 Re + sinh^2 Im
        square = math.sinh(tall) ** 2
        C = 1.0 + 2.0 * square
        across = math.floor(lo / math.pi) != math.floor(hi / math.pi)
        over = math.floor(lo / math.pi + 0.5) != math.floor(hi / math.pi + 0.5)
        s0, s1, c0, c1 = math.sin(lo) ** 2, math.sin(hi) ** 2, math.cos(lo) ** 2, math.cos(hi) ** 2
        S = min(max(C * a / b - square, 0.0 if across else min(s0, s1)), 1.0 if over else max(s0, s1))
        K = min(max(C * (b - a) / b - square, 0.0 if over else min(c0, c1)), 1.0 if across else max(c0, c1))
        S, K = (S + square) * b, (K + square) * b
        e = 2.0 * b * square + miss(a, S - a, S / a) + miss(b - a, K - (b - a), K / (b - a))
    return 4.0 * math.exp(min(e, 600.0) - DEGREE * math.log(r)) / (r - 1.0)


@kernel
def accumulate(
    waves: Waves, touched: Touched, cells: Cells, c: Vector, values: Matrix, errors: Matrix
) -> None:
    """values[cell] += c_j p_j(nodes), errors[cell] += what p_j's interpolant may lack, and its rounding."""
    for j in range(len(c)):
        h, a, b = touched.half[j], waves.a[j], waves.b[j]
        s = b if waves.kind == NORMAL else 0.5 / math.sqrt(b)
        for i in range(touched.many[j]):
            at = touched.slot[j] + i
            centre = cells.low + (2.0 * (touched.first[j] + i) + 1.0) * h
            row, u, v = values[at], cells.u[at], cells.v[at]
            for k in range(len(row)):
                row[k] += c[j] * math.exp(evaluate(waves.kind, a, b, u[k], v[k]))
            errors[at, 0] += c[j] * bound_remainder(waves.kind, a, b, centre, h)
            # A node is off by `shift` at most, and no likelihood is steeper than 1/s.
            errors[at, 1] += c[j] * LEBESGUE * (ROUNDED + cells.shift[at] / s)


@kernel
def bound_cells(coefficients: Matrix, errors: Vector, wanted: float, depth: int) -> Vector:
    """Upper bounds of polynomials on their cells, by Bernstein coefficients.

    A cell is bisected while its bound is above `wanted` and not close to an attained value.
    (Loops, not array expressions: three of those took half of what `npmle` compiles.)
    """
    n, m = coefficients.shape
    stack = np.empty((depth + 2, m))
    level = np.empty(depth + 2, np.int64)
    out = np.empty(n)
    q = np.empty(m)
    for i in range(n):
        for k in range(m):
            stack[0, k] = coefficients[i, k]
        level[0] = 0
        top = 1
        best = -np.inf
        while top:
            top -= 1
            d = level[top]
            most = -np.inf
            for k in range(m):
                q[k] = stack[top, k]
                most = max(most, q[k])
            ends = max(q[0], q[m - 1])
            if most <= max(best, wanted - errors[i]) or most - ends < CLOSE or d == depth:
                best = max(best, most)
                continue
            # De Casteljau: control points of both halves.
            for k in range(m):
                stack[top, k] = q[0]
                stack[top + 1, m - 1 - k] = q[m - 1 - k]
                for t in range(m - 1 - k):
                    q[t] = 0.5 * (q[t] + q[t + 1])
            level[top] = d + 1
            level[top + 1] = d + 1
            top += 2
        out[i] = best + errors[i]
    return out


@kernel
def fill_slopes(waves: Waves, u: Vector, v: Vector, z: Vector, out: Matrix) -> None:
    """p, p', p'' in z of all observations: columns 0..k-1, k..2k-1, 2k..3k-1."""
    m = len(z)
    for j in range(len(waves.a)):
        a, b = waves.a[j], waves.b[j]
        for k in range(m):
            y = math.exp(evaluate(waves.kind, a, b, u[k], v[k]))
            first = 0.0
            second = 0.0
            if waves.kind == NORMAL:
                first = (a - z[k]) / (b * b)
                second = -1.0 / (b * b)
            elif y > 0.0 and waves.kind == POISSON:
                first = -2.0 * (u[k] * b - a) / z[k] if a > 0.0 else -2.0 * b * z[k]
                second = -2.0 * (b + (a / u[k] if a > 0.0 else 0.0))
            elif y > 0.0:
                more = u[k] * b - a if u[k] <= 0.5 else (b - a) - v[k] * b
                both = math.sqrt(u[k] * v[k])
                first = -2.0 * more / both if both > 0.0 else 0.0
                second = -2.0 * ((a / u[k] if a > 0.0 else 0.0) + ((b - a) / v[k] if b > a else 0.0))
            out[j, k] = y
            out[j, m + k] = y * first
            out[j, 2 * m + k] = y * (first * first + second)
