"""How float64 rounds: units, norms that neither over- nor underflow, bounds on what is lost.

Assumed once, for all proofs: BLAS sums products in some order (no Strassen); exp, log and
log1p are within 4 units in the last place (8 `UNIT` relative).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Matrix, Progress, Vector

UNIT = 2.0**-53  # unit roundoff of float64
TINY = 2.0**-1022  # more than the absolute error of an operation whose result underflows
LEAST = 2.0**-1074  # smallest positive float64: twice what one product can lose to underflow


def gamma(operations: int, unit: float = UNIT) -> float:
    """Relative error bound of a sum of products, ``c u / (1 - c u)``."""
    return operations * unit / (1.0 - operations * unit)


def norm(vector: Matrix) -> float:
    """Euclidean norm, also where the squares overflow or underflow.

    Examples
    --------
    >>> f"{norm(np.array([3e200, 4e200])):g}", norm(np.zeros(0))
    ('5e+200', 0.0)
    """
    top = float(np.abs(vector).max(initial=0.0))
    if not 0.0 < top < math.inf:
        return top
    scaled = vector / top
    return top * math.sqrt(float(np.vdot(scaled, scaled)))


def product(left: Matrix, right: Matrix, out: Matrix | None = None) -> NDArray[Any]:
    """Return ``left @ right`` without a warning: who needs finite numbers looks at the numbers.

    BLAS can set the processor's flags on a product of finite float32 numbers (numpy's issue 24067 is of
    this kind), and numpy would warn of what is not so.

    Examples
    --------
    >>> product(np.array([[1e38, np.inf]], np.float32), np.array([[1e38], [0.0]], np.float32))
    array([[nan]], dtype=float32)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.matmul(left, right, out=out))


WORN = 8.0  # how many times the rounding of its certificate a gap may be that rounding alone keeps open
WORTH = 1e-4  # largest such gap beside what is at stake: enough for functions in float32, and no more
_NOTHING = 2.0**-960  # gaps up to this are underflow


def is_rounding(gap: float, slack: float, stake: float = math.inf) -> bool:
    """Whether a proved gap is as small as rounding allows: the claim of `Status.ROUNDING`.

    The gap is one where no step improves f any more; `slack` is a proved bound on the rounding in it, of f
    and of the certificate at the same point, inf if unknown. Such a bound may be loose: a gap that is not
    small beside `stake`, how much f varies or its size, is no success, whatever its reason.

    Examples
    --------
    >>> is_rounding(7e-16, 1e-16), is_rounding(1e-9, 1e-16), is_rounding(1.0, np.inf)
    (True, False, False)
    >>> is_rounding(0.5, 0.1, stake=2.0)
    False
    """
    return gap <= WORN * slack < math.inf and gap <= max(WORTH * stake, _NOTHING)


def ends_in_rounding(best: Progress, last: Progress, stake: float) -> bool:
    """Whether a run that no step improves any more, with these states, ends in `Status.ROUNDING`.

    A stake of 0 says that all atoms are the same: what is left is rounding. Where the best state, as a start
    that rounding does not let fall, has no certificate, the last one's serves: its gap is no smaller.
    """
    stake = max(stake, abs(best.value)) if stake > 0.0 else math.inf
    slack = best.slack if math.isfinite(best.slack) else last.slack
    return is_rounding(best.value - last.lower, slack, stake)


# ---------------------------------------------------------------- bounds that are proved

SAFE = 1.01  # factor on an error bound that covers the rounding of the bound itself
ELEMENTWISE = 32  # more than the units that evaluating one loss, its slope and its mean can lose
_SMALLEST = 1e-250  # sums of squares above this lose nothing that matters to underflow


def length(vector: Matrix) -> float:
    """Upper bound on the Euclidean (Frobenius) norm."""
    with np.errstate(over="ignore"):
        squares = float(np.vdot(vector, vector))
    if _SMALLEST < squares < math.inf:
        # Squares may underflow: each then loses less than TINY.
        return math.sqrt(squares + vector.size * TINY) * (1.0 + gamma(vector.size + 6))
    return norm(vector) * (1.0 + gamma(vector.size + 8)) + TINY


def drift_length(drift: Vector | float, d: int) -> float:
    """Upper bound on the norm of a drift that is bounded componentwise."""
    if isinstance(drift, np.ndarray):
        whole = drift if drift.shape == (d,) else np.broadcast_to(drift, (d,))
        return length(np.asarray(whole, np.float64))
    return float(drift) * math.sqrt(d) * (1.0 + gamma(4))
