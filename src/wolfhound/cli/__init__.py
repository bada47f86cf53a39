"""The command line: names and files -> objects, tables, progress bars.

Results go to stdout, everything else to stderr. Exit codes: 0 the run did what was asked, 1 it did not,
2 wrong use, or a place that cannot be read or written, 130 interrupted, 141 whoever read the results has
gone (0 if it was help).

No other room knows of it, and it computes nothing. Begin with `_app` (all commands, mistakes, exit codes)
and a command, such as `herd`; they share `_options` (what is typed and read) and `_output` (what is
printed and written).
"""

# SPDX-License-Identifier: Apache-2.0
import sys


def main() -> None:
    """Run the command line; the entry point of the `wolfhound` script."""
    try:
        from wolfhound.cli._app import run  # noqa: PLC0415 - Ctrl-C is heard while it is loaded, too

        run()
    except (KeyboardInterrupt, Exception) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__context__  # some imports give Ctrl-C another name
        if cause is None:
            raise
        sys.exit(130)
