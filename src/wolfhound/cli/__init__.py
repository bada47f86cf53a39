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

_SOON = 0.02  # seconds


def main() -> None:
    """Run the command line; the entry point of the `wolfhound` script."""
    _check_streams()
    # Who started this may have switched Ctrl-C off, as `nohup` and `&` do.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # no import is told: it might not stop
    from wolfhound.cli._app import app  # noqa: PLC0415

    sys.unraisablehook = _again
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # a user of the command cannot act on them
    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app(prog_name="wolfhound")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
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


def _again(lost: sys.UnraisableHookArgs) -> None:
    """Send Ctrl-C once more if it came where no exception can pass: a callback of compiled code."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    timer = threading.Timer(_SOON, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
