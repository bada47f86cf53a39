"""The PyPI package npeb as a baseline, in an environment of its own.

npeb finds the mixture's weights by a general conic solver through cvxpy. It is
installed once, by pip and by name, into a folder of the data cache.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import data
import numpy as np
from reference import Ids, Vector

_PACKAGES = ("npeb", "cvxpy")
_SCRIPT = """
import json, sys, time
import numpy as np
from npeb import GLMixture
seen = np.array(json.load(open(sys.argv[1])))[:, None]
model = GLMixture(prec_type="diagonal", homoscedastic=True, atoms_init=seen)
begin = time.perf_counter()
model.fit(seen, np.ones(1), max_iter_em=0, row_condition=True, score_every=None)
seconds = time.perf_counter() - begin
json.dump([seconds, model.atoms[:, 0].tolist(), model.weights.tolist()], open(sys.argv[2], "w"))
"""


class Fit(NamedTuple):
    """Seconds of a fit, and the weights of the observations as candidates."""

    seconds: float
    ids: Ids
    weights: Vector


def environment(*, install: bool = True) -> Path:
    """Python of npeb's environment, made on first use if `install`.

    Raises
    ------
    RuntimeError
        If it is not there and cannot or may not be made.
    """
    folder = data.folder() / "npeb"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        if not install:
            raise RuntimeError("npeb is not installed, and a tiny run installs nothing")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "-q", *_PACKAGES],
        ):
            _run(command)
        ready.touch()
    return python


def fit(seen: Vector) -> Fit:
    """Weights of a unit-variance normal mixture with the observations as means.

    Raises
    ------
    RuntimeError
        If npeb fails or `environment` was not made.
    """
    python = environment(install=False)
    with tempfile.TemporaryDirectory() as work:
        given, answer = Path(work) / "seen.json", Path(work) / "answer.json"
        given.write_text(json.dumps(seen.tolist()))
        _run([str(python), "-c", _SCRIPT, str(given), str(answer)])
        seconds, atoms, weights = json.loads(answer.read_text())
    order = np.argsort(seen, kind="stable")
    ids = order[np.searchsorted(seen[order], np.array(atoms))]
    return Fit(seconds, ids, np.array(weights))


def _run(command: list[str]) -> None:
    # One thread, as for all methods.
    settings = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    settings.pop("PYTHONPATH", None)
    try:
        subprocess.run(command, env=settings, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        words = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise RuntimeError(f"`{' '.join(command[:5])}` failed: {words[-500:]}") from None
