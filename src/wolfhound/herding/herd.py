"""`herd`: a few weighted rows whose mean embedding matches that of millions."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import validate
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Matrix, Oracle, Progress, StepSize
from wolfhound.herding._arguments import (
    begun,
    check_kinds,
    counts_of,
    fitted,
    kernels_only,
    labels_of,
    same_width,
    seed_of,
    shares_of,
)
from wolfhound.herding._expected import Expected, expected
from wolfhound.herding._session import run
from wolfhound.herding._space import Space, as_features
from wolfhound.herding._task import Task, gather
from wolfhound.herding.features import Features
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.result import HerdResult

__all__ = ["Expected", "expected", "herd"]

Phi: TypeAlias = Features | Callable[[Matrix], NDArray[Any]] | AtomsLike


def herd(
    rows: AtomsLike,
    m: int,
    *,
    kernel: Kernel | None = None,
    target: AtomsLike | None = None,
    by: ArrayLike | None = None,
    balanced: bool = False,
    init: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    weights: bool = False,
    swap: bool = False,
    features: Phi | None = None,
    row_weights: ArrayLike | None = None,
    oracle: Oracle | Callable[[Atoms], Oracle] | None = None,
    step: StepSize | None = None,
    candidates: int | None = None,
    max_seconds: float = math.inf,
    callback: Callable[[Progress], bool | None] | None = None,
    seed: int | np.random.Generator = 0,
    evaluate: bool = True,
) -> HerdResult:
    """Pick m rows, with weights, that stand for all: their kernel means nearly agree.

    Random candidates are drawn, the mean embedding of all rows is computed in one
    pass, and each pick is the candidate that brings the mean of the rows picked so
    far closest to it, in the kernel itself. With `features`, `oracle` or `step`
    the picks are made in a feature space instead, over all rows.

    Parameters
    ----------
    rows : (n, d) array, atoms, path, or a list of these
        What to pick from; never all in memory if in files.
    m
        Rows wanted in all, those of `init` included.
    kernel
        What is matched: `Gaussian()` by default, with the median distance as
        lengthscale; `Laplace`, `Linear`, or `Stein` on `with_scores(rows, scores)`.
    target : (t, d), optional
        Other rows to stand for, rather than the rows picked from.
    by : (n,) labels, optional
        Pick for each label: in proportion to its rows, at least one each. The mean
        of each label is matched beside that of all rows; two passes.
    balanced
        As many rows for each label. Weights still sum to the label's share.
    init : ids, optional
        Rows that are chosen already: the first ids of the result. They count in
        the mean and are never swapped.
    exclude : ids, optional
        Rows that must not be picked. They count in the mean that is matched.
    weights
        Fit weights on the simplex; some may be 0. Else they are equal (within a label).
    swap
        Look at each pick once more when there are m. Helps in low dimension.
    features : (n, p) array, atoms, path, or a map of rows to R^p, optional
        Match the mean of these features exactly, by Frank-Wolfe. Picks may repeat
        and are merged into weights. A `target` is mapped too; if features
        are given as an array, it has p columns.
    row_weights : (n,), optional
        Weights >= 0 of the rows (of the target, if given) in the mean; only
        ratios matter.
    oracle
        Searches the features (the rows, if there are none): an oracle over
        them, or what makes one, such as `Scan`. Default: fresh random samples.
    step
        Of Frank-Wolfe in the feature space, default ``OpenLoop(1)``: equal weights.
    candidates
        Random rows to pick from (with `by`: of each label), at least as many as
        are to be picked. Default ``max(10_000, 4 * m)``, at most all.
    max_seconds
        The rows picked until then are returned, weighted and evaluated; if there
        are none yet, TimeoutError is raised.
    callback
        Called with every state (`t` rows so far, `value`, `ids`, ...); returning
        True stops. Ctrl-C stops too; the rows so far are returned.
    seed
        The same seed gives the same rows, at any number of threads.
    evaluate
        Measure the MMD on held-out rows beside that of random subsets. Not part
        of ``seconds``.

    Returns
    -------
    HerdResult
        ``ids``, ``weights``, ``mmd``, ``mmd_random``, ...; ``.extend(m)``, ``.plot()``.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(2000, 2))
    >>> result = herd(rows, 50)
    >>> len(result.ids), result.gain < 0.5
    (50, True)
    """
    began = time.perf_counter()
    switches = {"balanced": balanced, "weights": weights, "swap": swap, "evaluate": evaluate}
    check_kinds(switches, step=step, oracle=oracle, features=features, callback=callback)
    atoms = as_atoms(rows, "rows")
    goal = None if target is None else as_atoms(target, "target")
    n = atoms.shape[0]
    chosen, banned = begun(n, m, init, exclude)
    shares = shares_of(row_weights, n if goal is None else goal.shape[0])
    limit, number = validate.number(max_seconds, "max_seconds", low=0.0), seed_of(seed)
    if features is not None or oracle is not None or step is not None:
        kernels_only(
            {"kernel": kernel, "by": by, "candidates": candidates, "weights": weights, "swap": swap}
            | {"balanced": balanced}
        )
        mapped, phi = as_features(features, atoms, banned)
        same_width(goal, mapped)
        space = Space(
            rows=atoms,
            atoms=mapped,
            features=phi,
            oracle=oracle,
            step=step,
            target=goal,
            row_weights=shares,
            exclude=banned,
            evaluate=evaluate,
            seed=number,
        )
        return space.run(m, chosen if len(chosen) else None, max_seconds=limit, callback=callback)
    same_width(goal, atoms)
    labels = labels_of(by, n, shares, target=goal, balanced=balanced)
    task = Task(
        rows=atoms,
        kernel=fitted(kernel, atoms, goal, number),
        target=goal,
        labels=labels,
        row_weights=shares,
        init=chosen,
        exclude=banned,
        counts=counts_of(n, m, candidates, labels, taken_ids=(chosen, banned), balanced=balanced),
        balanced=balanced,
        weights=weights,
        swap=swap,
        evaluate=evaluate,
        seed=number,
    )
    return run(
        task,
        m,
        begun=chosen,
        make=lambda: gather(task),
        max_seconds=limit,
        callback=callback,
        began=began,
    )
