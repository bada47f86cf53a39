"""Whole numbers of runs: efficient apportionment, then exchange of single runs, from several starts.

An exchange is Fedorov's: the run that, for another of the pool, raises the determinant or lowers the trace
most. The moves are compiled, on the inverse of the information of all runs, counted in runs.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from wolfhound.compiled.jit import fast_kernel, kernel
from wolfhound.core.contracts import Ids, Ints, Vector
from wolfhound.core.validate import count, require
from wolfhound.designs.proof import invert

_ROUNDS = 40
"""Rounds of exchanges at most."""

_LEAST = 1e-10
"""Relative gain of an exchange that is worth making."""

_WORTH = 2e-6
"""Gain of efficiency that is worth a pass."""

_STARTS = 12
"""Random starts, beside the apportioned one, of few runs: exchanges end in local optima."""

_FEW = 200
"""Runs up to which there are random starts."""

_MOST = 10**15
"""Runs of a plan: beyond, their shares are no longer told apart in float64."""

_HARVEST = 1024
"""Candidates that a pass adds."""


class Pool(NamedTuple):
    """Some candidates: (r,) ids, (r, d) terms and (r, c) factors."""

    ids: Ids
    rows: Vector
    settings: Vector

    def only(self, which: NDArray[np.bool_]) -> Pool:
        """Return some of them."""
        return Pool(self.ids[which], self.rows[which], self.settings[which])


Harvest: TypeAlias = Callable[[Vector, int], Pool]
"""Gives the k candidates with the largest x'Bx."""


def check_size(runs: int) -> int:
    """Return a number of runs that counts can hold."""
    require(count(runs, "runs", low=1) <= _MOST, "runs", f"at most {_MOST:g}", runs)
    return int(runs)


def apportion(weights: Vector, runs: int) -> Ints:
    """Efficient apportionment (Pukelsheim and Rieder 1992); the largest weights if there are too few runs.

    Examples
    --------
    >>> apportion(np.array([0.45, 0.35, 0.2]), 5)
    array([2, 2, 1])
    """
    k, runs = len(weights), check_size(runs)
    if runs < k:
        counts = np.zeros(k, np.int64)
        counts[np.argsort(-weights, kind="stable")[:runs]] = 1
        return counts
    counts = np.ceil((runs - 0.5 * k) * weights).astype(np.int64).clip(1)
    while counts.sum() != runs:
        if counts.sum() < runs:
            counts[int((counts / weights).argmin())] += 1
        else:
            ratios = np.where(counts > 1, (counts - 1) / weights, -np.inf)
            counts[int(ratios.argmax())] -= 1
    return counts


def choose_runs(rows: Vector, weights: Vector, runs: int, *, root: Vector | None, given: Vector) -> Ints:
    """(r,) how often each of the (r, d) rows of a pool is run, by the weights of the best design on it.

    There are at least as many runs as make the model estimable with the (g, d) given ones.
    """
    support = np.flatnonzero(weights > 0.0)
    counts = np.zeros(len(rows), np.int64)
    counts[support] = apportion(weights[support], runs)
    fixed = given.T @ given
    if not _is_regular(rows, counts, fixed):
        counts = _begin_regular(rows, weights, runs, fixed)
    best = exchange_runs(rows, counts, root=root, fixed=fixed)
    value = _evaluate(rows, best, root, fixed)
    for seed in range(_STARTS if runs <= _FEW else 0):
        drawn = np.random.default_rng(seed).choice(len(rows), runs, p=weights / weights.sum())
        counts = np.bincount(drawn, minlength=len(rows)).astype(np.int64)
        if _is_regular(rows, counts, fixed):
            counts = exchange_runs(rows, counts, root=root, fixed=fixed)
            other = _evaluate(rows, counts, root, fixed)
            best, value = (counts, other) if other > value + _WORTH else (best, value)
    return best


