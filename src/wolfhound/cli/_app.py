"""All commands, and the options that stand before them.

A command is imported when it is run or its own help is read: the list of all of
them, the version and completion in a shell wait for none.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from typing import Annotated, Any

from typer import Exit, Option, Typer, echo
from typer.core import TyperCommand
from typer.main import get_group

import wolfhound as wh
from wolfhound.cli._frame import Command, Commands

COMMANDS = {
    "demo": "Explain words by other words, prove it, and race classical Frank-Wolfe.",
    "explain": "Explain points as sparse convex mixtures of atoms, with a proved gap.",
    "solve": "Minimise a smooth convex f over the hull of the atoms, with a proved gap.",
    "unmix": "Unmix pixels: the mixture of spectra that is closest to each, with a proved gap.",
    "npmle": "Shrink estimates: the mixing distribution of largest likelihood, with a proved gap.",
    "herd": "Choose m rows that stand for all: training sets, thinning, matched samples.",
    "design": "Plan experiments: the best runs among very many, with a proved efficiency.",
    "plan": "Say what a run costs with every oracle, by theorem and by model, and what pays.",
    "doctor": "Say what is installed and how it is set up, for reports of bugs.",
}
"""First lines of the help of `wolfhound.cli.<name>.<name>`."""

GROUPS = {
    "policy": "Policies whose actions are mixtures of many given vectors.",
    "index": "Build, ask, edit, describe and check indexes of atoms.",
}
"""Help of `wolfhound.cli.<name>.app`, which has commands of its own."""


class AllCommands(Commands):
    """All commands; until one is asked for by its name, it is a line in the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, line in {**COMMANDS, **GROUPS}.items():
            self.commands[name] = TyperCommand(name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is asked for."""
        if args[0] in self.commands:
            self.commands[args[0]] = load_command(args[0])
        return super().resolve_command(ctx, args)


def load_command(name: str) -> Any:
    """Import a command, or a group of them."""
    module = importlib.import_module(f"wolfhound.cli.{name}")
    one = Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    if name in GROUPS:
        one.add_typer(module.app, name=name)
    else:
        one.command(cls=Command)(getattr(module, name))
    return get_group(one).commands[name]


app = Typer(
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]Start here:[/]\n\n"
    "wolfhound demo\n\n"
    "wolfhound explain atoms.npy --target 17 --exclude-self\n\n"
    "wolfhound solve --help",
)


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"wolfhound {wh.__version__}")
        raise Exit


@app.callback()
def root(
    version: Annotated[
        bool, Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    threads: Annotated[int | None, Option(help="Threads of a pass; no answer depends on it.", min=1)] = None,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Minimise a smooth convex f over the hull of many atoms, with a proved gap."""
    if threads is not None:
        wh.set_threads(threads)
