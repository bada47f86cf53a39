"""Claim: atoms far larger than memory are solved at the speed at which their file can be read.

A file of 20 GB, 19.5 million normal atoms of dimension 256 in float32, and the point of their
hull nearest to a target outside, proved to 1e-6.

Protocol: the file is written first and removed afterwards, also if something fails; its size is
checked against the free disk. Every solve is a process of its own, with max_memory=600MB, which
tells its peak resident memory, libraries included, and the bytes that it read. The page cache of
all files is dropped by posix_fadvise before every pass of a solve, and before every plain read
of the file in blocks of 16 MiB, into one buffer; dropping is not timed. Plain reads and solves
take turns; of the solves the median counts, of the plain reads the fastest. `--threads` are those
that score (1 by default); one more reads ahead.
At a tenth of the size the same is solved in memory, and its gap computed anew with numpy.
Codes are built on disk by a process of their own, and asked instead of the atoms.
`--tiny` takes 2 GB, `--bytes` any size; `--folder` says where (default: here).

Threshold: peak resident memory < 1 GB, of the solves and of building codes. Time at most 1.3
times passes x a plain read. Ids, weights and value at the smaller size as in memory, to the bit.
With codes at most 0.35 of the bytes; at the smaller size to the bit what a scan of the rows
answers, at full size a value within the goal.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rig import Claim, Options, field_of, peak_bytes

import wolfhound as wh
from wolfhound.core.contracts import State

WIDTH = 256
BLOCK = 16 << 20
MEMORY = "600MB"
SMALLER = 10
"""A solve in memory takes this part of the atoms."""

Facts = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bytes", type=float, default=None)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--work", default=None)
    own, rest = parser.parse_known_args(argv)
    if own.work is not None:
        print(json.dumps(work(json.loads(own.work))))
        return 0
    claim = Claim(__file__, __doc__, rest, repeats=2)
    size = own.bytes or (2e9 if claim.options.tiny else 20e9)
    need, free = 1.3 * size, shutil.disk_usage(own.folder).free
    if need > free:
        raise SystemExit(f"{need / 1e9:.1f} GB of disk are needed in {own.folder}. Got {free / 1e9:.1f} GB.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder is removed
    with tempfile.TemporaryDirectory(prefix="claim_out_of_core-", dir=own.folder) as folder:
        judge(claim, Path(folder), max(int(size) // (4 * WIDTH), 20_000))
    return claim.finish()


# ---------------------------------------------------------------- the file


def write_atoms(path: Path, n: int) -> None:
    """Write normal atoms, the same ones each time."""
    rows = BLOCK // (4 * WIDTH)

    def draw(first: int) -> Any:
        size = min(rows, n - first), WIDTH
        return np.random.default_rng([7, first]).standard_normal(size, np.float32)

    header = {"descr": "<f4", "fortran_order": False, "shape": (n, WIDTH)}
    with open(path, "wb") as file, ThreadPoolExecutor(2) as pool:
        np.lib.format.write_array_header_1_0(file, header)
        starts = iter(range(0, n, rows))
        ahead = [pool.submit(draw, first) for _, first in zip(range(4), starts, strict=False)]
        while ahead:
            file.write(ahead.pop(0).result().data)
            ahead += [pool.submit(draw, first) for _, first in zip(range(1), starts, strict=False)]
        file.flush()
        os.fsync(file.fileno())


def drop(paths: Sequence[str]) -> None:
    """Drop the page cache of files."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read(path: Path) -> float:
    """Seconds of a plain read."""
    drop([str(path)])
    buffer = np.empty(BLOCK, np.uint8).data
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin


# ---------------------------------------------------------------- a process


