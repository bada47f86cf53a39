"""From candidates to `Hits`: exact scores, ties, bounds, rows, in one place.

Every exact oracle ends here, so ids, scores and ties do not depend on how the
candidates were found.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock
from wolfhound.atoms import ArrayAtoms
from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Vector
from wolfhound.oracles._question import Question, slacks
from wolfhound.validate import require

_GATHER = 64 << 20
"""Bytes of rows that are gathered at once to be re-scored."""


def rescore(rows: Matrix, query: Vector) -> Vector:
    """Scores of rows by the same loop as a pass: the same bits.

    Examples
    --------
    >>> rescore(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """
    from wolfhound.oracles import _scan_kernels as kernels  # noqa: PLC0415 - numba is slow to load

    slots, scores = np.arange(len(rows))[None], np.empty((1, len(rows)))
    kernels.score_pairs(lock(rows.view()), slots, query[None], (0, len(rows)), scores)
    return scores.reshape(-1)


def score_ids(atoms: Atoms, ids: Ids, queries: Vector, scores: Vector) -> None:
    """Write the (m, r) scores of these atoms; rows in memory are read where they are."""
    from wolfhound.oracles import _scan_kernels as kernels  # noqa: PLC0415 - numba is slow to load

    rows, places = in_memory(atoms), ids
    if rows is None:
        rows, places = lock(atoms.take(ids)), np.arange(len(ids))
    for i in range(len(queries)):
        kernels.score_pairs(rows, places[None], queries[i : i + 1], (0, len(ids)), scores[i : i + 1])


def in_memory(atoms: Atoms) -> Matrix | None:
    """Rows that a kernel can read where they are, if there are."""
    return atoms.plain if isinstance(atoms, ArrayAtoms) else None


def rescore_pairs(atoms: Atoms, queries: Vector, ids: Ids) -> Vector:
    """Scores of ``ids[i, j]`` with query i, -inf where padded."""
    from wolfhound.oracles import _scan_kernels as kernels  # noqa: PLC0415 - numba is slow to load

    rows, slots = in_memory(atoms), ids
    if rows is None:
        unique, slots = _unique(ids)
        rows = lock(atoms.take(unique))
    scores = np.empty(ids.shape)
    kernels.score_pairs(rows, np.ascontiguousarray(slots), queries, (0, ids.shape[1]), scores)
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


def highest(scores: Vector, count: int) -> NDArray[np.bool_]:
    """Mark the `count` highest scores; of equal ones the first.

    Examples
    --------
    >>> highest(np.array([1.0, 3.0, 2.0, 2.0]), 2)
    array([False,  True,  True, False])
    """
    if count >= len(scores):
        return np.ones(len(scores), bool)
    if count <= 0:
        return np.zeros(len(scores), bool)
    floor = np.partition(scores, len(scores) - count)[len(scores) - count]
    marked: NDArray[np.bool_] = scores > floor
    marked[np.flatnonzero(scores == floor)[: count - int(marked.sum())]] = True
    return marked


def settle(atoms: Atoms, question: Question, ids: Ids, uppers: Vector, *, rest: Vector, cost: Cost) -> Hits:
    """Re-score, in float64, every candidate that can be among the k best.

    Parameters
    ----------
    atoms
        Where the rows are taken from.
    question
        The queries.
    ids : (m, c)
        Candidates, none excluded, the most promising first, padded with -1.
    uppers : (m, c)
        At least the true and the computed float64 score of each candidate,
        padded with -inf.
    rest : (m,)
        The same for all atoms that are no candidates and not excluded.
    cost
        The re-scored are added to `scored`.

    Returns
    -------
    Hits
        Its bounds are ``max(best + slack, rest)``. Where ``rest < scores[:, j]``
        the first j + 1 are proved to be the best, ties included.
    """
    if len(ids) == 1:
        near, exact = _settle_one(atoms, question.queries[0], ids[0], uppers[0], question.k)
        scores, best = rank_one(exact, near, question.k)
        again = np.array([len(near)])
    else:
        wide = max(1, min(ids.shape[1], question.k + 64))
        step = max(1, _GATHER // (atoms.shape[1] * atoms.dtype.itemsize * wide))
        parts = [
            _settle_some(atoms, question.queries[here], ids[here], uppers[here], question.k)
            for here in (slice(start, start + step) for start in range(0, len(ids), step))
        ]
        scores, best, again = (np.concatenate(part) for part in zip(*parts, strict=True))
    cost = cost._replace(scored=cost.scored + again)
    return build_hits(atoms.take, scores, best, prove(question, scores, rest, cost.radius), cost)


def _settle_one(atoms: Atoms, query: Vector, ids: Ids, uppers: Vector, k: int) -> tuple[Ids, Vector]:
    """Return the atoms that had to be scored, and their scores: few calls of numpy."""
    found = int((ids >= 0).sum())
    best = np.sort(ids[: min(k, found)])
    scores = _scores(atoms, best, query)
    if found > k:
        near = np.sort(ids[k:found][uppers[k:found] >= scores.min()])
        best = np.concatenate([best, near])
        scores = np.concatenate([scores, _scores(atoms, near, query)])
    return best, scores


def _scores(atoms: Atoms, ids: Ids, query: Vector) -> Vector:
    out = np.empty((1, len(ids)))
    score_ids(atoms, ids, query[None], out)
    return out.reshape(-1)


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
    """Re-score candidates in float64; nothing is proved of the other atoms.

    Parameters
    ----------
    atoms
        Where the rows are taken from.
    question
        The queries.
    ids : (m, c)
        Candidates, none excluded, distinct within a row, padded with -1.
    scored
        As in `Hits`.

    Returns
    -------
    Hits
        The best k candidates; bounds and radius are inf, passes 0.
    """
    if len(ids) == 1:
        mine = ids[0][ids[0] >= 0]
        scores, best = rank_one(_scores(atoms, mine, question.queries[0]), mine, question.k)
    else:
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
    """Add rows to ranked answers.

    Parameters
    ----------
    take
        Gives the rows of distinct ids.
    scores, ids : (m, k)
        Best first, padded.
    bounds : (m,)
    cost
    """
    if len(ids) == 1:  # distinct already, and a sort takes longer than the rest
        unique = ids[0][ids[0] >= 0]
        slots = pad(np.arange(len(unique))[None], ids.shape[1], 0)
    else:
        unique, slots = _unique(ids)
        slots = np.maximum(slots, 0)
    return Hits(ids=ids, scores=scores, bounds=bounds, rows=take(unique), slots=slots, **cost._asdict())


def take_from(ids: Ids, rows: Matrix) -> Callable[[Ids], Matrix]:
    """Return a `take` from rows that were gathered already; ids ascending."""
    return lambda wanted: rows[np.searchsorted(ids, wanted)]


def patch(hits: Hits, which: Ints, other: Hits) -> Hits:
    """Replace the answers of some queries; the cost of both is counted."""
    new = {name: getattr(hits, name).copy() for name in (*_EACH, "slots")}
    for name in ("ids", "scores", "bounds"):
        new[name][which] = getattr(other, name)
    new["slots"][which] = np.where(other.ids >= 0, other.slots + len(hits.rows), 0)
    new["scored"][which] += other.scored
    rows, radius = np.concatenate([hits.rows, other.rows]), min(hits.radius, other.radius)
    return Hits(**new, rows=rows, passes=hits.passes + other.passes, radius=radius)


_EACH = ("ids", "scores", "bounds", "scored")
"""Fields of `Hits` that have an entry for each query, but for the slots."""


def join(parts: Sequence[Hits], which: Ints | None = None) -> Hits:
    """Put the answers to groups of queries together; `which` are these, if not consecutive."""
    if len(parts) == 1:
        return parts[0]
    back = slice(None) if which is None else np.argsort(which)
    starts = np.cumsum([0, *(len(part.rows) for part in parts)])
    slots = [np.where(part.ids >= 0, part.slots + s, 0) for part, s in zip(parts, starts, strict=False)]
    return Hits(
        **{name: np.concatenate([getattr(part, name) for part in parts])[back] for name in _EACH},
        rows=np.concatenate([part.rows for part in parts]),
        slots=np.concatenate(slots)[back],
        passes=sum(part.passes for part in parts),
        radius=min(part.radius for part in parts),
    )


def merge(parts: Sequence[Hits], sizes: Sequence[int], question: Question) -> Hits:
    """Put the answers of parts of the atoms together: the k best of all, rows of these alone.

    The bounds are those of the parts, raised to what one proof over all atoms would
    give: of exact parts, the same bits as of one exact oracle.

    Parameters
    ----------
    parts
        Answers to the same question, ids counted within each part.
    sizes
        Atoms of each part.
    question
        What was asked, of all atoms together.
    """
    n, starts = sum(sizes), np.cumsum([0, *sizes])
    ids = np.concatenate(
        [np.where(part.ids >= 0, part.ids + s, -1) for part, s in zip(parts, starts, strict=False)], 1
    )
    order = np.lexsort((ids, -np.concatenate([part.scores for part in parts], 1)), axis=1)[:, : question.k]
    scores = np.take_along_axis(np.concatenate([part.scores for part in parts], 1), order, 1)
    firsts = np.cumsum([0, *(len(part.rows) for part in parts)])
    slots = np.concatenate([part.slots + first for part, first in zip(parts, firsts, strict=False)], 1)
    ids, slots = np.take_along_axis(ids, order, 1), np.take_along_axis(slots, order, 1)
    used, places = np.unique(slots[ids >= 0], return_inverse=True)
    slots = np.zeros_like(slots)
    slots[ids >= 0] = places
    bounds, radius = np.max([part.bounds for part in parts], 0), max(part.radius for part in parts)
    if math.isfinite(radius):
        bounds = prove(question, scores, bounds, radius)
    return Hits(
        ids=pad(ids, question.k, -1),
        scores=pad(scores, question.k, -np.inf),
        bounds=bounds,
        rows=_gather(parts, firsts, used),
        slots=pad(slots, question.k, 0),
        scored=np.sum([part.scored for part in parts], 0),
        passes=sum(part.passes * size for part, size in zip(parts, sizes, strict=True)) / n,
        radius=radius,
    )


def _gather(parts: Sequence[Hits], firsts: Ints, used: Ints) -> Matrix:
    """Rows of all parts, counted through and ascending, without a copy of those that are not used."""
    cuts = np.searchsorted(used, firsts)
    mine = [used[a:b] - first for a, b, first in zip(cuts[:-1], cuts[1:], firsts, strict=False)]
    return np.concatenate([part.rows[places] for part, places in zip(parts, mine, strict=True)])


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
