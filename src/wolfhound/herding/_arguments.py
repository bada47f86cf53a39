"""What `herd` is given, checked and completed: one clear error each."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.herding._by import Labels, allotted
from wolfhound.herding._draw import draw_ids, taken
from wolfhound.herding.features import row_shares
from wolfhound.herding.kernels import Gaussian, Kernel, check_kernel

LEAST, TIMES = 10_000, 4
"""Candidates: at least so many, and so many times as there are picks."""

SINGLE = 1e18
"""Lengthscales of float32 rows lie within [1 / SINGLE, SINGLE], so that their squares are float32 too."""

_FIT = 1 << 21
"""Second word of the seed that draws rows for the lengthscale."""

_SAMPLE = 1000
"""Rows that give the lengthscale."""


def check_kinds(
    switches: Mapping[str, object], *, step: object, oracle: object, features: object, callback: object
) -> None:
    """Raise TypeError where an argument is of another kind than it can be."""
    for name, value in switches.items():
        validate.flag(value, name)
    if step is not None:
        validate.kind(step, "step", "a step such as LineSearch()", "begin", "__call__")
    if oracle is not None and not validate.is_oracle(oracle):
        validate.function(oracle, "oracle", "an oracle such as Scan(atoms), or what makes one, such as Scan")
    if isinstance(features, type):
        raise TypeError(f"`features` must be a map of rows, or an array. Got {validate.describe(features)}.")
    if callback is not None:
        validate.function(callback, "callback", "a function of a state")


def seed_of(seed: int | np.random.Generator) -> int:
    """Return one integer that decides all: a run can then be repeated from a file."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return validate.count(seed, "seed")


def begun(n: int, m: int, init: ArrayLike | None, exclude: ArrayLike | None) -> tuple[Ids, Ids]:
    """Return the ids of `init` and `exclude`, with room for m rows."""
    banned = validate.ids([] if exclude is None else exclude, "exclude", n)
    chosen = validate.ids([] if init is None else init, "init", n)
    both = np.intersect1d(chosen, banned)
    validate.require(not len(both), "init", "none of `exclude`", f"row {both.min(initial=n)} in both")
    size, left = validate.count(m, "m", low=1), n - len(banned)
    rule = f"an integer in [1, {left}], the rows there are" + (" without `exclude`" if len(banned) else "")
    validate.require(size <= left, "m", rule, m)
    validate.require(size > len(chosen), "m", f"more than the {len(chosen)} rows of `init`", m)
    return chosen, banned


def shares_of(row_weights: ArrayLike | None, n: int) -> Vector | None:
    """Return the row weights with sum 1; None stays None."""
    given = None if row_weights is None else validate.vector(row_weights, "row_weights", size=n)
    return row_shares(given, n, "row_weights")


def same_width(target: Atoms | None, atoms: Atoms) -> None:
    """Check that the target has as many columns as what it is compared with."""
    if target is not None:
        d, got = atoms.shape[1], target.shape[1]
        validate.require(got == d, "target", f"rows of {d} columns", f"{got} columns")


def kernels_only(options: Mapping[str, object]) -> None:
    """Check that these are left out where picks are made in a feature space."""
    for name, value in options.items():
        rule = "left out with `features`, `oracle` or `step`"
        hint = ": weights come from `step`, e.g. LineSearch()" if name == "weights" else ""
        validate.require(value is None or value is False, name, rule + hint, value)


def labels_of(
    by: ArrayLike | None, n: int, shares: Vector | None, *, target: Atoms | None, balanced: bool
) -> Labels | None:
    """Return the rows of each label, if there are labels."""
    if by is None:
        validate.require(not balanced, "balanced", "False without `by`", balanced)
        return None
    validate.require(target is None, "target", "None with `by`: herd each label on its own", "one")
    return Labels.of(by, n, shares)


