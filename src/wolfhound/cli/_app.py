"""All commands, and the options that stand before them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

from typer import Exit, Typer, echo

import wolfhound as wh
from wolfhound.cli import bench, dedup, demo, design, explain, herd, index, npmle, plan, policy, solve, unmix
from wolfhound.cli._frame import Command, Commands
from wolfhound.cli._options import option

app = Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]Start here:[/]\n\n"
    "wolfhound demo\n\n"
    "wolfhound explain atoms.npy --target 17 --exclude-self\n\n"
    "wolfhound solve --help",
)
COMMANDS = (
    demo.demo,
    explain.explain,
    solve.solve,
    unmix.unmix,
    npmle.npmle,
    herd.herd,
    design.design,
    dedup.dedup,
    plan.plan,
    bench.bench,
)
for run in COMMANDS:
    app.command(cls=Command)(run)
app.add_typer(policy.app, name="policy")
app.add_typer(index.app, name="index")


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"wolfhound {wh.__version__}")
        raise Exit


@app.callback()
def root(
    version: Annotated[
        bool, option("Show the version.", "--version", callback=_version, is_eager=True)
    ] = False,
    threads: Annotated[int | None, option("Threads of a pass; no answer depends on it.", min=1)] = None,
    debug: Annotated[bool, option("Show the traceback of an error.", "--debug")] = False,
) -> None:
    """Minimise a smooth convex f over the hull of many atoms, with a proved gap."""
    if threads is not None:
        wh.set_threads(threads)
