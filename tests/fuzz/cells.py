"""What is attacked: every objective, method and oracle, and what is true of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from tests.fuzz import exact, hostile
from wolfhound import (
    Adaptive,
    Audited,
    Away,
    BlendedPairwise,
    ClusterIndex,
    CrossPolytope,
    Custom,
    FaissIndex,
    FrankWolfe,
    FullyCorrective,
    Huber,
    Int8FileScan,
    Int8Scan,
    LeastSquares,
    LineSearch,
    Logistic,
    LshIndex,
    MappedAtoms,
    MixtureLikelihood,
    OpenLoop,
    Pairwise,
    Projected,
    QuantizedQueries,
    RandomSubset,
    Scan,
    Sharded,
    SimHash,
    SquaredDistance,
    SublinearFrankWolfe,
    Tiered,
    Vanilla,
)
from wolfhound.core.contracts import Method, Objective, Oracle
from wolfhound.data.atoms import as_atoms

Array = NDArray[Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Problem:
    """An objective, and its exact value at a point of the hull.

    Attributes
    ----------
    value
        Encloses f at a point; None outside the domain of f.
    least
        Returns the exact minimum over the hull of rows, where it is known.
    trusted
        Whether the package takes f as it is computed, rounding and all.
    bend
        Largest curvature of f at a point, about.
    """

    name: str
    objective: Objective
    value: Callable[[exact.Mixed], exact.Between | None]
    least: Callable[[Array], Fraction] | None = None
    trusted: bool = False
    bend: Callable[[Array], float] = lambda x: 0.0


# ---------------------------------------------------------------- objectives


def squared_distance(rng: Rng, rows: Array) -> Problem:
    """Half the squared distance to a point."""
    target = hostile.draw_target(rng, rows)
    return Problem(
        "SquaredDistance",
        SquaredDistance(target),
        lambda x: exact.half_square(exact.images(None, x), target),
        lambda kept: exact.least_half_square(kept, None, target),
        bend=lambda x: 1.0,
    )


def _regression(rng: Rng, rows: Array) -> tuple[Array, Array]:
    """Draw a matrix and a response."""
    design = hostile.draw_design(rng, rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        image = np.nan_to_num(design @ hostile.draw_target(rng, rows), posinf=1e300, neginf=-1e300)
    noise = float(rng.choice([0.0, 1.0])) * (np.abs(image) / len(image)).sum()
    return design, np.clip(image + noise * rng.standard_normal(len(design)), -1e300, 1e300)


def least_squares(rng: Rng, rows: Array) -> Problem:
    """Half the squared residual."""
    design, response = _regression(rng, rows)
    return Problem(
        "LeastSquares",
        LeastSquares(design, response),
        lambda x: exact.half_square(exact.images(design, x), response),
        lambda kept: exact.least_half_square(kept, design, response),
        bend=lambda x: float(np.square(design).sum()),
    )


def logistic(rng: Rng, rows: Array) -> Problem:
    """Mean logistic loss."""
    design, response = _regression(rng, rows)
    labels = np.where(response > 0.0, 1.0, -1.0)
    return Problem(
        "Logistic",
        Logistic(design, labels),
        lambda x: exact.logistic(exact.images(design, x), labels),
        bend=lambda x: float(np.square(design).sum()),
    )


def huber(rng: Rng, rows: Array) -> Problem:
    """Mean Huber loss."""
    design, response = _regression(rng, rows)
    delta = float(10.0 ** rng.uniform(*pick(rng, (-3.0, 3.0), (-12.0, -3.0))))
    return Problem(
        "Huber",
        Huber(design, response, delta=delta),
        lambda x: exact.huber(exact.images(design, x), response, delta),
        bend=lambda x: float(np.square(design).sum()),
    )


def mixture(rng: Rng, rows: Array) -> Problem:
    """Mean negative log-likelihood."""
    d = rows.shape[1]
    return Problem("MixtureLikelihood", MixtureLikelihood(), lambda x: _logs(x, [Fraction(1, d)] * d))


def _logs(x: exact.Mixed, shares: Sequence[Fraction]) -> exact.Between | None:
    coordinates = x.fractions()
    return exact.mean_negative_log(coordinates, shares) if min(coordinates) > 0 else None


def custom(rng: Rng, rows: Array) -> Problem:
    """A function of the caller: a distance, convex or not, or weighted logs."""
    if rows.min() >= 0.0 and rows.max() > 0.0 and rng.random() < 0.8:
        return _weighted_logs(rng, rows.shape[1])
    target = hostile.draw_target(rng, rows)
    sign = -1.0 if rng.random() < 0.2 else 1.0

    def half_square(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            away = x - target
            return sign * 0.5 * float(away @ away), sign * away

    def value(x: exact.Mixed) -> exact.Between:
        low, high = exact.half_square(exact.images(None, x), target)
        return exact.Between(*sorted((int(sign) * low, int(sign) * high)))

    known = 1.0 if rng.random() < 0.5 else math.inf
    objective = Custom(half_square, convex=sign > 0.0, smoothness=known)
    return Problem("Custom", objective, value, trusted=True, bend=lambda x: 1.0)


def _weighted_logs(rng: Rng, d: int) -> Problem:
    shares = rng.dirichlet(np.ones(d))

    def weighted_logs(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            return -float(shares @ np.log(x)), -shares / x

    parts = [Fraction(float(share)) for share in shares]
    return Problem(
        "Custom",
        Custom(weighted_logs, convex=True),
        lambda x: _logs(x, parts),
        trusted=True,
        bend=lambda x: float((shares / x / x).max()),
    )


SIGNED = (squared_distance, least_squares, logistic, huber, custom)
"""Objectives over any atoms; mixtures are over nonnegative ones."""


# ---------------------------------------------------------------- methods


def pick(rng: Rng, *choices: Any) -> Any:
    """Choose one."""
    return choices[int(rng.integers(len(choices)))]


METHODS: dict[str, Callable[[Rng], Method]] = {
    "FullyCorrective": lambda rng: pick(
        rng, FullyCorrective(), FullyCorrective(harvest=pick(rng, 1, 4, 4096), pool=16384)
    ),
    "Vanilla": lambda rng: FrankWolfe(Vanilla(), pick(rng, LineSearch(), Adaptive())),
    "OpenLoop": lambda rng: FrankWolfe(Vanilla(), OpenLoop()),
    "Away": lambda rng: FrankWolfe(Away(), lazy=bool(rng.integers(2))),
    "Pairwise": lambda rng: FrankWolfe(Pairwise(), lazy=bool(rng.integers(2))),
    "BlendedPairwise": lambda rng: FrankWolfe(BlendedPairwise()),
    "lazy BlendedPairwise": lambda rng: FrankWolfe(BlendedPairwise(), lazy=True),
    "SublinearFrankWolfe": lambda rng: SublinearFrankWolfe(
        ratio=float(rng.choice([0.5, 0.8, 1.0])), confirm=bool(rng.random() < 0.8)
    ),
}


# ---------------------------------------------------------------- oracles


def _padded(rows: Array) -> Array:
    return np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)


def _projected(atoms: Any, rng: Rng) -> Oracle:
    inside = as_atoms(atoms)
    return Projected(Scan(MappedAtoms(inside, _padded, inside.shape[1] + 1)), _padded, inside, extra=1)


def _half(atoms: Any) -> RandomSubset:
    rows = as_atoms(atoms)
    return RandomSubset(rows, size=max(1, rows.shape[0] // 2))


_THREADS = ThreadPoolExecutor(8, thread_name_prefix="shards")


def _shard(atoms: Any, make: Callable[[Any], Oracle], parts: int) -> Oracle:
    whole = as_atoms(atoms)
    ends = sorted({whole.shape[0] * i // parts for i in range(parts + 1)})
    shards = [make(whole.take(np.arange(first, stop))) for first, stop in itertools.pairwise(ends)]
    return Sharded.over(shards, _THREADS)


def _wrap(atoms: Any, factory: str) -> FaissIndex:
    whole = as_atoms(atoms)
    rows = whole.take(np.arange(whole.shape[0])).astype(np.float64)
    scaled = (rows / max(np.abs(rows).max(), 5e-324)).astype(np.float32)
    index = faiss.index_factory(whole.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    index.train(scaled)
    index.add(scaled)
    return FaissIndex(index, whole)


ORACLES: dict[str, Callable[[Any, Rng], Oracle]] = {
    "Scan": lambda atoms, rng: Scan(atoms),
    "Scan, not screened": lambda atoms, rng: Scan(atoms, screen=False),
    "Int8Scan": lambda atoms, rng: Int8Scan.build(atoms),
    "Int8FileScan": lambda atoms, rng: Int8FileScan.build(atoms),
    "ClusterIndex": lambda atoms, rng: ClusterIndex.build(atoms),
    "ClusterIndex, proof": lambda atoms, rng: ClusterIndex.build(atoms, proof=True),
    "LshIndex": lambda atoms, rng: LshIndex.build(atoms, family=pick(rng, CrossPolytope(), SimHash())),
    "LshIndex, proof": lambda atoms, rng: LshIndex.build(atoms, proof=True),
    "FaissIndex": lambda atoms, rng: _wrap(atoms, pick(rng, "Flat", "HNSW8", "SQ8")),
    "RandomSubset": lambda atoms, rng: _half(atoms),
    "Projected": _projected,
    "Tiered": lambda atoms, rng: Tiered(_half(atoms), cache=int(rng.choice([0, 4, 256]))),
    "Audited": lambda atoms, rng: Audited(_half(atoms), every=2),
    "Sharded": lambda atoms, rng: _shard(atoms, pick(rng, Scan, Int8Scan.build), int(rng.integers(1, 4))),
    "QuantizedQueries": lambda atoms, rng: QuantizedQueries(Scan(atoms), side=float(rng.choice([1e-3, 0.1]))),
}


# ---------------------------------------------------------------- cells

OBJECTIVES = ("SquaredDistance", "LeastSquares", "Logistic", "Huber", "MixtureLikelihood", "Custom")


def cell(objective: str, method: str, oracle: str, dtype: Any) -> str:
    """Name what a problem is counted for."""
    return "|".join((objective, method, oracle, np.dtype(dtype).name))


def names(dtypes: Sequence[type]) -> list[str]:
    """Every cell."""
    return [cell(*parts) for parts in itertools.product(OBJECTIVES, METHODS, ORACLES, dtypes)]
