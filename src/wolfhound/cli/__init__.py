"""The command line: names and files -> objects, tables, progress bars.

Results go to stdout, everything else to stderr. Exit codes: 0 the run did what
was asked, 1 it did not, 2 wrong use, or a place that cannot be read or written,
130 interrupted, 141 whoever read the results has gone (0 if it was help).

Importing this loads nothing: Ctrl-C must be heard before what takes long.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from types import FrameType

_SOON = 0.02  # seconds


def main() -> None:
    """Run the command line; the entry point of the `wolfhound` script."""
    # Who started this may have switched Ctrl-C off, as `nohup` and `&` do.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if heard:
            signal.signal(signal.SIGINT, _interrupt)
        _check_streams()
        from wolfhound.cli._app import app  # noqa: PLC0415

        sys.unraisablehook = _lost
        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # a user of the command cannot act on them
        app(prog_name="wolfhound")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        exec("")  # Python forgets that Ctrl-C ended code made of text: `-m` would die of the signal
        if heard:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done but the cleaning up


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


# ---------------------------------------------------------------- Ctrl-C


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not inside an import, which might turn it into another error."""
    importer = None
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importer = frame.f_back
        frame = frame.f_back
    if importer is None:
        raise KeyboardInterrupt
    # As a debugger does: the next line of whoever imports, after all of it, is where it stops.
    importer.f_trace = _stop
    sys.settrace(lambda *event: None)


def _stop(frame: FrameType, event: str, argument: object) -> None:
    sys.settrace(None)
    raise KeyboardInterrupt


def _lost(found: sys.UnraisableHookArgs) -> None:
    """Hear of exceptions that could not be passed on, as in a callback of compiled code."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        _again()
    else:
        sys.__unraisablehook__(found)


def _again() -> None:
    """Send Ctrl-C once more, soon."""
    timer = threading.Timer(_SOON, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
