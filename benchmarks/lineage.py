"""Hashing as it was published: what `LshIndex` is compared with, a few lines each.

Lifts   what becomes of queries and atoms before they are hashed: the paper's raw
        construction, Simple-LSH (Neyshabur and Srebro 2015), L2-ALSH (Shrivastava and Li 2014)
Tables  keys of several hashes each; a query gathers the rows of its own buckets
Probing one table of two cross-polytope hashes, bucket after bucket in the order of
        their promise, for any lifts: what a lift is worth, in atoms
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from reference import Ids, Matrix, Vector
from walks import Walk

from wolfhound.data.atoms import ArrayAtoms, diameter_bound
from wolfhound.paper import theory, transforms

Keys: TypeAlias = NDArray[np.integer[Any]]
Hash: TypeAlias = Callable[[Matrix], Keys]

_BLOCK = 1 << 15


# ---------------------------------------------------------------- lifts


@dataclass(frozen=True, slots=True)
class Lifts:
    """What becomes of queries and atoms before they are hashed.

    Attributes
    ----------
    queries : callable
        ((m, d) queries, (m,) their <q, x>) -> (m, k).
    atoms : callable
        (r, d) -> (r, k).
    dim : int
        k.
    """

    queries: Callable[[Vector, Vector], Vector]
    atoms: Callable[[Matrix], Matrix]
    dim: int


def centred(atoms: Matrix) -> Lifts:
    """Directions from the mean; norms are forgotten."""
    mean = atoms.mean(0, dtype=np.float64)
    return Lifts(lambda queries, here: queries, lambda rows: rows - mean, atoms.shape[1])


def simple(atoms: Matrix) -> Lifts:
    """Simple-LSH: atoms are lifted to the sphere of the longest, queries scaled to 1."""
    radius = _radius(atoms)
    return Lifts(
        lambda queries, here: transforms.sphere_query(queries, _lengths(queries)),
        lambda rows: transforms.sphere_atom(rows, radius),
        atoms.shape[1] + 2,
    )


def l2_alsh(atoms: Matrix, *, reach: float = 0.83, powers: int = 3) -> Lifts:
    """L2-ALSH: [Ux, |Ux|^2, |Ux|^4, |Ux|^8] against [q, 1/2, 1/2, 1/2]."""
    scale = reach / _radius(atoms)

    def lift(rows: Matrix) -> Vector:
        small = rows.astype(np.float64) * scale
        square = np.square(small).sum(1, keepdims=True)
        return np.hstack([small, *(square ** (2**i) for i in range(powers))])

    def ask(queries: Vector, here: Vector) -> Vector:
        return np.hstack([queries / _lengths(queries)[:, None], np.full((len(queries), powers), 0.5)])

    return Lifts(ask, lift, atoms.shape[1] + powers)


def paper(atoms: Matrix, first: float | None) -> Lifts:
    """phi and psi of the paper, in R^(d+3).

    Parameters
    ----------
    atoms
        What will be hashed.
    first
        |grad f(w_0)| on 1/2 |w - t|^2, from which follows one D_x for all queries;
        None: each query has its own norm for D_x.
    """
    diameter, radius = diameter_bound(ArrayAtoms(atoms)), _radius(atoms)
    d_x, d_y = theory.lift_norms(first or 0.0, smoothness=1.0, diameter=diameter, radius=radius)

    def ask(queries: Vector, here: Vector) -> Vector:
        # Of x only <q, x> matters, so a multiple of q will do.
        x = queries * (here / np.square(queries).sum(1))[:, None]
        shifted = transforms.shift_query(x, -queries)
        return transforms.sphere_query(shifted, d_x if first else _lengths(shifted))

    return Lifts(ask, lambda rows: transforms.paper_atom(rows, d_y), atoms.shape[1] + 3)


def _lengths(rows: Vector) -> Vector:
    return np.asarray(np.linalg.norm(rows, axis=1))


def _radius(atoms: Matrix) -> float:
    squares = [float(np.einsum("ij,ij->i", block, block).max()) for block in _blocks(atoms)]
    return math.sqrt(max(squares)) * (1.0 + 1e-5)  # sums in float32


def _blocks(atoms: Matrix) -> list[Matrix]:
    return [atoms[at : at + _BLOCK] for at in range(0, len(atoms), _BLOCK)]


# ---------------------------------------------------------------- tables


def sign_keys(dim: int, *, hashes: int, tables: int, seed: int) -> Hash:
    """SimHash: `hashes` signs of random projections per key."""
    planes = _normal(dim, tables * hashes, seed)
    powers = (1 << np.arange(hashes)).astype(np.int32)

    def keys(rows: Matrix) -> Keys:
        signs = (rows.astype(np.float32) @ planes > 0).reshape(len(rows), tables, hashes)
        # Keys of two bytes are sorted ten times faster.
        return (signs @ powers).T.astype(np.uint16 if hashes <= 16 else np.uint32)

    return keys


def floor_keys(dim: int, *, hashes: int, tables: int, seed: int, width: float = 2.5) -> Hash:
    """The hash of Datar et al. for distances: floor((<a, v> + b) / width), mixed to a key."""
    rng = np.random.default_rng(seed)
    planes = _normal(dim, tables * hashes, seed)
    shifts = rng.uniform(0.0, width, tables * hashes).astype(np.float32)
    odd = (rng.integers(0, 2**31, hashes) * 2 + 1).astype(np.uint32)

    def keys(rows: Matrix) -> Keys:
        cells = np.floor((rows.astype(np.float32) @ planes + shifts) / np.float32(width))
        mixed = cells.astype(np.int32).astype(np.uint32).reshape(len(rows), tables, hashes) * odd
        return np.asarray(np.bitwise_xor.reduce(mixed, axis=2).T)

    return keys


def _normal(dim: int, number: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((dim, number), dtype=np.float32)


class Tables:
    """Classic tables: the rows of the buckets that a query falls into are gathered.

    Parameters
    ----------
    atoms, lifts, keys
        What is hashed, after which lift, by which family.
    tables
        How many are used of those that `keys` makes.
    """

    def __init__(self, atoms: Matrix, lifts: Lifts, keys: Hash) -> None:
        self.atoms, self.lifts, self.keys = atoms, lifts, keys
        made = np.concatenate([keys(lifts.atoms(block)) for block in _blocks(atoms)], axis=1)
        self.order = np.argsort(made, axis=1, kind="stable").astype(np.int32)
        self.sorted = np.take_along_axis(made, self.order, axis=1)

    @property
    def nbytes(self) -> int:
        """Memory beside the atoms."""
        return self.order.nbytes + self.sorted.nbytes

    def buckets(self, queries: Vector, here: Vector) -> tuple[Ids, Ids]:
        """(m, tables) places where the queries' buckets begin and end."""
        asked = self.keys(self.lifts.queries(queries, here))
        ends = [
            [np.searchsorted(mine, key, side=side) for mine, key in zip(self.sorted, asked, strict=True)]
            for side in ("left", "right")
        ]
        low, high = np.array(ends).transpose(0, 2, 1)
        return low, high

    def query(self, queries: Vector, here: Vector, tables: int) -> tuple[Vector, Ids]:
        """Score of the best atom, -inf if the buckets are empty, and how many were scored."""
        low, high = self.buckets(queries, here)
        scores, scored = np.full(len(queries), -np.inf), np.zeros(len(queries), np.int64)
        for i, query in enumerate(queries):
            parts = [self.order[t, low[i, t] : high[i, t]] for t in range(tables)]
            ids = np.unique(np.concatenate(parts))
            scored[i] = len(ids)
            if len(ids):
                scores[i] = (self.atoms[ids] @ query.astype(self.atoms.dtype)).max()
        return scores, scored

    def enough(self, walk: Walk, scores: Matrix, ratio: float) -> tuple[int, float] | None:
        """Tables that reach a mean gap ratio, and the rows that they gather; None if all do not.

        `scores` are (m, n), of all atoms.
        """
        low, high = self.buckets(walk.queries, walk.here)
        best = np.full(low.shape, -np.inf)
        for i, t in np.argwhere(high > low):
            best[i, t] = scores[i, self.order[t, low[i, t] : high[i, t]]].max()
        running = np.maximum.accumulate(np.maximum(best, walk.here[:, None]), axis=1)
        means = ((running - walk.here[:, None]) / (walk.best - walk.here)[:, None]).mean(0)
        reached = np.flatnonzero(means >= ratio)
        if not len(reached):
            return None
        tables = int(reached[0]) + 1
        return tables, float((high - low)[:, :tables].sum(1).mean())


