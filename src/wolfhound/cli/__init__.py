"""The command line: names and files -> objects, tables, progress bars.

Results go to stdout, everything else to stderr. Exit codes: 0 the run did what
was asked, 1 it did not, 2 wrong use, or a place that cannot be read or written,
130 interrupted, 141 whoever read the results has gone (0 if it was help).

This file imports nothing that Python has not loaded: Ctrl-C is heard from the first line of `main` on.
"""

# SPDX-License-Identifier: Apache-2.0
import sys


def main() -> None:
    """Run the command line; the entry point of the `wolfhound` script."""
    try:
        from wolfhound.cli._start import start  # noqa: PLC0415

        start()
    except KeyboardInterrupt:
        exec("")  # Python forgets that Ctrl-C ended code made of text: `-m` would die of the signal
        sys.exit(130)
