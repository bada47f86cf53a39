"""Hostile atoms, targets and queries: what solvers and oracles tend to get wrong.

Everything is drawn from one generator, so that a seed gives the case again.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms, MappedAtoms

Array = NDArray[Any]
Rng = np.random.Generator

DTYPES: tuple[type[np.floating[Any]], ...] = (np.float32, np.float64)
COUNTS = (1, 2, 3, 5, 8, 13, 20, 20, 41)
DIMS = (1, 1, 2, 3, 4, 6)
MANY = 3000
"""Atoms of a large set, beyond what a random pool holds."""

EXPONENTS: dict[type[np.floating[Any]], tuple[int, int]] = {np.float32: (-44, 38), np.float64: (-323, 300)}
"""Powers of ten between which scales lie; the least are subnormal."""


class Rows(NamedTuple):
    """Atoms, what they are, and how they are stored.

    Attributes
    ----------
    values : (n, d)
        As the package must see them, float32 or float64.
    given : Any
        What the package is given.
    """

    name: str
    values: Array
    given: Any


def shape(rng: Rng, n: int, d: int) -> tuple[str, Array]:
    """Return a cloud of points near the unit ball, and its name."""
    rows = rng.standard_normal((n, d))
    some = rng.integers(0, (n + 1) // 2, n)
    kinds: dict[str, Callable[[], Array]] = {
        "plain": lambda: rows,
        "repeated": lambda: rows[some],
        "zeros": lambda: rows * (rng.random((n, 1)) < 0.5),
        "sparse": lambda: rows * (rng.random((n, d)) < 0.3),
        "collinear": lambda: rows[:, :1] * rng.standard_normal(d) + rng.standard_normal(d),
        "lattice": lambda: rng.integers(-2, 3, (n, d)).astype(np.float64),
        "clustered": lambda: rows[some] + 1e-9 * rows,
        "almost equal": lambda: rows[:1] + 2.0**-50 * rng.integers(-4, 5, (n, d)),
        "all the same": lambda: np.repeat(rows[:1], n, axis=0),
        "far away": lambda: rows + 10.0 ** rng.uniform(4.0, 8.0),
        "mixed units": lambda: rows * 10.0 ** rng.uniform(-8.0, 8.0, d),
        "thin": lambda: rows * np.logspace(0.0, -12.0, d),
        "heavy tails": lambda: rng.standard_cauchy((n, d)),
        "corners": lambda: np.eye(d)[rng.integers(0, d, n)],
        "many scales": lambda: rows * 10.0 ** rng.uniform(-12.0, 0.0, (n, 1)),
        "all zero": lambda: np.zeros((n, d)),
    }
    name = str(rng.choice(sorted(kinds)))
    return name, kinds[name]()


def likelihoods(rng: Rng, n: int, d: int) -> tuple[str, Array]:
    """Return nonnegative rows, as of a mixture, and what they are."""
    kinds: dict[str, Callable[[], Array]] = {
        "densities": lambda: np.exp(-0.5 * (rng.standard_normal((n, 1)) - rng.standard_normal(d)) ** 2),
        "narrow": lambda: np.exp(-50.0 * (rng.standard_normal((n, 1)) - rng.standard_normal(d)) ** 2),
        "uniform": lambda: rng.random((n, d)),
        "vanishing": lambda: 10.0 ** -rng.uniform(0.0, 320.0, (n, d)),
        "faint": lambda: 10.0 ** -rng.uniform(0.0, 30.0, (n, d)),
        "sparse": lambda: rng.random((n, d)) * (rng.random((n, d)) < 0.5),
        "one spike": lambda: _spiked(rng, n, d),
        "zeros and ones": lambda: (rng.random((n, d)) < 0.5).astype(np.float64),
        "mixed units": lambda: rng.random((n, d)) * 10.0 ** rng.uniform(-8.0, 8.0, d),
        "same": lambda: np.repeat(rng.random((1, d)), n, axis=0),
    }
    name = "one spike" if n == MANY else str(rng.choice(sorted(kinds)))
    return name, kinds[name]()


def _spiked(rng: Rng, n: int, d: int) -> Array:
    """Rows that hardly explain the first observations, but for two of them."""
    rows = np.full((n, d), 1e-4)
    rows[:, -1] = 0.5 + 0.5 * rng.random(n)
    rows[: n // 6, 0] = 1.0
    rows[int(rng.integers(n)), min(1, d - 1)] = 1.0
    return rows


def draw_rows(rng: Rng, *, dtype: type[np.floating[Any]], positive: bool, large: bool, folder: Path) -> Rows:
    """Draw atoms of any shape, scale and storage."""
    n = MANY if large else int(rng.choice(COUNTS))
    d = 3 if large else int(rng.choice(DIMS))
    name, rows = (likelihoods if positive else shape)(rng, n, d)
    if not positive:
        low, high = EXPONENTS[dtype]
        ranges = ((0.0, 0.0), (0.0, 0.0), (-8.0, 8.0), (low, high), (low, low + 8.0), (high - 8.0, high))
        power = float(rng.uniform(*ranges[int(rng.integers(len(ranges)))]))
        rows = rows * 10.0**power if power > -300.0 else rows * 1e-290 * 10.0 ** (power + 290.0)
        name = f"{name} x 1e{power:.0f}"
    top = 0.5 * float(np.finfo(dtype).max)
    values: Array = np.clip(rows, -top, top).astype(dtype)
    store, given = stored(rng, values, folder)
    return Rows(f"{name}, {n} x {d} {dtype.__name__}, {store}", values, given)


def stored(rng: Rng, values: Array, folder: Path) -> tuple[str, Any]:
    """Return the same rows in some storage, and its name."""
    kinds: dict[str, Callable[[], Any]] = {
        "array": lambda: values,
        "read-only": lambda: _locked(values),
        "Fortran": lambda: np.asfortranarray(values),
        "strided": lambda: np.repeat(values, 2, axis=0)[::2],
        "reversed": lambda: values[::-1].copy()[::-1],
        "big-endian": lambda: values.astype(values.dtype.newbyteorder(">")),
        "file": lambda: FileAtoms(_saved(values, folder)),
        "mapped": lambda: np.load(_saved(values, folder), mmap_mode="r"),
        "parts": lambda: ConcatAtoms([ArrayAtoms(values[i : i + 7]) for i in range(0, len(values), 7)]),
        "function": lambda: MappedAtoms(ArrayAtoms(values), _same, values.shape[1]),
    }
    name = str(rng.choice(sorted(kinds)))
    return name, kinds[name]()


def _same(rows: Array) -> Array:
    return rows


def _locked(values: Array) -> Array:
    out = values.copy()
    out.flags.writeable = False
    return out


def _saved(values: Array, folder: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".npy", delete=False) as file:
        np.save(file, values)
    return Path(file.name)


def draw_target(rng: Rng, rows: Array) -> Array:
    """Return a point inside, outside, far from, or exactly on something."""
    points = rows.astype(np.float64)
    n, d = points.shape
    some = points[rng.integers(0, n, min(n, 4))]
    size = float(np.abs(some).max())
    inside = rng.dirichlet(np.ones(len(some))) @ some
    kinds: dict[str, Callable[[], Array]] = {
        "inside": lambda: inside,
        "outside": lambda: inside + 3.0 * size * rng.standard_normal(d),
        "near": lambda: inside + 1e-9 * size * rng.standard_normal(d),
        "on an atom": lambda: points[int(rng.integers(n))],
        "on an edge": lambda: 0.5 * points[0] + 0.5 * points[-1],
        "origin": lambda: np.zeros(d),
        "far": lambda: inside + 1e5 * size * rng.standard_normal(d),
    }
    with np.errstate(over="ignore"):
        return np.clip(kinds[str(rng.choice(sorted(kinds)))](), -1e300, 1e300)


def draw_design(rng: Rng, d: int) -> Array:
    """Return a matrix of full rank, nearly, or clearly not."""
    m = int(rng.choice([1, 2, d, d + 1, 3 * d]))
    design = rng.standard_normal((m, d))
    kinds: dict[str, Callable[[], Array]] = {
        "plain": lambda: design,
        "ill-conditioned": lambda: design * np.logspace(0.0, -7.0, d),
        "rank one": lambda: design[:, :1] * rng.standard_normal(d),
        "zero": lambda: np.zeros((m, d)),
        "scaled": lambda: design * 10.0 ** rng.uniform(-6.0, 6.0),
    }
    return kinds[str(rng.choice(sorted(kinds)))]()


def draw_banned(rng: Rng, rows: Array) -> Array:
    """Return ids to exclude: none, random ones, or all that are best for a coordinate."""
    n = len(rows)
    if rng.random() < 0.6:
        return np.empty(0, np.int64)
    if rng.random() < 0.5:
        return rng.permutation(n)[: int(rng.integers(0, n))]
    column = rows[:, int(rng.integers(rows.shape[1]))]
    best = np.flatnonzero(column >= np.quantile(column, rng.uniform(0.5, 1.0), method="nearest"))
    return best[: n - 1]


def draw_start(rng: Rng, rows: Array, banned: Array, values: Array) -> tuple[Array, Array] | None:
    """Return a warm start: none, the worst atom, any atom, or a mixture of some, with weights of 0, too."""
    allowed = np.setdiff1d(np.arange(len(rows)), banned)
    if len(allowed) == 0 or rng.random() < 0.5:
        return None
    some = rng.permutation(allowed)[: int(rng.integers(1, 5))]
    weights = rng.dirichlet(np.full(len(some), 0.3)) * (rng.random(len(some)) < 0.7)
    kinds: dict[str, Callable[[], tuple[Array, Array]]] = {
        "worst": lambda: (allowed[np.argmax(values[allowed])][None], np.ones(1)),
        "any": lambda: (some[:1], np.ones(1)),
        "mixture": lambda: (some, weights / weights.sum() if weights.sum() > 0.0 else np.eye(len(some))[0]),
    }
    return kinds[str(rng.choice(sorted(kinds)))]()


def draw_queries(rng: Rng, rows: Array, m: int) -> Array:
    """Return queries along atoms, close to each other, tiny, huge, or zero."""
    points = rows.astype(np.float64)
    d = points.shape[1]
    size = float(np.abs(points).max())
    unit = points[rng.integers(0, len(points), m)] / (size if size > 0.0 else 1.0)
    queries = rng.standard_normal((m, d))
    kinds: dict[str, Callable[[], Array]] = {
        "plain": lambda: queries,
        "along atoms": lambda: unit,
        "close": lambda: queries[:1] + 1e-3 * queries,
        "very close": lambda: queries[:1] + 1e-12 * queries,
        "equal": lambda: np.repeat(queries[:1], m, axis=0),
        "sparse": lambda: queries * (rng.random((m, d)) < 0.5),
        "zero": lambda: np.zeros((m, d)),
        "tiny": lambda: queries * 10.0 ** rng.uniform(-320.0, -100.0),
        "huge": lambda: queries * 10.0 ** rng.uniform(100.0, 300.0),
    }
    return np.asarray(kinds[str(rng.choice(sorted(kinds)))]())
