"""Features of rows whose inner products are a kernel, and their mean over a set.

Knows nothing of picking rows. Features are made block by block and never kept.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core.contracts import AtomsLike, Matrix, Vector
from wolfhound.core.rounding import product
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import count, kind, matrix, require, row_shares, singles, vector
from wolfhound.data.atoms import as_atoms, map_blocks

CHUNK = 1024  # rows whose features are made together: they stay in the cache until they are summed


class Features(Protocol):
    """A map of rows to R^D, row by row; serves as the `fn` of `MappedAtoms`."""

    @property
    def dim_out(self) -> int:
        """D."""

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, D) features of (r, d) rows."""


@final
@dataclass(frozen=True, slots=True)
class Identity:
    """The rows themselves, in float64: exact features of the linear kernel.

    Parameters
    ----------
    dim_out
        d, of the rows.

    Examples
    --------
    >>> Identity(2)(np.ones((1, 2), np.float32))
    array([[1., 1.]])
    """

    dim_out: int

    def __post_init__(self) -> None:
        count(self.dim_out, "dim_out", low=1)

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, d) rows in float64."""
        return np.asarray(rows, np.float64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RandomFourier:
    """Cosines and sines of random frequencies, ``[cos W'(x - c), sin W'(x - c)] / sqrt(h)``.

    For frequencies drawn from the spectral density of a shift-invariant kernel
    the inner products are unbiased estimates of it (Rahimi and Recht, 2007).

    Parameters
    ----------
    frequencies : (d, h)
        W, one column per pair of features.
    centre : (d,), optional
        c, a point amid the rows. Changes no inner product, but far from the
        origin float32 needs it.

    Examples
    --------
    >>> features = RandomFourier(np.array([[0.0, np.pi]]))
    >>> (2**0.5 * features(np.array([[0.0], [1.0]]))[:, :2]).round(3)
    array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """

    frequencies: Matrix
    centre: Vector | None = None

    def __post_init__(self) -> None:
        found = matrix(self.frequencies, "frequencies")
        d = len(found)
        object.__setattr__(self, "frequencies", singles(found, "frequencies"))
        if self.centre is not None:
            # Of float32, so that float32 rows can be shifted without a detour.
            centre = vector(self.centre, "centre", size=d).clip(-1e38, 1e38).astype(np.float32)
            object.__setattr__(self, "centre", centre.astype(np.float64))

    @property
    def dim_out(self) -> int:
        """2h."""
        return 2 * int(self.frequencies.shape[1])

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, 2h) float32 features of the rows."""
        half = self.frequencies.shape[1]
        out = np.empty((len(rows), 2 * half), np.float32)
        angles = out[:, :half]
        with np.errstate(over="ignore", invalid="ignore"):  # `feature_mean` names such a row
            near = rows if self.centre is None else rows - self.centre.astype(rows.dtype, copy=False)
            product(near.astype(np.float32, copy=False), self.frequencies, out=angles)
            np.sin(angles, out=out[:, half:])
            np.cos(angles, out=angles)
        out *= np.float32(1.0 / math.sqrt(half))
        return out


def normal_frequencies(dim: int, half: int, rng: np.random.Generator) -> Vector:
    """(d, h) standard normal frequencies, orthogonal in groups of d.

    Each is normal by itself, so features are as unbiased as with independent ones,
    but together they vary less (orthogonal random features, Yu et al., 2016).
    """
    out = np.empty((dim, half))
    with one_blas_thread():
        for first in range(0, half, dim):
            group = out[:, first : first + dim]
            group[:] = np.linalg.qr(rng.standard_normal(group.shape)).Q
            group *= np.sqrt(rng.chisquare(dim, group.shape[1]))
    return out


def feature_mean(
    atoms: AtomsLike, features: Features, *, weights: ArrayLike | None = None, name: str = "atoms"
) -> Vector:
    """(D,) float64 mean of the features of all atoms; one pass, nothing kept.

    Parameters
    ----------
    atoms
        Atoms, an array or a path: n rows.
    features
        The map.
    weights : (n,), optional
        Weights of the rows, >= 0; only their ratios matter.
    name
        What the caller calls the atoms, for errors.

    Raises
    ------
    ValueError
        If a row or its features are not finite; the row is named.

    Examples
    --------
    >>> feature_mean([[0.0, 2.0], [2.0, 2.0]], Identity(2))
    array([1., 2.])
    """
    kind(features, "features", "a map such as Identity(d)", "dim_out", "__call__")
    rows = as_atoms(atoms, name)
    shares = row_shares(weights, rows.shape[0])
    wide = features.dim_out

    def add_up(first: int, block: Matrix) -> Vector:
        """Sum the features of a block: float32 within a chunk of rows, float64 beyond."""
        out = np.zeros(wide)
        for begin in range(0, len(block), CHUNK):
            found = np.asarray(features(block[begin : begin + CHUNK]))
            at, size = first + begin, min(CHUNK, len(block) - begin)
            right = found.shape == (size, wide)
            require(right, "features", f"a map to {wide} columns", f"shape {found.shape}")
            given = np.ones(size) if shares is None else shares[at : at + size]
            top = given.max() or 1.0  # small shares would lose digits, or vanish, in float32
            part = product((given / top).astype(found.dtype, copy=False), found)
            if not np.isfinite(part).all():
                bad = at + int(np.argmax(~np.isfinite(found).all(axis=1)))
                why = "`features` must give finite numbers"
                if isinstance(features, RandomFourier):
                    why = f"`{name}` must be of moderate size, for features in float32: scale them"
                raise ValueError(f"{why}. Those of row {bad} are not.")
            out += top * part
        return out

    total = sum((part for _, part in map_blocks(rows, add_up, name=name)), np.zeros(wide))
    return total if shares is not None else total / rows.shape[0]
