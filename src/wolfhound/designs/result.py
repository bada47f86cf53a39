"""`Design`, weights over candidates, and `ExactDesign`, whole runs: what is proved, said and drawn."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import AtomsLike, Ids, Ints, Matrix, Status, Vector
from wolfhound.core.text import seconds_text
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import LARGEST, count, require, rng
from wolfhound.data.atoms import Fingerprint
from wolfhound.data.codec import WEIGHTS, Array, Codec, HasCodec, Json, Scalar, check_weights
from wolfhound.data.encoding import TableReport
from wolfhound.data.tables import find_free
from wolfhound.designs.criteria import describe_aliases, find_null_space, scale_root, scale_to_one
from wolfhound.designs.exact import Harvest, Pool, choose_runs, refine
from wolfhound.designs.factors import MODELS, MOST_ROWS, Column, ModelSpec, read_factors, show_settings
from wolfhound.designs.proof import compare, enclose
from wolfhound.show import plot
from wolfhound.show.markup import (
    Bar,
    Cell,
    Details,
    Field,
    Grid,
    HasSummary,
    Picture,
    RunResult,
    Summary,
    list_records,
    pick,
)
from wolfhound.solve.result import LISTED, describe_atoms, make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 5  # candidates, and terms, that a summary names
_SHOWN = 500  # runs that a table may show
_CURVES, _POINTS = 6, 101  # factors whose variance is drawn, and points of each curve
_FACTORS = 10  # of a picture: two in each panel
_LONGEST = 16  # letters of a level that axes have room for
_STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Design(HasCodec, RunResult):
    """The best weights of the candidates, with a proved efficiency.

    Attributes
    ----------
    ids, weights : (k,)
        Candidates with weight, the largest first.
    efficiency : float
        Proved lower bound, rounding included: D: (det M / det M*)^(1/d); A, I: trace* / trace.
    information : (d, d)
        M, given runs included.
    settings : (k, c)
        Factors of the candidates with weight; a category is the place of its level.
    passes : float
        How often all candidates were scored, or read to be measured; shares included.
    status : Status
    scored : int
    seconds : float
    criterion : str
        "D", "A" or "I".
    model : ModelSpec
    share : float
        Of the given runs in all.
    given, root, pool_ids, pool_rows, pool_settings
        What `round` works on: terms of the given runs, C, and candidates worth a run.
    root_error : float
        By which share of their norms the rows of C may be wrong: part of what is proved.
    fingerprint : Fingerprint
        Of the candidates.
    table : TableReport, optional
        What became of the rows and columns, where a table was given.
    given_table : TableReport, optional
        The same of the given runs.
    terms_of : function, optional
        Rows of factors to rows of terms, where the model is the caller's; not saved.
    harvest : function, optional
        Gives the candidates with the largest x'Bx, by a pass; not saved.

    Examples
    --------
    >>> from wolfhound import Factors, Quadratic, design
    >>> plan = design(Factors({"x": np.linspace(-1.0, 1.0, 21)}), model=Quadratic())
    >>> np.sort(plan.settings[:, 0]), plan.weights.round(4)
    (array([-1.,  0.,  1.]), array([0.3333, 0.3333, 0.3333]))
    """

    ids: Ids
    weights: Vector
    efficiency: float
    information: Vector
    settings: Vector
    passes: float
    status: Status
    scored: int
    seconds: float
    criterion: str
    model: ModelSpec
    share: float
    given: Vector
    root: Vector | None
    pool_ids: Ids
    pool_rows: Vector
    pool_settings: Vector
    root_error: float = 0.0
    fingerprint: Fingerprint = ()
    table: TableReport | None = None
    given_table: TableReport | None = None
    terms_of: Callable[[Matrix], Matrix] | None = None
    harvest: Harvest | None = None

    @property
    def message(self) -> str:
        """Why it ended."""
        return self.status.value

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the model."""
        return self.model.terms

    @property
    def columns(self) -> tuple[Column, ...]:
        """The factors."""
        return self.model.columns

    @property
    def support(self) -> int:
        """How many candidates have weight."""
        return len(self.ids)

    def variance(self, atoms: AtomsLike) -> Vector:
        """(r,) variance of a prediction at rows of factors, for one run of variance 1: x'M^-1 x.

        Divide by the number of runs, and multiply by the variance of one.

        Parameters
        ----------
        atoms
            Rows of factors, in any form that candidates may have; texts for categories in tables.
        """
        rows, _ = read_factors(atoms, "atoms", self.columns)
        return self._variance(np.asarray(rows.take(np.arange(rows.shape[0])), np.float64))

    def _variance(self, rows: Vector) -> Vector:
        make = self.terms_of or self.model.make_map()
        if make is None:
            raise ValueError("`terms_of` must be there: a saved design does not hold a function of yours.")
        terms = np.asarray(make(rows), np.float64)
        with np.errstate(all="ignore"):  # what was loaded may hold any numbers
            factor = np.linalg.cholesky(self.information)
            return np.asarray((np.linalg.solve(factor, terms.T) ** 2).sum(axis=0))

    def round(self, runs: int, *, max_passes: int = 12) -> ExactDesign:
        """Return whole numbers of runs: efficient apportionment, random starts, and exchange.

        Parameters
        ----------
        runs
            How many; given runs do not count.
        max_passes
            How often all candidates may be read to look for better exchanges. A design that was
            loaded knows only those that it kept.

        Returns
        -------
        ExactDesign
            Its efficiency is proved, against designs of any weights.
        """
        runs = count(runs, "runs", low=1)
        self._check_runs(runs)
        weights = np.zeros(len(self.pool_ids))
        weights[: self.support] = self.weights
        with one_blas_thread(), np.errstate(all="ignore"):  # what was loaded may hold any numbers
            scale = scale_to_one(np.abs(np.concatenate([self.pool_rows, self.given])).max(axis=0))
            root, given = scale_root(self.root, scale), self.given * scale
            g, share = len(given), self.share
            pool = Pool(self.pool_ids, self.pool_rows * scale, self.pool_settings)
            shares = np.concatenate([(1.0 - share) * self.weights, np.full(g, share / max(g, 1))])
            best = enclose(np.concatenate([pool.rows[: self.support], given]), shares, root, self.root_error)
            counts = choose_runs(pool.rows, weights, runs, root=root, given=given)
            if self.harvest is not None:
                passes, fixed = count(max_passes, "max_passes"), given.T @ given
                pool, counts = refine(
                    pool, counts, self.harvest, scale, root=root, fixed=fixed, passes=passes
                )
            pool, counts = pool.only(counts > 0), counts[counts > 0]
            shares = np.concatenate([counts, np.ones(g)]) / (runs + g)
            mine = enclose(np.concatenate([pool.rows, given]), shares, root, self.root_error)
        found = 0.0 if mine is None or best is None else compare(mine, best, root) * self.efficiency
        order = np.lexsort((pool.ids, -counts))
        return ExactDesign(
            ids=pool.ids[order],
            counts=counts[order],
            settings=pool.settings[order],
            columns=self.columns,
            efficiency=min(found * (1.0 - 1e-14), 1.0),
            criterion=self.criterion,
            terms=len(self.terms),
        )

    def _check_runs(self, runs: int) -> None:
        """Refuse other runs than were planned, and too few: say what these could not tell apart."""
        d, g = len(self.terms), len(self.given)
        have = d - find_null_space(self.given).shape[1]
        if runs + have < d:
            few = find_null_space(np.concatenate([self.pool_rows[: min(runs, self.support)], self.given]))
            left = f"{runs}, which leaves {describe_aliases(few, self.terms)}"
            require(False, "runs", f"at least {d - have} for {d} terms", left)
        planned = round(g / self.share) - g if g else runs
        require(runs == planned, "runs", f"{planned}, as `design` was told with `given`", runs)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return a row per candidate with weight: its id, weight and factors, which keep their names."""
        id, weight = _name_added(self.columns, "id", "weight")
        return {id: self.ids, weight: self.weights, **show_settings(self.columns, self.settings)}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per candidate with weight."""
        return make_frame(self.to_columns())

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Self:
        """Read what `save` wrote; what was proved is read, not proved again.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            If given, must be the rows of factors that the candidates were.
        """
        rows = None if atoms is None else read_factors(atoms, "atoms")[0]
        found: Self = cls.codec.load(path, rows)
        return found

    def summary(self) -> Summary:
        """Return what is proved, the cost, and the largest weights."""
        support, size, efficiency = self.support, len(self.terms), show_efficiency(self.efficiency)
        top = [
            f"{weight:.3f} at ({', '.join(self._show(row))})"
            for weight, row in zip(self.weights[:_NAMED], self.settings[:_NAMED], strict=False)
        ]
        known, more = f"{'; '.join(top)}{', ...' * (support > _NAMED)}", ", ..." * (size > _NAMED)
        reports = {name: getattr(self, name) for name in ("table", "given_table")}
        tables = {name: report and report.to_json() for name, report in reports.items()}
        cost = f"{self.passes:.3g} passes, {self.scored:,} forms, {self.seconds:.3g} s"
        proved, held = ("proved efficiency", efficiency), ("candidates with weight", f"{support:,}")
        told, spent = pick(self, "criterion", "efficiency"), pick(self, "passes", "scored", "seconds")
        # Categories are factors here, not one-hot.
        notes = [note for note in (self.table.notes if self.table else ()) if note[0] != "one-hot"]
        past = self.given_table.notes if self.given_table else ()
        notes += [("given", text) for subject, text in past if subject == "missing"]
        fields = (
            Field(f"{self.criterion}-efficiency", f">= {efficiency}, proved", told, proved),
            Field("support", f"{support:,} candidates: {known}", {"support": support}, held),
            Field(
                "terms",
                f"{size:,}: {', '.join(self.terms[:_NAMED])}{more}",
                {"terms": list(self.terms), **tables},
                ("terms", f"{size:,}"),
            ),
            *notes,
            Field("cost", cost, spent, ("time", seconds_text(self.seconds))),
        )
        return Summary.of_run(
            "Design",
            self.status,
            fields=fields,
            tables=(self._list_support(),),
            notes=("The efficiency is proved relative to the best of all designs, of any weights.",),
            title="A plan of experiments",
            caption=f"{self.criterion}-optimal: efficiency at least {efficiency}",
            pictures=self._picture,
            details=lambda: Details((Field("candidates", describe_atoms(self.fingerprint)),)),
        )

    def _list_support(self) -> Grid:
        """The candidates of largest weight: factors, id, weight."""
        some, largest = slice(0, LISTED), float(self.weights.max())
        rows: list[tuple[Cell, ...]] = [
            (*self._show(row), f"{i}", Bar(weight, largest))
            for i, weight, row in zip(self.ids[some], self.weights[some], self.settings[some], strict=True)
        ]
        names = tuple(column.name for column in self.columns)
        texts = (at for at, column in enumerate(self.columns) if column.levels)
        headings = (*names, *_name_added(self.columns, "id", "weight"))
        left = (0, *texts, len(names) + 1)
        caption = "The candidates of largest weight"
        return Grid(
            caption, headings, rows, left, self.support, "design", lambda: list_records(self.to_columns())
        )

    def _show(self, row: Vector) -> list[str]:
        return [column.show(value) for column, value in zip(self.columns, row, strict=True)]

    def _picture(self) -> list[Picture]:
        said = f"{self.support:,} candidates have weight; the largest is {self.weights.max():.4f}."
        pictures = _picture_support(self.columns, self.settings, self.weights, said)
        if self.terms_of is not None or self.model.make_map() is not None:
            level = float(self._variance(self.settings).max())
            said = f"The variance of a prediction is at most {level:.3g} where the design has weight."
            pictures.append(Picture("How sure predictions are", said, partial(_draw_variance, found=self)))
        return pictures


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ExactDesign(HasSummary):
    """Runs to be made, and how good they are at least.

    Attributes
    ----------
    ids, counts : (k,)
        Candidates, and how often each is run.
    settings : (k, c)
        Their factors; a category is the place of its level.
    columns : tuple of Column
    efficiency : float
        Proved lower bound, relative to the best design of any weights, rounding included.
    criterion : str
    terms : int
        Of the model.
    """

    ids: Ids
    counts: Ints
    settings: Vector
    columns: tuple[Column, ...]
    efficiency: float
    criterion: str
    terms: int

    @property
    def runs(self) -> int:
        """How many runs in all."""
        return int(self.counts.sum())

    def to_columns(
        self, *, most: int | None = None, seed: int | np.random.Generator | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return a row per run: its number, the candidate, and every factor as the user wrote it.

        A factor keeps its name: beside one called ``id``, the candidate is ``design_id``.

        Parameters
        ----------
        most
            The first so many runs only; no others are made. None: all, which must be at most 10,000,000.
        seed
            Of a random order of the runs, so that no drift in time is taken for a factor; all runs are then
            made. None: the runs of a candidate follow each other.
        """
        if most is None:
            what = "a row each; `ids` and `counts` hold the whole plan"
            rule = f"given for more than {MOST_ROWS:,} runs, {what}"
            require(self.runs <= MOST_ROWS, "most", rule, f"None for {self.runs:,}")
        rule = f"None for more than {MOST_ROWS:,} runs: to shuffle them, all are made"
        require(seed is None or self.runs <= MOST_ROWS, "seed", rule, f"{self.runs:,} runs")
        shown = self.runs if most is None else min(count(most, "most"), self.runs)
        # Cut before they are repeated: a plan may have any number of runs.
        ends = np.minimum(np.cumsum(self.counts), shown if seed is None else self.runs)
        each = np.repeat(np.arange(len(self.ids)), np.diff(ends, prepend=0))
        each = each if seed is None else rng(seed).permutation(each)[:shown]
        run, id = _name_added(self.columns, "run", "id")
        factors = {name: values[each] for name, values in show_settings(self.columns, self.settings).items()}
        return {run: np.arange(1, len(each) + 1), id: self.ids[each], **factors}

    def to_frame(self, *, most: int | None = None, seed: int | np.random.Generator | None = None) -> Any:
        """Return a pandas DataFrame with one row per run; `most` and `seed` as in `to_columns`."""
        return make_frame(self.to_columns(most=most, seed=seed))

    def summary(self) -> Summary:
        """Return runs, points and what is proved."""
        runs, points, efficiency = self.runs, len(self.ids), show_efficiency(self.efficiency)
        columns = self.to_columns(most=_SHOWN)
        rows = [
            tuple(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row)
            for row in zip(*columns.values(), strict=True)
        ]
        known, what = (lambda: list_records(self.to_columns())), f"{self.criterion}-efficiency"
        caption = "The runs, by candidate; make them in random order"
        return Summary(
            f"ExactDesign({runs} runs at {points} points, {self.terms} terms: {what} >= {efficiency})",
            (
                Field("", values={"runs": runs}, tile=("runs", f"{runs}")),
                Field("", values={"efficiency": self.efficiency}, tile=("proved efficiency", efficiency)),
                Field("", tile=("points", f"{points}")),
            ),
            (Grid(caption, tuple(columns), rows, size=runs, key="rows", records=known),),
            ("The efficiency is proved against designs of any weights, which whole runs may not reach.",),
            title="Runs to be made",
            message=f"{what} at least {efficiency}, proved",
            caption=f"{runs} runs: {what} at least {efficiency}",
            pictures=self._picture,
        )

    def _picture(self) -> list[Picture]:
        said = f"{self.runs:,} runs at {len(self.ids):,} points, at most {self.counts.max():,} at one."
        return _picture_support(self.columns, self.settings, self.counts.astype(np.float64), said, "run")


# ---------------------------------------------------------------- in words and pictures


def _name_added(columns: tuple[Column, ...], *names: str) -> list[str]:
    """Return what columns beside the factors are called: as no factor is.

    Examples
    --------
    >>> _name_added((Column("id"), Column("t")), "id", "weight")
    ['design_id', 'weight']
    """
    taken = {column.name for column in columns}
    return [find_free(name, taken, "design_") for name in names]


def show_efficiency(value: float) -> str:
    """0.9987, or 1 - 3.2e-08 where that says more; never more than the number."""
    if value < 0.9999:
        return f"{np.floor(value * 1e4) / 1e4:.4f}"
    return f"1 - {np.nextafter((1.0 - value) * 1.005, 1.0):.2g}"


def _picture_support(
    columns: tuple[Column, ...], settings: Vector, weights: Vector, said: str, what: str = "weight"
) -> list[Picture]:
    """Return pictures of where weights, or runs, are, two factors each; `said` is what there is to see."""
    others, pictures = "" if len(columns) < 3 else ", summed over all other factors", []
    for first in range(0, min(len(columns), _FACTORS), 2):
        here = slice(first, first + 2)
        title = f"Where the {what}s are: {' and '.join(column.name for column in columns[here])}{others}"
        draw = partial(_draw_support, columns=columns[here], settings=settings[:, here])
        pictures.append(Picture(title, said, partial(draw, weights=weights, what=what)))
    return pictures


def _draw_support(
    axes: Axes, columns: tuple[Column, ...], settings: Vector, weights: Vector, what: str
) -> None:
    """Draw two factors, areas for weights; one factor against its weights."""
    if len(columns) == 1:
        levels, owner = np.unique(settings[:, 0], return_inverse=True)
        runs = np.bincount(owner.reshape(-1), weights, minlength=len(levels)).astype(np.float64)
        plot.draw_stems(axes, levels, runs, x=columns[0].name, y=f"{what}s")
        axes.locator_params(axis="y", integer=what == "run")
        ticks = [axes.set_xticks]
    else:
        points, owner = np.unique(settings[:, :2], axis=0, return_inverse=True)
        sums = np.bincount(owner.reshape(-1), weights, minlength=len(points))
        area = 900.0 * sums / sums.max()
        axes.scatter(points[:, 0], points[:, 1], s=area, color=plot.COLOURS[0], alpha=0.55, edgecolor="white")
        axes.margins(0.15)
        plot.finish_axes(axes, columns[0].name, f"{columns[1].name} (areas: {what}s)")
        ticks = [axes.set_xticks, axes.set_yticks]
    for column, set_ticks, turn in zip(columns, ticks, (30, 0), strict=False):  # names below stand aslant
        cut = [f"{name[: _LONGEST - 1]}\u2026" if len(name) > _LONGEST else name for name in column.levels]
        if cut:
            set_ticks(range(len(cut)), labels=list(map(plot.verbatim, cut)), rotation=turn)


def _draw_variance(axes: Axes, found: Design) -> None:
    """Draw how the variance of a prediction changes with each factor, the others at the design's centre."""
    settings, weights = found.settings, found.weights
    centre = weights @ settings / weights.sum()
    for j, column in enumerate(found.columns):
        if column.levels:
            shares = np.bincount(settings[:, j].astype(np.int64), weights, minlength=len(column.levels))
            centre[j] = float(shares.argmax())
    for j, (name, levels) in enumerate(found.columns[:_CURVES]):
        low, high = float(settings[:, j].min()), float(settings[:, j].max())
        if high <= low:
            continue
        values = np.arange(len(levels), dtype=np.float64) if levels else np.linspace(low, high, _POINTS)
        rows = np.repeat(centre[None], len(values), axis=0)
        rows[:, j] = values
        style = "o:" if levels else _STYLES[j % len(_STYLES)]  # curves may coincide
        look: dict[str, Any] = {"color": plot.COLOURS[j], "markersize": 4, "alpha": 0.8}
        where, height = (values - low) / (high - low), found._variance(rows)
        axes.plot(where, height, style, label=plot.verbatim(name), **look)
    level = float(found._variance(settings).max())  # that of an optimal design over its candidates
    axes.axhline(level, color=plot.GREY, linestyle="--", linewidth=1.0)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 8, "color": plot.GREY}
    axes.annotate(f"{level:.3g}", (1.0, level), **place)
    below = "factor, from its least to its largest value"
    plot.finish_axes(axes, below, "variance of a prediction", legend=True)
    axes.set_ylim(0.0, 1.08 * max(level, axes.get_ylim()[1]))


