"""How far a pass is: who sweeps atoms reports it, who runs it listens and may leave.

Knows no oracle and no driver.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from wolfhound.core import Status


class Cut(Exception):
    """Raised by a report to leave a pass; carries the status of the run."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


_listener: ContextVar[Callable[[int], None]] = ContextVar("progress", default=lambda rows: None)


def report_rows(rows: int) -> None:
    """Say that `rows` atoms were swept; may raise `Cut`. Driver thread only."""
    _listener.get()(rows)


@contextlib.contextmanager
def on_progress(listener: Callable[[int], None]) -> Iterator[None]:
    """Call `listener`, then any outer listener, at every report."""
    outer = _listener.get()

    def both(rows: int) -> None:
        listener(rows)
        outer(rows)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)
