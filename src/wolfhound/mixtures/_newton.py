"""Weights of a mixture by Newton steps: few reads of the likelihoods, each a line search and a proof.

A read goes over all rows of the likelihoods in blocks, in memory or in a file (`LikelihoodRows.look`). A step
solves the quadratic model over a pool of components exactly, so that the support changes freely. Tall
problems take the model's Hessian from a sample of rows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from wolfhound.compiled.jit import fast_kernel
from wolfhound.core.contracts import Ints, Matrix, Status, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import SAFE, UNIT, gamma, is_rounding, product
from wolfhound.core.threads import map_ordered, one_blas_thread

if TYPE_CHECKING:
    from wolfhound.data.files import FileRows

BLOCK_ENTRIES = 1 << 23  # numbers of a block: the sums of one are added to those of the others in order
NARROW = 2.0**-24  # relative rounding of a likelihood that is kept in float32
EXPONENTS = 1024.0 * UNIT  # relative rounding of exp(l - o), l and o float64, where it does not vanish
LOST = 2.0**-149  # more than a float32 likelihood can lose to underflow, where each row's largest is 1
LEAST_MIXED = 1e-290  # a mixture's likelihood below this is outside the domain: quotients would lose digits
ROWS = 128  # rows that stay in the nearest cache between their two uses
FIRST = 20_000  # rows, evenly spaced, that are solved first
SECOND = 100_000  # rows that are drawn by leverage and solved next, where there are many more
POOL = 192  # components of a model besides the support: the best third, and others evenly spaced
# Least eigenvalue of a model at first, as a share of the largest; one that misleads gets a higher floor.
FLOOR = 1e-12
RAISED = 100.0  # factor on the floor after a step that fails; its root comes off after one that succeeds
ARMIJO = 0.01
SHRINK = 0.4
STEPS = 200
SEARCHES = 20
# A step that leaves less than this share of any row's likelihood is too long: the mean hardly sees it.
COLLAPSE = 0.02
# Rounding of a mean of n logarithms, as a share of 1 + its size and of 8 + sqrt(n): less says nothing.
NOISE = 8.0 * UNIT
SPREAD = 0.01  # weight that goes to all components before rows are met that the sample did not have
MOST = 1e12  # larger entries of a model's rows are cut: their squares must not overflow in float32
_HESSIAN_ROWS = 1024  # a cache holds a block


# ---------------------------------------------------------------- reading all rows


@fast_kernel
def read_block(L: Matrix, w: Vector, act: Ints, x: Vector, last: Vector, u: Vector, g: Vector) -> Vector:
    """Read rows once: u = L[:, act] x, g_k += sum_j w_j L_jk / u_j for every k.

    Returns (sum_j w_j log u_j, sum_j w_j / u_j, least u_j / last_j, rows outside the domain).
    `last` may be empty.
    """
    n, m = L.shape
    q, part = np.zeros(ROWS + 4), np.zeros(m)
    value, mass, least, bad = 0.0, 0.0, np.inf, 0.0
    for s in range(0, n, ROWS):
        r = min(ROWS, n - s)
        for j in range(r):
            R = L[s + j]
            t = 0.0
            for a in range(len(act)):
                t += np.float64(R[act[a]]) * x[a]
            if not LEAST_MIXED < t < np.inf:
                bad += 1.0
                t = 1.0
            u[s + j] = t
            if len(last):
                least = min(least, t / last[s + j])
            q[j] = w[s + j] / t
            value += w[s + j] * np.log(t)
            mass += q[j]
        part[:] = 0.0
        j = 0
        while j + 4 <= r:
            q0, q1, q2, q3 = q[j], q[j + 1], q[j + 2], q[j + 3]
            A, B, C, D = L[s + j], L[s + j + 1], L[s + j + 2], L[s + j + 3]
            for k in range(m):
                part[k] += (q0 * np.float64(A[k]) + q1 * np.float64(B[k])) + (
                    q2 * np.float64(C[k]) + q3 * np.float64(D[k])
                )
            j += 4
        while j < r:
            for k in range(m):
                part[k] += q[j] * np.float64(L[s + j, k])
            j += 1
        for k in range(m):
            g[k] += part[k]
    return np.array([value, mass, least, bad])


class Look(NamedTuple):
    """What one read of all rows says of a mixture x."""

    value: float  # sum_j w_j log u_j
    slopes: Vector  # (m,) sum_j w_j L_jk / u_j
    mass: float  # sum_j w_j / u_j
    least: float  # least u_j, as a share of what it was
    bad: int  # rows that the mixture does not explain at all


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodRows:
    """Likelihoods of N observations under m components, with weights."""

    matrix: NDArray[Any] | FileRows  # (N, m) likelihoods or their logarithms
    weights: Vector  # (N,) of sum 1 but for rounding
    log: bool = False  # logarithms: each block is scaled to a largest 1 per row
    lost: float = 0.0  # relative rounding that is ours: `NARROW` and more if they are kept in float32
    shift: Ints | None = None  # powers of two that rows are multiplied by: those that float64 hardly holds
    tops: Vector | None = None  # largest likelihood of each row as it is read, where that is not 1
    total: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", math.fsum(self.weights))

    @property
    def narrow(self) -> bool:
        """Whether likelihoods were rounded to float32 by us."""
        return self.lost >= NARROW

    @property
    def shape(self) -> tuple[int, int]:
        """(N, m)."""
        n, m = self.matrix.shape
        return n, m

    def block(self, rows: slice | Ints) -> Matrix:
        """Likelihoods of some rows, C-ordered float32 or float64."""
        found = self.matrix[rows]
        if self.log:
            return scale_logs(found, np.float32 if self.narrow else np.float64)[0]
        if self.shift is not None:
            return np.asarray(np.ldexp(found, self.shift[rows, None], dtype=np.float64))
        kept = found.dtype if found.dtype in (np.float32, np.float64) else np.float64
        return np.ascontiguousarray(found, kept)

    def take(self, ids: Ints, weights: Vector) -> LikelihoodRows:
        """These rows with these weights, in memory."""
        return LikelihoodRows(self.block(ids), weights, lost=self.lost)

    def look(self, x: Vector, u: Vector, last: Vector | None = None) -> Look:
        """Read all rows once; the mixture's likelihoods are left in u."""
        n, m = self.shape
        step = max(1024, BLOCK_ENTRIES // m)
        active = np.flatnonzero(x > 0.0)
        shares, none = x[active], np.empty(0)

        def work(first: int) -> tuple[Vector, Vector]:
            here, part = slice(first, min(first + step, n)), np.zeros(m)
            before = none if last is None else last[here]
            said = read_block(self.block(here), self.weights[here], active, shares, before, u[here], part)
            return said, part

        slopes, totals, least = np.zeros(m), np.zeros(4), math.inf
        for said, part in map_ordered(work, range(0, n, step), blas=False):
            slopes += part
            totals += said
            least = min(least, float(said[2]))
        return Look(float(totals[0]), slopes, float(totals[1]), least, int(totals[3]))

    def prove(self, look: Look, active: int) -> float:
        """Upper bound on how far the mean log-likelihood is below its maximum.

        For any positive u: max sum_j w_j log(h_j / u_j) <= log max_k sum_j w_j L_jk / u_j, as
        the logarithm is concave. Sums of N and of `active` positive terms are rounded.
        """
        if look.bad:
            return math.inf
        return max(math.log(float(look.slopes.max()) / self.total) + self.slack(look, active), 0.0)

    def slack(self, look: Look, active: int) -> float:
        """The part of a proved gap that is rounding: no weights have a smaller one."""
        n, _ = self.shape
        lost = gamma(n + 64) + gamma(active + 16) + 2.0 * self.lost
        return SAFE * (lost + (LOST * look.mass * 2.0 / self.total if self.narrow else 0.0))


def scale_logs(logs: NDArray[Any], dtype: Any) -> tuple[Matrix, Vector]:
    """Likelihoods whose largest is 1 per row, and the logarithms of what they were divided by."""
    offsets = np.max(logs, axis=1).astype(np.float64)
    scaled = np.subtract(logs, offsets[:, None], dtype=np.float64)
    np.exp(scaled, out=scaled)
    return scaled.astype(dtype, copy=False), offsets


def judge_end(gap: float, goal: float, slack: float, *, late: bool) -> Status:
    """Why a fit ended: rounding is named only where it is most of the gap, by the rule of `minimize`."""
    if gap <= goal:
        return Status.GAP_REACHED
    if is_rounding(gap, slack):
        return Status.ROUNDING
    return Status.MAX_SECONDS if late else Status.STALLED


# ---------------------------------------------------------------- Newton steps


class Sample(NamedTuple):
    """Rows whose Hessian stands for that of all."""

    rows: LikelihoodRows
    ids: Ints


@dataclass(frozen=True, slots=True)
class Solved:
    """Weights, what was read of them, the cost, and the sum that they had before they were scaled."""

    x: Vector
    look: Look
    gap: float
    reads: int
    scale: float = 1.0


def solve(rows: LikelihoodRows, tol: float, *, seed: int, end: float = math.inf) -> Solved:
    """Weights to a proved gap: some random rows first, then all; stops at `end` by `time.perf_counter`."""
    n, m = rows.shape
    first = min(FIRST, max(1000, n // 8))
    x = np.full(m, 1.0 / m)
    if n <= 2 * first:
        return improve(rows, expect(rows, x), tol, end=end)
    step = n // first
    some = np.arange(step // 2, n, step)
    part = rows.take(some, _share(rows.weights[some]))
    x = improve(part, expect(part, x), max(tol, 1e-4), end=end).x
    x = (1.0 - SPREAD) * x + SPREAD / m
    u = np.empty(n)
    look = rows.look(x, u)
    if look.bad:
        return Solved(x, look, math.inf, 1)
    if n <= 2 * SECOND:
        done = improve(rows, _share(x * look.slopes), tol, end=end)
        return replace(done, reads=done.reads + 1)
    sample = _draw(rows, u, seed)
    share = LikelihoodRows(sample.rows.matrix, _share(sample.rows.weights), lost=rows.lost)
    start = _share(x * look.slopes)
    x = improve(share, start, max(tol, 1e-6), end=end).x
    done = improve(rows, x, tol, sample=sample, end=end)
    reads = 1 + done.reads
    if done.gap > tol and time.perf_counter() <= end:
        # The sample missed rows, or is too coarse a model for such a gap.
        x = (1.0 - SPREAD) * x + SPREAD * start if done.look.bad else done.x
        done = improve(rows, x, tol, end=end)
        reads += done.reads
    return replace(done, reads=reads)


def improve(
    rows: LikelihoodRows, x: Vector, tol: float, *, sample: Sample | None = None, end: float = math.inf
) -> Solved:
    """Newton steps from x until the gap is proved, or nothing moves; the best weights by their gap."""
    u = np.empty(rows.shape[0])
    look = rows.look(x, u)
    here = best = Solved(x, look, rows.prove(look, int((x > 0.0).sum())), 1)
    last, floor, size, reads = u.copy(), FLOOR, POOL, 1
    model: LogModel | None = None
    for _ in range(STEPS):
        if best.gap <= tol or look.bad or floor > 1.0 or time.perf_counter() > end:
            break
        model = _build(rows, sample, here, last, size) if model is None else model
        taken = _search(rows, here, model.minimize(floor), last, u)
        reads += taken.reads
        report_rows(taken.reads * rows.shape[0])
        if not math.isfinite(taken.gap):  # the floor of the model's curvature is a trust region
            floor *= RAISED
            continue
        # Components that are as one move as one: where that is slow, and most have weight, the pool grows.
        slow = taken.gap > 0.3 * here.gap and (taken.x > 0.0).sum() > 2 * (size // 3)
        here, model, floor = taken, None, max(FLOOR, floor / math.sqrt(RAISED))
        size *= 2 if slow else 1
        last[:] = u / taken.scale
        best = here if here.gap < best.gap else best
    return replace(best, reads=reads)


def _search(rows: LikelihoodRows, here: Solved, y: Vector, last: Vector, u: Vector) -> Solved:
    """The longest step towards y that climbs; where values are all rounding, one that lowers the gap."""
    gain = float((here.look.slopes - 1.0) @ (y - here.x))
    noise = NOISE * (8.0 + math.sqrt(len(u))) * (1.0 + abs(here.look.value))
    step, reads = 1.0, 0
    for reads in range(1, SEARCHES + 1 if gain > noise else 2):
        new = y if step == 1.0 else here.x + step * (y - here.x)
        taken, total = rows.look(new, u, last), float(new.sum())
        if not taken.bad and taken.least > COLLAPSE:
            rise = taken.value - (total - 1.0) - here.look.value
            look = taken._replace(
                value=taken.value - math.log(total), slopes=taken.slopes * total, mass=taken.mass * total
            )
            gap = rows.prove(look, int((new > 0.0).sum()))
            if rise >= max(ARMIJO * step * gain, noise) or (rise >= -noise and gap < here.gap):
                return Solved(new / total, look, gap, reads, total)
        step *= SHRINK
    return replace(here, gap=math.inf, reads=reads)


class LogModel(NamedTuple):
    """The quadratic model over a pool, all other components as one, in units of its curvature."""

    pool: Ints
    rest: Vector
    x: Vector
    slopes: Vector
    unit: Vector
    values: Vector
    vectors: Matrix

    def minimize(self, floor: float) -> Vector:
        """argmin 1/2 (y-x)'H(y-x) - (g-1)'(y-x) over y >= 0: the sum comes out as about 1 by itself."""
        root = np.sqrt(np.maximum(self.values, floor * self.values[-1]))
        pull = self.vectors.T @ (self.unit * (self.slopes - 1.0))
        wanted = root * (self.vectors.T @ (self.x / self.unit)) + pull / root
        with one_blas_thread():
            try:
                y = nnls(root[:, None] * self.vectors.T, wanted, maxiter=200 * len(self.x))[0] * self.unit
            except RuntimeError:  # it cycles on rounding: a step of expectation-maximisation always climbs
                y = self.x * self.slopes
        found = y[-1] * self.rest if len(y) > len(self.pool) else np.zeros(len(self.rest))
        found[self.pool] = y[: len(self.pool)]
        return found


def _build(rows: LikelihoodRows, sample: Sample | None, here: Solved, u: Vector, size: int) -> LogModel:
    """The model at these weights, whose likelihoods are u."""
    pool = _choose_pool(here.x, here.look.slopes, size)
    rest = here.x.copy()
    rest[pool] = 0.0
    total = float(rest.sum())
    held, slopes = here.x[pool], here.look.slopes[pool]
    if total > 0.0:
        rest /= total
        held, slopes = np.append(held, total), np.append(slopes, here.look.slopes @ rest)
    with one_blas_thread():
        some = (rows, u) if sample is None else (sample.rows, u[sample.ids])
        hessian = _bend(*some, pool, rest if total > 0.0 else None)
        # H_kk >= g_k^2, and g_k is near 1 for all that matter: smaller units would only amplify rounding.
        unit = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), 1.0))
        values, vectors = np.linalg.eigh(hessian * unit[:, None] * unit)
    return LogModel(pool, rest, held, slopes, unit, values, vectors)


def _choose_pool(x: Vector, slopes: Vector, size: int) -> Ints:
    """All components; of very many those with most weight, the steepest, and some evenly spaced."""
    m, part = len(x), size // 3
    if m <= size:
        return np.arange(m)
    heavy = np.argsort(-x * slopes, kind="stable")[: 2 * part]
    steep = np.argsort(-slopes, kind="stable")[:part]
    return np.unique(np.concatenate([heavy[x[heavy] > 0.0], steep, np.arange(0, m, -(-m // part))]))


def _bend(rows: LikelihoodRows, u: Vector, pool: Ints, rest: Vector | None) -> Vector:
    """sum_j w_j L_j L_j' / u_j^2 over the pool: it is only a model, products are float32 where L is."""
    n, m = rows.shape
    size = len(pool) + (rest is not None)
    out = np.zeros((size, size))
    scale = np.sqrt(rows.weights) / u
    for first in range(0, n, _HESSIAN_ROWS):
        here = slice(first, first + _HESSIAN_ROWS)
        block = rows.block(here)
        part = block if len(pool) == m else block[:, pool]
        if rest is not None:
            part = np.column_stack([part, product(block, rest.astype(block.dtype))])
        with np.errstate(over="ignore"):
            scaled = part * scale[here, None]
        scaled = np.minimum(scaled, MOST, out=scaled).astype(part.dtype, copy=False)
        out += product(scaled.T, scaled)
    return out


def expect(rows: LikelihoodRows, x: Vector, steps: int = 4) -> Vector:
    """A few steps of expectation-maximisation, which bring rows of tiny likelihood into the domain."""
    u = np.empty(rows.shape[0])
    for _ in range(steps):
        look = rows.look(x, u)
        if look.bad:
            return np.full(len(x), 1.0 / len(x))
        x = _share(x * look.slopes)
    return x


def _share(weights: Vector) -> Vector:
    return np.asarray(weights / weights.sum())


def _draw(rows: LikelihoodRows, u: Vector, seed: int) -> Sample:
    """Rows by their leverage: outliers for certain, each with the weight that keeps sums unbiased."""
    n = len(u)
    w = rows.weights * n
    leverage = w / u if rows.tops is None else w * rows.tops / u
    chance = np.minimum(1.0, SECOND * (0.5 * w / w.sum() + 0.5 * leverage / leverage.sum()))
    # A stream of its own: the data may have been drawn with the same small seed.
    drawn = np.random.default_rng([seed, 0x5EED, n]).random(n) < chance
    ids = np.flatnonzero(drawn)
    return Sample(rows.take(ids, rows.weights[ids] / chance[ids]), ids)
