"""Claim: a solve that is killed goes on, and proves the same goal with at most one pass more.

corrective   FullyCorrective with small harvests, 60,000 x 64 in a file, target outside
squares      the same for least squares, 20,000 x 256
frank-wolfe  FrankWolfe with pairwise steps and default screening, 60,000 x 64
again        corrective, killed again and again until it ends
many         `minimize_many(out=)` over targets in groups (benchmarks/resume_many.py)
full disk    files cannot grow (RLIMIT_FSIZE): one clear line, the file as it was
read-only    the file cannot be written: one clear line, the file as it was

Protocol: a process is forked that solves from the file with `checkpoint=file`, and is
killed (SIGKILL) at a moment drawn uniformly over the time of the undisturbed run, 50
times (corrective and many; half as often the others); moments that come after the end
are drawn again. Then the same call goes on, here. Each time: the goal is that of the
undisturbed run and is proved; the passes of both calls, as counted, are at most one
more; all rows that both processes swept, those of the pass that was cut off included,
are reported. The point, its value and gap are computed again from all atoms, without the
library, and no lower bound exceeds any value. The seed of the moments is in the JSON.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import importlib.util
import mmap
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import data
import numpy as np
import reference
from rig import Claim, held_threads

import wolfhound as wh
from wolfhound.core.progress import on_progress
from wolfhound.data import store

NOBODY = 65534


class Problem(NamedTuple):
    """What is solved, by `minimize`, and how often it is killed."""

    path: Path
    objective: Any
    loss: Any
    options: dict[str, Any]
    kills: int

    @property
    def atoms(self) -> Any:
        """All atoms, in memory."""
        return np.load(self.path)

    def solve(self, folder: Path | None, **options: Any) -> wh.Result:
        """Solve from the file."""
        return wh.minimize(self.objective, self.path, checkpoint=folder, **self.options, **options)


def main(argv: list[str] | None = None) -> int:
    claim = Claim(__file__, __doc__, argv, repeats=1)
    seed = claim.options.seed if claim.options.seed is not None else int.from_bytes(os.urandom(4), "little")
    claim.notes["seed"] = seed
    rng = np.random.default_rng(seed)
    with held_threads(claim.options.threads), tempfile.TemporaryDirectory() as place:
        root = Path(place)
        os.chmod(root, 0o755)  # read-only is tried as another user
        problems = make_problems(root, tiny=claim.options.tiny)
        for name, problem in problems.items():
            if claim.wants(name):
                judge_kills(claim, name, problem, root / name, rng)
        disks = {"full disk": fill_disk, "read-only": lock_folder}
        for name, judge in {"again": judge_again, **disks}.items():
            if claim.wants(name):
                judge(claim, name, problems["corrective"], root / name)
    if claim.wants("many"):
        judge_many(claim)
    return claim.finish()


def make_problems(root: Path, *, tiny: bool) -> dict[str, Problem]:
    n, d, wide, kills = (4000, 16, 24, 3) if tiny else (60_000, 64, 256, 50)
    rng = np.random.default_rng(5)
    np.save(root / "rows.npy", data.gaussian(n, d))
    np.save(root / "wide.npy", data.gaussian(n // 3, wide))
    target = rng.standard_normal(d)
    target *= 0.9 / np.linalg.norm(target)
    design = rng.standard_normal((wide, wide)) * np.geomspace(1.0, 0.03, wide)
    response = rng.standard_normal(wide)
    small = wh.FullyCorrective(harvest=1, pool=2, effort=1e-9)
    walk = wh.FrankWolfe(wh.Pairwise())
    distance, loss = wh.SquaredDistance(target), reference.Distance(target)
    squares, residuals = wh.LeastSquares(design, response), reference.Squares(design, response)
    few = -(-kills // 2)
    return {
        "corrective": Problem(root / "rows.npy", distance, loss, {"method": small, "rtol": 1e-3}, kills),
        "squares": Problem(root / "wide.npy", squares, residuals, {"method": small, "rtol": 1e-2}, few),
        "frank-wolfe": Problem(root / "rows.npy", distance, loss, {"method": walk, "rtol": 1e-2}, few),
    }


# ---------------------------------------------------------------- killing


class Child:
    """A forked process that runs a call, and the rows that it has swept."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._swept = mmap.mmap(-1, 8)
        self.pid = os.fork()
        if self.pid:
            return
        try:
            with on_progress(self._count):
                call()
            os._exit(0)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr)
            os._exit(1)

    def _count(self, rows: int) -> None:
        self._swept[:] = (self.swept + rows).to_bytes(8, "little")

    @property
    def swept(self) -> int:
        """Rows so far."""
        return int.from_bytes(self._swept[:], "little")

    def kill(self, seconds: float) -> bool:
        """Kill it after so long; False if it had ended by then."""
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGKILL)  # of a process that has ended, too: it was not waited for
        return os.WIFSIGNALED(os.waitpid(self.pid, 0)[1])

    def wait(self) -> int:
        """Return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def judge_kills(claim: Claim, name: str, problem: Problem, folder: Path, rng: np.random.Generator) -> None:
    whole = problem.solve(None)  # compiles, too
    begin = time.perf_counter()
    ended = Child(functools.partial(problem.solve, folder / "whole")).wait()
    seconds = time.perf_counter() - begin
    claim.holds(f"{name}: the undisturbed run reaches its goal", ended == 0 and whole.success)
    n = len(problem.atoms)
    runs: list[wh.Result] = []
    swept, kept = [], []
    while len(runs) < problem.kills:
        place = folder / f"run {len(runs)} {rng.integers(1 << 30)}"
        child = Child(functools.partial(problem.solve, place))
        if not child.kill(float(rng.uniform(0.0, seconds))):
            continue
        kept.append(wh.load(place).passes if store.place(place).exists() else 0.0)
        rows: list[int] = []
        with on_progress(rows.append):
            runs.append(problem.solve(place))
        swept.append((child.swept + sum(rows)) / n)
    least, most = min(kept), max(kept)
    found = {"most_swept": max(swept), "resumed_after_least": least, "resumed_after_most": most}
    claim.row(problem=name, kills=len(runs), **summarise(whole, runs), **found)
    claim.holds(f"{name}: resumed every time", len(runs) == problem.kills)
    judge_proofs(claim, name, problem, whole, runs)


def summarise(whole: wh.Result, runs: list[wh.Result]) -> dict[str, float]:
    most = max(run.passes for run in runs)
    return {"runs": len(runs), "passes": whole.passes, "most_passes": most, "seconds": whole.seconds}


def judge_proofs(claim: Claim, name: str, problem: Problem, whole: wh.Result, runs: list[wh.Result]) -> None:
    """The same goal, proved, and what is proved is true."""
    claim.holds(
        f"{name}: the same goal is proved", all(run.success and run.goal == whole.goal for run in runs)
    )
    more = max(run.passes for run in runs) - whole.passes
    claim.at_most(f"{name}: passes more than undisturbed", more, 1.0)
    everyone, atoms = [whole, *runs], problem.atoms
    least = min(run.value for run in everyone)
    claim.holds(f"{name}: no lower bound above a value", max(run.lower for run in everyone) <= least)
    proofs = [reference.prove(problem.loss, atoms, run.ids, run.weights) for run in everyone]
    good = [
        proof.feasible and proof.value <= run.value * (1.0 + 1e-12) and proof.lower <= least
        for proof, run in zip(proofs, everyone, strict=True)
    ]
    claim.holds(f"{name}: points and values hold when computed again", all(good))
    away = max(abs(proof.value - proofs[0].value) for proof in proofs)
    claim.at_most(f"{name}: values differ, over the goal", away / whole.goal, 1.0)


def judge_again(claim: Claim, name: str, problem: Problem, folder: Path) -> None:
    """Kill one run until it ends: it gets ever more time, lest it always dies before a pass."""
    whole, kills = problem.solve(None), 0
    while Child(functools.partial(problem.solve, folder)).kill(0.1 * whole.seconds + 0.02 * kills):
        kills += 1
    result = problem.solve(folder)
    claim.row(problem=name, kills=kills, **summarise(whole, [result]))
    judge_proofs(claim, name, problem, whole, [result])


def judge_many(claim: Claim) -> None:
    """Groups of targets: the protocol is that of resume_many.py."""
    if importlib.util.find_spec("resume_many") is None:
        claim.notes["many"] = "resume_many.py is not here"
        return
    tiny = claim.options.tiny
    found = importlib.import_module("resume_many").kill_many(4 if tiny else 50, tiny)
    claim.row(problem="many", **found)
    claim.holds("many: the same answer, to the bit, every time", found["resumed"] == found["kills"])


# ---------------------------------------------------------------- disks


def judge_disk(claim: Claim, name: str, problem: Problem, folder: Path, spoil: Callable[[], object]) -> None:
    """What is kept stays as it was, and nothing new is made."""
    whole = problem.solve(None)
    problem.solve(folder / "run", max_passes=2)
    kept = folder / "run.safetensors"
    before = kept.read_bytes()

    def write() -> None:
        spoil()
        for place in ("run", "new"):
            try:
                problem.solve(folder / place)
                raise AssertionError("it was written")
            except OSError as error:
                text = str(error)
            if not text.startswith("`checkpoint` must be a file that can be written. Got "):
                raise AssertionError(text)
            if "\n" in text:
                raise AssertionError(text)

    claim.holds(f"{name}: a clear line", Child(write).wait() == 0)
    claim.holds(f"{name}: the file is as it was", kept.read_bytes() == before)
    claim.holds(f"{name}: nothing half-written", os.listdir(folder) == [kept.name])
    os.chmod(folder, 0o755)
    result = problem.solve(folder / "run")
    claim.holds(f"{name}: the run goes on", result.success and result.passes <= whole.passes + 1.0)


def fill_disk(claim: Claim, name: str, problem: Problem, folder: Path) -> None:
    def spoil() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))

    judge_disk(claim, name, problem, folder, spoil)


def lock_folder(claim: Claim, name: str, problem: Problem, folder: Path) -> None:
    def spoil() -> None:
        os.chmod(folder, 0o555)
        if os.geteuid() == 0:  # root writes everywhere
            os.seteuid(NOBODY)

    judge_disk(claim, name, problem, folder, spoil)
    os.chmod(folder, 0o755)


if __name__ == "__main__":
    sys.exit(main())
