"""Kernel herding on candidates with a mean embedding: picks, then swaps, and the states of a run.

A pick is the candidate c that makes the squared MMD of the larger set least:
the largest ``t <mu, k_c> - sum_q k(c, q) - k(c, c)/2`` with t the new size. For
kernels with a constant diagonal this is herding as published; where the
diagonal varies (Stein, linear) the last term is what makes a pick optimal.
Knows no files, and not how good the outcome is.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np

from wolfhound.core.contracts import Ids, Ints, Matrix, Progress, Status, Vector
from wolfhound.herding._compiled import best
from wolfhound.herding.features import Features
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.labels import next_label
from wolfhound.herding.mmd import Embedding
from wolfhound.solve.driver import Limits, Outcome, drive


class Held(NamedTuple):
    """Atoms that are chosen already, none of them a candidate."""

    ids: Ids
    rows: Matrix  # (r, d)
    labels: Ints  # (r,) 0 without labels
    ku: Vector  # (r,) the mean to be matched there


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Candidates, and the mean to be matched at each of them.

    With labels the kernel is ``k(x, y) (1 + [same label])``: what is matched is the mean
    of all rows and that of each label at once. Each label on its own would choose
    the middle of its rows first, and few rows of many labels would all lie there.
    """

    ids: Ids  # (c,) those of one label after those of another
    rows: Matrix  # (c, d)
    ku: Vector  # (c,) <mu, k(c, .)>, with labels in the kernel with labels
    square: float  # |mu|^2 in the same kernel
    starts: Ints  # (labels + 1,) where the candidates of each label begin, and the end
    held: Held
    embeddings: tuple[Embedding, ...]  # of each label; one of all atoms
    shares: Vector  # (labels,) sum 1
    used: Ids  # ids in the target that the embeddings used, ascending
    features: Features | None  # that the embeddings were calibrated by, if they were
    passes: float  # that the embeddings took
    scored: int  # atoms that they scored
    balanced: bool = False  # all labels are to have as many rows
    same: float = 1.0  # what k is multiplied by for rows of one label: 2; without labels 1

    @classmethod
    def of(cls, embedding: Embedding, held_ids: Ids, held_rows: Matrix, *, used: Ids) -> Candidates:
        """Return the candidates of one embedding, without labels."""
        labels = np.zeros(len(held_ids), np.int64)
        return cls(
            ids=embedding.ids,
            rows=embedding.rows,
            ku=embedding.ku,
            square=embedding.mean.square,
            starts=np.array([0, len(embedding.ids)]),
            held=Held(held_ids, held_rows, labels, embedding.at(held_rows)),
            embeddings=(embedding,),
            shares=np.ones(1),
            used=used,
            features=embedding.features,
            passes=embedding.passes,
            scored=embedding.scored,
        )

    def label(self, places: Sequence[int] | int) -> Ints:
        """Labels of some candidates."""
        return np.searchsorted(self.starts, places, side="right") - 1


