"""`plot`: several runs in one picture, for the eye and for a page."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolfhound.core.validate import describe, flag, hint_keywords, kind, require
from wolfhound.show import plot as draw
from wolfhound.show.markup import Picture, list_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@hint_keywords
def plot(
    *results: Any,
    path: str | PathLike[str] | None = None,
    title: str = "",
    names: Any = None,
    shared: bool = False,
) -> Figure:
    """Draw how several runs came to their answers, in one picture: gaps against passes and seconds.

    Parameters
    ----------
    results
        What `minimize` and others that have a trace give back, or one dict of them by name.
    path
        Where to write the picture; its ending chooses the format.
    title
        Heading.
    names
        Names of the runs; by default their methods.
    shared
        Whether all have the same f and the same atoms. They are then drawn above the best lower bound that
        any of them proved, so that an index, which proves nothing itself, can be compared with what does.

    Examples
    --------
    >>> import wolfhound as wh
    >>> rows = np.random.default_rng(0).standard_normal((500, 4))
    >>> f = wh.SquaredDistance(np.ones(4))
    >>> figure = wh.plot(wh.minimize(f, rows), wh.minimize(f, rows, method=wh.FrankWolfe(), rtol=0.01))
    >>> [text.get_text() for text in figure.legends[0].get_texts()][:2]
    ['FullyCorrective()', 'FrankWolfe()']
    """
    named = results[0] if len(results) == 1 and isinstance(results[0], Mapping) else name_runs(results, names)
    for each in named.values():
        if not has_trace(each):
            what = "results with a trace, such as those of `minimize`, or one dict of them by name"
            raise TypeError(f"`results` must be {what}. Got {describe(each)}.")
    kind(title, "title", "a string", str)
    require(bool(named), "results", "at least one", "none")
    found = read_runs(named, shared=flag(shared, "shared"))
    return draw.keep(draw.draw_gaps(title=title, **found._asdict()), path)


def has_trace(result: Any) -> bool:
    """Whether a result has states with value and bound on the way."""
    return hasattr(result, "goal") and hasattr(getattr(result, "trace", None), "lower")


def name_runs(results: Any, names: Any = None) -> dict[str, Any]:
    """Return runs by their names, else by their methods, with a number where two are the same."""
    if names is not None:
        require(len(names) == len(results), "names", f"{len(results)} names, one per result", len(names))
    given = [str(getattr(each, "method", "") or type(each).__name__) for each in results]
    given = given if names is None else [str(name) for name in names]
    shared, found = Counter(given), {}
    for i, (name, each) in enumerate(zip(given, results, strict=True), 1):
        found[name if shared[name] == 1 else f"{name} ({i})"] = each
    return found


class Comparison(NamedTuple):
    """Curves of runs, their goal if all have the same, and what the axes are."""

    runs: dict[str, draw.Run]
    goal: float | None
    x: str
    y: str


def read_runs(named: Mapping[str, Any], *, shared: bool = False) -> Comparison:
    """Return what is drawn of runs; those of an index, which make no pass, by the atoms that they scored."""
    goals = {each.goal for each in named.values()}
    bounds = [float(each.trace.lower.max(initial=-np.inf)) for each in named.values()]
    if shared:
        problems = {
            (each.objective, *(part.settle().digest for part in getattr(each, "fingerprint", ())))
            for each in named.values()
        }
        least = min(float(each.trace.value.min(initial=np.inf)) for each in named.values())
        same = len(problems) == 1 and max(bounds) <= least
        require(same, "shared", "False for runs on several f or atoms", "True")
    few = any(draw.is_by_atoms(each.trace.passes, each.trace.scored) for each in named.values())
    runs = {}
    for name, each in named.items():
        trace = each.trace
        gap = trace.value - max(bounds) if shared else trace.gap
        cost = trace.scored.astype(np.float64) if few else trace.passes
        runs[name] = draw.Run(cost, trace.seconds, gap)
    goal, y = goals.pop() if len(goals) == 1 else None, "f above the best bound" if shared else "proved gap"
    return Comparison(runs, goal, draw.SCORED if few else draw.PASSES, y)


def picture_runs(named: Mapping[str, Any]) -> list[Picture]:
    """Draw runs for a page, by passes and by seconds; nothing unless two of them have a trace."""
    traced = {name: each for name, each in named.items() if has_trace(each)}
    if len(traced) < 2:
        return []
    runs, goal, x, y = read_runs(traced)
    ends = {name: run.gap[-1:].sum() for name, run in runs.items()}
    said = f"{y}, at the end: {', '.join(f'{name} {gap:.3g}' for name, gap in ends.items())}."
    columns = {
        "run": list(runs),
        y: list(ends.values()),
        x: [each.passes[-1:].sum() for each in runs.values()],
        "seconds": [each.seconds[-1:].sum() for each in runs.values()],
    }
    grid = list_columns("Where the runs ended", columns)
    look = partial(draw.draw_gaps_by, runs=runs, goal=goal, y=y, legend=True)
    costs = (x, draw.SECONDS)
    return [
        Picture(f"All runs, by {cost.split(',')[0]}", said, partial(look, x=cost), grid) for cost in costs
    ]
