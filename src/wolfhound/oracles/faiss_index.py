"""`FaissIndex`: indexes of faiss as oracles.

faiss finds candidates, through `_faiss`; what they score is settled in `_hits`,
as for every oracle.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from wolfhound import store
from wolfhound.atoms import as_atoms, finite_rows
from wolfhound.core import Atoms, AtomsLike, Hits, Ids, Singles, Vector
from wolfhound.oracles import _faiss
from wolfhound.oracles import _saved as saved
from wolfhound.oracles._hits import join, offer
from wolfhound.oracles._question import CheckedOracle, Question
from wolfhound.validate import count, number, require

_GATHER = 64 << 20
"""Bytes of candidates' rows that are gathered at once."""

_LARGEST = 1e30
"""Bounds what faiss is asked: float32 sums of it stay finite."""

_FAR = 16.0
"""Where an L2 index is asked, in mean lengths of atoms from their mean."""


# ---------------------------------------------------------------- kinds


class _Settings:
    """Settings of an index, all of them counts."""

    __slots__ = ()

    def __post_init__(self) -> None:
        each: Any = self
        for setting in fields(each):
            value = getattr(self, setting.name)
            if value is not None or setting.default is not None:
                count(value, setting.name, low=2 if setting.name == "links" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pq(_Settings):
    """Product quantisation: every atom's codes are scored, in registers.

    Parameters
    ----------
    columns
        Columns that share one code of 4 bits.
    rerank
        Candidates that are scored again from their rows.
    """

    name: ClassVar[str] = "pq"
    columns: int = 2
    rerank: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class IvfPq(_Settings):
    """Lists of near atoms; the codes of the best lists are scored.

    Atoms belong to the list with the nearest centre and are coded by what is
    left after it; lists are probed in the order of <query, centre>. On word
    vectors this found better atoms than one measure for both, either of them.

    Parameters
    ----------
    lists
        Lists, at most n; default: 4 sqrt(n). Empty ones are dropped.
    probes
        Lists scored per query; default: 5 % of them.
    columns, rerank
        As in `Pq`.
    """

    name: ClassVar[str] = "ivfpq"
    lists: int | None = None
    probes: int | None = None
    columns: int = 2
    rerank: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Hnsw(_Settings):
    """A graph of near atoms, walked towards the query. It keeps float32 rows.

    Built by one thread, and so slowly: faiss's parallel build may depend on timing.

    Parameters
    ----------
    links
        Neighbours of an atom; twice as many on the lowest level.
    construction, search
        Atoms kept in sight while building, and while answering.
    rerank
        Candidates that are scored again in float64.
    """

    name: ClassVar[str] = "hnsw"
    links: int = 32
    construction: int = 40
    search: int = 64
    rerank: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped(_Settings):
    """An index that the caller made.

    Parameters
    ----------
    rerank
        Candidates that are scored again from their rows.
    """

    name: ClassVar[str] = "faiss"
    rerank: int = 64


Kind: TypeAlias = Pq | IvfPq | Hnsw | Wrapped

_KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (Pq, IvfPq, Hnsw, Wrapped)}


# ---------------------------------------------------------------- the oracle


