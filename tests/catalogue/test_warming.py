"""After `warm_up` nothing is compiled or loaded any more, in a process of its own."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wolfhound as wh
from wolfhound.compiled import jit
from wolfhound.core import progress
from wolfhound.core.contracts import State

SCRIPT = """
import gc
import numpy as np
import wolfhound as wh
from numba.core.dispatcher import Dispatcher

def ready():
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return {(each.py_func.__name__, str(one)) for each in kernels for one in each.signatures}

wh.warm_up("minimize", "herd")
before = ready()
rng = np.random.default_rng(1)
for dtype in (np.float32, np.float64):
    rows = rng.standard_normal((20_000, 6)).astype(dtype)
    wh.minimize(wh.SquaredDistance(3.0 * rows[0]), rows)
    wh.minimize(wh.Huber(rng.standard_normal((30, 6)), rng.standard_normal(30)), rows)
    wh.herd(rows, 40)
print(len(before) > 10, sorted(ready() - before), wh.warm_up("minimize", "herd"))
"""


@pytest.mark.slow
def test_the_calls_after_it_compile_and_load_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("True [] 0", "")


def test_an_oracle_is_asked() -> None:
    asked = wh.Audited(wh.Scan(np.eye(3)), every=1)
    wh.warm_up(asked)
    assert asked.audits > 1


@pytest.mark.parametrize("what", ["few", 3])
def test_what_is_not_known_is_refused_before_anything_is_compiled(what: Any) -> None:
    with pytest.raises(ValueError, match=f"`what` must be an oracle, or one of minimize, .* Got {what}"):
        wh.warm_up("herd", what)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "quiet", "said"), [(Terminal, False, 1), (Terminal, True, 0), (io.StringIO, False, 0)]
)
def test_long_compiling_is_said_once_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: type[io.StringIO], quiet: bool, said: int
) -> None:
    stderr, timer = terminal(), jit._Timer()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(jit, "_PATIENCE", -1.0)
    monkeypatch.setenv("WOLFHOUND_QUIET", "1") if quiet else monkeypatch.delenv("WOLFHOUND_QUIET", False)
    for _ in range(3):
        timer.on_start(None)
        timer.on_end(None)
    assert stderr.getvalue().count("wolfhound compiles its kernels once") == said


def test_the_message_names_the_door_and_about_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(jit, "_PATIENCE", -1.0)
    monkeypatch.delenv("WOLFHOUND_QUIET", raising=False)
    timer = jit._Timer()

    def compile_inside(_: State) -> bool:
        timer.on_start(None)
        timer.on_end(None)
        return True

    wh.minimize(wh.SquaredDistance([1.0, 0.2, 0.0]), np.eye(3), callback=compile_inside)
    assert re.fullmatch(r"wolfhound compiles minimize once, about \d+ s\n", stderr.getvalue())


ROWS = np.random.default_rng(0).standard_normal((60, 3))
TIMED: dict[str, Callable[[], Any]] = {
    "minimize": lambda: wh.minimize(wh.SquaredDistance(ROWS[0]), ROWS),
    "minimize_many": lambda: wh.minimize_many(ROWS[:3], ROWS),
    "objectives": lambda: wh.minimize_many([wh.Huber(ROWS[:9], ROWS[:9, 0])] * 2, ROWS),
    "herd": lambda: wh.herd(ROWS, 3),
    "herd_in_features": lambda: wh.herd_in_features(ROWS, 3),
    "npmle": lambda: wh.npmle(ROWS[:, 0], wh.Normal()),
    "fit_weights": lambda: wh.fit_weights(np.exp(ROWS)),
    "design": lambda: wh.design(ROWS),
    "enclosing_ellipsoid": lambda: wh.enclosing_ellipsoid(ROWS),
}


@pytest.mark.parametrize("door", TIMED)
def test_compiling_is_never_counted(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TIMED[door]()
    monkeypatch.setattr(progress.COMPILING, "since", lambda began: 1e6)  # a million seconds of compiling
    assert TIMED[door]().seconds < -1e5
