"""Exact designs: whole numbers of runs, by efficient apportionment and exchange, from several starts."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from wolfhound.core import Ids, Ints, Vector
from wolfhound.designs.factors import Column
from wolfhound.designs.picture import draw_support
from wolfhound.designs.proof import invert
from wolfhound.markup import Field, Grid, HasSummary, Picture, Summary
from wolfhound.result import make_frame
from wolfhound.validate import count, require
from wolfhound.writers import find_free

_ROUNDS = 40
_LEAST = 1e-10
"""Relative gain of an exchange that is worth making."""

_WORTH = 2e-6
"""Gain of efficiency that is worth a pass."""

_STARTS = 12
"""Random starts, beside the apportioned one, of few runs: exchanges end in local optima."""

_FEW = 200
"""Runs up to which there are random starts."""

_SHOWN = 500
"""Runs that a table may show."""

_LISTED = 10_000_000
"""Runs up to which a table of all runs is made unasked."""

_MOST = 10**15
"""Runs of a plan: beyond, their shares are no longer told apart in float64."""

_HARVEST = 1024
"""Candidates that a pass adds."""


class Pool(NamedTuple):
    """Some candidates: (r,) ids, (r, d) terms and (r, c) factors."""

    ids: Ids
    rows: Vector
    settings: Vector

    def only(self, which: NDArray[np.bool_]) -> Pool:
        """Return some of them."""
        return Pool(self.ids[which], self.rows[which], self.settings[which])

    def join(self, other: Pool) -> Pool:
        """Add others."""
        return Pool(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.settings, other.settings]),
        )


Harvest: TypeAlias = Callable[[Vector, int], Pool]
"""Gives the k candidates with the largest x'Bx."""


def scale_harvest(harvest: Harvest, scale: Vector) -> Harvest:
    """Return the same for candidates whose terms are multiplied by a scale."""

    def scaled(matrix: Vector, k: int) -> Pool:
        found = harvest(matrix * np.outer(scale, scale), k)
        return found._replace(rows=found.rows * scale)

    return scaled


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

    def to_columns(self, *, most: int | None = None) -> dict[str, NDArray[Any]]:
        """Return a row per run: its number, the candidate, and every factor as the user wrote it.

        A factor keeps its name: beside one called ``id``, the candidate is ``design_id``.

        Parameters
        ----------
        most
            The first so many runs only; no others are made. None: all, which must be at most 10,000,000.
        """
        if most is None:
            rule = f"given for more than {_LISTED:,} runs, a row each; `ids` and `counts` hold the whole plan"
            require(self.runs <= _LISTED, "most", rule, f"None for {self.runs:,}")
        shown = self.runs if most is None else min(count(most, "most"), self.runs)
        # Cut before they are repeated: a plan may have any number of runs.
        ends = np.minimum(np.cumsum(self.counts), shown)
        each = np.repeat(np.arange(len(self.ids)), np.diff(ends, prepend=0))
        run, id = name_added(self.columns, "run", "id")
        factors = {name: values[each] for name, values in show_settings(self.columns, self.settings).items()}
        return {run: np.arange(1, len(each) + 1), id: self.ids[each], **factors}

    def to_frame(self, *, most: int | None = None) -> Any:
        """Return a pandas DataFrame with one row per run, of the first `most` runs as in `to_columns`."""
        return make_frame(self.to_columns(most=most))

    def summary(self) -> Summary:
        """Return runs, points and what is proved."""
        efficiency, points = show_efficiency(self.efficiency), len(self.ids)
        columns = self.to_columns(most=_SHOWN)
        rows = [tuple(map(_show_cell, row)) for row in zip(*columns.values(), strict=True)]
        return Summary(
            f"ExactDesign({self.runs} runs at {points} points, {self.terms} terms: "
            f"{self.criterion}-efficiency >= {efficiency})",
            (
                Field("", values={"runs": self.runs}, tile=("runs", f"{self.runs}")),
                Field("", values={"efficiency": self.efficiency}, tile=("proved efficiency", efficiency)),
                Field("", tile=("points", f"{points}")),
            ),
            (
                Grid(
                    "The runs",
                    tuple(columns),
                    rows,
                    size=self.runs,
                    key="rows",
                    records=lambda: list_records(self.to_columns()),
                ),
            ),
            notes=(
                "The efficiency is proved against designs of any weights, which whole runs may not reach.",
            ),
            title="Runs to be made",
            message=f"{self.criterion}-efficiency at least {efficiency}, proved",
            caption=f"{self.runs} runs: {self.criterion}-efficiency at least {efficiency}",
            pictures=self._picture,
        )

    def _picture(self) -> list[Picture]:
        said = f"{self.runs:,} runs at {len(self.ids):,} points, at most {self.counts.max():,} at one."
        return [picture_support(self.columns, self.settings, self.counts.astype(np.float64), said, "run")]


