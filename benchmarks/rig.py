"""The rig of all claims: options, interleaved repeats, checks, table, JSON.

A claim is a script whose docstring says what is claimed, how it is measured and
where the threshold lies. The rig knows nothing of problems or methods.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np

T = TypeVar("T")
Cell: TypeAlias = "str | int | float | bool | None"

RESULTS = Path(__file__).parent / "results"
ASIDE = Path(__file__).parents[1] / "build" / "results"
"""Where results go that speak of no commit."""
_PACKAGES = ("numpy", "numba", "scipy", "faiss-cpu", "torch", "wolfhound")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WOLFHOUND_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a claim is asked for on the command line.

    Attributes
    ----------
    tiny : bool
        Small synthetic problems: shows that the script works, judges no speed.
    repeats : int
        Rounds of interleaved repeats; the median counts.
    only : str
        Run only the problems whose name contains this.
    threads : int
        For our passes, for BLAS and for faiss alike.
    out : Path, optional
        Where the JSON goes; None: nowhere.
    seed : int, optional
        Of a claim that draws its cases anew; None: a fresh one.
    """

    tiny: bool
    repeats: int
    only: str
    threads: int
    out: Path | None
    seed: int | None = None


def parse(name: str, statement: str, argv: Sequence[str] | None, *, repeats: int) -> Options:
    """Read the options of a claim."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(name, description=statement, formatter_class=formatter)
    parser.add_argument("--tiny", action="store_true", help="small synthetic problems, speed not judged")
    parser.add_argument("--repeats", type=int, default=None, help=f"interleaved rounds (default {repeats})")
    parser.add_argument("--only", default="", metavar="PROBLEM", help="problems whose name contains this")
    parser.add_argument("--threads", type=int, default=1, help="threads of every method (default 1)")
    parser.add_argument("--out", type=Path, default=None, help=f"JSON file (default results/{name}.json)")
    parser.add_argument("--seed", type=int, default=None, help="of a claim that draws its cases anew")
    given = parser.parse_args(argv)
    rounds = given.repeats if given.repeats is not None else (1 if given.tiny else repeats)
    if rounds < 1 or given.threads < 1:
        parser.error("--repeats and --threads must be >= 1")
    # A partial run must not pass for the whole claim.
    partial = given.tiny or given.only
    out = given.out if given.out is not None else (None if partial else RESULTS / f"{name}.json")
    return Options(
        tiny=given.tiny, repeats=rounds, only=given.only, threads=given.threads, out=out, seed=given.seed
    )


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """Answers of one method over the rounds, with their wall seconds."""

    seconds: list[float]
    answers: list[T]

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @property
    def last(self) -> T:
        """Answer of the last round."""
        return self.answers[-1]


def interleave(
    calls: Mapping[str, Callable[[], T]], *, repeats: int, budget: float = math.inf
) -> dict[str, Timed[T]]:
    """Time calls in rounds a, b, c, a, b, c, ..., so that drift hits all alike.

    Parameters
    ----------
    calls
        Methods by name.
    repeats
        Rounds.
    budget
        Seconds after which a call sits out the rounds that are left.
    """
    out: dict[str, Timed[T]] = {name: Timed([], []) for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            if sum(out[name].seconds) < budget:
                begin = time.perf_counter()
                answer = call()
                out[name].seconds.append(time.perf_counter() - begin)
                out[name].answers.append(answer)
    return out


def peak_bytes() -> int:
    """Largest resident memory of this process so far; `ru_maxrss` would count its parent's, too."""
    return 1024 * int(field_of("/proc/self/status", "VmHWM").split()[0])


def field_of(path: str, name: str) -> str:
    """One value of a file of lines ``name: value``."""
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next(value.strip() for key, _, value in lines if key == name)


@contextlib.contextmanager
def held_threads(threads: int) -> Iterator[None]:
    """Hold our passes, every BLAS and faiss to this many threads."""
    import faiss  # noqa: PLC0415 - loaded before the limit, which reaches loaded libraries only
    import scipy.linalg  # noqa: F401, PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    import wolfhound  # noqa: PLC0415 - claim_import must measure it in a process that has none of this

    wolfhound.set_threads(threads)
    faiss.omp_set_num_threads(threads)
    try:
        with threadpool_limits(limits=threads):
            yield
    finally:
        wolfhound.set_threads(None)


