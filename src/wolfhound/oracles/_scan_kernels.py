"""Compiled loops of the exact scan: plain arrays in, plain arrays out.

`dots` is the definition of a score everywhere: float64 sums in one fixed order,
so a pass, a batch and a re-score of the same atom give the same bits.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles, Vector
from wolfhound.jit import kernel, lean_fast_kernel, lean_kernel
from wolfhound.rounding import TINY, UNIT

_CHUNK = 128


@lean_fast_kernel
def dots(rows: Matrix, places: tuple[int, int, int, int], query: Vector) -> tuple[float, float, float, float]:
    """<row, query> of four rows in float64, vectorised.

    Four streams keep more reads of memory under way than one.
    """
    i, j, k, m = places
    a = b = c = d = 0.0
    for t in range(query.shape[0]):
        q = query[t]
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
def score(rows: Matrix, query: Vector, scores: Vector) -> None:
    """Score every row: four places at once, then the last few."""
    n = rows.shape[0]
    step = n // 4
    for i in range(step):
        places = (i, i + step, i + 2 * step, i + 3 * step)
        a, b, c, d = dots(rows, places, query)
        scores[i] = a
        scores[i + step] = b
        scores[i + 2 * step] = c
        scores[i + 3 * step] = d
    for i in range(4 * step, n):
        scores[i] = dots(rows, (i, i, i, i), query)[0]


@lean_kernel
def score_some(rows: Matrix, ids: Ids, query: Vector, scores: Vector) -> None:
    """Score some of the rows in place: four at once, then the last few.

    The four come from distant places, so four runs are under way at a time; a
    copy of the rows would take as long as reading them.
    """
    n = ids.shape[0]
    step = n // 4
    for i in range(step):
        a, b, c, d = dots(rows, (ids[i], ids[i + step], ids[i + 2 * step], ids[i + 3 * step]), query)
        scores[i] = a
        scores[i + step] = b
        scores[i + 2 * step] = c
        scores[i + 3 * step] = d
    for i in range(4 * step, n):
        scores[i] = dots(rows, (ids[i], ids[i], ids[i], ids[i]), query)[0]


class Aside(NamedTuple):
    """What a sweep keeps of all rows, unless it is empty: rows are in the cache once.

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


class Room(NamedTuple):
    """Memory for what a block may hold; fresh one for every block would cost page faults."""

    scores: Vector
    found: Ids


@lean_kernel
def sweep(rows: Matrix, query: Vector, floor: float, aside: Aside, room: Room) -> int:
    """List the rows whose score is above the floor, ascending, and return their number."""
    squares, copy, scale = aside
    scores, found = room
    n = rows.shape[0]
    step = n // 4
    first, second, third, fourth = 0, step, 2 * step, 3 * step
    for i in range(step):
        places = (i, i + step, i + 2 * step, i + 3 * step)
        a, b, c, d = dots(rows, places, query)
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * a)
            copy[i + step] = np.float32(scale * b)
            copy[i + 2 * step] = np.float32(scale * c)
            copy[i + 3 * step] = np.float32(scale * d)
        if squares.shape[0] > 0:
            for j in places:
                squares[j] = square(rows, j)
        if (a > floor) | (b > floor) | (c > floor) | (d > floor):
            if a > floor:
                scores[first], found[first] = a, i
                first += 1
            if b > floor:
                scores[second], found[second] = b, i + step
                second += 1
            if c > floor:
                scores[third], found[third] = c, i + 2 * step
                third += 1
            if d > floor:
                scores[fourth], found[fourth] = d, i + 3 * step
                fourth += 1
    for i in range(4 * step, n):
        a = dots(rows, (i, i, i, i), query)[0]
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * a)
        if squares.shape[0] > 0:
            squares[i] = square(rows, i)
        if a > floor:
            scores[fourth], found[fourth] = a, i
            fourth += 1
    count = first
    for start, stop in ((step, second), (2 * step, third), (3 * step, fourth)):
        for i in range(start, stop):
            scores[count], found[count] = scores[i], found[i]
            count += 1
    return count


@lean_kernel
def square_all(rows: Matrix, squares: Vector) -> None:
    """Square the norm of every row."""
    for i in range(rows.shape[0]):
        squares[i] = square(rows, i)


@lean_kernel
def norms_above(squares: Vector, d: int, norms: Singles) -> float:
    """Turn squared norms into norms, rounded up to float32.

    Returns the largest norm, rounded up; inf or nan if one is not finite.
    """
    total = 0.0
    top = 0.0
    for i in range(squares.shape[0]):
        above = np.sqrt(squares[i] + d * TINY) * (1.0 + (d + 4) * UNIT)
        norms[i] = np.float32(above * (1.0 + 2.0**-22) + 2.0**-148)
        top = max(top, above)
        total += above - above  # nan once a norm is not finite
    return top + total


@lean_kernel
def score_pairs(rows: Matrix, slots: Ints, queries: Vector, scores: Vector) -> None:
    """Score row ``slots[i, j]`` with query i, four at once; slots below 0 score -inf."""
    scores[:] = -np.inf
    width = slots.shape[1] if rows.shape[0] > 0 else 0
    for i in range(slots.shape[0]):
        for j in range(0, width, 4):
            k, m, p = min(j + 1, width - 1), min(j + 2, width - 1), min(j + 3, width - 1)
            places = (max(slots[i, j], 0), max(slots[i, k], 0), max(slots[i, m], 0), max(slots[i, p], 0))
            scores[i, j], scores[i, k], scores[i, m], scores[i, p] = dots(rows, places, queries[i])
        for j in range(width):
            if slots[i, j] < 0:
                scores[i, j] = -np.inf


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