class Herd:
    """A growing set of atoms, the held ones from the start, and the scores of all candidates to join it."""

    def __init__(self, candidates: Candidates, kernel: Kernel) -> None:
        size, held = len(candidates.ids), candidates.held
        self.candidates = candidates
        self.places: list[int] = []
        self._ids = np.concatenate([held.ids, np.empty_like(candidates.ids)])
        self._counts = np.bincount(held.labels, minlength=len(candidates.shares))
        self.kernel = kernel
        self._row = kernel.row(candidates.rows)
        self._scored = candidates.scored
        self._diagonal: Vector = candidates.same * kernel.diagonal(candidates.rows).astype(np.float64)
        self._half = 0.5 * self._diagonal  # infinite where a candidate is taken
        self._potential = np.zeros(size)  # sum of k(c, q) over the set
        self._scores = np.empty(size)
        self._pairs = 0.0  # sum of k over all pairs of the set, (q, q) included
        self._linear = float(held.ku.sum())  # sum of <mu, k_q> over the set
        for row, label in zip(held.rows, held.labels, strict=True):
            self._potential += self._values(row, int(label))
        if len(held.rows):
            gram = kernel.gram(held.rows, held.rows)
            alike = held.labels[:, None] == held.labels
            self._pairs = float((gram * np.where(alike, candidates.same, 1.0)).sum(dtype=np.float64))

    def _values(self, row: Matrix, label: int) -> Matrix:
        """(c,) kernel values of one row with all candidates."""
        self._scored += len(self._potential)
        out = self._row(row)
        if self.candidates.same > 1.0:
            first, stop = self.candidates.starts[label : label + 2]
            out[first:stop] *= self.candidates.same
        return out

    @property
    def size(self) -> int:
        """Atoms in the set."""
        return len(self.candidates.held.ids) + len(self.places)

    @property
    def ids(self) -> Ids:
        """(size,) atoms in the order of their picks, those held from the start first."""
        return self._ids[: self.size].copy()

    @property
    def labels(self) -> Ints:
        """(size,) numbers of their labels."""
        return np.concatenate([self.candidates.held.labels, self.candidates.label(self.places)])

    @property
    def rows(self) -> Matrix:
        """(size, d) the atoms themselves."""
        return np.concatenate([self.candidates.held.rows, self.candidates.rows[self.places]])

    @property
    def mmd_squared(self) -> float:
        """Squared MMD between the set and the mean, up to rounding >= 0."""
        t = max(1, self.size)
        return max(0.0, self._pairs / t**2 - 2.0 * self._linear / t + self.candidates.square)

    def pick(self) -> int:
        """Place of the best candidate of the label whose turn it is."""
        label, about = 0, self.candidates
        if len(about.shares) > 1:
            room = np.bincount(about.held.labels, minlength=len(about.shares)) + np.diff(about.starts)
            label = next_label(self._counts, room, about.shares, balanced=about.balanced)
        place = self._best(self._potential, label, self.size + 1)
        if place < 0:
            why = "no candidate has a finite score; scale the atoms"
            raise FloatingPointError(f"`atoms` must be of moderate size: {why}")
        return place

    def _best(self, potential: Vector, label: int, size: int) -> int:
        part = slice(*self.candidates.starts[label : label + 2])
        linear = self.candidates.ku[part]
        found = best(potential[part], linear, self._half[part], float(size), self._scores[part])
        return found if found < 0 else int(part.start) + found

    def add(self, place: int) -> None:
        """Take a candidate into the set."""
        self._pairs += 2.0 * float(self._potential[place]) + float(self._diagonal[place])
        self._linear += float(self.candidates.ku[place])
        self._enter(place)
        self._ids[self.size] = self.candidates.ids[place]
        self._counts[self.candidates.label(place)] += 1
        self.places.append(place)

    def swap(self, at: int) -> bool:
        """Replace the pick at this position by the best of its label, if that is better."""
        old = self.places[at]
        label = int(self.candidates.label(old))
        without = self._potential - self._values(self.candidates.rows[old], label)
        self._half[old] = 0.5 * self._diagonal[old]
        new = self._best(without, label, self.size)
        self._half[old] = math.inf
        if not self._scores[new] > self._scores[old]:
            return False
        self._half[old] = 0.5 * self._diagonal[old]
        self._pairs += 2.0 * float(without[new] - without[old])
        self._pairs += float(self._diagonal[new] - self._diagonal[old])
        self._linear += float(self.candidates.ku[new] - self.candidates.ku[old])
        self._potential = without
        self._enter(new)
        self._ids[len(self.candidates.held.ids) + at] = self.candidates.ids[new]
        self.places[at] = new
        return True

    def _enter(self, place: int) -> None:
        self._potential += self._values(self.candidates.rows[place], int(self.candidates.label(place)))
        self._half[place] = math.inf

    def replay(self, ids: Ids) -> Herd:
        """Return a new set of the same candidates that has these picks, made in this order."""
        twin = Herd(self.candidates, self.kernel)
        order = np.argsort(self.candidates.ids)
        for place in order[np.searchsorted(self.candidates.ids, ids, sorter=order)]:
            twin.add(int(place))
        return twin

    def copy(self) -> Herd:
        """Return a set that grows on its own."""
        twin = copy.copy(self)
        twin.places, twin._ids, twin._counts = self.places.copy(), self._ids.copy(), self._counts.copy()
        twin._half, twin._potential = self._half.copy(), self._potential.copy()
        twin._scores = self._scores.copy()
        twin._row = self.kernel.row(self.candidates.rows)
        return twin

    def equal_weights(self, size: int) -> Vector:
        """(size,) weights of the first atoms: each label has its share, equally divided."""
        labels, shares = self.labels[:size], self.candidates.shares
        weights = (shares / np.maximum(1, np.bincount(labels, minlength=len(shares))))[labels]
        return np.asarray(weights / weights.sum())

    def state(self, kind: str, t: int, end: Status | None = None) -> Picks:
        """The set so far, as a state."""
        value, passes = 0.5 * self.mmd_squared, self.candidates.passes
        return Picks(t=t, value=value, passes=passes, scored=self._scored, kind=kind, ids=self.ids, end=end)


