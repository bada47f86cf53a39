"""Claim: shards in Ray actors give the local answer, twice as fast with twice the workers, whoever dies.

Atoms in two files that the actors read, one thread each: 2,000,000 x 128 in one actor and
in two, beside `Scan` in this process with one thread and with two, which says what two
cores of this machine can gain at all.

Protocol: random normal queries, new ones each round and the same for all; screening off,
as it would answer from an earlier pass; interleaved rounds, medians; one query with its
top 100, and batches of 64 with their top 16. The model of a pass is bytes / bandwidth
+ a round trip, with the bandwidth of as many threads in this process (of one query; of a
batch it is products / their speed) and the round trip of one row that is fetched. Then
a projection is solved to a proved 1e-6, locally and by two workers, and round trips are
counted. Last, on 400,000 x 128, one of two actors is killed (kill -9 of its process) at a
moment drawn uniformly from the time of an undisturbed solve, until 20 kills fell inside a
solve; a kill that came after its end is reported and not counted.

Threshold: same ids, scores, bounds, values and lower bounds as the local run, to the bit,
in all of it; batches at least 1.6 times faster with two workers than with one; for one
query at least 0.9 of what two threads gain in the same run; query round trips equal
passes, plus one for the pool; 20 of 20 answers unchanged by a death.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import data
import numpy as np
from reference import Matrix, Vector
from rig import Claim, Timed, held_threads, interleave

import wolfhound
from wolfhound import Result, Sharded
from wolfhound.core.contracts import Hits
from wolfhound.oracles import cluster

EXACT = functools.partial(wolfhound.Scan, screen=False)
BATCH, TOP, TOP_OF_MANY = 64, 100, 16
KILLS = 20
MOST = 60
"""Kills that are tried at most, those after the end of a solve included."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=15)
    tiny = claim.options.tiny
    with held_threads(1), tempfile.TemporaryDirectory() as folder:
        atoms = data.gaussian(6000, 16) if tiny else data.gaussian(2_000_000, 128)
        # So that Ray stays while shards come and go.
        with cluster.shard(np.eye(2), shards=1):
            judge(claim, atoms, Path(folder))
            few = atoms if tiny else atoms[:400_000].copy()
            del atoms
            survive(claim, few, Path(folder), kills=1 if tiny else KILLS)
    return claim.finish()


def save_halves(atoms: Matrix, folder: Path) -> list[Path]:
    """Write two files of half the atoms each."""
    paths = [folder / "first.npy", folder / "second.npy"]
    for path, part in zip(paths, np.array_split(atoms, 2), strict=True):
        np.save(path, part)
    return paths


# ---------------------------------------------------------------- answers and speed


def judge(claim: Claim, atoms: Matrix, folder: Path) -> None:
    """Compare and time one worker, two workers, one thread and two threads."""
    paths, local = save_halves(atoms, folder), EXACT(atoms)
    rng = np.random.default_rng(5)
    rounds = claim.options.repeats + 1
    queries = rng.standard_normal((rounds, BATCH, atoms.shape[1]))
    with cluster.shard([folder / "*.npy"], EXACT) as one, cluster.shard(paths, EXACT) as two:
        claim.notes["trip_ms"] = trip = measure_trip(two)
        for m, k in ((1, TOP), (BATCH, TOP_OF_MANY)):
            timed = measure(queries[:, :m], k, local, {"1 worker": one, "2 workers": two})
            add_rows(claim, atoms, m, timed, trip)
            same = all(
                same_hits(hits, other)
                for way in ("1 worker", "2 workers")
                for hits, other in zip(timed[way].answers, timed["1 thread"].answers, strict=True)
            )
            claim.holds(f"{m} queries: ids, scores and bounds are those of the local scan", same)
            gain = timed["1 worker"].median / timed["2 workers"].median
            threads = timed["1 thread"].median / timed["2 threads"].median
            if m == 1:
                claim.at_least(
                    "one query: gain of two workers / gain of two threads",
                    gain / threads,
                    0.9,
                    full_size=True,
                )
            else:
                claim.at_least(f"{m} queries: gain of two workers", gain, 1.6, full_size=True)
        solve_both(claim, atoms, local, two)


def measure_trip(oracle: Sharded) -> float:
    """Median milliseconds of a round trip to all shards that fetches a row of each."""
    ids = np.array([0, oracle.atoms.shape[0] - 1])
    calls = {"take": lambda: oracle.atoms.take(ids)}
    return 1e3 * interleave(calls, repeats=50)["take"].median


def measure(
    queries: Matrix, k: int, local: wolfhound.Scan, shards: dict[str, Sharded]
) -> dict[str, Timed[Hits]]:
    """Time all ways in turn; a first round warms up."""

    def ask(oracle: wolfhound.Scan | Sharded, threads: int, at: itertools.count[int]) -> Hits:
        wolfhound.set_threads(threads)
        try:
            return oracle.query(queries[next(at)], k=k)
        finally:
            wolfhound.set_threads(1)

    calls: dict[str, Callable[[], Hits]] = {
        f"{threads} thread{'s' * (threads > 1)}": functools.partial(ask, local, threads, itertools.count())
        for threads in (1, 2)
    }
    calls |= {name: functools.partial(ask, oracle, 1, itertools.count()) for name, oracle in shards.items()}
    interleave(calls, repeats=1)
    return interleave(calls, repeats=len(queries) - 1)


