"""Means of sets of rows in a kernel, the distance between them, the maximum mean discrepancy, and its worth.

``MMD^2 = sum a_i a_j k(x_i, x_j) - 2 sum a_i b_j k(x_i, y_j) + sum b_i b_j k(y_i, y_j)``.
Tiles of kernel values are made, summed in float64 and forgotten. The mean embedding of
millions of rows is that of some thousand of them, weighted so that their random features
have the mean of all rows: one pass, nothing kept. Herds are measured beside random subsets of as many rows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Ints, Matrix, Status, Vector
from wolfhound.core.progress import Cut, on_progress, report_rows, time_solving
from wolfhound.core.rounding import product
from wolfhound.core.threads import map_ordered, one_blas_thread
from wolfhound.core.validate import count as whole
from wolfhound.core.validate import flag, kind, require, row_shares
from wolfhound.core.validate import ids as valid_ids
from wolfhound.data.atoms import ArrayAtoms, as_atoms, block_rows, check_finite, finite_rows
from wolfhound.herding.features import Features, feature_mean
from wolfhound.herding.kernels import Kernel, centre_of, check_kernel, floats

TALL, WIDE = 1024, 512  # rows on either side of a tile: fixed, so that sums have one order
FEATURES = 256  # random features that the rows are weighted by
BASE = 10_000  # rows that stand for the target, at least; a smaller target is taken whole
# Rows that stand for a target that is not taken whole, at most: candidates times these is the work.
MOST = 20_000
FEWEST = 4  # rows that were not used before serve if there are a quarter of those wanted
TOGETHER = 128 << 20  # bytes of random rows that are read at once: files are slow to read in pieces
_SIZES = 24  # points of a curve
_NONE: Ids = np.empty(0, np.int64)
# Of the mean diagonal: keeps the weights near where they start in directions that features barely see.
RIDGE = 1e-4


def draw_ids(n: int, count: int, exclude: Ids, rng: np.random.Generator) -> Ids:
    """Ascending distinct random ids in [0, n), none excluded; all that are left, if not more than `count`."""
    gone = np.sort(exclude)
    left, size = n - len(gone), min(count, n - len(gone))
    ranks = np.sort(rng.choice(left, size, replace=False, shuffle=False)) if size < left else np.arange(left)
    # Rank r is the id r plus the excluded ids before it: as many as have at most r ids left below them.
    return ranks + np.searchsorted(gone - np.arange(len(gone)), ranks, side="right")


def draw_weighted(shares: Vector, count: int, rng: np.random.Generator) -> Ids:
    """Ascending random ids, repeats allowed, each drawn with its share (not exactly 1 in sum)."""
    edges = np.cumsum(shares)
    # An id without a share is never hit: its edge is that of the id before it.
    found = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return np.sort(np.minimum(found, np.flatnonzero(shares)[-1])).astype(np.int64)


def draw_held_out(
    n: int, count: int, used: Ids, shares: Vector | None, rng: np.random.Generator
) -> tuple[Ids, bool]:
    """(random ids, whether none was used before): those used come back where too few others are left.

    Examples
    --------
    >>> draw_held_out(6, 2, np.array([0, 1, 2, 3]), None, np.random.default_rng(0))
    (array([4, 5]), True)
    """
    fresh = FEWEST * (n - len(used)) >= count
    gone = used if fresh else used[:0]
    if shares is None:
        return draw_ids(n, count, gone, rng), fresh
    unused = shares.copy()
    unused[gone] = 0.0
    return draw_weighted(unused if unused.any() else shares, count, rng), fresh


def kernel_sums(
    kernel: Kernel, left: Matrix, right: Matrix, weights: Vector, *, single: bool = True, before: bool = False
) -> Vector:
    """(r,) float64 sums ``sum_j weights_j k(left_i, right_j)``, on our threads.

    `single`: float32 will do; `before`: over j < i only.
    """

    def work(first: int) -> Vector:
        columns = kernel.against(left[first : first + TALL], single=single)
        here = np.arange(first, min(first + TALL, len(left)))
        total = np.zeros(len(here))
        for begin in range(0, int(here[-1]) + 1 if before else len(right), WIDE):
            tile = columns(right[begin : begin + WIDE])
            if before and begin + WIDE > first:
                tile[np.arange(begin, begin + tile.shape[1]) >= here[:, None]] = 0.0
            total += _product(tile, weights[begin : begin + WIDE])
        return total

    found = [np.zeros(0 if len(right) else len(left))]
    for part in map_ordered(work, range(0, len(left) if len(right) else 0, TALL)):
        report_rows(0)  # a deadline is obeyed between the parts
        found.append(part)
    return np.concatenate(found)


def _product(tile: Matrix, weights: Vector) -> Matrix:
    """tile @ weights in the precision of the tile; what is not finite is an error."""
    out: Matrix = product(tile, weights.astype(tile.dtype, copy=False))
    bad = out[~np.isfinite(out)]
    if len(bad):
        why = f"sums of kernel values are {bad[0]}; or mend the kernel"
        raise FloatingPointError(f"`atoms` must be of moderate size: {why}")
    return out


def self_sums(kernel: Kernel, rows: Matrix, weights: Vector, *, single: bool = True) -> Vector:
    """(r,) float64 sums ``sum_j weights_j k(rows_i, rows_j)``: each tile serves twice."""

    def work(first: int) -> tuple[int, Vector]:
        columns = kernel.against(rows[first : first + WIDE], single=single)
        mine = weights[first : first + WIDE]
        out = np.zeros(len(rows) - first)
        for begin in range(first, len(rows), TALL):
            tile = columns(rows[begin : begin + TALL])
            out[:WIDE] += _product(tile, weights[begin : begin + TALL])
            mirrored = _product(tile.T, mine)
            out[max(begin - first, WIDE) : begin - first + TALL] += mirrored[WIDE if begin == first else 0 :]
        return first, out

    total = np.zeros(len(rows))
    for first, part in map_ordered(work, range(0, len(rows), WIDE)):
        report_rows(0)
        total[first:] += part
    return total


# ---------------------------------------------------------------- two sets


def mmd(
    left: AtomsLike,
    right: AtomsLike,
    kernel: Kernel,
    *,
    left_weights: Vector | None = None,
    right_weights: Vector | None = None,
) -> float:
    """Maximum mean discrepancy of two sets of rows, in full: all pairs, in float64.

    Parameters
    ----------
    left, right
        (n, d) and (m, d) rows: atoms, arrays or paths.
    kernel
        Without a lengthscale, one is chosen from rows of both.
    left_weights, right_weights : (n,), (m,), optional
        Weights >= 0; only their ratios matter.

    Returns
    -------
    float
        The distance of the two mean embeddings, not squared.

    Examples
    --------
    >>> from wolfhound.herding import Gaussian, Linear
    >>> round(mmd([[0.0]], [[1.0]], Gaussian(1.0)), 6)
    0.887096
    >>> mmd([[0.0], [1.0]], [[2.0]], Linear())
    1.5
    """
    check_kernel(kernel)
    a, b = as_atoms(left, "left"), as_atoms(right, "right")
    require(a.shape[1] == b.shape[1], "right", f"rows of {a.shape[1]} columns", f"{b.shape[1]} columns")
    wa = row_shares(left_weights, a.shape[0], "left_weights")
    wb = row_shares(right_weights, b.shape[0], "right_weights")
    means = kernel.mean(a, wa, "left"), kernel.mean(b, wb, "right")
    if means[0] is not None and means[1] is not None:
        return Reference.of(means[1][None], kernel, exact=True).mmd(means[0][None])
    # A lengthscale that is lacking is that of at most 500 rows of each, at equal distances.
    some = [
        finite_rows(atoms, np.linspace(0, n - 1, min(n, 500)).round().astype(np.int64), name)
        for atoms, n, name in ((a, a.shape[0], "left"), (b, b.shape[0], "right"))
    ]
    full = kernel.fit(np.concatenate(some))
    wa, wb = _or_equal(wa, a.shape[0]), _or_equal(wb, b.shape[0])
    between = 0.0
    for here, block in _blocks(a):
        for there, other in _blocks(b):
            between += float(wa[here] @ kernel_sums(full, block, other, wb[there], single=False))
    square = _within(full, a, wa, "left") - 2.0 * between + _within(full, b, wb, "right")
    return math.sqrt(max(square, 0.0))


def _or_equal(shares: Vector | None, n: int) -> Vector:
    return np.full(n, 1.0 / n) if shares is None else shares


def _blocks(atoms: Atoms) -> Iterator[tuple[slice, Matrix]]:
    for first, block in atoms.blocks(block_rows(atoms)):
        yield slice(first, first + len(block)), block.astype(np.float64, copy=False)


def _within(kernel: Kernel, atoms: Atoms, weights: Vector, name: str) -> float:
    """Sum of the kernel over all pairs of one set, weighted."""
    total = 0.0
    for here, block in _blocks(atoms):
        check_finite(block, here.start, name)
        total += float(weights[here] @ self_sums(kernel, block, weights[here], single=False))
        for there, other in _blocks(atoms):
            if there.start > here.start:
                sums = kernel_sums(kernel, block, other, weights[there], single=False)
                total += 2.0 * float(weights[here] @ sums)
    return total


# ---------------------------------------------------------------- many subsets, one target


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Rows held out to measure how well subsets stand for the target.

    The squared MMD of a subset and what the rows are drawn from is estimated
    without bias: pairs of a held-out row with itself are left out. If the rows
    are the whole target (`exact`), these pairs count and the MMD is that of `mmd`.
    Make one by `of` or `draw`.

    Attributes
    ----------
    rows : (r, d)
        Held-out rows; none for a kernel whose mean embedding is 0.
    kernel : Kernel
        With nothing left to choose.
    weights : (r,)
        Their weights, 1 in sum.
    square : float
        The (estimated) squared norm of the target's mean embedding.
    exact : bool
        Whether nothing is estimated.
    origin : (d,), optional
        What was taken from the rows, where the kernel knows its mean.
    """

    rows: Matrix
    kernel: Kernel
    weights: Vector
    square: float
    exact: bool
    origin: Vector | None = None

    @classmethod
    def of(
        cls, rows: Matrix, kernel: Kernel, *, weights: Vector | None = None, exact: bool = False
    ) -> Reference:
        """Return the reference of these rows.

        Parameters
        ----------
        rows : (r, d)
            A random sample of the target, or (`exact`) all of it.
        kernel
            Without a lengthscale, one is chosen from the rows.
        weights : (r,), optional
            Weights >= 0; only their ratios matter.
        exact
            The rows are the whole target.

        Examples
        --------
        >>> from wolfhound.herding import Gaussian
        >>> rows = np.array([[0.0], [1.0], [2.0]])
        >>> Reference.of(rows, Gaussian(1.0), exact=True).mmd(rows)
        0.0
        """
        check_kernel(kernel)
        table = floats(rows)
        require(table.ndim == 2, "rows", "an array with 2 axes", f"shape {table.shape}")
        full = kernel.fit(table)
        if full.centred:
            return cls(table[:0], full, np.empty(0), 0.0, True)
        flag(exact, "exact")
        require(len(table) > (0 if exact else 1), "rows", "two rows or more", len(table))
        check_finite(table, 0, "rows")
        shares = _or_equal(row_shares(weights, len(table)), len(table))
        # Where the mean is a row a shift changes no distance; far from 0 it saves digits.
        origin = full.mean(ArrayAtoms(table), shares, "rows")
        placed = table if origin is None else table - origin
        square = float(shares @ self_sums(full, placed, shares))
        if not exact:
            own = shares * shares
            require(bool(own.sum() < 1.0), "weights", "above 0 for two rows or more", "one")
            square = (square - float(own @ full.diagonal(placed))) / (1.0 - float(own.sum()))
        return cls(placed, full, shares, square, exact, origin)

    @classmethod
    def draw(
        cls,
        atoms: AtomsLike,
        kernel: Kernel,
        *,
        count: int = 10_000,
        row_weights: Vector | None = None,
        exclude: Ids | None = None,
        rng: np.random.Generator,
    ) -> Reference:
        """Return a reference of random rows, or of all if these are at most ``2 * count``.

        Parameters
        ----------
        atoms
            The target: atoms, an array or a path.
        kernel
            Without a lengthscale, one is chosen from the rows.
        count
            Rows to hold out.
        row_weights : (n,), optional
            Weights >= 0 of the target's rows; rows are then drawn by them.
        exclude : (e,) int64, optional
            Rows that were used for picking. Left out, unless fewer than a quarter of
            `count` are left.
        rng
            Draws the rows.

        Examples
        --------
        >>> from wolfhound.herding import Gaussian
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
        >>> Reference.draw(rows, Gaussian(), count=100, rng=np.random.default_rng(1)).rows.shape
        (100, 2)
        """
        check_kernel(kernel)
        kind(rng, "rng", "a numpy.random.Generator", np.random.Generator)
        target = as_atoms(atoms)
        n = target.shape[0]
        shares = row_shares(row_weights, n, "row_weights")
        whole(count, "count", low=2)
        if n <= 2 * count:
            return cls.of(finite_rows(target, np.arange(n)), kernel, weights=shares, exact=True)
        used = np.empty(0, np.int64) if exclude is None else valid_ids(exclude, "exclude", n)
        return cls.of(finite_rows(target, draw_held_out(n, count, used, shares, rng)[0]), kernel)

    def at(self, rows: Matrix) -> Vector:
        """(m,) values of the target's (estimated) mean embedding at the rows."""
        return self._at(self._place(rows))

    def mmd(self, rows: Matrix, weights: Vector | None = None) -> float:
        """MMD of weighted rows and the target, not squared; 0 if the estimate is below.

        Parameters
        ----------
        rows : (m, d)
        weights : (m,), optional
            Weights >= 0; only their ratios matter.
        """
        placed = self._place(rows)
        shares = _or_equal(row_shares(weights, len(placed)), len(placed))
        own = float(shares @ self_sums(self.kernel, placed, shares))
        return math.sqrt(max(own - 2.0 * float(shares @ self._at(placed)) + self.square, 0.0))

    def curve(self, rows: Matrix) -> Vector:
        """(m,) values of `mmd` of the first 1, 2, ..., m rows, with equal weights."""
        placed = self._place(rows)
        before = kernel_sums(self.kernel, placed, placed, np.ones(len(placed)), before=True)
        pairs = np.cumsum(2.0 * before + self.kernel.diagonal(placed))
        sizes = np.arange(1, len(placed) + 1)
        squares = pairs / sizes**2 - 2.0 * np.cumsum(self._at(placed)) / sizes + self.square
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def _place(self, rows: Matrix) -> Matrix:
        table = floats(rows)
        width = self.rows.shape[1]
        fits = table.ndim == 2 and len(table) > 0 and table.shape[1] == width
        require(fits, "rows", f"at least one row of {width} columns", f"shape {table.shape}")
        return table if self.origin is None else table - self.origin

    def _at(self, placed: Matrix) -> Vector:
        return kernel_sums(self.kernel, placed, self.rows, self.weights)


