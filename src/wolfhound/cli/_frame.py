"""What all commands share: a mistake is told in one line, and no exit code lies."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from typer import Abort, Exit
from typer.core import TyperCommand, TyperGroup

from wolfhound.cli._console import TYPED, stderr

READER_GONE = 128 + 13
"""Exit code of a command whose results nobody read: what a shell says of SIGPIPE."""

MISTAKES = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, EOFError)
"""What the library raises on wrong use, and what files, streams and too little memory raise."""


class _Framed:
    """What a command and a group of them do alike; comes before the class of typer."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments, or print help or the version."""
        with _print_help():
            return super().make_context(*args, **kwargs)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        """Run and turn what is raised into an exit code; refuse to write over what is read."""
        with _tell_mistakes(ctx):
            _check_reads(ctx)
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
            _say(_wrong_use(error))
        sys.exit(_deliver(code))


def _wrong_use(error: Any) -> str:
    text: str = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # help was printed
        return ""
    path = "" if error.ctx is None else f" See {error.ctx.command_path} --help."
    return (text if text.endswith("?") else text.rstrip(".") + ".") + path


# ---------------------------------------------------------------- what is raised


@contextlib.contextmanager
def _tell_mistakes(ctx: Any) -> Iterator[None]:
    """Say a mistake in one line that names the options as the user does."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(130) from None
    except BrokenPipeError:
        raise Exit(READER_GONE) from None
    except MISTAKES as error:
        if ctx.find_root().params.get("debug"):
            raise
        _say(_as_typed(str(error) or "There is too little memory.", ctx.command.params))
        raise Exit(2) from None


@contextlib.contextmanager
def _print_help() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, SystemExit):  # rich exits
        raise Exit(0) from None  # who reads one line of help wanted no more
    except OSError as error:
        _say(f"standard output cannot be written: {error.strerror}.")
        raise Exit(2) from None


def _check_reads(ctx: Any) -> None:
    """Refuse to write over what is read; a command that writes no file need not wait for numpy."""
    if any(isinstance(value, str | Path) for value in ctx.params.values()):
        from wolfhound.cli import _places as places  # noqa: PLC0415

        places.check_reads(ctx)


def _as_typed(text: str, params: list[Any]) -> str:
    """Return the text with `max_steps` as `--max-steps`."""
    from wolfhound.cli import _places as places  # noqa: PLC0415

    names = {param.name: places.spell(param) for param in params}
    return re.sub(r"`(\w+)`", lambda found: f"`{names.get(found[1], found[1])}`", text)


# ---------------------------------------------------------------- streams


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
