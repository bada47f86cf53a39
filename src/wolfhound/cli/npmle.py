"""`wolfhound npmle`: a table of estimates to shrunken ones, by a mixture that is proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Argument

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.core.contracts import Ids, Vector
from wolfhound.core.validate import require
from wolfhound.data.encoding import (
    EncodingPlan,
    Missing,
    Table,
    TableAtoms,
    encode_source,
    read_column,
    read_texts,
)
from wolfhound.data.table_files import ArrayTable, open_table
from wolfhound.data.tables import Kind, find_free
from wolfhound.data.writers import write_table

if TYPE_CHECKING:
    from wolfhound.mixtures.fit import MixtureFit

_SECOND = {
    "normal": "--se",
    "normal-scales": "--se",
    "student-t": "--se",
    "poisson": "--exposure",
    "binomial": "--trials",
}
"""The option that names the column, or the number, that a family has besides x."""


def npmle(
    data: Annotated[str, Argument(metavar="DATA", help="A .csv or .parquet table, an observation per row.")],
    x: Annotated[str, option("Column of the observations: estimates, or counts.", metavar="COLUMN")],
    family: Annotated[str, option(f"One of {', '.join(sorted(_SECOND))}.")] = "normal",
    se: Annotated[
        str | None, option("Standard errors: a column, or one number.", "--se", metavar="COLUMN")
    ] = None,
    exposure: Annotated[str | None, option("Exposures: a column, or one number.", metavar="COLUMN")] = None,
    trials: Annotated[str | None, option("Trials: a column, or one number.", metavar="COLUMN")] = None,
    df: Annotated[float | None, option("Degrees of freedom of student-t.", "--df")] = None,
    weights: Annotated[str | None, option("Column of weights, such as counts.", metavar="COLUMN")] = None,
    null: Annotated[
        float | None, option("Parameter that many rows have exactly, such as 0 for no effect.")
    ] = None,
    missing: Annotated[
        str, option("Rows without a value: left out, or refused.", metavar="drop|error")
    ] = "drop",
    level: Annotated[float, option("Posterior probability of the intervals.")] = 0.95,
    atol: Annotated[float, opt.stopping("Wanted proved gap, in nats per observation.")] = 1e-6,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    out: Annotated[
        Path | None, opt.table_output("Write a posterior mean for every row", "-o", "--out")
    ] = None,
    save: opt.Save = None,
    picture: Annotated[Path | None, opt.picture_output("Draw prior, marginal and shrinkage")] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Shrink estimates: the mixing distribution of largest likelihood, with a proved gap.

    Examples
    --------
    wolfhound npmle data.csv --x z --se s -o posterior.csv --plot prior.png

    wolfhound npmle genes.csv --x beta --se s --family normal-scales --null 0 -o posterior.csv

    wolfhound npmle claims.csv --x claims --weights policies --family poisson --exposure 1

    wolfhound npmle batters.csv --x hits --trials at_bats --family binomial -o posterior.csv --json
    """
    outputs = output.Outputs(out, save, picture, page).check("mixture")
    require(family in _SECOND, "family", f"one of {', '.join(sorted(_SECOND))}", repr(family))
    table = open_table(data)
    if isinstance(table, ArrayTable):
        raise ValueError("DATA must be a .csv or .parquet table. Got arrays without names.")
    flag = _SECOND[family]
    beside = _find_second(table, family, {"--se": se, "--exposure": exposure, "--trials": trials})
    values, found = _read_columns(table, {"--x": x, flag: beside, "--weights": weights}, missing)
    freedom = (df is not None) == (family == "student-t")
    require(freedom, "--df", "given with --family student-t, and only then", df)
    from wolfhound.mixtures.families import FAMILIES  # noqa: PLC0415 - scipy and numba are slow to load

    second = values[flag] if flag in values else float(beside)
    fit = wh.npmle(
        values["--x"],
        FAMILIES[family](*([] if df is None else [df]), second),
        values.get("--weights"),
        null=null,
        atol=atol,
        max_seconds=max_seconds,
        progress=True,
    )
    outputs.finish(
        fit,
        lambda path: write_table(path, _list_posterior(table, fit, x, found.ids, level)),
        as_json=as_json,
        notes=found.report.notes,
        more={"dropped": found.report.rows - found.shape[0]},
    )


def _read_columns(
    table: Table, flags: dict[str, str | None], missing: str
) -> tuple[dict[str, Vector], TableAtoms]:
    """Return columns of numbers by the options that name them, and the rows in which each has a value."""
    rule = "one of drop, error: a mean is no observation"
    require(missing in ("drop", "error"), "--missing", rule, missing)
    # What is no column of --se and the like is a number; of the others, a mistake.
    named = {
        flag: name
        for flag, name in flags.items()
        if name is not None and (flag in ("--x", "--weights") or name in table.names)
    }
    for flag, name in named.items():
        require(name in table.names, flag, f"a column among {', '.join(table.names)}", repr(name))
        kind = table.kinds[name]
        what = f"a column of numbers; {name} holds {kind.value}"
        require(kind is Kind.NUMBER, flag, what, repr(name))
    wanted = list(dict.fromkeys(named.values()))
    found = encode_source(table, EncodingPlan(missing=Missing.DROP, called="DATA"), wanted)
    if missing == "error":
        opt.require_complete(found, "DATA", "leave such rows out with --missing drop")
    rows = found.take(np.arange(found.shape[0])).astype(np.float64)
    return {flag: np.ascontiguousarray(rows[:, wanted.index(name)]) for flag, name in named.items()}, found


def _find_second(table: Table, family: str, given: dict[str, str | None]) -> str:
    """Standard errors, exposures or trials: the text of a number, or a column."""
    flag = _SECOND[family]
    for other, text in given.items():
        require(text is None or other == flag, other, f"left out with --family {family}", text)
    text = given[flag]
    if text is None:
        raise ValueError(f"`{flag}` must be given with --family {family}: a column, or one number. Got none.")
    if text not in table.names:
        try:
            float(text)
        except ValueError:
            names = ", ".join(table.names)
            raise ValueError(f"`{flag}` must be a number or a column among {names}. Got {text!r}.") from None
    return text


def _list_posterior(
    table: Table, fit: MixtureFit, x: str, ids: Ids | None, level: float
) -> dict[str, NDArray[Any]]:
    """The columns of every row but vectors, and what the fit says of it; nan for rows left out."""
    given: dict[str, NDArray[Any]] = {}
    for name in table.names:
        if table.kinds.get(name) is Kind.NUMBER:  # of rows that are left out, too
            values, missing = read_column(table, name)
            plain = name != x and not missing.any()
            given[name] = values if plain else np.where(missing, np.nan, values.astype(np.float64))
        elif table.kinds.get(name) is not Kind.VECTOR:
            given[name] = np.array(read_texts(table, name, ""))
    size = len(given[x])
    low, high = fit.posterior_interval(level=level).T
    found = {"posterior_mean": fit.posterior_mean(), "low": low, "high": high, "lfsr": fit.lfsr()}
    added = {find_free(name, given, "npmle_"): np.full(size, np.nan) for name in found}
    for column, known in zip(added.values(), found.values(), strict=True):
        column[slice(None) if ids is None else ids] = known
    return {**given, **added}
