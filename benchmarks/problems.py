"""The problems of the claims: atoms, objective, independent loss, scale.

A  herding objective: the target is the mean of the atoms, or of those on one side of a plane
B  projection of an outside point, 1.5 R from the mean (R: the atoms' reach in that direction)
C  least squares with an ill-conditioned design and B's point as the truth
T  a target at a given share of the way from the mean to B's
logistic, huber  generalised linear models whose truth lies at or outside the boundary
1-D, 2-D, flights  mixtures: likelihoods of observations under a grid of candidates
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import data
import numpy as np
from reference import Distance, HuberLoss, LogLoss, Loss, Matrix, NegativeLogLikelihood, Squares, Vector

import wolfhound
from wolfhound.core.contracts import Objective

_POOL = 1300
_BLOCK_NUMBERS = 2**18
"""Likelihoods computed at once: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Minimise an objective over the hull of atoms.

    Attributes
    ----------
    name : str
        Data and kind.
    atoms : (n, d)
    loss : Loss
        f in plain numpy, for the re-check.
    objective : callable
        Makes the library's objective; its set-up is part of a solve.
    scale : float
        A relative gap of r means an absolute one of r * scale.
    """

    name: str
    atoms: Matrix
    loss: Loss
    objective: Callable[[], Objective]
    scale: float

    @property
    def shape(self) -> str:
        """Sizes, as in "1,000 x 64"."""
        return f"{self.atoms.shape[0]:,} x {self.atoms.shape[1]:,}"


def scale_of(loss: Loss, atoms: Matrix) -> float:
    """First gap of a run: the yardstick of relative gaps, the same for all methods.

    The larger of the Frank-Wolfe gap over 1,300 random atoms at the best of 256
    of them, and of the spread median f - min f of these.
    """
    ids = np.random.default_rng(0).integers(0, len(atoms), _POOL)
    pool = atoms[ids].astype(np.float64)
    values = np.array([loss.value(row) for row in pool[:256]])
    x = pool[values.argmin()]
    grad = loss.grad(x)
    return max(float((grad @ x - pool @ grad).max()), float(np.median(values) - values.min()))


def _problem(name: str, atoms: Matrix, loss: Loss, objective: Callable[[], Objective]) -> Problem:
    return Problem(name=name, atoms=atoms, loss=loss, objective=objective, scale=scale_of(loss, atoms))


# ---------------------------------------------------------------- quadratic


def _outside(atoms: Matrix, rng: np.random.Generator) -> Vector:
    """A random direction of length 1.5 times the atoms' reach along it."""
    unit = rng.standard_normal((atoms.shape[1],))
    unit = unit / np.linalg.norm(unit)
    reach = float((atoms @ unit.astype(atoms.dtype)).max())
    return 1.5 * reach * unit


def distance(name: str, atoms: Matrix, *, share: float, seed: int = 1) -> Problem:
    """A (share 0), B (share 1) and T (between): squared distance to a target."""
    away = _outside(atoms, np.random.default_rng(seed))
    target = atoms.mean(0, dtype=np.float64) + share * away
    return _problem(name, atoms, Distance(target), functools.partial(wolfhound.SquaredDistance, target))


def inside(name: str, atoms: Matrix, *, seed: int) -> Problem:
    """A, with a target of its own for each seed: the mean of the atoms on one side of a random plane.

    As deep in the hull as a mean of half of the atoms is, and about 0.8 deviations from that of all.
    """
    unit = np.random.default_rng(seed).standard_normal((atoms.shape[1],))
    mean = atoms.mean(0, dtype=np.float64)
    side = atoms @ unit.astype(atoms.dtype) >= mean @ unit
    target = atoms[side].mean(0, dtype=np.float64)
    return _problem(name, atoms, Distance(target), functools.partial(wolfhound.SquaredDistance, target))


def least_squares(name: str, atoms: Matrix, *, seed: int = 1) -> Problem:
    """C: m = 2d rows, columns scaled from 1 down to 10^-1.5, 10 % noise."""
    rng = np.random.default_rng(seed)
    d = atoms.shape[1]
    truth = _outside(atoms, rng)
    design = rng.standard_normal((2 * d, d)) * np.logspace(0.0, -1.5, d) / np.sqrt(2 * d)
    clean = design @ truth
    response = clean + 0.1 * np.linalg.norm(clean) / np.sqrt(2 * d) * rng.standard_normal(2 * d)
    objective = functools.partial(wolfhound.LeastSquares, design, response)
    return _problem(name, atoms, Squares(design, response), objective)