def fitted(kernel: Kernel | None, rows: Atoms, target: Atoms | None, seed: int) -> Kernel:
    """Return the kernel with nothing left to choose."""
    plain = Gaussian() if kernel is None else kernel
    check_kernel(plain)
    validate.require(target is None or not plain.centred, "target", f"None with {plain!r}", "one")
    rng = np.random.default_rng([seed, _FIT])
    sources = [(rows, "rows")] if target is None else [(rows, "rows"), (target, "target")]
    none = np.empty(0, np.int64)
    size = _SAMPLE // len(sources)
    samples = [taken(atoms, draw_ids(atoms.shape[0], size, none, rng), name) for atoms, name in sources]
    sample = np.concatenate(samples)
    found = plain.fitted(sample)
    _moderate(found, sample)
    return found


def _moderate(kernel: Kernel, sample: Matrix) -> None:
    """Check that neither squares of rows nor those of the lengthscale leave their type."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(kernel.diagonal(sample)).all())
    validate.require(finite, "rows", "of moderate size: scale them", "kernel values that overflow")
    length = getattr(kernel, "lengthscale", None)
    if length is not None and sample.dtype == np.float32:
        rule = f"in [{1.0 / SINGLE:g}, {SINGLE:g}] for float32 rows: scale the rows, or give float64"
        validate.require(1.0 / SINGLE <= length <= SINGLE, "lengthscale", rule, length)


def counts_of(
    n: int,
    m: int,
    candidates: int | None,
    labels: Labels | None,
    *,
    taken_ids: tuple[Ids, Ids],
    balanced: bool,
) -> tuple[int, ...]:
    """Return how many candidates each label has, or all rows have.

    Parameters
    ----------
    n, m
        Rows there are, and rows wanted.
    candidates
        Given by the caller: of each label.
    labels
        Rows of each label, if any.
    taken_ids
        `init` and `exclude`.
    balanced
        Whether all labels are to have as many rows.
    """
    init, exclude = taken_ids
    if labels is None:
        free = np.array([n - len(init) - len(exclude)])
        wanted = np.array([m - len(init)])
    else:
        free, wanted = _per_label(m, labels, init, exclude, balanced=balanced)
    if candidates is not None:
        most = int(wanted.max())
        size = validate.count(candidates, "candidates", low=1)
        rule = f"at least {most}, the rows to pick" + (" of one label" if labels is not None else "")
        validate.require(size >= most, "candidates", rule, candidates)
        return tuple(int(count) for count in np.minimum(size, free))
    # All labels together take as long as one set of candidates: their kernel matrices do.
    least = math.ceil(LEAST / math.sqrt(len(free)))
    return tuple(int(count) for count in np.minimum(np.maximum(least, TIMES * wanted), free))


def _per_label(m: int, labels: Labels, init: Ids, exclude: Ids, *, balanced: bool) -> tuple[Ints, Ints]:
    """Rows of each label that are free, and how many are to be picked of it."""
    chosen, banned = np.zeros((2, len(labels.values)), bool)
    chosen[init], banned[exclude] = True, True
    held = np.array([chosen[members].sum() for members in labels.members], np.int64)
    gone = np.array([banned[members].sum() for members in labels.members], np.int64)
    rule = "rows of labels that weigh anything"
    validate.require(int(held.sum()) == len(init), "init", rule, "others")
    room = np.array([len(members) for members in labels.members], np.int64) - gone
    free = room - held
    names = [labels.values[members[0]] for members in labels.members]
    full = [str(name) for name, left in zip(names, free, strict=True) if left < 1]
    validate.require(not full, "by", "labels with a row to pick each", f"none left of {full[:1]}")
    missing = int((held == 0).sum())
    rule = f"at least {len(init) + missing}, one row for each of {len(names)} labels"
    validate.require(m >= len(init) + missing, "m", rule, m)
    rule = f"at most {room.sum()}, the rows of labels that weigh anything"
    validate.require(m <= int(room.sum()), "m", rule, m)
    return free, allotted(m, held, room, labels.shares, balanced=balanced) - held
