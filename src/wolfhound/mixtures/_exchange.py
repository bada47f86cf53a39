"""The fit over the continuum by exchange: weights, moves, a certificate, its local maxima enter.

Coarse pseudo-observations (bins) come first, then all. Of very many observations fine bins stand
between: they bring the fit to where all observations hardly move it, and give the curvature of
joint Newton steps, whose slopes alone are then of all. Places are z of `_continuum`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from wolfhound.core.contracts import Matrix, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.threads import one_blas_thread
from wolfhound.mixtures._continuum import Continuum
from wolfhound.mixtures._newton import LikelihoodRows, expect, improve

ROUNDS = 40
NEAR = 0.2  # support points closer than this share of a small width are merged, if that costs nothing
KEPT = 1e-10  # smaller masses leave the support
TIDIED = 20_000  # distinct observations up to which the support is made as small as the proof allows
LOOSE = 0.03  # share of the last gap to which weights are solved; less after a round that did not climb
FINE_GAP = 1e-7  # smaller gaps are proved on cells half as wide
# Bins: their width as a share of a standard error, and the ratio of standard errors between two.
COARSE, FINE = (0.25, 1.2), (0.03, 1.025)
MANY = 8  # times as many observations as fine bins: from there on the bins pay
FITTED = 1e-3  # about the gap over all observations of what was fitted to fine bins
_BLOCK = 1024


@dataclass(slots=True)
class Exchanged:
    """Where the exchange led: parameters, their mass, and what was proved there."""

    theta: Vector
    mass: Vector
    f: Vector
    value: float
    gap: float
    slack: float
    rounds: int


@one_blas_thread()
def exchange(full: Continuum, *, atol: float, end: float = math.inf) -> Exchanged:
    """Fit a mixing distribution to a gap that is proved over the continuum."""
    if atol < FINE_GAP:
        full.lay_cells(1)
    small = compress(full, *COARSE)
    count = min(150, max(30, int((full.high - full.low) / np.quantile(full.reach, 0.1) * 2)))
    z = np.unique(np.concatenate([np.linspace(small.low, small.high, count), stab(small)]))
    x = np.full(len(z), 1.0 / len(z))
    x = expect(LikelihoodRows(small.likelihood(z), small.w), x, 8)
    done = run_rounds(small, z, x, max(atol, 1e-5), end)
    fine = compress(full, *FINE) if full.n >= 4 * MANY * small.n else full  # there are many times more
    bins = fine if full.n >= MANY * fine.n else None
    if bins is not None:
        z = np.clip(bins.from_theta(done.theta), bins.low, bins.high)
        done = run_rounds(bins, z, done.mass, max(atol, 1e-6), end)
    z, x = full.from_theta(done.theta), done.mass
    # Bins may hide an observation that none of the support explains.
    missed = full.likelihood(z) @ x < 1e-250
    if missed.any():
        new = np.unique(full.modes[missed])
        z = np.concatenate([z, new])
        x = np.concatenate([0.999 * x, np.full(len(new), 0.001 / len(new))])
    done = run_rounds(full, np.clip(z, full.low, full.high), x, atol, end, bins)
    return _tidy(full, done, atol) if full.n <= TIDIED else done


def _tidy(data: Continuum, done: Exchanged, atol: float) -> Exchanged:
    """Merge neighbours that the proof does not need."""
    for near in (0.7, 0.35):
        z, x = merge(data.from_theta(done.theta), done.mass, near * float(np.quantile(data.reach, 0.05)))
        if len(z) == len(done.theta):
            continue
        z, x, value = polish(data, z, x, 30)
        if not math.isfinite(value):
            continue
        theta = data.to_theta(z)
        f, gap, slack, _ = data.prove(theta, x, 0.5 * atol)
        if gap <= max(atol, done.gap):
            done = Exchanged(theta, x, f, float(data.w @ np.log(f)), gap, slack, done.rounds + 1)
    return done


def run_rounds(
    data: Continuum, z: Vector, x: Vector, atol: float, end: float, bins: Continuum | None = None
) -> Exchanged:
    """Rounds of weights, moves and certificates; the best by its gap.

    With fine bins the start was fitted to them, and they give the curvature of moves. Weights are solved
    as far as the gap asks for; where an observation of little weight is all that is left, that is not
    far enough: a move then drops what the certificate found, and rounds would go in a circle.
    """
    near, gap = NEAR * float(np.quantile(data.reach, 0.05)), 1.0 if bins is None else FITTED
    best: Exchanged | None = None
    loose, last = LOOSE, -math.inf
    for number in range(1, ROUNDS + 1):
        report_rows(data.n)
        rows = LikelihoodRows(data.likelihood(z), data.w)
        x = expect(rows, x, 5 if gap > 1e-2 else 0)  # far away Newton would go astray
        z, x = _weigh(rows, z, x, max(0.02 * atol, min(1e-2, loose * gap)), KEPT)
        z, x = _move(data, z, x, near, gap, bins)
        theta = data.to_theta(z)
        if atol < FINE_GAP:
            # Rounded places are first order in G: weights of parameters as float64 has them mend that.
            rows = LikelihoodRows(data.likelihood_of(theta), data.w)
            theta, x = _weigh(rows, theta, x, 0.02 * atol, 0.0)
            z = data.from_theta(theta)
        f, gap, slack, found = data.prove(theta, x, 0.5 * atol)
        value = float(data.w @ np.log(f)) if f.min() > 0.0 else -math.inf
        loose, last = loose if value > last else 0.01 * loose, value
        if best is None or gap <= best.gap:
            best = Exchanged(theta, x, f, value, gap, slack, number)
        best.rounds = number
        if gap <= atol or time.perf_counter() > end:
            break
        least = 1.0  # where the certificate is clearly larger, places join
        if math.isfinite(found.attained):
            least += max(0.02 * atol, 1e-3 * (found.attained - 1.0))
        new = found.places[found.heights > least]
        if len(new):
            share = min(1e-2, 0.1 * gap)
            z, x = np.append(z, new), np.append(x * (1.0 - share), np.full(len(new), share / len(new)))
            order = np.argsort(z, kind="stable")
            z, x = z[order], x[order]
        near *= 0.7
    return best  # type: ignore[return-value]


def _weigh(
    rows: LikelihoodRows, places: Vector, x: Vector, tol: float, least: float
) -> tuple[Vector, Vector]:
    """Weights of these places by Newton steps; those that are not above `least` leave."""
    x = improve(rows, x, tol).x
    keep = x > least
    return places[keep], x[keep] / x[keep].sum()


def _move(
    data: Continuum, z: Vector, x: Vector, near: float, gap: float, bins: Continuum | None
) -> tuple[Vector, Vector]:
    """Places and weights together, neighbours merged, if the likelihood is not lower then."""
    value = measure(data, z, x)
    merged = polish(data, *merge(z, x, near), 2 if gap > 1e-3 else 8, bins)
    if merged[2] < value and len(merged[0]) < len(z):
        alone = polish(data, z, x, 4, bins)
        merged = alone if alone[2] > merged[2] else merged
    return (merged[0], merged[1]) if merged[2] >= value else (z, x)


def measure(data: Continuum, z: Vector, x: Vector) -> float:
    """Weighted mean log-likelihood."""
    total = 0.0
    for first in range(0, data.n, 8 * _BLOCK):
        here = slice(first, first + 8 * _BLOCK)
        mixed = data.likelihood(z, here) @ x
        if not mixed.min() > 0.0:
            return -math.inf
        total += float(data.w[here] @ np.log(mixed))
    return total


def polish(
    data: Continuum, z: Vector, x: Vector, steps: int, bins: Continuum | None = None
) -> tuple[Vector, Vector, float]:
    """Joint Newton steps on places and weights; a weight that blocks one leaves the support."""
    value = measure(data, z, x)
    for _ in range(steps):
        if not math.isfinite(value):
            break
        move = _newton_move(data, z, x, bins)
        if move is None:
            break
        k, step = len(z), 1.0
        down = np.flatnonzero(x + move[:k] <= 0.0)
        if len(down):
            step = min(1.0, float((x[down] / -move[:k][down]).min()))
        for _ in range(12):
            new = x + step * move[:k]
            keep = new > 1e-12
            moved = np.clip(z + step * move[k:], data.low, data.high)[keep]
            new = new[keep] / new[keep].sum()
            reached = measure(data, moved, new)
            if reached >= value:
                break
            step *= 0.4
        else:
            break
        z, x, value = moved, new, reached
    return z, x, value


def _newton_move(data: Continuum, z: Vector, x: Vector, bins: Continuum | None) -> Vector | None:
    """The Newton move of (weights, places), with the absolute values of eigenvalues; None where none pays."""
    k = len(z)
    slopes, bend, curve = _sum_slopes(data, z, x, curved=bins is None)
    if bins is not None:
        _, bend, curve = _sum_slopes(bins, bins.from_theta(data.to_theta(z)), x, curved=True)
    scale = np.concatenate([np.ones(k), x])
    along = slopes[k:].copy()
    slopes = slopes * scale
    slopes[:k] -= 1.0
    hessian = -bend * scale[:, None] * scale
    i = np.arange(k)
    hessian[i, k + i] += along
    hessian[k + i, i] += along
    hessian[k + i, k + i] += curve * x
    if not np.isfinite(hessian).all():
        return None
    unit = 1.0 / np.sqrt(np.abs(hessian.diagonal()) + 1e-300)
    values, vectors = np.linalg.eigh(hessian * unit[:, None] * unit)
    values = np.maximum(np.abs(values), 1e-11 * np.abs(values).max())
    move = unit * (vectors @ ((vectors.T @ (unit * slopes)) / values))
    return move if float(slopes @ move) > 1e-13 else None


def _sum_slopes(data: Continuum, z: Vector, x: Vector, *, curved: bool) -> tuple[Vector, Matrix, Vector]:
    """Sums of first derivatives; where curved, of their products, and of second derivatives in z."""
    k = len(z)
    slopes, bend, curve = np.zeros(2 * k), np.zeros((2 * k, 2 * k)), np.zeros(k)
    room = np.empty((_BLOCK, 3 * k))
    for first in range(0, data.n, _BLOCK):
        here = slice(first, min(first + _BLOCK, data.n))
        out = room[: here.stop - first]
        data.slopes(z, here, out)
        u, w = out[:, :k] @ x, data.w[here]
        both = out[:, : 2 * k]
        slopes += (w / u) @ both
        if curved:
            curve += (w / u) @ out[:, 2 * k :]
            both = both * (np.sqrt(w) / u)[:, None]
            bend += both.T @ both
    return slopes, bend, curve


def merge(z: Vector, x: Vector, near: float) -> tuple[Vector, Vector]:
    """Neighbours closer than `near` become one, in their centre."""
    order = np.argsort(z, kind="stable")
    z, x = z[order], x[order]
    places, masses = [float(z[0])], [float(x[0])]
    for place, mass in zip(z[1:].tolist(), x[1:].tolist(), strict=True):
        if place - places[-1] < near:
            total = masses[-1] + mass
            places[-1] = (places[-1] * masses[-1] + place * mass) / total
            masses[-1] = total
        else:
            places.append(place)
            masses.append(mass)
    return np.array(places), np.array(masses)


def compress(data: Continuum, step: float, ratio: float) -> Continuum:
    """Pseudo-observations: cells of log s by z/s, their data averaged; every outlier stays."""
    least = float(data.reach.min())
    octave = np.round(np.log(data.reach / least) / math.log(ratio))
    place = np.round(data.modes / (step * least * ratio**octave))
    _, which = np.unique(np.column_stack([octave, place]), axis=0, return_inverse=True)
    which = which.ravel()
    w = np.asarray(np.bincount(which, data.w), np.float64)
    a, b = (np.bincount(which, data.w * each) / w for each in data.told[1:])
    return Continuum(data.kind, a, b, w)


def stab(data: Continuum) -> Vector:
    """Fewest places such that each observation has one within 4 s."""
    low, high = data.modes - 4.0 * data.reach, data.modes + 4.0 * data.reach
    order = np.argsort(high, kind="stable")
    out: list[float] = []
    last = -math.inf
    for begin, end in zip(low[order].tolist(), high[order].tolist(), strict=True):
        if begin > last:
            last = min(end, data.high)
            out.append(last)
    return np.array(out)
