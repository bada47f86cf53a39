"""What `herd` gives back: the atoms, their weights, how good they are, the cost; and how to go on."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Status, Vector
from wolfhound.core.text import finite_text, passes_text, seconds_text
from wolfhound.core.validate import kind, require
from wolfhound.data.atoms import Fingerprint, as_atoms, to_places
from wolfhound.data.codec import WEIGHTS, Array, Codec, Columns, HasCodec, Json, Scalar, check_weights
from wolfhound.data.encoding import TableAtoms, TableReport
from wolfhound.data.tables import pick_rows
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.mmd import Curve
from wolfhound.herding.session import Callback, HerdSettings, KernelSession, Session
from wolfhound.show import plot
from wolfhound.show.markup import (
    Atom,
    Bar,
    Details,
    Field,
    Grid,
    Picture,
    RunResult,
    Summary,
    draw_pictures,
    list_columns,
    list_records,
    pick,
)
from wolfhound.solve.result import LISTED, TRACE, Trace, make_frame, tell_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_DRAWN = 2000  # atoms that a picture shows
_SHOWN = 8
_LONG = 100.0  # an axis this long has a number per power of ten
_EVEN = 2.0  # weights within this factor look the same as bars
_MATTER, _LEVELS = 4, 8  # columns that are drawn, and levels of each
_COLUMNS, _CELL = 12, 40  # columns of chosen rows on a page, and letters of a cell
_MANY = 0.05  # share of rows that are left out from which a way to keep them is told
_MEANING = (
    "MMD is a distance between two tables as the kernel sees them, 0 where nothing tells them apart: here "
    "of the chosen rows, by their weights, from what they stand for. As many random rows are the measure."
)
KEEP = 'rows left out stand for nothing: missing="level" (--missing level) keeps them'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HerdResult(HasCodec, RunResult):
    """Few weighted atoms that stand for many, and how well they do.

    Attributes
    ----------
    ids : (k,) int64
        The atoms in the order of their picks, those of `start` first. k = m, less if a limit
        came first; in a feature space repeated picks are merged.
    weights : (k,)
        Their weights, >= 0 with sum 1.
    mmd : float
        Maximum mean discrepancy of the weighted atoms, in the true kernel, on the data of
        `reference`; nan if it was not evaluated.
    mmd_random, mmd_random_spread : float
        Mean and standard deviation of the MMD of random subsets of as many
        atoms, equally weighted, on the same data.
    reference : str
        What the MMD was measured on, and how many random subsets there were.
    seconds, evaluation_seconds : float
        Time to pick the atoms, and to measure how good they are.
    passes : float
        Passes over all atoms to pick them.
    scored : int
        Kernel values or features that were needed per atom: the machine-independent cost.
    status : Status
        Why the run ended.
    trace : Trace
        Every state on the way; `value` is half the squared MMD to the embedding.
    space : str
        The kernel or the feature space in words.
    curve : Curve
        MMD of the first atoms against their number, with random: `sizes, mmd, random`.
        Empty if it was not evaluated.
    labels : (k,), optional
        Labels of the atoms.
    mmd_by : (labels,), optional
        MMD within each label of ``np.unique(labels)``, against all atoms of the label (a
        calibrated sample of more than 10,000), in the order of these labels.
    fingerprint : Fingerprint
        Of all atoms.
    settings : HerdSettings, optional
        What decided the run; None in a feature space, and for a saved kernel that is
        in no table.
    table : TableReport, optional
        What became of the rows and columns, where a table was given.
    target_table : TableReport, optional
        The same of the target.
    session : Session, optional
        What `extend` goes on with.
    """

    ids: Ids
    weights: Vector
    mmd: float
    mmd_random: float
    mmd_random_spread: float
    reference: str
    seconds: float
    evaluation_seconds: float
    passes: float
    scored: int
    status: Status
    trace: Trace
    space: str
    curve: Curve
    labels: NDArray[Any] | None = None
    mmd_by: Vector | None = None
    fingerprint: Fingerprint = ()
    settings: HerdSettings | None = None
    table: TableReport | None = None
    target_table: TableReport | None = None
    session: Session | None = None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel, with its lengthscale; None where there are no settings."""
        return None if self.settings is None else self.settings.kernel

    @property
    def ess(self) -> float:
        """Effective sample size, ``1 / sum(weights ** 2)``."""
        return 1.0 / float(self.weights @ self.weights)

    @property
    def zeros(self) -> int:
        """Atoms of weight 0: fitted weights can do without them."""
        return int((self.weights == 0.0).sum())

    @property
    def gain(self) -> float:
        """``mmd_random / mmd``: how many times closer than random; nan if one is not known, or 0."""
        return self.mmd_random / self.mmd if min(self.mmd, self.mmd_random) > 0.0 else math.nan

    @property
    def message(self) -> str:
        """Why the run ended, how good the atoms are and what it cost."""
        return f"{self.status.value}: {_describe_quality(self)} after {_describe_cost(self)}"

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is to be known of tables that were given: (subject, sentence)."""
        goal = () if self.target_table is None else self.target_table.notes
        gone = tuple(("target", text) for subject, text in goal if subject == "missing")
        return (() if self.table is None else self.table.notes) + gone

    @property
    def frame(self) -> Any:
        """The chosen rows with `id` and `weight`, as the kind of table that was given; of files, pandas."""
        table = _find_table(self)
        if table is None:
            what = "a table that was given, in this process: atoms of arrays, and saved results, have none"
            raise ValueError(f"`frame` needs {what}. Take rows by `ids`.")
        return table.take_rows(self.ids, id=self.ids, weight=self.weights)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per pick: id, weight, and label if there are any."""
        labels = {} if self.labels is None else {"label": self.labels}
        return make_frame({"id": self.ids, "weight": self.weights, **labels})

    def extend(
        self,
        m: int,
        *,
        atoms: AtomsLike | None = None,
        target: AtomsLike | None = None,
        by: ArrayLike | str | Sequence[str] | None = None,
        row_weights: ArrayLike | None = None,
        max_seconds: float = math.inf,
        callback: Callback | None = None,
    ) -> HerdResult:
        """Return a result with m atoms that begins with these.

        The same as one run with m atoms and as many `candidates`, if neither
        swapped nor weighted. Swaps and weights are made anew.

        Parameters
        ----------
        m
            Atoms in all; at most the candidates of the first run.
        atoms, target, by, row_weights
            What `herd` was given, needed if this was loaded or pickled; checked to be the same.
        max_seconds, callback
            As in `herd`.

        Examples
        --------
        >>> from wolfhound import herd
        >>> rows = np.linspace(0.0, 1.0, 50)[:, None]
        >>> np.array_equal(herd(rows, 4).extend(8).ids, herd(rows, 8).ids)
        True
        """
        session, given = self.session, {"target": target, "by": by, "row_weights": row_weights}
        for name, value in given.items():
            require(value is None or atoms is not None, "atoms", f"given where `{name}` is", None)
        if atoms is not None or session is None:
            if self.settings is None:
                how = "call herd with its ids as `start`"
                raise ValueError(f"a loaded result in {self.space} cannot go on: {how}.")
            session = KernelSession.resume(self.settings, self.ids, self.fingerprint, atoms, **given)
        return HerdResult(**session.extend(m, max_seconds=max_seconds, callback=callback))

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        title: str | None = None,
        atoms: AtomsLike | None = None,
    ) -> Figure:
        """Draw the MMD against the number of atoms, and the chosen among the others.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        atoms
            What `herd` was given, for the second panel if the result was loaded.
        title
            Heading; by default the space and the gain over random.
        """
        if title is not None:
            kind(title, "title", "a string", str)
        heading = self.summary().caption if title is None else title
        return plot.keep(draw_pictures(_picture(self, atoms), heading), path)

    def summary(self) -> Summary:
        """Return quality, cost and the first atoms."""
        return Summary.of_run(
            "HerdResult",
            self.status,
            fields=self._list_fields(),
            tables=(_list_rows(self),),
            meaning=_MEANING,
            title="Rows that stand for all",
            message=self.message,
            caption=f"{self.space}: {_describe_quality(self)}",
            pictures=lambda: _picture(self),
            details=lambda: _tell_details(self),
        )

    def _list_fields(self) -> tuple[Field | tuple[str, str], ...]:
        k, n = len(self.ids), sum(part.n for part in self.fingerprint)
        first = ", ".join(f"{i}" for i in self.ids[:_SHOWN]) + (", ..." if k > _SHOWN else "")
        spread = f"{self.ess:,.6g}" + (f", {self.zeros:,} of weight 0" if self.zeros else "")
        random = f"{self.mmd_random:.3g} +- {self.mmd_random_spread:.1g}"
        dropped = self.table and self.table.dropped
        every = f"{n - dropped:,} complete rows of {n:,}" if dropped else f"{n:,}"
        size: dict[str, object] = {
            "m": k,
            "ess": self.ess,
            "table": self.table and self.table.to_json(),
            "target_table": self.target_table and self.target_table.to_json(),
        }
        quality = pick(self, "mmd", "mmd_random", "mmd_random_spread", "gain")
        return (
            Field("atoms", f"{k:,} of {every}, effective {spread}: {first}", size, ("rows", f"{k:,}")),
            Field("mmd", f"{_describe_quality(self)} ({random})", quality, ("MMD", f"{self.mmd:.3g}")),
            Field("gain", tile=("gain over random", finite_text(self.gain))),
            *_describe_labels(self),
            *self.notes,
            *([("hint", KEEP)] if dropped and dropped > _MANY * n else []),
            Field("on", self.reference, {"reference": self.reference}),
            Field(
                "cost",
                f"{_describe_cost(self)}; evaluation {self.evaluation_seconds:.3g} s",
                pick(self, "passes", "scored", "seconds", "evaluation_seconds"),
                ("time", seconds_text(self.seconds)),
            ),
            Field("in", self.space, {"kernel": self.space}),
        )


