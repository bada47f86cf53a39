"""`deduplicate`: rows that are the same, or nearly so, and which of them to keep."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock
from wolfhound.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, as_atoms, block_rows, check_finite
from wolfhound.core import Atoms, AtomsLike, Ids, Ints, Matrix, Vector
from wolfhound.progress import report_rows
from wolfhound.rounding import gamma
from wolfhound.validate import number, require

if TYPE_CHECKING:
    from pandas import DataFrame

_AXES = 8
_PER_CELL = 4
"""Rows that a cell is to hold on average."""

_ROOM = 4.0
"""How many times wider than the distance a cell is: most rows then look into few cells."""

_SAMPLE = 4096
_SPAN = 8192
"""Rows that are looked at between two reports."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Duplicates:
    """Which rows are kept, and which of them stands for each row.

    Attributes
    ----------
    keep : (k,) int64
        Ids of the rows that are kept, ascending.
    group : (n,) int64
        The kept row that each row is a duplicate of: its own id if it is kept.
    within : float
        The distance; 0: only equal rows are duplicates.
    """

    keep: Ids
    group: Ids
    within: float

    @property
    def removed(self) -> Ids:
        """Ids of the rows that are not kept, ascending; what `remove` of an index takes."""
        return np.flatnonzero(self.group != np.arange(len(self.group)))

    @property
    def sizes(self) -> Ints:
        """(k,) how many rows each kept row stands for, itself among them."""
        return np.bincount(self.group, minlength=len(self.group))[self.keep]

    def to_frame(self) -> DataFrame:
        """Return a table of pandas: every row's id, its group, and whether it is kept."""
        try:
            import pandas as pd  # noqa: PLC0415 - only where it is asked for
        except ImportError:
            raise ImportError('Duplicates.to_frame needs pandas: pip install "wolfhound[data]"') from None
        ids = np.arange(len(self.group))
        return pd.DataFrame({"id": ids, "group": self.group, "kept": self.group == ids})

    def __repr__(self) -> str:
        """How many are kept, and of how many."""
        n, k = len(self.group), len(self.keep)
        several = int((self.sizes > 1).sum())
        return (
            f"Duplicates({n:,} rows, {k:,} kept, {n - k:,} duplicates of {several:,} rows, "
            f"within {self.within:g})"
        )


def deduplicate(atoms: AtomsLike, *, within: float = 0.0) -> Duplicates:
    """Find rows that are equal, or within a distance, and keep the first of them.

    Rows are looked at in the order of their ids. A row is a duplicate of the first kept row that
    is within the distance; if there is none, it is kept. So kept rows are farther than that from
    each other, and every row is that near to the one that stands for it. The answer is exact and
    depends on nothing but the rows.

    Equal rows are found by their hashes, then compared: one pass, in files too, and 8 bytes per row.
    For a distance, rows are in memory; each is compared with those in cells of principal axes
    that can hold a near one. Where the distance is small beside the spread of the rows these are few;
    where it is not, every row is compared with every kept row.

    Parameters
    ----------
    atoms : (n, d) array, table, path, or a list of these
        Finite; 0.0 and -0.0 are equal. Integers are such that float64 holds them, which tells those apart.
    within
        Largest Euclidean distance of duplicates, compared in float64; 0: equal rows only.

    Examples
    --------
    >>> found = deduplicate([[0.0, 1.0], [5.0, 5.0], [0.0, 1.0], [0.0, 1.1]], within=0.2)
    >>> found.keep, found.group
    (array([0, 1]), array([0, 1, 0, 0]))
    >>> found
    Duplicates(4 rows, 2 kept, 2 duplicates of 1 rows, within 0.2)
    """
    limit = number(within, "within", low=0.0)
    require(math.isfinite(limit), "within", "a finite distance", within)
    known = as_atoms(atoms)
    group = _find_near(known, limit) if limit > 0.0 else _find_equal(known)
    return Duplicates(keep=np.flatnonzero(group == np.arange(len(group))), group=group, within=limit)


def find_stored(atoms: Atoms) -> np.dtype[Any]:
    """Return the type that rows have where they are kept, one that holds those of all parts."""
    parts = atoms.parts if isinstance(atoms, ConcatAtoms) else (atoms,)
    return np.result_type(*map(_find_type, parts))


def _find_type(part: Atoms) -> np.dtype[Any]:
    if isinstance(part, ArrayAtoms):
        return part.rows.dtype
    return part.stored if isinstance(part, FileAtoms) else part.dtype


# ---------------------------------------------------------------- equal rows


def _find_equal(atoms: Atoms) -> Ids:
    """The first row that is equal to each."""
    n, d = atoms.shape
    factors = np.random.PCG64(7).random_raw(d) | np.uint64(1)
    hashes = np.empty(n, np.uint64)
    for first, block in atoms.blocks(block_rows(atoms)):
        check_finite(block, first)
        report_rows(len(block))
        hashes[first : first + len(block)] = hash_rows(block, factors)
    group, left = np.arange(n), np.argsort(hashes, kind="stable")
    while len(left):
        starts = np.flatnonzero(np.concatenate([[True], hashes[left[1:]] != hashes[left[:-1]]]))
        counts = np.diff(np.append(starts, len(left)))
        leaders = np.repeat(left[starts], counts)
        several = np.repeat(counts > 1, counts)
        left, leaders = left[several], leaders[several]
        same = _are_equal(atoms, left, leaders)
        group[left[same]] = leaders[same]
        left = left[~same]  # of equal hashes by chance: again, without those that are settled
    return group


