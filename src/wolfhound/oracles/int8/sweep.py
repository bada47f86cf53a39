"""One pass over codes: what bounds every row, and the rows that can be among the best."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Singles
from wolfhound.oracles.int8 import _sweep_kernels
from wolfhound.oracles.int8.codes import CodeChunk, CodedQueries, CodeStore
from wolfhound.oracles.int8.layout import PAIR, ROWS, PackedQueries, shape_of
from wolfhound.progress import report_rows
from wolfhound.threads import map_ordered

_ROOM = 8192

_LARGE = 16 << 20
"""Bytes of codes from which on a sample costs little beside a pass."""

_SAMPLE = 64
"""Blocks of a sample."""

_MANY = 0.25
"""Share of a sample from which on scoring what is left takes longer than a pass over the atoms."""


@dataclass(frozen=True, slots=True, eq=False)
class CodeCandidates:
    """Rows that can be among the best of m queries.

    Attributes
    ----------
    keys, lows, places : (m, c)
        Upper bounds of the kernel, what a row surely reaches, and places in the codes;
        -inf and -1 where padded.
    floors : (m,) float32
        Rows that are no candidates have keys below; inf: there were too many.
    """

    keys: Singles
    lows: Singles
    places: Ids
    floors: Singles


def room(k: int) -> int:
    """How many candidates a query may have in a chunk."""
    return max(8 * k, _ROOM) + ROWS


def try_sample(codes: CodeStore, queries: CodedQueries, k: int) -> tuple[NDArray[np.bool_], int]:
    """See in a sample whether codes tell rows apart; where that costs little anyway, hope for it.

    That is so of few codes, and of one query: what it loses is a read of the codes, a
    quarter of a read of the rows. The sample is read from far apart, as neighbours may be alike.

    Returns
    -------
    hopeless : (m,) bool
        Queries of which codes decide too little.
    rows : int
        Rows of the sample.
    """
    blocks, pairs, _ = shape_of(codes.n, len(codes.centre))
    if blocks * pairs * PAIR < _LARGE or blocks <= _SAMPLE or len(queries.hopeless) == 1:
        return queries.hopeless, 0
    # Without the last block, which may have gaps.
    sample = codes.sample(np.arange(_SAMPLE) * ((blocks - 1) // _SAMPLE))
    wanted = max(1, k * sample.n // codes.n)
    found = _sweep(CodeChunk(sample, (0, _SAMPLE)), queries, wanted, _lowest(queries))
    left = (found.places >= 0).sum(axis=1)
    return queries.hopeless | (left > _MANY * sample.n), sample.n


def sweep_codes(codes: CodeStore, queries: CodedQueries, k: int) -> CodeCandidates:
    """Read all codes once; keep all rows that can be among the k best.

    The chunks, and the floors that they begin with, do not depend on the threads.
    """
    chunks, lowest = codes.chunks(), _lowest(queries)
    first = next(chunks)
    parts = [_sweep(first, queries, k, lowest)]
    report_rows(first.rows)
    # What the first chunk tells of the k best holds for all.
    floors = np.where(parts[0].floors == np.inf, lowest, parts[0].floors)

    def work(chunk: CodeChunk) -> tuple[int, CodeCandidates]:
        return chunk.rows, _sweep(chunk, queries, k, floors)

    for rows, part in map_ordered(work, chunks, blas=False):
        report_rows(rows)
        parts.append(part)
    keys, lows, places = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("keys", "lows", "places")
    )
    return CodeCandidates(keys, lows, places, np.max([part.floors for part in parts], axis=0))


def _lowest(queries: CodedQueries) -> Singles:
    """Floors to begin with: of hopeless queries nothing is kept."""
    return np.where(queries.hopeless, np.inf, -np.inf).astype(np.float32)


def _sweep(chunk: CodeChunk, queries: CodedQueries, k: int, floors: Singles) -> CodeCandidates:
    """Sweep the blocks of a chunk; rows below the floors are not wanted."""
    m = len(queries.levels)
    found = _sweep_kernels.empty_found(m, room(k))
    keys, lows, places, fill = found[:4]
    rules = queries.rules.copy()
    rules["floor"] = floors
    asked = PackedQueries(queries.levels, rules, queries.slack, queries.exclude)
    _sweep_kernels.sweep(chunk.packed, chunk.span, asked, k, found)
    width = max(0, int(fill.max()))
    # Copies: what has no candidates is not kept.
    keys, lows, places = keys[:, :width].copy(), lows[:, :width].copy(), places[:, :width] + chunk.first
    if m > 1:
        padded = np.arange(width) >= fill[:, None]
        keys[padded], lows[padded], places[padded] = -np.inf, -np.inf, -1
    return CodeCandidates(keys, lows, places, rules["floor"])
