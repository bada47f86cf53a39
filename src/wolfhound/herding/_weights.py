"""Weights of rows with labels: the mean of all rows and that of each label at once.

Picks of one label make up for what those of another leave over. Weights fitted to
each label alone forget that, and the mean of all rows is met less well than before.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from wolfhound import simplex
from wolfhound.core import Vector
from wolfhound.threads import one_blas_thread

SWEEPS = 5
"""Times that each label is fitted to what the others leave: more hardly changes anything."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Means:
    """What k rows are to match, those of one label after those of another.

    Attributes
    ----------
    gram : (k, k)
        Kernel values of the rows.
    whole : (k,)
        The mean embedding of all rows at these.
    own : (k,)
        That of a row's label, times the label's share.
    blocks : sequence of slice
        The rows of each label.
    """

    gram: Vector
    whole: Vector
    own: Vector
    blocks: Sequence[slice]


def fit_jointly(means: Means, start: Vector) -> Vector:
    """(k,) weights that meet neither the whole mean nor that of a label worse than `start`.

    ``|w - mu|^2 + sum_c |w_c - share_c mu_c|^2`` is minimised by label in turn, each label
    keeping its sum; the picks are made by the same sum. What still made one of the
    distances larger is taken back as far as needed.

    Parameters
    ----------
    means
        What is to be matched.
    start : (k,)
        Weights >= 0 to begin with.

    Examples
    --------
    >>> rows = np.array([[0.0], [2.0]])
    >>> one = Means(gram=rows @ rows.T, whole=2.0 * rows[:, 0], own=2.0 * rows[:, 0], blocks=[slice(0, 2)])
    >>> fit_jointly(one, np.array([0.5, 0.5]))
    array([0., 1.])
    """
    with one_blas_thread():
        out, reached = start.copy(), means.gram @ start
        for block in [block for _ in range(SWEEPS) for block in means.blocks]:
            inner, share = means.gram[block, block], float(start[block].sum())
            others = reached[block] - inner @ out[block]
            linear = means.whole[block] + means.own[block] - others
            fitted = share * simplex.solve(2.0 * share * inner, linear)
            reached += means.gram[:, block] @ (fitted - out[block])
            out[block] = fitted
        return _no_worse(means, start, out - start)


def _no_worse(means: Means, start: Vector, move: Vector) -> Vector:
    """As far along the move as no distance grows: first that of each label, then that of the whole."""
    for block in means.blocks:
        bent = means.gram[block, block] @ move[block]
        slope = start[block] @ bent - means.own[block] @ move[block]
        move[block] *= _reach(float(slope), float(bent @ move[block]))
    bent = means.gram @ move
    step = _reach(float(start @ bent - means.whole @ move), float(bent @ move))
    return np.maximum(start + step * move, 0.0)


def _reach(slope: float, bend: float) -> float:
    """The largest t in [0, 1] up to which ``2 slope t + bend t^2 <= 0``.

    Examples
    --------
    >>> _reach(-1.0, 4.0), _reach(1.0, 1.0)
    (0.5, 0.0)
    """
    if slope >= 0.0:
        return 0.0
    return min(1.0, -2.0 * slope / bend) if bend > 0.0 else 1.0