# ---------------------------------------------------------------- generalised linear models


def logistic(name: str, atoms: Matrix, *, m: int, seed: int = 1) -> Problem:
    """m normal rows; labels drawn at a truth on the boundary of the atoms' reach."""
    rng = np.random.default_rng(seed)
    truth = _outside(atoms, rng) / 1.5
    design = rng.standard_normal((m, atoms.shape[1]))
    labels = np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-design @ truth)), 1.0, -1.0)
    objective = functools.partial(wolfhound.Logistic, design, labels)
    return _problem(name, atoms, LogLoss(design, labels), objective)


def huber(name: str, atoms: Matrix, *, m: int, seed: int = 1) -> Problem:
    """m normal rows; responses of an outside truth with noise of heavy tails."""
    rng = np.random.default_rng(seed)
    truth = _outside(atoms, rng)
    design = rng.standard_normal((m, atoms.shape[1]))
    clean = design @ truth
    noise = 0.1 * float(np.sqrt(np.square(clean).mean()))
    response = clean + noise * rng.standard_t(2, m)
    delta = 1.345 * noise
    objective = functools.partial(wolfhound.Huber, design, response, delta=delta)
    return _problem(name, atoms, HuberLoss(design, response, delta), objective)


# ---------------------------------------------------------------- mixtures


def likelihoods(log_density: Callable[[slice], Vector], n: int, m: int) -> Matrix:
    """exp(ll - max ll of the observation) as float32 atoms, built block by block.

    In logs and float64 until the maximum is taken off: plain densities underflow.
    The blocks go straight to their place, as the result may fill half the memory.
    """
    rows = max(1, _BLOCK_NUMBERS // m)
    blocks = [slice(at, min(at + rows, n)) for at in range(0, n, rows)]
    top = np.full(m, -np.inf)
    for block in blocks:
        np.maximum(top, log_density(block).max(0), out=top)
    out = np.empty((n, m), np.float32)
    for block in blocks:
        part = out[block]
        np.subtract(log_density(block), top, out=part, casting="same_kind")
        np.exp(part, out=part)
    return out


def mixture_problem(name: str, atoms: Matrix) -> Problem:
    """-mean log of the mixture's likelihoods; gaps in nats per observation."""
    return Problem(
        name=name, atoms=atoms, loss=NegativeLogLikelihood(), objective=wolfhound.MixtureLikelihood, scale=1.0
    )


def location_observations(m: int, dim: int, *, seed: int = 1) -> Vector:
    """(m, dim) points: a ring (1-D: two bumps) and a cluster, with unit noise."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, 2.0 * np.pi, m)
    centres = 4.0 * np.stack([np.cos(angle), np.sin(angle)], 1)
    centres[rng.random(m) < 0.3] = 0.0
    return centres[:, :dim] + rng.standard_normal((m, dim))


def location_grid(name: str, *, n: int, m: int, dim: int, shuffled: bool) -> Problem:
    """Normal densities of unit deviation with means on a grid over the data."""
    seen = location_observations(m, dim)
    side = round(n ** (1.0 / dim))
    axes = [np.linspace(low, high, side) for low, high in zip(seen.min(0), seen.max(0), strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dim)
    if shuffled:
        grid = grid[np.random.default_rng(2).permutation(len(grid))]
    half = 0.5 * np.square(seen).sum(1)

    def log_density(block: slice) -> Vector:
        means = grid[block]
        out: Vector = means @ seen.T
        out -= half
        out -= 0.5 * np.square(means).sum(1)[:, None]
        return out

    return mixture_problem(name, likelihoods(log_density, len(grid), m))


def flights(name: str, *, n: int, m: int, tiny: bool = False) -> Problem:
    """Normal densities on a (mean, deviation) grid for the flights' delays."""
    rng = np.random.default_rng(1)
    delays = rng.gamma(1.0, 1.0, 4 * m) if tiny else data.load("flights")[:, data.ARRIVAL_DELAY]
    seen = rng.choice(delays, m, replace=False).astype(np.float64)
    side = round(np.sqrt(n))
    centres, deviations = np.linspace(seen.min(), seen.max(), side), np.geomspace(0.05, 3.0, side)
    mean, deviation = (axis.ravel() for axis in np.meshgrid(centres, deviations, indexing="ij"))

    def log_density(block: slice) -> Vector:
        width = deviation[block, None]
        out: Vector = (seen - mean[block, None]) / width
        np.square(out, out=out)
        out *= -0.5
        out -= np.log(width)
        return out

    return mixture_problem(name, likelihoods(log_density, len(mean), m))