# ---------------------------------------------------------------- the mean of a target at candidates


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding:
    """Candidates, and the target's mean embedding mu at each of them."""

    ids: Ids  # (c,) candidates, ascending
    rows: Matrix  # (c, d) as the atoms give them
    ku: Vector  # (c,) <mu, k(c, .)> at the candidates
    # Stands for the target: rows with calibrated weights, some maybe below 0, or one row if the kernel knows
    # the mean, none if that is 0; exact if `ku` is that of all rows.
    mean: Reference
    base_ids: Ids  # (r,) ids of these rows in the target; none if they are not of it
    features: Features | None  # that the weights were calibrated by, if they were
    read: int  # rows of the target that a pass read

    @property
    def passes(self) -> float:
        """Passes over the target."""
        return float(self.read > 0)

    @property
    def scored(self) -> int:
        """Rows read in passes, and candidates."""
        return self.read + len(self.ids)

    def at(self, rows: Matrix) -> Vector:
        """(r,) float64 values <mu, k(x, .)> at other rows."""
        return kernel_sums(self.mean.kernel, rows, self.mean.rows, self.mean.weights)


def embed(
    atoms: AtomsLike,
    kernel: Kernel,
    *,
    count: int,
    features: Features | int = FEATURES,
    target: AtomsLike | None = None,
    row_weights: Vector | None = None,
    exclude: Ids = _NONE,
    rng: np.random.Generator,
) -> Embedding:
    """Draw `count` candidates and return the target's mean embedding at them; that of the atoms by default.

    A lengthscale that the kernel lacks is chosen from the rows drawn. Rows are weighted by random features,
    these or so many; of `row_weights` only ratios matter. Excluded atoms are no candidates, but count in
    the mean. Arguments are checked by `herd`.
    """
    pool = as_atoms(atoms)
    n, d = pool.shape
    name, goal = ("atoms", pool) if target is None else ("target", as_atoms(target, "target"))
    shares = row_shares(row_weights, goal.shape[0], "row_weights")
    ids = draw_ids(n, count, exclude, rng)
    rows = finite_rows(pool, ids)
    # What stands for the target: nothing if its mean is 0, one row if the kernel knows it, else rows of it.
    base_ids, exact, found = ids[:0], True, None
    if kernel.centred:
        full, base, mass = kernel.fit(rows), rows[:0], np.ones(0)
    elif (known := kernel.mean(goal, shares, name)) is not None:
        full, base, mass = kernel.fit(rows), known[None], np.ones(1)
    else:
        # Where many ids are left out, candidates are no sample of the target.
        fair = target is None and BASE <= len(ids) <= MOST and 100 * len(exclude) <= n
        base_ids, mass, exact = _draw_base(goal, ids if fair else None, max(count, BASE), shares, rng)
        base = rows if base_ids is ids else finite_rows(goal, base_ids, name)
        full = kernel.fit(base if target is None else np.concatenate([rows, base]))
        if not exact:
            centre = centre_of(base)
            found = full.features(d, features, rng, centre=centre) if isinstance(features, int) else features
        if found is not None:
            mass = calibrate(found, base, feature_mean(goal, found, weights=shares, name=name), mass)
    everywhere = self_sums(full, base, mass)
    if exact and target is None and len(base_ids):
        ku = everywhere[ids]  # all rows stand for themselves
    else:
        ku = everywhere if base is rows else kernel_sums(full, rows, base, mass)
    return Embedding(
        ids=ids,
        rows=rows,
        ku=ku,
        mean=Reference(base, full, mass, float(mass @ everywhere), exact),
        base_ids=base_ids,
        features=found,
        read=goal.shape[0] if (exact and not kernel.centred) or found is not None else 0,
    )