def picture_support(
    columns: tuple[Column, ...], settings: Vector, weights: Vector, said: str, what: str = "weight"
) -> Picture:
    """Return a picture of where weights, or runs, are; `said` is what there is to see."""
    others = "" if len(columns) < 3 else ", summed over all other factors"
    title = f"Where the {what}s are: {' and '.join(column.name for column in columns[:2])}{others}"
    draw = partial(draw_support, columns=columns, settings=settings, weights=weights, what=what)
    return Picture(title, said, draw)


def list_records(columns: dict[str, NDArray[Any]]) -> list[dict[str, object]]:
    """Return columns as a dict per row."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def name_added(columns: tuple[Column, ...], *names: str) -> list[str]:
    """Return what columns beside the factors are called: as no factor is.

    Examples
    --------
    >>> name_added((Column("id"), Column("t")), "id", "weight")
    ['design_id', 'weight']
    """
    taken = {column.name for column in columns}
    return [find_free(name, taken, "design_") for name in names]


def show_settings(columns: tuple[Column, ...], settings: Vector) -> dict[str, NDArray[Any]]:
    """Columns of numbers and of texts."""
    return {
        column.name: (
            np.array([column.show(value) for value in settings[:, j]], np.str_)
            if column.levels
            else settings[:, j]
        )
        for j, column in enumerate(columns)
    }


def _show_cell(value: Any) -> str:
    """A cell of `to_columns` in few digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def show_efficiency(value: float) -> str:
    """0.9987, or 1 - 3.2e-08 where that says more; never more than the number."""
    if value < 0.9999:
        return f"{np.floor(value * 1e4) / 1e4:.4f}"
    return f"1 - {np.nextafter((1.0 - value) * 1.005, 1.0):.2g}"


# ---------------------------------------------------------------- whole numbers


def check_size(runs: int) -> int:
    """Return a number of runs that counts can hold."""
    require(count(runs, "runs", low=1) <= _MOST, "runs", f"at most {_MOST:g}", runs)
    return int(runs)


def apportion(weights: Vector, runs: int) -> Ints:
    """Efficient apportionment (Pukelsheim and Rieder 1992); the largest weights if there are too few runs.

    Examples
    --------
    >>> apportion(np.array([0.45, 0.35, 0.2]), 5)
    array([2, 2, 1])
    """
    k, runs = len(weights), check_size(runs)
    if runs < k:
        counts = np.zeros(k, np.int64)
        counts[np.argsort(-weights, kind="stable")[:runs]] = 1
        return counts
    counts = np.ceil((runs - 0.5 * k) * weights).astype(np.int64).clip(1)
    while counts.sum() != runs:
        if counts.sum() < runs:
            counts[int((counts / weights).argmin())] += 1
        else:
            ratios = np.where(counts > 1, (counts - 1) / weights, -np.inf)
            counts[int(ratios.argmax())] -= 1
    return counts


def choose_runs(rows: Vector, weights: Vector, runs: int, *, root: Vector | None, given: Vector) -> Ints:
    """(r,) how often each of the (r, d) rows of a pool is run, by the weights of the best design on it.

    There are at least as many runs as make the model estimable with the (g, d) given ones.
    """
    support = np.flatnonzero(weights > 0.0)
    counts = np.zeros(len(rows), np.int64)
    counts[support] = apportion(weights[support], runs)
    fixed = given.T @ given
    if not _is_regular(rows, counts, fixed):
        counts = _begin_regular(rows, weights, runs, fixed)
    best = exchange_runs(rows, counts, root=root, fixed=fixed)
    value = _evaluate(rows, best, root, fixed)
    for seed in range(_STARTS if runs <= _FEW else 0):
        drawn = np.random.default_rng(seed).choice(len(rows), runs, p=weights / weights.sum())
        counts = np.bincount(drawn, minlength=len(rows)).astype(np.int64)
        if _is_regular(rows, counts, fixed):
            counts = exchange_runs(rows, counts, root=root, fixed=fixed)
            other = _evaluate(rows, counts, root, fixed)
            best, value = (counts, other) if other > value + _WORTH else (best, value)
    return best


