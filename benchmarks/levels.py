"""Indexes at one level: parameters chosen on some runs, measured on others, at an equal gap ratio.

Used by claim_lsh and claim_clusters. Knows nothing of how the indexes are made.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from reference import Vector
from rig import Cell, Claim, Timed, interleave
from walks import Walk

ENOUGH = 0.97
"""Of a ladder of settings, those above the first that has this ratio are not tried."""
SINGLES = 50
"""Queries that are asked one at a time."""
BUDGET = 1.5
"""Seconds after which a method sits out the rounds: what is much slower than the others."""
Search = Callable[[Vector], Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One index with parameters.

    Attributes
    ----------
    parameters : str
    scores : Search
        (m, d) queries -> (m,) scores of the answers.
    scored : Search, optional
        -> (m,) atoms that were scored for them.
    build_seconds : float
    nbytes : int
        Memory beside the atoms.
    every : int
        It is asked each so many queries only: some are a thousand times slower than others.
    """

    parameters: str
    scores: Search
    scored: Search | None
    build_seconds: float
    nbytes: int
    every: int = 1

    def asked(self, walk: Walk) -> Walk:
        """Return the queries that it is asked."""
        return walk.part(slice(None, None, self.every))

    def ratio(self, walk: Walk) -> float:
        """Mean gap ratio of its answers; an empty bucket is as good as staying."""
        some = self.asked(walk)
        return float(some.ratios(np.maximum(self.scores(some.queries), some.here)).mean())


Ladder = list[Setting]
"""Settings of rising ratio."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting on the queries that parameters are chosen on; `rung` is its place in a ladder."""

    ladder: Ladder
    rung: int
    ratio: float
    seconds: float

    @property
    def setting(self) -> Setting:
        return self.ladder[self.rung]

    def raised(self, walk: Walk, floor: float) -> Setting | None:
        """The first setting from here upwards that has a ratio on other queries, too."""
        # Published tables are asked too few queries for that: they stay where they are.
        above = self.ladder[self.rung :] if self.setting.every == 1 else ()
        kept = self.setting if self.setting.every > 1 else None
        return next((each for each in above if each.ratio(walk) >= floor), kept)


def sweep(ladders: Sequence[Ladder], walk: Walk) -> Iterator[Tried]:
    """Yield settings with their mean ratios and seconds."""
    for ladder in ladders:
        for rung, setting in enumerate(ladder):
            some = setting.asked(walk)
            setting.scores(some.queries[:8])
            call = {"": functools.partial(setting.scores, some.queries)}
            timed = interleave(call, repeats=2, budget=0.3)[""]
            ratio = float(some.ratios(np.maximum(timed.last, some.here)).mean())
            yield Tried(ladder, rung, ratio, min(timed.seconds))
            if ratio >= ENOUGH:
                break


def fastest(tried: Sequence[Tried], wanted: float) -> Tried | None:
    """The fastest setting that reaches the ratio, None if none does.

    Of settings that are as fast within a tenth, which is what sweeps can tell, the one whose
    ratio is closest: all are compared near the ratio that is wanted.
    """
    good = [each for each in tried if each.ratio >= wanted]
    least = min((each.seconds for each in good), default=0.0)
    return min((each for each in good if each.seconds <= 1.1 * least), key=lambda x: x.ratio, default=None)


def level(
    swept: Mapping[str, Sequence[Tried]], rival: str, fresh: Walk, wanted: float
) -> dict[str, Setting | None]:
    """The rival's fastest setting of a ratio, and the fastest of all others that are as good.

    As good on the queries that parameters are chosen on; where one is not so on the fresh ones, its
    next larger settings until it is. So nobody is compared at a lower ratio than the rival's.
    """
    best = fastest(swept[rival], wanted)
    if best is None:
        return dict.fromkeys(swept)
    floor = best.setting.ratio(fresh)
    out: dict[str, Setting | None] = {rival: best.setting}
    for name in set(swept) - {rival}:
        found = fastest(swept[name], min(best.ratio, ENOUGH))  # nothing above was tried
        out[name] = None if found is None else found.raised(fresh, floor)
    return {name: out[name] for name in swept}


def measure(
    claim: Claim, common: Mapping[str, Cell], chosen: Mapping[str, Setting | None], fresh: Walk, rival: str
) -> dict[str, dict[str, float]]:
    """Time settings on fresh queries, in a batch and alone; add rows; times over the rival's by name."""
    settings = {name: setting for name, setting in chosen.items() if setting is not None}
    timed = interleave(calls_of(settings, fresh), repeats=claim.options.repeats, budget=BUDGET)
    times = {name: per_query(name, setting, fresh, timed) for name, setting in settings.items()}
    over: dict[str, dict[str, float]] = {}
    for name in chosen:
        if name not in settings:
            claim.row(**common, index=name, parameters="not reached")
            continue
        setting, some = settings[name], settings[name].asked(fresh)
        ratios = some.ratios(np.maximum(timed[f"{name}, batch"].last, some.here))
        over[name] = {how: spent / times[rival][how] for how, spent in times[name].items()}
        claim.row(
            **common,
            index=name,
            parameters=setting.parameters,
            ratio=float(ratios.mean()),
            ratio_p10=float(np.quantile(ratios, 0.1)),
            candidates=None if setting.scored is None else float(setting.scored(some.queries).mean()),
            microseconds=times[name]["in a batch"],
            microseconds_single=times[name].get("alone"),
            over_rival=over[name]["in a batch"],
            over_rival_single=over[name].get("alone"),
            build_seconds=setting.build_seconds,
            megabytes=setting.nbytes / 2**20,
        )
    return over


def calls_of(settings: Mapping[str, Setting], fresh: Walk) -> dict[str, Callable[[], Vector]]:
    """What is timed: all queries at once, and some of them one at a time."""
    singles = few(fresh)
    calls: dict[str, Callable[[], Vector]] = {}
    for name, setting in settings.items():
        calls[f"{name}, batch"] = functools.partial(setting.scores, setting.asked(fresh).queries)
        if setting.every == 1:
            one_by_one(setting.scores, singles)  # oracles compile a call of their own for them
            calls[f"{name}, single"] = functools.partial(one_by_one, setting.scores, singles)
    return calls


def per_query(
    name: str, setting: Setting, fresh: Walk, timed: Mapping[str, Timed[Vector]]
) -> dict[str, float]:
    """Median microseconds per query of a batch, and alone."""
    out = {"in a batch": 1e6 * timed[f"{name}, batch"].median / len(setting.asked(fresh).queries)}
    alone = timed.get(f"{name}, single")
    return out if alone is None else out | {"alone": 1e6 * alone.median / len(few(fresh))}


def few(fresh: Walk) -> Vector:
    """The queries that are asked one at a time."""
    return fresh.queries[:: max(1, len(fresh.queries) // SINGLES)]


def one_by_one(scores: Search, queries: Vector) -> Vector:
    """Answers to queries that come alone."""
    return np.concatenate([scores(queries[at : at + 1]) for at in range(len(queries))])
