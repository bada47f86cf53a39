"""How many atoms must be probed to find an atom at tau: measured on planted pairs.

The directions of a hash are random, so a pair of a query and an atom at a given
angle is as good as any other pair; what differs is how many atoms share the
buckets in front. Queries are drawn from the whole sphere and from the atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wolfhound.core import Ints, Matrix, Singles, Vector
from wolfhound.oracles import _hash_kernels as kernels
from wolfhound.oracles._order_kernels import Promises
from wolfhound.oracles.hashes import Family, Hash, draw_hash

PAIRS = 512
"""Planted pairs of each kind."""

_LENGTHS = (16, 48, 144, 432)
"""Atoms per bucket that are tried."""

_ORDERED = 0.02
"""What it costs to order a bucket, in atoms scored."""

_CONFIDENCE = 1.65
"""Deviations by which the measured share must exceed the promised one."""


def length(family: Family, sample: Matrix, n: int, tau: float, *, tables: int, delta: float) -> int:
    """Atoms per bucket with which an atom at tau takes the least work to find, by a sample of n."""

    def work(per_bucket: int) -> float:
        rng = np.random.default_rng(per_bucket)
        sized: list[tuple[Hash, Ints]] = []
        for _ in range(tables):
            hashing = draw_hash(family, sample, n, per_bucket=per_bucket, rng=rng)
            sized.append((hashing, np.bincount(hashing.assign(sample), minlength=hashing.buckets)))
        rows = sized[0][0].scale(sample)
        radius = float(np.sqrt(np.einsum("ij,ij->i", rows, rows)).max())
        found = budgets(sized, rows, radius, np.array([tau]), delta=delta, rng=rng)[0]
        return float(found) * n / len(sample) + _ORDERED * sized[0][0].buckets

    return min(_LENGTHS, key=work)


def budgets(
    tables: Sequence[tuple[Hash, Ints]],
    sample: Singles,
    radius: float,
    taus: Vector,
    *,
    delta: float,
    rng: np.random.Generator,
) -> Ints:
    """Atoms that each table must probe to find an atom at tau with probability 1 - delta.

    Parameters
    ----------
    tables
        Hashes, and how many atoms each bucket holds.
    sample : (r, d)
        Some atoms, centred and scaled.
    radius
        The largest norm of a centred and scaled atom.
    taus : (t,)
        ``<q, s> / (|q| radius)`` of the atom that is to be found.
    delta
        How often it may be missed.
    rng
        Of the pairs.
    """
    d = sample.shape[1]
    edges = tables[0][0].edges
    worst = np.zeros(len(taus), np.int64)
    picked = sample[rng.integers(0, len(sample), PAIRS)].astype(np.float64)
    for queries in (rng.standard_normal((PAIRS, d)), picked + 1e-9 * rng.standard_normal((PAIRS, d))):
        units = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        promises = [table.promises(units, np.ones(PAIRS)) for table, _ in tables]
        across = rng.standard_normal((PAIRS, d))
        across -= np.einsum("ij,ij->i", across, units)[:, None] * units
        across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
        for i, tau in enumerate(taus):
            # Of all atoms in a range of norms the longest has the smallest cosine.
            for norm in (*edges[edges >= tau * radius], radius):
                cosine = min(1.0, float(tau * radius / norm)) if norm > 0.0 else 1.0
                planted = norm * (cosine * units + math.sqrt(1.0 - cosine**2) * across)
                found = _find(tables, promises, planted.astype(np.float32))
                worst[i] = max(worst[i], _quantile(found, delta))
    return np.maximum.accumulate(worst[np.argsort(-taus)])[np.argsort(np.argsort(-taus))]


def _find(tables: Sequence[tuple[Hash, Ints]], promises: Sequence[Promises], planted: Singles) -> Ints:
    """Budget with which one of the tables finds each planted atom."""
    out = np.empty((len(tables), len(planted)), np.int64)
    for row, (table, sizes), promised in zip(out, tables, promises, strict=True):
        kernels.measure_budgets(promised, sizes, table.place(planted), row)
    return np.asarray(out.min(axis=0))


def _quantile(found: Ints, delta: float) -> int:
    """Return a budget that is enough for a share 1 - delta, and a little more."""
    size = len(found)
    wanted = (1.0 - delta) * size + _CONFIDENCE * math.sqrt(size * delta * (1.0 - delta))
    return int(np.sort(found)[min(size, math.ceil(wanted)) - 1])
