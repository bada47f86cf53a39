"""Claim: an edited index is a fresh one, and for `ClusterIndex` costs a small part of building it again.

`append` of 1 % and `remove` of 1 % against `build` over the atoms that then are there, for
`Int8Scan`, `ClusterIndex` and `LshIndex` over 1e6 x 128 float32 atoms of a Gaussian mixture in
memory. `Int8Scan` and `LshIndex` are built anew by an edit; `ClusterIndex` keeps its centres. The
time of an edit includes that of joining the rows, a copy of all of them.

Protocol: two threads. Answers after an append, and after a removal, beside those of a fresh index of
the same atoms, ids, scores and bounds, of 200 random queries: all bits, for `ClusterIndex` with
`rebuild=True`. Of `ClusterIndex` with its centres kept, the time of an edit (interleaved rounds,
medians) over that of a build, which takes long and is timed once; and the mean gap ratio on the
queries, with the centre of the atoms as the point, beside that of a fresh index. Last, a hundred
edits of a `ClusterIndex` of 0.8 % each, half of the new rows from elsewhere, at a tenth of the size:
the mean gap ratio beside that of a fresh index, and how often k-means was trained anew.

Threshold: no bit differs; an append to a `ClusterIndex` takes at most a tenth of a build; its ratios
are at most 0.02 below those of fresh indexes.
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=5)
    n = 4000 if claim.options.tiny else 1_000_000
    rows = draw(n + n // 100, seed=0)
    queries = np.random.default_rng(1).standard_normal((QUERIES, D))
    with held_threads(2):
        for name in BUILD:
            if claim.wants(name):
                compare(claim, name, rows, queries)
        if claim.wants("ClusterIndex"):
            race(claim, rows, queries)
            last(claim, n // 10, queries)
    return claim.finish()


def draw(n: int, *, seed: int, groups: int = 100) -> Matrix:
    """Rows of a mixture of so many groups, the same for all seeds."""
    means = 1.5 * np.random.default_rng(groups).standard_normal((groups, D)).astype(np.float32)
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, D), np.float32)
    rows += means[rng.integers(0, groups, n)]
    return rows


def compare(claim: Claim, name: str, rows: Matrix, queries: Vector) -> None:
    """Compare the answers after an append and after a removal with those of fresh indexes."""
    build, n = BUILD[name], len(rows) * 100 // 101
    index, gone = build(rows[:n]), np.arange(0, n, 100)
    anew: dict[str, Any] = {"rebuild": True} if name == "ClusterIndex" else {}
    added = differ(index.append(rows[n:], **anew), build(rows), queries)
    removed = differ(index.remove(gone, **anew), build(np.delete(rows[:n], gone, axis=0)), queries)
    claim.row(index=name, n=n, differ_appended=added, differ_removed=removed)
    claim.at_most(f"{name}: answers that differ from a fresh one", added + removed, 0)


def race(claim: Claim, rows: Matrix, queries: Vector) -> None:
    """Time an append and a removal that keep the centres beside a build, and compare the ratios."""
    n = len(rows) * 100 // 101
    index, more, gone = wolfhound.ClusterIndex.build(rows[:n]), rows[n:], np.arange(0, n, 100)
    begin = time.perf_counter()
    fresh = wolfhound.ClusterIndex.build(rows)
    seconds = time.perf_counter() - begin
    calls: dict[str, Callable[[], None]] = {
        "append": lambda: _forget(index.append(more)),
        "remove": lambda: _forget(index.remove(gone)),
    }
    timed = interleave(calls, repeats=claim.options.repeats)
    share = timed["append"].median / seconds
    ratios = [gap_ratio(each, rows, queries) for each in (index.append(more), fresh)]
    claim.row(
        index="ClusterIndex",
        n=n,
        build_seconds=seconds,
        append_seconds=timed["append"].median,
        remove_seconds=timed["remove"].median,
        append_over_build=share,
        ratio_edited=ratios[0],
        ratio_fresh=ratios[1],
    )
    claim.at_most("ClusterIndex: append / build", share, 0.1, full_size=True)
    claim.at_most("ClusterIndex: ratio lost by an append", ratios[1] - ratios[0], 0.02)


def last(claim: Claim, n: int, queries: Vector) -> None:
    """Edit an index a hundred times, half of the rows from elsewhere; compare it with a fresh one."""
    index, rng, built = wolfhound.ClusterIndex.build(draw(n, seed=2)), np.random.default_rng(3), 0
    for step in range(EDITS // 2):
        more = draw(n // 120, seed=10 + step, groups=100 if step % 2 else 7)
        for edit in ("append", "remove"):
            gone = rng.permutation(index.atoms.shape[0])[: n // 120]
            before, index = index, getattr(index, edit)(more if edit == "append" else gone)
            built += index._clusters is not before._clusters
    rows = index.atoms.take(np.arange(index.atoms.shape[0]))
    fresh = wolfhound.ClusterIndex.build(rows)
    ratios = [gap_ratio(each, rows, queries) for each in (index, fresh)]
    claim.row(
        index="ClusterIndex",
        n=n,
        edits=EDITS,
        built_anew=built,
        ratio_edited=ratios[0],
        ratio_fresh=ratios[1],
    )
    claim.at_most(f"ClusterIndex: ratio lost by {EDITS} edits", ratios[1] - ratios[0], 0.02)


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