# ---------------------------------------------------------------- states


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picks:
    """A state of a run, a `Progress`: what a callback of `herd` is given."""

    t: int  # atoms chosen so far, those of `start` included, then swaps looked at
    # Half the squared MMD between the atoms and the embedding; inf before it is made. With labels: that of
    # all atoms plus those within labels.
    value: float
    passes: float  # over all atoms
    scored: int  # kernel values and features of atoms that were needed
    kind: str  # "start", "pick" or "swap"
    ids: Ids  # (t,) in the order of their picks; a copy
    end: Status | None = None
    lower: ClassVar[float] = -math.inf  # nothing is proved,
    ratio: ClassVar[float] = math.nan  # audited
    slack: ClassVar[float] = math.inf  # or certified


def states(gather: Callable[[], Herd], m: int, *, begun: Ids, swap: bool) -> Iterator[Picks]:
    """Yield the start, then a state per pick until there are m, then one per swap looked at.

    `gather` makes the set, with the atoms `begun`, after the first state, so that a deadline and
    Ctrl-C are obeyed inside the pass over the atoms.
    """
    yield Picks(t=len(begun), value=math.inf, passes=0.0, scored=0, kind="start", ids=begun.copy())
    herd = gather()
    while herd.size < m:
        herd.add(herd.pick())
        done = herd.size == m and not swap
        yield herd.state("pick", herd.size, Status.FINISHED if done else None)
    last = len(herd.places) - 1
    for at in range(len(herd.places) if swap else 0):
        herd.swap(at)
        yield herd.state("swap", m + 1 + at, Status.FINISHED if at == last else None)


def run(
    make: Callable[[], Herd],
    m: int,
    *,
    begun: Ids,
    swap: bool,
    limits: Limits,
    callback: Callable[[Progress], bool | None] | None,
    began: float,
) -> tuple[Herd, Outcome[Picks]]:
    """Pick until there are m, and return the set as it was at the last state; see `states` and `drive`."""
    made: list[Herd] = []
    lost: list[OSError] = []

    def remember() -> Herd:
        try:
            made.append(make())
        except OSError as error:
            lost.append(error)
            raise
        return made[0]

    picks = states(remember, m, begun=begun, swap=swap)
    found = drive(picks, goal=0.0, limits=limits, callback=callback, began=began)
    if lost:
        raise lost[0]
    if found.last.kind == "start":
        refuse_nothing(found.status, limits.seconds)
    herd = made[0]
    if not np.array_equal(herd.ids, found.last.ids) or found.status is Status.INTERRUPTED:
        # Ctrl-C may have come between two of its numbers.
        herd = herd.replay(found.last.ids[len(herd.candidates.held.ids) :])
    return herd, found


def refuse_nothing(status: Status, max_seconds: float) -> None:
    """Raise: a run ended before the first pick."""
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if status is Status.STOPPED:
        raise RuntimeError("the callback stopped the run before the first pick")
    raise TimeoutError(
        f"`max_seconds` = {max_seconds:g} was over before the first pick: the atoms must be read once."
        " Raise it."
    )
