"""Compiled loops of the exact scan, and the one top-k: plain arrays in, plain arrays out.

`dots` is the definition of a score everywhere: float64 sums in one fixed order,
so a pass, a batch and a re-score of the same atom give the same bits.

The best of many: a loop writes what reaches its floor to the end of a list, twice as long as what
is wanted. When the list is full, `keep_best` brings the best to the front and gives the new floor: a
few operations per entry in all, however many are wanted. `sort_best` puts the list in order at the end.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wolfhound.compiled.jit import inlined, lean_fast_kernel, lean_kernel
from wolfhound.core.contracts import Ids, Ints, Matrix, Singles, Vector

_CHUNK = 128
_SMALL, _LARGE = 2.0**-780, 2.0**780


# ---------------------------------------------------------------- the best of many


@lean_kernel
def keep_best(keys: Matrix, ids: Ids, row: int, count: int, k: int) -> Any:
    """Bring the k best of `count` > 0 entries of a row to the front; return the least key of these.

    The best have the highest keys, of equal ones the smallest ids; the ids are distinct, no key is nan.
    Hoare's selection.
    """
    low, high, last = 0, count - 1, min(k, count) - 1
    while low < high and k < count:
        key, atom = keys[row, (low + high) // 2], ids[row, (low + high) // 2]
        i, j = low, high
        while i <= j:
            while keys[row, i] > key or (keys[row, i] == key and ids[row, i] < atom):
                i += 1
            while keys[row, j] < key or (keys[row, j] == key and ids[row, j] > atom):
                j -= 1
            if i <= j:
                keys[row, i], keys[row, j] = keys[row, j], keys[row, i]
                ids[row, i], ids[row, j] = ids[row, j], ids[row, i]
                i += 1
                j -= 1
        if last <= j:
            high = j
        elif last >= i:
            low = i
        else:
            break
    least = keys[row, 0]
    for i in range(1, last + 1):
        least = min(least, keys[row, i])
    return least


@lean_kernel
def sort_best(keys: Matrix, ids: Ids, row: int, count: int) -> None:
    """Sort `count` entries of a row in the order of `keep_best`, by Shell's method: short, and no slower."""
    gap = 1
    while 9 * gap < 4 * count:
        gap = 9 * gap // 4 + 1
    while gap > 0:
        for i in range(gap, count):
            key, atom = keys[row, i], ids[row, i]
            j = i
            while j >= gap and (
                keys[row, j - gap] < key or (keys[row, j - gap] == key and ids[row, j - gap] > atom)
            ):
                keys[row, j], ids[row, j] = keys[row, j - gap], ids[row, j - gap]
                j -= gap
            keys[row, j], ids[row, j] = key, atom
        gap = 4 * gap // 9


@lean_kernel
def is_listed(sorted_ids: Ids, i: int, atom: int) -> bool:
    """Whether row i, in ascending order, holds the atom."""
    low, high = 0, sorted_ids.shape[1]
    while low < high:
        middle = (low + high) // 2
        if sorted_ids[i, middle] < atom:
            low = middle + 1
        else:
            high = middle
    return bool(low < sorted_ids.shape[1] and sorted_ids[i, low] == atom)


class Lists(NamedTuple):
    """The highest keys of m queries, in no order, and their atoms."""

    keys: Matrix  # (m, 2 size)
    ids: Ids  # (m, 2 size)
    fill: Ints  # (m,) how many there are, at most `size` between two blocks
    floors: Matrix  # (m,) keys must reach it: the least of `size` keys, -inf while there are fewer


BareLists: TypeAlias = tuple[Matrix, Ids, Ints, Matrix]
"""The fields of `Lists`: numba looks up the class of a named tuple at every call, half a microsecond each."""


@inlined
def add(lists: Lists, i: int, key: Any, atom: int) -> None:
    """Add an entry that is above the floor to the list of query i, which is cut when it is full."""
    at = lists.fill[i]
    lists.keys[i, at], lists.ids[i, at] = key, atom
    lists.fill[i] = at + 1
    if at + 1 == lists.keys.shape[1]:
        cut(lists, i)


@inlined
def cut(lists: Lists, i: int) -> None:
    """Keep the best of query i, and raise its floor if these are as many as are wanted."""
    size = lists.keys.shape[1] // 2
    if lists.fill[i] >= size:
        lists.floors[i] = keep_best(lists.keys, lists.ids, i, lists.fill[i], size)
        lists.fill[i] = size


# ---------------------------------------------------------------- scores


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


# ---------------------------------------------------------------- one query, by the loop


@lean_kernel
def scan_rows(
    rows: Matrix,
    first: int,
    question: tuple[Vector, int, Ids],
    bare: BareLists,
    aside: tuple[Vector, Singles, float],
) -> None:
    """Keep the best of rows first, first + 1, ... in the list of a query, in no order.

    `question`: queries, which of them, and ids (m, e) that are not wanted, ascending. `aside`: what is kept
    of all rows, unless it is empty, as rows are in the cache once: squared norms (n,), and
    ``scale * score`` in float32 (n,) with its scale.
    """
    queries, q, exclude = question
    squares, copy, scale = aside
    lists, n = Lists(*bare), rows.shape[0]
    step = n // 4
    for i in range(n - 3 * step):  # four from distant places; then the last few, each as four of the same
        here, apart, count = (i, step, 4) if i < step else (i + 3 * step, 0, 1)
        scores = dots(rows, (here, here + apart, here + 2 * apart, here + 3 * apart), queries, q)
        if copy.shape[0] > 0:
            for h in range(count):
                copy[here + h * apart] = np.float32(scale * scores[h])
        if squares.shape[0] > 0:
            for h in range(count):
                squares[here + h * apart] = square(rows, here + h * apart)
        a, b, c, d = scores
        floor = lists.floors[q]
        if (a >= floor) | (b >= floor) | (c >= floor) | (d >= floor):
            for h in range(count):
                atom = first + here + h * apart
                if scores[h] >= lists.floors[q] and not is_listed(exclude, q, atom):
                    add(lists, q, scores[h], atom)
    cut(lists, q)