def _describe_labels(result: HerdResult) -> list[Field]:
    """How many rows there are of each label, and how near they are within it."""
    if result.labels is None:
        return []
    values, counts = np.unique(result.labels, return_counts=True)
    parts = [f"{value}: {count:,}" for value, count in zip(values[:_SHOWN], counts, strict=False)]
    more = f", ... ({len(values):,} labels)" if len(values) > _SHOWN else ""
    fields = [Field("labels", ", ".join(parts) + more)]
    if (within := result.mmd_by) is not None:
        spread = f"{within.min():.3g} .. {within.max():.3g} ({values[within.argmax()]})"
        fields.append(Field("by", f"{len(within):,} labels, MMD within them {spread}"))
    return fields


def _list_rows(result: HerdResult) -> Grid:
    """The rows in the order of their picks; their weights, unless all are the same."""
    weighed, labels = _weigh_rows(result), result.labels
    rows = [
        (Atom(i), *(() if labels is None else (str(labels[at]),)), *weighed[at])
        for at, i in enumerate(result.ids[:LISTED].tolist())
    ]
    equal = not any(weighed)
    headings = ("row", *(() if labels is None else ("label",)), *(() if equal else ("weight",)))
    columns = {"id": result.ids, "weight": result.weights}
    columns |= {} if labels is None else {"label": _write_labels(labels)}
    caption = "The rows, in the order of their picks" + (", of equal weight" if equal else "")
    return Grid(caption, headings, rows, (0, 1, 2), len(result.ids), "rows", partial(list_records, columns))


