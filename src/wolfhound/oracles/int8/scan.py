"""`Int8Scan`: a certified pass that reads a quarter of the bytes, or an eighth."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Singles, Vector
from wolfhound.core.progress import read_rows, report_rows, show_progress
from wolfhound.core.threads import map_ordered
from wolfhound.data.atoms import as_atoms
from wolfhound.oracles import asking
from wolfhound.oracles import indexes as saved
from wolfhound.oracles.asking import CheckedOracle, Cost, Question
from wolfhound.oracles.indexes import BuiltAnew, Estimate, IndexKind, Workload
from wolfhound.oracles.int8._kernels import UNDECIDED, best_by_codes, empty_candidates, sweep
from wolfhound.oracles.int8.codes import (
    CHUNK,
    CodeChunk,
    Codes,
    CodeStore,
    check_codes,
    encode_atoms,
    encode_queries,
)
from wolfhound.oracles.int8.layout import ROWS, CodedQueries
from wolfhound.oracles.scan import Scan

NAME = "int8"

ON_DISK = "int8-file"  # the name of `Int8FileScan`, whose files hold the same

_MEMORY = 128 << 20
_PER_ENTRY = 32


@final
class Int8Scan(CheckedOracle, BuiltAnew):
    """Exact oracle that reads int8 codes and only the rows that can still win.

    A pass over the codes bounds every score from above and below; rows that can
    be among the k best are scored again in float64 from the atoms. All k answers are
    those of ``Scan(atoms, screen=False)``, to the bit. A query of which the codes
    decide little, as where all scores are nearly equal, is answered by a pass over
    the atoms.

    Made by `build` or `load`; n (d + 8) bytes.

    Examples
    --------
    >>> hits = Int8Scan.build(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(self, atoms: Atoms, codes: Codes) -> None:
        self._atoms = atoms
        self._codes = codes
        self._scan = Scan(atoms, screen=False)

    @classmethod
    def build(cls, atoms: AtomsLike, *, progress: bool | None = None) -> Int8Scan:
        """Encode the atoms in one pass, which also checks that they are finite.

        Parameters
        ----------
        atoms
            Atoms, an array or a path.
        progress
            As for `minimize`.
        """
        rows = as_atoms(atoms)
        with show_progress(progress, read_rows("building", rows.shape[0])):
            return cls(rows, encode_atoms(rows))

    def _build_again(self, atoms: Atoms) -> Int8Scan:
        return Int8Scan(atoms, encode_atoms(atoms))

    @property
    def nbytes(self) -> int:
        """Memory that the codes take."""
        return self._codes.nbytes

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds are ignored."""
        return answer_by_codes(self._atoms, self._codes, self._scan, question)

    def save(self, path: saved.PathLike) -> None:
        """Write the codes to a file, whole or not at all; see `load`."""
        saved.save_index(path, NAME, self._codes.arrays(), self._codes.numbers(), self._atoms, proved=True)

    @classmethod
    def load(cls, path: saved.PathLike, atoms: AtomsLike) -> Int8Scan:
        """Read codes that were saved, by `Int8FileScan` too; prove in one pass that they are of the atoms.

        So bounds rest on the atoms, not on the file: one that was forged, or made
        from other atoms, is refused. Atoms that changed by less than their codes tell are
        taken: every answer is scored from the rows as they are now.

        Raises
        ------
        StoreError
            If the file is damaged, or was made from other atoms.
        """
        rows, stored = saved.open_index(path, atoms, [NAME, ON_DISK], proved=True)
        with stored.reading():
            codes = Codes.of(stored, stored.params, rows.shape)
        check_codes(stored, codes, rows)
        return cls(rows, codes)

    def __repr__(self) -> str:
        return f"Int8Scan({self._atoms!r}, {self.nbytes / 2**20:.1f} MiB)"


def answer_by_codes(atoms: Atoms, codes: CodeStore, scan: Scan, question: Question) -> Hits:
    """Answer from one pass over the codes per group of queries; the scan answers what these cannot decide."""
    if question.often and len(question.queries) == 1:
        hits = _answer_at_once(atoms, codes, question)
        if hits is not None:
            return hits
    asking.slacks(question.sizes, codes.centre.size, codes.radius)  # refuses queries that are too long
    step = max(1, _MEMORY // (_PER_ENTRY * room(question.k)))
    parts = [question.only(slice(start, start + step)) for start in range(0, len(question.queries), step)]
    return asking.join([_answer_group(atoms, codes, scan, part) for part in parts])


def _answer_at_once(atoms: Atoms, codes: CodeStore, question: Question) -> Hits | None:
    """Answer one query from rows and one chunk of codes in memory; None if these decide too little."""
    rows = asking.in_memory(atoms)
    if rows is None or not isinstance(codes, Codes) or codes.blocks.nbytes > CHUNK:
        return None
    slack = asking.slack_of_one(float(question.sizes[0]), rows.shape[1], codes.radius)
    query, sizes, exclude, k = question.queries, question.sizes, question.exclude, question.k
    top = asking.empty_top(rows, k)
    found = best_by_codes(rows, query, sizes, exclude, codes.bare, room(k), slack, top)
    if found == UNDECIDED:
        return None
    report_rows(codes.n)
    return asking.make_hits(top, found, 1.0, codes.radius)


def _answer_group(atoms: Atoms, codes: CodeStore, scan: Scan, question: Question) -> Hits:
    """Answer from a pass over the codes; of what has too many candidates, from one over the atoms."""
    queries = encode_queries(codes, question)
    if queries.hopeless.all():
        return scan.answer(question)
    found = sweep_codes(codes, queries, question.k)
    # The best guess first: the more the first k reach, the fewer others must be scored. Some chunks knew
    # less than all do together: what is below the highest floor is no candidate.
    keys = np.where(found.keys >= found.floors[:, None], found.keys, -np.inf)
    order = np.argsort(-(keys + found.lows), axis=1, kind="stable")
    order = order[:, : int((keys > -np.inf).sum(axis=1).max())]
    keys = np.take_along_axis(keys, order, 1)
    places = np.where(keys > -np.inf, np.take_along_axis(found.places, order, 1), -1)
    ids = places if not len(codes.ids) else np.where(places >= 0, codes.ids[places], -1)
    rest = np.where(np.isfinite(found.floors), queries.scores(found.floors[:, None])[:, 0], -np.inf)
    cost = Cost(np.where(queries.hopeless, 0, codes.n), 1.0, codes.radius)
    hits = asking.settle(atoms, question, ids, queries.scores(keys), rest=rest, cost=cost)
    undecided = np.flatnonzero(found.floors == np.inf)
    if not len(undecided):
        return hits
    return asking.patch(hits, undecided, scan.answer(question.only(undecided)))


# ---------------------------------------------------------------- what it costs

_RESCORED = 16  # rows that a query reads one by one


def code_bytes(n: float, d: int) -> float:
    """Bytes of n codes with their scales and errors."""
    return n * (d + d % 2 + 8)


def _make(atoms: AtomsLike, *, seed: int = 0) -> Int8Scan:
    return Int8Scan.build(atoms)


def _estimate(work: Workload) -> Estimate:
    """Every code, for every query."""
    codes = code_bytes(work.n, work.d)
    return Estimate(
        recipe="Int8Scan.build(atoms)",
        make=_make,
        build=work.build_seconds(encoded=work.nbytes, passes=1),
        query=work.query_seconds(codes) + work.fetch_seconds(_RESCORED),
        scored=work.n,
        nbytes=codes,
    )


INT8 = IndexKind(
    name=NAME, title="Int8Scan", build=_make, load=Int8Scan.load, expected=_estimate, passes=1, proves=True
)


_ROOM = 8192


@dataclass(frozen=True, slots=True, eq=False)
class CodeCandidates:
    """Rows that can be among the best of m queries."""

    keys: Singles  # (m, c) upper bounds of the kernel, -inf where padded
    lows: Singles  # (m, c) what a row surely reaches
    places: Ids  # (m, c) in the codes, -1 where padded
    floors: Singles  # (m,) rows that are no candidates have keys below; inf: there were too many


def room(k: int) -> int:
    """How many candidates a query may have in a chunk."""
    return max(8 * k, _ROOM) + ROWS


def sweep_codes(codes: CodeStore, queries: CodedQueries, k: int) -> CodeCandidates:
    """Read all codes once; keep all rows that can be among the k best."""
    chunks = codes.chunks()  # they, and the floors that they begin with, do not depend on the threads
    # Of hopeless queries nothing is kept.
    lowest = np.where(queries.hopeless, np.inf, -np.inf).astype(np.float32)
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


def _sweep(chunk: CodeChunk, queries: CodedQueries, k: int, floors: Singles) -> CodeCandidates:
    """Sweep the blocks of a chunk; rows below the floors are not wanted."""
    m = len(queries.levels)
    found = empty_candidates(m, room(k))
    keys, lows, places, fill = found[:4]
    rules = queries.rules.copy()
    rules["floor"] = floors
    sweep(chunk.packed, chunk.span, queries._replace(rules=rules), k, found)
    width = max(0, int(fill.max()))
    # Copies: what has no candidates is not kept.
    keys, lows, places = keys[:, :width].copy(), lows[:, :width].copy(), places[:, :width] + chunk.first
    if m > 1:
        padded = np.arange(width) >= fill[:, None]
        keys[padded], lows[padded], places[padded] = -np.inf, -np.inf, -1
    return CodeCandidates(keys, lows, places, rules["floor"])
