"""What makes a design good, D, A and I, in terms of any units; and which terms rows can tell apart."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Matrix, Vector
from wolfhound.core.rounding import SAFE, UNIT, gamma
from wolfhound.core.validate import require
from wolfhound.data.atoms import as_atoms, map_blocks

Terms: TypeAlias = Callable[[AtomsLike], Atoms]  # maps rows of factors to the terms of the model

_TALL = 256  # rows of one factorisation, or four times as many as there are terms: its error grows with them
_FAN = 4  # triangles that are joined into one
# Terms of a region are smaller, and a column larger than its inverse, or zero: else QR may underflow.
_LARGEST = 1e140
SINGULAR = 1e-9  # singular values below this share of the largest are none, columns having equal norms
_SHOWN = 6  # groups of aliased terms that an error names


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

    name: ClassVar[str] = "D"

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """None: the determinant."""
        return Root(None)


@final
@dataclass(frozen=True, slots=True)
class AOptimal:
    """Smallest mean variance of the coefficients: least trace M^-1.

    Depends on the scale of the factors: models code theirs to [-1, 1].
    """

    name: ClassVar[str] = "A"

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

    name: ClassVar[str] = "I"

    def find_root(self, candidates: Atoms, terms: Terms) -> Root:
        """Return C with C C' = R, which may be singular."""
        if self.region is None:
            return Root(*factor_moments(candidates, "candidates"), passes=1.0)
        matrix, error = factor_moments(terms(self.region), "region")
        require(bool(matrix.any()), "region", "rows of which some are not zero", "zeros only")
        return Root(matrix, error)


CRITERIA: dict[str, type[DOptimal] | type[AOptimal] | type[IOptimal]] = {
    "D": DOptimal,
    "A": AOptimal,
    "I": IOptimal,
}
"""Criteria by their letter."""


def factor_moments(atoms: AtomsLike, name: str = "region") -> tuple[Vector, float]:
    """(d, r) C with C C' the mean of x x' over all rows, and a bound on its error; one pass.

    A tree of QR factorisations: T'T = (X + E)'(X + E), where no column of E is larger than a small share
    of that column of X (Higham 2002, Theorem 19.4). So units of columns do not matter, and no direction
    is lost, as it is from the eigenvectors of X'X. The share bounds each row of C, relative to its norm.
    """
    rows = as_atoms(atoms)
    n, d = rows.shape
    tall = max(_TALL, _FAN * d)
    waiting: list[list[Vector]] = [[]]
    deepest = 0
    for _, (part, depth) in map_blocks(
        rows, lambda _, block: _reduce(block.astype(np.float64), tall), name=name, nbytes=4 << 20
    ):
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


def scale_to_one(sizes: Vector) -> Vector:
    """Powers of two that bring sizes to [1/2, 1), zeros apart: columns in any units, exactly.

    Examples
    --------
    >>> scale_to_one(np.array([3.0, 0.0, 1e-3])).tolist()
    [0.25, 1.0, 512.0]
    """
    return np.asarray(np.exp2(-np.frexp(sizes)[1].astype(np.float64)))


def scale_root(root: Vector | None, scale: Vector) -> Vector | None:
    """C of terms that were multiplied by powers of two, itself brought to size one: only ratios matter."""
    if root is None:
        return None
    scaled = root * scale[:, None]
    return np.asarray(scaled * scale_to_one(np.abs(scaled).max(initial=0.0)))


class AliasedTerms(ValueError):
    """Candidates cannot tell terms apart; `null` are (d, z) directions that no candidate has a part in."""

    def __init__(self, null: Vector, names: Sequence[str]) -> None:
        rule = "`model` must have terms that the candidates can tell apart."
        super().__init__(f"{rule} Got {describe_aliases(null, names)}.")
        self.null = null


def find_null_space(rows: Matrix) -> Vector:
    """(d, z) directions that no row has a part in, orthonormal."""
    wide = rows.astype(np.float64)
    sizes = np.sqrt((wide**2).sum(axis=0))
    sizes[sizes == 0.0] = 1.0
    triangle = np.linalg.qr(wide / sizes, mode="r")
    _, values, turn = np.linalg.svd(triangle, full_matrices=True)
    rank = int((values > SINGULAR * values.max(initial=0.0)).sum())
    null = turn[rank:].T / sizes[:, None]
    return np.asarray(np.linalg.qr(null)[0]) if null.size else np.empty((rows.shape[1], 0))


def list_aliases(null: Vector, names: Sequence[str]) -> str:
    """Groups of aliased terms, from a basis with few terms in each direction."""
    basis = null.T.copy()
    taken: list[int] = []
    for row in range(len(basis)):  # Gauss and Jordan, largest pivots
        free = np.abs(basis[row])
        free[taken] = 0.0
        pivot = int(free.argmax())
        taken.append(pivot)
        basis[row] /= basis[row, pivot]
        others = np.arange(len(basis)) != row
        basis[others] -= np.outer(basis[others, pivot], basis[row])
    groups = [" ~ ".join(names[j] for j in np.flatnonzero(np.abs(each) > 1e-6).tolist()) for each in basis]
    more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return f"{'; '.join(groups[:_SHOWN])}{more}"


def describe_aliases(null: Vector, names: Sequence[str]) -> str:
    """Say how many groups of terms are aliased, and which."""
    many = "group" if null.shape[1] == 1 else "groups"
    return f"{null.shape[1]} {many} of aliased terms: {list_aliases(null, names)}"
