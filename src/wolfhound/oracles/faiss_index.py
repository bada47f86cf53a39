"""`FaissIndex`: an index that you built or loaded with faiss, as an oracle.

faiss finds candidates; what they score is settled in `_hits`, as for every oracle.
The only importer of faiss, and only where one is made: the extra ``wolfhound[faiss]``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Singles, Vector
from wolfhound.core.threads import get_threads
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import as_atoms
from wolfhound.oracles.asking import CheckedOracle, Question, join, offer

_GATHER = 64 << 20  # bytes of candidates' rows that are gathered at once
_PER_THREAD = 32  # queries for which another thread pays: those of faiss spin where cores are shared


@final
class FaissIndex(CheckedOracle):
    """An index of faiss: candidates by its scores, re-scored exactly in float64.

    Proves nothing: bounds are inf. Needs ``pip install 'wolfhound[faiss]'``. It is asked as its
    search is set up, such as by ``nprobe``; saving it is up to faiss.

    Parameters
    ----------
    index : faiss.Index
        Of the metric inner product. Holds the n atoms, all less one vector or times one
        positive number if you like; their ids are their positions.
    atoms
        Atoms, an array or a path.
    rerank
        Candidates that are scored again from their rows.

    Examples
    --------
    >>> import faiss
    >>> rows = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    >>> index = faiss.index_factory(8, "HNSW16", faiss.METRIC_INNER_PRODUCT)
    >>> index.add(rows)
    >>> oracle = FaissIndex(index, rows)
    >>> bool(oracle.query(rows[:1]).ids[0, 0] == (rows @ rows[0]).argmax())
    True
    """

    def __init__(self, index: object, atoms: AtomsLike, *, rerank: int = 64) -> None:
        faiss, given = _import_faiss(), cast(Any, index)
        self._atoms: Atoms = as_atoms(atoms)
        if not isinstance(given, faiss.Index):
            raise TypeError(f"`index` must be a faiss.Index. Got {type(given).__name__}.")
        n, d = self._atoms.shape
        require(given.d == d, "index", f"of dimension {d}, as the atoms are", given.d)
        require(given.is_trained, "index", "trained", "one that is not")
        require(given.ntotal == n, "index", f"of {n} vectors, as many as there are atoms", given.ntotal)
        inner = given.metric_type == faiss.METRIC_INNER_PRODUCT
        require(inner, "index", "of the metric inner product", f"metric {given.metric_type}")
        self._index, self._rerank = given, count(rerank, "rerank", low=1)

    @property
    def index(self) -> Any:
        """The index of faiss."""
        return self._index

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the atoms."""
        return int(_import_faiss().serialize_index(self._index).nbytes)

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds change nothing.

        `scored` counts all atoms, or what graphs and lists score: of that faiss knows the sum
        over all queries of the process, and each gets its share.
        """
        wide = max(question.k, self._rerank) + question.exclude.shape[1]
        row = self._atoms.shape[1] * self._atoms.dtype.itemsize
        step = max(1, _GATHER // (row * min(self._atoms.shape[0], wide)))
        starts = range(0, len(question.queries), step)
        return join([self._answer_some(question.only(slice(start, start + step))) for start in starts])

    def _answer_some(self, question: Question) -> Hits:
        """Answer as many queries as have room for their candidates' rows."""
        n, m = self._atoms.shape[0], len(question.queries)
        rescored = max(question.k, self._rerank)
        fetch = rescored + int((question.exclude >= 0).sum(axis=1).max(initial=0))
        if fetch >= n:
            every = np.tile(np.arange(n), (m, 1))
            return offer(self._atoms, question, _leave_out(every, question.exclude, n), scored=np.full(m, n))
        before = _count_scored()
        with _hold_threads(min(get_threads(), 1 + m // _PER_THREAD)):
            ids: Ids = self._index.search(_make_units(question.queries), fetch)[1]
        each, rest = divmod(_count_scored() - before, m)
        scored = each + (np.arange(m) < rest) if each + rest else np.full(m, n)
        _check_positions(ids, n)
        ids = _leave_out(ids, question.exclude, rescored)
        lost = (ids < 0).all(axis=1)
        if lost.any():  # scores that are all equal, as for a zero query, or a poor graph
            first = np.tile(np.arange(fetch), (int(lost.sum()), 1))
            ids[lost] = _leave_out(first, question.exclude[lost], rescored)
            scored = np.minimum(n, scored + rescored * lost)
        return offer(self._atoms, question, ids, scored=scored)

    def __repr__(self) -> str:
        return f"FaissIndex({type(self._index).__name__}, {self._atoms!r}, rerank={self._rerank})"


def _import_faiss() -> Any:
    try:
        import faiss  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(f"FaissIndex needs faiss: pip install 'wolfhound[faiss]' ({error}).") from None
    return faiss


def _count_scored() -> int:
    """Atoms scored so far by all graphs and lists of this process."""
    stats = _import_faiss().cvar
    return int(stats.hnsw_stats.ndis) + int(stats.indexIVF_stats.ndis)


@contextlib.contextmanager
def _hold_threads(number: int) -> Iterator[None]:
    """Let faiss use so many threads; the caller's setting comes back."""
    faiss = _import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _make_units(queries: Vector) -> Singles:
    """(m, d) queries of length 1: float32 holds them all."""
    near = np.ldexp(queries, -np.frexp(np.abs(queries).max(axis=1, keepdims=True))[1])
    length = np.sqrt(np.square(near).sum(axis=1, keepdims=True))
    return np.ascontiguousarray(near / np.where(length > 0.0, length, 1.0), np.float32)


def _check_positions(ids: Ids, n: int) -> None:
    """Raise ValueError if an index answers what are no positions of atoms."""
    rule = f"one whose ids are the positions of {n} atoms"
    require(bool(ids.max() < n), "index", rule, f"id {ids.max()}")
    ordered = np.sort(ids, axis=1)
    repeated = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)]
    require(not len(repeated), "index", rule, f"id {repeated.max(initial=-1)} twice")


def _leave_out(ids: Ids, exclude: Ids, limit: int) -> Ids:
    """The first `limit` of each row that are not excluded, padded with -1."""
    if not exclude.size:
        return ids[:, :limit]
    span = max(ids.max(), exclude.max()) + 2
    place = span * np.arange(len(ids))[:, None]
    gone = np.isin(ids + place, (exclude + place)[exclude >= 0]) | (ids < 0)
    order = np.argsort(gone, axis=1, kind="stable")[:, :limit]
    return np.take_along_axis(np.where(gone, -1, ids), order, axis=1)
