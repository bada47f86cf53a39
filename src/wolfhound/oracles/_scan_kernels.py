"""Compiled loops of the exact scan: plain arrays in, plain arrays out.

`dots` is the definition of a score everywhere: float64 sums in one fixed order,
so a pass, a batch and a re-score of the same atom give the same bits.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles, Vector
from wolfhound.jit import kernel, lean_fast_kernel, lean_kernel
from wolfhound.oracles._top_kernels import is_listed, keep_best, sort_best

_CHUNK = 128


@lean_fast_kernel
def dots(
    rows: Matrix, places: tuple[int, int, int, int], queries: Vector, at: int
) -> tuple[float, float, float, float]:
    """<row, query> of four rows in float64, vectorised.

    Four streams keep more reads of memory under way than one.
    """
    i, j, k, m = places
    a = b = c = d = 0.0
    for t in range(queries.shape[1]):
        q = queries[at, t]
        a += np.float64(rows[i, t]) * q
        b += np.float64(rows[j, t]) * q
        c += np.float64(rows[k, t]) * q
        d += np.float64(rows[m, t]) * q
    return a, b, c, d


@lean_fast_kernel
def square(rows: Matrix, i: int) -> float:
    """Return |row i|^2 in float64."""
    total = 0.0
    for j in range(rows.shape[1]):
        value = np.float64(rows[i, j])
        total += value * value
    return total


@lean_kernel
def score_pairs(rows: Matrix, slots: Ints, queries: Vector, span: tuple[int, int], scores: Vector) -> None:
    """Score row ``slots[i, j]`` with query i, for the j of a span; slots below 0 score -inf.

    Four at once from distant places, so that four runs are under way at a time, then the last few.
    """
    begin, end = span
    step = (end - begin) // 4 if rows.shape[0] > 0 else 0
    for q in range(slots.shape[0]):
        for h in range(begin, begin + step):
            i, j, k, m = slots[q, h], slots[q, h + step], slots[q, h + 2 * step], slots[q, h + 3 * step]
            a, b, c, d = dots(rows, (max(i, 0), max(j, 0), max(k, 0), max(m, 0)), queries, q)
            scores[q, h] = a if i >= 0 else -np.inf
            scores[q, h + step] = b if j >= 0 else -np.inf
            scores[q, h + 2 * step] = c if k >= 0 else -np.inf
            scores[q, h + 3 * step] = d if m >= 0 else -np.inf
        for h in range(begin + 4 * step, end):
            i = slots[q, h]
            scores[q, h] = dots(rows, (i, i, i, i), queries, q)[0] if i >= 0 else -np.inf


class Aside(NamedTuple):
    """What a pass keeps of all rows, unless it is empty: rows are in the cache once.

    Attributes
    ----------
    squares : (n,) float64
        Squared norms.
    copy : (n,) float32
        ``scale * score``.
    """

    squares: Vector
    copy: Singles
    scale: float


@lean_kernel
def scan_rows(
    rows: Matrix,
    first: int,
    question: tuple[Vector, int, Ids],
    floor: float,
    found: tuple[Vector, Ids],
    alone: bool,
    aside: Aside,
) -> int:
    """List the rows whose score reaches the floor, in no order; return how many.

    Parameters
    ----------
    rows : (n, d)
        Atoms first, first + 1, ...
    question
        Queries, which of them, and ids (m, e) that are not wanted, ascending.
    floor
        What a score must reach.
    found : (n,)
        Where scores and ids are listed.
    alone
        Whether only the best is wanted: the floor then rises.
    aside
        What is kept of all rows.
    """
    queries, q, exclude = question
    scores, ids = found
    squares, copy, scale = aside
    n, some = rows.shape[0], exclude.shape[1] > 0
    step, at = n // 4, 0
    for i in range(step):
        j, k, m = i + step, i + 2 * step, i + 3 * step
        a, b, c, d = dots(rows, (i, j, k, m), queries, q)
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * a)
            copy[j] = np.float32(scale * b)
            copy[k] = np.float32(scale * c)
            copy[m] = np.float32(scale * d)
        if squares.shape[0] > 0:
            for place in (i, j, k, m):
                squares[place] = square(rows, place)
        if (a >= floor) | (b >= floor) | (c >= floor) | (d >= floor):
            for score, place in ((a, i), (b, j), (c, k), (d, m)):
                if score >= floor and not (some and is_listed(exclude, q, first + place)):
                    scores[at], ids[at] = score, first + place
                    at += 1
                    floor = score if alone else floor
    for i in range(4 * step, n):
        a = dots(rows, (i, i, i, i), queries, q)[0]
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * a)
        if squares.shape[0] > 0:
            squares[i] = square(rows, i)
        if a >= floor and not (some and is_listed(exclude, q, first + i)):
            scores[at], ids[at] = a, first + i
            at += 1
            floor = a if alone else floor
    return at


@lean_kernel
def square_all(rows: Matrix, squares: Vector) -> None:
    """Square the norm of every row."""
    for i in range(rows.shape[0]):
        squares[i] = square(rows, i)


@lean_kernel
def count_scores(scores: Vector, floor: float) -> int:
    """How many scores are above the floor."""
    count = 0
    for i in range(scores.shape[0]):
        count += scores[i] > floor
    return count


@kernel
def collect(scores: Vector, floor: float) -> Ids:
    """List the places whose score is above the floor."""
    total = count_scores(scores, floor)
    found = np.empty(total, np.int64)
    count = 0
    for start in range(0, scores.shape[0], _CHUNK):
        stop = min(start + _CHUNK, scores.shape[0])
        if count == total:
            break
        if count_scores(scores[start:stop], floor) == 0:
            continue
        for i in range(start, stop):
            if scores[i] > floor:
                found[count] = i
                count += 1
    return found


@lean_kernel
def peaks(scores: Vector, first: int, window: int, best: Vector, where: Ids) -> None:
    """Raise the best score and its id of each window of consecutive ids.

    ``best[0]`` belongs to the window that holds id `first`.
    """
    base = first // window
    i = 0
    while i < scores.shape[0]:
        w = (first + i) // window
        stop = min(scores.shape[0], (w + 1) * window - first)
        top = best[w - base]
        at = where[w - base]
        for j in range(i, stop):
            if scores[j] > top:
                top = scores[j]
                at = first + j
        best[w - base] = top
        where[w - base] = at
        i = stop


# ---------------------------------------------------------------- screening


class ScreenRule(NamedTuple):
    """Upper bounds ``slope * kept score + rho * norm + shift``."""

    slope: float
    rho: float
    shift: float


@lean_kernel
def uppers(scores: Singles, norms: Singles, rule: ScreenRule, out: Vector) -> None:
    """Upper bounds in float64."""
    for i in range(scores.shape[0]):
        out[i] = rule.slope * np.float64(scores[i]) + (rule.rho * np.float64(norms[i]) + rule.shift)


# ---------------------------------------------------------------- many queries, by products


class Lists(NamedTuple):
    """The highest keys of m queries, in no order.

    Attributes
    ----------
    keys, ids : (m, 2 size)
    fill : (m,)
        How many there are, at most `size` between two blocks.
    floors : (m,)
        Keys must be above: the least of `size` keys, -inf while there are fewer.
    """

    keys: Matrix
    ids: Ids
    fill: Ints
    floors: Matrix


@lean_kernel
def _cut(lists: Lists, i: int) -> None:
    """Keep the best of query i, and raise its floor if these are as many as are wanted."""
    size = lists.keys.shape[1] // 2
    if lists.fill[i] >= size:
        lists.floors[i] = keep_best(lists.keys, lists.ids, i, lists.fill[i], size)
        lists.fill[i] = size


@lean_kernel
def keep_products(
    products: Matrix, norms: Singles, widths: tuple[Matrix, Any], first: int, exclude: Ids, lists: Lists
) -> None:
    """Keep the best keys ``product + (width * norm + shift)`` of each query; row j is atom ``first + j``.

    Ids must come in ascending order: a key equal to the floor is then too late.
    """
    width, shift = widths
    keys, ids, fill, floors = lists
    for i in range(products.shape[0]):
        for start in range(0, products.shape[1], _CHUNK):
            stop, some = min(start + _CHUNK, products.shape[1]), 0
            for j in range(start, stop):  # a loop of its own, so that it is vectorised
                some += products[i, j] + (width[i] * norms[j] + shift) > floors[i]
            if some == 0:
                continue
            for j in range(start, stop):
                key = products[i, j] + (width[i] * norms[j] + shift)
                if key > floors[i] and not is_listed(exclude, i, first + j):
                    keys[i, fill[i]], ids[i, fill[i]] = key, first + j
                    fill[i] += 1
                    if fill[i] == keys.shape[1]:
                        _cut(lists, i)
        _cut(lists, i)


@lean_kernel
def merge_lists(lists: Lists, others: Lists) -> None:
    """Offer the entries of other lists, all of them of later atoms, to these."""
    for i in range(lists.keys.shape[0]):
        for j in range(others.fill[i]):
            lists.keys[i, lists.fill[i] + j], lists.ids[i, lists.fill[i] + j] = (
                others.keys[i, j],
                others.ids[i, j],
            )
        lists.fill[i] += others.fill[i]
        _cut(lists, i)


@lean_kernel
def sort_lists(lists: Lists) -> None:
    """Sort each list: highest key first, smallest id first; pad the rest."""
    for i in range(lists.keys.shape[0]):
        sort_best(lists.keys, lists.ids, i, lists.fill[i])
        for j in range(lists.fill[i], lists.keys.shape[1]):
            lists.keys[i, j], lists.ids[i, j] = -np.inf, -1


# ---------------------------------------------------------------- one query at once


class Top(NamedTuple):
    """Room for the answer to one query, as in `Hits`.

    Attributes
    ----------
    scores, ids, slots : (1, k)
    bounds, scored : (1,)
        What is scored is added.
    rows : (k, d)
    """

    scores: Vector
    ids: Ids
    slots: Ints
    bounds: Vector
    scored: Ints
    rows: Matrix


BareTop: TypeAlias = tuple[Vector, Ids, Ints, Vector, Ints, Matrix]
"""The fields of a `Top`: numba looks up the class of a named tuple at every call, half a microsecond each."""


@lean_kernel
def close(rows: Matrix, top: Top, best: tuple[Vector, Ids], count: int, slack: float, rest: float) -> int:
    """Answer with the best of `count` atoms of a list: sort them, and add their rows and the bound.

    Parameters
    ----------
    rows
        All of them.
    top
        What is filled.
    best : (1, w)
        Scores and ids.
    count
        How many there are.
    slack
        At least the error of a score.
    rest
        At least the score of all that was not listed.

    Returns
    -------
    count : int
        How many answers there are; -1 if a score is not finite.
    """
    keys, ids = best
    most = min(count, top.ids.shape[1])
    if count > most:
        keep_best(keys, ids, 0, count, most)
    sort_best(keys, ids, 0, most)
    finite = True
    for i in range(top.ids.shape[1]):
        inside = i < most
        top.scores[0, i] = keys[0, i] if inside else -np.inf
        top.ids[0, i] = ids[0, i] if inside else -1
        top.slots[0, i] = i if inside else 0
        if inside:
            finite = finite and np.isfinite(keys[0, i])
            for j in range(rows.shape[1]):
                top.rows[i, j] = rows[ids[0, i], j]
    above = np.nextafter(keys[0, 0] + slack, np.inf) if most > 0 else -np.inf
    top.bounds[0] = max(above, rest)
    return most if finite else -1


@lean_kernel
def best_listed(
    rows: Matrix, query: Vector, ids: Ids, exclude: Ids, best: tuple[Vector, Ids], bare: BareTop
) -> int:
    """Score the listed rows (1, r), and answer with the best of those that are not excluded; see `close`.

    Nothing is proved of others. Returns -1 if any score is not finite.
    """
    keys, names = best
    score_pairs(rows, ids, query, (0, ids.shape[1]), keys)
    count, bad = 0, 0.0
    for i in range(ids.shape[1]):
        score, atom = keys[0, i], ids[0, i]
        bad += score - score  # nan once one is not finite
        if exclude.shape[1] == 0 or not is_listed(exclude, 0, atom):
            keys[0, count], names[0, count] = score, atom
            count += 1
    top = Top(*bare)
    top.scored[0] += ids.shape[1]
    return close(rows, top, best, count, 0.0, np.inf) if bad == 0.0 else -1
