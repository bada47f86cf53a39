"""Records and protocols that flow between atoms, oracles, objectives, methods.

Knows numpy only. Sizes used everywhere: n atoms, d their dimension, m queries,
k answers per query (or active atoms), p the dimension of the lifted space.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.text import shorten

Matrix: TypeAlias = NDArray[np.floating[Any]]
Vector: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ids: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int64]


# ---------------------------------------------------------------- atoms and oracles


class Atoms(Protocol):
    """The n rows whose hull is searched; rows come as float32 or float64."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: what `take` and `blocks` give."""

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, C-ordered block) over all rows once, in order."""


AtomsLike: TypeAlias = Atoms | ArrayLike | os.PathLike[str] | Sequence[Atoms | ArrayLike | os.PathLike[str]]
"""Whatever `as_atoms` takes: atoms, an array, a table, a path, or a list of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Answers to m queries, k each, best first.

    k is what was asked for, or n if that is less. Column 0 and `bounds` are promised;
    the other columns are good, not exact, unless an oracle says more.

    Attributes
    ----------
    ids : (m, k) int64
        Atoms, padded with -1; equal scores have the smallest id first.
    scores : (m, k) float64
        <caller's query, atom>, padded with -inf.
    bounds : (m,) float64
        Proved upper bound on the best score over all atoms not excluded, inf
        if nothing is proved.
    rows : (r, d)
        ``rows[slots[i, j]]`` is atom ``ids[i, j]``. Repeats are allowed.
    slots : (m, k) int64
        Padded with 0.
    scored : (m,) int64
        Atoms scored, as codes or rows: the machine-independent cost.
    passes : float
        Share of the atoms swept to prove this answer, once for all m queries.
    radius : float
        Proved bound on max|atom|, inf if unknown.
    """

    ids: Ids
    scores: Matrix
    bounds: Vector
    rows: Matrix
    slots: Ints
    scored: Ints
    passes: float
    radius: float = math.inf

    def __repr__(self) -> str:
        """The first few answers, and what they took."""
        m, k = self.ids.shape
        found = f"ids={shorten(self.ids)}, scores={shorten(self.scores)}, bounds={shorten(self.bounds)}"
        scored = " to ".join(f"{each:,}" for each in dict.fromkeys((self.scored.min(), self.scored.max())))
        return f"Hits({m} x {k}, {found}, scored {scored}, passes {self.passes:.3g})"


class Oracle(Protocol):
    """Finds atoms with a large inner product. Knows no point, f or gap.

    May be asked by several threads at once: a query works on what no other changes.
    """

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Answer m queries.

        Parameters
        ----------
        queries : (m, d), or (d,) for one
            Directions to maximise; one is asked as m = 1.
        k
            Answers wanted per query; more than n are n.
        thresholds : (m,), optional
            Scores (of one query, a number will do): any atom at or above will do; below it the best found is
            returned. Exact oracles ignore them.
        exclude : (m, e) int64, optional
            Atoms that must not be answered, padded with -1; of one query, (e,) will do.
        """


# ---------------------------------------------------------------- objectives


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """f at x: value and gradient, always evaluated together, in float64.

    Attributes
    ----------
    value_error : float
        Proved bound on the rounding of `value`.
    grad_error, sag : float
        Where f is convex, ``value - value_error - sag + <grad, y - x> - grad_error |y - x|`` is
        proved to be at most f(y) for all y (`sag`: it is the tangent of a function below f, or at
        a point beside x); else `grad_error` bounds the rounding of `grad` (2-norm).
    turn : float
        Proved bound (2-norm) on how far the gradient turns between x, as rounded on the way to `grad`,
        and the hull point that it stands for: no gap can be told more exactly than this allows.
    excess : float
        At least 2 (f(x) - min f over R^d) for quadratic f, else inf.
    cache : array, optional
        Read by the objective that made the point only.
    """

    x: Vector
    value: float
    grad: Vector
    value_error: float = 0.0
    grad_error: float = 0.0
    sag: float = 0.0
    turn: float = 0.0
    excess: float = math.inf
    cache: Vector | None = None

    @property
    def upper(self) -> float:
        """Proved upper bound on f at the point that x stands for."""
        return self.value + self.value_error