def _weigh_rows(result: HerdResult) -> list[tuple[str | Bar, ...]]:
    """A cell for the weight of each row listed: none where all are the same, a bar where they differ."""
    weights = result.weights[:LISTED].tolist()
    least, most = float(result.weights.min(initial=1.0)), float(result.weights.max(initial=0.0))
    if least == most:
        return [()] * len(weights)
    even = most <= _EVEN * least
    return [(f"{weight:.3g}" if even else Bar(weight, most, ".3g"),) for weight in weights]


def _tell_details(result: HerdResult) -> Details:
    """How it was found; and the chosen rows with their columns, where the table is at hand."""
    told, table = tell_trace(result.trace, result.fingerprint, result.seconds), _find_table(result)
    if table is None:
        return told
    ids, names = result.ids[:LISTED], table.source.names[:_COLUMNS]
    rows = pick_rows(table.source.batches(names), ids)
    cells = zip(*(map(_show_cell, rows[name].to_pylist()) for name in names), strict=True)
    weighed = _weigh_rows(result)
    listed = [(str(i), *each, *weight) for i, each, weight in zip(ids, cells, weighed, strict=True)]
    texts = (at for at, name in enumerate(names, 1) if isinstance(rows[name][0].as_py(), str))
    caption = "The chosen rows, with their columns"
    headings = ("row", *names, *(("weight",) if any(weighed) else ()))
    grid = Grid(caption, headings, listed, (0, *texts), size=len(result.ids))
    return told._replace(answers=(grid,))


