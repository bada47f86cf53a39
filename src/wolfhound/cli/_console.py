"""Where commands print: results on stdout, everything else on stderr.

Of the standard library and rich alone, for help must not wait for numpy.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import IO, Any, cast

from rich.console import Console

_PIPED_WIDTH = 200

TYPED: ContextVar[str] = ContextVar("typed", default="")
"""The command as it was typed."""


def stdout() -> Console:
    """Return the console for results."""
    return _console(StandardStream(sys.stdout, name_stdout))


def stderr() -> Console:
    """Return the console for everything else."""
    # A run does not end because nobody can hear how far it is.
    return _console(StandardStream(sys.stderr, lambda: contextlib.suppress(OSError)))


def _console(file: StandardStream) -> Console:
    console = _Console(file=cast("IO[str]", file), highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH  # a pipe has no width: lines must not be folded for it
    return console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # the frame of all commands knows what to do  # noqa: PLE0704


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
