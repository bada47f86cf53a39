"""What a command begins with: streams that can be written, and Ctrl-C that is heard wherever it comes.

Loads nothing that takes long: until this is there, Ctrl-C is that of Python.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from types import FrameType

_SOON = 0.02  # seconds


def start() -> None:
    """Run the command line; KeyboardInterrupt is passed on."""
    # Who started this may have switched Ctrl-C off, as `nohup` and `&` do.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGALRM, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _lost
    try:
        _check_streams()
        from wolfhound.cli._app import app  # noqa: PLC0415

        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # a user of the command cannot act on them
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


# ---------------------------------------------------------------- Ctrl-C


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; inside an import, which might turn it into another error, where that ends."""
    importer = None
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            importer = frame.f_back
        frame = frame.f_back
    if importer is None:
        raise KeyboardInterrupt
    # As a debugger does: the next line of whoever imports, after all of it, is where it stops. A
    # timer would wait for a moment between imports, and a short command has none.
    importer.f_trace = _stop
    sys.settrace(lambda *event: None)


def _stop(frame: FrameType, event: str, argument: object) -> None:
    sys.settrace(None)
    raise KeyboardInterrupt


def _lost(found: sys.UnraisableHookArgs) -> None:
    """Hear of exceptions that could not be passed on, as in a callback of compiled code."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _SOON)  # SIGALRM is Ctrl-C once more
    else:
        sys.__unraisablehook__(found)