def exchange_runs(rows: Vector, counts: Ints, *, root: Vector | None, fixed: Vector) -> Ints:
    """Exchange single runs within a pool until none gains."""
    rows, counts = np.ascontiguousarray(rows), counts.copy()
    c = np.empty((rows.shape[1], 0)) if root is None else np.ascontiguousarray(root)
    for _ in range(_ROUNDS):
        inverse = invert(_inform(rows, counts, fixed))
        if inverse is None:
            break
        least = _LEAST if root is None else _LEAST * float(np.sum(c * (inverse @ c)))
        if not exchange(Exchange(rows, np.ascontiguousarray(inverse), c, counts), least):
            break
    return counts


def refine(
    pool: Pool,
    counts: Ints,
    harvest: Harvest,
    scale: Vector,
    *,
    root: Vector | None,
    fixed: Vector,
    passes: int,
) -> tuple[Pool, Ints]:
    """Look for better exchanges among all candidates: at most `passes` of these find those that say most.

    `harvest` gives the candidates with the largest x'Bx, in terms as they were before they were multiplied
    by the (d,) scale of the pool; root and fixed are as in `exchange_runs`.
    """
    value = _evaluate(pool.rows, counts, root, fixed)
    for _ in range(passes):
        used = counts > 0
        pool, counts = pool.only(used), counts[used]
        inverse = invert(_inform(pool.rows, counts, fixed))
        if inverse is None:
            break
        lift = None if root is None else inverse @ root
        matrix = inverse if lift is None else lift @ lift.T
        found = harvest(np.asarray(matrix, np.float64) * np.outer(scale, scale), _HARVEST)
        new = found._replace(rows=found.rows * scale).only(~np.isin(found.ids, pool.ids))
        pool = Pool(*(np.concatenate(pair) for pair in zip(pool, new, strict=True)))
        counts = np.concatenate([counts, np.zeros(len(new.ids), np.int64)])
        counts = exchange_runs(pool.rows, counts, root=root, fixed=fixed)
        before, value = value, _evaluate(pool.rows, counts, root, fixed)
        if not value > before + _WORTH:
            break
    return pool, counts


def _inform(rows: Vector, counts: Ints, fixed: Vector) -> Vector:
    """Information of all runs, counted in runs."""
    used = counts > 0
    return np.asarray((rows[used] * counts[used, None]).T @ rows[used] + fixed)


def _evaluate(rows: Vector, counts: Ints, root: Vector | None, fixed: Vector) -> float:
    """The logarithm of the efficiency, up to a constant."""
    information = _inform(rows, counts, fixed)
    if root is None:
        return float(np.linalg.slogdet(information)[1]) / len(information)
    inverse = invert(information)
    return -np.inf if inverse is None else -float(np.log(np.sum(root * (inverse @ root))))


def _is_regular(rows: Vector, counts: Ints, fixed: Vector) -> bool:
    return bool(np.linalg.cond(_inform(rows, counts, fixed)) < 1e12)


def _begin_regular(rows: Vector, weights: Vector, runs: int, fixed: Vector) -> Ints:
    """Rows that span all terms first, by pivots; then by weight."""
    values, vectors = np.linalg.eigh(fixed)
    known = vectors[:, values > 1e-10 * max(float(values.max()), 1e-300)]
    scaled = rows * np.sqrt(weights + 1e-3 * weights.max())[:, None]
    rest = scaled - (scaled @ known) @ known.T
    order = qr(rest.T, mode="r", pivoting=True)[1]
    counts = np.zeros(len(rows), np.int64)
    basis = order[: min(runs, rows.shape[1] - known.shape[1])]
    counts[basis] = 1
    for place in np.argsort(-weights, kind="stable"):
        if counts.sum() == runs:
            break
        counts[place] += 1
    counts[int(weights.argmax())] += runs - int(counts.sum())
    return counts


# ---------------------------------------------------------------- compiled exchange


class Exchange(NamedTuple):
    """What the exchange works on; `counts` and `inverse` are changed."""

    rows: Vector  # (r, d) candidates
    inverse: Vector  # (d, d) of the information of all runs, counted in runs
    root: Vector  # (d, c) C of trace C'M^-1 C; of width 0 for the determinant
    counts: Ints  # (r,) runs of each candidate


