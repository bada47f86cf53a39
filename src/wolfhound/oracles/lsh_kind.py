"""What `LshIndex` costs."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from functools import partial
from typing import Any

from wolfhound import theory
from wolfhound.machine import Speed, fit_line
from wolfhound.oracles._planted import LENGTHS, ORDERED, split_delta
from wolfhound.oracles.indexes import BuildTime, Estimate, IndexKind, Workload
from wolfhound.oracles.int8.scan import code_bytes
from wolfhound.oracles.lsh import NAME, LshIndex
from wolfhound.oracles.lsh_tables import PER_BUCKET, SAMPLE

# For a ratio of 0.9, inside the hull and outside; benchmarks/claim_paper_tables.py measures them.
_NEEDED = ((32.0, 0.4), (2.0, 0.75))
"""A budget of ``a n^e`` atoms reaches 0.9; four times as many halve what is lost."""

_PROMISE = 2.0
"""Bytes of codes that are read as fast as a bucket is passed over."""

_AXES = 32
"""Principal axes that it looks at."""

_RESCORED = 24
"""Rows that a query reads one by one."""

_ARRANGED = (60, 9_000)
"""Products of a row that take as long as to sort and to encode it in the order of buckets: per
entry, and per row."""


def hash_values(n: int) -> int:
    """Values of each of the two codes that make a bucket, two for every direction."""
    return 2 * max(1, round(math.sqrt(n / PER_BUCKET) / 2.0))


def _estimate(work: Workload) -> Estimate:
    """The codes of `budget` atoms, after the promises of all buckets."""
    if work.tau is not None:
        return _estimate_promise(work, work.tau)
    n, d, speeds = work.n, work.d, work.speeds
    factor, exponent = _NEEDED[0 if work.interior else 1]
    known, values, budget = factor * math.pow(n, exponent), hash_values(n), _budget(work)
    reads = code_bytes(budget, d) + _PROMISE * values**2
    return Estimate(
        recipe=f"LshIndex.build(atoms, axes={_AXES}, budget={budget})",
        make=partial(LshIndex.build, axes=_AXES, budget=budget),
        build=speeds.axes * _sampled(work) + speeds.hashing * _products(work) + work.file_seconds(2),
        query=speeds.hash.seconds(reads, work.batch) + work.fetch_seconds(_RESCORED),
        reads=reads,
        scored=budget + values,
        nbytes=code_bytes(n, d) + 8.0 * (n + values**2) + values * (4.0 * d),
        ratio=max(0.0, 1.0 - 0.1 * math.sqrt(known / budget)),
        details={
            "tables": 1,
            "buckets": values**2,
            "values of a code": values,
            "buckets tried": math.ceil(budget / max(1.0, n / values**2)),
        },
    )


def _estimate_promise(work: Workload, tau: float) -> Estimate:
    """The codes of all atoms above a cut, at the length of buckets that suits tau, in every copy."""
    n, d, speeds = work.n, work.d, work.speeds
    copies, delta = split_delta(work.delta)

    def cost(length: int) -> tuple[float, float, float]:
        values = 2 * max(1, round(math.sqrt(n / length) / 2.0))
        probed = n * theory.probed_share(tau, values, delta=delta)
        return probed + ORDERED * values**2, probed, values

    _, probed, values = min(map(cost, LENGTHS))
    reads = copies * (code_bytes(math.ceil(probed), d) + _PROMISE * values**2)
    ratio = min(work.ratio, 1.0)
    several = f", copies={copies}" if copies > 1 else ""
    drawing, filling = speeds.axes * _sampled(work), speeds.hashing * _products(work) + work.file_seconds(2)
    return Estimate(
        recipe=f"LshIndex.build(atoms, ratio={ratio:.3g}, tau={tau:.3g}, delta={delta:.3g}{several})",
        make=partial(LshIndex.build, ratio=ratio, tau=tau, delta=delta, copies=copies),
        build=drawing + copies * filling,
        query=speeds.hash.seconds(reads, work.batch) + work.fetch_seconds(copies * _RESCORED),
        reads=reads,
        scored=copies * (probed + values),
        nbytes=copies * (code_bytes(n, d) + 8.0 * (n + values**2) + values * (4.0 * d)),
        ratio=ratio,
    )


def _budget(work: Workload) -> int:
    factor, exponent = _NEEDED[0 if work.interior else 1]
    known = factor * math.pow(work.n, exponent)
    wish = (0.1 / (1.0 - work.ratio)) ** 2 * known if work.ratio < 1.0 else known
    return min(work.n, math.ceil(max(PER_BUCKET, min(wish, work.n / 4))))


def _products(work: Workload) -> float:
    """Products with two blocks of directions, and what else a row takes."""
    per_entry, per_row = _ARRANGED
    return float(work.n) * ((hash_values(work.n) + per_entry) * work.d + per_row)


def _sampled(work: Workload) -> float:
    """Entries of the sample whose principal axes are found."""
    return float(min(work.n, SAMPLE)) * work.d


def _speeds(speed: Speed, few: BuildTime, many: BuildTime) -> dict[str, Any]:
    points = [(_products(each.work), each.seconds) for each in (few, many)]
    drawing, hashing = fit_line(points[0], points[1])
    return {"hash": speed, "hashing": hashing, "axes": drawing / _sampled(few.work)}


LSH = IndexKind(
    name=NAME,
    title="LshIndex",
    build=LshIndex.build,
    load=LshIndex.load,
    expected=_estimate,
    passes=2,
    takes_ratio=True,
    takes_tau=True,
    adapt=lambda index, work: index.with_budget(_budget(work)),
    speeds=_speeds,
)
