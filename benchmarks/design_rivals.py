"""Other ways to D-optimal designs and enclosing ellipsoids, on the same compiled pass as ours.

multiplicative   w_i <- w_i x_i'M^-1 x_i / d (Silvey, Titterington, Torsney 1978)
vertex           vertex direction with the exact step (Fedorov 1972; Wynn 1970); on points with a
                 constant column it is Khachiyan's algorithm (1996)
exchange         REX, the randomised exchange algorithm (Harman, Filova, Richtarik 2020), compiled

Each runs until its efficiency, d / max x'M^-1 x, reaches the goal, or until time is up.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from wolfhound.oracles import _form_kernels as forms

Array = NDArray[Any]
BLOCK = 65536


class Reached(NamedTuple):
    """What a rival came to.

    Attributes
    ----------
    efficiency : float
        As it is computed.
    seconds : float
    passes : int
        Over all candidates.
    steps : int
        Exchanges, or iterations.
    """

    efficiency: float
    seconds: float
    passes: int
    steps: int


def score(rows: Array, inverse: Array) -> Array:
    """x'M^-1 x of all rows, by the kernel of `FormScan`."""
    d = len(inverse)
    padded = np.zeros((-(-d // forms.TILE) * forms.TILE,) * 2)
    padded[:d, :d] = np.triu(inverse) + np.triu(inverse, 1)
    out, room = np.empty(len(rows)), forms.make_room(len(padded))
    for first in range(0, len(rows), BLOCK):
        forms.forms(rows[first : first + BLOCK], padded, out[first : first + BLOCK], out[:0], room)
    return out


def inform(rows: Array, weights: Array) -> Array:
    """Information matrix of weights on all rows."""
    total = np.zeros((rows.shape[1],) * 2)
    for first in range(0, len(rows), BLOCK):
        block = rows[first : first + BLOCK].astype(np.float64)
        total += (block * weights[first : first + BLOCK, None]).T @ block
    return total


def begin(rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Equal weights on a few random rows that span all."""
    ids = rng.choice(len(rows), min(len(rows), 2 * rows.shape[1] + 2), replace=False)
    weights = np.zeros(len(rows))
    weights[ids] = 1.0 / len(ids)
    return weights, inform(rows[ids], weights[ids])


def multiplicative(rows: Array, goal: float, cap: float) -> Reached:
    """Multiplicative algorithm; every iteration is a pass to score and one to mix."""
    began, d = time.perf_counter(), rows.shape[1]
    weights, best, passes = np.full(len(rows), 1.0 / len(rows)), 0.0, 0
    while True:
        scores = score(rows, np.linalg.inv(inform(rows, weights)))
        passes += 1
        best = max(best, d / float(scores.max()))
        if best >= goal or time.perf_counter() - began > cap:
            return Reached(best, time.perf_counter() - began, passes, passes)
        weights *= scores / d


def vertex(rows: Array, goal: float, cap: float) -> Reached:
    """Vertex direction: all weights shrink, one grows; the inverse is updated, and renewed now and then."""
    began, d, best, passes = time.perf_counter(), rows.shape[1], 0.0, 0
    _, matrix = begin(rows, np.random.default_rng(0))
    while True:
        scores = score(rows, np.linalg.inv(matrix))
        passes += 1
        top = int(scores.argmax())
        best = max(best, d / float(scores[top]))
        if best >= goal or time.perf_counter() - began > cap:
            return Reached(best, time.perf_counter() - began, passes, passes)
        step = (float(scores[top]) / d - 1.0) / (float(scores[top]) - 1.0)
        x = rows[top].astype(np.float64)
        matrix = (1.0 - step) * matrix + step * np.outer(x, x)


@numba.njit(nogil=True, error_model="numpy")
def _exchange_all(state: tuple[Array, Array, Array], leave: Array, join: Array, nullify: bool) -> int:
    """Exchange weight between all pairs, in the order given, by the optimal step of a pair."""
    rows, weights, inverse = state
    d, moves = inverse.shape[0], 0
    u, v = np.empty(d), np.empty(d)
    for a in range(join.shape[0]):
        i = join[a]
        for b in range(leave.shape[0]):
            k = leave[b]
            if k == i or weights[k] <= 0.0:
                continue
            di = dk = dik = 0.0
            for r in range(d):
                s = t = 0.0
                for c in range(d):
                    s += inverse[r, c] * rows[i, c]
                    t += inverse[r, c] * rows[k, c]
                u[r], v[r] = s, t
                di += s * rows[i, r]
                dk += t * rows[k, r]
                dik += s * rows[k, r]
            bend = di * dk - dik * dik
            if bend <= 1e-300:
                continue
            step = min(weights[k], max(-weights[i], 0.5 * (di - dk) / bend))
            if (nullify and step not in (weights[k], -weights[i])) or abs(step) < 1e-18:
                continue
            weights[i] += step
            weights[k] -= step
            moves += 1
            det = (1.0 + step * di) * (1.0 - step * dk) + step * step * dik * dik
            p = step * (1.0 - step * dk) / det
            q = step * step * dik / det
            r2 = -step * (1.0 + step * di) / det
            for r in range(d):
                for c in range(d):
                    inverse[r, c] -= u[r] * (p * u[c] + q * v[c]) + v[r] * (q * u[c] + r2 * v[c])
    return moves


def exchange(rows: Array, goal: float, cap: float) -> Reached:
    """REX: the support and the 4 d best candidates exchange weight in random order, between passes."""
    rng = np.random.default_rng(0)
    began, d, best, passes, moves = time.perf_counter(), rows.shape[1], 0.0, 0, 0
    weights, matrix = begin(rows, rng)
    active = np.flatnonzero(weights)
    while True:
        inverse = np.linalg.inv(matrix)
        scores = score(rows, inverse)
        passes += 1
        best = max(best, d / float(scores.max()))
        if best >= goal or time.perf_counter() - began > cap:
            return Reached(best, time.perf_counter() - began, passes, moves)
        wide = min(4 * d, len(rows) - 1)
        top = np.argpartition(-scores, wide)[:wide]
        pool = np.union1d(active, top)
        local, shares = rows[pool].astype(np.float64), weights[pool].copy()
        held, new = np.searchsorted(pool, active), np.searchsorted(pool, top)
        first, last = new[scores[top].argmax() : scores[top].argmax() + 1], held[scores[active].argmin()]
        before = shares[last]
        moves += _exchange_all((local, shares, inverse), np.array([last]), first, False)
        nullify = bool(before > 0.0 and shares[last] == 0.0)
        leave = rng.permutation(np.flatnonzero(shares))
        moves += _exchange_all((local, shares, inverse), leave, rng.permutation(new), nullify)
        shares[shares < 1e-14] = 0.0
        weights[pool] = shares / shares.sum()
        active = pool[shares > 0.0]
        matrix = inform(rows[active], weights[active])


RIVALS: dict[str, Callable[[Array, float, float], Reached]] = {
    "multiplicative": multiplicative,
    "vertex direction": vertex,
    "compiled exchange": exchange,
}
