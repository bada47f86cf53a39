"""What a run gives back: the point, the proof, the cost and the way there."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Ids, Ints, Status, Vector
from wolfhound.core.text import cost_text, finite_text, seconds_text
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import Fingerprint
from wolfhound.data.codec import FINITE, WEIGHTS, Array, Codec, Columns, HasCodec, Json, Scalar
from wolfhound.data.files import import_extra
from wolfhound.show import plot
from wolfhound.show.markup import (
    Details,
    Field,
    Grid,
    Picture,
    RunResult,
    Summary,
    list_columns,
    list_weights,
    pick,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TRUSTED = "trusted, not proved"  # as `Custom` says of itself
LISTED = 50  # atoms that a table may show
_SHOWN = 5

_BARS = 15  # atoms in a picture of weights

_MEANING = (
    "f is what is minimised. No weights that are allowed have a smaller f than the lower bound, which is {}: "
    "so f of these is larger than the least there is by at most the gap."
)
_UNKNOWN = "f is what is minimised. How much smaller it can be is not known."

_KINDS = {
    "start": "the start, before any query",
    "pass": "a pass over all atoms: proves",
    "inner": "between passes, on the atoms in hand",
    "corrective": "weights of the atoms in hand, solved anew",
    "none": "no atom was found that promises more",
    "null": "a step of length 0",
    "forward": "a step towards the atom found",
    "exact": "the same by a pass: samples had less of the best gap than was asked for",
    "away": "a step away from an active atom",
    "pairwise": "weight moved from one atom to another",
    "pick": "an atom is picked",
    "swap": "an atom is exchanged",
}


class TraceRow(NamedTuple):
    """One state of a run, as the driver records it."""

    t: int
    value: float
    lower: float
    passes: float
    scored: int
    seconds: float
    ratio: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The states of a run as columns of equal length.

    Attributes
    ----------
    t : (states,) int64
        Steps taken.
    value, lower : (states,) float64
        Proved upper bound on f at the point (of kind "inner": f as computed), proved lower
        bound on min f.
    passes : (states,) float64
        Passes over all atoms so far.
    scored : (states,) int64
        Atoms scored so far.
    seconds : (states,) float64
        Time since the start of the run, without compiling or loading kernels at their first use.
    ratio : (states,) float64
        Gap found / true gap where a query was audited, else nan.
    kind : (states,) str
        What the step was.

    Examples
    --------
    >>> trace = Trace.of([TraceRow(0, 2.0, 0.0, 0.0, 0, 0.1, float("nan"), "start")])
    >>> len(trace), trace.gap, [(row.kind, row.value) for row in trace]
    (1, array([2.]), [('start', 2.0)])
    """

    t: Ints
    value: Vector
    lower: Vector
    passes: Vector
    scored: Ints
    seconds: Vector
    ratio: Vector
    kind: NDArray[np.str_]

    def __post_init__(self) -> None:
        """Check the lengths."""
        lengths = {name: len(getattr(self, name)) for name in TraceRow._fields}
        require(len(set(lengths.values())) == 1, "trace", "columns of equal length", lengths)

    @classmethod
    def of(cls, rows: Sequence[TraceRow]) -> Trace:
        """Make the columns from one row per state."""
        columns = list(zip(*rows, strict=True)) or [()] * len(TraceRow._fields)
        named = zip(TRACE.columns.items(), columns, strict=True)
        return cls(**{name: np.array(column, field.dtype) for (name, field), column in named})

    def __len__(self) -> int:
        """How many states."""
        return len(self.t)

    def __iter__(self) -> Iterator[TraceRow]:
        """Yield one row per state."""
        columns = (getattr(self, name).tolist() for name in TraceRow._fields)
        return map(TraceRow._make, zip(*columns, strict=True))

    def to_frame(self) -> DataFrame:
        """Return the columns, and the gap, as a table of pandas."""
        return make_frame({name: getattr(self, name) for name in (*TraceRow._fields, "gap")})

    @property
    def gap(self) -> Vector:
        """``value - lower``: how far from the optimum each state can be."""
        with np.errstate(invalid="ignore"):
            return self.value - self.lower