def _show_cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}\u2026"


def _find_table(result: HerdResult) -> TableAtoms | None:
    """The table that was herded, while it is at hand."""
    return None if result.session is None else result.session.data.table


def _picture_columns(result: HerdResult, table: TableAtoms) -> list[Picture]:
    """All rows against the chosen in the columns that vary most, as they count; vectors have no picture."""
    every, chosen = _take_drawn(table.atoms, result.ids, table)
    firsts = np.cumsum([0, *(len(column.names) for column in table.columns)]).tolist()
    # A number counts by its variance, a text by that of its levels together.
    spread = np.var(every, axis=0, dtype=np.float64)
    drawn = []
    for column, first in zip(table.columns, firsts, strict=False):
        wide = len(column.names)
        here = slice(first, first + wide)
        many = not column.levels and wide - column.marked > 1
        if not many:
            drawn.append((float(spread[here].sum()), column, here))
    pictures = []
    for _, column, here in sorted(drawn, key=lambda each: -each[0])[:_MATTER]:
        all_rows, picked = every[:, here].astype(np.float64), chosen[:, here].astype(np.float64)
        title, said = f"{column.name}: all rows and the chosen", "Shares of all rows and of the chosen."
        if column.levels:
            shares = all_rows.mean(axis=0)
            order = np.argsort(-shares, kind="stable")[:_LEVELS]
            names = [column.levels[place] for place in order]
            pair = {"every": shares[order], "chosen": (result.weights @ picked)[order]}
            draw = partial(plot.draw_shares, names=names, **pair, y=column.name)
            grid = list_columns(
                "Shares", {column.name: names, "all": pair["every"], "chosen": pair["chosen"]}
            )
            pictures.append(Picture(title, said, draw, grid))
        else:
            draw = partial(plot.draw_histograms, every=all_rows[:, 0], chosen=picked[:, 0], x=column.name)
            pictures.append(Picture(title, said, partial(draw, weights=result.weights)))
    return pictures


