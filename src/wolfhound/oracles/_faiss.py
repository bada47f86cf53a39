"""What is asked of faiss: to train, add, search, count, and to become bytes.

The only importer of faiss. Knows indexes and rows; nothing of `Hits`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, final

import faiss
import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import block_rows, check_finite
from wolfhound.core import Atoms, Ids, Ints, Matrix, Singles, Vector
from wolfhound.oracles._kmeans import kmeans, nearest
from wolfhound.progress import report_rows
from wolfhound.threads import get_threads, map_ordered
from wolfhound.validate import require

VERSION: str = faiss.__version__

Index: TypeAlias = Any  # faiss has no types

_CODES = 16
"""Codes of 4 bits: all that FastScan reads."""

_ROWS_PER_CODE = 512
_ROWS_PER_LIST = 64

_BLOCK = 32
"""Queries that are searched by one thread, together."""

T = TypeVar("T")


_ptr: Callable[[Any], Any] = faiss.swig_ptr


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Let faiss use so many threads; the caller's setting comes back."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


# ---------------------------------------------------------------- rows for faiss


@dataclass(frozen=True, slots=True)
class Frame:
    """How atoms become float32 rows: centred, scaled by one number, padded.

    Attributes
    ----------
    mean : (d,)
        Of the atoms, scaled.
    scale : float
        A power of two; the largest entry becomes about 1, so nothing overflows.
    width : int
        Columns with the padding.
    """

    mean: Vector
    scale: float
    width: int

    def rows(self, block: Matrix) -> Singles:
        """Return a fresh (r, width) float32 block."""
        out = np.zeros((len(block), self.width), np.float32)
        inside = out[:, : len(self.mean)]
        np.subtract(block * np.float64(self.scale), self.mean, out=inside, casting="same_kind")
        return out


def frame(atoms: Atoms, columns: int) -> Frame:
    """Read all atoms for their mean and largest entry; check that they are finite.

    Parameters
    ----------
    atoms
        What is to be indexed.
    columns
        The width becomes a multiple of it.
    """
    n, d = atoms.shape

    def work(task: tuple[int, Matrix]) -> tuple[Vector, float, int]:
        first, block = task
        check_finite(block, first)
        with np.errstate(over="ignore"):
            return block.sum(axis=0, dtype=np.float64) / n, float(np.abs(block).max()), len(block)

    mean, largest = np.zeros(d), 0.0
    for share, high, rows in map_ordered(work, atoms.blocks(block_rows(atoms))):
        mean += share
        largest = max(largest, high)
        report_rows(rows)
    scale = 2.0 ** min(1000, -int(np.frexp(largest)[1]))
    mean[~np.isfinite(mean)] = 0.0  # any mean will do
    return Frame(mean * scale, scale, -(-d // columns) * columns)


def _blocks(atoms: Atoms, frame: Frame) -> Iterator[tuple[slice, Singles]]:
    """Yield all rows for faiss, in order."""

    def work(task: tuple[int, Matrix]) -> tuple[slice, Singles]:
        first, block = task
        return slice(first, first + len(block)), frame.rows(block)

    for where, rows in map_ordered(work, atoms.blocks(block_rows(atoms))):
        yield where, rows
        report_rows(len(rows))


def _sample(atoms: Atoms, frame: Frame, size: int, rng: np.random.Generator) -> Singles:
    """Rows of random atoms to train on, at least one for each code."""
    n = atoms.shape[0]
    ids = np.sort(rng.choice(n, min(n, size), replace=False, shuffle=False))
    rows = frame.rows(atoms.take(ids))
    return rows[np.arange(max(len(rows), _CODES)) % len(rows)]


# ---------------------------------------------------------------- building


def build_pq(atoms: Atoms, frame: Frame, columns: int, rng: np.random.Generator) -> Index:
    """Product quantiser with 4 bits for each group of columns."""
    index = faiss.IndexPQFastScan(frame.width, frame.width // columns, 4, faiss.METRIC_INNER_PRODUCT)
    _train(index, _sample(atoms, frame, _ROWS_PER_CODE * _CODES, rng), rng)
    return _add(index, atoms, frame)


def build_ivf_pq(atoms: Atoms, frame: Frame, *, lists: int, columns: int, rng: np.random.Generator) -> Index:
    """Lists of the nearest centres, quantised residuals, probed by inner product."""
    sample = _sample(atoms, frame, _ROWS_PER_LIST * lists, rng)
    centres = kmeans(sample, lists, seed=int(rng.integers(2**31)))
    assigned = np.empty(atoms.shape[0], np.int64)
    for where, rows in _blocks(atoms, frame):
        assigned[where] = nearest(centres, rows)[0]
    used, assigned = np.unique(assigned, return_inverse=True)
    centres, width = centres[used], frame.width
    by_distance: Index = faiss.IndexFlatL2(width)
    by_product: Index = faiss.IndexFlatIP(width)
    by_distance.add(centres)
    by_product.add(centres)
    shape = width, len(centres), width // columns, 4
    plain = faiss.IndexIVFPQ(by_distance, *shape, faiss.METRIC_INNER_PRODUCT)
    _train(plain, sample, rng)
    for where, rows in _blocks(atoms, frame):
        ids, lists_of = np.arange(where.start, where.stop), assigned[where]
        with threads(1):
            plain.add_core(len(rows), _ptr(rows), _ptr(ids), _ptr(lists_of))
    index = faiss.IndexIVFPQFastScan(plain)
    index.quantizer, index.own_fields = by_product, True
    by_product.this.disown()
    return index


def build_hnsw(atoms: Atoms, frame: Frame, *, links: int, construction: int, search: int) -> Index:
    """Graph of near atoms by inner product."""
    index = faiss.IndexHNSWFlat(frame.width, links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = construction
    index.hnsw.efSearch = search
    return _add(index, atoms, frame)


def _add(index: Index, atoms: Atoms, frame: Frame) -> Index:
    for _, rows in _blocks(atoms, frame):
        with threads(1):  # with more, a graph would depend on their timing
            index.add(rows)
    return index


def _train(index: Index, rows: Singles, rng: np.random.Generator) -> None:
    index.pq.cp.seed = int(rng.integers(2**31))
    index.pq.cp.min_points_per_centroid = 1  # below it faiss prints a warning
    index.pq.cp.max_points_per_centroid = _ROWS_PER_CODE
    with threads(1):
        index.train(rows)


# ---------------------------------------------------------------- bytes


def to_bytes(index: Index) -> NDArray[np.uint8]:
    """Return an index as an array of bytes."""
    data: NDArray[np.uint8] = faiss.serialize_index(index)
    return data


def from_bytes(data: NDArray[np.uint8]) -> Index:
    """Return the index of an array of bytes; RuntimeError if faiss cannot read it."""
    return faiss.deserialize_index(np.asarray(data))


# ---------------------------------------------------------------- searching


@final
@dataclass(frozen=True, slots=True)
class PqEngine:
    """An index made by `build_pq`: every code is scored."""

    index: Index

    def search(self, points: Singles, fetch: int) -> tuple[Ids, Ints]:
        """(m, fetch) candidates, best first, padded with -1; (m,) codes scored."""
        ids = _spread(lambda some: self.index.search(some, fetch)[1], points)
        return np.concatenate(ids), np.full(len(points), self.index.ntotal, np.int64)


@final
@dataclass(frozen=True, slots=True)
class IvfEngine:
    """An index made by `build_ivf_pq`, probed by us: we know what is scored.

    Attributes
    ----------
    index
        Its quantiser orders lists by inner product.
    probes : int
        Lists scored per query.
    sizes : (lists,)
    """

    index: Index
    probes: int
    sizes: Ints

    def search(self, points: Singles, fetch: int) -> tuple[Ids, Ints]:
        """See `PqEngine`."""
        parts = _spread(lambda some: self._some(some, fetch), points)
        ids, scored = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ids, scored

    def _some(self, points: Singles, fetch: int) -> tuple[Ids, Ints]:
        lists, scores = self._choose_lists(points, fetch)
        # As many lists at a time as the index is set to: others need faiss 1.13.
        parts = [slice(s, s + self.probes) for s in range(0, lists.shape[1], self.probes)]
        found = [self.index.search_preassigned(points, fetch, lists[:, p], scores[:, p]) for p in parts]
        scored = np.where(lists >= 0, self.sizes[lists], 0).sum(axis=1)
        if len(found) == 1:
            return found[0][1], scored
        values, ids = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        order = np.argsort(np.where(ids >= 0, -values, np.inf), axis=1, kind="stable")[:, :fetch]
        return np.take_along_axis(ids, order, axis=1), scored

    def _choose_lists(self, points: Singles, fetch: int) -> tuple[Ids, Singles]:
        """Lists, best first: `probes` of them, and more until they hold `fetch`; else -1."""
        probes = self.probes
        while True:
            scores, lists = self.index.quantizer.search(points, probes)  # -1 beyond the last list
            sizes = np.where(lists >= 0, self.sizes[lists], 0)
            held = np.cumsum(sizes, axis=1)
            if probes >= len(self.sizes) or (held[:, -1] >= fetch).all():
                break
            probes *= 2
        needless = held - sizes >= fetch
        needless[:, : self.probes] = False
        return np.where(needless, -1, lists), scores


@final
@dataclass(frozen=True, slots=True)
class PlainEngine:
    """Any index, searched by faiss as it is set up."""

    index: Index

    def search(self, points: Singles, fetch: int) -> tuple[Ids, Ints]:
        """See `PqEngine`; of graphs and lists only the sum over all queries is known."""
        before = _counts()
        # Threads of faiss, as its counts would suffer from ours.
        with threads(min(get_threads(), 1 + len(points) // _BLOCK)):
            ids: Ids = self.index.search(points, fetch)[1]
        total = _counts() - before
        each, rest = divmod(total, len(ids)) if total else (int(self.index.ntotal), 0)
        return ids, each + (np.arange(len(ids)) < rest)


Engine: TypeAlias = PqEngine | IvfEngine | PlainEngine
"""An index with its way of being searched."""


def _spread(search: Callable[[Singles], T], points: Singles) -> list[T]:
    """Search fixed blocks of queries on our threads, faiss held to one in each.

    Its own threads spin where cores are shared (measured: 15 ms for 6 queries).
    """

    def work(start: int) -> T:
        with threads(1):
            return search(points[start : start + _BLOCK])

    starts = range(0, len(points), _BLOCK)
    return list(map_ordered(work, starts) if len(starts) > 1 else map(work, starts))


def _counts() -> int:
    """Codes scored so far by all graphs and lists of this process."""
    stats: Any = faiss.cvar
    return int(stats.hnsw_stats.ndis) + int(stats.indexIVF_stats.ndis)


def lists_of(index: Index, probes: int) -> IvfEngine:
    """Return the engine of an index that `build_ivf_pq` made; there are no more lists than it has."""
    index.nprobe = probes = min(probes, index.nlist)
    sizes = [index.invlists.list_size(i) for i in range(index.nlist)]
    return IvfEngine(index, probes, np.array(sizes, np.int64))


def by_distance(index: object, shape: tuple[int, int]) -> bool:
    """Check an index of the caller's; return whether its metric is L2."""
    if not isinstance(index, faiss.Index):
        raise TypeError(f"`index` must be a faiss.Index. Got {type(index).__name__}.")
    n, d = shape
    require(index.d == d, "index", f"of dimension {d}, as the atoms are", index.d)
    require(index.is_trained, "index", "trained", "one that is not")
    require(index.ntotal == n, "index", f"of {n} vectors, as many as there are atoms", index.ntotal)
    metrics = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
    require(index.metric_type in metrics, "index", "of metric inner product or L2", index.metric_type)
    return bool(index.metric_type == faiss.METRIC_L2)


def check_type(index: object, kind: str) -> None:
    """Raise ValueError unless an index is what we build as this kind, and its lists hold every atom."""
    built = {"pq": faiss.IndexPQFastScan, "ivfpq": faiss.IndexIVFPQFastScan, "hnsw": faiss.IndexHNSWFlat}
    wanted = built.get(kind, faiss.Index)
    require(isinstance(index, wanted), "index", f"a {wanted.__name__}", type(index).__name__)
    if kind == "ivfpq":
        lists: Index = index
        held = sum(lists.invlists.list_size(i) for i in range(lists.nlist))
        fits = lists.quantizer.ntotal == lists.nlist and held == lists.ntotal
        require(fits, "index", f"of {lists.ntotal} atoms in {lists.nlist} lists", held)
