"""Atoms as int8 codes about the origin, with their lengths, and passes over them.

The key of a row is what its code bounds <q, a> by, plus rho |a|: a quarter of the bytes
of `_sheet`, half of its time. The errors of the codes are part of the keys, so that
atoms that are not listed are bounded all the same.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, Ids, Singles, Vector
from wolfhound.gram._units import Units
from wolfhound.many import _code_kernels as kernels
from wolfhound.many._pass_kernels import Lists, finish, make_lists
from wolfhound.many._sheet import AtomSizes, Banned, Listing
from wolfhound.oracles._question import Question, lengths
from wolfhound.oracles.int8.codes import CodedQueries, Codes, encode_queries
from wolfhound.oracles.int8.encoding import encode_atoms
from wolfhound.oracles.int8.layout import PackedQueries

_SPAN = 4096
"""Blocks that are swept before the time is looked at."""


class CodeSheet(NamedTuple):
    """The atoms of a pass, as codes.

    Attributes
    ----------
    units : Units
    codes : Codes
        About the centre of these units.
    lengths : (n,) float32
        At least the length of every atom, in the units of the codes.
    """

    units: Units
    codes: Codes
    lengths: Singles

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
        """As `Sheet.list_atoms`."""
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
        lists = make_lists(m, h, start)
        # Of a query that is nothing, nothing is listed and nothing known.
        lists.level[coded.hopeless] = np.inf
        if not _sweep(codes, coded, banned, lists, h, over):
            return None
        finish(lists, h)
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
    codes: Codes, coded: CodedQueries, banned: Banned, lists: Lists, h: int, over: Callable[[], bool]
) -> bool:
    """Offer all rows to the lists; False if time is over."""
    rules = coded.rules.copy()
    rules["floor"] = lists.level
    asked = PackedQueries(coded.levels, rules, coded.slack, coded.exclude)
    packed, bans, blocks = codes.pack(), _group(banned, len(rules)), len(codes.blocks)
    for start in range(0, blocks, _SPAN):
        if over():
            return False
        kernels.list_blocks(packed, (start, min(start + _SPAN, blocks)), asked, bans, lists, h)
    return True


def _group(banned: Banned, m: int) -> kernels.Bans:
    """Pairs by target."""
    order = np.argsort(banned.targets, kind="stable")
    starts = np.searchsorted(banned.targets[order], np.arange(m + 1))
    return kernels.Bans(starts.astype(np.int64), banned.places[order])


def encode_sheet(atoms: Atoms, measured: AtomSizes) -> CodeSheet:
    """Encode all atoms about the centre of their units."""
    return _join(encode_atoms(atoms, centre=measured.units.centre), measured)


def encode_some(atoms: Atoms, ids: Ids, measured: AtomSizes) -> CodeSheet:
    """Encode some atoms."""
    codes = encode_atoms(as_atoms(atoms.take(ids)), centre=measured.units.centre)
    return _join(codes, measured._replace(lengths=measured.lengths[ids]))


def _join(codes: Codes, measured: AtomSizes) -> CodeSheet:
    scaled = np.ldexp(measured.lengths, measured.units.exponent - codes.exponent)
    return CodeSheet(measured.units, codes, np.nextafter(scaled.astype(np.float32), np.float32(np.inf)))