@fast_kernel
def _times(rows: Vector, vector: Vector, out: Vector) -> None:
    """Write <row, vector> of every row."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * vector[j]
        out[i] = total


@kernel
def _gain(pair: tuple[float, float, float], far: tuple[float, float, float], trace: bool) -> float:
    """By how much the determinant grows, relatively, or the trace falls, if x_j takes the place of x_i.

    `pair` are x'M^-1 x of i, j and both, `far` the same of M^-1 CC' M^-1.
    """
    di, dj, dij = pair
    det = (1.0 + dj) * (1.0 - di) + dij * dij
    if not det > 1e-9:
        return -np.inf
    if not trace:
        return det - 1.0
    fi, fj, fij = far
    return (fj * (1.0 - di) + 2.0 * fij * dij - fi * (1.0 + dj)) / det


class Prices(NamedTuple):
    """x'M^-1 x of every candidate, and with the one that may leave; `far` the same of M^-1 CC' M^-1."""

    own: Vector
    cross: Vector
    far_own: Vector
    far_cross: Vector


@kernel
def _turn(state: Exchange, sign: float, vector: Vector, own: Vector) -> None:
    """Update the inverse, and x'M^-1 x of all, for one run more (sign 1) or less (-1)."""
    inverse = state.inverse
    d = inverse.shape[0]
    lifted = np.empty(d)
    _times(inverse, vector, lifted)
    size = 0.0
    for j in range(d):
        size += lifted[j] * vector[j]
    factor = sign / (1.0 + sign * size)
    for i in range(d):
        for j in range(d):
            inverse[i, j] -= factor * lifted[i] * lifted[j]
    parts = np.empty(own.shape[0])
    _times(state.rows, lifted, parts)
    for k in range(own.shape[0]):
        own[k] -= factor * parts[k] * parts[k]


@kernel
def _pull(root: Vector, lifted: Vector, pulled: Vector) -> float:
    """Write C'v and return its squared norm."""
    square = 0.0
    for c in range(root.shape[1]):
        total = 0.0
        for j in range(root.shape[0]):
            total += root[j, c] * lifted[j]
        pulled[c] = total
        square += total * total
    return square


@kernel
def _price(state: Exchange, prices: Prices, alone: bool) -> None:
    """Fill in what belongs to one candidate alone."""
    rows, inverse, root, _ = state
    lifted, pulled = np.empty(rows.shape[1]), np.empty(root.shape[1])
    for k in range(rows.shape[0]):
        _times(inverse, rows[k], lifted)
        if alone:
            total = 0.0
            for j in range(rows.shape[1]):
                total += lifted[j] * rows[k, j]
            prices.own[k] = total
        prices.far_own[k] = _pull(root, lifted, pulled)


@kernel
def _cross(state: Exchange, prices: Prices, i: int) -> None:
    """Fill in what belongs to each candidate and to i."""
    rows, inverse, root, _ = state
    lifted, pulled = np.empty(rows.shape[1]), np.empty(root.shape[1])
    _times(inverse, rows[i], lifted)
    _times(rows, lifted, prices.cross)
    if root.shape[1] > 0:
        _pull(root, lifted, pulled)
        back = np.empty(rows.shape[1])
        _times(root, pulled, back)
        _times(inverse, back, lifted)
        _times(rows, lifted, prices.far_cross)


@kernel
def exchange(state: Exchange, least: float) -> int:
    """One round: the best exchanges of the runs of every candidate; return how many were made."""
    rows, _, root, counts = state
    n, trace, moves = rows.shape[0], root.shape[1] > 0, 0
    prices = Prices(np.empty(n), np.empty(n), np.zeros(n), np.zeros(n))
    _price(state, prices, True)
    for i in range(n):
        while counts[i] > 0:
            _cross(state, prices, i)
            best, where = least, -1
            for k in range(n):
                pair = (prices.own[i], prices.own[k], prices.cross[k])
                far = (prices.far_own[i], prices.far_own[k], prices.far_cross[k])
                gain = _gain(pair, far, trace)
                if k != i and gain > best:
                    best, where = gain, k
            if where < 0:
                break
            _turn(state, 1.0, rows[where], prices.own)
            _turn(state, -1.0, rows[i], prices.own)
            counts[i] -= 1
            counts[where] += 1
            moves += 1
            if trace:
                _price(state, prices, False)
    return moves