def hash_rows(block: Matrix, factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number for each row, the same for equal rows."""
    plain = block + block.dtype.type(0.0)  # -0.0 becomes 0.0
    bits = plain.view(f"u{block.dtype.itemsize}").astype(np.uint64)
    bits ^= bits >> np.uint64(32)  # few digits leave the low bits empty, which products only move up
    mixed: NDArray[np.uint64] = bits @ factors
    return mixed ^ (mixed >> np.uint64(29))


def _are_equal(atoms: Atoms, ids: Ids, others: Ids) -> NDArray[np.bool_]:
    """Whether rows are equal, pair by pair."""
    same: NDArray[np.bool_] = ids == others
    far, step = np.flatnonzero(~same), block_rows(atoms)
    for start in range(0, len(far), step):
        some = far[start : start + step]
        same[some] = (atoms.take(ids[some]) == atoms.take(others[some])).all(axis=1)
    return same


# ---------------------------------------------------------------- within a distance


def _find_near(atoms: Atoms, within: float) -> Ids:
    """The first kept row that is near each."""
    from wolfhound._duplicate_kernels import lead  # noqa: PLC0415 - numba is slow to load

    for first, block in atoms.blocks(block_rows(atoms)):
        check_finite(block, first)
    plain = atoms.plain if isinstance(atoms, ArrayAtoms) else None
    rows = lock(atoms.take(np.arange(atoms.shape[0]))) if plain is None else plain
    unit = math.ldexp(1.0, -min(max(math.frexp(within)[1], -1000), 1000))  # squares stay in range
    grid, n = _make_grid(rows, within), len(rows)
    group = np.empty(n, np.int64)
    for start in range(0, n, _SPAN):
        span = start, min(start + _SPAN, n)
        lead(rows, span, grid, unit, unit * within, group)
        report_rows(span[1] - span[0])
    return group


class _Axis(NamedTuple):
    """Coordinates of all rows, and the edges of the cells of one axis."""

    values: Vector
    edges: Vector


def _make_grid(rows: Matrix, within: float) -> Any:
    """Put rows into cells of their leading principal axes.

    Coordinates of unit vectors differ by no more than rows do; `reach` also pays for their rounding.
    """
    from wolfhound._duplicate_kernels import RowCells  # noqa: PLC0415 - numba is slow to load

    n, d = rows.shape
    # Powers of two, so that sums of squares of huge rows stay finite.
    scale = math.ldexp(1.0, -min(max(math.frexp(float(np.abs(rows).max()))[1], -1000), 1000))
    sample = rows[:: max(1, n // _SAMPLE)].astype(np.float64) * scale
    middle = sample.mean(axis=0)
    frame = _principal(sample - middle)
    reach = scale * within * (1.0 + 1e-12) + 8.0 * gamma(d + 16) * (2.0 + float(np.abs(middle).max())) * d
    coordinates = np.concatenate(list(_project(rows, scale, middle, frame)))
    chosen = _choose_cells(coordinates, reach)
    shape = (n, len(chosen))
    own, low, high = (np.empty(shape, np.int32) for _ in range(3))
    for k, axis in enumerate(chosen):
        own[:, k] = np.searchsorted(axis.edges, axis.values, side="right")
        low[:, k] = np.searchsorted(axis.edges, axis.values - reach, side="left")
        high[:, k] = np.searchsorted(axis.edges, axis.values + reach, side="right")
    counts = np.array([len(axis.edges) + 1 for axis in chosen], np.int64)
    strides = np.concatenate([[1], np.cumprod(counts)[:-1]]).astype(np.int64)
    heads, tails = np.full((2, int(np.prod(counts))), -1)
    return RowCells(own, low, high, strides, heads, tails, np.full(n, -1))


def _principal(rows: Vector) -> Vector:
    """(d, axes) orthonormal directions in which rows differ most, about; by powers of a random block."""
    d = rows.shape[1]
    block = np.random.default_rng(0).standard_normal((d, min(d, _AXES + 8)))
    for _ in range(3):
        block = np.linalg.qr(rows.T @ (rows @ block))[0]
    spread = np.square(rows @ block).sum(axis=0)
    return np.asarray(block[:, np.argsort(-spread, kind="stable")[:_AXES]])


def _project(rows: Matrix, scale: float, middle: Vector, frame: Vector) -> Iterator[Vector]:
    step = max(1, (8 << 20) // rows.shape[1])
    for start in range(0, len(rows), step):
        yield (rows[start : start + step].astype(np.float64) * scale - middle) @ frame


def _choose_cells(coordinates: Vector, reach: float) -> list[_Axis]:
    """Edges at quantiles, no nearer than `_ROOM` reaches; so many that cells hold few rows each."""
    n, axes = coordinates.shape
    target, cells, chosen = max(1.0, n / _PER_CELL), 1.0, []
    for k in range(axes):
        wanted = math.ceil((target / cells) ** (1.0 / (axes - k)))
        values = np.ascontiguousarray(coordinates[:, k])
        quantiles = np.quantile(values[:: max(1, n // _SAMPLE)], np.arange(1, wanted) / wanted)
        edges = _thin(quantiles, _ROOM * reach)
        cells *= len(edges) + 1
        chosen.append(_Axis(values, edges))
    return chosen


def _thin(edges: Vector, width: float) -> Vector:
    """Leave out edges that are nearer than a width to the one before."""
    kept: list[float] = []
    for edge in edges.tolist():
        if not kept or edge - kept[-1] >= width:
            kept.append(edge)
    return np.array(kept)
