"""From atoms to int8 codes, in one streaming pass on all threads."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from wolfhound._files import lock
from wolfhound.atoms import ArrayAtoms, block_rows, check_finite
from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.oracles.int8 import _encode_kernels as kernels
from wolfhound.oracles.int8.codes import Codes, CodeStore, places_of, reach
from wolfhound.oracles.int8.layout import ROWS, PackedRows, empty_rows
from wolfhound.progress import report_rows
from wolfhound.rounding import TINY
from wolfhound.threads import map_ordered
from wolfhound.validate import require

_SAMPLE = 4096
_RANGE = 2.0**60
_WIDEST = 1 << 20
_GATHERED = 1 << 20
"""Bytes of rows that are gathered at a time: they stay in the processor's cache."""
_LARGEST = 2.0**511
# Exponents by size of a float: 2**-exponent must fit, and squares of a centre in these units.
_EXTREME = {4: 120, 8: 1000}
_APART = {4: 60, 8: 400}


def encode_atoms(atoms: Atoms, *, ids: Ids | None = None, centre: Vector | None = None) -> Codes:
    """Encode all atoms in one pass, exceptionally in two.

    Parameters
    ----------
    atoms
        What is encoded; all rows are checked to be finite.
    ids : (n,), optional
        Which atom is at each place.
    centre : (d,), optional
        Subtracted from every atom; any vector is right, one that makes the
        atoms small makes the errors small.
    """
    n, d = atoms.shape
    packed = empty_rows(n, d, np.empty(0, np.int64) if ids is None else ids)
    rows = atoms.plain if ids is not None and isinstance(atoms, ArrayAtoms) else None

    def put(encoder: Encoder) -> Iterator[Extent]:
        # Codes of single rows lie apart. What is in memory is read in the order of the places instead.
        if rows is None:
            return _encode_blocks(encoder, atoms, packed)
        return _encode_gathered(encoder, rows, packed)

    return Codes(**packed._asdict(), **encode_twice(atoms, centre, put))


def _encode_blocks(encoder: Encoder, atoms: Atoms, packed: PackedRows) -> Iterator[Extent]:
    """Encode all atoms in their own order."""
    places = places_of(packed.ids, atoms.shape[0])

    def work(task: tuple[int, Matrix]) -> tuple[int, Extent]:
        first, block = task
        mine = np.arange(first, first + len(block))
        return len(block), encoder.encode(mine, block, places[mine], packed)

    for many, extent in map_ordered(work, atoms.blocks(block_rows(atoms))):
        report_rows(many)
        yield extent