# ---------------------------------------------------------------- saving


def _read_model(value: Any) -> ModelSpec:
    columns = tuple(Column(str(name), tuple(map(str, levels))) for name, levels in value["columns"])
    known = {*MODELS, "terms", "function"}
    require(value["kind"] in known, "model", f"one of {', '.join(sorted(known))}", value["kind"])
    centre, half = (tuple(float(number) for number in value[name]) for name in ("centre", "half"))
    return ModelSpec(
        value["kind"], bool(value["intercept"]), columns, tuple(map(str, value["terms"])), centre, half
    )


def _check(found: Design) -> None:
    require(len(np.unique(found.ids)) == found.support, "ids", "distinct", "repeated ids")
    check_weights(found.weights)
    require(0.0 <= found.efficiency <= 1.0, "efficiency", "in [0, 1]", found.efficiency)
    require(0.0 <= found.share < 1.0, "share", "in [0, 1)", found.share)
    right = (found.share > 0.0) == (len(found.given) > 0)
    require(right, "share", "0 without given runs, else more", found.share)
    k, width = found.settings.shape
    pairs = (found.pool_ids, found.ids), (found.pool_settings, found.settings)
    same = all(np.array_equal(pool[:k], held) for pool, held in pairs)
    require(same, "pool_ids", "led by the ids", "others")
    require(len(found.terms) == len(found.information), "terms", "as many as rows of M", len(found.terms))
    require(len(found.columns) == width, "columns", "as many as settings", len(found.columns))
    for j, column in enumerate(found.columns):
        values = found.pool_settings[:, j]
        known = (values >= 0) & (values < len(column.levels)) & (values == np.floor(values))
        right = not column.levels or bool(known.all())
        require(right, "settings", f"places of levels of {column.name}", "others")
    numbers = found.model.kind in MODELS
    for name in ("centre", "half"):
        sizes = len(getattr(found.model, name)), len(found.columns)
        require(not numbers or sizes[0] == sizes[1], name, f"{sizes[1]} numbers", sizes[0])
    centre, half = np.abs(found.model.centre), np.array(found.model.half)
    require(bool((centre <= LARGEST).all()), "centre", f"at most {LARGEST:g} in size", found.model.centre)
    divides = (half >= 1.0 / LARGEST) & (half <= LARGEST)
    require(bool(divides.all()), "half", f"from {1.0 / LARGEST:g} to {LARGEST:g}", found.model.half)


def _real(*shape: str, optional: bool = False) -> Array:
    return Array(shape=shape, low=-LARGEST, high=LARGEST, optional=optional)


Design.codec = Codec(
    "design",
    Design,
    {
        "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
        "weights": Array(shape=("k",), low=0.0, high=1.0 + WEIGHTS),
        "information": _real("p", "p"),
        "settings": _real("k", "c"),
        "given": _real("g", "p"),
        "root": _real("p", "r", optional=True),
        "pool_ids": Array(shape=("pool",), dtype=np.int64, low=0, below="n"),
        "pool_rows": _real("pool", "p"),
        "pool_settings": _real("pool", "c"),
        **dict.fromkeys(("efficiency", "share"), Scalar.NUMBER),
        **dict.fromkeys(("passes", "seconds", "root_error"), Scalar.COST),
        "scored": Scalar.COUNT,
        "status": Scalar.STATUS,
        "criterion": Scalar.TEXT,
        "model": Json(ModelSpec._asdict, _read_model),
        **dict.fromkeys(
            ("table", "given_table"),
            Json(lambda table: table and table.to_json(), TableReport.from_json, optional=True),
        ),
    },
    _check,
)
