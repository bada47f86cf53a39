"""How long a comparison of policies will take, from what its parts took so far."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wolfhound.cli._output import seconds_text
from wolfhound.cli._progress import Meter, Reading

if TYPE_CHECKING:
    from wolfhound.policy.feed.compare import Bout

_LEAST = 0.02  # of a bout, before which its time is a guess


class Forecast:
    """Reads the bouts of `compare`: where it is, and how much time is left.

    A policy whose turn has not come is taken to need what the others need on average.

    Parameters
    ----------
    names
        Of all policies, in their order.
    seeds
        Runs of each.
    """

    def __init__(self, names: Sequence[str], seeds: int) -> None:
        self._names, self._seeds = tuple(names), seeds
        self._took: dict[str, float] = {}
        self._bout: Bout | None = None
        self._begun = 0.0

    def read(self, meter: Meter) -> Reading:
        """Say what is shown; see `Meter`."""
        bout: Bout | None = meter.state
        if bout is None:
            return Reading(0.0, "starting")
        left = self.left(bout, meter.seconds)
        where = f"{bout.name}, seed {bout.seed}: {bout.done + 1} of {bout.total}"
        if left is None:
            return Reading(bout.done / bout.total, where)
        return Reading(meter.seconds / (meter.seconds + left), f"{where}, about {seconds_text(left)} left")

    def left(self, bout: Bout, now: float) -> float | None:
        """Seconds to come after `now`, which counts from the beginning; None: too early to say."""
        if self._bout is None or bout.done != self._bout.done:
            if self._bout is not None and bout.done == self._bout.done + 1:
                self._took[self._bout.name] = now - self._begun
            self._bout, self._begun = bout, now
        spent, known = now - self._begun, dict(self._took)
        if bout.share >= _LEAST:
            known[bout.name] = spent / bout.share
        if not known:
            return None
        mean = sum(known.values()) / len(known)
        turns = [self._names[i % len(self._names)] for i in range(bout.done, bout.total)]
        return max(sum(known.get(name, mean) for name in turns) - spent, 0.0)
