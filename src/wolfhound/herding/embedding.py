"""Candidates to pick from, and the target's mean embedding at each of them.

The mean embedding of millions of rows is that of some thousand of them, weighted
so that their random features have the mean of all rows: one pass, nothing kept.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.herding.draw import draw_ids, draw_weighted, take_rows
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.kernels.distances import centre_of
from wolfhound.herding.kernels.features import Features, feature_mean, row_shares
from wolfhound.herding.mmd import kernel_sums, self_sums
from wolfhound.progress import report_rows
from wolfhound.threads import one_blas_thread
from wolfhound.validate import count as whole
from wolfhound.validate import ids as valid_ids
from wolfhound.validate import require

FEATURES = 256
"""Random features that the rows are weighted by."""

BASE = 10_000
"""Rows that stand for the target, at least; a smaller target is taken whole."""

MOST = 20_000
"""Rows that stand for a target that is not taken whole, at most: candidates times these is the work."""

RIDGE = 1e-4
"""Of the mean diagonal: keeps the weights near where they start in directions that features barely see."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding:
    """Candidates, and the target's mean embedding mu at each of them."""

    kernel: Kernel  # with nothing left to choose
    ids: Ids  # (c,) candidates, ascending
    rows: Matrix  # (c, d) as the atoms give them
    ku: Vector  # (c,) <mu, k(c, .)> at the candidates
    base: Matrix  # (r, d) stand for the target: rows, or one if the kernel knows its mean, none if that is 0
    base_ids: Ids  # (r,) ids of these in the target; none if they are not of it
    mass: Vector  # (r,) their calibrated weights, 1 in sum; some may be below 0
    square: float  # |mu|^2
    features: Features | None  # that the mass was calibrated by, if it was
    exact: bool  # whether `ku` and `square` are those of all rows
    passes: float  # over the target
    scored: int  # rows read in passes, and candidates

    def at(self, rows: Matrix) -> Vector:
        """(r,) float64 values <mu, k(x, .)> at other rows."""
        return kernel_sums(self.kernel, rows, self.base, self.mass)


def embed(
    atoms: AtomsLike,
    kernel: Kernel,
    *,
    count: int,
    features: Features | int = FEATURES,
    target: AtomsLike | None = None,
    row_weights: Vector | None = None,
    exclude: Ids | None = None,
    rng: np.random.Generator,
) -> Embedding:
    """Draw `count` candidates and return the target's mean embedding at them; that of the atoms by default.

    A lengthscale that the kernel lacks is chosen from the rows drawn. Rows are weighted by random features,
    these or so many; of `row_weights` only ratios matter. Excluded atoms are no candidates, but count in
    the mean.

    Examples
    --------
    >>> from wolfhound.herding import Linear
    >>> found = embed(np.eye(3), Linear(), count=2, rng=np.random.default_rng(0))
    >>> found.ku.round(3)
    array([0.333, 0.333])
    """
    pool = as_atoms(atoms)
    n, d = pool.shape
    for argument, value in (("target", target), ("row_weights", row_weights)):
        require(value is None or not kernel.centred, argument, "None: the kernel has its own target", "one")
    name, goal = ("atoms", pool) if target is None else ("target", as_atoms(target, "target"))
    require(goal.shape[1] == d, "target", f"rows of {d} columns", f"{goal.shape[1]} columns")
    shares = row_shares(row_weights, goal.shape[0], "row_weights")
    gone = np.empty(0, np.int64) if exclude is None else valid_ids(exclude, "exclude", n)
    require(len(gone) < n, "exclude", "fewer than all atoms", f"all {n}")
    ids = draw_ids(n, whole(count, "count", low=1), gone, rng)
    if isinstance(features, int):
        whole(features, "features", low=1)
    rows = take_rows(pool, ids)
    if kernel.centred:
        return _embed(kernel.fit(rows), ids, rows, _Base(ids[:0], np.ones(0), True), rows[:0])
    known = kernel.mean(goal, shares, name)
    if known is not None:
        base = _Base(ids[:0], np.ones(1), True)
        return _embed(kernel.fit(rows), ids, rows, base, known[None], read=goal.shape[0])
    # Where many ids are left out, candidates are no sample of the target.
    fair = target is None and BASE <= len(ids) <= MOST and 100 * len(gone) <= n
    base = _draw_base(goal, ids if fair else None, max(count, BASE), shares, rng)
    base_rows = rows if base.ids is ids else take_rows(goal, base.ids, name)
    full = kernel.fit(base_rows if target is None else np.concatenate([rows, base_rows]))
    found = None if base.exact else features
    if isinstance(found, int):
        found = full.features(d, found, rng, centre=centre_of(base_rows))
    if found is not None:
        mean = feature_mean(goal, found, weights=shares, name=name)
        base = base._replace(weights=calibrate(found, base_rows, mean, base.weights))
    read = goal.shape[0] if base.exact or found is not None else 0
    inside = ids if base.exact and target is None else None
    return _embed(full, ids, rows, base, base_rows, inside=inside, features=found, read=read)


