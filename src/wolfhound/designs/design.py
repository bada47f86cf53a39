"""`design`: which of very many possible experiments to run, with a proved efficiency."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import MappedAtoms, fingerprint, finite_rows
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Oracle, Vector
from wolfhound.designs.criteria import Criterion, DOptimal, Root
from wolfhound.designs.exact import Pool, check_size
from wolfhound.designs.factors import Column, FactorOptions, read_factors
from wolfhound.designs.models import (
    MODELS,
    ModelLike,
    ModelSpec,
    TermMap,
    TermModel,
    map_terms,
    measure_coding,
)
from wolfhound.designs.newton import Task
from wolfhound.designs.rank import complete_sample, draw_sample, scale_root, scale_to_one
from wolfhound.designs.result import Design
from wolfhound.designs.search import DesignState, Search
from wolfhound.display import Job, Reading, show_progress
from wolfhound.encoding import Missing, TableAtoms, TableReport
from wolfhound.methods._begin import POOL
from wolfhound.oracles.forms import FormScan, find_candidates, survey
from wolfhound.solve import Limits, Outcome, drive
from wolfhound.threads import one_blas_thread

_LARGEST = 1e70
"""Terms are smaller, and larger than its inverse, or zero: their products must be numbers."""

_FAR = 40
"""So are columns whose sizes are beyond 2 to this power."""

_SPREAD = 2.0**10
"""Columns whose sizes differ by more are scaled, by powers of two: exact."""


def design(
    candidates: Oracle | AtomsLike,
    *,
    criterion: Criterion | None = None,
    model: ModelLike = None,
    given: AtomsLike | None = None,
    runs: int | None = None,
    exclude: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    missing: Missing = Missing.DROP,
    numeric_only: bool = False,
    efficiency: float = 1.0 - 1e-6,
    max_passes: float = math.inf,
    max_seconds: float = math.inf,
    callback: Callable[[DesignState], bool | None] | None = None,
    progress: bool | None = None,
    seed: int | np.random.Generator = 0,
) -> Design:
    """Find the best weights of possible experiments, with a proved efficiency.

    Parameters
    ----------
    candidates
        Possible experiments, one per row: `Factors`, an array, a frame, atoms, a file that may be
        larger than memory, or an oracle of forms such as `FormScan`.
    criterion
        `DOptimal()` by default; `AOptimal()`, `IOptimal(region)`.
    model
        `LinearModel()`, `Interactions()`, `Quadratic()`, a function of blocks of rows to blocks of terms,
        or None: the rows are the terms.
    given
        Rows of experiments that were run already; needs `runs`.
    runs
        How many more are planned, which says how much the given ones weigh.
    exclude : (e,) ids, optional
        Candidates that must not be used.
    columns
        Of a table: those that are factors; None: all that can be.
    missing
        Of a table: candidates, and given runs, with missing values are left out, `Missing.DROP`;
        numbers filled with means, `Missing.MEAN`; or refused, `Missing.ERROR`. Ids stay those
        of the table.
    numeric_only
        Of a table: texts and truths are no factors.
    efficiency
        What is to be proved.
    max_passes, max_seconds
        Limits; the best design so far is returned with its status.
    callback
        Called with every state; returning True stops.
    progress
        As for `minimize`.
    seed
        Of the random candidates that are read first. The same seed gives the same answer.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        If the candidates cannot tell the terms apart; the error names these.

    Examples
    --------
    >>> from wolfhound import Factors, LinearModel
    >>> plan = design(Factors({"a": [0.0, 1.0, 2.0], "b": ["x", "y"]}), model=LinearModel())
    >>> plan.efficiency > 0.999999, sorted(plan.ids.tolist())
    (True, [0, 1, 4, 5])
    """
    began = time.perf_counter()
    goal = validate.within(efficiency, "efficiency", "(0, 1)")
    limits = Limits(passes=max_passes, seconds=max_seconds)
    rng = validate.rng(seed)
    criterion = DOptimal() if criterion is None else criterion
    validate.kind(criterion, "criterion", "a criterion such as DOptimal()", "find_root", "name")
    options = FactorOptions(columns, missing, numeric_only)
    with one_blas_thread():
        terms = _prepare(candidates, model, rng, options)
        if terms.table is not None:
            exclude = terms.table.find_places(exclude, "exclude", strict=False)
        banned = np.sort(validate.ids([] if exclude is None else exclude, "exclude", terms.rows.shape[0]))
        past, given_table = _read_given(terms, given)
        share = _weigh_given(len(past), runs)
        sample = _draw(terms, past, banned, rng)
        root = criterion.find_root(terms.rows, lambda value: terms.of(value, "region"))
        aim = Aim(criterion.name, root, past, share, given_table)
        search = _open_search(terms, aim, banned, sample, 1.0 - goal)
    states = _run(search, sample.ids, terms.spec.terms, terms.passes + root.passes)
    with show_progress(progress, _read_state, callback) as hear:
        outcome = drive(states, goal=-math.log(goal), limits=limits, callback=hear, began=began)
    return _finish(terms, aim, outcome, search)


def _read_state(job: Job) -> Reading:
    """Say how far a run is; see `show_progress`."""
    if job.state is None:
        return Reading(0.0, f"reading candidates, {job.swept:,} rows, {job.seconds:.0f} s")
    text = f"efficiency >= {job.state.efficiency:.6f}, {job.state.passes:.2f} passes, {job.seconds:.0f} s"
    return Reading(0.5, text)


class Aim(NamedTuple):
    """What is optimised, in the terms of the caller."""

    criterion: str
    root: Root
    given: Vector  # (g, d) terms of the given runs
    share: float  # of these in all
    given_table: TableReport | None = None  # what became of their rows, where they were a table


# ---------------------------------------------------------------- candidates


class _Candidates(NamedTuple):
    """Candidates as rows of factors and as rows of terms."""

    factors: Atoms
    rows: Atoms
    spec: ModelSpec
    make: Callable[[Matrix], Matrix] | None  # factors to terms; None: they are the same
    passes: float = 0.0  # to prepare them
    oracle: Oracle | None = None  # the caller's
    missing: Missing = Missing.DROP

    @property
    def table(self) -> TableAtoms | None:
        """What the candidates were, if that was a table."""
        return self.factors if isinstance(self.factors, TableAtoms) else None

    def name_rows(self, pool: Pool) -> Pool:
        """Candidates by the rows of the table that they are."""
        return pool if self.table is None else pool._replace(ids=self.table.name_rows(pool.ids))

    def take(self, ids: Ids) -> Pool:
        """Return candidates, in float64."""
        rows, settings = self.rows.take(ids), self.factors.take(ids)
        return Pool(ids, rows.astype(np.float64), settings.astype(np.float64))

    def read(self, value: AtomsLike, name: str) -> Atoms:
        """Other rows of the same factors."""
        return read_factors(value, name, self.spec.columns, FactorOptions(missing=self.missing))[0]

    def of(self, value: AtomsLike, name: str) -> Atoms:
        """Terms of other rows of factors."""
        rows = self.read(value, name)
        if self.make is None:
            return rows
        return map_terms(rows, self.make, self.rows.shape[1], np.dtype(np.float64))


def _prepare(
    candidates: Oracle | AtomsLike, model: ModelLike, rng: np.random.Generator, options: FactorOptions
) -> _Candidates:
    """Read the candidates and apply the model."""
    if validate.is_oracle(candidates):
        rows = find_candidates(candidates.atoms)
        if rows is None or model is not None:
            what = "an oracle of forms such as FormScan(terms), without a model"
            raise TypeError(f"`candidates` must be {what}. Got {validate.describe(candidates)}.")
        columns = tuple(Column(f"x{i}") for i in range(1, rows.shape[1] + 1))
        return _Candidates(rows, rows, _name_terms(columns), None, oracle=candidates)
    factors, columns = read_factors(candidates, "candidates", (), options)  # type: ignore[arg-type]
    return _apply(factors, columns, model, rng)._replace(missing=options.missing)


def _apply(
    factors: Atoms, columns: tuple[Column, ...], model: ModelLike, rng: np.random.Generator
) -> _Candidates:
    if model is None:
        texts = [column.name for column in columns if column.levels]
        validate.require(not texts, "model", "given for categories, e.g. LinearModel()", f"None for {texts}")
        return _Candidates(factors, factors, _name_terms(columns), None)
    if isinstance(model, TermModel) and not isinstance(model, type):
        return _apply_model(factors, columns, model, rng)
    validate.function(model, "model", "a model such as Quadratic(), or a function of rows")
    validate.require(not isinstance(model, type), "model", "a model such as Quadratic()", model)
    first = np.asarray(model(factors.take(np.arange(1))))
    validate.require(
        first.ndim == 2 and len(first) == 1, "model", "a function to one row of terms per row", first.shape
    )
    d = first.shape[1]
    spec = ModelSpec("function", False, tuple(columns), tuple(f"t{i}" for i in range(1, d + 1)))
    return _Candidates(factors, map_terms(factors, model, d, factors.dtype), spec, model)


def _name_terms(columns: Sequence[Column]) -> ModelSpec:
    return ModelSpec("terms", False, tuple(columns), tuple(column.name for column in columns))


def _apply_model(
    factors: Atoms, columns: Sequence[Column], model: TermModel, rng: np.random.Generator
) -> _Candidates:
    few = rng.integers(0, factors.shape[0], 1024)
    sample = finite_rows(factors, np.unique(few))
    coding, passes = measure_coding(factors, columns, sample, shift=model.intercept)
    make = TermMap(model, coding)
    kind = next((name for name, each in MODELS.items() if type(model) is each), "function")
    numbers = coding.centre.tolist(), coding.half.tolist()
    spec = ModelSpec(kind, model.intercept, tuple(columns), make.names, tuple(numbers[0]), tuple(numbers[1]))
    rows = map_terms(factors, make, len(make.names), factors.dtype)
    return _Candidates(factors, rows, spec, make, passes)


def _read_all(atoms: Atoms) -> Vector:
    return np.asarray(finite_rows(atoms, np.arange(atoms.shape[0])), np.float64)


def _read_given(terms: _Candidates, given: AtomsLike | None) -> tuple[Vector, TableReport | None]:
    """Terms of the given runs, and what became of their rows."""
    if given is None:
        return np.empty((0, terms.rows.shape[1])), None
    rows = terms.read(given, "given")
    report = rows.report if isinstance(rows, TableAtoms) else None
    return _read_all(terms.of(rows, "given")), report


def _weigh_given(given: int, runs: int | None) -> float:
    """Share of the given runs in all."""
    if not given:
        return 0.0
    if runs is None:
        raise ValueError("`runs` must be given with `given`: how many more runs are planned. Got None.")
    return given / (given + check_size(runs))


# ---------------------------------------------------------------- the search


class Scale:
    """Multiplies columns by powers of two: exact, and it can be pickled."""

    def __init__(self, factors: Vector) -> None:
        self.factors = factors

    def __call__(self, rows: Matrix) -> Vector:
        """(r, d) in float64."""
        return np.asarray(rows * self.factors)


class _FirstRead(NamedTuple):
    """Candidates that are read first, and how large each term is there; 1 if it is zero."""

    ids: Ids
    sizes: Vector


def _draw(terms: _Candidates, given: Vector, banned: Ids, rng: np.random.Generator) -> _FirstRead:
    ids = draw_sample(terms.rows, banned, rng)
    validate.require(len(ids) > 0, "exclude", "fewer than all candidates", f"{len(banned):,} ids")
    rows = finite_rows(terms.rows, ids[:POOL]).astype(np.float64)
    sizes = np.abs(np.concatenate([rows, given])).max(axis=0)
    sizes[sizes == 0.0] = 1.0
    small, large = float(sizes.min()), float(sizes.max())
    rule = f"rows of terms between {1.0 / _LARGEST:g} and {_LARGEST:g} in size; scale them"
    validate.require(
        large < _LARGEST and small > 1.0 / _LARGEST, "candidates", rule, f"{small:g} .. {large:g}"
    )
    return _FirstRead(ids, sizes)


def _open_search(terms: _Candidates, aim: Aim, banned: Ids, sample: _FirstRead, goal: float) -> Search:
    """Scale the terms if they must be."""
    scale = scale_to_one(sample.sizes)
    rows, oracle = terms.rows, terms.oracle
    near = 2.0**-_FAR < scale.min() and scale.max() < 2.0**_FAR
    moderate = near and scale.max() < _SPREAD * scale.min()
    if oracle is not None or moderate:
        scale = np.ones_like(scale)
    else:
        rows = MappedAtoms(rows, Scale(scale), len(scale))
    given = aim.given * scale
    root = scale_root(aim.root.matrix, scale)
    return Search(
        oracle=FormScan(rows) if oracle is None else oracle,
        candidates=rows,
        task=Task(root, given.T @ given / max(len(given), 1), aim.share),
        given=given,
        exclude=banned,
        goal=goal,
        scale=scale,
        root_error=aim.root.error,
    )


def _run(search: Search, ids: Ids, names: Sequence[str], passes: float) -> Iterator[DesignState]:
    """Yield the states of a search, with what was read before."""
    ids, rows, more = complete_sample(search, ids, names)
    more += len(ids) / search.candidates.shape[0]
    for state in search.states(*search.begin(ids, rows)):
        yield replace(state, passes=state.passes + passes + (more if state.t else 0.0))


def _harvest(terms: _Candidates, search: Search, matrix: Vector, k: int) -> Pool:
    """Return the candidates with the largest x'Bx, by one pass."""
    scale = search.scale
    best = survey(search.oracle, matrix / np.outer(scale, scale), k, search.exclude).ids
    return terms.name_rows(terms.take(best))


