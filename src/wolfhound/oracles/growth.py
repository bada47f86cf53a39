"""Buckets after an edit, and when it pays to make them anew.

Rows that are added go to the buckets that they would have been put into, at their places there:
an edited table is the one that its own centres, or hashes, make of the atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.oracles.buckets import Bucketing, Buckets, default_budget, distances
from wolfhound.oracles.int8.editing import insert_codes, move_codes
from wolfhound.progress import report_rows
from wolfhound.validate import count, flag, number, require

CROWDED = 2.0
"""How many times fuller the bucket of an atom may be, on average, than when it was built."""

_LARGEST = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """How an index was built, and how far edits have taken it from there.

    Attributes
    ----------
    n : int
        Atoms that it was built of.
    crowding : float
        Atoms in the bucket of an atom, on average over the atoms, then.
    edits : int
        Rows that came or went since.
    seed : int
        Of the build.
    axes, bucket : optional
        Of the build of an `LshIndex`.
    """

    n: int
    crowding: float
    edits: int = 0
    seed: int = 0
    axes: int | None = None
    bucket: float | None = None

    @classmethod
    def begin(cls, buckets: Buckets, seed: int = 0, **settings: Any) -> Ancestry:
        """Return that of an index which was just built."""
        return cls(n=buckets.codes.n, crowding=crowding(buckets.offsets), seed=seed, **settings)

    def edit(self, rows: int) -> Ancestry:
        """Return that of the index after so many rows came or went."""
        return replace(self, edits=self.edits + rows)

    def is_stale(self, offsets: Ints) -> bool:
        """Whether to build anew.

        That is so where the bucket of an atom holds twice as many as it did, by growth or
        because what was added falls into few buckets, where half of the atoms have gone, or where
        as many rows came and went as there were: a build is then paid for by as many edits.
        """
        n = int(offsets[-1])
        fuller = crowding(offsets) > CROWDED * max(self.crowding, 1.0)
        return fuller or 2 * n < self.n or self.edits >= self.n

    @classmethod
    def of(cls, params: Mapping[str, Any], buckets: Buckets) -> Ancestry:
        """Return one that was saved; that of a fresh index, if none was."""
        if "origin" not in params:
            return cls.begin(buckets)
        given = params["origin"]
        axes, bucket = given["axes"], given["bucket"]
        n, edits, seed = (count(given[name], name) for name in ("n", "edits", "seed"))
        require(max(n, edits, seed) < _LARGEST, "origin", "of moderate numbers", given)
        return cls(
            n=n,
            crowding=number(given["crowding"], "crowding", low=0.0),
            edits=edits,
            seed=seed,
            axes=None if axes is None else count(axes, "axes", low=1),
            bucket=None if bucket is None else number(bucket, "bucket", low=1.0),
        )


def crowding(offsets: Ints) -> float:
    """Atoms in the bucket of an atom, on average over the atoms.

    Examples
    --------
    >>> crowding(np.array([0, 1, 4]))
    2.5
    """
    sizes = np.diff(offsets).astype(np.float64)
    return float(np.square(sizes).sum() / offsets[-1])


def wants_rebuild(wish: bool | None, origin: Ancestry, offsets: Ints | None = None) -> bool:
    """Whether to build anew: as the caller wishes, else where it pays; without offsets, if that is sure."""
    if wish is not None:
        return flag(wish, "rebuild")
    return origin.edits >= origin.n if offsets is None else origin.is_stale(offsets)


def follow_budget(budget: int, before: Atoms, after: Atoms) -> int:
    """Return the budget after an edit: one that was the default stays the default."""
    return default_budget(after) if budget == default_budget(before) else budget


# ---------------------------------------------------------------- adding


def insert_rows(buckets: Buckets, bucketing: Bucketing, atoms: Atoms, added: Atoms) -> Buckets | None:
    """Return buckets with new rows in them; None if the units of the codes do not suit the new rows.

    Reads the new rows, and some of those that they are put between.

    Parameters
    ----------
    buckets, bucketing
        Of the atoms before.
    atoms, added
        All of them now, and the new ones.
    """
    codes, n = buckets.codes, buckets.codes.n
    middle = codes.centre.astype(atoms.dtype)
    owner, lengths = _measure(bucketing, added, middle)
    before = _find_places(buckets, atoms, middle, owner, lengths)
    order = np.lexsort((-lengths, owner))
    places = before[order] + np.arange(len(order))
    sources, ids = np.full(atoms.shape[0], -1), np.empty(atoms.shape[0], np.int64)
    ids[places] = n + order
    old = np.ones(len(ids), np.bool_)
    old[places] = False
    sources[old], ids[old] = np.arange(n), codes.ids
    made = insert_codes(codes, added, sources, ids)
    more = np.cumsum(np.bincount(owner, minlength=bucketing.buckets))
    offsets = buckets.offsets + np.concatenate([[0], more])
    return None if made is None else Buckets(made, offsets.astype(np.int64))


def _measure(bucketing: Bucketing, added: Atoms, middle: Matrix) -> tuple[Ints, Vector]:
    """Bucket of each row, and its distance from the centre."""
    owners, lengths = [], []
    for _, block in added.blocks(block_rows(added)):
        report_rows(len(block))
        owners.append(bucketing.assign(block))
        lengths.append(distances(block, middle))
    return np.concatenate(owners), np.concatenate(lengths)


def _find_places(buckets: Buckets, atoms: Atoms, middle: Matrix, owner: Ints, lengths: Vector) -> Ids:
    """Place of the first row in its bucket that is nearer to the centre than each new row, by bisection."""
    low, high = buckets.offsets[owner], buckets.offsets[owner + 1]
    while len(left := np.flatnonzero(low < high)):
        half = (low[left] + high[left]) // 2
        farther = distances(atoms.take(buckets.codes.ids[half]), middle) >= lengths[left]
        low[left] = np.where(farther, half + 1, low[left])
        high[left] = np.where(farther, high[left], half)
    return low


# ---------------------------------------------------------------- leaving out


def delete_rows(buckets: Buckets, gone: Ids) -> Buckets:
    """Return buckets without some rows; no row is read.

    What is known of all codes together, their height and largest error, stays: it bounds those
    that are left.

    Parameters
    ----------
    buckets
        Of the atoms before.
    gone
        Ids, ascending.
    """
    codes = buckets.codes
    stays = np.ones(codes.n, np.bool_)
    stays[gone] = False
    kept = np.flatnonzero(stays[codes.ids])
    ids = (np.cumsum(stays) - 1)[codes.ids[kept]]
    offsets = np.searchsorted(kept, buckets.offsets).astype(np.int64)
    return Buckets(replace(codes, **move_codes(codes, kept, ids)._asdict()), offsets)
