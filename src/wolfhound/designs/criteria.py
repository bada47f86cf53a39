"""What makes a design good: D, A and I, and what the search and the proof need of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, final

import numpy as np

from wolfhound.atoms import as_atoms, block_rows, check_finite
from wolfhound.core import Atoms, AtomsLike, Matrix, Vector
from wolfhound.progress import report_rows
from wolfhound.rounding import SAFE, UNIT, gamma
from wolfhound.threads import map_ordered
from wolfhound.validate import require

Terms: TypeAlias = Callable[[AtomsLike], Atoms]
"""Maps rows of factors to the terms of the model."""

_TALL = 256
"""Rows of one factorisation, or four times as many as there are terms: its error grows with them."""

_FAN = 4
"""Triangles that are joined into one."""

_LARGEST = 1e140
"""Terms of a region are smaller, and a column larger than its inverse, or zero: else QR may underflow."""


class Root(NamedTuple):
    """C of the criterion trace C'M^-1 C, as it was computed."""

    matrix: Vector | None  # (d, r); None: the determinant
    error: float = 0.0  # share of their norms by which rows of the true C may differ: part of every proof
    passes: float = 0.0


class Criterion(Protocol):
    """A design criterion: -log det M, or trace C'M^-1 C for a matrix C, its root."""

    @property
    def name(self) -> str:
        """One letter."""

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """Return C, how well it is known, and what it took."""


@final
@dataclass(frozen=True, slots=True)
class DOptimal:
    """Smallest volume of the confidence ellipsoid of all coefficients: largest det M.

    Does not depend on how factors are scaled. The efficiency of a design is
    (det M / det M*)^(1/d): 0.5 means twice as many runs for the same.
    """

    @property
    def name(self) -> str:
        """D."""
        return "D"

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """None: the determinant."""
        return Root(None)


@final
@dataclass(frozen=True, slots=True)
class AOptimal:
    """Smallest mean variance of the coefficients: least trace M^-1.

    Depends on the scale of the factors: models code theirs to [-1, 1].
    """

    @property
    def name(self) -> str:
        """A."""
        return "A"

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """Return the identity."""
        return Root(np.eye(candidates.shape[1]))


@final
@dataclass(frozen=True, slots=True, eq=False)
class IOptimal:
    """Smallest mean variance of the predictions over a region: least trace M^-1 R.

    R is the mean of x x' over the region; what is proved of it includes the rounding of R, in any units
    of the terms.

    Parameters
    ----------
    region
        Rows of factors where predictions are wanted, in any form that candidates may
        have; None: all candidates, which takes one more pass.
    """

    region: AtomsLike | None = None

    @property
    def name(self) -> str:
        """I."""
        return "I"

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """Return C with C C' = R, which may be singular."""
        if self.region is None:
            return Root(*factor_moments(candidates, "candidates"), passes=1.0)
        matrix, error = factor_moments(terms(self.region), "region")
        require(bool(matrix.any()), "region", "rows of which some are not zero", "zeros only")
        return Root(matrix, error)


def factor_moments(atoms: AtomsLike, name: str = "region") -> tuple[Vector, float]:
    """(d, r) C with C C' the mean of x x' over all rows, and a bound on its error; one pass.

    A tree of QR factorisations: T'T = (X + E)'(X + E), where no column of E is larger than a small share
    of that column of X (Higham 2002, Theorem 19.4). So units of columns do not matter, and no direction
    is lost, as it is from the eigenvectors of X'X. The share bounds each row of C, relative to its norm.

    Examples
    --------
    >>> root, error = factor_moments(np.array([[1.0, -1.0], [1.0, 1.0]]))
    >>> np.allclose(root @ root.T, np.eye(2), atol=1e-12), error < 1e-11
    (True, True)
    """
    rows = as_atoms(atoms)
    n, d = rows.shape
    tall = max(_TALL, _FAN * d)
    waiting: list[list[Vector]] = [[]]

    def work(task: tuple[int, Matrix]) -> tuple[int, Vector, int]:
        check_finite(task[1], task[0], name)
        return len(task[1]), *_reduce(task[1].astype(np.float64), tall)

    deepest = 0
    for size, part, depth in map_ordered(work, rows.blocks(block_rows(rows, 4 << 20))):
        report_rows(size)
        deepest, triangle = max(deepest, depth), part
        for level in waiting:  # as one counts with digits: no triangle is reduced more often than log n times
            level.append(triangle)
            if len(level) < _FAN:
                break
            triangle, _ = _reduce(np.concatenate(level), tall)
            level.clear()
        else:
            waiting.append([triangle])
    triangle, depth = _reduce(np.concatenate([each for level in waiting for each in level]), tall)
    sizes = np.abs(triangle).max(axis=0, initial=0.0)
    right = (sizes == 0.0) | ((sizes > 1.0 / _LARGEST) & (sizes < _LARGEST))
    rule = f"rows of terms between {1.0 / _LARGEST:g} and {_LARGEST:g} in size; scale them"
    require(bool(right.all()), name, rule, f"{sizes.min():g} .. {sizes.max():g}")
    # d reflections of at most 8 operations per entry each, at every level of the tree.
    steps = deepest + len(waiting) + depth
    error = SAFE * (steps * gamma(8 * (tall + 8) * d) + 8.0 * UNIT)
    return np.ascontiguousarray(triangle.T / np.sqrt(n)), error


def _reduce(rows: Vector, tall: int) -> tuple[Vector, int]:
    """Upper triangle of rows, and by how many levels of factorisations."""
    depth, d = 1, rows.shape[1]
    with np.errstate(all="ignore"):  # what is too large is refused by its caller
        while len(rows) > tall:
            padded = np.zeros((-(-len(rows) // tall), tall, d))
            padded.reshape(-1, d)[: len(rows)] = rows
            rows = np.asarray(np.linalg.qr(padded, mode="r")).reshape(-1, d)
            depth += 1
        return np.asarray(np.linalg.qr(rows, mode="r")), depth