def _draw_base(
    goal: Atoms, usable: Ids | None, size: int, shares: Vector | None, rng: np.random.Generator
) -> tuple[Ids, Vector, bool]:
    """Ids that stand for the target, their weights, and whether they are all.

    All rows of a small target; else the candidates if they are usable; else other random rows.
    """
    n = goal.shape[0]
    if n <= size:
        report_rows(n)
        return np.arange(n), _or_equal(shares, n), True
    size = min(size, MOST)
    if shares is None:
        ids = draw_ids(n, size, _NONE, rng) if usable is None else usable
        return ids, _or_equal(None, len(ids)), False
    if usable is not None:
        start = shares[usable]
        # Rows drawn evenly will do if a quarter of them would carry the weights as well.
        if start.sum() ** 2 >= 0.25 * len(start) * (start @ start) > 0.0:
            return usable, start / start.sum(), False
    ids, repeats = np.unique(draw_weighted(shares, size, rng), return_counts=True)
    return ids, repeats / size, False


def calibrate(
    features: Features, rows: Matrix, mean: Vector, start: Vector, *, ridge: float = RIDGE
) -> Vector:
    """(r,) weights of rows near `start`, 1 in sum, whose feature mean is nearly `mean`.

    ``a = p (1 + F z)`` with ``(F' P F + ridge tr(F' P F)/D I) z = mean - F' p``, p = `start` (>= 0, 1 in
    sum) and P = diag(p), the constant 1 being the last of the D columns of F.
    """
    table = np.ones((len(rows), features.dim_out + 1))
    with one_blas_thread():
        table[:, :-1] = features(rows)
        weighed = table * start[:, None]
        square = weighed.T @ table
        square[np.diag_indices_from(square)] += ridge * np.trace(square) / len(square)
        found = start + weighed @ np.linalg.solve(square, np.append(mean, 1.0) - weighed.sum(axis=0))
    return np.asarray(found / found.sum())


