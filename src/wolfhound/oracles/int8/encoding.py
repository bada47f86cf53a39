"""From atoms to int8 codes, in one streaming pass on all threads."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np

from wolfhound.atoms import block_rows, check_finite
from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.oracles.int8 import _encode_kernels as kernels
from wolfhound.oracles.int8.codes import Codes, reach
from wolfhound.oracles.int8.layout import PackedRows, empty_rows
from wolfhound.pulse import pulse
from wolfhound.threads import map_ordered
from wolfhound.validate import require

_SAMPLE = 4096
_RANGE = 2.0**60
_WIDEST = 1 << 20
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
    require(d <= _WIDEST, "atoms", f"of dimension <= {_WIDEST:,}", d)
    rows = atoms.take(np.unique(np.random.default_rng(0).integers(0, n, min(n, _SAMPLE))))
    rows = np.where(np.isfinite(rows), rows, 0.0)  # the pass names the row that is not finite
    middle = np.zeros(d) if centre is None else centre.astype(atoms.dtype).astype(np.float64)
    zero = 128 if centre is None and rows.min() >= 0.0 and rows.max() > 0.0 else 0
    packed = empty_rows(n, d, np.empty(0, np.int64) if ids is None else ids)
    guess = float(np.abs(rows - middle).max())
    top, exponent, height, error = _fill(packed, atoms, middle, zero, guess)
    if top > 0.0 and not (top / _RANGE < guess < top * _RANGE and error < math.inf):
        # The sample did not tell the scale of the rest: float32 would lose too much.
        _, exponent, height, error = _fill(packed, atoms, middle, zero, top)
    return Codes(
        **packed._asdict(),
        centre=middle,
        zero=zero,
        exponent=exponent,
        height=height,
        error=error,
        radius=reach(middle, height + error, exponent),
    )


def _fill(
    packed: PackedRows, atoms: Atoms, centre: Vector, zero: int, near: float
) -> tuple[float, int, float, float]:
    """Encode all rows, best if the largest entry is near `near`; return it, exponent, height and error."""
    kind, size, places = atoms.dtype.type, atoms.dtype.itemsize, _places_of(packed.ids, packed.n)
    far = float(np.abs(centre).max())
    least = max(math.frexp(far)[1] - _APART[size] if far > 0.0 else -math.inf, -_EXTREME[size])
    # Rows that all are the centre have no scale of their own: errors are far below the centre's.
    wanted = math.frexp(near)[1] if near > 0.0 or far == 0.0 else math.frexp(far)[1] - _APART[4]
    exponent = int(min(max(wanted, least), _EXTREME[size]))
    unit = kind(math.ldexp(1.0, -exponent))
    frame = kernels.CodeFrame(np.asarray(unit * centre.astype(kind)), unit, zero)

    def work(task: tuple[int, Matrix]) -> tuple[int, float, float, float]:
        first, block = task
        y = np.empty(block.shape[1] + 1, kind)
        scratch = kernels.Scratch(y, y.view(np.int32 if size == 4 else np.int64))
        mine = places[first : first + len(block)]
        top, height, error = kernels.encode(block, mine, frame, scratch, packed)
        if math.isnan(error) or height > math.ldexp(_LARGEST, -max(exponent, -500)):
            check_norms(block, first)
        if math.isnan(error):  # only its scale is out of range
            return len(block), float(np.abs(block).max()), 0.0, math.inf
        return len(block), math.ldexp(top, exponent), height, error

    found = []
    for rows, *tops in map_ordered(work, atoms.blocks(block_rows(atoms))):
        pulse(rows)
        found.append(tops)
    top, height, error = (float(max(column)) for column in zip(*found, strict=True))
    return top, exponent, height, error


def _places_of(ids: Ids, n: int) -> Ids:
    """Place of each of n atoms; ids: atom at each place, none if in order."""
    places = np.arange(n)
    places[ids] = np.arange(len(ids))
    return places


def find_wrong_row(codes: Codes, atoms: Atoms) -> int | None:
    """Prove that codes are those of the atoms, in one pass; return a row that is not, if there is.

    For every row, its error is shown to be at least the distance from what its code
    stands for, and the height at least the size of that: all that bounds rest on.
    """
    places, packed = _places_of(codes.ids, codes.n), codes.pack()
    centre = np.ldexp(codes.centre, -codes.exponent)
    frame = kernels.CodeFrame(centre, math.ldexp(1.0, -codes.exponent), codes.zero)

    def work(task: tuple[int, Matrix]) -> tuple[int, int]:
        first, block = task
        mine = places[first : first + len(block)]
        wrong = kernels.verify(block, mine, frame, codes.height, packed)
        return len(block), first + wrong if wrong >= 0 else -1

    for rows, wrong in map_ordered(work, atoms.blocks(block_rows(atoms))):
        pulse(rows)
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
