"""Herding in seconds: Algorithms 3 and 4 by every oracle, and from how many picks an index pays."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import ways
from reference import Matrix, Vector
from rig import Claim, Timed, interleave
from ways import ALONE, CODES, MEMORY, SAMPLES, TOGETHER, Tool

from wolfhound.herding.in_features import FeatureRun, pick_in_features
from wolfhound.paper.sublinear_herding import SublinearHerding

EPS = 1e-4
"""Wanted error, relative to that of one random pick."""
SHARE = 0.9
_ENOUGH = 4.0
NAMES = {
    way: way.replace("Alg. 1", "Alg. 3").replace("Alg. 2", "Alg. 4").replace("memory and ", "")
    for way in ways.WAYS
}
PICKED = (CODES, TOGETHER, MEMORY, ALONE, *SAMPLES)
VERIFIED = {TOGETHER: 500, MEMORY: 0, ALONE: 0}
"""Ways of Algorithm 4, and the samples beside the index; that of `MEMORY` is a sample of 500 itself."""


@dataclass(frozen=True, slots=True)
class Picking:
    """Seconds and errors after each pick, the medians of some rounds."""

    build: float
    seconds: Vector
    errors: Vector
    passes: float
    scored: float

    def after(self, picks: int) -> float:
        """Seconds of the first picks."""
        return float(self.seconds[min(picks, len(self.seconds) - 1)])

    @property
    def picks_to_eps(self) -> int | None:
        """Picks after which the error is at most eps; None: never."""
        there = np.flatnonzero(self.errors <= EPS)
        return int(there[0]) if len(there) else None

    def pays_from(self, others: Sequence[Picking], picks: int) -> float:
        """Picks from which it beats others, if all go on at their mean speed."""
        mine, *rest = ((each.build, each.after(picks) / picks) for each in (self, *others))
        return ways.pays_from(mine, rest)


def judge(claim: Claim, name: str, rows: Matrix, picks: tuple[int, int]) -> None:
    """Pick by all ways; add rows, and judge the picks that Algorithm 4 takes to eps."""
    made = ways.build_tools(rows)
    made |= {way: replace(made[way], build=0.0, megabytes=0.0) for way in SAMPLES}  # no passes are made
    few, many = picks
    calls = {way: functools.partial(pick, way, made[way], many) for way in PICKED}
    unit = _unit(rows)
    timed = interleave(calls, repeats=claim.options.repeats, budget=_ENOUGH)
    runs = {way: _picking(made[way].build, each, unit) for way, each in timed.items()}
    for way, run in runs.items():
        claim.row(
            table="herding",
            data=name,
            n=len(rows),
            way=NAMES[way],
            megabytes=made[way].megabytes,
            build_s=run.build,
            picks_to_eps=run.picks_to_eps,
            atoms_per_pick=run.scored / many,
            ms_per_pick=1e3 * run.after(few) / few,
            picks=few,
            seconds=run.after(few),
            with_build_s=run.build + run.after(few),
            pays_from_picks=None if way == CODES else run.pays_from([runs[CODES]], few),
            passes=run.passes,
            error=float(run.errors[few]),
        )
    exact, mine = (runs[way].picks_to_eps or math.inf for way in (CODES, TOGETHER))
    claim.at_most(f"{name}: picks of Algorithm 4 over exact", mine / exact, 1.5, full_size=True)


def pick(way: str, tool: Tool, picks: int) -> FeatureRun:
    """Algorithm 3, or 4 with a verified share."""
    # Fresh samples are taken as they are.
    method = None
    if way in VERIFIED:
        method = SublinearHerding(ratio=SHARE, exact=tool.exact, sample=VERIFIED[way])
    return pick_in_features(tool.oracle.atoms, picks, oracle=tool.oracle, method=method)


def _picking(build: float, timed: Timed[FeatureRun], unit: float) -> Picking:
    clocks = np.median([run.trace.seconds - run.trace.seconds[0] for run in timed.answers], axis=0)
    last = timed.last
    return Picking(build, clocks, last.trace.value / unit, last.passes - 1.0, last.scored)


def _unit(rows: Matrix) -> float:
    """Mean of 1/2 |Phi - mu|^2: the error of one random pick."""
    mean = rows.mean(0, dtype=np.float64)
    square = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64)) / len(rows)
    return 0.5 * (square - float(mean @ mean))
