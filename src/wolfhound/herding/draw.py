"""Random ids and the rows behind them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from wolfhound.atoms import finite_rows
from wolfhound.core import Atoms, Ids, Matrix, Vector

FEWEST = 4
"""Rows that were not used before serve if there are a quarter of those wanted."""


def draw_ids(n: int, count: int, exclude: Ids, rng: np.random.Generator) -> Ids:
    """Ascending distinct random ids in [0, n), none excluded; all that are left, if not more than `count`.

    Examples
    --------
    >>> draw_ids(5, 3, np.array([1, 3]), np.random.default_rng(0))
    array([0, 2, 4])
    """
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


@contextlib.contextmanager
def speak_of(name: str, instead_of: str = "atoms") -> Iterator[None]:
    """Let an error call an argument as the caller does."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(f"`{instead_of}`", f"`{name}`", 1)) from None


def take_rows(atoms: Atoms, ids: Ids, name: str = "atoms") -> Matrix:
    """Rows of these ids; ValueError if one is not finite, by the caller's name for the atoms."""
    with speak_of(name):
        return finite_rows(atoms, ids)