TRACE = Columns(
    Trace,
    dict.fromkeys(TraceRow._fields, Array(shape=("states",)))
    | {
        "t": Array(shape=("states",), dtype=np.int64, low=0),
        "scored": Array(shape=("states",), dtype=np.int64),
        "kind": Array(shape=("states",), dtype="U"),
    },
)
"""How a trace is made and saved: float64, but for some columns."""


def make_frame(columns: Mapping[str, Any]) -> DataFrame:
    """Return a table of pandas, which is an extra."""
    return import_extra("pandas", "to_frame", "data").DataFrame(dict(columns))


class WeightedAtom(NamedTuple):
    """An active atom."""

    id: int
    name: str | None
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Result(HasCodec, RunResult):
    """The best point of a run and what is proved about it.

    Attributes
    ----------
    x : (d,) float64
        The point, ``sum(weights * atoms[ids])``.
    ids, weights : (k,)
        Active atoms, by decreasing weight, equal weights by id.
    value : float
        Proved upper bound on f at x.
    lower : float
        Proved lower bound on min f over the hull, -inf if none.
    status : Status
        Why the run ended.
    goal : float
        The gap that was wanted.
    steps : int
        Steps taken.
    passes : float
        Passes over all atoms.
    scored : int
        Atoms scored, the machine-independent cost.
    seconds : float
        Time taken, without that in which kernels were compiled or loaded.
    trace : Trace
        Every state on the way.
    names : tuple of str, optional
        Names of the active atoms, in the order of `ids`.
    fingerprint : Fingerprint
        Of the atoms; `load` compares it.
    objective, method, over : str
        What was minimised, how, and what weights may be.
    mass : float
        The largest sum of weights that `lower` is proved for: inf, but for a cone that holds a line.
    """

    x: Vector
    ids: Ids
    weights: Vector
    value: float
    lower: float
    status: Status
    goal: float
    steps: int
    passes: float
    scored: int
    seconds: float
    trace: Trace
    names: tuple[str, ...] | None = None
    fingerprint: Fingerprint = ()
    objective: str = ""
    method: str = ""
    over: str = "Hull()"
    mass: float = math.inf

    def __post_init__(self) -> None:
        """Sort the active atoms."""
        k = len(self.ids)
        require(len(self.weights) == k, "weights", f"of length {k}", f"length {len(self.weights)}")
        order = np.lexsort((self.ids, -self.weights))
        object.__setattr__(self, "ids", self.ids[order])
        object.__setattr__(self, "weights", self.weights[order])
        if self.names is not None:
            plain = isinstance(self.names, Sequence) and not isinstance(self.names, (str, bytes))
            if not (plain and all(isinstance(name, str) for name in self.names)):
                raise TypeError(f"`names` must be a sequence of strings. Got {self.names!r}.")
            require(len(self.names) == k, "names", f"{k} names, one per active atom", f"{len(self.names)}")
            object.__setattr__(self, "names", tuple(self.names[i] for i in order))

    @property
    def gap(self) -> float:
        """``value - lower``: f(x) is at most this much above the minimum."""
        return self.value - self.lower

    @property
    def support(self) -> int:
        """How many atoms have weight."""
        return len(self.ids)

    @property
    def message(self) -> str:
        """Why the run ended and what it cost, in one sentence."""
        ended = self.status.value.replace("proved gap", f"{self._word} gap")
        cost = cost_text(self.passes, self.scored, self.seconds)
        return f"{ended}: gap {finite_text(self.gap)} (goal {self.goal:.3g}) after {cost}"

    def top(self, k: int = 10) -> list[WeightedAtom]:
        """Return the k atoms of largest weight."""
        k = min(count(k, "k"), self.support)
        names = self.names[:k] if self.names is not None else (None,) * k
        columns = self.ids[:k].tolist(), names, self.weights[:k].tolist()
        return list(map(WeightedAtom._make, zip(*columns, strict=True)))

    def to_frame(self) -> DataFrame:
        """Return the active atoms as a table of pandas: id, weight, and name if there are names."""
        names = {} if self.names is None else {"name": list(self.names)}
        return make_frame({"id": self.ids, **names, "weight": self.weights})

    @property
    def _word(self) -> str:
        """Of a function of the user's nothing can be proved: it says so itself."""
        return "trusted" if TRUSTED in self.objective else "proved"

    def summary(self) -> Summary:
        """Return value, proof, cost and the largest weights."""
        top = ", ".join(f"{name or f'#{i}'} {weight:.3f}" for i, name, weight in self.top(_SHOWN))
        more = ", ..." if self.support > _SHOWN else ""
        value, lower = (finite_text(each, ".9g", unknown="none") for each in (self.value, self.lower))
        gap, word = finite_text(self.gap, unknown="none"), self._word
        cost = cost_text(self.passes, self.scored, self.seconds)
        spent, k = pick(self, "steps", "passes", "scored", "seconds"), f"{self.support:,}"
        line = f"; it holds a line: proved for weights of sum <= {self.mass:.3g}"
        far = line if math.isfinite(self.mass) else ""
        over = Field("over", f"{self.over}{far}", pick(self, "over", "mass"))
        fields = (
            Field("value", value, pick(self, "value"), ("value", f"{self.value:.6g}")),
            Field("lower", lower, pick(self, "lower")),
            Field("gap", f"{gap} (goal {self.goal:.3g})", pick(self, "gap", "goal"), (f"{word} gap", gap)),
            Field("cost", f"{cost}, {self.steps:,} steps", spent, ("time", seconds_text(self.seconds))),
            Field("support", f"{k} atoms: {top}{more}", pick(self, "support"), ("atoms with weight", k)),
            Field("of", f"{self.objective} by {self.method}", pick(self, "objective", "method")),
            *([over] if self.over != "Hull()" else []),
        )
        atoms = list_weights(
            "The atoms of largest weight",
            self.top(LISTED),
            size=self.support,
            key="atoms",
            records=lambda: [atom._asdict() for atom in self.top(self.support)],
        )
        ended = self.status.value.replace("proved gap", f"{word} gap")
        return Summary(
            f"Result({self.status.name}: {ended})",
            fields,
            (atoms,),
            meaning=_MEANING.format(word) if math.isfinite(self.lower) else _UNKNOWN,
            title="Minimum over a cone" if self.over.startswith("Cone") else "Minimum over a hull",
            status=self.status.name,
            success=self.success,
            message=self.message,
            caption=f"{self.method}, gap {self.gap:.2g}".lstrip(", "),
            pictures=lambda: picture_trace(self.trace, goal=self.goal, word=word),
            details=lambda: tell_trace(self.trace, self.fingerprint, self.seconds),
        )