class Line(Protocol):
    """phi(s) = f(x + s d): all that a step rule sees."""

    @property
    def start(self) -> Point:
        """The point at s = 0."""

    @property
    def sq_length(self) -> float:
        """|d|^2."""

    def value(self, s: float) -> float:
        """phi(s)."""

    def slope(self, s: float) -> float:
        """phi'(s)."""

    def at(self, s: float) -> Point:
        """The point x + s d."""


class Objective(Protocol):
    """A smooth f: R^d -> R, possibly through a linear lift z of x.

    Where `lift` is not None, grad f(x) = lift' slope and the Hessian is (or is
    majorised by) lift' diag(curvature) lift.
    """

    @property
    def dim(self) -> int | None:
        """d, or None if any will do."""

    @property
    def convex(self) -> bool:
        """Whether f is convex; no lower bound is claimed where it is not."""

    @property
    def quadratic(self) -> bool:
        """Whether f = 1/2 |z - c|^2 + a constant, with z the lift of x."""

    @property
    def smoothness(self) -> float:
        """A Lipschitz constant of the gradient; inf if unknown."""

    @property
    def floor(self) -> float:
        """A proved lower bound of f on R^d (of the hull, for a domain); or -inf."""

    def at(self, x: Vector, drift: Vector | float = 0.0) -> Point:
        """Evaluate f at x.

        Parameters
        ----------
        x : (d,)
        drift : (d,) or float
            Componentwise bound on the distance of x from the hull point that
            it stands for; `value_error` covers it.
        """

    def values(self, rows: Matrix) -> Vector:
        """f at each row, without proofs: to choose a start."""

    def line(self, start: Point, direction: Vector) -> Line:
        """f along ``start.x + s * direction``."""

    def lift(self, rows: Matrix) -> Matrix | None:
        """(r, p) float64 lift of the rows; None if there is none."""

    def slope(self, point: Point) -> Vector:
        """(p,) derivative with respect to the lift."""

    def pull(self, slope: Vector) -> Vector:
        """(d,) gradient from a slope: the transpose of the lift."""

    def curvature(self, point: Point) -> Vector:
        """(p,) diagonal of the Hessian in the lifted space, or a majorant."""

    def begin(self, rows: Matrix) -> Vector | None:
        """Weights of a good start on these rows; None: the best single row."""

    def find_uncovered(self, rows: Matrix) -> Ints:
        """Coordinates that these rows leave outside the domain of f."""


class Distance(Objective, Protocol):
    """f = 1/2 |A x - b|^2 exactly: what a cone without cap, mass or ridge can be proved for."""

    def residual(self, point: Point) -> tuple[Vector, Vector]:
        """Return b, and some r near b - A x with ``-point.grad`` its pull A'r, but for `grad_error`."""

    def to_origin(self) -> Distance:
        """Return 1/2 |A x|^2."""


class StepSize(Protocol):
    """Chooses s on a line. What it remembers is one number, its estimate."""

    def begin(self) -> float:
        """Estimate before the first step."""

    def __call__(self, line: Line, end: float, t: int, estimate: float) -> tuple[float, float]:
        """Return (s in [0, end], new estimate) for step t = 0, 1, ..."""


# ---------------------------------------------------------------- runs


class Status(enum.Enum):
    """Why a run ended; the value is the sentence shown to the user.

    ROUNDING is a claim, too: at the point that is returned no step improves f any more, and the gap is at
    most 8 times the proved rounding of f, its gradient and the certificate there, and at most 1e-4 of
    what is at stake, how much f varies or its size. Otherwise it is STALLED.
    """

    GAP_REACHED = "the proved gap is at most the goal"
    ROUNDING = "the gap is as small as rounding allows; the goal is smaller"
    STATIONARY = "f is not convex: no atom promises more than the goal here; a global minimum is not proved"
    FINISHED = "all that was asked for is done"
    MAX_STEPS = "max_steps reached before the goal; raise it or the tolerance"
    MAX_PASSES = "max_passes reached before the goal; raise it or the tolerance"
    MAX_SECONDS = "max_seconds reached before the goal; raise it or the tolerance"
    STALLED = "no step improves f any more, and the goal is not proved; try an exact oracle or a larger goal"
    NOT_FOUND = "the index found no good atom, which proves nothing; confirm by a pass"
    STOPPED = "the callback asked to stop"
    INTERRUPTED = "interrupted; the best point so far is returned"
    SKIPPED = "not solved: the target is not finite, too large or of another width, or has no atom left"
    LOST = "atoms can no longer be read; the best point so far is returned"

    @property
    def success(self) -> bool:
        """Whether the run did what was asked."""
        return self in (Status.GAP_REACHED, Status.ROUNDING, Status.STATIONARY, Status.FINISHED)


