"""How good a herd is: MMD on all atoms or held-out ones, beside random subsets of as many.

Held-out rows are weighted so that their random features have the mean of all
atoms, which the embedding found already: without this the chance of drawing them
would hide how good a herd is. Two halves, weighted apart, estimate
``|mu|^2`` by ``<mu_1, mu_2>``, so that their errors cancel on average.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wolfhound.core import Atoms, Ids, Ints, Matrix, Status, Vector
from wolfhound.herding.draw import draw_held_out, draw_ids, take_rows
from wolfhound.herding.embedding import calibrate
from wolfhound.herding.greedy import Candidates, Herd
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.kernels.features import Features
from wolfhound.herding.mmd import Reference, kernel_sums, self_sums
from wolfhound.herding.settings import HerdData
from wolfhound.progress import Cut, on_progress, report_rows
from wolfhound.stopwatch import time_solving
from wolfhound.threads import one_blas_thread

HELD_OUT = 10_000
"""Rows that an MMD is measured on; a smaller target is taken whole."""

TOGETHER = 128 << 20
"""Bytes of random rows that are read at once: files are slow to read in pieces."""

_SIZES = 24  # points of a curve


class Curve(NamedTuple):
    """MMD of the first atoms, and the mean of random subsets of as many.

    Atoms are equally weighted (within a label), also where the result's weights were fitted.

    Attributes
    ----------
    sizes : (s,) int64
        Numbers of atoms.
    mmd, random : (s,)
        On the same data as the result's `mmd`.
    """

    sizes: Ints
    mmd: Vector
    random: Vector


class Quality(NamedTuple):
    """What an evaluation found; the fields of `HerdResult` of the same names."""

    mmd: float
    mmd_random: float
    mmd_random_spread: float
    mmd_by: Vector | None
    reference: str
    evaluation_seconds: float
    curve: Curve


class Measured(NamedTuple):
    """A herd that was measured, and how others are."""

    words: str  # what it was measured on
    mmd: float  # of all atoms with their weights
    curve: Vector  # (s,) of the first atoms, equally weighted; nan: not known
    mmd_by: Vector | None  # within each label
    ruler: Callable[[Matrix], Vector]  # (k, d) rows in random order -> (s,) MMD of the first of them


def effort(m: int) -> int:
    """Random subsets to measure: fewer for large m, to take less time than the picks.

    Examples
    --------
    >>> effort(1000), effort(5000)
    (10, 5)
    """
    return 10 if m <= 2000 else 5 if m <= 10_000 else 3


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


def skip_evaluation(why: str, seconds: float = 0.0) -> Quality:
    """Return the quality of a herd that was not measured."""
    none = Curve(np.empty(0, np.int64), np.empty(0), np.empty(0))
    return Quality(math.nan, math.nan, math.nan, None, f"nothing: {why}", seconds, none)


def evaluate(
    atoms: Atoms,
    k: int,
    exclude: Ids,
    measure: Callable[[Ints, np.random.Generator], Measured],
    *,
    rng: np.random.Generator,
    deadline: float,
) -> Quality:
    """Measure a herd, then random subsets; at the deadline or Ctrl-C, say what is known by then.

    Parameters
    ----------
    atoms
        What was picked from.
    k
        Atoms of the herd, and of each subset.
    exclude : (e,)
        Atoms that random subsets must not have either.
    measure
        Measures the herd at some sizes.
    rng
        Draws rows and subsets.
    deadline
        Of ``time.perf_counter()``.
    """
    began = time.perf_counter()
    sizes, draws = curve_sizes(k), effort(k)
    mine: Measured | None = None
    others: list[Vector] = []
    why = ""

    def watch(_: int) -> None:
        if time.perf_counter() > deadline:
            raise Cut(Status.MAX_SECONDS)

    try:
        with one_blas_thread(), on_progress(watch):
            report_rows(0)
            mine = measure(sizes, rng)
            for rows in _draw_subsets(atoms, k, exclude, draws, rng):
                others.append(mine.ruler(rows))
                report_rows(0)
    except (Cut, KeyboardInterrupt) as error:
        why = "`max_seconds` was over" if isinstance(error, Cut) else "stopped by Ctrl-C"
    seconds = time_solving(began)
    if mine is None:
        return skip_evaluation(why, seconds)
    random = np.array(others).reshape(len(others), len(sizes))
    few = "" if len(others) == draws else f" of {draws}: {why}"
    known = ~np.isnan(mine.curve)
    mean = random.mean(axis=0) if others else np.full(len(sizes), math.nan)
    return Quality(
        mmd=mine.mmd,
        mmd_random=float(random[:, -1].mean()) if others else math.nan,
        mmd_random_spread=float(random[:, -1].std(ddof=1)) if len(others) > 1 else math.nan,
        mmd_by=mine.mmd_by,
        reference=f"{mine.words}; {len(others)} random subsets{few}",
        evaluation_seconds=seconds,
        curve=Curve(sizes[known], mine.curve[known], mean[known]),
    )


def _draw_subsets(
    atoms: Atoms, m: int, exclude: Ids, draws: int, rng: np.random.Generator
) -> Iterator[Matrix]:
    """Yield the rows of random subsets, in random order."""
    n, d = atoms.shape
    wanted = [rng.permutation(draw_ids(n, m, exclude, rng)) for _ in range(draws)]
    together = max(1, TOGETHER // (m * d * atoms.dtype.itemsize))
    for first in range(0, draws, together):
        some = wanted[first : first + together]
        rows = take_rows(atoms, np.concatenate(some))
        yield from np.split(rows, np.cumsum([len(ids) for ids in some])[:-1])


# ---------------------------------------------------------------- in a kernel


def measure_herd(
    herd: Herd, data: HerdData, kernel: Kernel, weights: Vector, *, sizes: Ints, rng: np.random.Generator
) -> Measured:
    """Measure a herd of a kernel at some sizes."""
    reference, words = choose_reference(herd.candidates, data, kernel, HELD_OUT, rng)
    rows = herd.rows
    if data.labels is None:
        curve = reference.curve(rows)[sizes - 1]
    else:
        curve = np.array([reference.mmd(rows[:size], herd.equal_weights(int(size))) for size in sizes])
    plain = data.labels is None and bool((weights == weights[0]).all())
    return Measured(
        words=words if data.target is None else words.replace(" rows", " rows of the target"),
        mmd=float(curve[-1]) if plain else reference.mmd(rows, weights),
        curve=curve,
        mmd_by=None if data.labels is None else _measure_labels(herd, kernel, weights),
        ruler=lambda other: reference.curve(other)[sizes - 1],
    )


def _measure_labels(herd: Herd, kernel: Kernel, weights: Vector) -> Vector:
    """MMD of the atoms of each label that has any, against the label's embedding."""
    rows, labels, found = herd.rows, herd.labels, []
    for label in np.unique(labels).tolist():
        mine = labels == label
        embedding, share = herd.candidates.embeddings[label], weights[mine] / weights[mine].sum()
        own = share @ self_sums(kernel, rows[mine], share, single=False)
        found.append(own - 2.0 * share @ embedding.at(rows[mine]) + embedding.square)
    return np.sqrt(np.maximum(found, 0.0))