# ---------------------------------------------------------------- what is told of every trace


def describe_atoms(source: Fingerprint) -> str:
    """Say how many atoms there were, of what, and how to know them again; may take a pass over them."""
    if not source:
        return "not known"
    n = sum(part.n for part in source)
    more = f" in {len(source)} parts" if len(source) > 1 else ""
    digest = source[0].settle().digest[:12] or "not known"
    return f"{n:,} x {source[0].d:,} {source[0].dtype}{more}, fingerprint {digest}"


def tell_trace(trace: Trace, source: Fingerprint, seconds: float) -> Details:
    """Tell what the steps of each kind cost, and how good the answers of an oracle were."""
    spent = {
        name: np.diff(getattr(trace, name), prepend=0.0 * getattr(trace, name)[:1])
        for name in ("passes", "scored", "seconds")
    }
    rows = []
    for kind in dict.fromkeys(trace.kind.tolist()):
        which = trace.kind == kind
        passes, scored, took = (float(each[which].sum()) for each in spent.values())
        cost = f"{passes:.3g}", f"{scored:,.0f}", seconds_text(took)
        rows.append((kind, _KINDS.get(kind, ""), f"{int(which.sum()):,}", *cost))
    headings = ("kind", "what it is", "states", "passes", "atoms scored", "time")
    solving = float(trace.seconds[-1]) if len(trace) else 0.0
    fields = [
        Field("atoms", describe_atoms(source)),
        Field("time", f"{seconds_text(seconds)}, of which {seconds_text(solving)} on the problem"),
    ]
    audited = trace.ratio[np.isfinite(trace.ratio)]
    if len(audited):
        low = f"tenth percentile {np.quantile(audited, 0.1):.3f}"
        found = f"mean {audited.mean():.3f}, {low} of {len(audited):,} audited queries"
        fields.append(Field("gap found / true gap", found))
    return Details(tuple(fields), (Grid("States of the run by kind", headings, rows, (0, 1)),))