def _embed(
    kernel: Kernel,
    ids: Ids,
    rows: Matrix,
    base: _Base,
    base_rows: Matrix,
    *,
    inside: Ids | None = None,
    features: Features | None = None,
    read: int = 0,
) -> Embedding:
    """The embedding of what stands for the target; `inside`: the candidates' places in it."""
    mass = base.weights
    everywhere = self_sums(kernel, base_rows, mass)
    if base_rows is rows:
        ku = everywhere
    else:
        ku = kernel_sums(kernel, rows, base_rows, mass) if inside is None else everywhere[inside]
    return Embedding(
        kernel=kernel,
        ids=ids,
        rows=rows,
        ku=ku,
        base=base_rows,
        base_ids=base.ids,
        mass=mass,
        square=float(mass @ everywhere),
        features=features,
        exact=base.exact,
        passes=float(read > 0),
        scored=read + len(ids),
    )


class _Base(NamedTuple):
    """Rows that stand for the target, and their weights; the ids are none if they are not of it."""

    ids: Ids
    weights: Vector
    exact: bool


def _draw_base(
    goal: Atoms, usable: Ids | None, size: int, shares: Vector | None, rng: np.random.Generator
) -> _Base:
    """All rows of a small target; else the candidates if they are usable; else other random rows."""
    n = goal.shape[0]
    if n <= size:
        report_rows(n)
        return _Base(np.arange(n), np.full(n, 1.0 / n) if shares is None else shares, True)
    size = min(size, MOST)
    if shares is None:
        ids = draw_ids(n, size, np.empty(0, np.int64), rng) if usable is None else usable
        return _Base(ids, np.full(len(ids), 1.0 / len(ids)), False)
    if usable is not None:
        start = shares[usable]
        # Rows drawn evenly will do if a quarter of them would carry the weights as well.
        if start.sum() ** 2 >= 0.25 * len(start) * (start @ start) > 0.0:
            return _Base(usable, start / start.sum(), False)
    ids, repeats = np.unique(draw_weighted(shares, size, rng), return_counts=True)
    return _Base(ids, repeats / size, False)


def calibrate(
    features: Features, rows: Matrix, mean: Vector, start: Vector, *, ridge: float = RIDGE
) -> Vector:
    """(r,) weights of rows near `start`, 1 in sum, whose feature mean is nearly `mean`.

    ``a = p (1 + F z)`` with ``(F' P F + ridge tr(F' P F)/D I) z = mean - F' p``, p = `start` (>= 0, 1 in
    sum) and P = diag(p), the constant 1 being the last of the D columns of F.

    Examples
    --------
    >>> from wolfhound.herding import Identity
    >>> rows, half = np.array([[0.0], [1.0]]), np.array([0.5, 0.5])
    >>> calibrate(Identity(1), rows, np.array([0.8]), half).round(3)
    array([0.2, 0.8])
    """
    table = np.ones((len(rows), features.dim_out + 1))
    with one_blas_thread():
        table[:, :-1] = features(rows)
        weighed = table * start[:, None]
        square = weighed.T @ table
        square[np.diag_indices_from(square)] += ridge * np.trace(square) / len(square)
        found = start + weighed @ np.linalg.solve(square, np.append(mean, 1.0) - weighed.sum(axis=0))
    return np.asarray(found / found.sum())
