"""What `minimize_many` gives back: sparse weights, and a proof per target."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Ints, Status, Vector
from wolfhound.core.text import seconds_text
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import Fingerprint, as_atoms, find_rows, take_by_rows
from wolfhound.data.codec import FINITE, WEIGHTS, Array, Codec, Json, Scalar
from wolfhound.show import plot
from wolfhound.show.markup import (
    PLAIN,
    Atom,
    Bar,
    Details,
    Field,
    Grid,
    HasSummary,
    Picture,
    Summary,
    list_columns,
)
from wolfhound.solve.result import OVER, WeightedAtom, describe_atoms, make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATUSES = (
    Status.GAP_REACHED,
    Status.ROUNDING,
    Status.STALLED,
    Status.MAX_SECONDS,
    Status.INTERRUPTED,
    Status.STOPPED,
    Status.SKIPPED,
    Status.FINISHED,
    Status.MAX_PASSES,
    Status.LOST,
    Status.NOT_FOUND,
    Status.STATIONARY,
)
"""What a code stands for. Saved files rely on the order: add at the end only."""

RUN = "many run"

CODES = {status: code for code, status in enumerate(STATUSES)}

_MEANING = (
    "f of a target is what is minimised: for vectors half the squared distance from the mixture, the misfit. "
    "The least f there is lies above a proved lower bound: f of the mixture is too large by at most the gap."
)
_LISTED = 40  # targets that a table may show
_TOP = 4  # atoms of each
_MAPS = 4  # atoms of which a map is drawn
_LITTLE = 0.01  # mean weight of an atom that no map is drawn of

_BINS = (1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ManyResult(HasSummary):
    """The best points for many targets and what is proved about each.

    Target i is the mixture of the atoms ``ids[indptr[i]:indptr[i + 1]]`` by the weights
    there, the largest first.

    Attributes
    ----------
    indptr : (m + 1,) int64
        Where the atoms of each target begin.
    ids, weights : (k,)
        Atoms and weights of all targets, one target after the other.
    value : (m,)
        Proved upper bound on f at each point; inf where there is none.
    lower : (m,)
        Proved lower bound on the minimum over the hull, or whatever `over` says.
    goal : (m,)
        The gap that was wanted.
    codes : (m,) int8
        Why each ended; `status` says it in full.
    passes : (m,) int64
        How often all atoms were priced for it, or an oracle was asked, second opinions included.
    seconds : float
        Time that all took.
    shape : tuple of int
        Of the targets: (m,), or (rows, columns) of a cube.
    price : (m,), optional
        With `max_atoms`: by how much f grew because no more atoms were allowed. Such a target ends
        with `Status.FINISHED`, unless it is proved without the limit.
    over : str
        What weights may be.
    mass : (m,), optional
        Over a cone: inf, or where it holds a line the sum of weights that the proof is one for.
    fingerprint : Fingerprint
        Of the atoms; `load` compares it.
    atoms : optional
        Read by `x`; not saved.
    names : n strings, optional
        Of all atoms; not saved.

    Examples
    --------
    >>> from wolfhound import minimize_many
    >>> result = minimize_many([[1.0, 0.2, 0.0], [0.0, 0.0, 3.0]], np.eye(3))
    >>> result.x(0).round(6), result.ids[result.indptr[1]:]
    (array([0.9, 0.1, 0. ]), array([2]))
    """

    indptr: Ints
    ids: Ids
    weights: Vector
    value: Vector
    lower: Vector
    goal: Vector
    codes: NDArray[np.int8]
    passes: Ints
    seconds: float
    shape: tuple[int, ...]
    price: Vector | None = None
    over: str = "Hull()"
    mass: Vector | None = None
    fingerprint: Fingerprint = ()
    atoms: Atoms | None = None
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        """How many targets."""
        return len(self.value)

    @property
    def gap(self) -> Vector:
        """``value - lower``: how far each point can be from the optimum."""
        return self.value - self.lower

    @property
    def status(self) -> NDArray[np.object_]:
        """(m,) `Status` of each target."""
        return np.array(STATUSES, object)[self.codes]

    @property
    def success(self) -> bool:
        """Whether every target was done as asked: one that `skip` was to pass over is, too."""
        found = {STATUSES[code] for code in np.unique(self.codes)}
        return all(status.success or status is Status.SKIPPED for status in found)

    @property
    def support(self) -> Ints:
        """(m,) how many atoms have weight."""
        return np.diff(self.indptr)

    @property
    def distance(self) -> Vector:
        """(m,) upper bound on the distance of each target from its point: a map of errors."""
        return np.sqrt(np.maximum(2.0 * self.value, 0.0))

    def _find_target(self, i: int | tuple[int, ...]) -> int:
        """Return the number of a target that is given by it, or of a cube by row and column."""
        if isinstance(i, tuple):
            pairs = zip(i, self.shape, strict=False)
            inside = len(i) == len(self.shape) and all(0 <= at < size for at, size in pairs)
            require(inside, "i", f"a place in {' x '.join(map(str, self.shape))} targets", i)
            return int(np.ravel_multi_index(i, self.shape))
        require(-len(self) <= i < len(self), "i", f"in [0, {len(self)})", i)
        return range(len(self))[i]

    def top(self, i: int | tuple[int, ...], k: int = 10) -> list[WeightedAtom]:
        """Return the k atoms of largest weight of a target: its number, or (row, column) in a cube."""
        i = self._find_target(i)
        here = slice(self.indptr[i], self.indptr[i] + min(count(k, "k"), self.support[i]))
        ids = self.ids[here].tolist()
        names = [None if self.names is None else self.names[id] for id in ids]
        return list(map(WeightedAtom._make, zip(ids, names, self.weights[here].tolist(), strict=True)))

    def x(self, i: int | tuple[int, ...]) -> Vector:
        """(d,) the point of a target: its number, or (row, column) in a cube; nan if it has none."""
        i, rows = self._find_target(i), self._rows()
        if not math.isfinite(self.value[i]):
            return np.full(rows.shape[1], np.nan)
        here = slice(self.indptr[i], self.indptr[i + 1])
        return np.asarray(self.weights[here] @ rows.take(self.ids[here]).astype(np.float64))

    def to_dense(self, n: int | None = None) -> Vector:
        """Return the weights of all atoms, zeros too, as (shape, n): fractions of a cube.

        Parameters
        ----------
        n
            How many atoms there are; not needed right after a run.
        """
        size = self._rows().shape[0] if n is None else count(n, "n", low=1)
        require(self.ids.max(initial=-1) < size, "n", f"> {self.ids.max(initial=-1)}", n)
        out = np.zeros((len(self), size))
        out[np.repeat(np.arange(len(self)), self.support), self.ids] = self.weights
        return out.reshape(*self.shape, size)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return what is known of every target, a row each."""
        return {
            "value": self.value,
            "lower": self.lower,
            "gap": self.gap,
            "goal": self.goal,
            "distance": self.distance,
            **({} if self.price is None else {"price": self.price}),
            **({} if self.mass is None else {"mass": self.mass}),
            "support": self.support,
            "passes": self.passes,
            "status": np.array([status.name for status in STATUSES])[self.codes],
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per target: of a cube its place, then `to_columns`."""
        return make_frame({**(self.to_places() if len(self.shape) > 1 else {}), **self.to_columns()})

    def to_places(self) -> dict[str, NDArray[Any]]:
        """Return where every target is: row and column of a cube, else its number as `pixel`."""
        if len(self.shape) == 1:
            return {"pixel": np.arange(len(self))}
        axes = ("row", "column", *(f"axis{a}" for a in range(2, len(self.shape))))
        return dict(zip(axes, np.unravel_index(np.arange(len(self)), self.shape), strict=False))

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `load` reads; it must be new, or hold such a result."""
        CODEC.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> ManyResult:
        """Read what `save` wrote; `wolfhound.load` also opens what a run has written so far.

        What was proved in the run is read, not proved again.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            Atoms, an array, a table or a path. If given, must be the atoms of the run, else
            StoreError is raised; `x` needs them.
        """
        if atoms is None:
            return CODEC.load(path)
        table = find_rows(atoms)
        known = as_atoms(atoms) if table is None else table
        rows = known if table is None else take_by_rows(table)
        return replace(CODEC.load(path, known), atoms=rows)

    def _rows(self) -> Atoms:
        if self.atoms is None:
            raise ValueError("`atoms` must be given to `load` for this: a saved result holds none.")
        return self.atoms

    def tally(self) -> list[tuple[Status, int]]:
        """How many targets ended how, the most frequent first."""
        return Counter(STATUSES[code] for code in self.codes.tolist()).most_common()

    def verdict(self) -> str:
        """Return one sentence: what was done, and what is proved of it.

        With `max_atoms`, `lower` is still a bound without that limit: a set of so many atoms is
        proved best of its size where the gap to it is at most the goal.
        """
        m = len(self)
        proved = int((self.gap <= self.goal).sum())
        rounding = int((self.codes == CODES[Status.ROUNDING]).sum())
        if self.price is None:
            beside = f", {rounding:,} as far as rounding allows" if rounding else ""
            return f"{proved:,} of {m:,} targets are proved to the wanted gap{beside}"
        solved = np.isin(self.codes, [CODES[status] for status in STATUSES if status.success])
        size = int(self.support.max(initial=0))
        shown = {0: "none is", 1: "1 is"}.get(proved, f"{proved:,} are")
        far = float(self.gap[solved].max(initial=0.0))
        return (
            f"{int(solved.sum()):,} of {m:,} targets are solved with at most {size:,} atoms; "
            f"{shown} proved best of that size; at most {far:.3g} above the best without the limit"
        )

    def summary(self) -> Summary:
        """Return how many were proved, how far, and at what cost."""
        m, ended = len(self), ", ".join(f"{number:,} {status.name}" for status, number in self.tally())
        return Summary(
            f"ManyResult({' x '.join(map(str, self.shape))} targets: {ended})",
            self._fields(),
            (self._list_used(), self._list_targets()),
            meaning=_MEANING,
            title="Mixtures for many targets",
            status=self._name_outcome(),
            success=self.success,
            message=self.verdict(),
            caption=f"all {m:,} targets",
            pictures=self._picture,
            details=self._tell_details,
        )

    def _fields(self) -> tuple[Field, ...]:
        """What was proved, how far, with how many atoms, at what cost."""
        m, solved = len(self), np.isfinite(self.value)
        each = seconds_text(self.seconds / max(m, 1))
        passes = f"{self.passes.mean():.3g}" if m else "0"
        mean, most = self.support.mean() if m else 0, self.support.max(initial=0)
        far = float(self.gap[solved].max(initial=0.0))
        counts = "  ".join(f"{name}: {number:,}" for name, number in self._histogram().items() if number)
        told = {
            "targets": m,
            "shape": list(self.shape),
            "status": {status.name: number for status, number in self.tally()},
            "proved": int((self.gap <= self.goal).sum()),
            "mean_distance": float(self.distance[solved].mean()) if solved.any() else math.nan,
        }
        return (
            *(() if self.over == "Hull()" else (self._tell_set(),)),
            Field("proved", self.verdict(), told, ("targets", f"{m:,}")),
            Field("gap/goal", counts, {"largest_gap": far}, ("largest proved gap", f"{far:.3g}")),
            Field(
                "support",
                f"{mean:.3g} atoms on average, {most:,} at most",
                {"mean_support": float(mean) if m else math.nan},
                ("atoms each", f"{mean:.3g}"),
            ),
            Field(
                "cost",
                f"{self.seconds:.3g} s, {each} and {passes} passes per target",
                {"seconds": self.seconds},
                ("time", seconds_text(self.seconds)),
            ),
        )

    def _tell_set(self) -> Field:
        """What weights may be, and of how many targets the proof holds up to a sum."""
        lines = 0 if self.mass is None else int(np.isfinite(self.mass).sum())
        far = f"; it holds a line: {lines:,} proved for weights of sum <= mass" if lines else ""
        return Field("over", f"{self.over}{far}", {"over": self.over})

    def _name_outcome(self) -> str:
        """Some words: what was done as asked need not be proved, where few atoms were asked for."""
        if not self.success:
            return "NOT ALL PROVED"
        found = {status for status, _ in self.tally()}
        return "DONE AS ASKED" if found & {Status.FINISHED, Status.SKIPPED} else "ALL PROVED"

    def _find_used(self) -> tuple[Ids, Vector, Ints]:
        """(k,) atoms that any target uses, their mean weight, and in how many; the largest first."""
        ids, place, targets = np.unique(self.ids, return_inverse=True, return_counts=True)
        means = np.bincount(place, self.weights, minlength=len(ids)) / max(int(self._solved.sum()), 1)
        order = np.argsort(-means, kind="stable")
        return ids[order], means[order], targets[order]

    @property
    def _solved(self) -> NDArray[np.bool_]:
        return np.isfinite(self.value)

    def _name(self, id: int) -> str | None:
        return None if self.names is None else self.names[id]

    def _list_used(self) -> Grid:
        """The atoms that have most of the weight of all targets."""
        found = self._find_used()
        ids, means, targets = (each[:_LISTED].tolist() for each in found)
        rows = [
            (Atom(id, self._name(id)), Bar(mean, means[0]), f"{many:,}")
            for id, mean, many in zip(ids, means, targets, strict=True)
        ]
        headings = ("atom", "mean weight", "targets with it")
        return Grid("The atoms that are used most", headings, rows, (0, 1), len(found[0]))

    def _list_targets(self) -> Grid:
        """The first targets, with the atoms of largest weight."""
        rows = []
        for i in range(min(len(self), _LISTED)):
            mixture = tuple((Atom(id, name), weight) for id, name, weight in self.top(i, _TOP))
            place = ", ".join(str(part) for part in np.unravel_index(i, self.shape))
            numbers = f"{self.distance[i]:.6g}", f"{self.gap[i]:.2g}", f"{self.support[i]}"
            rows.append((place, *numbers, STATUSES[self.codes[i]].name, mixture))
        headings = ("target", "distance", "gap", "atoms", "status", "largest weights")
        return Grid("The first targets", headings, rows, (0, 4, 5), len(self))

    def _tell_details(self) -> Details:
        rows = [(status.name, status.value, f"{number:,}") for status, number in self.tally()]
        grid = Grid("How the targets ended", ("status", "meaning", "targets"), rows, (0, 1))
        return Details((Field("atoms", describe_atoms(self.fingerprint)),), (grid,))

    def _map_weights(self) -> list[Picture]:
        """Maps of a cube: of the atoms used most, and of sums of weights where these are not all 1."""
        if len(self.shape) != 2:
            return []
        which, blank = np.repeat(np.arange(len(self)), self.support), np.where(self._solved, 0.0, np.nan)
        top = 1.0 if self.over.startswith("Hull") else float(self.weights.max(initial=0.0)) or 1.0
        pictures: list[Picture] = []
        for id, mean, targets in zip(*(each[:_MAPS].tolist() for each in self._find_used()), strict=True):
            if pictures and mean < _LITTLE:
                break  # the map would be empty
            weights, here = blank.copy(), self.ids == id
            weights[which[here]] = self.weights[here]
            name = PLAIN.name(Atom(id, self._name(id)))
            said = f"{name} has a mean weight of {mean:.3g}, and weight in {targets:,} of {len(self):,}."
            draw = partial(draw_map, values=weights, shape=self.shape, label="weight", limits=(0.0, top))
            pictures.append(Picture(f"Where {name} is", said, draw))
        sums = np.bincount(which, self.weights, minlength=len(self)).astype(np.float64) + blank
        least = float(np.nanmin(sums)) if self._solved.any() else 1.0
        if least < 1.0 - WEIGHTS and self.over.startswith("Hull"):
            said = f"Weights sum to {least:.3g} at least; what is left to 1 is shadow."
            draw = partial(draw_map, values=sums, shape=self.shape, label="sum", limits=(0.0, 1.0))
            pictures.append(Picture("Sum of all weights: the rest is shadow", said, draw))
        return pictures

    def _picture(self) -> list[Picture]:
        solved = self._solved
        distance = np.where(solved, self.distance, np.nan)
        said = "No target was solved."
        if solved.any():
            low, middle, high = np.quantile(distance[solved], [0.0, 0.5, 1.0])
            said = (
                f"Distances of {int(solved.sum()):,} solved targets from their mixtures: "
                f"least {low:.4g}, median {middle:.4g}, largest {high:.4g}."
            )
        counts = self._histogram()
        names, numbers = list(counts), list(counts.values())
        grid = list_columns("Targets by proved gap over wanted gap", {"share": names, "targets": numbers})
        errors = Picture(
            "How far the targets are from their mixtures",
            said,
            partial(draw_errors, distance=distance, shape=self.shape),
        )
        gaps = Picture(
            "Proved gaps, relative to what was wanted",
            f"{sum(numbers[:-1]):,} targets are within the wanted gap, {numbers[-1]:,} beyond it.",
            partial(draw_gaps, names=names, counts=numbers),
            grid,
        )
        maps = self._map_weights()
        every_proved = numbers[-1] == 0  # what the answer says already
        return [errors, *maps] if maps and every_proved else [errors, *maps, gaps]

    def _histogram(self) -> dict[str, int]:
        """How many targets have which share of the wanted gap."""
        solved = np.isfinite(self.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.gap > 0.0, self.gap / self.goal, 0.0)[solved]
        edges = (-np.inf, *_BINS, np.inf)
        names = (f"<= {_BINS[0]:g}", *(f"<= {edge:g}" for edge in _BINS[1:]), f"> {_BINS[-1]:g}")
        shares = [int(((ratio > low) & (ratio <= high)).sum()) for low, high in itertools.pairwise(edges)]
        return dict(zip(names, shares, strict=True))


def check_columns(result: Any, over: str) -> None:
    """Raise ValueError for columns that no run over such a set can have given."""
    m, k = len(result.value), len(result.ids)
    require(len(result.indptr) == m + 1, "indptr", f"of length {m + 1}", len(result.indptr))
    rising = bool((np.diff(result.indptr) >= 0).all())
    require(
        rising and result.indptr[0] == 0 and result.indptr[-1] == k, "indptr", f"rising from 0 to {k}", "not"
    )
    require(bool((result.lower <= result.value).all()), "lower", "<= value", "more")
    sums = np.bincount(np.repeat(np.arange(m), np.diff(result.indptr)), result.weights, minlength=m)
    inside = over.startswith("Cone") or bool((sums <= 1.0 + WEIGHTS).all())
    require(inside, "weights", "of sum at most 1", sums.max(initial=0.0))


def _check(result: ManyResult) -> None:
    check_columns(result, result.over)
    m = len(result.value)
    require(math.prod(result.shape) == m, "shape", f"of {m} targets", result.shape)


def _read_shape(value: Any) -> tuple[int, ...]:
    return tuple(count(size, "shape") for size in value)


COLUMNS = {
    "indptr": Array(shape=("m1",), dtype=np.int64, low=0),
    "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
    "weights": Array(shape=("k",), low=0.0, high=FINITE),
    "value": Array(shape=("m",)),
    "lower": Array(shape=("m",)),
    "goal": Array(shape=("m",), low=0.0),
    "codes": Array(shape=("m",), dtype=np.int8, low=0, high=len(STATUSES) - 1),
    "passes": Array(shape=("m",), dtype=np.int64, low=0),
    "price": Array(shape=("m",), optional=True, low=0.0),
    "mass": Array(shape=("m",), optional=True, low=0.0),
}
"""Columns of results, and of the files that a run writes."""

CODEC = Codec(
    "many results",
    ManyResult,
    {**COLUMNS, "seconds": Scalar.COST, "shape": Json(list, _read_shape), "over": OVER},
    _check,
)
"""How results for many targets are saved."""


# ---------------------------------------------------------------- pictures


def draw_errors(axes: Axes, distance: Vector, shape: tuple[int, ...]) -> None:
    """Draw how far targets are from their mixtures: a map of a cube, else how many are how far.

    `shape` is that of the targets; a distance of nan: not solved.
    """
    solved = distance[np.isfinite(distance)]
    left_out = len(distance) - len(solved)
    said = [f"{left_out:,} of {len(distance):,} not solved"] if left_out else []
    if len(shape) == 2:
        # A few pixels that nothing explains must not hide the differences of all others.
        low, high = plot.robust_limits(solved) if len(solved) else (0.0, 1.0)
        above = int((solved > high).sum())
        said += [f"{above:,} beyond the colours"] if above else []
        draw_map(axes, distance, shape, "distance from the mixture", limits=(max(low, 0.0), high))
    else:
        axes.hist(solved, bins=min(60, max(5, round(3.0 * len(solved) ** (1 / 3)))), color=plot.COLOURS[0])
        axes.locator_params(axis="x", nbins=5)
        plot.finish_axes(axes, "distance from the mixture", "targets")
    axes.set_title(", ".join(said), fontsize=8, color=plot.GREY, loc="right")


def draw_map(
    axes: Axes, values: Vector, shape: tuple[int, ...], label: str, *, limits: tuple[float, float]
) -> None:
    """Draw a value per target of a cube; those beyond the limits have the colours of these."""
    low, high = limits
    drawn = axes.imshow(values.reshape(shape), cmap="viridis", interpolation="nearest", vmin=low, vmax=high)
    axes.set_aspect("equal" if min(shape) > 1 else "auto")  # of a line, nothing would be seen
    ends = "max" if bool((values > high + WEIGHTS).any()) else "neither"
    axes.figure.colorbar(drawn, cax=axes.inset_axes((1.03, 0.0, 0.05, 1.0)), label=label, extend=ends)
    axes.set(xlabel="column", ylabel="row")


def draw_gaps(axes: Axes, names: list[str], counts: list[int]) -> None:
    """Draw how many targets have which share of the wanted gap; the last are beyond it."""
    axes.bar(names, counts, color=[plot.COLOURS[2]] * (len(names) - 1) + [plot.COLOURS[1]])
    axes.tick_params(axis="x", labelsize=8)
    plot.finish_axes(axes, "proved gap / wanted gap", "targets")
