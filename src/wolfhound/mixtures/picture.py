"""A fit in pictures: prior, marginal against the data, shrinkage."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ints, Vector
from wolfhound.markup import Picture, list_columns
from wolfhound.plot import COLOURS, GREY, SOFT, draw_stems, finish_axes, limit_axes, robust_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS = 60
_DRAWN = 2000
_TAIL = 0.002  # of the mass at each end that a picture may leave out
_CURVE = 400


def picture_mixture(fit: Any) -> list[Picture]:
    """Draw a `MixtureFit` of one parameter; two have no line to stand on."""
    if fit.support.ndim != 1:
        return []
    some = _choose_drawn(fit)
    alone, means = _estimate(fit, some), fit.posterior_mean(fit.x[some], fit.family.take(some))
    heavy = f"{fit.support[fit.mass.argmax()]:.4g}, has mass {fit.mass.max():.3g}"
    return [
        Picture(
            "The mixing distribution",
            f"{len(fit.mass)} points of support; the heaviest, {heavy}.",
            partial(_draw_prior, fit=fit),
        ),
        Picture(
            "The data, and what was fitted to them",
            f"The density of {len(fit.x):,} observations, and that of the mixture.",
            partial(_draw_marginal, fit=fit, some=some),
        ),
        Picture(
            "How observations are shrunken",
            f"Posterior means of {len(alone):,} observations, from {means.min():.4g} to {means.max():.4g}.",
            partial(_draw_shrinkage, x=alone, means=means),
            list_columns("Posterior means", {"alone": alone, "posterior mean": means}),
        ),
    ]


def _choose_drawn(fit: Any) -> Ints:
    """Which observations a picture shows: evenly, some of them."""
    return np.linspace(0, len(fit.x) - 1, min(len(fit.x), _DRAWN)).astype(np.int64)


def _draw_prior(axes: Axes, fit: Any) -> None:
    draw_stems(axes, fit.support, fit.mass, x="theta", y="prior mass")
    low, high = _find_bulk(fit)
    inside = (fit.support >= low) & (fit.support <= high)
    if not inside.all():
        axes.set_xlim(low, high)
    _say_outside(axes, inside, "points")


def _find_bulk(fit: Any) -> tuple[float, float]:
    """Ends between which nearly all mass is.

    One observation far away has a point of support of its own, and next to no mass.
    """
    below = np.cumsum(fit.mass) / fit.mass.sum()
    held = fit.support[(below > _TAIL) & (below - fit.mass < 1.0 - _TAIL)]
    low, high = float(held.min()), float(held.max())
    room = 0.2 * (high - low) or 1.0
    return low - room, high + room


def _draw_marginal(axes: Axes, fit: Any, some: Ints) -> None:
    share = fit.weights / fit.weights.sum()
    if fit.family.name in ("poisson", "binomial"):
        values, which = np.unique(fit.x, return_inverse=True)
        seen = np.bincount(which.ravel(), share)
        axes.bar(values, seen, width=0.8, color=SOFT, label="data")
        first = int(values.max()) + 1
        whole = np.arange(float(first)) if first <= _CURVE else values
        axes.plot(whole, _average(fit, whole, some), "o-", color=COLOURS[1], markersize=3.5, label="fitted")
    else:
        low, high = robust_limits(fit.x)
        inside = (fit.x >= low) & (fit.x <= high)
        # Bars are of the share that is shown, so that they stay comparable with the curve.
        height, edges = np.histogram(fit.x[inside], bins=_BARS, weights=share[inside], range=(low, high))
        axes.stairs(height / np.diff(edges), edges, fill=True, color=SOFT, label="data")
        line = np.linspace(low, high, _CURVE)
        _say_outside(axes, inside, "observations")
        axes.plot(line, _average(fit, line, some), color=COLOURS[1], linewidth=1.8, label="fitted")
    finish_axes(axes, "x", "density", legend=True)


def _say_outside(axes: Axes, inside: NDArray[np.bool_], what: str) -> None:
    if not inside.all():
        text = f"{int((~inside).sum()):,} of {len(inside):,} {what} lie outside"
        axes.set_title(text, fontsize=8, color=GREY, loc="right")


def _average(fit: Any, line: Vector, some: Ints) -> Vector:
    """Marginal density, averaged over the observations' own families."""
    picked = some[np.linspace(0, len(some) - 1, min(len(some), 100)).astype(np.int64)]
    share = fit.weights[picked] / max(fit.weights[picked].sum(), 1e-300)
    out = np.zeros(len(line))
    for i, weight in zip(picked.tolist(), share.tolist(), strict=True):
        family = fit.family.take(np.full(len(line), i))
        inside = _possible(fit, line, i)
        logs = family.take(inside).log_density(line[inside], fit.support)
        out[inside] += weight * (np.exp(logs) @ fit.mass)
    return out


def _possible(fit: Any, line: Vector, i: int) -> Vector:
    """Which values observation i could have had: not more successes than trials."""
    if fit.family.name != "binomial":
        return np.ones(len(line), bool)
    trials = np.broadcast_to(fit.family.n, fit.x.shape)
    return np.asarray(line <= trials[i])


def _draw_shrinkage(axes: Axes, x: Vector, means: Vector) -> None:
    ends = [float(min(x.min(), means.min())), float(max(x.max(), means.max()))]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.0, label="no shrinkage")
    axes.scatter(x, means, s=8.0, color=COLOURS[0], linewidths=0.0, alpha=0.6, label="posterior mean")
    finish_axes(axes, "estimate of each alone", "posterior mean", legend=True)
    limit_axes(axes, np.column_stack([x, means]), "observations")


def _estimate(fit: Any, some: Ints) -> Vector:
    """What each observation says alone."""
    below = {"poisson": "exposure", "binomial": "n"}.get(fit.family.name)
    scale = 1.0 if below is None else np.broadcast_to(getattr(fit.family, below), fit.x.shape)[some]
    return np.asarray(fit.x[some] / scale)
