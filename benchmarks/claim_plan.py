"""Claim: `plan` and `choose_oracle` choose the right oracle, and say about where an index begins to pay.

Two speeds of the machine are measured here and now, as they do by default; then every oracle that they
weigh is built and asked, and what they say is compared with what was measured.

choices    for 1, 10, ..., 1,000,000 queries, with proof and without, alone and 64 at a time: the oracle that
           is chosen, and the one that takes least by what was measured, building included
pays       from how many queries on each index costs less than a scan, said and measured
plans      seconds to build and per query, atoms scored: said and measured

Protocol: Gaussian mixtures of 1e5 x 32, 3e5 x 96 and 1e6 x 128 in memory, on which the constants of the cost
models were fitted, and of 5e5 x 48, on which they were not; one thread by default; gap ratio 0.9, boundary.
Queries are combinations of atoms. Builds once (twice up to 3e5, the faster counts), queries the lower
quartile of 9 rounds in turn; kernels are compiled before. Times are of the processor, so that other work of
the machine counts for neither side.

Thresholds, judged at full size: the chosen oracle takes, as measured, at most 1.5 times what the best of
those that will do takes, at every number of queries; break-even against a scan within a factor of 3, from
both sides; what is scored within 1.3. Seconds are reported, not judged.

Restated: it judged seconds of builds (1.5 to 2.5) and queries (3), from a calibration that took a minute and
was kept in a file, and `minimize_many` through an index. The order of the oracles and where they cross is
what a plan is for, and two speeds tell it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from reference import Matrix, Vector
from rig import Claim, held_threads

import wolfhound as wh
from wolfhound.core.contracts import Oracle
from wolfhound.oracles.indexes import Speeds
from wolfhound.planning.plan import Choice, Option, choose_oracle

RATIO, BATCH = 0.9, 64
FULL = [(100_000, 32), (300_000, 96), (500_000, 48), (1_000_000, 128)]
COUNTS = tuple(10**power for power in range(7))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=1)
    tiny = claim.options.tiny
    sizes = [(3000, 8), (6000, 12)] if tiny else FULL
    with held_threads(claim.options.threads):
        speeds = Speeds.here()
        claim.row(table="speeds", byte=speeds.byte, product=speeds.product)
        for n, d in sizes:
            if claim.wants(f"{n} x {d}"):
                compare(claim, draw_mixture(n, d, seed=d), speeds)
    return claim.finish()


def draw_mixture(n: int, d: int, *, seed: int) -> Matrix:
    """64 normal clouds."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((64, d), dtype=np.float32)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows += centres[rng.integers(0, 64, n)]
    return rows


def time_call(call: Callable[[], object]) -> float:
    """Seconds of a call, of the processor."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def compare(claim: Claim, atoms: Matrix, speeds: Speeds) -> None:
    """Build and ask everything that is weighed."""
    rng = np.random.default_rng(1)
    queries = rng.standard_normal((BATCH, 256)) @ (atoms[:256] - atoms.mean(0))
    choose = partial(choose_oracle, atoms, ratio=RATIO, speeds=speeds)
    ranked = choose(proof=False).options
    held = wh.data.atoms.as_atoms(atoms)
    for each in ranked:  # kernels are compiled
        each.make(held.take(np.arange(1000)), seed=0).query(queries[:2])
    built, builds = build_all(ranked, atoms)
    seconds = {1: ask_all(built, queries, 1), BATCH: ask_all(built, queries, BATCH)}
    what = f"{len(atoms):,} x {atoms.shape[1]}"
    for batch, times in seconds.items():
        for each in choose(proof=False, batch=batch).options:
            saved = times["scan"] - times[each.name]
            pays = max(1.0, builds[each.name] / saved) if saved > 0.0 else np.inf
            scored = float(built[each.name].query(queries).scored.mean())
            claim.row(
                table="plans",
                n=len(atoms),
                d=atoms.shape[1],
                oracle=each.title,
                together=batch,
                build=builds[each.name],
                build_plan=each.build_seconds,
                query=times[each.name],
                query_plan=each.query_seconds,
                scored=scored,
                scored_plan=each.scored,
                pays=pays,
                pays_plan=each.pays_from,
            )
            check_factor(claim, f"{what}, {each.title}: atoms scored", scored, each.scored, 1.3)
            if batch == 1 and each.build_seconds > 0.0 and np.isfinite([pays, each.pays_from]).all():
                check_factor(claim, f"{what}, {each.title}: pays from", pays, each.pays_from, 3.0)
        for proof in (True, False):
            for many in COUNTS:
                judge(claim, what, choose(queries=many, proof=proof, batch=batch), builds, times)
    sure = [choose(queries=many, proof=True).chosen for many in COUNTS]
    claim.holds(f"{what}: what proves is chosen where a proof is wanted", not any(o.objection for o in sure))


def judge(claim: Claim, what: str, choice: Choice, builds: dict[str, float], times: dict[str, float]) -> None:
    """Compare what is chosen with what takes least."""
    many, batch = choice.queries, choice.workload.batch
    totals = {each.name: builds[each.name] + many * times[each.name] for each in choice.options}
    best = min((each for each in choice.options if not each.objection), key=lambda each: totals[each.name])
    loss = totals[choice.chosen.name] / totals[best.name]
    proof = "proof" if choice.proof else "no proof"
    claim.row(
        table="choices",
        atoms=what,
        queries=many,
        together=batch,
        proof=choice.proof,
        chosen=choice.chosen.title,
        best=best.title,
        loss=loss,
    )
    claim.at_most(
        f"{what}, {many:,} queries, {batch} together, {proof}: {choice.chosen.title} over the best",
        loss,
        1.5,
        full_size=True,
    )


def check_factor(claim: Claim, name: str, measured: float, predicted: float, factor: float) -> None:
    """Measured over predicted must be within a factor."""
    claim.at_most(f"{name}, measured over predicted", measured / predicted, factor, full_size=True)
    claim.at_least(f"{name}, measured over predicted", measured / predicted, 1.0 / factor, full_size=True)


def build_all(ranked: Sequence[Option], atoms: Matrix) -> tuple[dict[str, Oracle], dict[str, float]]:
    """Every oracle, and the seconds that it took; none where nothing is built."""
    held = wh.data.atoms.as_atoms(atoms)
    built, seconds = {}, {}
    for each in ranked:
        begin = time.process_time()
        built[each.name] = each.make(held, seed=0)
        taken = time.process_time() - begin
        if len(atoms) <= 300_000:
            taken = min(taken, time_call(partial(each.make, held, seed=0)))
        seconds[each.name] = taken if each.build_seconds > 0.0 else 0.0
    return built, seconds


def ask_all(built: dict[str, Oracle], queries: Vector, batch: int, rounds: int = 9) -> dict[str, float]:
    """Seconds per query of every oracle, so many together, asked in turn."""
    times: dict[str, list[float]] = {name: [] for name in built}
    for oracle in built.values():
        oracle.query(queries[:batch])
    for turn in range(rounds):
        for name, oracle in built.items():
            some = queries[turn : turn + 1] if batch == 1 else queries
            times[name].append(time_call(partial(oracle.query, some)) / batch)
    return {name: float(np.quantile(some, 0.25)) for name, some in times.items()}


if __name__ == "__main__":
    sys.exit(main())