def picture_trace(
    trace: Trace, *, goal: float, names: tuple[str, str] = ("value", "lower bound"), word: str = "proved"
) -> list[Picture]:
    """Draw how value and bound came together, against passes and against seconds.

    Where the value is a J, the trace is that of -J; `word` is what the bounds are: proved, or trusted.
    """
    sign = -1.0 if names[0] == "J" else 1.0
    value, bound, gap = sign * trace.value, sign * trace.lower, trace.gap
    named, y = (names[0], f"{names[1]} ({word})"), "f" if sign > 0.0 else names[0]
    seen = bound[np.isfinite(bound)]
    ends = f", the {names[1]} from {seen[0]:.6g} to {seen[-1]:.6g}" if len(seen) else ""
    whole = f"The {names[0]} goes from {value[0]:.6g} to {value[-1]:.6g}{ends}." if len(value) else ""
    said = whole or "No states."
    closes = f"The gap ends at {gap[-1]:.3g}; {goal:.3g} was wanted." if len(seen) else "There is no bound."
    numbers = {names[0]: value, names[1]: bound, "gap": gap}
    band, closing = [], []
    first = "passes", plot.PASSES, trace.passes
    if plot.is_by_atoms(trace.passes, trace.scored):
        first = "atoms scored", plot.SCORED, trace.scored.astype(np.float64)
    for cost, x, spent in (first, ("seconds", plot.SECONDS, trace.seconds)):
        draw = partial(plot.draw_band, cost=spent, value=value, bound=bound, x=x, names=named, y=y)
        band.append(Picture(f"The {word} band, by {cost}", said, draw))
        draw = partial(plot.draw_gap, cost=spent, gap=gap, x=x, goal=goal, y=f"{word} gap")
        grid = list_columns("States of the run", {cost: spent, **numbers})
        closing.append(Picture(f"The {word} gap, by {cost}", closes, draw, grid))
    return [*band, *closing]


def sums_to_one(over: str) -> bool:
    """Whether a set that a result tells is one of weights of sum 1."""
    return over.startswith("Hull") and "at_most" not in over


def picture_weights(result: Result) -> Picture:
    """Draw the atoms of largest weight, and the rest together: what a mixture is made of."""
    shown = result.top(_BARS)
    rest, left = max(1.0 - sum(atom.weight for atom in shown), 0.0), result.support - len(shown)
    names = [atom.name or f"#{atom.id}" for atom in shown] + ([f"{left:,} more"] if left else [])
    weights = [atom.weight for atom in shown] + ([rest] if left else [])
    said = f"{result.support:,} atoms have weight; the largest is {names[0]}, {weights[0]:.3g}."
    draw = partial(plot.draw_bars, names=names, values=np.array(weights), x="weight", faint=bool(left))
    return Picture("The mixture", said, draw, list_columns("Weights", {"atom": names, "weight": weights}))


def _check(result: Result) -> None:
    require(len(np.unique(result.ids)) == result.support, "ids", "distinct", "repeated ids")
    cone = result.over.startswith("Cone")
    require(cone or float(result.weights.sum()) <= 1.0 + WEIGHTS, "weights", "of sum 1", result.weights.sum())
    require(result.lower <= result.value, "lower", f"<= {result.value}", result.lower)
    require(result.mass >= 0.0, "mass", ">= 0", result.mass)


OVER = Json(str, lambda text: "Hull()" if text is None else str(text), optional=True)
"""How the set of a result is saved; old results have none."""

Result.codec = Codec(
    "result",
    Result,
    {
        "x": Array(shape=("d",), low=-FINITE, high=FINITE),
        "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
        "weights": Array(shape=("k",), low=0.0, high=FINITE),
        **dict.fromkeys(("value", "lower", "goal", "mass"), Scalar.NUMBER),
        **dict.fromkeys(("passes", "seconds"), Scalar.COST),
        **dict.fromkeys(("steps", "scored"), Scalar.COUNT),
        "status": Scalar.STATUS,
        "names": Scalar.TEXTS,
        **dict.fromkeys(("objective", "method"), Scalar.TEXT),
        "over": OVER,
        "trace": TRACE,
    },
    _check,
)
