"""Atoms as float32 rows about the origin, with their lengths, and passes over them.

One more column than the atoms: the product with (q, rho) is the key
<q, a> + rho |a|, which bounds the score of every query within rho of q.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import block_rows, check_finite
from wolfhound.core import Atoms, Ids, Ints, Vector
from wolfhound.gram._tableau import Singles
from wolfhound.gram._units import Units, exponent_of, measure_norms
from wolfhound.many import _pass_kernels as kernels
from wolfhound.many._pass_kernels import Lists
from wolfhound.rounding import gamma
from wolfhound.validate import require_moderate

SINGLE = 2.0**-24
"""Unit roundoff of float32."""

UP = 1.0 + 2.0**-21
"""More than the rounding of a length to float32."""

TILE = 512
"""Atoms per product."""

_ROWS = 8192


class Sheet(NamedTuple):
    """The atoms of a pass.

    Attributes
    ----------
    units : Units
    radius : float
        At least every length, in these units.
    kept : (n, d + 1) float32
        Rows and their lengths rounded up; empty if they are made anew in each pass.
    atoms : Atoms
        What they are made of.
    """

    units: Units
    radius: float
    kept: Singles
    atoms: Atoms

    def blocks(self) -> Iterator[tuple[int, Singles]]:
        """Yield (first id, rows with lengths) over all atoms once, in order."""
        if len(self.kept):
            for first in range(0, len(self.kept), _ROWS):
                yield first, self.kept[first : first + _ROWS]
            return
        for first, block in self.atoms.blocks(_ROWS):
            yield first, lay_rows(self.units.convert(block))

    def take(self, ids: Ids) -> Sheet:
        """Return a sheet of some atoms, kept."""
        rows = self.kept[ids] if len(self.kept) else lay_rows(self.units.convert(self.atoms.take(ids)))
        return self._replace(kept=rows)

    def error(self, rho: Vector) -> Vector:
        """At most how far a computed key is below a true one, for queries of norm up to 1."""
        d = len(self.units.centre)
        lost = gamma(d + 2, SINGLE) * (1.0 + rho) + 1.01 * SINGLE
        return 1.01 * (lost * self.radius + (d + 2) * 2.0**-120)


def lay_rows(rows: Vector) -> Singles:
    """Rows in our units as float32, with their lengths rounded up in one more column."""
    n, d = rows.shape
    out = np.empty((n, d + 1), np.float32)
    out[:, :d] = rows
    out[:, d] = measure_norms(rows) * UP + 2.0**-120
    return out


def measure_sheet(atoms: Atoms, centre: Vector) -> Units:
    """Read all atoms once: they must be finite and not too large; the largest entry becomes 1."""
    top = 0.0
    for first, block in atoms.blocks(block_rows(atoms)):
        check_finite(block, first)
        require_moderate(block, "atoms")
        top = max(top, float(np.abs(block - centre).max()))
    return Units(centre, exponent_of(top))


def build_sheet(atoms: Atoms, units: Units, *, keep: bool) -> Sheet:
    """Lay out all atoms, and measure the largest."""
    n, d = atoms.shape
    kept = np.empty((n if keep else 0, d + 1), np.float32)
    radius = 0.0
    for first, block in atoms.blocks(_ROWS):
        rows = lay_rows(units.convert(block))
        radius = max(radius, float(rows[:, d].max()))
        if keep:
            kept[first : first + len(rows)] = rows
    return Sheet(units, radius, kept, atoms)


# ---------------------------------------------------------------- passes


class Banned(NamedTuple):
    """Pairs (target, place in the sheet) that must not be listed, by rising place."""

    targets: Ints
    places: Ints


def order_banned(starts: Ints, ids: Ids) -> Banned:
    """Turn ids per target, as in `Chunk`, into pairs."""
    targets = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.argsort(ids, kind="stable")
    return Banned(targets[order], ids[order])


def scan(
    sheet: Sheet,
    queries: Singles,
    banned: Banned,
    h: int,
    *,
    level: Singles | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Lists | None:
    """List the atoms of largest key for every query, in one pass; None if time is over.

    Parameters
    ----------
    sheet
        The atoms.
    queries : (m, d + 1)
        Queries and their rho.
    banned
        What must not be listed.
    h
        About how many atoms per list.
    level : (m,), optional
        What a key must exceed.
    over
        Asked now and then whether to give up.
    """
    m = len(queries)
    lists = kernels.make_lists(m, h, level)
    room = np.empty(m * TILE, np.float32)
    for start, block in sheet.blocks():
        if over():
            return None
        for at in range(0, len(block), TILE):
            part = block[at : at + TILE]
            scores = room[: m * len(part)].reshape(m, len(part))
            np.matmul(queries, part.T, out=scores)
            first = start + at
            low, high = np.searchsorted(banned.places, (first, first + len(part)))
            if high > low:
                scores[banned.targets[low:high], banned.places[low:high] - first] = -np.inf
            kernels.select(scores, first, lists, h)
    kernels.finish(lists, h)
    return lists
