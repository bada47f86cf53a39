"""After `warm_up` nothing is compiled or loaded any more, in a process of its own."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import gc
import numpy as np
import wolfhound as wh
from numba.core.dispatcher import Dispatcher

def ready():
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return {(each.py_func.__name__, str(one)) for each in kernels for one in each.signatures}

wh.warm_up()
before = ready()
rng = np.random.default_rng(1)
for dtype in (np.float32, np.float64):
    rows = rng.standard_normal((20_000, 6)).astype(dtype)
    wh.minimize(wh.SquaredDistance(3.0 * rows[0]), rows)
    wh.minimize(wh.Huber(rng.standard_normal((30, 6)), rng.standard_normal(30)), rows)
    wh.herd(rows, 40)
print(len(before) > 10, sorted(ready() - before), wh.warm_up())
"""


@pytest.mark.slow
def test_the_calls_after_it_compile_and_load_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("True [] 0", "")
