"""What decides a run of kernel herding, and the candidates that follow from it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import fingerprint
from wolfhound.core import Atoms, Ids, Vector
from wolfhound.herding._by import Labels, Part
from wolfhound.herding._draw import taken
from wolfhound.herding._flock import Flock
from wolfhound.herding._greedy import Greedy, Held, Pool
from wolfhound.herding._reference import Noting
from wolfhound.herding.embedding import Embedding, embed
from wolfhound.herding.kernels import Kernel, Linear
from wolfhound.herding.result import Record


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """All that decides a run: rows, kernel and settings, checked.

    Attributes
    ----------
    rows : Atoms
        To pick from.
    kernel : Kernel
        With nothing left to choose.
    target : Atoms, optional
        To stand for; None: the rows.
    labels : Labels, optional
        Of the rows.
    row_weights : (t,), optional
        Weights of the target's rows, with sum 1.
    init, exclude : (r,), (e,)
        Rows that are chosen already, and rows that must not be.
    counts : tuple of int
        Candidates of each label, or of all rows.
    balanced, weights, swap, evaluate : bool
        As given to `herd`.
    seed : int
        Of all that is random.
    """

    rows: Atoms
    kernel: Kernel
    target: Atoms | None
    labels: Labels | None
    row_weights: Vector | None
    init: Ids
    exclude: Ids
    counts: tuple[int, ...]
    balanced: bool
    weights: bool
    swap: bool
    evaluate: bool
    seed: int

    def members(self) -> list[Ids | None]:
        """Rows of each label; None for all rows."""
        return [None] if self.labels is None else list(self.labels.members)

    def record(self) -> Record:
        """Return what a saved result needs to go on."""
        labels = None if self.labels is None else self.labels.values
        return Record(
            counts=self.counts,
            seed=self.seed,
            held=len(self.init),
            exclude=self.exclude,
            balanced=self.balanced,
            weights=self.weights,
            swap=self.swap,
            evaluate=self.evaluate,
            target=() if self.target is None else fingerprint(self.target),
            digests=(digest_of(labels), digest_of(self.row_weights)),
        )


def digest_of(array: NDArray[Any] | None) -> str:
    """Return a hash of an array; "" for none."""
    if array is None:
        return ""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


# ---------------------------------------------------------------- candidates


@contextlib.contextmanager
def naming_rows() -> Iterator[None]:
    """Let errors speak of `rows`, which is what `herd` calls the atoms."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("`atoms`", "`rows`")) from None


def gather(task: Task) -> Flock:
    """Draw candidates and embed the mean that they are to match."""
    # The linear kernel is known by its type; a kernel of known mean has no features.
    plain = task.kernel.centred or isinstance(task.kernel, Linear)
    noting = Noting(task.kernel)
    with naming_rows():
        flock = _flock(task, task.kernel if plain else noting)
    flock.features = noting.noted
    return flock


def _flock(task: Task, kernel: Kernel) -> Flock:
    closed = np.zeros(task.rows.shape[0], bool)
    closed[task.init], closed[task.exclude] = True, True
    held = taken(task.rows, task.init, "rows")
    if task.labels is not None:
        return _labelled(task, task.labels, kernel, closed, held)
    embedding = embed(
        task.rows,
        kernel,
        count=task.counts[0],
        target=task.target,
        row_weights=task.row_weights,
        exclude=np.flatnonzero(closed),
        rng=np.random.default_rng([task.seed, 0]),
    )
    mine = np.zeros(len(held), np.int64)
    return Flock(
        Greedy(Pool.of(embedding), task.kernel, Held(rows=held, labels=mine, ku=embedding.at(held))),
        task.kernel,
        [replace(embedding, kernel=task.kernel)],
        shares=np.ones(1),
        init=task.init,
        used=embedding.base_ids if task.target is not None else np.union1d(embedding.ids, embedding.base_ids),
        balanced=False,
        passes=embedding.passes,
        scored=embedding.scored,
    )


def _labelled(task: Task, labels: Labels, kernel: Kernel, closed: NDArray[np.bool_], held: Any) -> Flock:
    """Candidates of each label, with the means of all rows and of each label."""
    found = [_of_label(task, labels.members[c], kernel, closed, c) for c in range(len(labels.members))]
    whole = _of_all(task, labels, kernel)
    wanted = np.full(len(found), 1.0 / len(found)) if task.balanced else labels.shares
    rows = np.concatenate([each.rows for each in found])
    starts = np.concatenate([[0], np.cumsum([len(each.ids) for each in found])])
    owners = np.zeros(len(task.init), np.int64)
    ku, held_ku = whole.at(rows), whole.at(held)
    for label, each in enumerate(found):
        ku[starts[label] : starts[label + 1]] += wanted[label] * each.ku
        mine = np.isin(task.init, labels.members[label])
        owners[mine] = label
        held_ku[mine] += wanted[label] * each.at(held[mine])
    ids = [members[each.ids] for members, each in zip(labels.members, found, strict=True)]
    bases = [members[each.base_ids] for members, each in zip(labels.members, found, strict=True)]
    pool = Pool(
        ids=np.concatenate(ids),
        rows=rows,
        ku=ku,
        square=whole.square + float(wanted**2 @ [each.square for each in found]),
        starts=starts,
        same=2.0,
    )
    read = sum(each.passes * len(members) for each, members in zip(found, labels.members, strict=True))
    return Flock(
        Greedy(pool, task.kernel, Held(rows=held, labels=owners, ku=held_ku)),
        task.kernel,
        [replace(each, kernel=task.kernel) for each in found],
        shares=labels.shares,
        init=task.init,
        used=np.unique(np.concatenate([*ids, *bases, whole.base_ids])),
        balanced=task.balanced,
        passes=whole.passes + read / len(closed),
        scored=whole.scored + sum(each.scored for each in found),
    )


def _of_label(task: Task, members: Ids, kernel: Kernel, closed: NDArray[np.bool_], label: int) -> Embedding:
    return embed(
        Part(task.rows, members),
        kernel,
        count=task.counts[label],
        row_weights=None if task.row_weights is None else task.row_weights[members],
        exclude=np.flatnonzero(closed[members]),
        rng=np.random.default_rng([task.seed, label]),
    )


def _of_all(task: Task, labels: Labels, kernel: Kernel) -> Embedding:
    """The mean of all rows; balanced: of all labels, each with the same weight."""
    weights = task.row_weights
    if task.balanced and not task.kernel.centred:
        weights = np.zeros(task.rows.shape[0])
        for members in labels.members:
            within = np.ones(len(members)) if task.row_weights is None else task.row_weights[members]
            weights[members] = within / within.sum()
    return embed(
        task.rows,
        kernel,
        count=1,
        row_weights=weights,
        rng=np.random.default_rng([task.seed, len(labels.members)]),
    )
