"""Claim: what became simpler did not become slower.

The same calls in the tree of commit 9db2e80, before second mechanisms left, and in this one: small
dictionaries of `minimize_many` take at most 1.5 times as long per target as there, large ones, `minimize`,
herding, designs and mixtures at most 1.1 times, oracles (one query, 64 at once, builds) and steps of
Frank-Wolfe at most 1.3 times.

Protocol: two processes, one with each tree (the old one by ``git worktree`` in a folder of its own), one
thread each, the same Python and packages; cases of `turn_cases.py`. A case is prepared and run once in both,
then they take turns, old, new, old, new, ...; CPU seconds, since others may be at work. The ratio is that
of the medians over the turns. Freed memory stays with malloc in both (`KEPT`): by default that hangs on the
largest array that a process happened to free before, and one that frees none faults its pages in anew.

Threshold: as above, for each case. A clone must have that commit; a tiny run without it compares this tree
with itself.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig import Claim
from turn_cases import CASES

BEFORE = "9db2e80"
ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
TINY = ("Scan, one query of 256", "LshIndex, one query of 256")


def limit_of(case: str) -> float:
    """How much longer a case may take."""
    if case.startswith("many,"):
        return 1.1 if case.endswith("words") else 1.5
    return 1.3 if any(word in case for word in ("Scan", "Index", "Frank-Wolfe")) else 1.1


class Tree:
    """A process that times cases by the package of one tree."""

    def __init__(self, root: Path) -> None:
        env = os.environ | {"PYTHONPATH": str(root / "src")} | dict.fromkeys(THREADS, "1") | KEPT
        script = str(Path(__file__).with_name("turn_cases.py"))
        self._process = subprocess.Popen(
            [sys.executable, script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def time(self, case: str) -> float:
        """CPU seconds of one call."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes")
        self._process.stdin.write(case + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def check_out(commit: str) -> Iterator[Path | None]:
    """The tree of a commit, in a folder of its own; None where the clone does not have it."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        try:
            subprocess.run([*git, "add", "--detach", str(where), commit], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):  # no git, no history
            yield None
            return
        try:
            yield where
        finally:
            subprocess.run([*git, "remove", "--force", str(where)], check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=9)
    with check_out(BEFORE) as old:
        if old is None and not claim.options.tiny:
            claim.holds(f"this clone has commit {BEFORE}", False)
            return claim.finish()
        trees = Tree(old or ROOT), Tree(ROOT)
        try:
            for case in TINY if claim.options.tiny else CASES:
                if claim.wants(case):
                    compare(claim, case, trees)
        finally:
            for tree in trees:
                tree.close()
    return claim.finish()


def compare(claim: Claim, case: str, trees: tuple[Tree, Tree]) -> None:
    """Let both take turns at a case."""
    turns = [(trees[0].time(case), trees[1].time(case)) for _ in range(claim.options.repeats)]
    before, after = (statistics.median(side) for side in zip(*turns, strict=True))
    claim.row(case=case, before_ms=1e3 * before, after_ms=1e3 * after, ratio=after / before)
    claim.holds(f"{case}: runs in both trees", min(before, after) > 0.0)
    claim.at_most(f"{case}: times as long as before", after / before, limit_of(case), full_size=True)


if __name__ == "__main__":
    sys.exit(main())