def _write_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as JSON can hold them: dates and bytes are texts."""
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")
    return labels if labels.dtype.kind in "biufU" else labels.astype(np.str_)


def _picture(result: HerdResult, atoms: AtomsLike | None = None) -> list[Picture]:
    """The distance by the number of rows, and the rows themselves if they are still at hand."""
    curve, session, drawn = result.curve, result.session, []
    if len(curve.sizes):
        sizes = curve.sizes.astype(np.float64)
        drawn.append(
            Picture(
                "Distance from all rows, by their number",
                f"With {sizes[-1]:,.0f} rows the chosen ones are at {curve.mmd[-1]:.3g}, "
                f"random ones at {curve.random[-1]:.3g}.",
                partial(draw_curve, sizes=sizes, mmd=curve.mmd, random=curve.random, last=result.mmd),
                list_columns(
                    "MMD by number of rows", {"rows": sizes, "chosen": curve.mmd, "random": curve.random}
                ),
            )
        )
    table = atoms if isinstance(atoms, TableAtoms) else _find_table(result)
    given = as_atoms(atoms) if atoms is not None else session.data.atoms if session else None
    if given is not None:
        others, dots = project_rows(*_take_drawn(given, result.ids, table))
        drawn.append(
            Picture(
                "The chosen rows among the others",
                f"{len(dots):,} chosen rows spread over {len(others):,} of all rows.",
                partial(draw_rows, others=others, dots=dots, weights=result.weights, labels=result.labels),
            )
        )
    if table is not None:
        drawn += _picture_columns(result, table)
    return drawn


def _take_drawn(atoms: Atoms, ids: Ids, table: TableAtoms | None) -> tuple[Matrix, Matrix]:
    """Rows for a picture: some of all, and the chosen; with a table, ids are of its rows."""
    n, ids = atoms.shape[0], to_places(table, ids, "ids")
    require(bool(ids.max() < n), "atoms", "the atoms that were herded", f"{n} atoms")
    some = np.random.default_rng(0).choice(n, min(n, _DRAWN), replace=False)
    return atoms.take(some), atoms.take(ids)


def _describe_quality(result: HerdResult) -> str:
    if math.isnan(result.mmd):
        return "MMD not evaluated"
    if math.isnan(result.gain) or result.gain <= 0.0:
        against = f"random {result.mmd_random:.3g}"
    elif result.gain >= 1.0:
        against = f"{result.gain:.3g} times closer than random"
    else:
        against = f"{1.0 / result.gain:.3g} times farther than random"
    return f"MMD {result.mmd:.3g}, {against}"


def _describe_cost(result: HerdResult) -> str:
    return f"{result.seconds:.3g} s, {passes_text(result.passes)}, {result.scored:,} atoms scored"


# ---------------------------------------------------------------- saved


def _check(result: HerdResult) -> None:
    check_weights(result.weights)
    if result.mmd_by is not None:
        distinct = 0 if result.labels is None else len(np.unique(result.labels))
        require(len(result.mmd_by) == distinct, "mmd_by", f"one for each of {distinct} labels", result.mmd_by)
    if result.settings is not None:
        k, n = len(result.ids), sum(part.n for part in result.fingerprint)
        require(result.settings.held <= k, "held", f"<= {k}", result.settings.held)
        require(bool((result.settings.exclude < n).all()), "exclude", f"ids in [0, {n})", "others")


HerdResult.codec = Codec(
    "herd",
    HerdResult,
    {
        "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
        "weights": Array(shape=("k",), low=0.0, high=1.0 + WEIGHTS),
        "labels": Array(shape=("k",), dtype=None, optional=True),
        "mmd_by": Array(shape=("labels",), low=0.0, optional=True),
        **dict.fromkeys(("mmd", "mmd_random", "mmd_random_spread"), Scalar.NUMBER),
        **dict.fromkeys(("seconds", "evaluation_seconds", "passes"), Scalar.COST),
        "scored": Scalar.COUNT,
        "status": Scalar.STATUS,
        **dict.fromkeys(("reference", "space"), Scalar.TEXT),
        "trace": TRACE,
        "curve": Columns(
            Curve,
            {
                "sizes": Array(shape=("sizes",), dtype=np.int64, low=0),
                "mmd": Array(shape=("sizes",)),
                "random": Array(shape=("sizes",)),
            },
        ),
        "settings": Json(lambda settings: settings and settings.to_json(), HerdSettings.from_json),
        **dict.fromkeys(
            ("table", "target_table"),
            Json(lambda table: table and table.to_json(), TableReport.from_json, optional=True),
        ),
    },
    _check,
)


# ---------------------------------------------------------------- pictures

_CLASSES = len(plot.COLOURS) - 1  # so many labels have a colour of their own; the last is for all others
_AREA = 24.0


def draw_curve(axes: Axes, sizes: Vector, mmd: Vector, random: Vector, last: float = np.nan) -> None:
    """Draw the MMD of m rows beside that of random ones.

    The MMD of the whole result, `last`, is marked if it is not that of the curve: rows of the curve are not
    weighted.
    """
    plot.draw_curve(axes, sizes, plot.hide_nonpositive(random), 1, "random (mean)")
    plot.draw_curve(axes, sizes, plot.hide_nonpositive(mmd), 0, "chosen")
    if last > 0.0 and last != mmd[-1]:
        star: dict[str, Any] = {"marker": "*", "markersize": 11, "linestyle": ""}
        axes.plot(sizes[-1:], [last], color=plot.COLOURS[2], label="weighted", **star)
    axes.set_xscale("log")
    plot.use_log(axes.set_yscale, mmd, random)
    powers = 10.0 ** np.arange(math.ceil(math.log10(sizes[-1])) + 1)
    steps = (1.0, 2.0, 5.0) if sizes[-1] < _LONG * sizes[0] else (1.0,)
    ticks = [tick for power in powers for tick in power * np.array(steps) if sizes[0] <= tick <= sizes[-1]]
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.set_xticks([], minor=True)
    plot.finish_axes(axes, "rows m", "MMD", legend=True)


def draw_rows(
    axes: Axes, others: Vector, dots: Vector, weights: Vector, labels: NDArray[Any] | None = None
) -> None:
    """Draw chosen rows (m, 2) among others (r, 2), as `project_rows` gives them: weights are areas."""
    areas = _AREA * weights * len(weights)
    axes.scatter(others[:, 0], others[:, 1], s=5.0, color=plot.PALE, linewidths=0.0, label="rows (a sample)")
    for i, (label, which) in enumerate(group_labels(labels, len(dots)).items()):
        look: dict[str, Any] = {"color": plot.COLOURS[i], "marker": plot.MARKERS[i]}
        edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.4, "alpha": 0.9}
        axes.scatter(
            dots[which, 0], dots[which, 1], s=areas[which], label=plot.verbatim(label), **look, **edge
        )
    plot.finish_axes(axes, "first principal axis", "second principal axis", legend=True)
    plot.limit_axes(axes, np.concatenate([others, dots]), "rows")


def project_rows(sample: Matrix, chosen: Matrix) -> tuple[Vector, Vector]:
    """(r, 2) and (m, 2) rows along the two directions in which the sample varies most.

    A few far rows do not choose the directions: for these, columns are cut at their
    0.5 and 99.5 per cent.
    """
    ends = np.quantile(sample, [0.005, 0.995], axis=0)
    near = np.clip(sample.astype(np.float64), *ends)
    centre = near.mean(axis=0)
    directions = np.linalg.svd(near - centre, full_matrices=False)[2][:2]
    # One column or row has one direction: the other axis is then 0.
    plane = np.zeros((2, sample.shape[1]))
    plane[: len(directions)] = directions
    return (sample - centre) @ plane.T, (chosen - centre) @ plane.T


def group_labels(labels: NDArray[Any] | None, m: int) -> dict[str, NDArray[np.bool_]]:
    """Which of m rows have which label; beyond the most frequent few, all others together."""
    if labels is None:
        return {"chosen": np.ones(m, bool)}
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    own = order if len(values) <= _CLASSES + 1 else order[:_CLASSES]
    groups = {str(values[i]): labels == values[i] for i in np.sort(own)}
    rest = ~np.any(list(groups.values()), axis=0)
    return groups | ({f"{len(values) - len(own)} other labels": rest} if rest.any() else {})
