"""Compiled answers to one query over rows in memory: one call each, so that little stands beside the work.

What Python calls takes plain tuples and names them inside: numba looks up the class of a named
tuple at every call, half a microsecond each.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Singles, Vector
from wolfhound.jit import fast_kernel, kernel
from wolfhound.oracles._heap_kernels import Heaps, is_listed, push, unheap
from wolfhound.oracles._scan_kernels import ScreenRule, collect, dots, peaks, uppers
from wolfhound.rounding import TINY, UNIT

CHUNK = 1 << 16
"""Upper bounds that are computed at a time: they stay in the cache."""

PROBES = 256
"""Atoms whose best score is the threshold of screening."""

SHARE = 0.05
"""Largest share of the atoms that is scored instead of a pass."""

TOO_MANY = -2
"""Instead of a number of answers: screening does not pay."""

_SINGLE = 2.0**-24
_SINGLE_TINY = 2.0**-126


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
"""The fields of a `Top`."""


@kernel
def _offer(score: float, atom: int, exclude: Ids, top: Top, fill: Ints) -> float:
    """Offer an atom, unless it is excluded; return the score that others must reach."""
    if exclude.shape[1] == 0 or not is_listed(exclude, 0, atom):
        push(top.scores, top.ids, fill, 0, score, atom)
    return top.scores[0, 0] if fill[0] == top.scores.shape[1] else -np.inf


@kernel
def offer_listed(rows: Matrix, query: Vector, ids: Ids, top: Top, fill: Ints) -> float:
    """Score atoms that are not excluded and offer them; return the least of their scores."""
    least, last = np.inf, ids.shape[0] - 1
    for i in range(0, last + 1, 4):
        places = (ids[i], ids[min(i + 1, last)], ids[min(i + 2, last)], ids[min(i + 3, last)])
        found = dots(rows, places, query)
        for j in range(min(4, last + 1 - i)):
            push(top.scores, top.ids, fill, 0, found[j], places[j])
            least = min(least, found[j])
    return least


@kernel
def best_offered(top: Top, fill: Ints) -> float:
    """The best score so far, -inf if there is none."""
    best = -np.inf
    for i in range(fill[0]):
        best = max(best, top.scores[0, i])
    return best


@kernel
def close(rows: Matrix, top: Top, fill: Ints, slack: float, rest: float) -> int:
    """Sort the answers, best first, and add their rows and the bound.

    Parameters
    ----------
    rows
        All of them.
    top, fill
        A heap of the answers, and how many there are.
    slack
        At least the error of a score.
    rest
        At least the score of all that was not offered.

    Returns
    -------
    count : int
        How many answers there are; -1 if a score is not finite.
    """
    count = fill[0]
    unheap(Heaps(top.scores, top.ids, fill, top.bounds))
    finite = True
    for i in range(top.ids.shape[1]):
        top.slots[0, i] = i if i < count else 0
        if i < count:
            finite = finite and np.isfinite(top.scores[0, i])
            for j in range(rows.shape[1]):
                top.rows[i, j] = rows[top.ids[0, i], j]
    above = np.nextafter(top.scores[0, 0] + slack, np.inf) if count > 0 else -np.inf
    top.bounds[0] = max(above, rest)
    return count if finite else -1


# ---------------------------------------------------------------- all rows


@kernel
def best_of_all(
    rows: Matrix, query: Vector, exclude: Ids, kept: tuple[Singles, float], slack: float, bare: BareTop
) -> int:
    """Score every row, four places at once, and answer with the best; see `close`.

    `kept` is where ``scale * score`` of every row is kept, nowhere if that is empty, and the scale.
    """
    top, (copy, scale) = Top(*bare), kept
    n, fill, floor = rows.shape[0], np.zeros(1, np.int64), -np.inf
    step = n // 4
    for i in range(step):
        places = (i, i + step, i + 2 * step, i + 3 * step)
        a, b, c, d = dots(rows, places, query)
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * a)
            copy[i + step] = np.float32(scale * b)
            copy[i + 2 * step] = np.float32(scale * c)
            copy[i + 3 * step] = np.float32(scale * d)
        if (a >= floor) | (b >= floor) | (c >= floor) | (d >= floor):
            for score, place in zip((a, b, c, d), places):  # noqa: B905 - numba knows no strict
                if score >= floor:
                    floor = _offer(score, place, exclude, top, fill)
    for i in range(4 * step, n):
        score = dots(rows, (i, i, i, i), query)[0]
        if copy.shape[0] > 0:
            copy[i] = np.float32(scale * score)
        if score >= floor:
            floor = _offer(score, i, exclude, top, fill)
    top.scored[0] += n
    return close(rows, top, fill, slack, -np.inf)


# ---------------------------------------------------------------- some rows


@kernel
def best_of_some(rows: Matrix, query: Vector, ids: Ids, exclude: Ids, bare: BareTop) -> int:
    """Score rows in place, four from distant places at once, and answer with the best; see `close`.

    Nothing is proved of others. Returns -1 if any score is not finite.
    """
    top = Top(*bare)
    n, fill, floor, bad = ids.shape[0], np.zeros(1, np.int64), -np.inf, 0.0
    step = n // 4
    for i in range(step):
        places = (ids[i], ids[i + step], ids[i + 2 * step], ids[i + 3 * step])
        a, b, c, d = dots(rows, places, query)
        bad += (a - a) + (b - b) + (c - c) + (d - d)  # nan once one is not finite
        if (a >= floor) | (b >= floor) | (c >= floor) | (d >= floor):
            for score, place in zip((a, b, c, d), places):  # noqa: B905 - numba knows no strict
                if score >= floor:
                    floor = _offer(score, place, exclude, top, fill)
    for i in range(4 * step, n):
        score = dots(rows, (ids[i], ids[i], ids[i], ids[i]), query)[0]
        bad += score - score
        if score >= floor:
            floor = _offer(score, ids[i], exclude, top, fill)
    top.scored[0] += n
    return close(rows, top, fill, 0.0, np.inf) if bad == 0.0 else -1


# ---------------------------------------------------------------- rows that can still win


class KeptScores(NamedTuple):
    """What a full pass left, see `ReferencePass`."""

    query: Vector
    size: float
    scale: float
    scores: Singles
    norms: Singles


BareReference: TypeAlias = tuple[Vector, float, float, Singles, Singles]
"""The fields of a `KeptScores`."""


@fast_kernel
def _inner(first: Vector, second: Vector) -> float:
    total = 0.0
    for i in range(first.shape[0]):
        total += first[i] * second[i]
    return total


@kernel
def screen_rule(query: Vector, size: float, known: Vector, known_size: float, scale: float) -> ScreenRule:
    """Bounds on the true and on the computed float64 scores of a query.

    rho collects all that is proportional to the norm of an atom: the distance of the queries
    and its own rounding, beside which squares that underflow are nothing; the float64 loop of
    the reference, its storage in float32, and the loop of the new query; the three roundings
    of the bound itself.
    """
    d = query.shape[0]
    near = _inner(query, known) / _inner(known, known)
    away = np.empty(d)
    for i in range(d):
        away[i] = query[i] - near * known[i]
    loop, kept = (d + 2) * UNIT / (1.0 - (d + 2) * UNIT), abs(near) * known_size
    rho = np.sqrt(_inner(away, away)) * (1.0 + (d + 4) * UNIT / (1.0 - (d + 4) * UNIT))
    rho += 4.0 * UNIT * (size + kept)
    rho += kept * (loop + 1.001 * _SINGLE) + loop * size
    rho += 8.0 * UNIT * (rho + 1.01 * kept)
    shift = abs(near) * (d * TINY + 2.0 * _SINGLE_TINY / scale) + d * TINY
    return ScreenRule(near / scale, rho * (1.0 + 4.0 * UNIT), shift * (1.0 + 4.0 * UNIT))


@kernel
def _bound_chunk(known: KeptScores, rule: ScreenRule, exclude: Ids, first: int, room: Vector) -> Vector:
    """Upper bounds of a chunk of atoms, -inf for excluded ones."""
    stop = min(first + CHUNK, known.scores.shape[0])
    out = room[: stop - first]
    uppers(known.scores[first:stop], known.norms[first:stop], rule, out)
    for i in range(exclude.shape[1]):
        if first <= exclude[0, i] < stop:
            out[exclude[0, i] - first] = -np.inf
    return out


@kernel
def _threshold(
    rows: Matrix, query: Vector, exclude: Ids, known: KeptScores, rule: ScreenRule, room: Vector
) -> tuple[float, int]:
    """Best score of atoms with high upper bounds, far apart; and how many these are."""
    n = rows.shape[0]
    window = max(1, n // PROBES)
    best, where = np.empty(-(-n // window)), np.empty(-(-n // window), np.int64)
    for i in range(best.shape[0]):  # np.full takes long to compile
        best[i], where[i] = -np.inf, -1
    for first in range(0, n, CHUNK):
        part = _bound_chunk(known, rule, exclude, first, room)
        peaks(part, first, window, best[first // window :], where[first // window :])
    top, count = -np.inf, 0
    for w in range(where.shape[0]):
        i = where[w]
        if i >= 0:
            top = max(top, dots(rows, (i, i, i, i), query)[0])
            count += 1
    return top, count


@kernel
def _highest(known: KeptScores, rule: ScreenRule, exclude: Ids, room: Vector, k: int) -> Ids:
    """The k atoms of highest upper bounds that are not excluded, or all, in no order."""
    keys, ids, fill, floor = np.empty((1, k)), np.empty((1, k), np.int64), np.zeros(1, np.int64), -np.inf
    for first in range(0, known.scores.shape[0], CHUNK):
        part = _bound_chunk(known, rule, exclude, first, room)
        for i in collect(part, floor):
            push(keys, ids, fill, 0, part[i], first + i)
        floor = keys[0, 0] if fill[0] == k else -np.inf
    return ids[0, : fill[0]]


@kernel
def best_of_near(
    rows: Matrix,
    query: Vector,
    size: float,
    exclude: Ids,
    reference: BareReference,
    slack: float,
    bare: BareTop,
) -> int:
    """Answer from the atoms that can still win, filled up to k by best upper bounds; see `close`.

    Returns `TOO_MANY` if more than a small share can win.
    """
    top, known = Top(*bare), KeptScores(*reference)
    rule = screen_rule(query, size, known.query, known.size, known.scale)
    if rule.slope <= 0.0 or rule.rho > 0.5 * size:
        return TOO_MANY
    n, most = rows.shape[0], int(SHARE * rows.shape[0])
    room, near, count = np.empty(min(n, CHUNK)), np.empty(most, np.int64), 0
    threshold, probed = _threshold(rows, query, exclude, known, rule, room)
    if probed == 0:
        return TOO_MANY
    below = np.nextafter(threshold, -np.inf)
    for first in range(0, n, CHUNK):
        found = collect(_bound_chunk(known, rule, exclude, first, room), below)
        if count + found.shape[0] > most:
            return TOO_MANY
        for i in range(found.shape[0]):
            near[count] = first + found[i]
            count += 1
    k, fill = top.ids.shape[1], np.zeros(1, np.int64)
    wanted = near[:count] if count >= k else _highest(known, rule, exclude, room, k)
    offer_listed(rows, query, wanted, top, fill)
    top.scored[0] += probed + wanted.shape[0]
    return close(rows, top, fill, slack, -np.inf)
