"""Weights of a mixture by Newton steps: few reads of the likelihoods, each a line search and a proof.

A step solves the quadratic model over a pool of components exactly, so that the support
changes freely. Tall problems take the model's Hessian from a sample of rows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from wolfhound.core import Ints, Vector
from wolfhound.mixtures._rows import LikelihoodRows, Look
from wolfhound.threads import one_blas_thread

FIRST = 20_000
"""Rows, evenly spaced, that are solved first."""

SECOND = 100_000
"""Rows that are drawn by leverage and solved next, where there are many more."""

POOL = 192
"""Components of a model besides the support: the best third, and others evenly spaced."""

FLOOR = 1e-12
"""Least eigenvalue of a model, as a share of the largest, at unit diagonal."""

ARMIJO = 0.01
SHRINK = 0.4
SEARCHES = 20

COLLAPSE = 0.02
"""A step that leaves less than this share of any row's likelihood is too long: the mean hardly sees it."""

VANISHING = 1e-13
"""Smaller weights become 0."""

SPREAD = 0.01
"""Weight that goes to all components before rows are met that the sample did not have."""

MOST = 1e12
"""Larger entries of a model's rows are cut: their squares must not overflow in float32."""

_HESSIAN_ROWS = 4096


class Sample(NamedTuple):
    """Rows whose Hessian stands for that of all."""

    rows: LikelihoodRows
    ids: Ints


@dataclass(slots=True)
class Solved:
    """Weights, what was read last, and the cost."""

    x: Vector
    look: Look
    gap: float
    reads: int