# ---------------------------------------------------------------- how good a herd is


class Curve(NamedTuple):
    """MMD of the first atoms, and the mean of random subsets of as many, on the data of the result's `mmd`.

    Atoms are equally weighted (within a label), also where the result's weights were fitted.
    """

    sizes: Ints  # (s,) numbers of atoms
    mmd: Vector
    random: Vector


class Quality(NamedTuple):
    """What an evaluation found, nothing by default; the fields of `HerdResult` of the same names."""

    reference: str
    evaluation_seconds: float = 0.0
    mmd: float = math.nan
    mmd_random: float = math.nan
    mmd_random_spread: float = math.nan
    mmd_by: Vector | None = None
    curve: Curve = Curve(_NONE, np.empty(0), np.empty(0))


class Measured(NamedTuple):
    """A herd that was measured, and how others are."""

    words: str  # what it was measured on
    mmd: float  # of all atoms with their weights
    curve: Vector  # (s,) of the first atoms, equally weighted; nan: not known
    mmd_by: Vector | None  # within each label
    ruler: Callable[[Matrix], Vector]  # (k, d) rows in random order -> (s,) MMD of the first of them


def effort(m: int) -> int:
    """Random subsets to measure: fewer for large m, to take less time than the picks."""
    return 10 if m <= 2000 else 5 if m <= 10_000 else 3


