"""How long would a proved solve take on a cluster that you do not have? Stragglers and failures included.

The passes come from a solve on small shards; a pass is costed by the model of docs/scale.md.
"""

# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from wolfhound import Scan, Sharded, SquaredDistance, minimize


@dataclass(frozen=True)
class Cluster:
    """What a pass costs: change these to what you have."""

    bandwidth: float = 10e9  # bytes per second that a worker reads from its memory
    disk: float = 1e9  # the same from its disk, when it starts again
    network: float = 1.25e9  # bytes per second into the driver
    trip: float = 2.5e-3  # seconds of a round trip (claim_ray: trip_ms)
    call: float = 0.2e-3  # seconds of the driver per shard that it calls
    spread: float = 0.1  # of the workers' speeds, as a standard deviation of the logarithm
    slow: float = 0.01  # share of answers that take `slowness` times as long
    slowness: float = 4.0
    days: float = 30.0  # that a worker lives, on average
    restart: float = 5.0  # seconds until a worker that died runs again


def simulate_pass(
    cluster: Cluster, rng: np.random.Generator, *, runs: int, nbytes: float, shards: int, answer: float
) -> tuple[np.ndarray, np.ndarray]:
    """(runs,) seconds of a pass over `nbytes` of atoms, and how many workers died in it."""
    share = nbytes / shards
    work = share / cluster.bandwidth * np.exp(cluster.spread * rng.standard_normal((runs, shards)))
    work *= np.where(rng.random(work.shape) < cluster.slow, cluster.slowness, 1.0)
    dies = rng.random(work.shape) < work / (86400.0 * cluster.days)
    # A worker dies somewhere in its pass, is started, reads its atoms and begins again.
    again = cluster.restart + share / cluster.disk + work
    work = np.where(dies, rng.random(work.shape) * work + again, work)
    return work.max(axis=1) + driver_seconds(cluster, shards, answer), dies.sum(axis=1)


def driver_seconds(cluster: Cluster, shards: int, answer: float) -> float:
    """Seconds of the driver in a pass: the round trip, the calls, and the answers that come in."""
    return cluster.trip + shards * (cluster.call + answer / cluster.network)


def count_passes() -> float:
    """Passes of a real solve on four shards: they do not grow with n (claim_growth)."""
    rows = np.random.default_rng(0).standard_normal((40_000, 32)).astype(np.float32)
    with ThreadPoolExecutor(4) as threads:
        oracle = Sharded.over([Scan(part, screen=False) for part in np.array_split(rows, 4)], threads)
        result = minimize(SquaredDistance(np.full(32, 1.0)), oracle)
    print(f"{result.status.name}: {result.passes:.0f} passes, round trips {oracle.counts}\n")
    return result.passes


def main() -> None:
    passes, d, rng = int(count_passes()), 128, np.random.default_rng(1)
    steady = Cluster()
    even, spot = replace(steady, spread=0.0, slow=0.0), replace(steady, days=1.0 / 24.0)
    cases = [
        ("one worker", steady, 1e6, 1, 4096),
        ("ten", steady, 1e8, 10, 4096),
        ("a hundred", steady, 1e9, 100, 4096),
        ("a thousand", steady, 1e10, 1000, 4096),
        ("narrow answers", steady, 1e10, 1000, 64),
        ("no stragglers", even, 1e10, 1000, 64),
        ("lent by the hour", spot, 1e10, 1000, 64),
    ]
    print(f"{passes} passes at d = {d}, float32: seconds of 1,000 runs")
    print("                   atoms  shards  GB each  width  median    95 %   worst  driver  died in")
    for name, cluster, atoms, shards, width in cases:
        nbytes, answer = 4.0 * d * atoms, width * (4.0 * d + 24.0)  # rows, scores, ids and slots
        size = {"runs": 1000, "nbytes": nbytes, "shards": shards, "answer": answer}
        parts = [simulate_pass(cluster, rng, **size) for _ in range(passes)]
        seconds, deaths = sum(part[0] for part in parts), sum(part[1] for part in parts)
        print(
            f"{name:18}{atoms:6.0e} {shards:7,} {nbytes / shards / 1e9:8.2f} {width:6,} "
            f"{np.median(seconds):7.2f} {np.quantile(seconds, 0.95):7.2f} {seconds.max():7.2f} "
            f"{passes * driver_seconds(cluster, shards, answer):7.2f} {(deaths > 0).mean():8.1%}"
        )


if __name__ == "__main__":
    main()
