"""Claim: more atoms cost neither passes nor inner work; inside, no time at all.

On prefixes of one Gaussian mixture, n = 1e4, 1e5, 1e6, 4e6, d = 64, to a proved
relative gap of 1e-6. For an outside target (B) and for least squares (C) the
number of passes stays the same within 1 and the time per inner step does not
grow. For an interior target (A, the herding objective) the floor proves: neither
the atoms read nor the time grow with n, a proved solve that is sublinear in n.

Protocol: one thread, medians of repeats interleaved over n. An inner step is an
atom that joins the active set; its time is that of the solves over the pool. Rows
read are counted by wrapping the atoms, in a run that is not timed. "Does not
grow" means that the fitted exponent of n, over a factor of 400, is at most 0.1.

Threshold: passes within 1; exponents at most 0.1; A takes no pass.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import data
import numpy as np
import problems
import runs
from problems import Problem
from reference import Ids, Matrix
from rig import Claim, Timed, held_threads, interleave
from runs import Run

import wolfhound

FINE = 1e-6
SIZES = (10_000, 100_000, 1_000_000, 4_000_000)
TINY_SIZES = (2_000, 4_000, 8_000)
KINDS: dict[str, Callable[[str, Matrix], Problem]] = {
    "A": functools.partial(problems.distance, share=0.0),
    "B": functools.partial(problems.distance, share=1.0),
    "C": problems.least_squares,
}


class CountedAtoms:
    """Atoms that count the rows they give out."""

    def __init__(self, array: Matrix) -> None:
        self.atoms = wolfhound.ArrayAtoms(array)
        self.shape, self.dtype = self.atoms.shape, self.atoms.dtype
        self.rows = 0

    def take(self, ids: Ids) -> Matrix:
        """Rows of these ids."""
        self.rows += len(ids)
        return self.atoms.take(ids)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """All rows once."""
        for first, block in self.atoms.blocks(rows):
            self.rows += len(block)
            yield first, block


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv)
    sizes, d = (TINY_SIZES, 8) if claim.options.tiny else (SIZES, 64)
    with held_threads(claim.options.threads):
        atoms = data.mixture(max(sizes), d)
        for kind in filter(claim.wants, KINDS):
            judge(claim, kind, {n: KINDS[kind](f"{kind} n={n:,}", atoms[:n]) for n in sizes})
    return claim.finish()


def judge(claim: Claim, kind: str, by_size: Mapping[int, Problem]) -> None:
    """Measure one kind of problem over all sizes; add rows and checks."""
    goal = {n: FINE * problem.scale for n, problem in by_size.items()}
    calls = {f"{n}": functools.partial(runs.solve, by_size[n], goal[n]) for n in by_size}
    claim.notes[f"warm_up_seconds {kind}"] = calls[f"{min(by_size)}"]().seconds
    timed = interleave(calls, repeats=claim.options.repeats)
    read = {n: rows_read(problem, goal[n]) for n, problem in by_size.items()}
    for n, problem in by_size.items():
        run = timed[f"{n}"].last
        claim.row(
            problem=kind,
            n=n,
            d=problem.atoms.shape[1],
            passes=run.passes,
            seconds=timed[f"{n}"].median,
            inner_steps=run.steps,
            inner_step_ms=1e3 * step_seconds(timed[f"{n}"]),
            rows_read=read[n],
            atoms_scored=run.scored,
            support=len(run.ids),
            status=run.status,
        )
        runs.confirm(claim, problem, run, goal[n])
    passes = [runs_of.last.passes for runs_of in timed.values()]
    claim.at_most(f"{kind}: spread of passes over n", max(passes) - min(passes), 1.0, full_size=True)
    if kind == "A":
        seconds = {n: timed[f"{n}"].median for n in by_size}
        claim.at_most("A: passes", max(passes), 0.0, full_size=True)
        claim.at_most("A: exponent of n in rows read", exponent(read), 0.1, full_size=True)
        claim.at_most("A: exponent of n in seconds", exponent(seconds), 0.1, full_size=True)
    else:
        inner = {n: step_seconds(timed[f"{n}"]) for n in by_size}
        claim.at_most(
            f"{kind}: exponent of n in seconds per inner step", exponent(inner), 0.1, full_size=True
        )


def step_seconds(timed: Timed[Run]) -> float:
    """Median inner seconds per atom that joined the active set."""
    return statistics.median(run.step_seconds for run in timed.answers)


def rows_read(problem: Problem, goal: float) -> float:
    """Rows that a solve takes from its atoms."""
    counted = CountedAtoms(problem.atoms)
    wolfhound.minimize(problem.objective(), wolfhound.Scan(counted), rtol=0.0, atol=goal)
    return float(counted.rows)


def exponent(cost: Mapping[int, float]) -> float:
    """Least-squares slope of log cost against log n."""
    sizes = np.log(np.array(list(cost), np.float64))
    return float(np.polyfit(sizes, np.log(np.array(list(cost.values()))), 1)[0])


if __name__ == "__main__":
    sys.exit(main())
