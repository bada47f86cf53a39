"""All commands, and what they share: streams, a mistake told in one line, exit codes that do not lie.

A command is imported when it is run or its own help is read: the list of all of them, the version and
completion in a shell wait for none, nor for numpy.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Annotated, Any, TextIO, cast

from rich.console import Console
from typer import Abort, Exit, Option, Typer, echo
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import wolfhound as wh

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

MISTAKES = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, EOFError)
"""What the library raises on wrong use, and what files, streams and too little memory raise."""

READER_GONE = 128 + 13
"""Exit code of a command whose results nobody read: what a shell says of SIGPIPE."""

TYPED: ContextVar[str] = ContextVar("typed", default="")
"""The command as it was typed."""

_PIPED_WIDTH = 200
_SOON = 0.02  # seconds


# ---------------------------------------------------------------- streams


def stdout() -> Console:
    """Return the console for results."""
    return _make_console(StandardStream(sys.stdout, name_stdout))


def stderr() -> Console:
    """Return the console for everything else."""
    # A run does not end because nobody can hear how far it is.
    return _make_console(StandardStream(sys.stderr, lambda: contextlib.suppress(OSError)))


def _make_console(file: StandardStream) -> Console:
    console = _Console(file=cast("IO[str]", file), highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH  # a pipe has no width: lines must not be folded for it
    return console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # `_tell_mistakes` knows what to do  # noqa: PLE0704


class StandardStream:
    """A stream that was there when the process began; `guard` hears of what cannot be written."""

    def __init__(self, stream: IO[str], guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream, self._guard = stream, guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._guard():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._guard():
            self._stream.flush()


@contextlib.contextmanager
def name_stdout() -> Iterator[None]:
    """Let the error say that it is stdout that cannot be written."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def write(text: str) -> None:
    """Write a text to stdout as it stands."""
    stream = StandardStream(sys.stdout, name_stdout)
    stream.write(text)
    stream.flush()


def _say(text: str) -> None:
    """Print an error, unless there is none or `_deliver` will tell it: stdout takes nothing."""
    if text and _flush(sys.stdout) is None:
        stderr().print("[bold red]error:[/]", end=" ")
        stderr().print(" ".join(text.split()), markup=False, soft_wrap=True)


def _deliver(code: int) -> int:
    """Return the exit code, another one if what was printed cannot be written."""
    error = _flush(sys.stdout)
    if error is not None:
        _silence(sys.stdout)
    if error is not None and not isinstance(error, BrokenPipeError):
        _say(f"standard output cannot be written: {error.strerror}.")
        code = code or 2
    if _flush(sys.stderr) is not None:
        _silence(sys.stderr)
    return code


def _flush(stream: TextIO) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        return error
    return None


def _silence(stream: TextIO) -> None:
    """Let what is left in a stream go nowhere, or Python would complain of it at the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


# ---------------------------------------------------------------- what is raised


class _Framed:
    """What a command and a group of them do alike; comes before the class of typer."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments, or print help or the version."""
        try:
            return super().make_context(*args, **kwargs)  # type: ignore[misc]
        except (BrokenPipeError, SystemExit):  # rich exits
            raise Exit(0) from None  # who reads one line of help wanted no more
        except OSError as error:
            _say(f"standard output cannot be written: {error.strerror}.")
            raise Exit(2) from None

    def invoke(self, ctx: Any) -> Any:
        """Run and turn what is raised into an exit code; refuse to write over what is read."""
        with _tell_mistakes(ctx):
            # A command that writes no file need not wait for numpy.
            if any(isinstance(value, str | Path) for value in ctx.params.values()):
                from wolfhound.cli._options import check_reads  # noqa: PLC0415

                check_reads(ctx)
            return super().invoke(ctx)  # type: ignore[misc]


