"""`nnls`: non-negative least squares with scipy's signature, and a proof.

One right side is `minimize(SquaredDistance(b), columns, over=Cone())`. For many over a few columns the Gram
matrix is made once and a compiled loop solves them; all are then proved by two products of matrices, and
those that are not proved are solved one by one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.compiled.active_set import SHUT, make_state, pad
from wolfhound.core import validate
from wolfhound.core.contracts import Ints, State, Vector
from wolfhound.core.rounding import SAFE, TINY, UNIT, gamma, length
from wolfhound.core.weights import Cone, ray_bound
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve._cone_kernels import solve_cones
from wolfhound.solve.minimize import minimize

FEW = 4096
"""Columns up to which a Gram matrix is made for many right sides."""

CHUNK = 1024
"""Right sides that are solved and proved at once."""

SPREAD = 0.05
"""Least share of its square that all columns must have along their mean, for that to be the direction."""


class _Pair(NamedTuple):
    x: Vector
    rnorm: Any


class NnlsResult(_Pair):
    """What `nnls` found, ``(x, rnorm)`` as scipy gives it, and what is proved.

    Attributes
    ----------
    x : (n,), or (n, k) for k right sides
        The weights, >= 0.
    rnorm : float, or (k,)
        Proved upper bound on |A x - b|, a few units in the last place above it.
    lower : float, or (k,)
        Proved lower bound on the least |A x - b| over all x >= 0.
    mass : float, or (k,)
        inf; where the columns hold a line, so that x can grow without limit, the proof is one for
        ``sum_j x_j |a_j|`` of up to about this.
    success : bool, or (k,)
        Whether the proved gap is what was asked for, or as small as rounding allows.
    """

    lower: Any
    mass: Any
    success: Any

    def __new__(cls, x: Vector, rnorm: Any, *, lower: Any, mass: Any, success: Any) -> NnlsResult:
        """Join the pair and what is proved of it."""
        made = super().__new__(cls, x, rnorm)
        made.lower, made.mass, made.success = lower, mass, success
        return made

    @property
    def gap(self) -> Any:
        """``rnorm - lower``: |A x - b| is at most this much above the least."""
        return self.rnorm - self.lower


def nnls(A: ArrayLike, b: ArrayLike, maxiter: int | None = None, *, rtol: float = 1e-10) -> NnlsResult:  # noqa: N803 - as scipy has it
    """Solve ``argmin_x |A x - b|`` for x >= 0, as `scipy.optimize.nnls` does, with a proof.

    Parameters
    ----------
    A : (m, n)
        Dense; its columns are what is mixed.
    b : (m,) or (m, k)
        One right side, or k of them.
    maxiter
        Most columns that join on the way, per right side; None: any number. Where it ends a run, `success`
        is False: nothing is raised.
    rtol
        The wanted gap of 1/2 |A x - b|^2, relative to 1/2 |b|^2.

    Returns
    -------
    NnlsResult
        Unpacks as ``x, rnorm``; `lower` and `gap` are proved, rounding included.

    Examples
    --------
    >>> x, rnorm = nnls([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [2.0, 1.0, -1.0])
    >>> x.round(12), round(float(rnorm), 6)
    (array([1.5, 0. ]), 1.224745)
    """
    design = validate.matrix(A, "A")
    sides = validate.array(b, "b", "an array of real numbers")
    rule = f"({len(design)},), or ({len(design)}, k)"
    validate.require(sides.ndim in (1, 2) and len(sides) == len(design), "b", rule, f"shape {sides.shape}")
    many = validate.matrix(sides, "b") if sides.ndim == 2 else validate.vector(sides, "b")[:, None]
    steps = math.inf if maxiter is None else float(validate.count(maxiter, "maxiter", low=1))
    goal = validate.number(rtol, "rtol", low=0.0)
    columns = _Columns(design)
    found = columns.solve(np.ascontiguousarray(many.T), goal, steps)
    if sides.ndim == 2:
        return found
    lower, mass, success = float(found.lower[0]), float(found.mass[0]), bool(found.success[0])
    return NnlsResult(found.x[:, 0].copy(), float(found.rnorm[0]), lower=lower, mass=mass, success=success)


class _Columns:
    """The columns as atoms, scaled to 1 to 2 by powers of two, which is exact: a cone knows no lengths."""

    def __init__(self, design: Vector) -> None:
        atoms = np.ascontiguousarray(design.T)
        _, exponents = np.frexp(np.abs(atoms).max(axis=1))
        scaled = np.ldexp(atoms, 1 - exponents[:, None])
        exact = (np.ldexp(scaled, exponents[:, None] - 1) == atoms).all(axis=1) & np.isfinite(scaled).all(
            axis=1
        )
        self._exponents = np.where(exact, 1 - exponents, 0)
        self._atoms = np.where(exact[:, None], scaled, atoms)
        self._norms = np.linalg.norm(self._atoms, axis=1) * (1.0 + gamma(atoms.shape[1] + 4))
        self._empty = np.flatnonzero(~self._atoms.any(axis=1))

    def solve(self, targets: Vector, rtol: float, steps: float) -> NnlsResult:
        """Solve all (k, m) right sides."""
        (k, _), n = targets.shape, len(self._atoms)
        x, numbers = np.zeros((n, k)), np.zeros((3, k))
        done = np.zeros(k, bool)
        if len(self._empty) == n:
            numbers[:] = np.linalg.norm(targets, axis=1), np.linalg.norm(targets, axis=1), np.full(k, np.inf)
            numbers[0] *= 1.0 + gamma(targets.shape[1] + 4)
            numbers[1] *= 1.0 - gamma(targets.shape[1] + 4)
            return NnlsResult(x, numbers[0], lower=numbers[1], mass=numbers[2], success=~done)
        numbers[2] = math.inf
        if k > 1 and n <= FEW and steps == math.inf:
            self._solve_batch(targets, rtol, x, numbers, done)
        for i in np.flatnonzero(~done):
            self._solve_one(targets[i], (rtol, steps), x[:, i], numbers[:, i], done[i : i + 1])
        return NnlsResult(x, numbers[0], lower=numbers[1], mass=numbers[2], success=done)

    def _solve_one(
        self, b: Vector, limits: tuple[float, float], x: Vector, numbers: Vector, done: NDArray[np.bool_]
    ) -> None:
        """One right side, by a run of its own."""
        found = minimize(
            SquaredDistance(b),
            self._atoms,
            over=Cone(),
            rtol=limits[0],
            max_steps=limits[1],
            exclude=self._empty,
            progress=False,
        )
        x[:] = 0.0
        x[found.ids] = np.ldexp(found.weights, self._exponents[found.ids])
        numbers[:] = root_up(found.value), root_down(found.lower), found.mass
        done[0] = found.success

    def _solve_batch(
        self, targets: Vector, rtol: float, x: Vector, numbers: Vector, done: NDArray[np.bool_]
    ) -> None:
        """All right sides by one Gram matrix; those that it proves are done."""
        u, least = self._find_direction()
        if not least > 0.0:
            return
        atoms, (n, m) = self._atoms, self._atoms.shape
        wide, room = pad(n), min(n, m) + 1
        gram = np.zeros((n, wide))
        np.matmul(atoms, atoms.T, out=gram[:, :n])
        state = make_state(gram, gram, np.empty((0, m)), room)
        for first in range(0, len(targets), CHUNK):
            part = slice(first, min(first + CHUNK, len(targets)))
            b = targets[part]
            squares = np.einsum("ij,ij->i", b, b)
            cross = np.full((len(b), wide), SHUT)
            np.matmul(b, atoms.T, out=cross[:, :n])
            cross[:, self._empty] = SHUT
            goals = 0.05 * rtol * np.sqrt(squares) * least / max(length(u), TINY)
            ids, weights = np.zeros((len(b), room), np.int64), np.zeros((len(b), room))
            support = np.zeros(len(b), np.int64)
            solve_cones(state, cross, squares, goals, ids, weights, support)
            dense = _spread(ids, weights, support, n)
            numbers[:2, part] = self._prove(b, dense, u, least)
            gaps = 0.5 * (numbers[0, part] ** 2 - numbers[1, part] ** 2)
            done[part] = gaps <= 0.5 * rtol * squares
            x[:, part] = np.ldexp(dense, self._exponents).T

    def _find_direction(self) -> tuple[Vector, float]:
        """u, and a proved lower bound of <a, u> over all columns; <= 0 where none was found."""
        atoms = np.delete(self._atoms, self._empty, axis=0)
        mean = atoms.mean(axis=0)
        least = self._bound_below(atoms, mean)
        if least >= SPREAD * float(mean @ mean):
            return mean, least

        def found(state: State) -> bool:
            return state.kind == "pass" and state.lower > 0.25 * state.value

        run = minimize(
            SquaredDistance(np.zeros(len(mean))), atoms, max_passes=50, callback=found, progress=False
        )
        return run.x, self._bound_below(atoms, run.x)

    def _bound_below(self, atoms: Vector, u: Vector) -> float:
        return float((atoms @ u).min()) - SAFE * gamma(len(u) + 2) * float(self._norms.max()) * length(u)

    def _prove(self, b: Vector, dense: Vector, u: Vector, least: float) -> tuple[Vector, Vector]:
        """(k,) proved upper bounds of |A x - b|, and lower ones of the least, by y = r - delta u."""
        m = b.shape[1]
        r = b - dense @ self._atoms
        held = np.maximum((dense > 0.0).sum(axis=1), 1)
        mass, far = dense @ self._norms, float(self._norms.max())
        sizes, whole, long = (
            np.linalg.norm(r, axis=1) * (1.0 + gamma(m + 4)),
            np.linalg.norm(b, axis=1),
            length(u),
        )
        lost = SAFE * np.array([gamma(int(h) + 4) for h in held]) * (mass + whole) + m * TINY
        top = (r @ self._atoms.T).max(axis=1) + SAFE * gamma(m + 4) * far * sizes + m * TINY
        delta = np.maximum(top, 0.0) / least * (1.0 + 4.0 * UNIT)
        y = r - delta[:, None] * u
        reach = sizes + SAFE * delta * long
        error = SAFE * gamma(m + 8) * (1.01 * whole * reach + 3.0 * reach * reach) + m * TINY
        along, square = np.einsum("ij,ij->i", b, y) - error, np.einsum("ij,ij->i", y, y) + error
        lower = [
            root_down(ray_bound(float(a), float(s), math.inf)) for a, s in zip(along, square, strict=True)
        ]
        return sizes + lost, np.minimum(lower, sizes)


def _spread(ids: Ints, weights: Vector, support: Ints, n: int) -> Vector:
    """(k, n) weights by column."""
    out = np.zeros((len(ids), n))
    rows = np.repeat(np.arange(len(ids)), support)
    held = np.arange(ids.shape[1]) < support[:, None]
    out[rows, ids[held]] = weights[held]
    return out


def root_up(half_square: float) -> float:
    """sqrt(2 v), rounded up."""
    return math.sqrt(2.0 * half_square) * (1.0 + 4.0 * UNIT)


def root_down(half_square: float) -> float:
    """sqrt(2 v), rounded down; 0 of what is not positive."""
    return math.sqrt(2.0 * half_square) * (1.0 - 4.0 * UNIT) if half_square > 0.0 else 0.0