def _encode_gathered(encoder: Encoder, rows: Matrix, packed: PackedRows) -> Iterator[Extent]:
    """Encode rows in the order of their places, whole blocks of codes at a time."""
    n, d = rows.shape
    some = max(1, _GATHERED // (d * rows.itemsize * ROWS)) * ROWS

    def work(first: int) -> tuple[int, Extent]:
        mine = packed.ids[first : first + some]
        return len(mine), encoder.encode(mine, rows[mine], np.arange(first, first + len(mine)), packed)

    for many, extent in map_ordered(work, range(0, n, some)):
        report_rows(many)
        yield extent


class Extent(NamedTuple):
    """How large some rows are: their largest entry in the caller's units, height and error."""

    top: float
    height: float
    error: float


def encode_twice(
    atoms: Atoms, centre: Vector | None, put: Callable[[Encoder], Iterable[Extent]]
) -> dict[str, Any]:
    """Have all atoms encoded, again if the first scale was wrong; return what `Codes` has of all.

    Parameters
    ----------
    atoms, centre
        As of `encode_atoms`.
    put
        Encodes all atoms, over what is there.
    """
    encoder, guess = choose_encoder(atoms, centre)
    middle, zero = encoder.middle, encoder.frame.zero
    extent = join_extents(put(encoder))
    apart = not (extent.top / _RANGE < guess < extent.top * _RANGE and extent.error < math.inf)
    if extent.top > 0.0 and apart:
        # The sample did not tell the scale of the rest: float32 would lose too much.
        encoder = Encoder.near(extent.top, middle, zero, atoms.dtype)
        extent = join_extents(put(encoder))
    # Rows of zeros have no scale, and errors of some: a shard of them stands beside others that have one.
    nothing = extent.top == 0.0 and not middle.any()
    return {
        "centre": middle,
        "zero": zero,
        "exponent": encoder.exponent,
        "height": extent.height,
        "error": extent.error,
        "radius": TINY if nothing else reach(middle, extent.height + extent.error, encoder.exponent),
    }


def choose_encoder(atoms: Atoms, centre: Vector | None) -> tuple[Encoder, float]:
    """Return the encoder that a sample of the atoms asks for, and the largest entry in the sample."""
    n, d = atoms.shape
    require(d <= _WIDEST, "atoms", f"of dimension <= {_WIDEST:,}", d)
    rows = atoms.take(np.unique(np.random.default_rng(0).integers(0, n, min(n, _SAMPLE))))
    rows = np.where(np.isfinite(rows), rows, 0.0)  # the pass names the row that is not finite
    middle = np.zeros(d) if centre is None else centre.astype(atoms.dtype).astype(np.float64)
    zero = 128 if centre is None and rows.min() >= 0.0 and rows.max() > 0.0 else 0
    guess = float(np.abs(rows - middle).max())
    return Encoder.near(guess, middle, zero, atoms.dtype), guess


def join_extents(extents: Iterable[Extent]) -> Extent:
    """How large all rows are together."""
    return Extent(*(float(max(column)) for column in zip(*extents, strict=True)))


class Encoder(NamedTuple):
    """Encodes rows about a centre, `middle`, in units of ``2**exponent``."""

    frame: kernels.CodeFrame
    exponent: int
    middle: Vector

    @classmethod
    def near(cls, top: float, centre: Vector, zero: int, dtype: np.dtype[Any]) -> Encoder:
        """Return the one that is best if the largest entry of what is encoded is near `top`."""
        size = dtype.itemsize
        far = float(np.abs(centre).max())
        least = max(math.frexp(far)[1] - _APART[size] if far > 0.0 else -math.inf, -_EXTREME[size])
        # Rows that all are the centre have no scale of their own: errors are far below the centre's.
        wanted = math.frexp(top)[1] if top > 0.0 or far == 0.0 else math.frexp(far)[1] - _APART[4]
        exponent = int(min(max(wanted, least), _EXTREME[size]))
        unit = dtype.type(math.ldexp(1.0, -exponent))
        frame = kernels.CodeFrame(np.asarray(unit * centre.astype(dtype.type)), unit, zero)
        return cls(frame, exponent, centre)

    def encode(self, ids: Ids, block: Matrix, places: Ids, packed: PackedRows) -> Extent:
        """Encode a block of the atoms `ids` to places; on any thread."""
        exponent, scratch = self.exponent, kernels.make_scratch(block.shape[1], block.dtype)
        rows = lock(block.view())  # one kind of array: two are compiled twice
        top, height, error = kernels.encode(rows, places, self.frame, scratch, packed)
        if math.isnan(error) or height > math.ldexp(_LARGEST, -max(exponent, -500)):
            for row, name in zip(block, ids.tolist(), strict=True):
                check_norms(row[None], name)
        if math.isnan(error):  # only its scale is out of range
            return Extent(float(np.abs(block).max()), 0.0, math.inf)
        return Extent(math.ldexp(top, exponent), height, error)


def find_wrong_row(codes: CodeStore, atoms: Atoms) -> int | None:
    """Prove that codes are those of the atoms, in one pass; return a row that is not, if there is.

    For every row, its error is shown to be at least the distance from what its code
    stands for, and the height at least the size of that: all that bounds rest on.
    """
    window = codes.windows()
    centre = np.ldexp(codes.centre, -codes.exponent)
    frame = kernels.CodeFrame(centre, math.ldexp(1.0, -codes.exponent), codes.zero)

    def work(task: tuple[int, Matrix]) -> tuple[int, int]:
        first, block = task
        packed, mine = window(first, len(block))
        wrong = kernels.verify(block, mine, frame, codes.height, packed)
        return len(block), first + wrong if wrong >= 0 else -1

    for rows, wrong in map_ordered(work, atoms.blocks(block_rows(atoms))):
        report_rows(rows)
        if wrong >= 0:
            return wrong
    return None


def check_norms(block: Matrix, first: int) -> None:
    """Raise ValueError if a row is not finite, or too long for float64 sums of squares."""
    check_finite(block, first)
    long = np.abs(block).max(axis=1).astype(np.float64) > _LARGEST / math.sqrt(block.shape[1])
    if long.any():
        row = first + int(np.flatnonzero(long)[0])
        raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
