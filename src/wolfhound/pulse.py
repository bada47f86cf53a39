"""The pulse of a pass: who sweeps atoms says so, who runs it listens and may leave.

Knows no oracle and no driver.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from wolfhound.core import Status


class Cut(Exception):
    """Raised by a pulse to leave a pass; carries the status of the run."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


_pulse: ContextVar[Callable[[int], None]] = ContextVar("pulse", default=lambda rows: None)


def pulse(rows: int) -> None:
    """Say that `rows` atoms were swept; may raise `Cut`. Driver thread only."""
    _pulse.get()(rows)


@contextlib.contextmanager
def on_pulse(listener: Callable[[int], None]) -> Iterator[None]:
    """Call `listener`, then any outer listener, at every pulse."""
    outer = _pulse.get()

    def both(rows: int) -> None:
        listener(rows)
        outer(rows)

    token = _pulse.set(both)
    try:
        yield
    finally:
        _pulse.reset(token)