def choose_reference(
    candidates: Candidates, data: HerdData, kernel: Kernel, count: int, rng: np.random.Generator
) -> tuple[Reference, str]:
    """Return what a herd is measured on, and what that is in words.

    The density of a centred kernel; all rows where their mean embedding is known, or is
    quickly computed; else `count` held-out rows that are calibrated, for kernels that
    have features.
    """
    target = data.atoms if data.target is None else data.target
    n, embeddings = target.shape[0], candidates.embeddings
    if kernel.centred:
        return Reference.of(candidates.rows[:1], kernel), "the density itself (exact)"
    base = sum(len(each.base) for each in embeddings)
    if all(each.exact for each in embeddings) and (len(embeddings) == 1 or base <= count):
        return _whole_reference(candidates, kernel), f"all {n:,} rows (exact)"
    if candidates.features is None:
        options = {"count": count, "row_weights": data.row_weights, "exclude": candidates.used}
        drawn = Reference.draw(target, kernel, **options, rng=rng)  # type: ignore[arg-type]
        rows = len(drawn.rows)
        return drawn, f"all {n:,} rows (exact)" if drawn.exact else f"{rows:,} rows drawn"
    ids, fresh = draw_held_out(n, count, candidates.used, data.row_weights, rng)
    mean = _feature_mean(candidates, candidates.features)
    halves = [take_rows(target, half) for half in np.array_split(rng.permutation(ids), 2)]
    weights = [
        calibrate(candidates.features, half, mean, np.full(len(half), 1.0 / len(half))) for half in halves
    ]
    square = float(weights[0] @ kernel_sums(kernel, halves[0], halves[1], weights[1]))
    both = 0.5 * np.concatenate(weights)
    how = "held out" if fresh else "drawn, also candidates"
    return (
        Reference(np.concatenate(halves), kernel, both, square, False),
        f"{len(ids):,} rows {how}, calibrated",
    )


def _whole_reference(candidates: Candidates, kernel: Kernel) -> Reference:
    """The embeddings themselves, where they are exact."""
    parts = list(zip(candidates.embeddings, candidates.shares, strict=True))
    rows = np.concatenate([embedding.base for embedding, _ in parts])
    weights = np.concatenate([share * embedding.mass for embedding, share in parts])
    if len(parts) > 1 or len(rows) == 1:  # few rows: a shift to their mean may save digits
        return Reference.of(rows, kernel, weights=weights, exact=True)
    return Reference(rows, kernel, weights, candidates.embeddings[0].square, True)


def _feature_mean(candidates: Candidates, features: Features) -> Vector:
    """Mean of the features over the target: the calibrated rows have it, up to their ridge."""
    parts = zip(candidates.embeddings, candidates.shares, strict=True)
    return np.asarray(sum(share * (each.mass @ features(each.base)) for each, share in parts))