def call(options: Options, **job: Any) -> Facts:
    """Do a job in a process of its own; return what it tells."""
    command = [sys.executable, __file__, "--work", json.dumps({**job, "threads": options.threads})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: Facts = json.loads(done.stdout.splitlines()[-1])
    return found


def work(job: Facts) -> Facts:
    """Solve, or build codes, as told; return what was measured."""
    wh.set_threads(job["threads"])
    wh.warm_up()
    path, n = job["path"], job["n"]
    atoms = wh.FileAtoms.raw(path, (n, WIDTH), np.float32, offset=job["offset"])
    if job["kind"] == "build":
        begin = time.perf_counter()
        wh.Int8FileScan.build(atoms, job["folder"])
        return {"seconds": time.perf_counter() - begin, "peak": peak_bytes()}
    return solve(job, atoms)


def solve(job: Facts, atoms: wh.FileAtoms) -> Facts:
    """Solve over atoms in memory, in the file, or by codes."""
    files, lost = [job["path"]], 0.0
    source: Any = atoms
    options: Facts = {}
    if job["kind"] == "memory":
        source = atoms.take(np.arange(job["n"]))
    elif job["kind"] == "codes":
        source = open_codes(job["folder"], atoms)
        files.append(f"{job['folder']}.safetensors")
    elif job["kind"] == "rows":
        source = wh.Scan(atoms, screen=False)
    if source is atoms:
        options["max_memory"] = MEMORY

    def watch(state: State) -> None:
        nonlocal lost
        if state.kind == "corrective":  # a pass comes next
            begin = time.perf_counter()
            drop(files)
            lost += time.perf_counter() - begin

    target = 0.75 * np.random.default_rng(5).standard_normal(WIDTH)
    drop(files)
    begin, before = time.perf_counter(), bytes_read()
    result = wh.minimize(wh.SquaredDistance(target), source, callback=watch, **options)
    return {
        "seconds": time.perf_counter() - begin - lost,
        "peak": peak_bytes(),
        "bytes": bytes_read() - before,
        "passes": result.passes,
        "value": result.value,
        "lower": result.lower,
        "goal": result.goal,
        "proved": result.success,
        "ids": result.ids.tolist(),
        "weights": result.weights.tolist(),
        "gap_anew": measure_gap(source, result, target) if job["kind"] == "memory" else None,
    }


def open_codes(folder: str, atoms: wh.FileAtoms) -> Any:
    """Open codes, proved against the atoms as they are loaded."""
    return wh.Int8FileScan.load(folder, atoms)


def measure_gap(rows: Any, result: wh.Result, target: Any) -> float:
    """The Frank-Wolfe gap, by numpy."""
    x = result.weights @ rows[result.ids].astype(np.float64)
    grad = x - target
    best = min(
        float((rows[i : i + 65_536].astype(np.float64) @ grad).min()) for i in range(0, len(rows), 65_536)
    )
    return float(x @ grad) - best


def bytes_read() -> int:
    """Bytes that were read from files, cached or not."""
    return int(field_of("/proc/self/io", "rchar"))


# ---------------------------------------------------------------- judging


def judge(claim: Claim, folder: Path, n: int) -> None:
    """Write the file, read and solve in turns, and compare."""
    path, size = folder / "atoms.npy", 4 * WIDTH * n
    claim.say(f"writing {size / 1e9:.2f} GB to {folder}")
    write_atoms(path, n)
    job = {"path": str(path), "n": n, "offset": path.stat().st_size - size, "folder": str(folder / "codes")}
    plain, runs = [], []
    for _ in range(claim.options.repeats):
        plain.append(read(path))
        runs.append(call(claim.options, **job, kind="file"))
    plain.append(read(path))
    once = min(plain)
    built = call(claim.options, **job, kind="build")
    codes = call(claim.options, **job, kind="codes")
    seconds = statistics.median(run["seconds"] for run in runs)
    gigabytes = size / 1e9
    claim.row(method="plain read", gigabytes=gigabytes, seconds=once, gb_per_second=gigabytes / once)
    add_row(claim, "minimize", gigabytes, {**runs[0], "seconds": seconds})
    add_row(claim, "build of codes", gigabytes, built)
    add_row(claim, "minimize with codes", gigabytes, codes)
    claim.holds("proved to 1e-6", all(run["proved"] for run in (*runs, codes)))
    most = max(each["peak"] for each in (*runs, built, codes))
    claim.at_most("peak resident memory, GB", most / 1e9, 1.0)
    ratio = seconds / (runs[0]["passes"] * once)
    claim.at_most("time / (passes x a plain read)", ratio, 1.3, full_size=True)
    claim.at_most("bytes with codes / without", codes["bytes"] / runs[0]["bytes"], 0.35, full_size=True)
    apart = abs(codes["value"] - runs[0]["value"])
    claim.at_most("with codes: difference of values / goal", apart / runs[0]["goal"], 1.0)
    judge_smaller(claim, {**job, "n": max(n // SMALLER, 10_000), "folder": str(folder / "smaller")})


def judge_smaller(claim: Claim, job: Facts) -> None:
    """Compare with a solve in memory, where that can be."""
    gigabytes = 4 * WIDTH * job["n"] / 1e9
    call(claim.options, **job, kind="build")
    found = {kind: call(claim.options, **job, kind=kind) for kind in ("file", "memory", "rows", "codes")}
    for kind, facts in found.items():
        add_row(claim, f"smaller, {kind}", gigabytes, facts)
    claim.holds("smaller: to the bit as in memory", _same(found["file"], found["memory"]))
    claim.holds("smaller: codes to the bit as rows", _same(found["codes"], found["rows"]))
    goal = found["memory"]["goal"]
    claim.at_most("smaller: gap computed anew / goal", found["memory"]["gap_anew"] / goal, 1.0)


def _same(one: Facts, other: Facts) -> bool:
    return all(one[name] == other[name] for name in ("ids", "weights", "value"))


def add_row(claim: Claim, method: str, gigabytes: float, facts: Facts) -> None:
    """Add a row: what a process told."""
    read_: Callable[[str], Any] = facts.get
    claim.row(
        method=method,
        gigabytes=gigabytes,
        seconds=facts["seconds"],
        passes=read_("passes"),
        gigabytes_read=None if read_("bytes") is None else facts["bytes"] / 1e9,
        peak_gb=facts["peak"] / 1e9,
        gap=None if read_("value") is None else facts["value"] - facts["lower"],
        goal=read_("goal"),
    )


if __name__ == "__main__":
    sys.exit(main())
