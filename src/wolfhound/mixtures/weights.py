"""`fit_weights`: the weights of given components, from the matrix of their likelihoods."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Ids, Status, Vector
from wolfhound.core.progress import time_solving
from wolfhound.core.rounding import SAFE
from wolfhound.core.text import seconds_text
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, flag, hint_keywords, number, real_array, require, vector
from wolfhound.core.weights import Cone, Hull
from wolfhound.data.files import FileRows, check_exists, open_rows, unmap
from wolfhound.mixtures import _newton
from wolfhound.mixtures._newton import EXPONENTS, NARROW, LikelihoodRows, judge_end, scale_logs
from wolfhound.objectives.likelihood import MixtureLikelihood
from wolfhound.show import plot
from wolfhound.show.markup import Field, Picture, RunResult, Summary, list_weights, pick
from wolfhound.solve.minimize import HULL, describe_weights, minimize, read_weights
from wolfhound.solve.result import LISTED

# Likelihoods that are made of logarithms are float32 if the wanted gap is at least this, else float64.
FLOAT32_GAP = 1e-6
SMALL_BLOCK = 1 << 18  # numbers that stay in a cache: each is looked at twice
MODERATE = 256  # rows whose largest likelihood is within 2^-256 .. 2^256 are read as they are


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WeightsFit(RunResult):
    """Weights of a mixture's components, and how good they are.

    Attributes
    ----------
    weights : (m,)
        Nonnegative, sum 1.
    value : float
        Mean log-likelihood of the observations, less ``ridge / 2 * |weights|^2``, as computed.
    gap : float
        Proved: no other weights that are allowed have a value larger by more, in nats.
    reads : int
        How often all likelihoods were read, after one check of all.
    seconds : float
        What it took.
    status : Status
        Why it ended.
    over : str
        What weights may be, and their ridge.
    """

    weights: Vector
    value: float
    gap: float
    reads: int
    seconds: float
    status: Status
    over: str = "Hull()"

    @property
    def support(self) -> Ids:
        """Components of positive weight."""
        return np.flatnonzero(self.weights)

    def top(self, k: int = 10) -> list[tuple[int, None, float]]:
        """Return component, no name, and weight of the k largest."""
        largest = np.argsort(-self.weights, kind="stable")[: min(count(k, "k"), len(self.support))]
        return [(i, None, float(self.weights[i])) for i in largest.tolist()]

    def summary(self) -> Summary:
        """Return status, value, gap, cost and the largest weights."""
        used, size, gap = len(self.support), len(self.weights), f"{self.gap:.2g}"
        cost, time = f"{self.reads} reads, {self.seconds:.3g} s", ("time", seconds_text(self.seconds))
        held = f"{used} of {size}"
        fields = (
            Field("value", f"mean log-likelihood {self.value:.9g}", {"value": self.value}),
            *(() if self.over == "Hull()" else (Field("over", self.over, pick(self, "over")),)),
            Field("gap", f"{gap} nats per observation, proved", {"gap": self.gap}, ("proved gap, nats", gap)),
            Field("support", f"{held} components", {"support": used}, ("components with weight", held)),
            Field("cost", cost, pick(self, "reads", "seconds"), time),
        )
        return Summary.of_run(
            "WeightsFit",
            self.status,
            fields=fields,
            tables=(list_weights("The components of largest weight", self.top(LISTED), size=used),),
            title="Weights of a mixture",
            caption=f"mixture of {used} components: proved gap {gap}",
            pictures=self._picture,
        )

    def _picture(self) -> list[Picture]:
        most = f"the largest weight is {self.weights.max():.4g}"
        places, weights = self.support.astype(np.float64), self.weights[self.support]
        draw = partial(plot.draw_stems, places=places, weights=weights, x="component", y="weight")
        return [Picture("The weights", f"{len(self.support)} components have weight; {most}.", draw)]


@hint_keywords
def fit_weights(
    likelihoods: ArrayLike | str | os.PathLike[str],
    *,
    weights: ArrayLike | None = None,
    log: bool = False,
    over: Hull | Cone = HULL,
    ridge: float = 0.0,
    atol: float = 1e-6,
    max_seconds: float = math.inf,
    seed: int = 0,
) -> WeightsFit:
    """Weights x of m components that maximise sum_j w_j log (L x)_j over the simplex, with a proved gap.

    For tall matrices: millions of observations, hundreds of components. Each read of the
    matrix is a line search and a proof; four or five suffice.

    Parameters
    ----------
    likelihoods : (N, m) array, or path of a .npy file
        A row per observation, a column per component; rows may have any scale. A file is
        read in blocks of rows and need not fit into memory.
    weights : (N,), optional
        Of the observations, such as counts; equal if not given.
    log
        Whether these are log-likelihoods; -inf is allowed.
    over, ridge
        ``Hull(cap=...)`` keeps weights small, and ``ridge / 2 * |weights|^2`` is taken off the mean, which
        keeps them even; as `minimize` has them, in memory, and without `weights`.
    atol
        Wanted gap, in nats per observation.
    max_seconds
        Stop after a read that ends later.
    seed
        Of the sample of rows that very tall problems begin with.

    Examples
    --------
    >>> fit = fit_weights([[0.9, 0.1], [0.8, 0.2], [0.1, 0.7]], atol=1e-12)
    >>> fit.weights.round(3), fit.success
    (array([0.705, 0.295]), True)
    """
    begin = time.perf_counter()
    flag(log, "log")
    atol = number(atol, "atol", low=0.0)
    end = begin + number(max_seconds, "max_seconds", low=0.0)
    over, ridge = read_weights(over, ridge, None)
    require(isinstance(over, Hull) and not over.at_most, "over", "Hull(cap=...): weights sum to 1", over)
    if ridge > 0.0 or describe_weights(over, ridge) != "Hull()":
        require(weights is None, "weights", "None with a cap or a ridge", "weights")
        return _fit_set(likelihoods, log, (over, ridge), atol=atol, end=end, seed=count(seed, "seed"))
    rows, offset = _read(likelihoods, weights, log=log, atol=atol)
    done = _newton.solve(rows, atol, seed=count(seed, "seed"), end=end)
    slack = rows.slack(done.look, int((done.x > 0.0).sum()))
    return WeightsFit(
        weights=done.x,
        value=done.look.value + offset,
        gap=done.gap,
        reads=done.reads,
        seconds=time_solving(begin),
        status=judge_end(done.gap, atol, slack, late=time.perf_counter() > end),
    )


def _fit_set(
    likelihoods: Any, log: bool, allowed: tuple[Hull | Cone, float], *, atol: float, end: float, seed: int
) -> WeightsFit:
    """Weights with caps or a ridge: the components are atoms, that a mixture's likelihood mixes."""
    begin, (over, ridge) = time.perf_counter(), allowed
    rows, offset = _read(likelihoods, None, log=log, atol=0.0)
    atoms = np.ascontiguousarray(rows.block(slice(None)).T, np.float64)
    slack = SAFE * 2.0 * rows.lost  # of the logarithms that became likelihoods
    options: dict[str, Any] = {"rtol": 0.0, "atol": max(atol - slack, 0.0), "seed": seed, "progress": False}
    limit = max(end - begin, 0.0)
    run = minimize(MixtureLikelihood(), atoms, over=over, ridge=ridge, max_seconds=limit, **options)
    weights = np.zeros(len(atoms))
    weights[run.ids] = run.weights
    return WeightsFit(
        weights=weights,
        value=offset - run.value,
        gap=run.gap + slack,
        reads=math.ceil(run.passes),
        seconds=time_solving(begin),
        status=run.status,
        over=run.over,
    )


