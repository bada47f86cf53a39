"""`HashTables`: the tables of an `LshIndex`, drawn, saved and loaded."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Atoms, Vector
from wolfhound.oracles import _planted as planted
from wolfhound.oracles._planted import AimedHash
from wolfhound.oracles._scale import FAR, sample_rows
from wolfhound.oracles.buckets import Buckets, BucketTable, fill_buckets
from wolfhound.oracles.hashes import Family, Hash, draw_hash
from wolfhound.oracles.promises import Promise
from wolfhound.store import Stored
from wolfhound.threads import one_blas_thread
from wolfhound.validate import count, number, require

PER_BUCKET = 96
SAMPLE = 20_000
"""Atoms that tell centre, scale, norms and principal axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawSettings:
    """What tables are drawn with, again after an edit; as of `LshIndex.build`."""

    tables: int
    copies: int
    axes: int | None
    bucket: float | None
    seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> DrawSettings:
        """Return those that were saved, or that a caller gives."""
        axes, bucket = given["axes"], given["bucket"]
        return cls(
            tables=count(given["tables"], "tables", low=1),
            copies=count(given["copies"], "copies", low=1),
            axes=None if axes is None else count(axes, "axes", low=1),
            bucket=None if bucket is None else number(bucket, "bucket", low=1.0),
            seed=count(given["seed"], "seed"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HashTables:
    """Buckets of atoms by several hashes.

    Attributes
    ----------
    all : list of BucketTable
        Copy after copy.
    settings : DrawSettings
    """

    all: list[BucketTable[Hash]]
    settings: DrawSettings

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(table.buckets.nbytes + table.bucketing.nbytes for table in self.all)

    @property
    def centre(self) -> Vector:
        """m, subtracted from every atom."""
        return self.all[0].bucketing.centre

    @property
    def radius(self) -> float:
        """R, at least the largest |s - m|."""
        codes = self.all[0].buckets.codes
        return math.ldexp(codes.height + codes.error, codes.exponent)

    def aim(self, cuts: Vector) -> list[BucketTable[AimedHash]]:
        """The same tables, probed as far as a promise takes."""
        ranges = {len(hashing.norms) for _, hashing in self.all}
        require(ranges == {cuts.shape[1]}, "cuts", f"one for each range of norms, {ranges}", cuts.shape[1])
        return [BucketTable(buckets, AimedHash(hashing, cuts)) for buckets, hashing in self.all]

    def start(self, queries: Vector) -> Vector:
        """Scores of the centre."""
        return np.asarray(np.einsum("ij,j->i", queries, self.centre))

    # ------------------------------------------------------------ to be saved

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, (buckets, hashing) in enumerate(self.all):
            arrays |= buckets.arrays(f"table{i}") | hashing.arrays(f"hash{i}")
        return arrays

    def numbers(self) -> dict[str, Any]:
        """What is to be saved, with `arrays`."""
        tables = {
            str(i): {"codes": buckets.codes.numbers(), "hash": hashing.numbers()}
            for i, (buckets, hashing) in enumerate(self.all)
        }
        return {"settings": asdict(self.settings), "tables": tables}

    @classmethod
    def of(cls, stored: Stored, shape: tuple[int, int]) -> HashTables:
        """Put together what was saved; whatever it holds, it can be searched."""
        params, tables = stored.params, []
        for i in range(len(params["tables"])):
            numbers = params["tables"][str(i)]
            hashing = Hash.of(stored, numbers["hash"], shape[1], f"hash{i}")
            buckets = Buckets.of(stored, numbers["codes"], shape, hashing.buckets, f"table{i}")
            tables.append(BucketTable(buckets, hashing))
        settings = DrawSettings.of(params["settings"])
        wanted = settings.tables * settings.copies
        require(len(tables) == wanted, "tables", f"{wanted}, those of all copies", len(tables))
        return cls(tables, settings)


def draw_tables(
    atoms: Atoms, family: Family, promise: Promise, settings: DrawSettings
) -> tuple[HashTables, Promise]:
    """Draw and fill all tables; measure what the promise takes."""
    n, taus, delta, tables = atoms.shape[0], promise.taus, promise.delta, settings.tables
    rng = np.random.default_rng(settings.seed)
    with one_blas_thread():  # rotations and projections have the same bits at any thread count
        sample = sample_rows(atoms, np.sort(rng.permutation(n)[:SAMPLE]))
        length = settings.bucket or PER_BUCKET
        if taus:
            length = planted.choose_length(family, sample, n, taus, tables=tables, delta=delta)
        filled = []
        for _ in range(tables * settings.copies):
            hashing = draw_hash(family, sample, n, per_bucket=length, rng=rng, axes=settings.axes)
            filled.append(BucketTable(fill_buckets(atoms, hashing, hashing.centre), hashing))
        made, hashing = HashTables(filled, settings), filled[0].bucketing
        if not taus:
            return made, promise
        radius = min(made.radius * hashing.unit, FAR * math.sqrt(atoms.shape[1]))
        options: dict[str, Any] = {"delta": delta, "tables": tables, "rng": rng}
        # What one table shows is not what another does: the lowest cut holds for all of them.
        each = [planted.find_cuts(table.bucketing, radius, taus, **options) for table in filled]
        cuts = np.min(each, axis=0)
        sizes = np.diff(filled[0].buckets.offsets)
        found = planted.count_typical(planted.AimedHash(hashing, cuts), sizes, hashing.scale(sample), rng)
    return made, replace(promise, cuts=tuple(map(tuple, cuts.tolist())), budgets=tuple(found.tolist()))
