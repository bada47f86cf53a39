"""A fit in words: how near the best it is, its support, its cost."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np

from wolfhound.markup import Grid, Summary, bar

_SHOWN = 8


def describe_gaps(fit: Any) -> str:
    """How near a `MixtureFit` is to the best, and among what."""
    if math.isfinite(fit.gap):
        return f"within {fit.gap:.2g} nats per observation of the best, proved over the continuum"
    return f"within {fit.gap_on_grid:.2g} nats per observation of the best on the grid"


def summarise(fit: Any) -> Summary:
    """Support, gaps and cost of a `MixtureFit`."""
    heavy = np.sort(np.argsort(-fit.mass, kind="stable")[:_SHOWN])
    shown = ", ".join(f"{show_theta(fit.support[i])} ({fit.mass[i]:.3g})" for i in heavy)
    more = f", {len(fit.mass) - _SHOWN} more" if len(fit.mass) > _SHOWN else ""
    lines = (
        ("data", f"{len(fit.x):,} observations, {fit.family.name}"),
        ("support", f"{len(fit.mass)} points: {shown}{more}"),
        ("value", f"mean log-likelihood {fit.value:.9g}"),
        ("gap", f"{describe_gaps(fit)}; on the grid of {len(fit.grid)} {fit.gap_on_grid:.2g}"),
        ("cost", f"{fit.seconds:.3g} s, {fit.rounds} rounds"),
    )
    heading = f"MixtureFit({fit.status.name}: {fit.status.value})"
    return Summary(heading, lines, (list_support(fit, _SHOWN),))


def list_support(fit: Any, most: int) -> Grid:
    """The points of largest mass of a `MixtureFit`, in their order, as a table."""
    heavy = np.sort(np.argsort(-fit.mass, kind="stable")[:most])
    largest = float(fit.mass.max())
    rows = [(show_theta(fit.support[i]), bar(f"{fit.mass[i]:.4g}", fit.mass[i] / largest)) for i in heavy]
    caption = f"{len(rows):,} of {len(fit.mass):,} points of the mixing distribution"
    return Grid(caption, ("theta", "mass"), rows, (0, 1))


def show_theta(theta: Any) -> str:
    """One parameter, or several in brackets."""
    return f"{theta:.4g}" if np.ndim(theta) == 0 else "(" + ", ".join(f"{each:.4g}" for each in theta) + ")"
