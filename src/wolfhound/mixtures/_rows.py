"""Likelihood matrices, a row per observation, read in blocks: in memory or in a file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import FileRows
from wolfhound.core import Ints, Matrix, Status, Vector
from wolfhound.rounding import SAFE, UNIT, gamma, is_rounding
from wolfhound.threads import map_ordered

BLOCK_ENTRIES = 1 << 23
"""Numbers of a block: the sums of one are added to those of the others in order."""

NARROW = 2.0**-24
"""Relative rounding of a likelihood that is kept in float32."""

EXPONENTS = 1024.0 * UNIT
"""Relative rounding of exp(l - o), l and o float64, where it does not vanish."""

LOST = 2.0**-149
"""More than a float32 likelihood can lose to underflow, where each row's largest is 1."""


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
        from wolfhound.mixtures._weights_kernels import read_block  # noqa: PLC0415 - compiled when used

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
