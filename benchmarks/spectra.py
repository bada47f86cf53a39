"""Synthetic reflectance spectra, pixels that mix them, and three ways that others unmix.

Spectra come in families of near-copies, as in real libraries: coherences up to 0.99999.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from fnnls import fnnls
from reference import Matrix, Vector
from scipy.optimize import nnls

HEAVY = 1e3
"""Weight of the row that makes the fractions of nnls sum to 1."""

LESS_HEAVY = 30.0
"""The same for products of such rows, whose squares would hide the spectra otherwise."""


def make_library(n: int = 300, d: int = 200, *, seed: int = 0) -> Vector:
    """(n, d) spectra: smooth continua with absorption bands, then variants of each."""
    rng, x = np.random.default_rng(seed), np.linspace(0.0, 1.0, d)
    families = max(30, n // 10)
    bases = []
    for _ in range(families):
        y = 0.3 + 0.5 * rng.random() + (rng.random() - 0.5) * 0.6 * x
        y += 0.2 * np.sin(2.0 * np.pi * (rng.random() * 1.5 * x + rng.random()))
        for _ in range(int(rng.integers(3, 8))):
            y -= rng.uniform(0.05, 0.35) * np.exp(-0.5 * ((x - rng.random()) / rng.uniform(0.015, 0.12)) ** 2)
        bases.append(np.clip(y, 0.02, None))
    out = []
    for i in range(n):
        y = bases[i % families] * rng.uniform(0.7, 1.1)
        for _ in range(2):
            bump = np.exp(-0.5 * ((x - rng.random()) / rng.uniform(0.02, 0.15)) ** 2)
            y = y * (1.0 + rng.uniform(-0.25, 0.25) * bump)
        out.append(np.clip(y, 0.01, None))
    return np.array(out)


def make_pixels(library: Vector, m: int, *, decibels: float = 30.0, seed: int = 1) -> Matrix:
    """(m, d) float32 mixtures of 3 to 6 random spectra with noise."""
    rng, (n, d) = np.random.default_rng(seed), library.shape
    out = np.empty((m, d), np.float32)
    for start in range(0, m, 5000):
        size = min(5000, m - start)
        # The k smallest of random numbers are k random spectra, of exponential weights.
        draws = rng.random((size, n))
        first = np.argpartition(draws, 6, axis=1)[:, :6]
        shares = rng.exponential(size=(size, 6)) * (np.arange(6) < rng.integers(3, 7, size)[:, None])
        shares /= shares.sum(axis=1, keepdims=True)
        pixels = np.einsum("ij,ijd->id", shares, library[first])
        noise = np.sqrt((pixels**2).mean(axis=1) * 10.0 ** (-decibels / 10.0))
        out[start : start + size] = pixels + noise[:, None] * rng.standard_normal((size, d))
    return out


def unmix_by_nnls(pixels: Vector, library: Vector) -> Vector:
    """Fractions by non-negative least squares with a heavy row of ones, pixel by pixel."""
    rows = np.vstack([library.T, np.full(len(library), HEAVY)])
    found = np.array([nnls(rows, np.append(pixel, HEAVY))[0] for pixel in pixels])
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def unmix_by_fnnls(pixels: Vector, library: Vector) -> Vector:
    """Fractions by compiled fast non-negative least squares (Bro & de Jong 1997) with a row of ones."""
    gram, cross = library @ library.T + LESS_HEAVY**2, pixels @ library.T + LESS_HEAVY**2
    found = np.zeros(cross.shape)
    tol = 10.0 * 2.2e-16 * np.abs(gram).sum(axis=0).max() * len(gram)  # as it is published
    for x, side in zip(found, cross, strict=True):
        fnnls(gram, side, x, tol)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def unmix_by_gradient(pixels: Vector, library: Vector, *, steps: int) -> Vector:
    """Fractions by accelerated projected gradient, all pixels at once."""
    gram, cross = library @ library.T, pixels @ library.T
    size = 1.0 / np.linalg.eigvalsh(gram)[-1]
    weights = np.full(cross.shape, 1.0 / len(library))
    ahead, pace = weights, 1.0
    for _ in range(steps):
        new = project_on_simplex(ahead - size * (ahead @ gram - cross))
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace * pace))
        ahead = new + (pace - 1.0) / faster * (new - weights)
        weights, pace = new, faster
    return weights


def project_on_simplex(rows: Vector) -> Vector:
    """The closest points with entries >= 0 and sum 1."""
    falling = -np.sort(-rows, axis=1)
    sums = np.cumsum(falling, axis=1) - 1.0
    counts = np.arange(1, rows.shape[1] + 1)
    last = (falling * counts > sums).sum(axis=1)
    shift = sums[np.arange(len(rows)), last - 1] / last
    return np.asarray(np.maximum(rows - shift[:, None], 0.0))
