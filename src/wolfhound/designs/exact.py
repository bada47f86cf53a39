"""Whole numbers of runs: efficient apportionment, then exchange of single runs, from several starts.

An exchange is Fedorov's: a run of one candidate goes to the one of the pool for which the determinant rises,
or the trace falls, most.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from wolfhound.core.contracts import Ids, Ints, Vector
from wolfhound.core.validate import count, require
from wolfhound.designs.criteria import find_null_space
from wolfhound.designs.proof import invert

_ROUNDS = 40  # rounds of exchanges at most
_LEAST = 1e-10  # relative gain of an exchange that is worth making
_WORTH = 2e-6  # gain of efficiency that is worth a pass
_STARTS = 12  # random starts, beside the apportioned one, of few runs: exchanges end in local optima
_FEW = 200  # runs up to which there are random starts
_MOST = 10**15  # runs of a plan: beyond, their shares are no longer told apart in float64
_HARVEST = 1024  # candidates that a pass adds


class Pool(NamedTuple):
    """Some candidates: (r,) ids, (r, d) terms and (r, c) factors."""

    ids: Ids
    rows: Vector
    settings: Vector

    def only(self, which: NDArray[np.bool_]) -> Pool:
        """Return some of them."""
        return Pool(self.ids[which], self.rows[which], self.settings[which])


Harvest: TypeAlias = Callable[[Vector, int], Pool]  # gives the k candidates with the largest x'Bx


def check_size(runs: int) -> int:
    """Return a number of runs that counts can hold."""
    require(count(runs, "runs", low=1) <= _MOST, "runs", f"at most {_MOST:g}", runs)
    return int(runs)


def apportion(weights: Vector, runs: int) -> Ints:
    """Efficient apportionment (Pukelsheim and Rieder 1992); the largest weights if there are too few runs."""
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
        counts = _begin_regular(rows, weights, runs, given)
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
    counts = counts.copy()
    c = np.empty((rows.shape[1], 0)) if root is None else root
    for _ in range(_ROUNDS):
        inverse = invert(_inform(rows, counts, fixed))
        if inverse is None:
            break
        least = _LEAST if root is None else _LEAST * float(np.sum(c * (inverse @ c)))
        if not Exchange(rows, inverse, c).make_round(counts, least):
            break
    return counts


class Exchange:
    """What every candidate of a pool would say, beside the (d, d) inverse of the information of all runs.

    The (d, c) root has width 0 for the determinant.
    """

    def __init__(self, rows: Vector, inverse: Vector, root: Vector) -> None:
        self._rows, self._inverse, self._root = rows, inverse.copy(), root
        lifted = rows @ inverse
        self._own = np.einsum("ij,ij->i", lifted, rows)  # x'M^-1 x
        self._far = lifted @ root  # x'M^-1 C
        self._size = np.einsum("ij,ij->i", self._far, self._far)

    def make_round(self, counts: Ints, least: float) -> bool:
        """Make the exchanges that gain more than this, the best of each candidate; whether there were any."""
        found = False
        for i in range(len(counts)):
            while counts[i] > 0:
                gain = self._gains(i)
                best = int(gain.argmax())
                if not gain[best] > least:
                    break
                self._turn(best, 1.0)
                self._turn(i, -1.0)
                counts[i] -= 1
                counts[best] += 1
                found = True
        return found

    def _gains(self, i: int) -> Vector:
        """By how much the determinant grows, relatively, or the trace falls, if a run of i goes to each."""
        own, far, size = self._own, self._far, self._size
        cross = self._rows @ (self._inverse @ self._rows[i])
        det = (1.0 + own) * (1.0 - own[i]) + cross * cross
        gain = det - 1.0
        if far.shape[1]:
            gain = size * (1.0 - own[i]) + 2.0 * (far @ far[i]) * cross - size[i] * (1.0 + own)
            gain = np.where(det > 1e-9, gain, -np.inf) / np.maximum(det, 1e-9)
        gain[i] = -np.inf
        return np.asarray(gain)

    def _turn(self, k: int, sign: float) -> None:
        """Count one run more (sign 1) or less (-1) of candidate k."""
        lifted = self._inverse @ self._rows[k]
        parts = self._rows @ lifted
        factor = sign / (1.0 + sign * float(parts[k]))
        self._inverse -= np.outer(factor * lifted, lifted)
        self._own -= factor * parts * parts
        if self._far.shape[1]:
            self._far -= np.outer(parts, factor * (lifted @ self._root))
            self._size = np.einsum("ij,ij->i", self._far, self._far)


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


def _begin_regular(rows: Vector, weights: Vector, runs: int, given: Vector) -> Ints:
    """Rows that span what the given runs do not first, by pivots; then by weight."""
    missing = find_null_space(given)
    scaled = rows * np.sqrt(weights + 1e-3 * weights.max())[:, None]
    basis = qr((scaled @ missing).T, mode="r", pivoting=True)[1][: min(runs, missing.shape[1])]
    counts = np.zeros(len(rows), np.int64)
    counts[basis] = 1
    counts[np.argsort(-weights, kind="stable")[: runs - len(basis)]] += 1
    counts[int(weights.argmax())] += runs - int(counts.sum())
    return counts
