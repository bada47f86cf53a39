"""`design`: which of very many possible experiments to run, with a proved efficiency."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Oracle, Vector
from wolfhound.core.progress import Job, Reading, show_progress
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import hint_keywords, make_named
from wolfhound.data.atoms import MappedAtoms, block_rows, fingerprint, finite_rows, to_places, to_rows
from wolfhound.data.encoding import Missing, TableAtoms, TableReport, check_missing
from wolfhound.designs.criteria import CRITERIA, Criterion, DOptimal, Root, scale_root, scale_to_one
from wolfhound.designs.exact import Pool, check_size
from wolfhound.designs.factors import (
    MODELS,
    Column,
    Expression,
    Formula,
    ModelLike,
    ModelSpec,
    TermMap,
    TermModel,
    map_terms,
    measure_coding,
    name_columns,
    read_factors,
    show_settings,
)
from wolfhound.designs.result import Design
from wolfhound.designs.search import DesignState, Search, Task, complete_sample, draw_sample
from wolfhound.methods.asking import POOL
from wolfhound.oracles.forms import FormScan, find_candidates, survey
from wolfhound.solve.driver import Limits, Outcome, drive

_LARGEST = 1e70  # terms are smaller, and larger than its inverse, or zero: their products must be numbers
_FAR = 40  # so are columns whose sizes are beyond 2 to this power
_SPREAD = 2.0**10  # columns whose sizes differ by more are scaled, by powers of two: exact


@hint_keywords
def design(
    candidates: Oracle | AtomsLike,
    *,
    criterion: Criterion | str | None = None,
    model: ModelLike | str = None,
    given: AtomsLike | None = None,
    runs: int | None = None,
    exclude: ArrayLike | Callable[[dict[str, Any]], Any] | str | None = None,
    columns: Sequence[str] | str | None = None,
    missing: Missing | str = Missing.DROP,
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
        `DOptimal()` by default; `AOptimal()`, `IOptimal(region)`; or a letter: "D", "A", "I".
    model
        `LinearModel()`, `Interactions()`, `Quadratic()`, or a name: "quadratic"; a formula:
        "1 + t * p + C(catalyst)" (needs ``wolfhound[formulas]``); a function of blocks of rows to blocks of
        terms; or None: the rows are the terms.
    given
        Rows of experiments that were run already; needs `runs`.
    runs
        How many more are planned, which says how much the given ones weigh.
    exclude : (e,) ids, an expression, or a function, optional
        Candidates that must not be used. An expression is one of pandas: "t > 80 and catalyst == 'Pd'". A
        function is given factors by name, (r,) each, texts as they were written, and returns (r,) truths:
        ``lambda x: (x["t"] > 80) & (x["catalyst"] == "Pd")``. Either takes a pass over all candidates.
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
    began, missing = time.perf_counter(), check_missing(missing)
    goal = validate.within(efficiency, "efficiency", "(0, 1)")
    limits = Limits(passes=max_passes, seconds=max_seconds)
    rng = validate.rng(seed)
    criterion = DOptimal() if criterion is None else make_named(criterion, CRITERIA, "criterion")
    formula = isinstance(model, str) and not model.strip().isidentifier()  # more than the name of a model
    made: ModelLike | str = model if formula else make_named(model, MODELS, "model")
    validate.kind(criterion, "criterion", "a criterion such as DOptimal()", "find_root", "name")
    with one_blas_thread():
        read = partial(read_factors, columns=columns, missing=missing, numeric_only=numeric_only)
        terms = _prepare(candidates, made, rng, read)._replace(missing=missing)
        if callable(exclude) or isinstance(exclude, str):
            exclude = _forbid(terms, Expression(exclude) if isinstance(exclude, str) else exclude)
        else:
            exclude = to_places(terms.table, exclude, "exclude", strict=False)
        banned = np.sort(validate.ids([] if exclude is None else exclude, "exclude", terms.rows.shape[0]))
        past, share, given_table = _read_given(terms, given, runs)
        ids, sizes = _draw(terms, past, banned, rng)
        root = criterion.find_root(terms.rows, lambda value: terms.of(value, "region"))
        aim = _Aim(criterion.name, root, past, share, given_table)
        search = _open_search(terms, aim, banned, sizes, 1.0 - goal)
    states = _run(search, ids, terms.spec.terms, terms.passes + root.passes)
    with show_progress(progress, _read_state, callback) as hear:
        outcome = drive(states, goal=-math.log(goal), limits=limits, callback=hear, began=began)
    return _finish(terms, aim, outcome, search)


def _read_state(job: Job) -> Reading:
    """Say how far a run is; see `show_progress`."""
    if job.state is None:
        return Reading(0.0, f"reading candidates, {job.swept:,} rows, {job.seconds:.0f} s")
    text = f"efficiency >= {job.state.efficiency:.6f}, {job.state.passes:.2f} passes, {job.seconds:.0f} s"
    return Reading(0.5, text)


class _Aim(NamedTuple):
    """What is optimised, in the terms of the caller."""

    criterion: str
    root: Root
    given: Vector  # (g, d) terms of the given runs
    share: float  # of these in all
    given_table: TableReport | None = None  # what became of their rows, where they were a table


class _Candidates(NamedTuple):
    """Candidates as rows of factors and as rows of terms."""

    factors: Atoms
    rows: Atoms
    spec: ModelSpec
    make: Callable[[Matrix], Matrix] | None = None  # factors to terms; None: they are the same
    passes: float = 0.0  # to prepare them
    oracle: Oracle | None = None  # the caller's
    missing: Missing = Missing.DROP

    @property
    def table(self) -> TableAtoms | None:
        """What the candidates were, if that was a table."""
        return self.factors if isinstance(self.factors, TableAtoms) else None

    def take(self, ids: Ids) -> Pool:
        """Return candidates in float64, by the rows of the table that they are."""
        rows, settings = self.rows.take(ids), self.factors.take(ids)
        return Pool(to_rows(self.table, ids), rows.astype(np.float64), settings.astype(np.float64))

    def read(self, value: AtomsLike, name: str) -> Atoms:
        """Other rows of the same factors."""
        return read_factors(value, name, self.spec.columns, missing=self.missing)[0]

    def of(self, value: AtomsLike, name: str) -> Atoms:
        """Terms of other rows of factors."""
        rows = self.read(value, name)
        if self.make is None:
            return rows
        return map_terms(rows, self.make, self.rows.shape[1], np.dtype(np.float64))


def _prepare(
    candidates: Oracle | AtomsLike,
    model: ModelLike | str,
    rng: np.random.Generator,
    read: Callable[[AtomsLike, str], tuple[Atoms, tuple[Column, ...]]],
) -> _Candidates:
    """Read the candidates and apply the model."""
    if validate.is_oracle(candidates):
        rows = find_candidates(candidates.atoms)
        if rows is None or model is not None:
            what = "an oracle of forms such as FormScan(terms), without a model"
            raise TypeError(f"`candidates` must be {what}. Got {validate.describe(candidates)}.")
        return _Candidates(rows, rows, _name_terms(name_columns(rows.shape[1])), oracle=candidates)
    factors, columns = read(candidates, "candidates")  # type: ignore[arg-type]
    if model is None:
        texts = [column.name for column in columns if column.levels]
        validate.require(not texts, "model", "given for categories, e.g. LinearModel()", f"None for {texts}")
        return _Candidates(factors, factors, _name_terms(columns))
    if isinstance(model, TermModel) and not isinstance(model, type):
        return _apply_model(factors, columns, model, rng)
    if isinstance(model, str):
        model = Formula(model, columns, _draw_some(factors, rng))
    return _apply_function(factors, columns, model)


def _draw_some(factors: Atoms, rng: np.random.Generator) -> Matrix:
    """Rows by which numbers are coded, and formulas learn."""
    return finite_rows(factors, np.unique(rng.integers(0, factors.shape[0], 1024)))


def _forbid(terms: _Candidates, rule: Callable[[dict[str, Any]], Any]) -> Ids:
    """Return the candidates that a rule of the caller excludes; one pass."""
    found = [np.zeros(0, np.int64)]
    for first, block in terms.factors.blocks(block_rows(terms.factors)):
        gone = np.asarray(rule(show_settings(terms.spec.columns, block)))
        right = gone.shape == (len(block),) and gone.dtype == np.bool_
        validate.require(right, "exclude", "a rule of one truth per candidate", validate.describe(gone))
        found.append(first + np.flatnonzero(gone))
    return np.concatenate(found)


def _name_terms(columns: tuple[Column, ...]) -> ModelSpec:
    return ModelSpec("terms", False, columns, tuple(column.name for column in columns))


def _apply_function(
    factors: Atoms, columns: tuple[Column, ...], model: Callable[[Matrix], Any]
) -> _Candidates:
    validate.function(model, "model", "a model such as Quadratic(), or a function of rows")
    validate.require(not isinstance(model, type), "model", "a model such as Quadratic()", model)
    first = np.asarray(model(factors.take(np.arange(1))))
    right, rule = first.ndim == 2 and len(first) == 1, "a function to one row of terms per row"
    validate.require(right, "model", rule, first.shape)
    d = first.shape[1]
    names = model.names if isinstance(model, Formula) else tuple(f"t{i}" for i in range(1, d + 1))
    spec = ModelSpec("function", False, columns, names)
    return _Candidates(factors, map_terms(factors, model, d, factors.dtype), spec, model)


def _apply_model(
    factors: Atoms, columns: tuple[Column, ...], model: TermModel, rng: np.random.Generator
) -> _Candidates:
    coding, passes = measure_coding(factors, columns, _draw_some(factors, rng), shift=model.intercept)
    make = TermMap(model, coding)
    kind = next((name for name, each in MODELS.items() if type(model) is each), "function")
    centre, half = tuple(coding.centre.tolist()), tuple(coding.half.tolist())
    spec = ModelSpec(kind, model.intercept, columns, make.names, centre, half)
    rows = map_terms(factors, make, len(make.names), factors.dtype)
    return _Candidates(factors, rows, spec, make, passes)


def _read_given(
    terms: _Candidates, given: AtomsLike | None, runs: int | None
) -> tuple[Vector, float, TableReport | None]:
    """(g, d) terms of the given runs, their share in all, and what became of their rows."""
    if given is None:
        return np.empty((0, terms.rows.shape[1])), 0.0, None
    factors = terms.read(given, "given")
    rows = terms.of(factors, "given")
    past = np.asarray(finite_rows(rows, np.arange(rows.shape[0]), "given"), np.float64)
    report = factors.report if isinstance(factors, TableAtoms) else None
    if len(past) == 0:
        return past, 0.0, report
    if runs is None:
        raise ValueError("`runs` must be given with `given`: how many more runs are planned. Got None.")
    return past, len(past) / (len(past) + check_size(runs)), report


def _draw(terms: _Candidates, given: Vector, banned: Ids, rng: np.random.Generator) -> tuple[Ids, Vector]:
    """Candidates that are read first, and (d,) how large each term is there; 1 if it is zero."""
    ids = draw_sample(terms.rows.shape[0], banned, rng)
    validate.require(len(ids) > 0, "exclude", "fewer than all candidates", f"{len(banned):,} ids")
    rows = finite_rows(terms.rows, ids[:POOL]).astype(np.float64)
    sizes = np.abs(np.concatenate([rows, given])).max(axis=0)
    sizes[sizes == 0.0] = 1.0
    small, large = float(sizes.min()), float(sizes.max())
    rule = f"rows of terms between {1.0 / _LARGEST:g} and {_LARGEST:g} in size; scale them"
    right = large < _LARGEST and small > 1.0 / _LARGEST
    validate.require(right, "candidates", rule, f"{small:g} .. {large:g}")
    return ids, sizes


def _open_search(terms: _Candidates, aim: _Aim, banned: Ids, sizes: Vector, goal: float) -> Search:
    """Scale the terms if they must be."""
    scale = scale_to_one(sizes)
    rows, oracle = terms.rows, terms.oracle
    near = 2.0**-_FAR < scale.min() and scale.max() < 2.0**_FAR
    moderate = near and scale.max() < _SPREAD * scale.min()
    if oracle is not None or moderate:
        scale = np.ones_like(scale)
    else:
        rows = MappedAtoms(rows, partial(np.multiply, scale), len(scale))  # can be pickled
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
    return terms.take(best)


def _finish(terms: _Candidates, aim: _Aim, outcome: Outcome[DesignState], search: Search) -> Design:
    """Collect what was found, in the terms of the caller."""
    state = outcome.last
    order = np.lexsort((state.ids, -state.weights))
    ids, weights = state.ids[order], state.weights[order]
    pool = np.concatenate([ids, np.setdiff1d(state.near, ids)])
    pool, rows, settings = terms.take(pool)
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