def check_weights(weights: ArrayLike, n: int) -> Vector:
    """Weights of n observations: not negative, of a positive and finite sum."""
    found = vector(weights, "weights", size=n)
    require(bool(found.min() >= 0.0), "weights", ">= 0", found.min())
    total = float(found.sum())
    require(1e-200 < total < 1e200, "weights", "of a positive, moderate sum", total)
    return found


def _read(
    likelihoods: Any, weights: ArrayLike | None, *, log: bool, atol: float
) -> tuple[LikelihoodRows, float]:
    """The rows, and the mean logarithm of what they were divided by."""
    matrix = likelihoods
    if isinstance(likelihoods, (str, os.PathLike)):
        matrix = open_rows(check_exists(likelihoods))
    matrix = unmap(matrix)
    if not (isinstance(matrix, FileRows) and matrix.ndim == 2):
        matrix = real_array(matrix, "likelihoods", 2)
    n, m = matrix.shape
    require(n > 0 and m > 0, "likelihoods", "non-empty", f"shape {matrix.shape}")
    shares = np.ones(n) if weights is None else check_weights(weights, n)
    shares = shares / shares.sum()
    kept = np.flatnonzero(shares)
    if len(kept) < n:
        matrix, shares = matrix[kept], shares[kept]
    tops = _check(matrix, log=log)
    if not log:
        # Powers of two bring rows of extreme scale near 1.
        exponents = np.frexp(tops)[1].astype(np.int64)
        shift = np.where(np.abs(exponents) > MODERATE, -exponents, 0)
        if not shift.any():
            return LikelihoodRows(matrix, shares, tops=tops), 0.0
        offset = -math.log(2.0) * float(shares @ shift)
        return LikelihoodRows(matrix, shares, shift=shift, tops=np.ldexp(tops, shift)), offset
    offset, narrow = float(shares @ tops), atol >= FLOAT32_GAP
    lost = EXPONENTS + (NARROW if narrow else 0.0)
    if isinstance(matrix, FileRows):
        return LikelihoodRows(matrix, shares, log=True, lost=lost), offset
    scaled = np.empty(matrix.shape, np.float32 if narrow else np.float64)
    for here in _blocks(matrix):
        scaled[here] = scale_logs(matrix[here], scaled.dtype)[0]
    return LikelihoodRows(scaled, shares, lost=lost), offset


def _blocks(matrix: NDArray[Any] | FileRows) -> list[slice]:
    n, m = matrix.shape
    step = max(1, SMALL_BLOCK // m)
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _check(matrix: NDArray[Any] | FileRows, *, log: bool) -> Vector:
    """Refuse entries that are no likelihoods, and rows without one; the largest of each row."""
    least, rule = -math.inf, "below inf, no nan, above -inf somewhere in each row"
    if not log:
        least, rule = 0.0, ">= 0 and finite, and positive somewhere in each row; `log` for logarithms"

    def look(here: slice) -> Vector:
        rows = matrix[here]  # a file is read once
        tops = np.asarray(rows.max(axis=1), np.float64)
        if rows.min() >= least and least < tops.min() and tops.max() < math.inf:
            return tops
        low = rows.min(axis=1)
        i = np.flatnonzero(~((low >= least) & (least < tops) & (tops < math.inf)))[0]
        require(False, "likelihoods", rule, f"{low[i]:g} .. {tops[i]:g} in row {here.start + i}")
        return tops

    return np.concatenate(list(map_ordered(look, _blocks(matrix), blas=False)))
