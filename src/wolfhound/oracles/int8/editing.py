"""Codes after an edit: what is known of the rows that stay is moved, not computed again.

The code of a row depends on the row and on the units that all share, on no other row. So where
a build over the new atoms would choose the same units, codes that are moved are its own, to the bit.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np

from wolfhound._files import lock
from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.oracles.int8.codes import Codes, reach
from wolfhound.oracles.int8.encoding import Encoder, Extent, choose_encoder, encode_atoms, join_extents
from wolfhound.oracles.int8.layout import PackedRows, copy_rows, empty_rows
from wolfhound.progress import report_rows
from wolfhound.threads import map_ordered

_MODERATE = 2.0**40
"""Sizes of codes, in their units, up to which no build would choose these units anew."""

_SPAN = 4096
"""Blocks that one thread copies at a time."""

_NO_IDS: Ids = np.empty(0, np.int64)


# ---------------------------------------------------------------- in the order of the atoms


def append_codes(codes: Codes, atoms: Atoms, added: Atoms) -> Codes:
    """Return the codes that `encode_atoms` gives of atoms which were appended to, to the bit.

    Parameters
    ----------
    codes
        Of the atoms before, in their order.
    atoms, added
        All of them now, and the new ones.
    """
    encoder, n = _same_encoder(codes, atoms), atoms.shape[0]
    if encoder is None:
        return encode_atoms(atoms)
    packed = empty_rows(n, atoms.shape[1], _NO_IDS)
    packed.blocks[: len(codes.blocks)] = codes.blocks
    packed.scales[: codes.n], packed.errors[: codes.n] = codes.scales[: codes.n], codes.errors[: codes.n]
    extent = _encode(encoder, added, np.arange(codes.n, n), packed)
    return grow(codes, packed, extent) if _is_moderate(codes, packed) else encode_atoms(atoms)


def remove_codes(codes: Codes, atoms: Atoms, gone: Ids, lost: Matrix) -> Codes:
    """Return the codes that `encode_atoms` gives of atoms of which some were left out, to the bit.

    Where the longest row has gone, or the one of the largest error, all are encoded again.

    Parameters
    ----------
    codes
        Of the atoms before, in their order.
    atoms
        Those that are left.
    gone, lost : (r,) and (r, d)
        Ids that the others had, ascending, and their rows.
    """
    encoder = _same_encoder(codes, atoms)
    if encoder is None:
        return encode_atoms(atoms)
    spare = empty_rows(len(lost), lost.shape[1], _NO_IDS)
    extent = encoder.encode(gone, lock(lost), np.arange(len(lost)), spare)
    if extent.height >= codes.height or extent.error >= codes.error:
        return encode_atoms(atoms)
    packed = move_codes(codes, np.delete(np.arange(codes.n), gone), _NO_IDS)
    kept = replace(codes, **packed._asdict())
    return kept if _is_moderate(codes, packed) else encode_atoms(atoms)


def _same_encoder(codes: Codes, atoms: Atoms) -> Encoder | None:
    """Return the encoder of codes about no centre, if a build over these atoms would begin with it."""
    encoder, guess = choose_encoder(atoms, None)
    same = (encoder.exponent, encoder.frame.zero) == (codes.exponent, codes.zero)
    # A guess that is none leaves the units open, and so do extremes.
    near = 2.0**-2 < np.ldexp(guess, -encoder.exponent) < 2.0
    return encoder if same and near and not codes.centre.any() else None


# ---------------------------------------------------------------- in any order


def insert_codes(codes: Codes, added: Atoms, sources: Ids, ids: Ids) -> Codes | None:
    """Return codes with those of new rows between them; None if the units do not suit the new rows.

    Parameters
    ----------
    codes
        Of the atoms before.
    added
        The new ones, whose ids follow.
    sources, ids : (n,)
        Of what is at each place: its place before, -1 if it is new; and its id.
    """
    encoder = Encoder.at(codes.exponent, codes.centre, codes.zero, added.dtype)
    packed = move_codes(codes, sources, ids)
    places = np.flatnonzero(sources < 0)
    extent = _encode(encoder, added, places[np.argsort(ids[places])], packed)
    # The largest error must stay small beside the scale: else bounds are true and tell nothing.
    return grow(codes, packed, extent) if _is_moderate(codes, packed) else None


def move_codes(codes: Codes, sources: Ids, ids: Ids) -> PackedRows:
    """Return codes at other places; where a source is -1, there is nothing yet."""
    packed = empty_rows(len(sources), len(codes.centre), ids)
    spans = range(0, len(packed.blocks), _SPAN)

    def work(start: int) -> None:
        span = start, min(start + _SPAN, len(packed.blocks))
        copy_rows(codes.blocks, sources, span, packed.blocks)

    for _ in map_ordered(work, spans, blas=False):
        report_rows(0)
    old = np.flatnonzero(sources >= 0)
    packed.scales[old], packed.errors[old] = codes.scales[sources[old]], codes.errors[sources[old]]
    return packed


def grow(codes: Codes, packed: PackedRows, extent: Extent) -> Codes:
    """Return codes in the units of others, with rows of this extent among them."""
    height, error = max(codes.height, extent.height), max(codes.error, extent.error)
    radius = reach(codes.centre, height + error, codes.exponent)
    return replace(codes, **packed._asdict(), height=height, error=error, radius=radius)


def _encode(encoder: Encoder, added: Atoms, places: Ids, packed: PackedRows) -> Extent:
    """Encode new rows to their places."""

    def work(task: tuple[int, Matrix]) -> tuple[int, Extent]:
        first, block = task
        ids = np.arange(first, first + len(block))
        return len(block), encoder.encode(ids, block, places[ids], packed)

    extents = []
    for rows, extent in map_ordered(work, added.blocks(block_rows(added))):
        report_rows(rows)
        extents.append(extent)
    return join_extents(extents)


def _is_moderate(codes: Codes, packed: PackedRows) -> bool:
    """Whether rows are of a size that suits the units; errors of those that are not may be infinite."""
    largest = float(packed.scales.max()) * (127 + codes.zero)
    return 1.0 / _MODERATE < largest < _MODERATE and bool(np.isfinite(packed.errors).all())
