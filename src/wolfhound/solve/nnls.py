"""`nnls`: non-negative least squares with scipy's signature, and a proof.

Right sides are solved in batches (`cones`), as `minimize_many` over a cone has it; those that are not proved
so are `minimize(SquaredDistance(b), columns, over=Cone())`, one by one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Vector
from wolfhound.core.rounding import UNIT, gamma
from wolfhound.core.weights import Cone
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve.cones import ConeAtoms
from wolfhound.solve.minimize import minimize

FEW = 4096  # columns up to which a Gram matrix is made for many right sides


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
        ``sum_j x_j |a_j|`` of up to this.
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

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies, and what other processes are sent, keep the proof."""
        return tuple(self), dict(self.__dict__)

    def __repr__(self) -> str:
        """Show the pair, and what is proved of it."""
        told = {**self._asdict(), **self.__dict__}
        if np.all(np.isinf(self.mass)):
            del told["mass"]
        return f"NnlsResult({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @property
    def gap(self) -> Any:
        """``rnorm - lower``: |A x - b| is at most this much above the least."""
        return self.rnorm - self.lower


@validate.hint_keywords
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
    validate.require_moderate(many, "b")
    steps = math.inf if maxiter is None else float(validate.count(maxiter, "maxiter", low=1))
    goal = validate.number(rtol, "rtol", low=0.0)
    cone = ConeAtoms(design.T)  # a copy would take longer than all that is done with it
    found = _solve(cone, np.ascontiguousarray(many.T), goal, steps)
    if sides.ndim == 2:
        return found
    lower, mass, success = float(found.lower[0]), float(found.mass[0]), bool(found.success[0])
    return NnlsResult(found.x[:, 0].copy(), float(found.rnorm[0]), lower=lower, mass=mass, success=success)


def _solve(cone: ConeAtoms, targets: Vector, rtol: float, steps: float) -> NnlsResult:
    """Solve all (k, m) right sides in batches; those that these do not prove by runs of their own."""
    (k, m), n = targets.shape, len(cone.atoms)
    size, unit = np.linalg.norm(targets, axis=1), gamma(m + 4)
    x, rnorm, lower = np.zeros((n, k)), size * (1.0 + unit), size * (1.0 - unit)
    mass, done = np.full(k, math.inf), np.full(k, len(cone.empty) == n)  # of columns of zeros 0 is the answer
    batch = cone.open(FEW if k > 1 else 0) if steps == math.inf else None
    if batch is not None:
        for first in range(0, k, batch.most):
            part = slice(first, first + batch.most)
            goals = 0.5 * rtol * np.einsum("ij,ij->i", targets[part], targets[part])
            found = batch.solve(targets[part], goals)
            x[:, part], rnorm[part] = found.weights.T, found.away
            lower[part] = [_root_down(each) for each in found.lower.tolist()]
            done[part] = 0.5 * (rnorm[part] ** 2 - lower[part] ** 2) <= goals
    options: dict[str, Any] = {"over": Cone(), "rtol": rtol, "max_steps": steps, "exclude": cone.empty}
    left = np.flatnonzero(~done)
    rows = np.ascontiguousarray(cone.atoms) if len(left) else cone.atoms
    for i in left:
        run = minimize(SquaredDistance(targets[i]), rows, **options, progress=False)
        x[:, i] = 0.0
        x[run.ids, i] = np.ldexp(run.weights, cone.exponents[run.ids])
        rnorm[i] = math.sqrt(2.0 * run.value) * (1.0 + 4.0 * UNIT)
        lower[i], done[i] = _root_down(run.lower), run.success
        mass[i] = run.mass * cone.shortest if run.mass < math.inf else math.inf
    return NnlsResult(x, rnorm, lower=lower, mass=mass, success=done)


def _root_down(half_square: float) -> float:
    """sqrt(2 v), rounded down; 0 of what is not positive."""
    return math.sqrt(2.0 * half_square) * (1.0 - 4.0 * UNIT) if half_square > 0.0 else 0.0
