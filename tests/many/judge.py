"""Judges answers for many targets in exact arithmetic."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz import exact
from wolfhound.many.result import ManyResult

Array = NDArray[Any]


def value_of(rows: Array, weights: Array, target: Array, *, at_most: bool = False) -> Fraction:
    """f at the point of these weights, exactly."""
    if not at_most:
        return exact.half_square(exact.mix(rows, weights).fractions(), target).low
    sums = [
        sum(
            (Fraction(float(w)) * Fraction(float(a)) for w, a in zip(weights, column, strict=True)),
            Fraction(),
        )
        for column in np.asarray(rows, np.float64).T
    ]
    return exact.half_square(sums, target).low


def check_proofs(result: ManyResult, targets: Array, atoms: Array, **options: Any) -> None:
    """Every value and lower bound is one, and weights are weights.

    `exclude`: one list per target; `some`: which targets, all unless said (exact numbers are
    slow over very many atoms).
    """
    exclude, origin = options.get("exclude"), options.get("at_most", False)
    atoms, targets = np.asarray(atoms, np.float64), np.asarray(targets, np.float64).reshape(len(result), -1)
    everything = np.vstack([atoms, np.zeros((1, atoms.shape[1]))]) if origin else atoms
    for i in options.get("some", range(len(targets))):
        here = slice(result.indptr[i], result.indptr[i + 1])
        ids, weights = result.ids[here], result.weights[here]
        banned = [] if exclude is None else exclude[i]
        usable = np.setdiff1d(np.arange(len(everything)), banned)
        least = exact.least_half_square(everything[usable], None, targets[i])
        assert not np.isin(ids, banned).any()
        assert len(set(ids.tolist())) == len(ids)
        assert (weights > 0.0).all()
        assert weights.sum() <= 1.0 + 1e-12
        assert origin or weights.sum() >= 1.0 - 1e-12
        assert Fraction(float(result.lower[i])) <= least
        assert value_of(atoms[ids], weights, targets[i], at_most=origin) <= Fraction(float(result.value[i]))
        assert result.lower[i] <= result.value[i]
