"""What is asked of targets and answered by compiled loops, whatever the regime."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Vector
from wolfhound.jit import lean_kernel
from wolfhound.rounding import WORN

PROVED, ROUNDING, STALLED, OUT_OF_TIME, LIMITED, UNFOUND, LOST = range(7)


class Rules(NamedTuple):
    """When a target is done, in the units of the dictionary; most atoms that it may have."""

    rtol: float
    atol: float
    limit: int


class Answers(NamedTuple):
    """Per target: (m, cap) ids and weights, of which `support`; (m,) all others.

    `slack` is the part of `value - lower` that is proved to be rounding.
    """

    ids: Ids
    weights: Vector
    support: Ints
    value: Vector
    lower: Vector
    slack: Vector
    goal: Vector
    code: NDArray[np.int8]
    passes: Ints
    price: Vector
    steps: Ints


def make_answers(ids: Ids, weights: Vector) -> Answers:
    """Return room for m answers, given that of (m, cap) ids and weights: `support` says how many are set."""
    m = len(ids)
    return Answers(
        ids,
        weights,
        np.zeros(m, np.int64),
        np.full(m, np.inf),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m, np.int8),
        np.zeros(m, np.int64),
        np.zeros(m),
        np.zeros(m, np.int64),
    )


def judge(gap: Vector, goal: Vector, slack: Vector) -> NDArray[np.int8]:
    """Say what gaps are: within the goal, within what rounding is proved to hide, or neither.

    The one place where a target is said to be at the end of rounding: that is a claim, too.
    """
    return np.where(gap <= goal, PROVED, np.where(gap <= WORN * slack, ROUNDING, STALLED)).astype(np.int8)


@lean_kernel
def write_sorted(ids: Ids, weights: Vector, k: int, to_ids: Ids, to_weights: Vector) -> None:
    """Copy k atoms by decreasing weight, equal weights by id."""
    for i in range(k):
        a, w, j = ids[i], weights[i], i
        while j > 0 and (to_weights[j - 1] < w or (to_weights[j - 1] == w and to_ids[j - 1] > a)):
            to_ids[j], to_weights[j] = to_ids[j - 1], to_weights[j - 1]
            j -= 1
        to_ids[j], to_weights[j] = a, w
