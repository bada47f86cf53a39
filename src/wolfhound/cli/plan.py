"""`wolfhound plan`: what a run would cost with every oracle, and whether an index pays."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.data import readers


def plan(
    atoms: Annotated[
        str | None, Argument(metavar="ATOMS", help="Atoms, one per row; or --n and --d.", show_default=False)
    ] = None,
    n: Annotated[float | None, option("Number of atoms, such as 1e6.", "--n", metavar="N")] = None,
    d: Annotated[int | None, option("Dimension of the atoms.", "--d", metavar="D")] = None,
    ratio: Annotated[
        float | None,
        option("c, the gap ratio that answers are to have; if not given, the one that costs least."),
    ] = None,
    tau: Annotated[
        float | None,
        option(
            "Inner product of the best atom on the unit sphere; if not given, "
            "typical of a sample, or of random directions."
        ),
    ] = None,
    queries: Annotated[
        float, option("Queries to come, if all answers are the best: steps, states, picks.", metavar="N")
    ] = 1e4,
    interior: Annotated[
        bool, option("The queries come from well inside the hull, as in herding.", "--interior")
    ] = False,
    batch: Annotated[int, option("Queries that are asked together.", min=1)] = 1,
    seed: Annotated[int, option("Seed of the sample.", min=0)] = 0,
    picture: Annotated[Path | None, opt.picture_output("Draw the time in all of every oracle")] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Say what a run costs with every oracle, by theorem and by model, and what pays.

    Nothing is built: seconds follow from two speeds of the machine, which are measured
    in about a second. Of ATOMS a sample is read.

    Examples
    --------
    wolfhound plan --n 1e6 --d 128 --ratio 0.9

    wolfhound plan --n 1e8 --d 96 --queries 1e7 --interior --plot plan.png

    wolfhound plan atoms.npy --json
    """
    outputs = output.Outputs(picture=picture, page=page).check()
    from wolfhound.planning import plan as planning  # noqa: PLC0415 - numba

    found = planning.plan(
        None if atoms is None else readers.read_atoms(atoms),
        n=None if n is None else opt.parse_count(n, "--n"),
        d=d,
        ratio=ratio,
        tau=tau,
        queries=opt.parse_count(queries, "--queries"),
        interior=interior,
        batch=batch,
        seed=seed,
    )
    outputs.write(found)
    if as_json:
        output.print_json(found.summary().document())
    else:
        output.print_plain(str(found))