class Command(_Framed, TyperCommand):
    """A command; the examples of its docstring end its help."""

    def __init__(self, *args: Any, help: str, **kwargs: Any) -> None:
        text, _, examples = help.partition("\n\nExamples\n--------\n")
        title = "Examples" if "\n\n" in examples else "Example"
        super().__init__(*args, **{**kwargs, "help": text, "epilog": f"[bold]{title}:[/]\n\n{examples}"})


class Commands(_Framed, TyperGroup):
    """A group of commands."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run all, say wrong use in one line, and see that what was printed has arrived."""
        given = args[0] if args else kwargs.get("args")
        TYPED.set(shlex.join(["wolfhound", *(sys.argv[1:] if given is None else given)]))
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False}) or 0
        except Abort:
            code = 130
        except Exception as error:
            # Typer has click in itself or beside it, as its version goes: no class stands for both.
            if not hasattr(error, "format_message"):
                raise
            code = 2
            _say(describe_wrong_use(error))
        sys.exit(_deliver(code))


def describe_wrong_use(error: Any) -> str:
    """Return what typer says of wrong arguments as one sentence, and where to read more."""
    text: str = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # help was printed
        return ""
    path = "" if error.ctx is None else f" See {error.ctx.command_path} --help."
    if path and hasattr(error, "option_name"):  # as others call it? What is nearest in letters would mislead
        from wolfhound.core.validate import FOREIGN  # noqa: PLC0415 - numpy

        ours = f"--{FOREIGN.get(error.option_name[2:].replace('-', '_'))}".replace("_", "-")
        if any(ours in each.opts for each in error.ctx.command.params):
            text = f"No such option: {error.option_name}. Did you mean {ours}?"
    return (text if text.endswith("?") else text.rstrip(".") + ".") + path


@contextlib.contextmanager
def _tell_mistakes(ctx: Any) -> Iterator[None]:
    """Say a mistake in one line that names the options as the user does: `max_steps` is `--max-steps`."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(130) from None
    except BrokenPipeError:
        raise Exit(READER_GONE) from None
    except MISTAKES as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # some imports give it another name
            raise Exit(130) from None
        if ctx.find_root().params.get("debug"):
            raise
        from wolfhound.cli._options import spell  # noqa: PLC0415 - numpy

        names = {param.name: spell(param, TYPED.get()) for param in ctx.command.params}
        text = str(error) or "There is too little memory."
        _say(re.sub(r"`(\w+)`", lambda found: f"`{names.get(found[1], found[1])}`", text))
        raise Exit(2) from None


# ---------------------------------------------------------------- all commands


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
        one.add_typer(module.app, name=name, help=GROUPS[name])
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


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"wolfhound {wh.__version__}")
        raise Exit


@app.callback()
def root(
    version: Annotated[
        bool, Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    threads: Annotated[int | None, Option(help="Threads of a pass; no answer depends on it.", min=1)] = None,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Minimise a smooth convex f over the hull of many atoms, with a proved gap."""
    if threads is not None:
        wh.set_threads(threads)


# ---------------------------------------------------------------- the process


def run() -> None:
    """Run the command line in a process of its own; KeyboardInterrupt is passed on."""
    # Who started this may have switched Ctrl-C off, as `nohup` and `&` do.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        sys.unraisablehook = _repeat_interrupt
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # a user of the command cannot act on them
    try:
        _check_streams()
        app(prog_name="wolfhound")
    finally:
        if heard:  # all is done but the cleaning up
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _check_streams() -> None:
    """Refuse a closed stdout; keep the numbers of other closed streams from files."""
    if sys.stdout is None:
        with contextlib.suppress(AttributeError, OSError):  # stderr may be closed too
            sys.stderr.write("error: standard output must be open. Got a closed one.\n")
        sys.exit(2)
    for name in ("stdin", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not end the run.
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _repeat_interrupt(found: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C once more where it could not be passed on, as in a callback of compiled code."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _SOON)  # SIGALRM is Ctrl-C, too
    else:
        sys.__unraisablehook__(found)