def curve_sizes(m: int) -> Ints:
    """Up to 24 sizes from 1 to m, evenly spread on a log scale."""
    if m <= _SIZES:
        return np.arange(1, m + 1)
    return np.unique(np.geomspace(1, m, _SIZES).round().astype(np.int64))


def evaluate(
    atoms: Atoms,
    k: int,
    exclude: Ids,
    measure: Callable[[Ints, np.random.Generator], Measured] | None,
    *,
    rng: np.random.Generator,
    deadline: float,
) -> Quality:
    """Measure a herd of k atoms, then random subsets of as many; both are without the excluded.

    At the deadline, of ``time.perf_counter()``, or at Ctrl-C, it says what is known by then; without a
    measure, that nothing is.
    """
    if measure is None:
        return Quality("nothing: evaluate=False")
    began = time.perf_counter()
    sizes, draws = curve_sizes(k), effort(k)
    mine: Measured | None = None
    others: list[Vector] = []
    why = ""

    def watch(_: int) -> None:
        if time.perf_counter() > deadline:
            raise Cut(Status.MAX_SECONDS)

    try:
        with one_blas_thread(), on_progress(watch):
            report_rows(0)
            mine = measure(sizes, rng)
            for rows in _draw_subsets(atoms, k, exclude, draws, rng):
                others.append(mine.ruler(rows))
                report_rows(0)
    except (Cut, KeyboardInterrupt) as error:
        why = "`max_seconds` was over" if isinstance(error, Cut) else "stopped by Ctrl-C"
    seconds = time_solving(began)
    if mine is None:
        return Quality(f"nothing: {why}", seconds)
    random = np.array(others).reshape(len(others), len(sizes))
    few = "" if len(others) == draws else f" of {draws}: {why}"
    known = ~np.isnan(mine.curve)
    mean = random.mean(axis=0) if others else np.full(len(sizes), math.nan)
    return Quality(
        mmd=mine.mmd,
        mmd_random=float(random[:, -1].mean()) if others else math.nan,
        mmd_random_spread=float(random[:, -1].std(ddof=1)) if len(others) > 1 else math.nan,
        mmd_by=mine.mmd_by,
        reference=f"{mine.words}; {len(others)} random subsets{few}",
        evaluation_seconds=seconds,
        curve=Curve(sizes[known], mine.curve[known], mean[known]),
    )


def _draw_subsets(
    atoms: Atoms, m: int, exclude: Ids, draws: int, rng: np.random.Generator
) -> Iterator[Matrix]:
    """Yield the rows of random subsets, in random order."""
    n, d = atoms.shape
    wanted = [rng.permutation(draw_ids(n, m, exclude, rng)) for _ in range(draws)]
    together = max(1, TOGETHER // (m * d * atoms.dtype.itemsize))
    for first in range(0, draws, together):
        some = wanted[first : first + together]
        rows = finite_rows(atoms, np.concatenate(some))
        yield from np.split(rows, np.cumsum([len(ids) for ids in some])[:-1])