@final
class FaissIndex(CheckedOracle):
    """An index of faiss: candidates by approximate scores, re-scored exactly.

    Proves nothing: bounds are inf. Inner products stay inner products: atoms
    are centred (which adds one number to all scores of a query) and scaled by
    one number, never normalised each by its own. The same seed gives the same
    answers at any thread count. Made by `build`, `wrap` or `load`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((1000, 8))
    >>> index = FaissIndex.build(rows, kind=Pq(rerank=32))
    >>> bool(index.query(rows[:1]).ids[0, 0] == (rows @ rows[0]).argmax())
    True
    """

    def __init__(
        self, atoms: Atoms, engine: _faiss.Engine, kind: Kind, *, anchor: Singles, reach: float
    ) -> None:
        self._atoms = atoms
        self._engine = engine
        self._kind = kind
        self._anchor = anchor
        self._reach = reach

    @classmethod
    def build(cls, atoms: AtomsLike, *, kind: Pq | IvfPq | Hnsw | None = None, seed: int = 0) -> FaissIndex:
        """Build an index in two passes (`IvfPq`: three) and a read of random atoms.

        Parameters
        ----------
        atoms
            Atoms, an array or a path.
        kind
            What to build, and its settings; default: ``Pq()``.
        seed
            Of the random atoms that codes and lists are trained on.
        """
        rows = as_atoms(atoms)
        chosen: Kind = Pq() if kind is None else kind
        rng = np.random.default_rng(count(seed, "seed"))
        if not isinstance(chosen, (Pq, IvfPq, Hnsw)):
            raise TypeError(f"`kind` must be a Pq, IvfPq or Hnsw. Got {kind!r}.")
        frame = _faiss.frame(rows, 1 if isinstance(chosen, Hnsw) else chosen.columns)
        if isinstance(chosen, Hnsw):
            sizes = {"links": chosen.links, "construction": chosen.construction, "search": chosen.search}
            index = _faiss.build_hnsw(rows, frame, **sizes)
        elif isinstance(chosen, IvfPq):
            lists = min(rows.shape[0], chosen.lists or round(4.0 * rows.shape[0] ** 0.5))
            index = _faiss.build_ivf_pq(rows, frame, lists=lists, columns=chosen.columns, rng=rng)
            probes = chosen.probes or round(0.05 * index.nlist)
            chosen = replace(chosen, lists=index.nlist, probes=min(index.nlist, max(1, probes)))
        else:
            index = _faiss.build_pq(rows, frame, chosen.columns, rng)
        return cls(rows, _engine(index, chosen), chosen, anchor=np.zeros(frame.width, np.float32), reach=1.0)

    @classmethod
    def wrap(cls, index: object, atoms: AtomsLike, *, rerank: int = 64) -> FaissIndex:
        """Use an index that is there already, as its search is set up.

        An index of metric L2 is asked for the neighbours of a far point in the
        direction of the query: their order is nearly that of the scores.

        Parameters
        ----------
        index : faiss.Index
            Holds the n atoms as they are; their ids are their positions.
        atoms
            Atoms, an array or a path.
        rerank
            Candidates that are scored again from their rows.
        """
        rows = as_atoms(atoms)
        kind = Wrapped(rerank=rerank)
        anchor, reach = np.zeros(rows.shape[1], np.float32), 1.0
        if _faiss.by_distance(index, rows.shape):
            anchor, reach = _far(rows)
        return cls(rows, _engine(index, kind), kind, anchor=anchor, reach=reach)

    @property
    def kind(self) -> Kind:
        """What it is, with its settings."""
        return self._kind

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the atoms."""
        return _faiss.to_bytes(self._engine.index).nbytes

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds change nothing.

        `scored` counts atoms once, as codes or rows: all of them for `Pq`, those
        of the probed lists for `IvfPq`. For `Hnsw`, and for graphs and lists of
        a wrapped index, faiss counts all queries together: each gets its share.
        """
        wide = max(question.k, self._kind.rerank) + question.exclude.shape[1]
        row = self._atoms.shape[1] * self._atoms.dtype.itemsize
        step = max(1, _GATHER // (row * min(self._atoms.shape[0], wide)))
        starts = range(0, len(question.queries), step)
        return join([self._some(question.only(slice(start, start + step))) for start in starts])

    def _some(self, question: Question) -> Hits:
        """Answer a group of queries at once."""
        n, m = self._atoms.shape[0], len(question.queries)
        rescored = max(question.k, self._kind.rerank)
        fetch = rescored + int((question.exclude >= 0).sum(axis=1).max(initial=0))
        if fetch >= n:
            every = np.tile(np.arange(n), (m, 1))
            return offer(self._atoms, question, _without(every, question.exclude, n), scored=np.full(m, n))
        ids, scored = self._engine.search(_points(question.queries, self._anchor, self._reach), fetch)
        _check_positions(ids, n)
        ids = _without(ids, question.exclude, rescored)
        lost = (ids < 0).all(axis=1)
        if lost.any():  # codes whose scores are all equal, as for a zero query, or a poor graph
            first = np.tile(np.arange(fetch), (int(lost.sum()), 1))
            ids[lost] = _without(first, question.exclude[lost], rescored)
            scored = np.minimum(n, scored + rescored * lost)
        return offer(self._atoms, question, ids, scored=scored)

    # ------------------------------------------------------------ files

    def save(self, folder: saved.Folder) -> None:
        """Write the index to a folder; an older one stays until this one is whole."""
        try:
            data = _faiss.to_bytes(self._engine.index)
        except RuntimeError as error:
            raise ValueError(f"`index` must be one that faiss can write. Got {error}.") from None
        params = {"settings": asdict(self._kind), "reach": self._reach, "faiss": _faiss.VERSION}
        arrays: dict[str, NDArray[Any]] = {"index": data, "anchor": self._anchor}
        saved.save_index(folder, self._kind.name, arrays, params, self._atoms)

    @classmethod
    def load(cls, folder: saved.Folder, atoms: AtomsLike) -> FaissIndex:
        """Read an index that `save` wrote; faiss gets only bytes whose checksum is right.

        Damage is refused, and so is an index of another kind or size than was saved.
        But what faiss does with bytes that somebody made to look right is up to faiss,
        and may end the process: load only what you would run.

        Raises
        ------
        StoreError
            If the folder is damaged or holds something else, if the atoms are
            others, or if this version of faiss cannot read the index.
        """
        rows, stored = saved.open_index(folder, atoms, _KINDS)
        n, d = rows.shape
        name: Any = stored.params["index"]
        settings: Any = stored.params.get("settings")
        try:
            kind = _KINDS[name](**settings)
        except (TypeError, ValueError):
            raise store.StoreError(
                f"`folder` must hold a kind of index that this wolfhound knows."
                f" Got {name} with settings {settings} in {stored.folder}."
            ) from None
        with stored.reading():
            data = stored.array("index", np.uint8, (None,))
            anchor = stored.array("anchor", np.float32, (None,), low=-_LARGEST, high=_LARGEST)
            reach = number(stored.params["reach"], "reach", low=0.0)
            require(reach <= _LARGEST, "reach", f"<= {_LARGEST:g}", reach)
        try:
            index = _faiss.from_bytes(data)
        except (RuntimeError, MemoryError) as error:
            raise store.StoreError(
                f"`folder` must hold an index that faiss {_faiss.VERSION} reads."
                f" Got one of faiss {stored.params.get('faiss')} in {stored.folder}: {error}."
            ) from None
        with stored.reading():
            require(len(anchor) >= d, "anchor", f"of {d} numbers at least", len(anchor))
            _faiss.by_distance(index, (n, len(anchor)))
            _faiss.check_type(index, kind.name)
            return cls(rows, _engine(index, kind), kind, anchor=anchor, reach=reach)

    def __repr__(self) -> str:
        """The atoms and the settings."""
        return f"FaissIndex({self._atoms!r}, kind={self._kind!r})"


def _engine(index: Any, kind: Kind) -> _faiss.Engine:
    if isinstance(kind, IvfPq):
        return _faiss.lists_of(index, kind.probes or 1)
    return _faiss.PqEngine(index) if isinstance(kind, Pq) else _faiss.PlainEngine(index)


def _far(atoms: Atoms) -> tuple[Singles, float]:
    """Mean and reach from which an L2 index ranks nearly as inner products do."""
    ids = np.random.default_rng(0).choice(atoms.shape[0], min(atoms.shape[0], 1024), replace=False)
    rows = finite_rows(atoms, np.sort(ids))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.mean(axis=0, dtype=np.float64)
        reach = _FAR * float(np.sqrt(np.square(rows - mean).sum(axis=1).mean()))
    longest = max(float(np.abs(rows).max()), reach)
    require(longest <= _LARGEST, "atoms", f"within {_LARGEST:g}, for float32", f"{longest:.3g}")
    return mean.astype(np.float32), reach


def _points(queries: Vector, anchor: Singles, reach: float) -> Singles:
    """(m, width) points to ask faiss for: queries of length `reach`, padded."""
    unit = np.ldexp(queries, -np.frexp(np.abs(queries).max(axis=1, keepdims=True))[1])
    length = np.sqrt(np.square(unit).sum(axis=1, keepdims=True))
    points = np.tile(anchor, (len(queries), 1))
    points[:, : queries.shape[1]] += (unit * (reach / np.where(length > 0.0, length, 1.0))).astype(np.float32)
    return points


def _check_positions(ids: Ids, n: int) -> None:
    """Raise ValueError if an index, wrapped or loaded, answers what are no positions of atoms."""
    rule = f"one whose ids are the positions of {n} atoms"
    require(bool(ids.max() < n), "index", rule, f"id {ids.max()}")
    ordered = np.sort(ids, axis=1)
    repeated = ordered[:, 1:][(ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)]
    require(not len(repeated), "index", rule, f"id {repeated.max(initial=-1)} twice")


def _without(ids: Ids, exclude: Ids, limit: int) -> Ids:
    """The first `limit` of each row that are not excluded, padded with -1."""
    if not exclude.size:
        return ids[:, :limit]
    span = max(ids.max(), exclude.max()) + 2
    place = span * np.arange(len(ids))[:, None]
    gone = np.isin(ids + place, (exclude + place)[exclude >= 0]) | (ids < 0)
    order = np.argsort(gone, axis=1, kind="stable")[:, :limit]
    return np.take_along_axis(np.where(gone, -1, ids), order, axis=1)