def solve(rows: LikelihoodRows, tol: float, *, seed: int, end: float = math.inf) -> Solved:
    """Weights to a proved gap: some rows first, then all.

    Parameters
    ----------
    rows
        The likelihoods.
    tol
        Wanted gap.
    seed
        Of the sample of rows.
    end
        When to stop, by `time.monotonic`.
    """
    n, m = rows.shape
    first = min(FIRST, max(1000, n // 8))
    x = np.full(m, 1.0 / m)
    if n <= 2 * first:
        return improve(rows, _expect(rows, x), tol, end=end)
    step = n // first
    some = np.arange(step // 2, n, step)
    part = rows.take(some, _share(rows.weights[some]))
    x = improve(part, _expect(part, x), max(tol, 1e-4), end=end).x
    x = (1.0 - SPREAD) * x + SPREAD / m
    u = np.empty(n)
    look = rows.look(x, u)
    if look.bad or look.wrong >= 0:
        return Solved(x, look, math.inf, 1)
    if n <= 2 * SECOND:
        done = improve(rows, _share(x * look.slopes), tol, end=end)
        done.reads += 1
        return done
    sample = _draw(rows, u, seed)
    share = LikelihoodRows(sample.rows.matrix, _share(sample.rows.weights), lost=rows.lost)
    x = improve(share, _share(x * look.slopes), max(tol, 1e-6), end=end).x
    done = improve(rows, x, tol, sample=sample, end=end)
    done.reads += 1
    return done


def improve(
    rows: LikelihoodRows, x: Vector, tol: float, *, sample: Sample | None = None, end: float = math.inf
) -> Solved:
    """Newton steps from x until the gap is proved, or nothing moves; the best weights by their gap."""
    u = np.empty(rows.shape[0])
    look = rows.look(x, u)
    best = Solved(x, look, rows.prove(look, int((x > 0.0).sum())), 1)
    last, reads = u.copy(), 1
    for _ in range(60):
        if best.gap <= tol or look.bad or look.wrong >= 0 or time.monotonic() > end:
            break
        move = _propose(rows, sample, x, look, last)
        gain = float((look.slopes - 1.0) @ move)
        if not gain > 1e-15:
            break
        taken = None
        step = 1.0
        for _ in range(SEARCHES):
            new = x + step * move
            new[new < VANISHING] = 0.0
            taken, reads = rows.look(new, u, last), reads + 1
            rise = taken.value - (float(new.sum()) - 1.0) - look.value
            if not taken.bad and taken.least > COLLAPSE and rise >= ARMIJO * step * gain - 1e-14:
                break
            step *= SHRINK
        else:
            break
        total = float(new.sum())
        x = new / total
        np.divide(u, total, out=last)
        look = taken._replace(
            value=taken.value - math.log(total), slopes=taken.slopes * total, mass=taken.mass * total
        )
        gap = rows.prove(look, int((x > 0.0).sum()))
        if gap < best.gap:
            best = Solved(x, look, gap, reads)
    best.reads = reads
    return best


def _propose(rows: LikelihoodRows, sample: Sample | None, x: Vector, look: Look, u: Vector) -> Vector:
    """The move to the minimum of the model over a pool; all other components are as one."""
    pool = _choose_pool(x, look.slopes)
    rest = x.copy()
    rest[pool] = 0.0
    total = float(rest.sum())
    held, slopes = x[pool], look.slopes[pool]
    if total > 0.0:
        rest /= total
        held, slopes = np.append(held, total), np.append(slopes, look.slopes @ rest)
    with one_blas_thread():
        some = (rows, u) if sample is None else (sample.rows, u[sample.ids])
        hessian = _bend(*some, pool, rest if total > 0.0 else None)
        found = _minimize_model(hessian, held, slopes)
    move = -x
    move[pool] += found[: len(pool)]
    return move + found[-1] * rest if total > 0.0 else move


def _choose_pool(x: Vector, slopes: Vector) -> Ints:
    """All components; of very many those with most weight, the steepest, and some evenly spaced."""
    m, part = len(x), POOL // 3
    if m <= POOL:
        return np.arange(m)
    heavy = np.argsort(-x * slopes, kind="stable")[: 2 * part]
    steep = np.argsort(-slopes, kind="stable")[:part]
    return np.unique(np.concatenate([heavy[x[heavy] > 0.0], steep, np.arange(0, m, -(-m // part))]))


def _bend(rows: LikelihoodRows, u: Vector, pool: Ints, rest: Vector | None) -> Vector:
    """sum_j w_j L_j L_j' / u_j^2 over the pool: it is only a model, products are float32 where L is."""
    n, m = rows.shape
    size = len(pool) + (rest is not None)
    out = np.zeros((size, size))
    scale = np.minimum(np.sqrt(rows.weights) / u, MOST)
    for first in range(0, n, _HESSIAN_ROWS):
        here = slice(first, first + _HESSIAN_ROWS)
        block = rows.block(here)
        part = block if len(pool) == m else block[:, pool]
        if rest is not None:
            part = np.column_stack([part, block @ rest.astype(block.dtype)])
        with np.errstate(over="ignore"):
            scaled = np.minimum(part * scale[here, None].astype(part.dtype), MOST, dtype=part.dtype)
        out += scaled.T @ scaled
    return out


def _minimize_model(hessian: Vector, x: Vector, slopes: Vector) -> Vector:
    """argmin 1/2 (y-x)'H(y-x) - (g-1)'(y-x) over y >= 0: the sum comes out as about 1 by itself."""
    unit = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), 1e-300))
    values, vectors = np.linalg.eigh(hessian * unit[:, None] * unit)
    values = np.maximum(values, FLOOR * values[-1])
    root = np.sqrt(values)
    wanted = root * (vectors.T @ (x / unit)) + (vectors.T @ (unit * (slopes - 1.0))) / root
    try:
        y, _ = nnls(root[:, None] * vectors.T, wanted, maxiter=200 * len(x))
    except RuntimeError:  # it cycles on rounding: a step of expectation-maximisation always climbs
        return x * slopes
    return np.asarray(y * unit)


def _expect(rows: LikelihoodRows, x: Vector) -> Vector:
    """A few steps of expectation-maximisation, which bring rows of tiny likelihood into the domain."""
    u = np.empty(rows.shape[0])
    for _ in range(4):
        look = rows.look(x, u)
        if look.bad or look.wrong >= 0:
            return np.full(len(x), 1.0 / len(x))
        x = x * look.slopes
        x = x / x.sum()
    return _share(np.where(x > 1e-3 / len(x), x, 0.0))


def _share(weights: Vector) -> Vector:
    return np.asarray(weights / weights.sum())


def _draw(rows: LikelihoodRows, u: Vector, seed: int) -> Sample:
    """Rows by their leverage: outliers for certain, each with the weight that keeps sums unbiased."""
    n = len(u)
    w = rows.weights * n
    leverage = w / u
    chance = np.minimum(1.0, SECOND * (0.5 * w / w.sum() + 0.5 * leverage / leverage.sum()))
    # A stream of its own: the data may have been drawn with the same small seed.
    drawn = np.random.default_rng([seed, 0x5EED, n]).random(n) < chance
    ids = np.flatnonzero(drawn)
    return Sample(rows.take(ids, rows.weights[ids] / chance[ids]), ids)