@lean_kernel
def square_all(rows: Matrix, squares: Vector) -> None:
    """Square the norm of every row."""
    for i in range(rows.shape[0]):
        squares[i] = square(rows, i)


@lean_kernel
def measure_all(rows: Matrix, factor: float, norms: Vector) -> bool:
    """Write the norm of every row times a factor; say whether all squares are far from float64's limits."""
    moderate = True
    for i in range(rows.shape[0]):
        total = square(rows, i)
        norms[i] = np.sqrt(total) * factor
        moderate = moderate and _SMALL < total < _LARGE
    return moderate


# ---------------------------------------------------------------- screening


class ScreenRule(NamedTuple):
    """Upper bounds ``slope * kept score + rho * norm + shift``."""

    slope: float
    rho: float
    shift: float


@lean_kernel
def _bound(scores: Matrix, norms: Singles, rule: ScreenRule, i: int) -> float:
    """Upper bound of atom i in float64."""
    return rule.slope * np.float64(scores[i]) + (rule.rho * np.float64(norms[i]) + rule.shift)


@lean_kernel
def _count_reaching(scores: Matrix, norms: Singles, rule: ScreenRule, floor: float) -> Any:
    """How many upper bounds reach the floor: a loop of its own, so that it is vectorised."""
    count: Any = 0
    for i in range(scores.shape[0]):
        count += rule.slope * np.float64(scores[i]) + (rule.rho * np.float64(norms[i]) + rule.shift) >= floor
    return count


@lean_kernel
def find_peaks(
    scores: Matrix,
    norms: Singles,
    rule: ScreenRule,
    first: int,
    exclude: Ids,
    window: int,
    best: Vector,
    where: Ids,
) -> None:
    """Raise the highest bound, and its id, of each window of ids; these begin at `first`.

    ``best[0]`` belongs to the window that holds id `first`. Of excluded ids (1, e) nothing is told.
    """
    base, i = first // window, 0
    while i < scores.shape[0]:
        w = (first + i) // window - base
        stop = min(scores.shape[0], (w + base + 1) * window - first)
        while i < stop:
            end = min(i + _CHUNK, stop)
            if _count_reaching(scores[i:end], norms[i:end], rule, best[w]) > 0:
                for j in range(i, end):
                    upper = _bound(scores, norms, rule, j)
                    if upper > best[w] and not is_listed(exclude, 0, first + j):
                        best[w], where[w] = upper, first + j
            i = end


@lean_kernel
def collect_reaching(
    scores: Matrix, norms: Singles, rule: ScreenRule, exclude: Ids, floor: float, found: Ids
) -> int:
    """List the ids whose bound reaches the floor, and that are not excluded; -1 if there is no room."""
    count = 0
    for start in range(0, scores.shape[0], _CHUNK):
        stop = min(start + _CHUNK, scores.shape[0])
        if _count_reaching(scores[start:stop], norms[start:stop], rule, floor) > 0:
            for i in range(start, stop):
                if _bound(scores, norms, rule, i) >= floor and not is_listed(exclude, 0, i):
                    if count == found.shape[0]:
                        return -1
                    found[count] = i
                    count += 1
    return count


# ---------------------------------------------------------------- many queries, by products


@lean_kernel
def keep_products(
    products: Matrix, norms: Singles, widths: tuple[Matrix, Any], first: int, exclude: Ids, lists: Lists
) -> None:
    """Keep the best keys ``product + (width * norm + shift)`` of each query; row j is atom ``first + j``.

    Ids must come in ascending order: a key equal to the floor is then too late.
    """
    width, shift = widths
    floors = lists.floors
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
                    add(lists, i, key, first + j)
        cut(lists, i)


@lean_kernel
def merge_lists(lists: Lists, others: Lists) -> None:
    """Offer the entries of other lists, all of them of later atoms, to these."""
    for i in range(lists.keys.shape[0]):
        for j in range(others.fill[i]):
            at = lists.fill[i] + j
            lists.keys[i, at], lists.ids[i, at] = others.keys[i, j], others.ids[i, j]
        lists.fill[i] += others.fill[i]
        cut(lists, i)


@lean_kernel
def sort_lists(lists: Lists) -> None:
    """Sort each list: highest key first, smallest id first; pad the rest."""
    for i in range(lists.keys.shape[0]):
        sort_best(lists.keys, lists.ids, i, lists.fill[i])
        for j in range(lists.fill[i], lists.keys.shape[1]):
            lists.keys[i, j], lists.ids[i, j] = -np.inf, -1


# ---------------------------------------------------------------- one query at once


class Top(NamedTuple):
    """Room for the answer to one query, as in `Hits`."""

    scores: Vector  # (1, k)
    ids: Ids  # (1, k)
    slots: Ints  # (1, k)
    bounds: Vector  # (1,)
    scored: Ints  # (1,) what is scored is added
    rows: Matrix  # (k, d)


BareTop: TypeAlias = tuple[Vector, Ids, Ints, Vector, Ints, Matrix]  # the fields of a `Top`


@lean_kernel
def close(rows: Matrix, top: Top, best: tuple[Vector, Ids], count: int, slack: float, rest: float) -> int:
    """Answer with the best of `count` atoms of a list: sort them, and add their rows and the bound.

    `slack` is at least the error of a score, `rest` at least the score of all that was not listed. Returns
    how many answers there are; -1 if a score is not finite.
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