def bucket_bits(n: int, sizes: Sequence[int] = (4096, 1024, 256, 64)) -> list[int]:
    """Signs per key for buckets of about these sizes."""
    return sorted({max(2, round(math.log2(n / size))) for size in sizes if size <= n // 4})


# ---------------------------------------------------------------- probing


class Probing:
    """One table of two cross-polytope hashes of lifted atoms, in buckets.

    The hash of a row is the coordinate axis (with its sign) nearest to it after
    a random rotation; a bucket promises the sum of the query's entries on its two
    axes. In numpy, to count atoms; seconds would mean nothing.

    Parameters
    ----------
    atoms
        What is hashed.
    lifts
        Before hashing.
    size
        Atoms per bucket, on average.
    seed
        Of the rotations.
    """

    def __init__(self, atoms: Matrix, lifts: Lifts, *, size: int = 48, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        axes = min(lifts.dim, max(1, round(math.sqrt(len(atoms) / size) / 2)))
        turns = [np.linalg.qr(rng.standard_normal((lifts.dim, lifts.dim)))[0][:, :axes] for _ in range(2)]
        self.atoms, self.lifts = atoms, lifts
        self.turns = [turn.astype(np.float32) for turn in turns]
        owner = np.concatenate([self._owner(lifts.atoms(block)) for block in _blocks(atoms)])
        self.ids = np.argsort(owner, kind="stable")
        self.filled, self.starts, self.sizes = np.unique(
            owner[self.ids], return_index=True, return_counts=True
        )

    def _owner(self, rows: Matrix) -> Ids:
        single = rows.astype(np.float32)
        first, second = (_signed_argmax(single @ turn) for turn in self.turns)
        return np.asarray(first * (2 * self.turns[1].shape[1]) + second)

    def curve(self, walk: Walk, scores: Matrix, budgets: Ids) -> Vector:
        """Mean gap ratio of the best atom among the first so many, per budget.

        `scores` are (m, n), of all atoms. A bucket may be left before its end: the
        raw construction of the paper has buckets with most of the atoms.
        """
        lifted = self.lifts.queries(walk.queries, walk.here).astype(np.float32)
        total = np.zeros(len(budgets))
        for i in range(len(lifted)):
            first, second = (_both(lifted[i] @ turn) for turn in self.turns)
            promise = (first[:, None] + second[None, :]).ravel()[self.filled]
            tried = np.argsort(-promise, kind="stable")
            ends = np.cumsum(self.sizes[tried])
            # Places of the atoms, bucket after bucket in the order in which they are tried.
            places = np.arange(len(self.ids)) + np.repeat(
                self.starts[tried] - ends + self.sizes[tried], self.sizes[tried]
            )
            best = np.maximum.accumulate(scores[i, self.ids[places[: budgets[-1]]]])
            found = np.maximum(best[budgets - 1], walk.here[i])
            total += (found - walk.here[i]) / (walk.best[i] - walk.here[i])
        return total / len(lifted)


def _signed_argmax(entries: NDArray[np.float32]) -> Ids:
    axis = np.abs(entries).argmax(1)
    negative = np.take_along_axis(entries, axis[:, None], 1)[:, 0] < 0
    return np.asarray(axis + entries.shape[1] * negative)


def _both(entries: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([entries, -entries])
