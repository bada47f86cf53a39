"""Atoms about the origin with their lengths, as rows or as int8 codes, and passes over them.

A pass lists for every query q the atoms of largest key <q, a> + rho |a|, which bounds the score of every
query within rho of q, and bounds the keys of all others. Rows have one more column than the atoms: the
product with (q, rho) is the key; float32 rows are quick, float64 rows are for queries that these do not
tell apart. The key of a code is what it bounds <q, a> by, plus rho |a|: a quarter of the bytes, half of the
time.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Ids, Ints, Matrix, Singles, Vector
from wolfhound.core.rounding import TINY, UNIT, gamma, product
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import require_moderate
from wolfhound.data.atoms import as_atoms, block_rows, check_finite
from wolfhound.many import _list_kernels as kernels
from wolfhound.many.batch import TILE, Banned, find_portion
from wolfhound.many.proofs import Units, exponent_of, measure_norms
from wolfhound.oracles.asking import Question, lengths
from wolfhound.oracles.int8.codes import Codes, encode_atoms, encode_queries
from wolfhound.oracles.int8.layout import CodedQueries

SINGLE = 2.0**-24
"""Unit roundoff of float32."""

UP = 1.0 + 2.0**-21
"""More than the rounding of a length to float32."""

_ROWS = 8192


class Listing(NamedTuple):
    """Per target the atoms of largest key, and what bounds the keys of all others."""

    ids: Ids  # (m, l) places of the atoms,
    fill: Ints  # (m,) of which so many
    level: Singles  # (m,) what the keys of others do not exceed, as computed
    edge: Vector  # (m,) as proved; -inf if every atom is listed that may be


class RowBlocks(NamedTuple):
    """The atoms of a pass, as rows."""

    units: Units
    radius: float  # at least every length, in these units
    kept: NDArray[Any]  # (n, d + 1) rows and lengths rounded up; empty if made anew in each pass
    atoms: Atoms

    def exact(self) -> RowBlocks:
        """The same in float64, made anew in each pass."""
        return self._replace(kept=self.kept[:0].astype(np.float64))

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first id, rows with lengths) over all atoms once, in order."""
        if len(self.kept):
            for first in range(0, len(self.kept), _ROWS):
                yield first, self.kept[first : first + _ROWS]
            return
        for first, block in self.atoms.blocks(_ROWS):
            yield first, lay_rows(self.units.convert(block), self.kept.dtype)

    def take(self, ids: Ids) -> RowBlocks:
        """Return a sheet of some atoms, kept."""
        kept = np.empty((len(ids), self.atoms.shape[1] + 1), self.kept.dtype)
        step = find_portion(self.atoms, len(ids))
        for start in range(0, len(ids), step):
            rows = self.atoms.take(ids[start : start + step])
            kept[start : start + step] = lay_rows(self.units.convert(rows), kept.dtype)
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
        """List about h atoms of largest key for every query, in one pass; None if time is over.

        (m, d) `queries` are float32 numbers, of norm up to 1, `rho`, how far they may turn, is one, too;
        keys must exceed `level`; `banned` is by rising atom; `over` is asked now and then whether to give up.
        """
        m, d = queries.shape
        kind = self.kept.dtype
        asked = np.full((m, d + 1), rho, kind)
        asked[:, :d] = queries
        lists = kernels.make_lists(m, h, level, kind)
        room = np.empty(m * TILE, kind)
        for start, block in self.blocks():
            if over():
                return None
            for at in range(0, len(block), TILE):
                part, first = block[at : at + TILE], start + at
                scores = room[: m * len(part)].reshape(m, len(part))
                product(asked, part.T, out=scores)
                low, high = np.searchsorted(banned.atoms, (first, first + len(part)))
                scores[banned.targets[low:high], banned.atoms[low:high] - first] = -np.inf
                kernels.select(scores, first, lists, h)
        kernels.finish(lists, h)
        edge = lists.level.astype(np.float64) + self._error(rho)
        return Listing(lists.ids, lists.fill, lists.level, edge)

    def _error(self, rho: float) -> float:
        """At most how far a computed key is below a true one, for queries of norm up to 1."""
        d = len(self.units.centre)
        unit = SINGLE if self.kept.dtype == np.float32 else UNIT
        lost = gamma(d + 2, unit) * (1.0 + rho) + 1.01 * unit
        return 1.01 * (lost * self.radius + (d + 2) * 2.0**-120)


