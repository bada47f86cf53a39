"""`Design`: weights over candidates, what is proved of them, and what can be made of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import Fingerprint
from wolfhound.codec import WEIGHTS, Array, Codec, Json, Scalar
from wolfhound.core import AtomsLike, Ids, Matrix, Status, Vector
from wolfhound.designs.exact import (
    ExactDesign,
    Harvest,
    Pool,
    choose_runs,
    list_records,
    name_added,
    picture_support,
    refine,
    scale_harvest,
    show_efficiency,
    show_settings,
)
from wolfhound.designs.factors import Column, read_factors
from wolfhound.designs.models import MODELS, ModelSpec
from wolfhound.designs.picture import draw_variance
from wolfhound.designs.proof import Between, compare, enclose
from wolfhound.designs.rank import describe_aliases, find_null_space, scale_root, scale_to_one
from wolfhound.encoding import TableReport
from wolfhound.markup import Bar, Cell, Details, Field, Grid, HasSummary, Picture, Summary, pick
from wolfhound.result import LISTED, describe_atoms, make_frame
from wolfhound.text import seconds_text
from wolfhound.threads import one_blas_thread
from wolfhound.validate import LARGEST, count, number, require

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Design(HasSummary):
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
    def success(self) -> bool:
        """Whether the wanted efficiency is proved, or all that rounding allows."""
        return self.status.success

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

    # ------------------------------------------------------------ what can be made of it

    def variance(self, atoms: AtomsLike) -> Vector:
        """(r,) variance of a prediction at rows of factors, for one run of variance 1: x'M^-1 x.

        Divide by the number of runs, and multiply by the variance of one.

        Parameters
        ----------
        atoms
            Rows of factors, in any form that candidates may have; texts for categories in tables.
        """
        rows, _ = read_factors(atoms, "atoms", self.columns)
        every = rows.take(np.arange(rows.shape[0]))
        return self._variance(np.asarray(every, np.float64))

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
            pool = Pool(self.pool_ids, self.pool_rows * scale, self.pool_settings)
            best = self._enclose_best(runs, pool, root, given)
            counts = choose_runs(pool.rows, weights, runs, root=root, given=given)
            if self.harvest is not None:
                passes, harvest = count(max_passes, "max_passes"), scale_harvest(self.harvest, scale)
                pool, counts = refine(pool, counts, harvest, root=root, fixed=given.T @ given, passes=passes)
            used = np.flatnonzero(counts)
            each = np.concatenate([counts[used], np.ones(len(given))]) / (runs + len(given))
            mine = enclose(np.concatenate([pool.rows[used], given]), each, root, self.root_error)
        found = 0.0 if mine is None or best is None else compare(mine, best, root) * self.efficiency
        order = np.lexsort((pool.ids[used], -counts[used]))
        return ExactDesign(
            ids=pool.ids[used][order],
            counts=counts[used][order],
            settings=pool.settings[used][order],
            columns=self.columns,
            efficiency=min(found * (1.0 - 1e-14), 1.0),
            criterion=self.criterion,
            terms=len(self.terms),
        )

    def _enclose_best(self, runs: int, pool: Pool, root: Vector | None, given: Vector) -> Between | None:
        """Bounds on the criterion of these weights, terms scaled."""
        g, share = len(given), self.share
        if g:
            planned = round(g / share) - g
            require(runs == planned, "runs", f"{planned}, as `design` was told with `given`", runs)
        shares = np.concatenate([(1.0 - share) * self.weights, np.full(g, share / max(g, 1))])
        return enclose(np.concatenate([pool.rows[: self.support], given]), shares, root, self.root_error)

    def _check_runs(self, runs: int) -> None:
        """Refuse too few runs, and say what they could not tell apart."""
        d = len(self.terms)
        have = d - find_null_space(self.given).shape[1] if len(self.given) else 0
        if runs + have >= d:
            return
        few = find_null_space(np.concatenate([self.pool_rows[: min(runs, self.support)], self.given]))
        left = f"{runs}, which leaves {describe_aliases(few, self.terms)}"
        require(False, "runs", f"at least {d - have} for {d} terms", left)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return a row per candidate with weight: its id, weight and factors, which keep their names."""
        id, weight = name_added(self.columns, "id", "weight")
        return {id: self.ids, weight: self.weights, **show_settings(self.columns, self.settings)}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per candidate with weight."""
        return make_frame(self.to_columns())

    # ------------------------------------------------------------ saving

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `wolfhound.load` reads; it must be new, or hold a design."""
        CODEC.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Design:
        """Read what `save` wrote; what was proved is read, not proved again.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            If given, must be the rows of factors that the candidates were.
        """
        return CODEC.load(path, None if atoms is None else read_factors(atoms, "atoms")[0])

    def _notes(self) -> list[tuple[str, str]]:
        """What is to be known of the tables; categories are factors here, not one-hot."""
        notes = () if self.table is None else self.table.notes
        past = () if self.given_table is None else self.given_table.notes
        gone = [("given", text) for subject, text in past if subject == "missing"]
        return [(subject, text) for subject, text in notes if subject != "one-hot"] + gone

    def _list_support(self) -> Grid:
        """The candidates of largest weight: factors, id, weight."""
        some, largest = slice(0, LISTED), float(self.weights.max())
        rows: list[tuple[Cell, ...]] = [
            (*self._show(row), f"{i}", Bar(weight, largest))
            for i, weight, row in zip(self.ids[some], self.weights[some], self.settings[some], strict=True)
        ]
        names = tuple(column.name for column in self.columns)
        texts = (at for at, column in enumerate(self.columns) if column.levels)
        headings = (*names, *name_added(self.columns, "id", "weight"))
        left = (0, *texts, len(names) + 1)
        caption = "The candidates of largest weight"
        return Grid(
            caption, headings, rows, left, self.support, "design", lambda: list_records(self.to_columns())
        )

    def _show(self, row: Vector) -> list[str]:
        """Factors as the user wrote them."""
        return [column.show(value) for column, value in zip(self.columns, row, strict=True)]

    def summary(self) -> Summary:
        """Return what is proved, the cost, and the largest weights."""
        top = [
            f"{weight:.3f} at ({', '.join(self._show(row))})"
            for weight, row in zip(self.weights[:_SHOWN], self.settings[:_SHOWN], strict=False)
        ]
        more = ", ..." if self.support > _SHOWN else ""
        named = ", ".join(self.terms[:_SHOWN]) + (", ..." if len(self.terms) > _SHOWN else "")
        efficiency = show_efficiency(self.efficiency)
        tables: dict[str, object] = {
            "table": self.table and self.table.to_json(),
            "given_table": self.given_table and self.given_table.to_json(),
        }
        fields = (
            Field(
                f"{self.criterion}-efficiency",
                f">= {efficiency}, proved",
                pick(self, "criterion", "efficiency"),
                ("proved efficiency", efficiency),
            ),
            Field(
                "support",
                f"{self.support:,} candidates: {'; '.join(top)}{more}",
                {"support": self.support},
                ("candidates with weight", f"{self.support:,}"),
            ),
            Field(
                "terms",
                f"{len(self.terms):,}: {named}",
                {"terms": list(self.terms), **tables},
                ("terms", f"{len(self.terms):,}"),
            ),
            *self._notes(),
            Field(
                "cost",
                f"{self.passes:.3g} passes, {self.scored:,} forms, {self.seconds:.3g} s",
                pick(self, "passes", "scored", "seconds"),
                ("time", seconds_text(self.seconds)),
            ),
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

    def _picture(self) -> list[Picture]:
        said = f"{self.support:,} candidates have weight; the largest is {self.weights.max():.4f}."
        pictures = [picture_support(self.columns, self.settings, self.weights, said)]
        if self.terms_of is not None or self.model.make_map() is not None:
            level = float(self._variance(self.settings).max())
            pictures.append(
                Picture(
                    "How sure predictions are",
                    f"The variance of a prediction is at most {level:.3g} where the design has weight.",
                    partial(
                        draw_variance,
                        columns=self.columns,
                        settings=self.settings,
                        weights=self.weights,
                        variance=self._variance,
                    ),
                )
            )
        return pictures


# ---------------------------------------------------------------- saving


def _write_model(model: ModelSpec) -> dict[str, Any]:
    return model._asdict() | {"columns": [[column.name, list(column.levels)] for column in model.columns]}


def _read_model(value: Any) -> ModelSpec:
    columns = tuple(Column(str(name), tuple(map(str, levels))) for name, levels in value["columns"])
    known = {*MODELS, "terms", "function"}
    require(value["kind"] in known, "model", f"one of {', '.join(sorted(known))}", value["kind"])
    centre, half = (tuple(float(number) for number in value[name]) for name in ("centre", "half"))
    return ModelSpec(
        value["kind"], bool(value["intercept"]), columns, tuple(map(str, value["terms"])), centre, half
    )


def _read_error(value: Any) -> float:  # what an old file does not say is not known
    return LARGEST if value is None else number(value, "root_error", low=0.0)


def _check(found: Design) -> None:
    require(len(np.unique(found.ids)) == found.support, "ids", "distinct", "repeated ids")
    require(abs(float(found.weights.sum()) - 1.0) <= WEIGHTS, "weights", "of sum 1", found.weights.sum())
    require(0.0 <= found.efficiency <= 1.0, "efficiency", "in [0, 1]", found.efficiency)
    require(0.0 <= found.share < 1.0, "share", "in [0, 1)", found.share)
    right = (found.share > 0.0) == (len(found.given) > 0)
    require(right, "share", "0 without given runs, else more", found.share)
    k, width = found.settings.shape
    same = np.array_equal(found.pool_ids[:k], found.ids)
    same = same and np.array_equal(found.pool_settings[:k], found.settings)
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


CODEC = Codec(
    "design",
    Design,
    {
        "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
        "weights": Array(shape=("k",), low=0.0, high=1.0 + WEIGHTS),
        "information": _real("p", "p"),
        "settings": _real("k", "c"),
        "given": _real("g", "p"),
        "root": _real("p", "r", optional=True),
        "root_error": Json(lambda error: error, _read_error, optional=True),
        "pool_ids": Array(shape=("pool",), dtype=np.int64, low=0, below="n"),
        "pool_rows": _real("pool", "p"),
        "pool_settings": _real("pool", "c"),
        **dict.fromkeys(("efficiency", "share"), Scalar.NUMBER),
        **dict.fromkeys(("passes", "seconds"), Scalar.COST),
        "scored": Scalar.COUNT,
        "status": Scalar.STATUS,
        "criterion": Scalar.TEXT,
        "model": Json(_write_model, _read_model),
        **dict.fromkeys(
            ("table", "given_table"),
            Json(lambda table: table and table.to_json(), TableReport.from_json, optional=True),
        ),
    },
    _check,
)
"""How designs are saved."""