# ---------------------------------------------------------------- judging


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence that holds or not.

    Attributes
    ----------
    outcome : str
        "PASS", "FAIL", or "REPORTED": a tiny run judges nothing that is said of
        full size only (speed, passes), but always what must be true.
    """

    name: str
    measured: float
    threshold: str
    outcome: str


class Claim:
    """Collects the rows and checks of one claim, then prints and writes them.

    Parameters
    ----------
    script
        The claim's file; its stem names the claim.
    statement
        The claim's docstring.
    argv
        Command line, by default that of the process.
    repeats
        Rounds if the command line does not say.
    """

    def __init__(
        self, script: str, statement: str | None, argv: Sequence[str] | None = None, *, repeats: int = 5
    ) -> None:
        self.name = Path(script).stem
        self.statement = (statement or "").strip()
        self.options = parse(self.name, self.statement, argv, repeats=repeats)
        self.rows: list[dict[str, Cell]] = []
        self.checks: list[Check] = []
        self.notes: dict[str, Cell] = {}
        self._begin = time.perf_counter()
        self._load, self._commit = os.getloadavg()[0], commit()

    def wants(self, problem: str) -> bool:
        """Whether `--only` lets this problem run."""
        return self.options.only in problem

    def say(self, text: str) -> None:
        """Print progress, on stderr so that stdout holds the report alone."""
        print(f"[{time.perf_counter() - self._begin:7.1f} s] {text}", file=sys.stderr, flush=True)

    def row(self, **cells: Cell) -> None:
        """Add a row of the table, and say it."""
        plain = {key: _plain(value) for key, value in cells.items()}
        self.rows.append(plain)
        self.say("  ".join(f"{key}={_text(value)}" for key, value in plain.items()))

    def at_most(self, name: str, measured: float, limit: float, *, full_size: bool = False) -> None:
        """Check that a number is at most a limit."""
        self._check(name, measured, f"<= {limit:g}", measured <= limit, full_size)

    def at_least(self, name: str, measured: float, limit: float, *, full_size: bool = False) -> None:
        """Check that a number is at least a limit."""
        self._check(name, measured, f">= {limit:g}", measured >= limit, full_size)

    def holds(self, name: str, truth: bool) -> None:
        """Check a plain fact."""
        self._check(name, float(truth), "true", bool(truth), False)

    def _check(self, name: str, measured: float, threshold: str, ok: bool, full_size: bool) -> None:
        judged = not (full_size and self.options.tiny)
        outcome = ("PASS" if ok else "FAIL") if judged else "REPORTED"
        self.checks.append(Check(name, float(measured), threshold, outcome))
        self.say(f"{outcome} {name}: {measured:.6g} {threshold}")

    @property
    def passed(self) -> bool:
        """Whether something was judged and nothing failed."""
        return bool(self.checks) and all(check.outcome != "FAIL" for check in self.checks)

    def report(self) -> dict[str, object]:
        """Everything that was measured, and where, as plain JSON types."""
        return {
            "claim": self.name,
            "statement": self.statement,
            "passed": self.passed,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self._begin, 1),
            "options": asdict(self.options) | {"out": None},
            "machine": machine() | {"load_at_start": round(self._load, 2)},
            "versions": versions(),
            "commit": self._commit,
            "notes": {key: _plain(value) for key, value in self.notes.items()},
            "rows": self.rows,
            "checks": [asdict(check) | {"measured": _plain(check.measured)} for check in self.checks],
        }

    def finish(self) -> int:
        """Print the table and the verdicts, write the JSON; return the exit code."""
        print(table(self.rows))
        for key, value in self.notes.items():
            print(f"{key}: {_text(value)}")
        for check in self.checks:
            print(f"{check.outcome:8} {check.name}: {check.measured:.6g} {check.threshold}")
        print(f"{'PASS' if self.passed else 'FAIL'} {self.name}", flush=True)
        out = self.options.out
        if out is not None and out.parent == RESULTS and not is_clean(self._commit):
            out = ASIDE / out.name
            self.say(
                f"the tree has changes that no commit has: written to {out.relative_to(ASIDE.parents[1])}"
            )
        if out is not None:
            write_json(out, self.report())
        return 0 if self.passed else 1


# ---------------------------------------------------------------- writing


def _plain(value: object) -> Cell:
    # JSON has no inf and nan: they become null.
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return None if value is None else str(value)


def _text(value: Cell) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Lay out rows under the union of their columns, in plain text.

    Examples
    --------
    >>> print(table([{"n": 10, "s": 0.5}, {"n": 2000}]))
    n     s
    10    0.5
    2000  -
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns] + [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write beside the file, then rename: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    aside.replace(path)


# ---------------------------------------------------------------- where it ran


def machine() -> dict[str, Cell | dict[str, str]]:
    """Processor, cores, memory and thread settings."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cpu": _cpu_model(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gb": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "thread_variables": {key: os.environ[key] for key in _THREAD_VARIABLES if key in os.environ},
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the speed."""
    out = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            out[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            out[package] = "not installed as a package"
    return out


def commit() -> str:
    """The commit that was measured, with "+ changes" if the tree differs."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "HEAD")
        # Results and pictures of the claims themselves are no change of the code.
        others = (":(exclude)results", ":(exclude)../docs/images")
        changed = _git(here, "status", "--porcelain", "--", "..", *others)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head} + changes" if changed else head


def is_clean(commit: str) -> bool:
    """Whether a result is that of a commit, and of nothing else.

    Examples
    --------
    >>> [is_clean(each) for each in ("24dd1d9", "24dd1d9 + changes", "unknown")]
    [True, False, False]
    """
    return commit != "unknown" and " " not in commit


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
