"""`wolfhound npmle`: a table of estimates to shrunken ones, by a mixture that is proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Exit

import wolfhound as wh
from wolfhound._arrow import Kind
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.core import Ids, Vector
from wolfhound.encoding import EncodingPlan, Missing, Table, encode_source, read_column, read_texts
from wolfhound.tables import ArrayTable, open_table
from wolfhound.validate import require
from wolfhound.writers import find_free, write_table

if TYPE_CHECKING:
    from wolfhound.mixtures.families import LikelihoodFamily
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
        Path | None,
        opt.file_output(
            "Write a posterior mean for every row: .csv, .json, .npy or .parquet.", "--out", "-o"
        ),
    ] = None,
    save: opt.Save = None,
    picture: Annotated[
        Path | None, opt.file_output("Draw prior, marginal and shrinkage: .png, .svg or .pdf.", "--plot")
    ] = None,
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
    outputs = output.Outputs(out, save, picture, page).check("a mixture", "mixture")
    require(family in _SECOND, "family", f"one of {', '.join(sorted(_SECOND))}", repr(family))
    table = _open_named(data)
    given = {"--se": se, "--exposure": exposure, "--trials": trials}
    beside = _find_second(table, family, given)
    read = _read_columns(table, {"--x": x, _SECOND[family]: beside, "--weights": weights}, missing)
    observed, second, counts = (read.get(flag) for flag in ("--x", _SECOND[family], "--weights"))
    second = float(beside) if second is None else second
    fit = wh.npmle(
        observed,
        _make_family(family, second, df),
        counts,
        null=null,
        atol=atol,
        max_seconds=max_seconds,
        progress=True,
    )
    outputs.write(
        lambda path: write_table(path, _list_posterior(table, fit, x, read, level)), fit.save, figure=fit.plot
    )
    outputs.tell(fit)
    told = fit.summary()
    output.tell(told._replace(fields=(*told.fields, *read.notes)), as_json, dropped=read.dropped)
    raise Exit(output.exit_code(fit))


def _open_named(data: str) -> Table:
    table = open_table(data)
    if isinstance(table, ArrayTable):
        raise ValueError("DATA must be a .csv or .parquet table. Got arrays without names.")
    return table


class _Columns(NamedTuple):
    """What was read of a table: columns of the rows that are complete."""

    values: dict[str, Vector]
    ids: Ids
    rows: int
    notes: tuple[tuple[str, str], ...]

    @property
    def dropped(self) -> int:
        """Rows that were left out."""
        return self.rows - len(self.ids)

    def get(self, flag: str) -> Any:
        """The column of an option; None if it names none."""
        return self.values.get(flag)

    def spread(self, values: NDArray[Any]) -> Vector:
        """Values of all rows, nan where one was left out."""
        out = np.full(self.rows, np.nan)
        out[self.ids] = values
        return out


def _read_columns(table: Table, flags: dict[str, str | None], missing: str) -> _Columns:
    """Read the columns of numbers that options name, without rows in which one has no value."""
    require(
        missing in ("drop", "error"), "--missing", "one of drop, error: a mean is no observation", missing
    )
    # What is no column of --se and the like is a number; of the others, a mistake.
    sure = {flag for flag in flags if flag in ("--x", "--weights")}
    named = {
        flag: name
        for flag, name in flags.items()
        if name is not None and (flag in sure or name in table.names)
    }
    for flag, name in named.items():
        require(name in table.names, flag, f"a column among {', '.join(table.names)}", repr(name))
    kinds = table.kinds
    for flag, name in named.items():
        what = f"a column of numbers; {name} holds {kinds[name].value}"
        require(kinds[name] is Kind.NUMBER, flag, what, repr(name))
    wanted = list(dict.fromkeys(named.values()))
    with opt.name_options():
        found = encode_source(table, EncodingPlan(missing=Missing.DROP, called="DATA"), wanted)
    if missing == "error":
        opt.require_complete(found, "DATA", "leave such rows out with --missing drop")
    rows = found.take(np.arange(found.shape[0])).astype(np.float64)
    values = {flag: np.ascontiguousarray(rows[:, wanted.index(name)]) for flag, name in named.items()}
    ids = np.arange(found.report.rows) if found.ids is None else found.ids
    return _Columns(values, ids, found.report.rows, found.report.notes)


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


def _make_family(name: str, second: float | Vector, df: float | None) -> LikelihoodFamily:
    require(
        (df is not None) == (name == "student-t"), "--df", "given with --family student-t, and only then", df
    )
    from wolfhound.mixtures.families import FAMILIES  # noqa: PLC0415 - scipy and numba are slow to load

    make = FAMILIES[name][0]
    family: LikelihoodFamily = make(second) if df is None else make(df, second)
    return family


def _list_posterior(
    table: Table, fit: MixtureFit, x: str, read: _Columns, level: float
) -> dict[str, NDArray[Any]]:
    """The texts of every row, its observation, and what the fit says of it; nan for rows left out."""
    ends = fit.posterior_interval(level=level)
    texts = [name for name in table.texts if name != x]
    given: dict[str, NDArray[Any]] = {name: np.array(read_texts(table, name, "")) for name in texts}
    given[x] = _read_observed(table, x)
    found = {
        "posterior_mean": fit.posterior_mean(),
        "low": ends[:, 0],
        "high": ends[:, 1],
        "lfsr": fit.lfsr(),
    }
    added = {find_free(name, given, "npmle_"): read.spread(values) for name, values in found.items()}
    return {**given, **added}


def _read_observed(table: Table, x: str) -> Vector:
    """The observations of all rows, also of those left out because another value is missing."""
    values, missing = read_column(table, x)
    return np.where(missing, np.nan, values.astype(np.float64))
