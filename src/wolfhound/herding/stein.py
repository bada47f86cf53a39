"""Stein's kernel of a density, and samples joined with the scores that it needs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.core.rounding import product
from wolfhound.core.validate import require
from wolfhound.data.atoms import as_atoms
from wolfhound.data.files import lock
from wolfhound.herding._compiled import stein
from wolfhound.herding.kernels import KernelColumns, Scaled, centre_of, median_distance


@final
@dataclass(frozen=True, slots=True, repr=False)
class Stein(Scaled):
    """Stein's kernel of a density p, for samples of p with their scores.

    ``div_x div_y k + <s(x), grad_y k> + <s(y), grad_x k> + k <s(x), s(y)>`` with
    the score s = grad log p and ``k = (1 + |x - y|^2 / l^2)^(-1/2)``. Its mean
    under p is 0 for every x, so rows can be compared with p itself rather than
    with a sample: biased chains are corrected. Computed in float64.

    Parameters
    ----------
    lengthscale
        l; the median distance of pairs of samples if not given.

    Notes
    -----
    Acts on rows [x, s(x)] of 2d entries: see `with_scores`.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0]])  # of a standard normal: the score is -x
    >>> Stein(1.0).gram(np.hstack([x, -x]), np.hstack([x, -x])).round(3)
    array([[ 1.  , -0.53],
           [-0.53,  2.  ]])
    """

    name: ClassVar[str] = "stein"
    centred: ClassVar[bool] = True

    def measure(self, rows: Matrix) -> float:
        """Median distance of the samples, whatever their scores."""
        return median_distance(rows[:, : _half(rows)])

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls; always in float64.

        For rows [x, t] with x in lengthscales and t = l s, r = x - y and q = 1 + |r|^2:
        ``(d q^(-3/2) - 3 |r|^2 q^(-5/2) + q^(-3/2) <t_x - t_y, r> + q^(-1/2) <t_x, t_y>) / l^2``.
        """
        d, lengthscale = _half(left), self.length
        centre = centre_of(left[:, :d])
        table, left_squares, left_products = _scale_rows(left, centre, lengthscale)

        def columns(right: Matrix) -> Matrix:
            s = len(right)
            rows, squares, products = _scale_rows(right, centre, lengthscale)
            # <x, y>, <x, t_y> + <t_x, y> and <t_x, t_y> from one read of the rows on the left.
            asked = np.zeros((3, s, 2 * d))
            asked[0, :, :d] = rows[:, :d]
            asked[1, :, :d], asked[1, :, d:] = rows[:, d:], rows[:, :d]
            asked[2, :, d:] = rows[:, d:]
            found = product(table, asked.reshape(3 * s, 2 * d).T)
            out = np.empty((len(table), s))
            stein(found, (left_squares, squares), (left_products, products), float(d), out)
            out /= lengthscale**2
            return out

        return columns

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values ``d / l^2 + |s(x)|^2``."""
        d = _half(rows)
        scores = rows[:, d:]
        squares: Vector = np.einsum("ij,ij->i", scores, scores, dtype=np.float64)
        return d / self.length**2 + squares


def _half(rows: Matrix) -> int:
    width = int(rows.shape[1])
    require(width % 2 == 0, "rows", "[x, score] of 2 d columns: see `with_scores`", f"{width} columns")
    return width // 2


def _scale_rows(rows: Matrix, centre: Vector, lengthscale: float) -> tuple[Vector, Vector, Vector]:
    """Rows [x, t], |x|^2 and <x, t>."""
    d = len(centre)
    out = np.empty(rows.shape)
    np.subtract(rows[:, :d], centre, out=out[:, :d])
    out[:, :d] /= lengthscale
    np.multiply(rows[:, d:], lengthscale, out=out[:, d:])
    with np.errstate(over="ignore"):
        squares: Vector = np.einsum("ij,ij->i", out[:, :d], out[:, :d])
    return out, squares, np.einsum("ij,ij->i", out[:, :d], out[:, d:])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScoredAtoms:
    """Rows [x, score(x)], the scores being gradients of log p; both are read together, block by block."""

    atoms: Atoms
    scores: Atoms

    def __post_init__(self) -> None:
        rule = f"of shape {self.atoms.shape}, as the atoms"
        require(self.scores.shape == self.atoms.shape, "scores", rule, f"shape {self.scores.shape}")

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2d)."""
        n, d = self.atoms.shape
        return n, 2 * d

    @property
    def dtype(self) -> np.dtype[Any]:
        """The wider of the two."""
        return np.result_type(self.atoms.dtype, self.scores.dtype)

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        return np.concatenate([self.atoms.take(ids), self.scores.take(ids)], axis=1, dtype=self.dtype)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first, block in self.atoms.blocks(rows):
            # By ids, not by blocks: the two may be cut in other places.
            beside = self.scores.take(np.arange(first, first + len(block)))
            yield first, lock(np.concatenate([block, beside], axis=1, dtype=self.dtype))


def with_scores(atoms: AtomsLike, scores: AtomsLike) -> ScoredAtoms:
    """Return rows [x, score(x)] for the `Stein` kernel.

    Parameters
    ----------
    atoms
        (n, d) samples: atoms, an array or a path.
    scores
        (n, d) gradients of log p at the samples.

    Examples
    --------
    >>> with_scores(np.zeros((3, 2)), np.zeros((3, 2))).shape
    (3, 4)
    """
    return ScoredAtoms(as_atoms(atoms), as_atoms(scores, "scores"))
