"""The command line: names and files -> objects, tables, progress bars.

Results go to stdout, everything else to stderr. Exit codes: 0 the run did what
was asked, 1 it did not, 2 wrong use, 130 interrupted.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import wolfhound as wh
from wolfhound.cli import bench, demo, explain, herd, index, plan, policy, solve
from wolfhound.cli._output import stderr


class Commands(TyperGroup):
    """The command group; says a user's mistake in one line, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise  # the reader has gone; typer ends quietly
        except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
            if ctx.params.get("debug"):
                raise
            stderr().print("[bold red]error:[/]", end=" ")
            stderr().print(str(error), markup=False)
            raise typer.Exit(2) from None


app = typer.Typer(
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
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=explain.EXAMPLES)(explain.explain)
app.command(epilog=solve.EXAMPLES)(solve.solve)
app.command(epilog=herd.EXAMPLES)(herd.herd)
app.command(epilog=plan.EXAMPLES)(plan.plan)
app.command(epilog=bench.EXAMPLES)(bench.bench)
app.add_typer(policy.app, name="policy")
app.add_typer(index.app, name="index")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wolfhound {wh.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a pass; no answer depends on it.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Minimise a smooth convex f over the hull of many atoms, with a proved gap."""
    if threads is not None:
        wh.set_threads(threads)


def main() -> None:
    """Run the command line; the entry point of the `wolfhound` script."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not end the run.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="wolfhound")