def lay_rows(rows: Vector, kind: np.dtype[Any]) -> NDArray[Any]:
    """Rows in our units, with their lengths rounded up in one more column."""
    n, d = rows.shape
    out = np.empty((n, d + 1), kind)
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


# ---------------------------------------------------------------- codes

_SPAN = 4096
"""Blocks that are swept before the time is looked at."""


class EncodedRows(NamedTuple):
    """The atoms of a pass, as codes."""

    units: Units
    codes: Codes  # about the centre of these units
    lengths: Singles  # (n,) at least that of every atom, in the units of the codes

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
        """As `RowBlocks.list_atoms`."""
        m = len(queries)
        sizes = lengths(queries)
        # Kernels multiply errors by the size of the query, and rho is not to be: they get more of it.
        shortest = float(sizes.min(initial=1.0, where=sizes > 0.0)) * (1.0 - 2.0**-40)
        codes = self._widen(rho / shortest)
        question = Question(queries, 1, np.empty((m, 0), np.int64), sizes)
        coded = encode_queries(codes, question)
        # Keys are in units of 2**shift of ours.
        shift = codes.exponent - self.units.exponent
        start = None if level is None else np.ldexp(level, -shift).astype(np.float32)
        lists = kernels.make_lists(m, h, start, np.dtype(np.float32))
        # Of a query that is nothing, nothing is listed and nothing known.
        lists.level[coded.hopeless] = np.inf
        if not _sweep(codes, coded, banned, lists, h=h, over=over):
            return None
        kernels.finish(lists, h)
        listed = lists.level > -np.inf
        edge = np.where(listed, lists.level, 0.0).astype(np.float64) + coded.slack
        found = np.ldexp(np.where(coded.hopeless, np.inf, edge * (1.0 + 1e-15 * np.sign(edge))), shift)
        return Listing(lists.ids, lists.fill, np.ldexp(lists.level, shift), np.where(listed, found, -np.inf))

    def _widen(self, rho: float) -> Codes:
        """Codes whose errors hold rho times the length, too, rounded up."""
        if rho == 0.0:
            return self.codes
        errors = self.codes.errors.copy()
        wide = errors[: len(self.lengths)] + rho * self.lengths.astype(np.float64)
        errors[: len(wide)] = np.nextafter(wide.astype(np.float32), np.float32(np.inf))
        return replace(self.codes, errors=errors, error=float(errors.max()))


def _sweep(
    codes: Codes,
    coded: CodedQueries,
    banned: Banned,
    lists: kernels.TopLists,
    *,
    h: int,
    over: Callable[[], bool],
) -> bool:
    """Offer all rows to the lists; False if time is over."""
    rules = coded.rules.copy()
    rules["floor"] = lists.level
    asked = coded._replace(rules=rules)
    packed, blocks = codes.pack(), len(codes.blocks)
    order = np.argsort(banned.targets, kind="stable")
    starts = np.searchsorted(banned.targets[order], np.arange(len(rules) + 1)).astype(np.int64)
    out = starts, banned.atoms[order]
    for start in range(0, blocks, _SPAN):
        if over():
            return False
        kernels.list_blocks(packed, (start, min(start + _SPAN, blocks)), asked, out, lists, h)
    return True


def encode_rows(atoms: Atoms, measured: AtomSizes) -> EncodedRows:
    """Encode all atoms about the centre of their units."""
    return _join(encode_atoms(atoms, centre=measured.units.centre), measured)


def encode_some(atoms: Atoms, ids: Ids, measured: AtomSizes) -> EncodedRows:
    """Encode some atoms."""
    codes = encode_atoms(as_atoms(atoms.take(ids)), centre=measured.units.centre)
    return _join(codes, measured._replace(lengths=measured.lengths[ids]))


def _join(codes: Codes, measured: AtomSizes) -> EncodedRows:
    scaled = np.ldexp(measured.lengths, measured.units.exponent - codes.exponent)
    return EncodedRows(measured.units, codes, np.nextafter(scaled.astype(np.float32), np.float32(np.inf)))
