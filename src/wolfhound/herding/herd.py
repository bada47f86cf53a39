"""`herd`: a few weighted atoms whose mean embedding matches that of millions.

Checks and completes what it is given, then runs.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.core import validate
from wolfhound.core.contracts import AtomsLike, Ids, Ints, Progress
from wolfhound.core.progress import Job, Reading, show_progress
from wolfhound.core.validate import hint_keywords, make_named
from wolfhound.data.atoms import finite_rows, to_places
from wolfhound.data.encoding import Missing, check_missing
from wolfhound.herding.kernels import KERNELS, Gaussian, Kernel, check_kernel
from wolfhound.herding.labels import Labels, allot
from wolfhound.herding.mmd import draw_ids
from wolfhound.herding.result import HerdResult
from wolfhound.herding.session import (
    HerdData,
    HerdSettings,
    KernelSession,
    TableOptions,
    check_start,
    seed_number,
)
from wolfhound.solve.driver import Limits

LEAST, TIMES = 10_000, 4  # candidates: at least so many, and so many times as there are picks
_FIT = 1 << 21  # second word of the seed that draws rows for the lengthscale
_SAMPLE = 1000  # rows that give the lengthscale


@hint_keywords
def herd(
    atoms: AtomsLike,
    m: int,
    *,
    kernel: Kernel | str | None = None,
    target: AtomsLike | None = None,
    by: ArrayLike | str | Sequence[str] | None = None,
    balanced: bool = False,
    start: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    weights: bool = False,
    swap: bool = False,
    row_weights: ArrayLike | None = None,
    columns: Sequence[str] | str | None = None,
    missing: Missing | str = Missing.LEVEL,
    numeric_only: bool = False,
    standardize: bool = False,
    candidates: int | None = None,
    max_seconds: float = math.inf,
    callback: Callable[[Progress], bool | None] | None = None,
    progress: bool | None = None,
    seed: int | np.random.Generator = 0,
    evaluate: bool = True,
) -> HerdResult:
    """Pick m atoms, with weights, that stand for all: their kernel means nearly agree.

    Random candidates are drawn, the mean embedding of all atoms is computed in one
    pass, and each pick is the candidate that brings the mean of the atoms picked so
    far closest to it, in the kernel itself. `herd_in_features` does so in a feature
    space of your own.

    Parameters
    ----------
    atoms : (n, d) array, atoms, path, a list of these, or a table
        What to pick from; never all in memory if in files. A frame of pandas or polars, a table
        of Arrow, and .csv and .parquet files become atoms as `encode` has it.
    m
        Atoms wanted in all, those of `start` included.
    kernel
        What is matched: `Gaussian()` by default, with the median distance as
        lengthscale; `Laplace`, `Linear`, `Stein` on `with_scores(atoms, scores)`, or
        a `Kernel` of your own; or a name of `KERNELS`, such as "laplace".
    target : (t, d), optional
        Other atoms to stand for, rather than those picked from.
    by : (n,) labels, or the name of a column or several, optional
        Pick for each label: in proportion to its atoms, at least one each. The mean
        of each label is matched beside that of all atoms; two passes.
    balanced
        As many atoms for each label. Weights still sum to the label's share.
    start : ids, optional
        Atoms that are chosen already: the first ids of the result. They count in
        the mean and are never swapped.
    exclude : ids, optional
        Atoms that must not be picked. They count in the mean that is matched.
    weights
        Fit weights on the simplex; some may be 0. Else they are equal (within a label).
    swap
        Look at each pick once more when there are m. Helps in low dimension.
    row_weights : (n,), optional
        Weights >= 0 of the atoms (of the target, if given) in the mean; only
        ratios matter.
    columns
        Of a table: those that count; None: all that can, without those of `by`.
    missing
        Of a table: missing values are a level of their own, `Missing.LEVEL`, of numbers the mean and a
        column that says so; the means of the columns, `Missing.MEAN`; such rows are left out,
        `Missing.DROP`; or refused, `Missing.ERROR`. Ids stay those of the table.
    numeric_only
        Of a table: texts, categories and truths do not count, else they are one-hot.
    standardize
        Scale the columns to variance 1 first; one more pass.
    candidates
        Random atoms to pick from (with `by`: of each label), at least as many as
        are to be picked. Default ``max(10_000, 4 * m)``, at most all.
    max_seconds
        The atoms picked until then are returned, weighted, and evaluated as far as
        time is left; if there are none yet, TimeoutError is raised.
    callback
        Called with every state (`t` atoms so far, `value`, `ids`, ...); returning
        True stops. Ctrl-C stops too; the atoms so far are returned.
    progress
        As for `minimize`.
    seed
        The same seed gives the same atoms, at any number of threads.
    evaluate
        Measure the MMD on held-out atoms beside that of random subsets. Not part
        of ``seconds``.

    Returns
    -------
    HerdResult
        ``ids``, ``weights``, ``mmd``, ``mmd_random``, ...; ``.extend(m)``, ``.plot()``; of a table
        ``.frame``, the chosen rows, and ``.table``, what became of its columns.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(2000, 2))
    >>> result = herd(rows, 50)
    >>> len(result.ids), result.gain > 2.0
    (50, True)
    """
    began = time.perf_counter()
    flags: dict[str, Any] = {"balanced": balanced, "weights": weights, "swap": swap, "evaluate": evaluate}
    for name, value in flags.items():
        validate.flag(value, name)
    options = TableOptions(columns, check_missing(missing), numeric_only, standardize).check()
    validate.require(by is not None or not balanced, "balanced", "False without `by`", balanced)
    alone = target is None or by is None
    validate.require(alone, "target", "None with `by`: herd each label on its own", "one")
    chosen_kernel = Gaussian() if kernel is None else make_named(kernel, KERNELS, "kernel")
    centred = bool(getattr(chosen_kernel, "centred", False))
    validate.require(not (centred and standardize), "standardize", "False with scores: scale both", True)
    data, number = HerdData.read(atoms, target, by, row_weights, options=options), seed_number(seed)
    start = to_places(data.table, start, "start")
    exclude = to_places(data.table, exclude, "exclude", strict=False)
    chosen, banned = check_start(data.atoms.shape[0], m, start, exclude)
    settings = HerdSettings(
        kernel=_fit_kernel(chosen_kernel, data, number),
        candidates=_count_candidates(data, m, candidates, start=chosen, exclude=banned, balanced=balanced),
        held=len(chosen),
        exclude=banned,
        seed=number,
        options=options,
        **flags,
        **data.fingerprints(),
    )
    session, limits = KernelSession(data=data, settings=settings, ids=chosen), Limits(seconds=max_seconds)
    if callback is not None:
        validate.function(callback, "callback", "a function of a state")
    read = partial(_read_picks, n=data.atoms.shape[0], m=m, swap=swap)
    with show_progress(progress, read, callback) as hear:
        return HerdResult(**session.run(m, limits, hear, began))


def _read_picks(job: Job, *, n: int, m: int, swap: bool) -> Reading:
    """Say how far a run is: passes before the first pick, then picks; see `show_progress`."""
    # Atoms of `start` are there from the start.
    steps = 0 if job.state is None or job.state.kind == "start" else job.state.t
    # Which half of the work is longer depends on n and m.
    share = 0.5 * min(job.swept / n, 1.0) if not steps else 0.5 + 0.5 * steps / ((2 if swap else 1) * m)
    swaps = f", {steps - m:,} tried for a swap" if steps > m else ""  # a step per pick, then one per swap
    where = (
        f"{min(steps, m):,} of {m:,} rows{swaps}" if steps else f"{job.swept / n:.3g} passes over all rows"
    )
    return Reading(min(share, 1.0), f"{where}, {job.seconds:.0f} s")


def _fit_kernel(kernel: Kernel, data: HerdData, seed: int) -> Kernel:
    """Return the kernel with nothing left to choose."""
    check_kernel(kernel)
    validate.require(data.target is None or not kernel.centred, "target", f"None with {kernel!r}", "one")
    rule = "None: the kernel has its own target"
    validate.require(data.row_weights is None or not kernel.centred, "row_weights", rule, "one")
    rng = np.random.default_rng([seed, _FIT])
    sources = [(data.atoms, "atoms")] + ([] if data.target is None else [(data.target, "target")])
    none, size = np.empty(0, np.int64), _SAMPLE // len(sources)
    sample = np.concatenate(
        [finite_rows(atoms, draw_ids(atoms.shape[0], size, none, rng), name) for atoms, name in sources]
    )
    try:
        found = kernel.fit(sample)
    except ValueError as error:  # a kernel knows rows only
        raise ValueError(str(error).replace("`rows`", "`atoms`", 1)) from None
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(found.diagonal(sample)).all())
    validate.require(finite, "atoms", "of moderate size: scale them", "kernel values that overflow")
    return found


def _count_candidates(
    data: HerdData, m: int, given: int | None, *, start: Ids, exclude: Ids, balanced: bool
) -> tuple[int, ...]:
    """Return how many candidates each label has, or all atoms have, of which m are wanted in all."""
    if data.labels is None:
        free = np.array([data.atoms.shape[0] - len(start) - len(exclude)])
        wanted = np.array([m - len(start)])
    else:
        free, wanted = _count_free(m, data.labels, start, exclude, balanced=balanced)
    if given is not None:
        most = int(wanted.max())
        size = validate.count(given, "candidates", low=1)
        rule = f"at least {most}, the atoms to pick" + (" of one label" if data.labels is not None else "")
        validate.require(size >= most, "candidates", rule, given)
        return tuple(int(count) for count in np.minimum(size, free))
    # All labels together take as long as one set of candidates: their kernel matrices do.
    least = math.ceil(LEAST / math.sqrt(len(free)))
    return tuple(int(count) for count in np.minimum(np.maximum(least, TIMES * wanted), free))


def _count_free(m: int, labels: Labels, start: Ids, exclude: Ids, *, balanced: bool) -> tuple[Ints, Ints]:
    """Return how many atoms of each label are left, and how many of them are wanted."""
    chosen, banned = np.zeros((2, len(labels.values)), bool)
    chosen[start], banned[exclude] = True, True
    held = np.array([chosen[members].sum() for members in labels.members], np.int64)
    gone = np.array([banned[members].sum() for members in labels.members], np.int64)
    rule = "atoms of labels that weigh anything"
    validate.require(int(held.sum()) == len(start), "start", rule, "others")
    room = np.array([len(members) for members in labels.members], np.int64) - gone
    free = room - held
    names = [labels.values[members[0]] for members in labels.members]
    full = [str(name) for name, left in zip(names, free, strict=True) if left < 1]
    validate.require(not full, "by", "labels with an atom to pick each", f"none left of {full[:1]}")
    missing = int((held == 0).sum())
    rule = f"at least {len(start) + missing}, one atom for each of {len(names)} labels"
    validate.require(m >= len(start) + missing, "m", rule, m)
    rule = f"at most {room.sum()}, the atoms of labels that weigh anything"
    validate.require(m <= int(room.sum()), "m", rule, m)
    return free, allot(m, held, room, labels.shares, balanced=balanced) - held
