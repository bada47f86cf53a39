"""Claim: a handful of passes proves a relative gap of 1e-6.

On glove100, fashion_mnist and a Gaussian mixture of 1e6 x 64, for problems A
(herding objective), B (projection of an outside point) and C (least squares with
an ill-conditioned design), and for targets just off the hull (T0.1 on
fashion_mnist, T0.3 on a mixture of 50,000 x 2,048).

Protocol: the same absolute goal for all methods (1e-3 and 1e-6 of the problem's
first gap), one thread each. Ours is solved anew for either goal, set-up included;
medians of interleaved repeats. The others are classical Frank-Wolfe with line
search, lazified blended pairwise, and fully corrective, each as published with a
plain pass per query; beside them, not judged, blended pairwise on our own screened
oracle, which answers many queries from an earlier pass. They run to 1e-6 with a cap
of 20 s or 30 times our time, whichever is larger, and again only while they took
less than 3 s or than our repeats together; their time to 1e-3 is read off the same
run. A capped run is reported with the gap it reached and its
ratio is a lower bound. Every final gap of ours is re-checked by an independent
float64 numpy pass.

Threshold: at most 3 passes at 1e-6 for A, B, C; at most 4 for T; at least 10 times
less time than the best of the published methods at 1e-6 on every problem, 15 on most.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence

import data
import problems
import runs
from baselines import corrective_scan
from problems import Problem
from reference import Matrix
from rig import Claim, Timed, held_threads, interleave
from runs import Mark, Run

PUBLISHED = ("classical", "blended pairwise", "corrective, scan per step")
ROUGH, FINE = 1e-3, 1e-6
CAP, TINY_CAP, CAP_RATIO, AGAIN = 20.0, 0.1, 30.0, 3.0


def atom_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """The data by name; in tiny runs small mixtures stand in for all."""
    if tiny:
        shapes = {"glove100": (3000, 10), "fashion_mnist": (500, 30), "mixture": (4000, 8), "wide": (300, 40)}
        return {name: functools.partial(data.mixture, n, d) for name, (n, d) in shapes.items()}
    return {
        "glove100": functools.partial(data.atoms, "glove100"),
        "fashion_mnist": functools.partial(data.atoms, "fashion_mnist"),
        "mixture": functools.partial(data.mixture, 1_000_000, 64),
        "wide": functools.partial(data.mixture, 50_000, 2048),
    }


KINDS: dict[str, Callable[[str, Matrix], Problem]] = {
    "A": functools.partial(problems.distance, share=0.0),
    "B": functools.partial(problems.distance, share=1.0),
    "C": problems.least_squares,
    "T0.1": functools.partial(problems.distance, share=0.1),
    "T0.3": functools.partial(problems.distance, share=0.3),
}
PLAN = {
    "glove100": ("A", "B", "C"),
    "fashion_mnist": ("A", "B", "C", "T0.1"),
    "mixture": ("A", "B", "C"),
    "wide": ("T0.3",),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv)
    ratios: list[float] = []
    with held_threads(claim.options.threads):
        claim.notes["warm_up_seconds"] = warm_up()
        for name, make in atom_sets(claim.options.tiny).items():
            wanted = [kind for kind in PLAN[name] if claim.wants(f"{name} {kind}")]
            atoms = make() if wanted else None
            for kind in wanted:
                assert atoms is not None
                ratios.append(judge(claim, KINDS[kind](f"{name} {kind}", atoms), 4 if "T" in kind else 3))
    share = sum(ratio >= 15.0 for ratio in ratios) / max(len(ratios), 1)
    claim.at_least("share of problems with 15 times less time", share, 0.5, full_size=True)
    return claim.finish()


def warm_up() -> float:
    """Compile everything on a small problem; return the seconds."""
    begin = time.perf_counter()
    atoms = data.mixture(2000, 10)
    for kind in ("A", "B", "C"):
        measure(KINDS[kind]("warm", atoms), repeats=1, cap=TINY_CAP, again=AGAIN)
    return time.perf_counter() - begin


def measure(problem: Problem, *, repeats: int, cap: float, again: float) -> dict[str, Timed[Run]]:
    """Time all methods on a problem, repeated while they took less than `again`."""
    rough, fine = ROUGH * problem.scale, FINE * problem.scale
    ours = {
        "ours 1e-3": functools.partial(runs.solve, problem, rough),
        "ours 1e-6": functools.partial(runs.solve, problem, fine),
    }
    library = functools.partial(runs.solve, problem, fine, cap=cap)
    others = {
        "classical": functools.partial(library, method=runs.CLASSICAL, screen=False),
        "blended pairwise": functools.partial(library, method=runs.BLENDED, screen=False),
        "corrective, scan per step": functools.partial(corrective_scan, problem, fine, cap=cap),
        "blended pairwise, screened": functools.partial(library, method=runs.BLENDED),
    }
    return interleave(ours | others, repeats=repeats, budget=again)


def judge(claim: Claim, problem: Problem, most: float) -> float:
    """Measure one problem, add its rows and checks; return the speed ratio."""
    claim.say(f"{problem.name}: {problem.shape}")
    fine = FINE * problem.scale
    first = runs.solve(problem, fine).seconds
    cap = TINY_CAP if claim.options.tiny else max(CAP, CAP_RATIO * first)
    repeats = claim.options.repeats
    timed = measure(problem, repeats=repeats, cap=cap, again=max(AGAIN, repeats * first))
    for name, runs_of in timed.items():
        run = runs_of.last
        claim.row(
            problem=problem.name,
            shape=problem.shape,
            method=name,
            **cells(run, ROUGH * problem.scale, "1e-3"),
            **cells(run, fine, "1e-6"),
            seconds=runs_of.median,
            times_ours=runs_of.median / timed["ours 1e-6"].median,
            repeats=len(runs_of.seconds),
            gap=run.gap / problem.scale,
            steps=run.steps,
            atoms_scored=run.scored,
            support=len(run.ids),
            status=run.status,
        )
    ours = timed["ours 1e-6"]
    runs.confirm(claim, problem, timed["ours 1e-3"].last, ROUGH * problem.scale)
    runs.confirm(claim, problem, ours.last, fine)
    passes = max(run.passes for run in ours.answers)
    claim.at_most(f"{problem.name}: passes at 1e-6", passes, most, full_size=True)
    others = {name: timed[name] for name in PUBLISHED}
    capped = all(runs_of.last.reached(fine) is None for runs_of in others.values())
    # A method that did not arrive took at least the time it was given.
    best = min(runs_of.median for runs_of in others.values())
    bound = " (lower bound: none arrived)" if capped else ""
    claim.at_least(f"{problem.name}: times faster at 1e-6{bound}", best / ours.median, 10.0, full_size=True)
    return best / ours.median


def cells(run: Run, goal: float, label: str) -> dict[str, float | None]:
    """Passes and seconds to a goal, empty where it was not reached."""
    mark = run.reached(goal)
    seconds, passes = mark if isinstance(mark, Mark) else (None, None)
    return {f"passes {label}": passes, f"seconds {label}": seconds}


if __name__ == "__main__":
    sys.exit(main())
