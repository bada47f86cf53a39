"""A fit in words: how near the best it is, its support, its cost."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np

from wolfhound.markup import Bar, Field, Grid, Summary, pick
from wolfhound.mixtures.picture import picture_mixture
from wolfhound.result import LISTED
from wolfhound.text import seconds_text

_SHOWN = 8


def describe_gaps(fit: Any) -> str:
    """How near a `MixtureFit` is to the best, and among what."""
    if math.isfinite(fit.gap):
        return f"within {fit.gap:.2g} nats per observation of the best, proved over the continuum"
    return f"within {fit.gap_on_grid:.2g} nats per observation of the best on the grid"


def summarise(fit: Any) -> Summary:
    """Support, gaps and cost of a `MixtureFit`."""
    heavy = np.sort(np.argsort(-fit.mass, kind="stable")[:_SHOWN])
    shown = ", ".join(f"{_show_theta(fit.support[i])} ({fit.mass[i]:.3g})" for i in heavy)
    more = f", {len(fit.mass) - _SHOWN} more" if len(fit.mass) > _SHOWN else ""
    gap = fit.gap if math.isfinite(fit.gap) else fit.gap_on_grid
    fields = (
        Field(
            "data",
            f"{len(fit.x):,} observations, {fit.family.name}",
            {"observations": len(fit.x), "family": fit.family.name},
            ("observations", f"{len(fit.x):,}"),
        ),
        Field(
            "support",
            f"{len(fit.mass)} points: {shown}{more}",
            {"support": fit.support.tolist(), "mass": fit.mass.tolist()},
            ("points of support", f"{len(fit.mass)}"),
        ),
        Field("value", f"mean log-likelihood {fit.value:.9g}", {"value": fit.value}),
        Field(
            "gap",
            f"{describe_gaps(fit)}; on the grid of {len(fit.grid)} {fit.gap_on_grid:.2g}",
            pick(fit, "gap", "gap_on_grid"),
            ("proved gap, nats", f"{gap:.2g}"),
        ),
        Field(
            "cost",
            f"{fit.seconds:.3g} s, {fit.rounds} rounds",
            pick(fit, "rounds", "seconds"),
            ("time", seconds_text(fit.seconds)),
        ),
    )
    return Summary.of_run(
        "MixtureFit",
        fit.status,
        fields=fields,
        tables=(_list_support(fit),),
        title="A mixing distribution",
        message=fit.message,
        caption=f"{fit.family.name} mixture: {describe_gaps(fit)}",
        pictures=lambda: picture_mixture(fit),
    )


def _list_support(fit: Any) -> Grid:
    """The points of largest mass, in their order."""
    heavy = np.sort(np.argsort(-fit.mass, kind="stable")[:LISTED])
    largest = float(fit.mass.max())
    rows = [(_show_theta(fit.support[i]), Bar(fit.mass[i], largest, ".4g")) for i in heavy]
    return Grid("The mixing distribution", ("theta", "mass"), rows, (0, 1), len(fit.mass))


def _show_theta(theta: Any) -> str:
    """One parameter, or several in brackets."""
    return f"{theta:.4g}" if np.ndim(theta) == 0 else "(" + ", ".join(f"{each:.4g}" for each in theta) + ")"
