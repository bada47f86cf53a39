"""Claim: one direction at a time is cheap to ask.

`query` of one direction, on 256 x 8 atoms, where there is next to no work, takes at most 10
times as long as numpy's ``(atoms @ direction).argmax()``, by each of Scan, Int8Scan,
ClusterIndex and LshIndex: what is left is the price of a call, its checks and its answer.

Protocol: float64 Gaussian atoms and directions, C-ordered; oracles as built by default; one
thread; kernels are compiled, and atoms measured, before. Numpy and the oracles take turns of
50 directions each, of wall time; the medians of all turns are compared. Beside it, not judged:
the same on 16,384 x 64 atoms with `share`, the part of a query there that is work and not the
price of a call (1 - microseconds at 256 x 8 / microseconds there); the microseconds of a step of
Frank-Wolfe (2,000 steps of the classical method, 1/2 |x - t|^2 with t in the hull) and of a
pick of herding (250 picks of `herd_in_features`), each with Scan on 256 x 8. Answers are
checked: those of Scan and Int8Scan are numpy's.

Threshold: at most 10 times numpy's time, each, on 256 x 8.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from reference import Matrix
from rig import Claim, held_threads, interleave

import wolfhound as wh
from wolfhound.core.contracts import Oracle

SMALL = (256, 8)
LARGE = (16_384, 64)
MOST = 10.0
TURN = 50
EXACT = ("Scan", "Int8Scan")


class Sizes(NamedTuple):
    """How much is asked."""

    large: tuple[int, int]
    steps: int
    picks: int


FULL = Sizes(LARGE, 2000, 250)
TINY = Sizes((1000, 8), 20, 20)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=201)
    sizes = TINY if claim.options.tiny else FULL
    with held_threads(claim.options.threads):
        fixed = time_queries(claim, SMALL, {})
        for name in list(fixed)[1:]:
            claim.at_most(f"{name}: times numpy", fixed[name] / fixed["numpy"], MOST, full_size=True)
        time_queries(claim, sizes.large, fixed)
        time_steps(claim, sizes)
    return claim.finish()


def time_queries(claim: Claim, shape: tuple[int, int], fixed: Mapping[str, float]) -> dict[str, float]:
    """Time single queries, in turns; return the microseconds by name, numpy's first."""
    rng = np.random.default_rng(0)
    atoms, turn = rng.standard_normal(shape), rng.standard_normal((TURN, shape[1]))
    oracles: dict[str, Oracle] = {
        "Scan": wh.Scan(atoms),
        "Int8Scan": wh.Int8Scan.build(atoms),
        "ClusterIndex": wh.ClusterIndex.build(atoms),
        "LshIndex": wh.LshIndex.build(atoms),
    }
    calls = {"numpy": partial(ask_numpy, atoms, turn)}
    calls |= {name: partial(ask_each, oracle, turn) for name, oracle in oracles.items()}
    first = {name: call() for name, call in calls.items()}
    for name in EXACT:
        claim.holds(f"{name}: the atoms that numpy finds, {shape[0]}", first[name] == first["numpy"])
    timed = interleave(calls, repeats=claim.options.repeats)
    us = {name: 1e6 * each.median / TURN for name, each in timed.items()}
    for name, mine in us.items():
        share = 1.0 - fixed[name] / mine if fixed else None
        claim.row(
            atoms=f"{shape[0]} x {shape[1]}", method=name, us=mine, times=mine / us["numpy"], share=share
        )
    return us


def ask_numpy(atoms: Matrix, directions: Matrix) -> list[int]:
    """Find the best atom of each direction, one by one."""
    return [(atoms @ direction).argmax() for direction in directions]


def ask_each(oracle: Oracle, directions: Matrix) -> list[int]:
    """Ask for each direction, one by one."""
    return [oracle.query(direction).ids[0, 0] for direction in directions[:, None]]


def time_steps(claim: Claim, sizes: Sizes) -> None:
    """Time a step of Frank-Wolfe and a pick of herding; not judged."""
    atoms = np.random.default_rng(0).standard_normal(SMALL)
    scan, target = wh.Scan(atoms), wh.SquaredDistance(0.5 * atoms[:16].mean(axis=0))
    method = wh.FrankWolfe(wh.Vanilla(), wh.OpenLoop(2.0))
    walk = partial(wh.minimize, target, scan, method=method, rtol=0.0, max_steps=sizes.steps)
    herd = partial(wh.herd_in_features, atoms, sizes.picks, oracle=scan, evaluate=False)
    for name, run, count in (
        ("step of FrankWolfe", walk, sizes.steps),
        ("pick of herding", herd, sizes.picks),
    ):
        run()
        claim.row(atoms=f"{SMALL[0]} x {SMALL[1]}", method=name, us=1e6 * clock(run) / count)


def clock(call: Callable[[], object]) -> float:
    """Seconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
