"""Claim: adding 1 % of the atoms to an index costs a small part of building it again, and loses nothing.

`append` of 1 % and `remove` of 1 % against `build` over the atoms that then are there, for
`Int8Scan`, `ClusterIndex` and `LshIndex` over 1e6 x 128 float32 atoms of a Gaussian mixture in
memory. The time of an edit includes that of joining the rows, a copy of all of them.

Protocol: two threads; interleaved rounds, medians; the build of `ClusterIndex`, which takes long, is
timed once. The edited `Int8Scan` must answer as the fresh one to the bit, ids, scores and bounds; of
the others the mean gap ratio on random queries, with the centre of the atoms as the point, is
compared with that of a fresh index. Last, a hundred edits of 0.8 % each, half of the new rows from
elsewhere, at a tenth of the size: the mean gap ratio beside that of a fresh index, and how often
k-means was trained anew.

Threshold: an append of 1 % takes at most a tenth of a build for `ClusterIndex`, and at most two
builds for `Int8Scan` and `LshIndex`, which are built in one pass or two; no bit differs; ratios are
at most 0.02 below those of fresh indexes.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from reference import Matrix, Vector
from rig import Claim, held_threads, interleave

import wolfhound

D = 128
QUERIES = 200
EDITS = 100
BUILD: dict[str, Callable[[Any], Any]] = {
    "Int8Scan": wolfhound.Int8Scan.build,
    "LshIndex": wolfhound.LshIndex.build,
    "ClusterIndex": wolfhound.ClusterIndex.build,
}
MOST = {"Int8Scan": 2.0, "LshIndex": 2.0, "ClusterIndex": 0.1}
"""Builds that an append may take."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=5)
    n = 4000 if claim.options.tiny else 1_000_000
    rows = draw(n + n // 100, seed=0)
    queries = np.random.default_rng(1).standard_normal((QUERIES, D))
    with held_threads(2):
        for name in BUILD:
            if claim.wants(name):
                race(claim, name, rows, queries)
                last(claim, name, n // 10, queries)
    return claim.finish()


def draw(n: int, *, seed: int, groups: int = 100) -> Matrix:
    """Rows of a mixture of so many groups, the same for all seeds."""
    means = 1.5 * np.random.default_rng(groups).standard_normal((groups, D)).astype(np.float32)
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, D), np.float32)
    rows += means[rng.integers(0, groups, n)]
    return rows


def race(claim: Claim, name: str, rows: Matrix, queries: Vector) -> None:
    """Time an append and a removal beside builds, and compare the answers."""
    build, n = BUILD[name], len(rows) * 100 // 101
    index, more, gone = build(rows[:n]), rows[n:], np.arange(0, n, 100)
    begin = time.perf_counter()
    fresh = build(rows)
    seconds = time.perf_counter() - begin
    calls: dict[str, Callable[[], None]] = {
        "append": lambda: _forget(index.append(more)),
        "remove": lambda: _forget(index.remove(gone)),
    }
    if name != "ClusterIndex":
        calls["build"] = lambda: _forget(build(rows))
    timed = interleave(calls, repeats=claim.options.repeats)
    if "build" in timed:
        seconds = timed["build"].median
    edited = index.append(more)
    ratios = [gap_ratio(each, rows, queries) for each in (edited, fresh)]
    claim.row(
        index=name,
        n=n,
        build_seconds=seconds,
        append_seconds=timed["append"].median,
        remove_seconds=timed["remove"].median,
        append_over_build=timed["append"].median / seconds,
        ratio_edited=ratios[0],
        ratio_fresh=ratios[1],
    )
    claim.at_most(f"{name}: append / build", timed["append"].median / seconds, MOST[name], full_size=True)
    claim.at_most(f"{name}: ratio lost by an append", ratios[1] - ratios[0], 0.02)
    if name == "Int8Scan":
        claim.at_most("Int8Scan: answers that differ from a fresh one", differ(edited, fresh, queries), 0)


def last(claim: Claim, name: str, n: int, queries: Vector) -> None:
    """Edit an index a hundred times, half of the rows from elsewhere; compare it with a fresh one."""
    index, rng, built = BUILD[name](draw(n, seed=2)), np.random.default_rng(3), 0
    for step in range(EDITS // 2):
        more = draw(n // 120, seed=10 + step, groups=100 if step % 2 else 7)
        for edit in ("append", "remove"):
            gone = rng.permutation(index.atoms.shape[0])[: n // 120]
            before, index = index, getattr(index, edit)(more if edit == "append" else gone)
            built += name == "ClusterIndex" and index._clusters is not before._clusters
    rows = index.atoms.take(np.arange(index.atoms.shape[0]))
    fresh = BUILD[name](rows)
    ratios = [gap_ratio(each, rows, queries) for each in (index, fresh)]
    claim.row(index=name, n=n, edits=EDITS, built_anew=built, ratio_edited=ratios[0], ratio_fresh=ratios[1])
    claim.at_most(f"{name}: ratio lost by {EDITS} edits", ratios[1] - ratios[0], 0.02)


def gap_ratio(index: Any, rows: Matrix, queries: Vector) -> float:
    """Mean of (score - here) / (best - here), with the mean of the rows as the point."""
    parts = np.array_split(rows, 50)
    best = np.max([(queries @ part.T.astype(np.float64)).max(axis=1) for part in parts], axis=0)
    here = queries @ rows.mean(axis=0, dtype=np.float64)
    return float(np.mean((index.query(queries).scores[:, 0] - here) / (best - here)))


def differ(one: Any, other: Any, queries: Vector) -> int:
    """How many queries are not answered to the same bits."""
    a, b = one.query(queries, k=10), other.query(queries, k=10)
    same = (a.ids == b.ids).all(axis=1) & (a.scores == b.scores).all(axis=1) & (a.bounds == b.bounds)
    return int((~same).sum())


def _forget(answer: object) -> None:
    """Let go of an answer within the time it is measured in."""
    del answer


if __name__ == "__main__":
    sys.exit(main())
