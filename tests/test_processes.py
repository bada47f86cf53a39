"""Oracles in other processes: pickled, forked, spawned, and compiled code that these share."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.core.test_threads import ROWS, SHARED
from tests.patience import PATIENCE
from wolfhound.data.atoms import FileAtoms


@pytest.mark.parametrize("name", SHARED)
def test_a_pickled_oracle_answers_as_it_would_have(name: str) -> None:
    oracle = SHARED[name](ROWS)
    oracle.query(ROWS[:6])
    copy = pickle.loads(pickle.dumps(oracle))
    mine, other = oracle.query(ROWS[:2], k=3), copy.query(ROWS[:2], k=3)
    np.testing.assert_array_equal(mine.ids, other.ids)
    np.testing.assert_array_equal(mine.bounds, other.bounds)


def test_atoms_in_a_file_are_pickled_as_their_path(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones((10_000, 8)))
    assert len(pickle.dumps(FileAtoms(tmp_path / "rows.npy"))) < 2000


def run_script(folder: Path, script: str, **environment: str) -> list[str]:
    """Run a script with a __main__ of its own, as children that are spawned need; return its lines."""
    path = folder / "script.py"
    path.write_text(script)
    here = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=here,
        env=os.environ | {"WOLFHOUND_NUM_THREADS": "2"} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.split("\n")


_ASKED = """
import multiprocessing, os, sys, threading, warnings
import numpy as np
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.wrappers import Tiered
from wolfhound.oracles.subset import RandomSubset
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of fork where there are threads
rows = np.random.default_rng(0).standard_normal((4000, 8))
queries = rows[:6]

def best(oracle):
    hits = oracle.query(queries, k=2)
    assert (hits.ids[:, 0] == (queries @ rows.T).argmax(axis=1)).all()
    return hits.bounds.tolist()

def child(work):
    if not (pid := os.fork()):
        os._exit(0 if work() else 1)
    return os.waitpid(pid, 0)[1]
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_children_of_a_fork_answer(tmp_path: Path) -> None:
    script = f"""{_ASKED}
from wolfhound.core.threads import alone, one_blas_thread, Tally
from threadpoolctl import threadpool_info
oracle = Tiered(RandomSubset(rows))
expected = best(oracle)  # our threads are there, and not in the child
print(child(lambda: best(oracle) == expected))

blas = lambda: max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
before, inside, leave = blas(), threading.Event(), threading.Event()
def hold():
    with one_blas_thread(), alone:
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
print(child(lambda: Tally().add() == 0 and blas() == before))  # what another thread held is free
leave.set()
thread.join()
print(multiprocessing.get_context("fork").Pool(2).map(best, [oracle] * 3) == [expected] * 3)
"""
    assert run_script(tmp_path, script)[:3] == ["0", "0", "True"]


@pytest.mark.slow
def test_children_that_are_spawned_answer(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    script = f"""{_ASKED}
import joblib
if __name__ == "__main__":
    oracle = Tiered(RandomSubset(rows))
    expected = best(oracle)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(best, [oracle, Scan(rows)]) == [expected] * 2)
    for backend in ("loky", "threading"):
        with joblib.parallel_backend(backend, n_jobs=2):
            print(joblib.Parallel()(joblib.delayed(best)(oracle) for _ in range(4)) == [expected] * 4)
"""
    assert run_script(tmp_path, script)[:3] == ["True"] * 3


@pytest.mark.slow
def test_processes_may_fill_the_cache_of_compiled_code_together(tmp_path: Path) -> None:
    code = (
        "import numpy as np; from wolfhound.oracles._scan_kernels import square_all; out = np.empty(3);"
        "square_all(2.0 * np.eye(3), out); print(out.sum(), sum(square_all.stats.cache_misses.values()))"
    )

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[1],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    for each in [start() for _ in range(3)]:
        assert each.communicate(timeout=PATIENCE)[0].startswith("12.0 ")
    assert start().communicate(timeout=PATIENCE)[0] == "12.0 0\n"  # nothing is compiled again
