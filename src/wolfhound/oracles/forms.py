"""`FormScan`: the best atom of all for a quadratic form, max x'Bx, proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Matrix, Oracle, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import TINY, gamma
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import require
from wolfhound.data.atoms import ConcatAtoms, MappedAtoms, as_atoms, block_rows
from wolfhound.data.files import lock
from wolfhound.oracles import _form_kernels as kernels
from wolfhound.oracles import _scan_kernels as scans
from wolfhound.oracles import asking
from wolfhound.oracles.asking import CheckedOracle, Cost, Question
from wolfhound.oracles.scan import NormRecorder
from wolfhound.oracles.sharded import ShardedAtoms

_BLOCK = 4 << 20  # bytes of rows, and of scores, that are worked on at a time
_SPREAD = 512  # from so many answers on, half of them are the best of windows of consecutive ids
_LARGEST = 1e75  # norms are below, and one above its inverse: squares of squares must be numbers
_AS_THEY_ARE = scans.ScreenRule(1.0, 0.0, 0.0)
_NONE: Ids = np.empty((1, 0), np.int64)


def svec(matrix: Vector) -> Vector:
    """(p,) the upper triangle of a symmetric matrix, times sqrt 2 off the diagonal: inner products stay.

    Examples
    --------
    >>> svec(np.array([[1.0, 2.0], [2.0, 5.0]])).round(3)
    array([1.   , 2.828, 5.   ])
    """
    i, j = np.triu_indices(len(matrix))
    return np.asarray(matrix[i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def pair_rows(rows: Matrix) -> Vector:
    """(r, p) rows svec(x x') of (r, d) rows x, in float64.

    Examples
    --------
    >>> pair_rows(np.array([[1.0, 3.0]])).round(3)
    array([[1.   , 4.243, 9.   ]])
    """
    n, d = rows.shape
    out = np.empty((n, d * (d + 1) // 2))
    kernels.pair_up(lock(rows.view()), out)
    return out


def view_pairs(atoms: AtomsLike) -> MappedAtoms:
    """Return the atoms svec(x x') of candidates x; nothing is computed before it is asked for."""
    rows = as_atoms(atoms)
    d = rows.shape[1]
    return MappedAtoms(rows, pair_rows, d * (d + 1) // 2)


def find_candidates(atoms: Atoms) -> Atoms | None:
    """Return the candidates x behind atoms svec(x x'), None if they are no such atoms."""
    if isinstance(atoms, ConcatAtoms):
        parts = [find_candidates(part) for part in atoms.parts]
        return None if None in parts else ConcatAtoms([part for part in parts if part is not None])
    if isinstance(atoms, (MappedAtoms, ShardedAtoms)) and atoms.fn is pair_rows:
        return atoms.atoms
    return None


class Survey(NamedTuple):
    """What one pass says of a form: `Hits` of one query, without the rows."""

    ids: Ids  # (k,) best first
    scores: Vector  # (k,)
    bound: float  # proved, of x'Bx
    radius: float  # proved, of |x|^2
    passes: float
    scored: int


def survey(oracle: Oracle, matrix: Vector, k: int, exclude: Ids) -> Survey:
    """Ask `FormScan`, or any oracle over such atoms, for the largest x'Bx; `matrix` is B, symmetric."""
    query, banned = svec(matrix)[None], exclude[None] if len(exclude) else None
    if isinstance(oracle, FormScan):
        scores, ids, bounds, cost = oracle.find(asking.check_question(oracle.atoms, query, k, banned))
        passes, radius, scored = cost.passes, cost.radius, cost.scored
    else:
        hits = oracle.query(query, k=k, exclude=banned)
        scores, ids, bounds, scored = np.asarray(hits.scores, np.float64), hits.ids, hits.bounds, hits.scored
        passes, radius = hits.passes, hits.radius
    found = ids[0] >= 0
    return Survey(ids[0][found], scores[0][found], float(bounds[0]), radius, passes, int(scored[0]))


class _Windows(NamedTuple):
    """The best score of each window of consecutive ids, and where it is."""

    size: int  # 0: there are none
    best: Vector
    ids: Ids


@final
class FormScan(CheckedOracle):
    """Exact oracle of quadratic forms: the largest x'Bx over all candidates x, and a proved bound.

    Its atoms are svec(x x'), of dimension d (d + 1) / 2, and a query is svec(B) of any
    symmetric B, so that the inner product of the two is x'Bx. They are never formed but
    for the answers: a pass evaluates all forms in float64, at the speed of a product of
    matrices. Best atom, score and bound are the same to the bit at any thread count, alone
    and among other queries. From 512 answers on, the second half are the best of windows of
    consecutive ids, so that not all of them sit on one peak.

    Parameters
    ----------
    atoms
        The candidates x: atoms, an array or a path.

    Examples
    --------
    >>> scan = FormScan(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0]]))
    >>> hits = scan.query(svec(np.array([[1.0, -3.0], [-3.0, 1.0]]))[None], k=2)
    >>> hits.ids, hits.scores.round(12)
    (array([[2, 1]]), array([[8., 4.]]))
    """

    def __init__(self, atoms: AtomsLike) -> None:
        self._atoms: MappedAtoms = view_pairs(atoms)
        self._radius: float | None = None  # replaced whole: a query of another thread may read it

    @property
    def candidates(self) -> Atoms:
        """The rows x."""
        return self._atoms.atoms

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries by one pass; thresholds are ignored."""
        return asking.build_hits(self._atoms.take, *self.find(question))

    def find(self, question: Question) -> tuple[Vector, Ids, Vector, Cost]:
        """Scores, ids, bounds and cost of the answers; no atom is formed."""
        n, m = self._atoms.shape[0], len(question.queries)
        require(bool((question.sizes < 2.0**1000).all()), "queries", "below 1e301 in size", "more")
        # Powers of two bring the queries to norms near 1, exactly: nothing underflows on the way.
        exponents = np.frexp(question.sizes)[1]
        scaled = replace(question, queries=np.ldexp(question.queries, -exponents[:, None]))
        found, windows, radius = self._sweep(scaled)
        # A form takes 2 d + 3 roundings per term, an atom is made with three.
        p, d = self._atoms.shape[1], self.candidates.shape[1]
        lost = asking.slacks(question.sizes, 2 * d + 8, radius) + 8.0 * p * TINY * (1.0 + question.sizes)
        ranked = []
        for best, window, exponent in zip(found, windows, exponents.tolist(), strict=True):
            scores, ids = _choose(best, window, question.k)
            ranked.append(asking.rank_one(np.ldexp(scores, exponent), ids, question.k))
        scores, ids = (np.concatenate(part) for part in zip(*ranked, strict=True))
        top = scores[:, 0]
        bounds = np.where(top > -np.inf, np.nextafter(top + lost, np.inf), -np.inf)
        return scores, ids, bounds, Cost(np.full(m, n), 1.0, radius)

    def __repr__(self) -> str:
        return f"FormScan({self.candidates!r})"

    def _sweep(self, question: Question) -> tuple[list[tuple[Vector, Ids]], list[_Windows], float]:
        """Read all candidates once; keep the best of every query; bound |x|^2."""
        rows, known = self._atoms.atoms, self._radius
        n, m = rows.shape[0], len(question.queries)
        recorder = NormRecorder(rows, keep=False)
        uppers = [_spread_out(query, rows.shape[1]) for query in question.queries]
        found = [(np.empty(0), np.empty(0, np.int64)) for _ in uppers]
        size = -(-n // (question.k // 2)) if _SPREAD <= question.k < n else 0
        count = -(-n // size) if size else 0
        windows = [_Windows(size, np.full(count, -np.inf), np.full(count, -1)) for _ in uppers]

        def work(task: tuple[int, Matrix]) -> tuple[int, Vector]:
            first, block = task
            squares = np.empty(0 if known is not None else len(block))
            scores, room = np.empty((m, len(block))), kernels.make_room(len(uppers[0]))
            for i, upper in enumerate(uppers):
                kernels.forms(block, upper, scores[i], squares if i == 0 else squares[:0], room)
            if len(squares):
                recorder.note(first, block, squares)
            return first, scores

        step = max(1, min(block_rows(rows, _BLOCK), _BLOCK // (8 * m)))
        for first, scores in map_ordered(work, rows.blocks(step), blas=False):
            report_rows(scores.shape[1])
            for i, each in enumerate(scores):
                banned = question.exclusions(i)
                low, high = np.searchsorted(banned, (first, first + len(each)))
                each[banned[low:high] - first] = -np.inf  # excluded candidates have no score
                best, ids = found[i]
                places = np.flatnonzero(each >= best.min() if len(best) == question.k else each > -np.inf)
                more = np.concatenate((best, each[places])), np.concatenate((ids, places + first))
                found[i] = asking.keep_highest(*more, question.k)
                if size:
                    at, plain = first // size, np.zeros(len(each), np.float32)
                    tops, where = windows[i].best[at:], windows[i].ids[at:]
                    scans.find_peaks(each, plain, _AS_THEY_ARE, first, _NONE, size, tops, where)
        if known is None:
            top = recorder.norms().radius
            moderate = top < _LARGEST and (top * _LARGEST > 1.0 or top <= 2.0 * TINY)
            rule = f"rows of norms below {_LARGEST:g}, and not all below {1.0 / _LARGEST:g}"
            require(moderate, "atoms", rule, f"{top:.3g}")
            self._radius = known = top * top * (1.0 + gamma(4)) + TINY
        return found, windows, known


def _spread_out(query: Vector, d: int) -> Vector:
    """Coefficients of x_i x_j, i <= j, as an upper triangle padded with zeros."""
    width = -(-d // kernels.TILE) * kernels.TILE
    out = np.zeros((width, width))
    i, j = np.triu_indices(d)
    out[i, j] = query * np.where(i == j, 1.0, math.sqrt(2.0))
    return out


def _choose(best: tuple[Vector, Ids], windows: _Windows, k: int) -> tuple[Vector, Ids]:
    """At most k of the best entries and of those of the windows; the very best is among them."""
    scores, ids = best
    if not windows.size:
        return best
    order = np.lexsort((ids, -scores))
    top, rest = order[: k - k // 2], order[k - k // 2 :]
    new = (windows.ids >= 0) & ~np.isin(windows.ids, ids[top])
    few = np.isin(ids[rest], windows.ids[new], invert=True)
    fill = rest[few][: max(0, k // 2 - int(new.sum()))]
    return (
        np.concatenate([scores[top], windows.best[new], scores[fill]]),
        np.concatenate([ids[top], windows.ids[new], ids[fill]]),
    )