def add_rows(claim: Claim, atoms: Matrix, m: int, timed: dict[str, Timed[Hits]], trip: float) -> None:
    """Add a row per way, with what the model says of the workers."""
    for way, found in timed.items():
        count, kind = way.split()
        like = timed["1 thread" if count == "1" else "2 threads"]
        claim.row(
            shape=f"{atoms.shape[0]:,} x {atoms.shape[1]}",
            queries=m,
            way=way,
            milliseconds=1e3 * found.median,
            best=1e3 * min(found.seconds),
            gb_per_second=atoms.nbytes / found.median / 1e9,
            model_ms=1e3 * like.median + trip if kind.startswith("worker") else None,
        )
    # As it stands in docs/scale.md.
    cells = [
        f"{1e3 * timed[f'{workers} worker{plural}'].median:.0f} ms, "
        f"{1e3 * timed[f'{workers} thread{plural}'].median + trip:.0f} ms"
        for workers, plural in ((1, ""), (2, "s"))
    ]
    claim.notes[f"queries {m}: measured, model by 1 worker | by 2 workers"] = " | ".join(cells)


def same_hits(mine: Hits, other: Hits) -> bool:
    """Whether two answers are the same to the bit."""
    return all(
        np.array_equal(getattr(mine, name), getattr(other, name)) for name in ("ids", "scores", "bounds")
    )


def make_objective(atoms: Matrix) -> wolfhound.SquaredDistance:
    """Squared distance from a point outside the hull."""
    normal: Vector = np.random.default_rng(6).standard_normal((atoms.shape[1],))
    away = normal / np.linalg.norm(normal)
    sample = atoms[:: max(1, len(atoms) // 10_000)].astype(np.float64)
    return wolfhound.SquaredDistance(1.5 * float((sample @ away).max()) * away)


def same_result(mine: Result, other: Result) -> bool:
    """Whether two solves end in the same point with the same proof, to the bit."""
    numbers = (mine.value, mine.lower, mine.status) == (other.value, other.lower, other.status)
    return (
        numbers and np.array_equal(mine.ids, other.ids) and bool(np.array_equal(mine.weights, other.weights))
    )


def solve_both(claim: Claim, atoms: Matrix, local: wolfhound.Scan, oracle: Sharded) -> None:
    """Solve here and by the workers; count round trips."""
    f, before = make_objective(atoms), oracle.counts
    here, there = wolfhound.minimize(f, local), wolfhound.minimize(f, oracle)
    trips = {name: times - before[name] for name, times in oracle.counts.items()}
    for way, result in (("solve, 1 thread", here), ("solve, 2 workers", there)):
        claim.row(
            shape=f"{atoms.shape[0]:,} x {atoms.shape[1]}",
            queries=1,
            way=way,
            milliseconds=1e3 * result.seconds,
            passes=result.passes,
            gap=result.gap,
            value=result.value,
        )
    claim.holds("a solve ends in the same ids, weights, value and lower bound", same_result(there, here))
    claim.holds("the solve is proved", there.status is wolfhound.Status.GAP_REACHED)
    claim.at_most("query round trips - passes", abs(trips["query"] - there.passes), 0)
    claim.at_most("round trips for rows, that of the pool alone", trips["take"], 1)


# ---------------------------------------------------------------- deaths


def survive(claim: Claim, atoms: Matrix, folder: Path, *, kills: int) -> None:
    """Kill an actor inside a solve, again and again; every answer must be the same."""
    f, rng = make_objective(atoms), np.random.default_rng(7)
    with cluster.shard(save_halves(atoms, folder), EXACT) as oracle:
        calm = [wolfhound.minimize(f, oracle) for _ in range(4)]
        length = statistics.median(result.seconds for result in calm[1:])
        inside = unchanged = late = 0
        began = time.perf_counter()
        while inside < kills and inside + late < MOST:
            result, hit = solve_and_kill(f, oracle, length * rng.random(), int(rng.integers(2)))
            inside, late = inside + hit, late + (not hit)
            unchanged += hit and same_result(result, calm[0])
        seconds = time.perf_counter() - began
        claim.row(
            shape=f"{atoms.shape[0]:,} x {atoms.shape[1]}",
            way="solve, killed",
            kills=inside,
            late=late,
            unchanged=unchanged,
            waits=oracle.counts["waits"],
            milliseconds=1e3 * length,
            seconds_per_kill=seconds / max(inside + late, 1),
        )
    claim.at_least("kills inside a solve", inside, kills)
    claim.at_least("answers that a death did not change", unchanged, kills)
    same = all(same_result(result, wolfhound.minimize(f, EXACT(atoms))) for result in calm[:1])
    claim.holds("they are the answer of the local solve", same)


def solve_and_kill(
    f: wolfhound.SquaredDistance, oracle: Sharded, after: float, which: int
) -> tuple[Result, bool]:
    """Solve, and kill a worker so many seconds later; return whether the solve was still running."""
    pid, over, hits = oracle.describe()[which].pid, threading.Event(), []

    def strike() -> None:
        inside = not over.wait(after)
        os.kill(pid, signal.SIGKILL)
        hits.append(inside)

    killer = threading.Thread(target=strike)
    killer.start()
    try:
        result = wolfhound.minimize(f, oracle)
    finally:
        over.set()
        killer.join()
    return result, hits[0]


if __name__ == "__main__":
    sys.exit(main())