INNER = "inner"
"""Kind of a state between two passes: computed, not proved; shown, never the answer of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightSet:
    """What weights w >= 0 may be, and what is paid for them: price sum w + ridge/2 |w|^2 is added to f.

    `weights.Hull` and `weights.Cone` are how a caller says it; None stands for the plain hull.
    """

    total: float = 1.0  # what weights sum to; inf: no sum
    at_most: bool = False  # whether they may sum to less
    cap: float | Vector = math.inf  # most weight of an atom, or (n,) of each; inf: none
    price: float = 0.0
    ridge: float = 0.0

    @property
    def capped(self) -> bool:
        """Whether atoms have caps."""
        return isinstance(self.cap, np.ndarray) or self.cap < math.inf

    @property
    def slack(self) -> bool:
        """Whether a zero atom takes what is left of the sum."""
        return self.at_most and self.total < math.inf

    @property
    def free(self) -> bool:
        """Whether nothing keeps weights from growing but f itself, and a price."""
        return self.total == math.inf and not self.capped and self.ridge == 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a method begins. Empty ids: the origin.

    Attributes
    ----------
    ids, weights, rows : (k,), (k,), (k, d)
        The first point.
    pool_ids, pool : (r,), (r, d)
        Random atoms that were read already.
    exclude : (e,) int64
        Atoms that must not be used.
    t, passes, scored : int, float, int
        Steps, passes and scored atoms of the run that goes on.
    lower, proof, estimate : float, (d,), float
        Its lower bound, where it is to be proved again; what its step rule remembers.
    over : WeightSet, optional
        What weights may be; None: the hull.
    """

    ids: Ids
    weights: Vector
    rows: Matrix
    pool_ids: Ids
    pool: Matrix
    exclude: Ids
    t: int = 0
    passes: float = 0.0
    scored: int = 0
    estimate: float | None = None
    lower: float = -math.inf
    proof: Vector | None = None
    over: WeightSet | None = None


class Progress(Protocol):
    """All that the driver reads of a state."""

    @property
    def t(self) -> int:
        """Steps taken."""

    @property
    def value(self) -> float:
        """Proved upper bound on f at the current point; f as computed if `kind` is `INNER`."""

    @property
    def lower(self) -> float:
        """Proved lower bound on min f, -inf if none."""

    @property
    def passes(self) -> float:
        """Passes over all atoms so far."""

    @property
    def scored(self) -> int:
        """Atoms scored so far."""

    @property
    def ratio(self) -> float:
        """Gap found / true gap at the last audited query, else nan."""

    @property
    def slack(self) -> float:
        """Proved bound on the rounding in f and in the certificate at this point; inf before there is one."""

    @property
    def kind(self) -> str:
        """What the last step was."""

    @property
    def end(self) -> Status | None:
        """Set by the method when it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A `Progress` with all that a `Start` needs to go on from it. A callback may keep it: arrays are copies.

    Attributes
    ----------
    kind : str
        What the last step was: "start", "forward", "away", "pass", `INNER`, ...
    hit : int
        Atom that the last query answered, -1 if none was asked.
    mass : float
        Largest sum of weights that `lower` is proved for; inf but for cones that hold a line.
    """

    t: int
    point: Point
    lower: float
    ids: Ids
    weights: Vector
    passes: float
    scored: int
    ratio: float
    slack: float
    kind: str
    hit: int = -1
    end: Status | None = None
    pool_ids: Ids | None = None
    estimate: float | None = None
    proof: Vector | None = None
    mass: float = math.inf

    @property
    def value(self) -> float:
        """Proved upper bound on f at the current point."""
        return self.point.upper

    @property
    def gap(self) -> float:
        """``value - lower``: how far from the optimum this can be."""
        return self.value - self.lower


class Method(Protocol):
    """Moves a point; never stops, times or prints: `solve.drive` does."""

    def begin(self, objective: Objective, start: Start, rng: np.random.Generator) -> Start:
        """Choose ids, weights and rows for a start that has only its pool."""

    def states(
        self, objective: Objective, oracle: Oracle, start: Start, *, goal: float, rng: np.random.Generator
    ) -> Iterator[State]:
        """Yield the start before any query, then a state per step.

        Parameters
        ----------
        goal
            Wanted absolute gap, a hint for the inner accuracy.
        """
