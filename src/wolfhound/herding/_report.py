"""How good a herd is: MMD on held-out rows, beside random subsets of as many rows."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.herding._draw import draw_ids, taken
from wolfhound.herding._reference import Known
from wolfhound.herding.mmd import Reference
from wolfhound.herding.result import Curve
from wolfhound.threads import one_blas_thread

_SIZES = 24
"""Points of a curve."""

TOGETHER = 128 << 20
"""Bytes of random rows that are read at once: files are slow to read in pieces."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What an evaluation found; the fields of `HerdResult` of the same names."""

    mmd: float
    mmd_random: float
    mmd_random_spread: float
    reference: str
    evaluation_seconds: float
    measured: Curve


def skipped() -> Report:
    """Return the report of a result that is not evaluated."""
    none = Curve(np.empty(0, np.int64), np.empty(0), np.empty(0))
    return Report(
        mmd=math.nan,
        mmd_random=math.nan,
        mmd_random_spread=math.nan,
        reference="nothing: evaluate=False",
        evaluation_seconds=0.0,
        measured=none,
    )


def effort(m: int) -> tuple[int, int]:
    """(held-out rows, random subsets): fewer subsets for large m, to take less time than the picks.

    Examples
    --------
    >>> effort(1000), effort(5000)
    ((10000, 10), (10000, 5))
    """
    return 10_000, 10 if m <= 2000 else 5 if m <= 10_000 else 3


def curve_sizes(m: int) -> Ints:
    """Up to 24 sizes from 1 to m, evenly spread on a log scale.

    Examples
    --------
    >>> curve_sizes(5)
    array([1, 2, 3, 4, 5])
    """
    if m <= _SIZES:
        return np.arange(1, m + 1)
    return np.unique(np.geomspace(1, m, _SIZES).round().astype(np.int64))


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """What is evaluated.

    Attributes
    ----------
    rows : Atoms
        The rows that were picked from.
    known : Known
        What is known of those they are to stand for.
    ids, weights : (k,), (k,)
        The herd.
    prefix : callable, optional
        Size -> weights of so many first rows; None: equal.
    exclude : (e,) int64
        Rows that random subsets must not have either.
    """

    rows: Atoms
    known: Known
    ids: Ids
    weights: Vector
    prefix: Callable[[int], Vector] | None
    exclude: Ids


def evaluated(subject: Subject, rng: np.random.Generator) -> Report:
    """Measure the MMD of a herd and of random subsets on the same rows."""
    began = time.perf_counter()
    k = len(subject.ids)
    count, draws = effort(k)
    sizes = curve_sizes(k)
    with one_blas_thread():
        reference, words = subject.known.reference(count, rng)
        mine, mmd = _herd(reference, subject, sizes)
        others = [
            reference.curve(rows)[sizes - 1] for rows in _random(subject.rows, k, subject.exclude, draws, rng)
        ]
    random = np.array(others)
    target = "" if subject.known.target is subject.rows else " of the target"
    return Report(
        mmd=mmd,
        mmd_random=float(random[:, -1].mean()),
        mmd_random_spread=float(random[:, -1].std(ddof=1)),
        reference=f"{words.replace(' rows', f' rows{target}')}; {draws} random subsets",
        evaluation_seconds=time.perf_counter() - began,
        measured=Curve(sizes, mine, random.mean(axis=0)),
    )


def _herd(reference: Reference, subject: Subject, sizes: Ints) -> tuple[Vector, float]:
    """MMD of the first rows, and of all with their weights."""
    rows = taken(subject.rows, subject.ids, "rows")
    prefix = subject.prefix
    if prefix is None:
        curve = reference.curve(rows)[sizes - 1]
        equal = bool((subject.weights == subject.weights[0]).all())
    else:
        curve = np.array([reference.mmd(rows[:size], prefix(int(size))) for size in sizes])
        equal = False
    return curve, float(curve[-1]) if equal else reference.mmd(rows, subject.weights)


def _random(atoms: Atoms, m: int, exclude: Ids, draws: int, rng: np.random.Generator) -> Iterator[Matrix]:
    """Yield the rows of random subsets, in random order."""
    n, d = atoms.shape
    wanted = [rng.permutation(draw_ids(n, m, exclude, rng)) for _ in range(draws)]
    together = max(1, TOGETHER // (m * d * atoms.dtype.itemsize))
    for first in range(0, draws, together):
        some = wanted[first : first + together]
        rows = taken(atoms, np.concatenate(some), "rows")
        yield from np.split(rows, np.cumsum([len(ids) for ids in some])[:-1])
