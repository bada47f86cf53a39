"""`wolfhound design`: which of many possible experiments to run."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.core.validate import require
from wolfhound.data.writers import write_table

if TYPE_CHECKING:
    from wolfhound.designs.criteria import Criterion
    from wolfhound.designs.factors import Factors, ModelLike

Texts = list[str] | None

_what = opt.in_panel("What is planned")
_ROWS = 1_000_000
"""Runs that are written row by row: a table is made in memory."""


def design(
    candidates: Annotated[
        str | None,
        Argument(metavar="[CANDIDATES]", help="Possible experiments, one per row: .npy, .csv or .parquet."),
    ] = None,
    factor: Annotated[
        Texts,
        _what(
            "In place of CANDIDATES: a factor and its levels, all combinations; repeat.", metavar="NAME=A,B,C"
        ),
    ] = None,
    columns: Annotated[Texts, _what("Columns that are factors; else all.", metavar="A,B,C")] = None,
    model: Annotated[
        str,
        _what(
            'linear, interactions, quadratic; "1 + t * p", a formula; or terms: rows are the terms.',
            metavar="MODEL",
        ),
    ] = "linear",
    no_intercept: Annotated[bool, _what("No constant term: mixtures.", "--no-intercept")] = False,
    criterion: Annotated[
        str, _what("d: coefficients, all at once; a: their mean variance; i: predictions.", metavar="D|A|I")
    ] = "d",
    region: Annotated[
        str | None, _what("Where predictions are wanted, for i; else all candidates.", metavar="FILE")
    ] = None,
    missing: opt.MissingValues = "drop",
    numeric_only: opt.NumericOnly = False,
    runs: Annotated[int | None, _what("Runs of the plan; without it, weights.", min=1, max=10**15)] = None,
    given: Annotated[str | None, _what("Experiments that were run already.", metavar="FILE")] = None,
    exclude: Annotated[
        Texts,
        _what("Candidates not to use: 3,17, or an expression: \"t > 80 and cat == 'Pd'\".", metavar="WHICH"),
    ] = None,
    efficiency: Annotated[float, opt.stopping("Wanted proved efficiency of the weights.")] = 1.0 - 1e-6,
    max_passes: opt.MaxPasses = opt.UNLIMITED,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        opt.table_output("Write the plan, a row per run, in the random order of --seed", "-o", "--out"),
    ] = None,
    save: opt.Save = None,
    picture: Annotated[Path | None, opt.picture_output("Draw the design and its variance")] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Plan experiments: the best runs among very many, with a proved efficiency.

    Examples
    --------
    wolfhound design candidates.parquet --model quadratic --criterion d --runs 24 -o plan.csv

    wolfhound design --factor temperature=20,30,40 --factor catalyst=none,Pd,Pt --model interactions --runs 12

    wolfhound design candidates.csv --columns temperature,pressure --criterion i --plot design.png

    wolfhound design candidates.csv --given done.csv --runs 8 -o more.csv

    wolfhound design candidates.csv --model "1 + t * p + C(cat)" --exclude "t > 80 and cat == 'Pd'" --runs 12
    """
    outputs = output.Outputs(out, save, picture, page).check("design")
    if runs is not None and (out is not None or as_json):
        rule = f"at most {_ROWS:,} with --out or --json, which hold a row per run; use --save instead"
        require(runs <= _ROWS, "--runs", rule, f"{runs:,}")
    possible = _find_candidates(candidates, factor or (), opt.split(columns or ()))
    with opt.name_options(candidates="CANDIDATES"):
        found = wh.design(
            possible,
            criterion=_choose_criterion(criterion, region),
            model=_choose_model(model, intercept=not no_intercept),
            given=given,
            runs=runs,
            columns=opt.split(columns or ()) or None,
            missing=opt.parse_missing(missing),
            numeric_only=numeric_only,
            exclude=_read_exclude(exclude or ()),
            efficiency=efficiency,
            max_passes=max_passes,
            max_seconds=max_seconds,
            progress=True,
            seed=seed,
        )
        plan = None if runs is None else found.round(runs)
    order = f"the runs of {out} are in random order, as --seed {seed} draws it: no drift looks like a factor"
    outputs.finish(
        found,
        lambda path: write_table(path, found.to_columns() if plan is None else plan.to_columns(seed=seed)),
        as_json=as_json,
        notes=[] if plan is None or out is None else [("order", order)],
        parts={} if plan is None else {"plan": plan},
        shown=found if plan is None else {"Weights": found, "Runs": plan},
    )


def _find_candidates(file: str | None, factors: Sequence[str], columns: Sequence[str]) -> str | Factors:
    from wolfhound.designs.factors import Factors  # noqa: PLC0415 - not needed for --help

    if file is not None:
        require(not factors, "--factor", "left out where CANDIDATES are given", factors[0] if factors else "")
        return file
    require(bool(factors), "CANDIDATES", "a file, or at least one --factor", "neither")
    require(not columns, "--columns", "left out with --factor", ", ".join(columns))
    levels: dict[str, list[float] | list[str]] = {}
    for text in factors:
        name, equals, values = text.partition("=")
        parts = opt.split([values])
        require(bool(name.strip() and equals and parts), "--factor", "NAME=A,B,C", text)
        require(name.strip() not in levels, "--factor", "given once for each name", text)
        try:
            levels[name.strip()] = [float(part) for part in parts]
        except ValueError:  # they are texts, unless all are numbers
            levels[name.strip()] = parts
    return Factors(levels)


def _read_exclude(texts: Sequence[str]) -> str | list[int]:
    """Ids, or one expression: it has more than digits and commas."""
    if len(texts) == 1 and not set(texts[0]) <= set("0123456789, -"):
        return texts[0]
    return opt.parse_ids(opt.split(texts), "--exclude", "ids of candidates, 3,17,4, or one expression")


def _choose_model(name: str, *, intercept: bool) -> ModelLike | str:
    from wolfhound.designs.factors import MODELS  # noqa: PLC0415 - not needed for --help

    if name == "terms":
        return None
    if not name.strip().isidentifier():
        require(intercept, "--no-intercept", "left out with a formula: write 0 + ...", name)
        return name
    require(name in MODELS, "--model", f"one of {', '.join(MODELS)}, terms, or a formula: 1 + x", name)
    return MODELS[name](intercept)


def _choose_criterion(name: str, region: str | None) -> Criterion:
    from wolfhound.designs.criteria import CRITERIA  # noqa: PLC0415 - not needed for --help

    letter = name.upper()
    require(letter in CRITERIA, "--criterion", f"one of {', '.join(CRITERIA).lower()}", name)
    require(region is None or letter == "I", "--region", "left out unless --criterion is i", region)
    return wh.IOptimal(region) if letter == "I" else CRITERIA[letter]()
