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
from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.gram._tableau import Singles
from wolfhound.gram._units import Units, exponent_of, measure_norms
from wolfhound.many import _pass_kernels as kernels
from wolfhound.many._room import TILE, find_portion
from wolfhound.rounding import TINY, UNIT, gamma
from wolfhound.threads import map_ordered
from wolfhound.validate import require_moderate

SINGLE = 2.0**-24
"""Unit roundoff of float32."""

UP = 1.0 + 2.0**-21
"""More than the rounding of a length to float32."""

_ROWS = 8192


class Banned(NamedTuple):
    """Pairs (target, place in the sheet) that must not be listed, by rising place."""

    targets: Ints
    places: Ints


class Listing(NamedTuple):
    """Per target the atoms of largest key, and what bounds the keys of all others.

    Attributes
    ----------
    ids, fill : (m, l) and (m,)
        Places of the atoms, of which `fill`.
    level : (m,) float32
        What the keys of others do not exceed, as computed.
    edge : (m,)
        What they do not exceed, as proved; -inf if every atom is listed that may be.
    """

    ids: Ids
    fill: Ints
    level: Singles
    edge: Vector


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
        kept = np.empty((len(ids), self.atoms.shape[1] + 1), np.float32)
        step = find_portion(self.atoms, len(ids))
        for start in range(0, len(ids), step):
            rows = self.atoms.take(ids[start : start + step])
            kept[start : start + step] = lay_rows(self.units.convert(rows))
        return self._replace(kept=kept)

    def list_atoms(
        self,
        queries: Vector,
        rho: float,
        banned: Banned,
        h: int,
        *,
        level: Singles | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> Listing | None:
        """List the atoms of largest key for every query, in one pass; None if time is over.

        Parameters
        ----------
        queries : (m, d)
            Float32 numbers, of norm up to 1.
        rho
            How far a query may turn, a float32 number.
        banned
            What must not be listed.
        h
            About how many atoms per list.
        level : (m,), optional
            What a key must exceed.
        over
            Asked now and then whether to give up.
        """
        m, d = queries.shape
        asked = np.full((m, d + 1), rho, np.float32)
        asked[:, :d] = queries
        lists = kernels.make_lists(m, h, level)
        room = np.empty(m * TILE, np.float32)
        for start, block in self.blocks():
            if over():
                return None
            for at in range(0, len(block), TILE):
                part, first = block[at : at + TILE], start + at
                scores = room[: m * len(part)].reshape(m, len(part))
                np.matmul(asked, part.T, out=scores)
                low, high = np.searchsorted(banned.places, (first, first + len(part)))
                scores[banned.targets[low:high], banned.places[low:high] - first] = -np.inf
                kernels.select(scores, first, lists, h)
        kernels.finish(lists, h)
        edge = lists.level.astype(np.float64) + self._error(rho)
        return Listing(lists.ids, lists.fill, lists.level, edge)

    def _error(self, rho: float) -> float:
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


class AtomSizes(NamedTuple):
    """The units of some atoms, and at least the length of each in them, (n,)."""

    units: Units
    lengths: Vector


def measure_atoms(atoms: Atoms, centre: Vector) -> AtomSizes:
    """Read all atoms once: they must be finite and not too large; the largest entry becomes 1.

    The centre is rounded to the type of the atoms.
    """
    middle = centre.astype(atoms.dtype).astype(np.float64)

    def measure(task: tuple[int, Matrix]) -> tuple[float, Vector]:
        first, block = task
        check_finite(block, first)
        require_moderate(block, "atoms")
        away = block - middle
        top = float(np.abs(away).max())
        exponent = exponent_of(top)
        return top, np.ldexp(measure_norms(np.ldexp(away, -exponent)), exponent)

    found = list(map_ordered(measure, atoms.blocks(block_rows(atoms))))
    units = Units(middle, exponent_of(max(top for top, _ in found)))
    norms = np.concatenate([each for _, each in found])
    np.ldexp(norms, -units.exponent, out=norms)
    norms *= 1.0 + 4.0 * UNIT
    norms += TINY
    return AtomSizes(units, norms)


def order_banned(starts: Ints, ids: Ids) -> Banned:
    """Turn ids per target, as in `Chunk`, into pairs."""
    targets = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.argsort(ids, kind="stable")
    return Banned(targets[order], ids[order])
