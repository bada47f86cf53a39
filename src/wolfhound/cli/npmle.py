"""`wolfhound npmle`: a table of estimates to shrunken ones, by a mixture that is proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Exit

import wolfhound as wh
from wolfhound.atoms import join
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.core import Vector
from wolfhound.tables import Table, open_table
from wolfhound.validate import require
from wolfhound.writers import write_table

if TYPE_CHECKING:
    from wolfhound.mixtures.families import LikelihoodFamily
    from wolfhound.mixtures.fit import MixtureFit

_SECOND = {"normal": "--se", "student-t": "--se", "poisson": "--exposure", "binomial": "--trials"}
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

    wolfhound npmle claims.csv --x claims --weights policies --family poisson --exposure 1

    wolfhound npmle batters.csv --x hits --trials at_bats --family binomial -o posterior.csv --json
    """
    outputs = output.Outputs(out, save, picture, page).check("a mixture", "mixture")
    require(family in _SECOND, "family", f"one of {', '.join(sorted(_SECOND))}", repr(family))
    table = open_table(data)
    given = {"--se": se, "--exposure": exposure, "--trials": trials}
    observed = _read_column(table, x, "--x")
    second = _find_second(table, family, given, len(observed))
    counts = None if weights is None else _read_column(table, weights, "--weights")
    fit = wh.npmle(observed, _make_family(family, second, df), counts, atol=atol, max_seconds=max_seconds)
    outputs.write(
        lambda path: write_table(path, _list_posterior(table, fit, {x: observed}, level)),
        fit.save,
        figure=fit.plot,
    )
    outputs.tell(fit)
    output.show(as_json, lambda: _document(fit), lambda: output.print_plain(repr(fit)))
    raise Exit(output.exit_code(fit))


def _read_column(table: Table, name: str, flag: str) -> Vector:
    """One column of numbers."""
    require(name in table.names, flag, f"a column among {', '.join(table.names)}", repr(name))
    atoms = join(table.parts([name]))
    return atoms.take(np.arange(atoms.shape[0]))[:, 0].astype(np.float64)


def _find_second(table: Table, family: str, given: dict[str, str | None], n: int) -> float | Vector:
    """Standard errors, exposures or trials: a number, or a column."""
    flag = _SECOND[family]
    for other, text in given.items():
        require(text is None or other == flag, other, f"left out with --family {family}", text)
    text = given[flag]
    if text is None:
        raise ValueError(f"`{flag}` must be given with --family {family}: a column, or one number. Got none.")
    if text in table.names:
        return _read_column(table, text, flag)
    try:
        return float(text)
    except ValueError:
        names = ", ".join(table.names)
        raise ValueError(f"`{flag}` must be a number or a column among {names}. Got {text!r}.") from None


def _make_family(name: str, second: float | Vector, df: float | None) -> LikelihoodFamily:
    require(
        (df is not None) == (name == "student-t"), "--df", "given with --family student-t, and only then", df
    )
    from wolfhound.mixtures.families import FAMILIES  # noqa: PLC0415 - scipy and numba are slow to load

    make = FAMILIES[name][0]
    family: LikelihoodFamily = make(second) if df is None else make(df, second)
    return family


def _list_posterior(
    table: Table, fit: MixtureFit, observed: dict[str, Vector], level: float
) -> dict[str, NDArray[Any]]:
    """The texts of every row, its observation, and what the fit says of it."""
    ends = fit.posterior_interval(level=level)
    texts = {name: table.column(name, missing="") for name in table.texts if name not in observed}
    found = {
        "posterior_mean": fit.posterior_mean(),
        "low": ends[:, 0],
        "high": ends[:, 1],
        "lfsr": fit.lfsr(),
    }
    return {**texts, **observed, **found}


def _document(fit: MixtureFit) -> dict[str, object]:
    return {
        **output.describe_outcome(fit),
        **output.pick(fit, "value", "gap", "gap_on_grid", "rounds", "seconds"),
        "observations": len(fit.x),
        "family": fit.family.name,
        "support": fit.support.tolist(),
        "mass": fit.mass.tolist(),
    }
