"""Debian's r-cran-mixsqp as a rival: R in a process of its own, which times its solve alone.

Install: ``apt install r-cran-mixsqp libopenblas0-pthread`` (R's default BLAS is many times
slower, and would be no honest rival).
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SCRIPT = """
library(mixsqp)
given <- commandArgs(TRUE)
n <- as.integer(given[2]); m <- as.integer(given[3])
L <- matrix(readBin(given[1], "double", as.double(n) * m), n, m)
cat("begin\\n"); flush(stdout())
seconds <- system.time(fit <- mixsqp(L, control = list(verbose = FALSE)))[["elapsed"]]
writeBin(as.double(c(seconds, fit$x)), given[4])
"""


class Rival(NamedTuple):
    """Seconds of the solve, at least; its weights, None if it was stopped at the limit."""

    seconds: float
    weights: NDArray[np.float64] | None


def is_installed() -> bool:
    """Whether R and mixsqp are there, and R's products are by OpenBLAS."""
    if shutil.which("Rscript") is None:
        return False
    there = 'requireNamespace("mixsqp", quietly = TRUE) && grepl("openblas", extSoftVersion()[["BLAS"]])'
    asked = ["Rscript", "-e", f"quit(status = !({there}))"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def solve(likelihoods: NDArray[Any], *, limit: float, threads: int = 1) -> Rival:
    """Solve by mixsqp with its defaults; after `limit` seconds it is stopped."""
    n, m = likelihoods.shape
    with tempfile.TemporaryDirectory() as folder:
        given, answer, script = (Path(folder) / name for name in ("given.bin", "answer.bin", "solve.R"))
        likelihoods.astype("<f8").T.tofile(given)
        script.write_text(_SCRIPT)
        command = ["Rscript", str(script), str(given), str(n), str(m), str(answer)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            begun = process.stdout.readline() if process.stdout else ""
            if begun.strip() != "begin":
                raise RuntimeError("mixsqp did not start: apt install r-cran-mixsqp libopenblas0-pthread")
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                return Rival(limit, None)
        if process.returncode:
            raise RuntimeError(f"mixsqp ended with code {process.returncode}")
        found = np.fromfile(answer, "<f8")
    weights = np.maximum(found[1:], 0.0)
    return Rival(float(found[0]), weights / weights.sum())