def _finish(terms: _Candidates, aim: Aim, outcome: Outcome[DesignState], search: Search) -> Design:
    """Collect what was found, in the terms of the caller."""
    state = outcome.last
    order = np.lexsort((state.ids, -state.weights))
    ids, weights = state.ids[order], state.weights[order]
    pool = np.concatenate([ids, np.setdiff1d(state.near, ids)])
    pool, rows, settings = terms.name_rows(terms.take(pool))
    ids = pool[: len(ids)]
    k, g = len(ids), max(len(aim.given), 1)
    task = Task(None, aim.given.T @ aim.given / g, aim.share)
    return Design(
        ids=ids,
        weights=weights,
        efficiency=state.efficiency,
        information=task.information(rows[:k], weights),
        settings=settings[:k],
        passes=state.passes,
        status=outcome.status,
        scored=state.scored,
        seconds=outcome.seconds,
        criterion=aim.criterion,
        model=terms.spec,
        share=aim.share,
        given=aim.given,
        root=aim.root.matrix,
        root_error=aim.root.error,
        pool_ids=pool,
        pool_rows=rows,
        pool_settings=settings,
        fingerprint=fingerprint(terms.factors),
        table=None if terms.table is None else terms.table.report,
        given_table=aim.given_table,
        terms_of=terms.make if terms.spec.kind == "function" else None,
        harvest=partial(_harvest, terms, search),
    )