def exchange_runs(rows: Vector, counts: Ints, *, root: Vector | None, fixed: Vector) -> Ints:
    """Exchange single runs within a pool until none gains."""
    from wolfhound.designs import _exchange_kernels as kernels  # noqa: PLC0415 - numba is slow to load

    rows, counts = np.ascontiguousarray(rows), counts.copy()
    c = np.empty((rows.shape[1], 0)) if root is None else np.ascontiguousarray(root)
    for _ in range(_ROUNDS):
        inverse = invert(_inform(rows, counts, fixed))
        if inverse is None:
            break
        least = _LEAST if root is None else _LEAST * float(np.sum(c * (inverse @ c)))
        if not kernels.exchange(kernels.Exchange(rows, np.ascontiguousarray(inverse), c, counts), least):
            break
    return counts


def refine(
    pool: Pool, counts: Ints, harvest: Harvest, *, root: Vector | None, fixed: Vector, passes: int
) -> tuple[Pool, Ints]:
    """Look for better exchanges among all candidates: at most `passes` of these find those that say most.

    `harvest` gives the candidates with the largest x'Bx; root and fixed are as in `exchange_runs`.
    """
    value = _evaluate(pool.rows, counts, root, fixed)
    for _ in range(passes):
        used = counts > 0
        pool, counts = pool.only(used), counts[used]
        inverse = invert(_inform(pool.rows, counts, fixed))
        if inverse is None:
            break
        lift = None if root is None else inverse @ root
        matrix = inverse if lift is None else lift @ lift.T
        found = harvest(np.asarray(matrix, np.float64), _HARVEST)
        new = ~np.isin(found.ids, pool.ids)
        pool = pool.join(found.only(new))
        counts = np.concatenate([counts, np.zeros(int(new.sum()), np.int64)])
        counts = exchange_runs(pool.rows, counts, root=root, fixed=fixed)
        before, value = value, _evaluate(pool.rows, counts, root, fixed)
        if not value > before + _WORTH:
            break
    return pool, counts


def _inform(rows: Vector, counts: Ints, fixed: Vector) -> Vector:
    """Information of all runs, counted in runs."""
    used = counts > 0
    return np.asarray((rows[used] * counts[used, None]).T @ rows[used] + fixed)


def _evaluate(rows: Vector, counts: Ints, root: Vector | None, fixed: Vector) -> float:
    """The logarithm of the efficiency, up to a constant."""
    information = _inform(rows, counts, fixed)
    if root is None:
        return float(np.linalg.slogdet(information)[1]) / len(information)
    inverse = invert(information)
    return -np.inf if inverse is None else -float(np.log(np.sum(root * (inverse @ root))))


def _is_regular(rows: Vector, counts: Ints, fixed: Vector) -> bool:
    return bool(np.linalg.cond(_inform(rows, counts, fixed)) < 1e12)


def _begin_regular(rows: Vector, weights: Vector, runs: int, fixed: Vector) -> Ints:
    """Rows that span all terms first, by pivots; then by weight."""
    values, vectors = np.linalg.eigh(fixed)
    known = vectors[:, values > 1e-10 * max(float(values.max()), 1e-300)]
    scaled = rows * np.sqrt(weights + 1e-3 * weights.max())[:, None]
    rest = scaled - (scaled @ known) @ known.T
    order = qr(rest.T, mode="r", pivoting=True)[1]
    counts = np.zeros(len(rows), np.int64)
    basis = order[: min(runs, rows.shape[1] - known.shape[1])]
    counts[basis] = 1
    for place in np.argsort(-weights, kind="stable"):
        if counts.sum() == runs:
            break
        counts[place] += 1
    counts[int(weights.argmax())] += runs - int(counts.sum())
    return counts
