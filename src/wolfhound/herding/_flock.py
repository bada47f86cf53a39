"""The rows of all labels (or of none) that are chosen, and the states of a run.

Knows whose turn it is and how places become ids; must not know files, clocks or
how good the outcome is.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from wolfhound.core import Ids, Matrix, Status, Vector
from wolfhound.herding._by import next_label
from wolfhound.herding._greedy import Greedy, fitted_weights
from wolfhound.herding._weights import Means, fit_jointly
from wolfhound.herding.embedding import Embedding
from wolfhound.herding.features import Features
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.mmd import self_sums


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picks:
    """A state of a run, a `Progress`: what a callback of `herd` is given.

    Attributes
    ----------
    t : int
        Steps: rows chosen so far, those of `init` included, then swaps looked at.
    value : float
        Half the squared MMD between the rows and the embedding; inf before it
        is made. With labels: that of all rows plus those within labels.
    passes : float
        Passes over all rows.
    scored : int
        Kernel values and features of rows that were needed.
    kind : str
        "start", "pick" or "swap".
    ids : (t,) int64
        The rows, in the order of their picks; a copy.
    """

    t: int
    value: float
    passes: float
    scored: int
    kind: str
    ids: Ids
    end: Status | None = None

    @property
    def lower(self) -> float:
        """-inf: nothing is proved."""
        return -math.inf

    @property
    def ratio(self) -> float:
        """nan: nothing is audited."""
        return math.nan

    @property
    def slack(self) -> float:
        """inf: nothing is certified."""
        return math.inf


class Flock:
    """The rows chosen so far, over all labels.

    Parameters
    ----------
    herd
        The set that grows, holding the rows of `init`.
    kernel
        With nothing left to choose.
    embeddings
        Of each label (one of all rows), in the order of the herd's pool.
    shares
        Of the labels; sum 1.
    init : (r,)
        Rows that are chosen already.
    used : (u,)
        Rows of the target that the embeddings used, ascending.
    balanced
        Whether all labels are to have as many rows.
    passes, scored
        Passes that the embeddings took, and atoms that they scored.
    features
        That the embeddings were calibrated by, if they were.
    """

    def __init__(
        self,
        herd: Greedy,
        kernel: Kernel,
        embeddings: Sequence[Embedding],
        *,
        shares: Vector,
        init: Ids,
        used: Ids,
        balanced: bool,
        passes: float,
        scored: int,
        features: Features | None = None,
    ) -> None:
        self.herd = herd
        self.embeddings = list(embeddings)
        self.shares = shares
        self.passes = passes
        self._scored = scored
        self.features = features
        self.used = used
        self.held = len(init)
        self.size = len(init)
        self._kernel = kernel
        self._balanced = balanced
        self._ids = np.concatenate([init, np.empty_like(herd.pool.ids)])
        self._owners = np.concatenate([herd.held.labels, np.empty_like(herd.pool.ids)])
        self._counts = np.bincount(herd.held.labels, minlength=len(shares))
        self._room = self._counts + np.diff(herd.pool.starts)

    @property
    def ids(self) -> Ids:
        """(size,) rows in the order of their picks, those of `init` first; a view."""
        return self._ids[: self.size]

    @property
    def owners(self) -> Ids:
        """(size,) labels of these rows; a view."""
        return self._owners[: self.size]

    def pick(self) -> None:
        """Take the best candidate of the label whose turn it is."""
        label = 0
        if len(self.shares) > 1:
            label = next_label(self._counts, self._room, self.shares, balanced=self._balanced)
        self._join(label, self.herd.pick(label))

    def _join(self, label: int, place: int) -> None:
        self.herd.add(place)
        self._ids[self.size] = self.herd.pool.ids[place]
        self._owners[self.size] = label
        self._counts[label] += 1
        self.size += 1

    def replay(self, ids: Ids) -> None:
        """Take these candidates, in this order, as if they had been picked."""
        pool = self.herd.pool
        order = np.argsort(pool.ids)
        for place in order[np.searchsorted(pool.ids, ids, sorter=order)]:
            self._join(pool.label(int(place)), int(place))

    def again(self, ids: Ids) -> Flock:
        """Return a flock with the same candidates and these rows."""
        twin = self.copy()
        twin.herd = self.herd.empty()
        twin.size = self.held
        twin._counts = np.bincount(self.herd.held.labels, minlength=len(self.shares))
        twin.replay(ids[self.held :])
        return twin

    def swap(self, at: int) -> bool:
        """Replace the row at this position by a better one, if there is any."""
        if not self.herd.swap(at - self.held):
            return False
        self.ids[at] = self.herd.pool.ids[self.herd.places[at - self.held]]
        return True

    def fitted(self) -> Vector:
        """(size,) weights: each label has its share, divided as it fits best in the kernel."""
        rows = self._rows()
        if len(self.shares) == 1:
            out = fitted_weights(self._kernel, rows, self.embeddings[0].at(rows))
            return np.asarray(out / out.sum())
        order = np.argsort(self.owners, kind="stable")
        start, owners, rows = self.equal(self.size)[order], self.owners[order], rows[order]
        ends = np.cumsum(np.bincount(owners, minlength=len(self.shares)))
        blocks = [slice(first, end) for first, end in pairwise([0, *ends.tolist()]) if end > first]
        at = np.array([embedding.at(rows) for embedding in self.embeddings])
        # Until each label has a row, the shares of the others are larger: those of the weights.
        shares = np.bincount(owners, weights=start, minlength=len(self.shares))
        means = Means(
            gram=self._kernel.gram(rows, rows).astype(np.float64, copy=False),
            whole=self.shares @ at,
            own=shares[owners] * at[owners, np.arange(self.size)],
            blocks=blocks,
        )
        out = np.empty(self.size)
        out[order] = fit_jointly(means, start)
        return np.asarray(out / out.sum())

    def within(self, weights: Vector) -> Vector:
        """MMD of the rows of each label that has any, against the label's embedding."""
        rows, found = self._rows(), []
        for label in np.unique(self.owners).tolist():
            mine = self.owners == label
            embedding, share = self.embeddings[label], weights[mine] / weights[mine].sum()
            own = share @ self_sums(self._kernel, rows[mine], share, single=False)
            found.append(own - 2.0 * share @ embedding.at(rows[mine]) + embedding.square)
        return np.sqrt(np.maximum(found, 0.0))

    def _rows(self) -> Matrix:
        return np.concatenate([self.herd.held.rows, self.herd.pool.rows[self.herd.places]])

    def equal(self, size: int) -> Vector:
        """(size,) weights of the first rows: each label has its share, equally divided."""
        owners = self.owners[:size]
        weights = (self.shares / np.maximum(1, np.bincount(owners, minlength=len(self.shares))))[owners]
        return np.asarray(weights / weights.sum())

    def state(self, kind: str, t: int, end: Status | None = None) -> Picks:
        """The rows so far, as a state."""
        return Picks(
            t=t,
            value=0.5 * self.herd.squared,
            passes=self.passes,
            scored=self._scored + self.herd.scored,
            kind=kind,
            ids=self.ids.copy(),
            end=end,
        )

    def copy(self) -> Flock:
        """Return a flock that grows on its own."""
        twin = copy.copy(self)
        twin.herd = self.herd.copy()
        twin._ids, twin._owners, twin._counts = self._ids.copy(), self._owners.copy(), self._counts.copy()
        return twin


def states(gather: Callable[[], Flock], m: int, *, begun: Ids, swap: bool) -> Iterator[Picks]:
    """Yield the start, then a state per pick, then one per swap looked at.

    Parameters
    ----------
    gather
        Makes the flock; called after the first state, so that a deadline and
        Ctrl-C are obeyed inside the pass over the rows.
    m
        Rows in all.
    begun
        Rows that the flock will have, fewer than m.
    swap
        Whether each pick is looked at once more.
    """
    yield Picks(t=len(begun), value=math.inf, passes=0.0, scored=0, kind="start", ids=begun.copy())
    flock = gather()
    while flock.size < m:
        flock.pick()
        done = flock.size == m and not swap
        yield flock.state("pick", flock.size, Status.FINISHED if done else None)
    for at in range(flock.held, m if swap else flock.held):
        flock.swap(at)
        yield flock.state("swap", m + 1 + at - flock.held, Status.FINISHED if at == m - 1 else None)
