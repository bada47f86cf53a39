"""`RandomSubset`: answers from fresh random atoms, the baseline of every index."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from wolfhound.core.contracts import AtomsLike, Hits, Ids, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.threads import alone
from wolfhound.core.validate import count, rng
from wolfhound.data.atoms import FewAtoms, as_atoms, block_rows
from wolfhound.oracles._scan_kernels import best_listed
from wolfhound.oracles.asking import CheckedOracle, Question, empty_top, in_memory, make_hits, pad
from wolfhound.oracles.indexes import Estimate, IndexKind, Workload
from wolfhound.oracles.scan import Scan

LEAST = 1000  # atoms of a sample by default, if that is more than 1 % of them
_RUN = 32 << 10  # bytes of a run of neighbours: single rows miss the cache (measured: twice as slow)
_RUNS = 64  # a sample has at least so many runs, lest it show one corner of an ordered file


@final
class RandomSubset(CheckedOracle):
    """Scores a fresh random sample of the atoms at every call; proves nothing.

    Every atom is in a sample with the same chance, ``size / n``. For speed a
    sample is made of short runs of neighbours (32 KiB, 64 rows of 128 float32)
    at uniformly random places, none overlapping; in a file whose neighbours are
    alike it is worth as little as one atom per run. The queries of one call
    share the sample. The answer is exact within it, ties included.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    size
        Atoms of a sample, at most n; default: 1 % of them, but at least 1000.
    seed
        Of the samples. The same seed gives the same answers, in order.

    Examples
    --------
    >>> subset = RandomSubset(np.eye(3), size=1)
    >>> queries = np.array([[1.0, 3.0, 2.0]])
    >>> sorted({float(subset.query(queries).scores[0, 0]) for _ in range(100)})
    [1.0, 2.0, 3.0]
    """

    def __init__(
        self, atoms: AtomsLike, *, size: int | None = None, seed: int | np.random.Generator = 0
    ) -> None:
        self._atoms = as_atoms(atoms)
        n, d = self._atoms.shape
        wanted = max(LEAST, n // 100) if size is None else count(size, "size", low=1)
        self._size = min(n, wanted)
        row = d * self._atoms.dtype.itemsize
        self._run = max(1, min(_RUN // row, self._size // _RUNS))
        self._rng = rng(seed)

    @property
    def size(self) -> int:
        """Atoms of a sample."""
        return self._size

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries from one sample; thresholds are ignored."""
        with alone:  # what one call draws is not mixed with what another thread does
            ids = _draw(self._rng, self._atoms.shape[0], self._size, self._run)
        rows, wide = in_memory(self._atoms), (1, len(ids))
        if rows is not None and len(question.queries) == 1 and len(ids) <= block_rows(self._atoms):
            top, best = empty_top(rows, question.k), (np.empty(wide), np.empty(wide, np.int64))
            found = best_listed(rows, question.queries, ids[None], question.exclude, best, top)
            report_rows(len(ids))
            if found >= 0:  # else some are not finite: the scan says which
                return make_hits(top, found, 0.0, math.inf)
        scored = np.full(len(question.queries), self._size)
        at = np.minimum(np.searchsorted(ids, question.exclude), len(ids) - 1)
        excluded = np.where(ids[at] == question.exclude, at, -1)  # places in the sample
        hits = Scan(FewAtoms(self._atoms, ids), screen=False).query(
            question.queries, k=question.k, exclude=excluded
        )
        return replace(
            hits,
            ids=pad(np.where(hits.ids >= 0, ids[hits.ids], -1), question.k, -1),
            scores=pad(hits.scores, question.k, -np.inf),
            slots=pad(hits.slots, question.k, 0),
            bounds=np.full(len(scored), math.inf),
            scored=scored,
            passes=0.0,
            radius=math.inf,
        )

    def __repr__(self) -> str:
        return f"RandomSubset({self._atoms!r}, size={self._size})"


def _draw(rng: np.random.Generator, n: int, size: int, run: int) -> Ids:
    """Return `size` distinct ids, ascending, in runs of neighbours.

    The atoms lie on a ring. Where its runs are shrunk to points, the sample is
    a plain random one; a random rotation then gives every atom the same chance.
    """
    runs = -(-size // run)
    points = np.sort(rng.choice(n - size + runs, runs, replace=False, shuffle=False))
    ring = np.repeat(points - np.arange(runs), run)[:size] + np.arange(size)
    turn = int(rng.integers(n))
    over = np.searchsorted(ring, n - turn)  # from here on a turn leads past the end
    return np.concatenate([ring[over:] + (turn - n), ring[:over] + turn])


# ---------------------------------------------------------------- what it costs

_LOSS = 0.025  # outside, a share p of the atoms reaches ``1 - loss / p``; inside, ``n^(c^2)`` reach c


def _estimate(work: Workload) -> Estimate:
    """Some random rows, for every query."""
    n, interior = work.n, work.interior
    if work.ratio == 1.0:  # none but all atoms reach it
        size = max(LEAST, n // 100)
    elif interior:
        size = math.ceil(math.pow(n, work.ratio**2))
    else:
        size = math.ceil(n * min(1.0, _LOSS / (1.0 - work.ratio)))
    size = min(n, size)
    if interior:
        ratio = math.sqrt(math.log(size) / math.log(n)) if n > 1 else 1.0
    else:
        ratio = max(0.0, 1.0 - _LOSS * n / size)
    reads = float(size * work.row)
    return Estimate(
        recipe=f"RandomSubset(atoms, size={size})",
        make=partial(RandomSubset, size=size),
        build=0.0,
        query=work.query_seconds(reads, scattered=True) + work.file_seconds(1, reads) / work.batch,
        scored=size,
        nbytes=0.0,
        ratio=ratio,
    )


SUBSET = IndexKind(
    name="subset", title="RandomSubset", build=RandomSubset, expected=_estimate, takes_ratio=True
)
