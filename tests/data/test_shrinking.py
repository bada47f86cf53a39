"""Files that shrink after they were opened: an answer from memory, or an error that names them; no signal."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

START = """
import os, sys
from pathlib import Path
import numpy as np
import wolfhound as wh
from wolfhound.data import files
from wolfhound.cli._options import read_points
from wolfhound.mixtures import _newton, weights
files.IN_MEMORY = 0  # so that small files stay on disk, too
folder = Path(sys.argv[1])
rows = np.load(folder / "rows.npy")

def shrink(*paths):
    for path in paths:
        os.truncate(path, 100)

def tell(work):
    try:
        work()
        print("answered")
    except OSError as error:
        print(f"OSError {error}")

def index(oracle, **options):
    oracle.build(rows, **options).save(folder / "index")
    found = oracle.load(folder / "index", rows)
    shrink(folder / "index.safetensors")
    tell(lambda: found.query(np.ones((1, 4)), k=3))

def fit(likelihoods, **options):
    solve = _newton.solve
    _newton.solve = lambda *given, **more: (shrink(folder / "L.npy"), solve(*given, **more))[1]
    tell(lambda: wh.fit_weights(likelihoods, **options))

def many(targets):
    shrink(folder / "targets.npy")
    tell(lambda: wh.minimize_many(targets, rows))

def mapped(name):
    return np.load(folder / name, mmap_mode="r")
"""

CASES = {
    "index(wh.Int8Scan)": "answered",
    "index(wh.ClusterIndex, proof=True)": "answered",
    "index(wh.LshIndex)": "answered",
    "index(wh.Int8FileScan)": "OSError .*index.safetensors has changed since it was opened",
    'fit(folder / "L.npy")': "OSError .*L.npy has changed since it was opened",
    'fit(folder / "L.npy", log=True)': "OSError .*L.npy has changed since it was opened",
    'fit(mapped("L.npy"))': "OSError .*L.npy has changed since it was opened",
    'many(read_points(str(folder / "targets.npy")))': "OSError .*targets.npy has changed since it was opened",
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_shrinks_is_an_ordinary_error(case: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.standard_normal((2000, 4)).astype(np.float32))
    np.save(tmp_path / "L.npy", rng.uniform(0.1, 1.0, (3000, 5)))
    np.save(tmp_path / "targets.npy", rng.standard_normal((30, 10, 4)))
    run = subprocess.run(
        [sys.executable, "-c", f"{START}\n{case}", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(CASES[case], run.stdout), run.stdout
