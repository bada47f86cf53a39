"""What an oracle is asked, and how it answers: checked questions in, `Hits` out.

Every exact oracle ends here, so ids, scores and ties do not depend on how the
candidates were found.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from wolfhound.core.contracts import Atoms, Hits, Ids, Ints, Matrix, Oracle, Vector
from wolfhound.core.rounding import TINY, gamma
from wolfhound.core.validate import FOREIGN, array, count, matrix, real_array, require, suggest
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.data.files import lock
from wolfhound.oracles._scan_kernels import measure_all, score_pairs

_GATHER = 64 << 20  # bytes of rows that are gathered at once to be re-scored


def rescore(rows: Matrix, query: Vector) -> Vector:
    """Scores of rows by the same loop as a pass: the same bits."""
    slots, scores = np.arange(len(rows))[None], np.empty((1, len(rows)))
    score_pairs(lock(rows.view()), slots, query[None], (0, len(rows)), scores)
    return scores.reshape(-1)


def in_memory(atoms: Atoms) -> Matrix | None:
    """Rows that a kernel can read where they are, if there are."""
    return atoms.plain if isinstance(atoms, ArrayAtoms) else None


def rescore_pairs(atoms: Atoms, queries: Vector, ids: Ids) -> Vector:
    """Scores of ``ids[i, j]`` with query i, -inf where padded."""
    rows, slots = in_memory(atoms), ids
    if rows is None:
        unique, slots = _unique(ids)
        rows = lock(atoms.take(unique))
    scores = np.empty(ids.shape)
    score_pairs(rows, np.ascontiguousarray(slots), queries, (0, ids.shape[1]), scores)
    return scores


def _unique(ids: Ids) -> tuple[Ids, Ints]:
    """Return the sorted distinct ids and the place of each, -1 where padded."""
    unique, slots = np.unique(ids, return_inverse=True)
    first = int(len(unique) > 0 and unique[0] < 0)
    return unique[first:], slots.reshape(ids.shape) - first


def rank(scores: Vector, ids: Ids, k: int) -> tuple[Vector, Ids]:
    """Return the k best of each row: score descending, id ascending, padded."""
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    scores, ids = np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
    return pad(scores, k, -np.inf), pad(ids, k, -1)


def pad(entries: Any, k: int, pad: float) -> Any:
    """Rows of k entries."""
    if entries.shape[1] == k:
        return entries
    out = np.full((len(entries), k), pad, entries.dtype)
    out[:, : entries.shape[1]] = entries
    return out


def rank_one(scores: Vector, ids: Ids, k: int) -> tuple[Vector, Ids]:
    """As `rank`, for the entries of one query: few calls of numpy."""
    order = np.lexsort((ids, -scores))[:k]
    return pad(scores[order][None], k, -np.inf), pad(ids[order][None], k, -1)


def keep_highest(scores: Vector, ids: Ids, k: int) -> tuple[Vector, Ids]:
    """Return the k >= 1 highest scores and their ids, in their order; of equal ones the first."""
    if k >= len(scores):
        return scores, ids
    floor = np.partition(scores, len(scores) - k)[len(scores) - k]
    best = scores > floor
    best[np.flatnonzero(scores == floor)[: k - int(best.sum())]] = True
    return scores[best], ids[best]


def settle(atoms: Atoms, question: Question, ids: Ids, uppers: Vector, *, rest: Vector, cost: Cost) -> Hits:
    """Re-score, in float64, every candidate that can be among the k best.

    `ids` (m, c) are candidates, none excluded, the most promising first, padded with -1; `uppers` (m, c)
    at least the true and the computed float64 score of each, padded with -inf; `rest` (m,) the same for all
    atoms that are no candidates and not excluded. The re-scored are added to what `cost` has scored.

    The bounds are ``max(best + slack, rest)``. Where ``rest < scores[:, j]`` the first j + 1 are proved to
    be the best, ties included.
    """
    wide = max(1, min(ids.shape[1], question.k + 64))
    step = max(1, _GATHER // (atoms.shape[1] * atoms.dtype.itemsize * wide))
    parts = [
        _settle_some(atoms, question.queries[here], ids[here], uppers[here], question.k)
        for here in (slice(start, start + step) for start in range(0, len(ids), step))
    ]
    scores, best, again = (np.concatenate(part) for part in zip(*parts, strict=True))
    cost = cost._replace(scored=cost.scored + again)
    return build_hits(atoms.take, scores, best, prove(question, scores, rest, cost.radius), cost)


def prove(question: Question, scores: Vector, rest: Vector | float, radius: float) -> Vector:
    """Bounds from ranked (m, k) scores and their error, and a bound on all other atoms."""
    best, slack = scores[:, 0], slacks(question.sizes, question.queries.shape[1], radius)
    above = np.where(best > -np.inf, np.nextafter(best + slack, np.inf), -np.inf)
    return np.maximum(above, rest)


def _settle_some(atoms: Atoms, queries: Vector, ids: Ids, uppers: Vector, k: int) -> tuple[Vector, Ids, Ints]:
    """Return scores and ids of the k best, and how many were re-scored."""
    scores = rescore_pairs(atoms, queries, ids[:, :k])
    worst = scores.min(axis=1) if scores.shape[1] == k else np.full(len(ids), -np.inf)
    can_win = uppers[:, k:] >= worst[:, None]
    first = np.argsort(~can_win, axis=1, kind="stable")[:, : int(can_win.sum(axis=1).max(initial=0))]
    near = np.take_along_axis(np.where(can_win, ids[:, k:], -1), first, 1)
    scores = np.concatenate([scores, rescore_pairs(atoms, queries, near)], axis=1)
    ids = np.concatenate([ids[:, :k], near], axis=1)
    return (*rank(scores, ids, k), (ids >= 0).sum(axis=1))


def offer(atoms: Atoms, question: Question, ids: Ids, *, scored: Ints) -> Hits:
    """Re-score (m, c) candidates, none excluded, distinct in a row, padded; of others nothing is proved."""
    scores, best = rank(rescore_pairs(atoms, question.queries, ids), ids, question.k)
    if not (np.isfinite(scores) | (best < 0)).all():
        refuse_overflow(question)
    return build_hits(atoms.take, scores, best, np.full(len(ids), np.inf), Cost(scored))


def refuse_overflow(question: Question) -> None:
    """Raise ValueError: a score is not finite."""
    size = f"|query| up to {question.sizes.max():.3g}"
    require(False, "queries", "so small that no score overflows", size)


# ---------------------------------------------------------------- putting answers together


class Cost(NamedTuple):
    """What an answer took, and the radius that it found; as in `Hits`."""

    scored: Ints
    passes: float = 0.0
    radius: float = math.inf


def build_hits(take: Callable[[Ids], Matrix], scores: Vector, ids: Ids, bounds: Vector, cost: Cost) -> Hits:
    """Add rows to answers (m, k) that are best first, padded; `take` gives the rows of distinct ids."""
    if len(ids) == 1:  # distinct already, and a sort takes longer than the rest
        unique = ids[0][ids[0] >= 0]
        slots = pad(np.arange(len(unique))[None], ids.shape[1], 0)
    else:
        unique, slots = _unique(ids)
        slots = np.maximum(slots, 0)
    return Hits(ids=ids, scores=scores, bounds=bounds, rows=take(unique), slots=slots, **cost._asdict())


def patch(hits: Hits, which: Ints, other: Hits) -> Hits:
    """Replace the answers of some queries; the cost of both is counted."""
    both, places, scored = join([hits, other]), np.arange(len(hits.ids)), hits.scored.copy()
    places[which] = len(places) + np.arange(len(other.ids))
    scored[which] += other.scored
    ids, scores, slots = both.ids[places], both.scores[places], both.slots[places]
    return replace(both, ids=ids, scores=scores, slots=slots, bounds=both.bounds[places], scored=scored)


def join(parts: Sequence[Hits]) -> Hits:
    """Put the answers to consecutive groups of queries together."""
    if len(parts) == 1:
        return parts[0]
    bounds = np.concatenate([part.bounds for part in parts])
    return Hits(**_stack(parts, 0), bounds=bounds, scored=np.concatenate([part.scored for part in parts]))


def _stack(parts: Sequence[Hits], axis: int) -> dict[str, Any]:
    """Several answers as one: below each other (axis 0), or beside; all but bounds and what was scored."""
    starts = np.cumsum([0, *(len(part.rows) for part in parts)])
    slots = [np.where(part.ids >= 0, part.slots + s, 0) for part, s in zip(parts, starts, strict=False)]
    return {
        "ids": np.concatenate([part.ids for part in parts], axis),
        "scores": np.concatenate([part.scores for part in parts], axis),
        "slots": np.concatenate(slots, axis),
        "rows": np.concatenate([part.rows for part in parts]),
        "passes": sum(part.passes for part in parts),
        "radius": min(part.radius for part in parts),
    }


def best_of(parts: Sequence[Hits], bounds: Vector, k: int) -> Hits:
    """Return the k best atoms of several answers to the same questions, each atom once."""
    found = _stack(parts, 1)
    ids, scores, slots = found["ids"], found["scores"], found["slots"]
    if k > 1:  # an oracle with sums of its own may have scored an atom in another way
        order = np.lexsort((-scores, ids), axis=1)
        ids, scores, slots = (np.take_along_axis(each, order, 1) for each in (ids, scores, slots))
        again = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)
        ids[:, 1:][again], scores[:, 1:][again] = -1, -np.inf
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    ids, scores, slots = (np.take_along_axis(each, order, 1) for each in (ids, scores, slots))
    slots = pad(np.where(ids >= 0, slots, 0), k, 0)
    found |= {"ids": pad(ids, k, -1), "scores": pad(scores, k, -np.inf), "slots": slots}
    return Hits(**found, bounds=bounds, scored=np.sum([part.scored for part in parts], axis=0))


def merge(parts: Sequence[Hits], sizes: Sequence[int], question: Question) -> Hits:
    """Put the answers of parts of the atoms together: the k best of all, rows of these alone.

    The bounds are those of the parts, raised to what one proof over all atoms would
    give: of exact parts, the same bits as of one exact oracle.

    `parts` answer the same question, ids counted within each; `sizes` are the atoms of each.
    """
    starts = np.cumsum([0, *sizes])
    named = [
        replace(part, ids=np.where(part.ids >= 0, part.ids + s, -1))
        for part, s in zip(parts, starts, strict=False)
    ]
    bounds, radius = np.max([part.bounds for part in parts], 0), max(part.radius for part in parts)
    hits = best_of(named, bounds, question.k)
    if math.isfinite(radius):
        bounds = prove(question, np.asarray(hits.scores, np.float64), bounds, radius)
    passes = sum(part.passes * size for part, size in zip(parts, sizes, strict=True)) / sum(sizes)
    found = hits.ids >= 0
    used, hits.slots[found] = np.unique(hits.slots[found], return_inverse=True)
    return replace(hits, bounds=bounds, rows=hits.rows[used], passes=passes, radius=radius)


# ---------------------------------------------------------------- one query at once


def empty_top(rows: Matrix, k: int, scored: int = 0) -> tuple[Any, ...]:
    """Room for the k answers of a kernel, the fields of its `Top`; `scored` is counted already."""
    ids, slots, count = np.empty((1, k), np.int64), np.empty((1, k), np.int64), np.empty(1, np.int64)
    count[0] = scored
    return np.empty((1, k)), ids, slots, np.empty(1), count, np.empty((k, rows.shape[1]), rows.dtype)


def make_hits(top: tuple[Any, ...], found: int, passes: float, radius: float) -> Hits:
    """Make `Hits` of what a kernel has found."""
    scores, ids, slots, bounds, scored, rows = top
    return Hits(
        ids=ids,
        scores=scores,
        bounds=bounds,
        rows=rows if found == len(rows) else rows[:found],
        slots=slots,
        scored=scored,
        passes=passes,
        radius=radius,
    )


OFTEN = 32  # so many single queries are answered in several calls: few are not worth seconds of compiling
_LARGEST = 2.0**1000  # largest |query| max|atom|: no sum of products can then overflow


@dataclass(frozen=True, slots=True)
class Question:
    """Checked arguments of `Oracle.query`."""

    queries: Vector  # (m, d) float64
    k: int  # at most n
    exclude: Ids  # (m, e), each row in ascending order, padded with -1
    sizes: Vector  # (m,) norms of the queries, rounded up
    often: bool = False  # whether it was asked for single queries so often that a compiled way pays

    def only(self, which: Ints | slice) -> Question:
        """Return some of the queries."""
        return Question(self.queries[which], self.k, self.exclude[which], self.sizes[which], self.often)

    def exclusions(self, i: int) -> Ids:
        """Excluded atoms of query i, ascending."""
        row: Ids = self.exclude[i]
        return row[row >= 0]


def check_question(atoms: Atoms, queries: Any, k: int, exclude: Any, *, often: bool = False) -> Question:
    """Check the arguments of `Oracle.query`."""
    n, d = atoms.shape
    one = type(queries) is np.ndarray and queries.dtype == _DOUBLE and queries.shape == (1, d)
    if one and queries.flags.carray and exclude is None and type(k) is int and k >= 1:
        sizes = lengths(queries)
        if sizes[0] < math.inf:  # else an entry, or its square, is not finite
            return Question(queries, min(k, n), _NONE, sizes, often)
    given = array(queries, "queries", "an array of real numbers")
    rows = matrix(given[None] if given.ndim == 1 else queries, "queries")
    require(rows.shape[1] == d, "queries", f"an (m, {d}) array", f"shape {rows.shape}")
    k = min(count(k, "k", low=1), n)
    if exclude is None:
        return Question(rows, k, np.empty((len(rows), 0), np.int64), lengths(rows), often)
    out = array(exclude, "exclude", "an array of integer ids")
    if out.dtype.kind not in "iu":
        raise TypeError(f"`exclude` must be an array of integer ids. Got dtype {out.dtype}.")
    if out.ndim == 1 and len(rows) == 1:
        out = out[None]
    shape_ok = out.ndim == 2 and len(out) == len(rows)
    require(shape_ok, "exclude", f"an ({len(rows)}, e) array", f"shape {out.shape}")
    if out.size:
        low, high = out.min(), out.max()
        require(bool(low >= -1 and high < n), "exclude", f"ids in [0, {n}) or -1", f"{low} .. {high}")
    return Question(rows, k, np.sort(out.astype(np.int64), axis=1), lengths(rows), often)


_NONE: Ids = np.empty((1, 0), np.int64)
_DOUBLE = np.dtype(np.float64)


def check_thresholds(thresholds: Any, m: int) -> Vector | None:
    """Check the thresholds of m queries; infinite ones are allowed."""
    if thresholds is None:
        return None
    if type(thresholds) is np.ndarray and thresholds.dtype == _DOUBLE and thresholds.shape == (1,) == (m,):
        if not math.isnan(thresholds[0]):
            return thresholds
    one = m == 1 and isinstance(thresholds, (int, float, np.number)) and not isinstance(thresholds, bool)
    out = np.ascontiguousarray(real_array([thresholds] if one else thresholds, "thresholds", 1), np.float64)
    require(len(out) == m, "thresholds", f"a vector of length {m}", f"length {len(out)}")
    require(not np.isnan(out).any(), "thresholds", "numbers", "nan")
    return out


def ask_index(oracle: Oracle, question: Question, thresholds: Vector | None) -> Hits:
    """Hand a checked question on to another oracle."""
    exclude = question.exclude if question.exclude.shape[1] else None
    return oracle.query(question.queries, k=question.k, thresholds=thresholds, exclude=exclude)


def ask_unchecked(oracle: Oracle, queries: Vector, *, k: int = 1, thresholds: Vector | None = None) -> Hits:
    """Ask finite, C-ordered float64 queries that a loop of ours made: they are not checked again."""
    if not isinstance(oracle, CheckedOracle):
        return oracle.query(queries, k=k, thresholds=thresholds)
    none, often = np.empty((len(queries), 0), np.int64), oracle._asked >= OFTEN
    oracle._asked += len(queries) == 1
    return oracle.answer(Question(queries, k, none, lengths(queries), often), thresholds)


class CheckedOracle(abc.ABC):
    """An oracle that is asked checked questions: a subclass gives `answer`, and sets its atoms."""

    _atoms: Atoms
    _asked = 0  # single queries; threads may lose a count

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries, see `Oracle.query` and `answer`."""
        question = check_question(self._atoms, queries, k, exclude, often=self._asked >= OFTEN)
        self._asked += len(question.queries) == 1
        return self.answer(question, check_thresholds(thresholds, len(question.queries)))

    def __getattr__(self, name: str) -> Any:
        """Say what a word of another library may have meant."""
        hint = suggest(name, dir(type(self))) if name in FOREIGN else ""  # Python knows names that are close
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{hint}")

    @abc.abstractmethod
    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer a checked question."""


def lengths(rows: Vector) -> Vector:
    """Norms of float64 rows, rounded up; inf if a norm overflows."""
    up, out = 1.0 + gamma(rows.shape[1] + 4), np.empty(len(rows))
    if measure_all(lock(np.ascontiguousarray(rows).view()), up, out):
        return out
    largest = np.abs(rows).max(axis=1, initial=0.0)
    exponents = np.frexp(largest)[1]
    measure_all(lock(np.ldexp(rows, -exponents[:, None], order="C")), up, out)
    with np.errstate(over="ignore"):
        out = np.ldexp(out, exponents) + TINY
    return np.asarray(np.where(largest == 0.0, 0.0, out))  # nan stays nan


def slacks(sizes: Vector, d: int, radius: float) -> Vector:
    """Proved bound on |computed - true score| of any atom, by the float64 loop, for every query.

    ``gamma_d |q| |s|`` in any order of summation, plus underflow; d + 2 pays for
    the rounding of the norms and of this product.
    """
    slack_of_one(float(sizes.max()), d, radius)  # refuses queries that are too long
    return np.asarray(gamma(d + 2) * sizes * radius + d * TINY)


def slack_of_one(size: float, d: int, radius: float) -> float:
    """As `slacks`, for one query."""
    if not size < _LARGEST / radius:
        require(False, "queries", "so small that |query| max|atom| < 1e301", f"{size:.3g} * {radius:.3g}")
    return gamma(d + 2) * size * radius + d * TINY
