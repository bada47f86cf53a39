"""Checkpoints: runs that were cut short go on, and believe nothing that they read."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wolfhound as wh
from tests.patience import PATIENCE
from wolfhound.core.contracts import Hits, State, Status
from wolfhound.data import store
from wolfhound.data.atoms import FileAtoms
from wolfhound.data.store import StoreError
from wolfhound.solve.checkpoint import CODEC, Checkpoint

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((3000, 20)).astype(np.float32)
TARGET = np.full(20, 0.78)
F = wh.SquaredDistance(TARGET)
SLOW = wh.FullyCorrective(harvest=1, pool=2, effort=1e-9)
"""Many passes, each of which brings little."""


@pytest.fixture(autouse=True)
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: that what is saved is flushed is tested where saving is."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Watched:
    """A scan that counts its passes, and may stop answering."""

    def __init__(self, rows: Any = ROWS, *, most: float = np.inf, **options: Any) -> None:
        self._scan, self._most, self.passes = wh.Scan(rows, **options), most, 0.0

    @property
    def atoms(self) -> Any:
        return self._scan.atoms

    def query(self, queries: Any, **options: Any) -> Hits:
        if self.passes >= self._most:
            raise InterruptedRun
        hits = self._scan.query(queries, **options)
        self.passes += hits.passes
        return hits


class InterruptedRun(Exception):
    """Stands for the death of a process in a pass."""


def cut(folder: Path, passes: int, objective: Any = F, rows: Any = ROWS, **options: Any) -> None:
    """Run until so many passes were made, and die in the next."""
    oracle = Watched(rows, most=passes, screen=False)
    with pytest.raises(InterruptedRun):
        wh.minimize(objective, oracle, checkpoint=folder, **options)


def loss(weights: Any, ids: Any, rows: Any = ROWS) -> float:
    away = weights @ rows[ids].astype(np.float64) - TARGET
    return 0.5 * float(away @ away)


# ---------------------------------------------------------------- going on

METHODS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "fully corrective": lambda oracle: {"rtol": 1e-4, "method": SLOW},
    "frank-wolfe": lambda oracle: {"rtol": 0.01, "method": wh.FrankWolfe()},
    "open loop": lambda oracle: {"rtol": 0.03, "method": wh.FrankWolfe(wh.Vanilla(), wh.OpenLoop(2.0))},
    "away": lambda oracle: {"rtol": 0.01, "method": wh.FrankWolfe(wh.Away(), wh.Adaptive())},
    "lazy": lambda oracle: {"rtol": 1e-3, "method": wh.FrankWolfe(wh.BlendedPairwise(), lazy=True)},
    "sublinear": lambda oracle: {
        "rtol": 0.03,
        "method": wh.SublinearFrankWolfe(exact=oracle, cache=0, sample=0),
    },
}


def solve(name: str, *, most: float = np.inf, **options: Any) -> tuple[wh.Result, float]:
    """Run a method; return also how many passes this call has made."""
    oracle = Watched(most=most, screen=False)
    result = wh.minimize(F, oracle, **METHODS[name](oracle), **options)
    return result, oracle.passes


@pytest.mark.parametrize("share", [0.0, 0.4, 0.7, 0.99])
@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_died_goes_on(name: str, share: float, tmp_path: Path) -> None:
    whole, _ = solve(name)
    assert whole.status is Status.GAP_REACHED
    assert whole.passes >= 9
    died = int(share * whole.passes)
    with pytest.raises(InterruptedRun):
        solve(name, most=died, checkpoint=tmp_path / "run")
    kept = wh.load(tmp_path / "run", ROWS)
    assert (kept.status, kept.passes) == (Status.INTERRUPTED, died)
    result, passes = solve(name, checkpoint=tmp_path / "run")
    assert result.status is Status.GAP_REACHED
    assert result.goal == whole.goal
    assert result.gap <= result.goal
    assert passes == result.passes - died  # the passes of all calls are counted
    assert result.passes <= whole.passes + 1.0
    assert max(result.lower, whole.lower) <= min(result.value, whole.value)
    assert result.trace.t.tolist() == sorted(result.trace.t.tolist())
    assert (np.diff(result.trace.seconds) >= 0.0).all()
    assert result.steps > kept.steps or died == whole.passes


@pytest.mark.parametrize("name", ["fully corrective", "open loop", "lazy", "sublinear"])
def test_dying_in_every_pass_costs_one_more_at_most(name: str, tmp_path: Path) -> None:
    whole, _ = solve(name)
    for passes in itertools.count():
        try:
            result, _ = solve(name, most=min(passes, 1), checkpoint=tmp_path / "run")
            break
        except InterruptedRun:
            assert wh.load(tmp_path / "run").passes == passes
    assert result.status is Status.GAP_REACHED
    assert result.passes <= whole.passes + 1.0


def test_none_where_rows_of_a_table_are_left_out(tmp_path: Path) -> None:
    rows = ROWS[:60].copy()
    rows[0, 0] = np.nan
    frame, names = pd.DataFrame(rows), [f"row {i}" for i in range(60)]
    with pytest.raises(ValueError, match=r"`checkpoint` must be None where .* leave them out before"):
        wh.minimize(F, frame, names=names, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    solved = wh.minimize(F, frame.dropna(), names=names[1:], checkpoint=tmp_path / "run")
    assert wh.load(tmp_path / "run").names == solved.names


def test_the_same_run_with_a_checkpoint_and_without(tmp_path: Path) -> None:
    plain = wh.minimize(F, ROWS)
    kept = wh.minimize(F, ROWS, checkpoint=tmp_path / "run")
    assert (kept.value, kept.lower, kept.passes, kept.steps) == (
        plain.value,
        plain.lower,
        plain.passes,
        plain.steps,
    )
    np.testing.assert_array_equal(kept.ids, plain.ids)
    assert type(kept) is type(plain)


def test_a_run_that_has_ended_makes_no_pass(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "run", "names": [str(i) for i in range(3000)]}
    first = wh.minimize(F, ROWS, **options)
    data = (tmp_path / "run.safetensors").read_bytes()
    states: list[State] = []
    again = wh.minimize(F, Watched(most=0), **options, callback=states.append)
    unnamed = wh.minimize(F, Watched(most=0), checkpoint=tmp_path / "run")
    assert unnamed.names is None
    assert states == []
    assert type(again) is wh.Result
    assert (again.status, again.passes, again.lower) == (first.status, first.passes, first.lower)
    assert again.value == pytest.approx(first.value, rel=1e-12)
    assert (again.names, again.seconds) == (first.names, first.seconds)
    assert (tmp_path / "run.safetensors").read_bytes() == data


def test_limits_count_the_whole_run_and_seconds_the_call(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": SLOW, "checkpoint": tmp_path / "run"}
    first = wh.minimize(F, ROWS, **options, max_passes=2)
    again = wh.minimize(F, Watched(most=0), **options, max_passes=2)
    assert [first.status, again.status] == [Status.MAX_PASSES] * 2
    assert again.passes == 2
    assert again.lower == F.floor  # what this call has proved
    assert wh.load(tmp_path / "run").lower == first.lower  # nothing was won: it stays as it was
    steps = wh.minimize(F, ROWS, **options, max_steps=first.steps)
    assert steps.status is Status.MAX_STEPS
    spent = wh.minimize(F, ROWS, **options, max_seconds=0.0)
    assert spent.status is Status.MAX_SECONDS
    assert wh.minimize(F, ROWS, **options, max_seconds=PATIENCE).status is Status.GAP_REACHED


def test_the_best_point_outlives_the_run_that_found_it(tmp_path: Path) -> None:
    # With fixed steps f rises now and then.
    options: dict[str, Any] = {"method": wh.FrankWolfe(wh.Vanilla(), wh.OpenLoop(30.0)), "rtol": 0.01}
    values = wh.minimize(F, Watched(screen=False), **options, max_passes=40).trace.value
    worse = int(np.flatnonzero(values > np.minimum.accumulate(values))[-1])
    cut(tmp_path / "run", worse, **options)
    kept = wh.load(tmp_path / "run")
    assert kept.value == pytest.approx(values[: worse + 1].min(), rel=1e-12)
    assert kept.trace.value[-1] > kept.value
    result = wh.minimize(F, ROWS, checkpoint=tmp_path / "run", max_passes=worse, **options)
    assert result.value == pytest.approx(kept.value, rel=1e-12)
    assert loss(result.weights, result.ids) <= result.value


@pytest.mark.parametrize(
    "objective",
    [
        wh.LeastSquares(RNG.standard_normal((30, 20)), RNG.standard_normal(30)),
        wh.Logistic(RNG.standard_normal((30, 20)), np.sign(RNG.standard_normal(30))),
        wh.Custom(lambda x: (0.5 * float((x - TARGET) @ (x - TARGET)), x - TARGET), convex=True),
    ],
    ids=["squares", "logistic", "custom"],
)
def test_any_objective_goes_on(objective: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": wh.FrankWolfe(wh.Away()), "rtol": 0.03}
    cut(tmp_path / "run", 2, objective, **options)
    result = wh.minimize(objective, ROWS, checkpoint=tmp_path / "run", **options)
    whole = wh.minimize(objective, ROWS)
    assert result.status is Status.GAP_REACHED
    assert max(result.lower, whole.lower) <= min(result.value, whole.value)


def test_mixtures_go_on(tmp_path: Path) -> None:
    rows = np.exp(-0.5 * (np.linspace(-4, 4, 400)[:, None] - RNG.standard_normal(60)) ** 2)
    f = wh.MixtureLikelihood()
    cut(tmp_path / "run", 1, f, rows, method=SLOW, rtol=1e-9)
    result = wh.minimize(f, rows, method=SLOW, rtol=1e-9, checkpoint=tmp_path / "run", max_passes=100)
    whole = wh.minimize(f, rows)
    assert max(result.lower, whole.lower) <= min(result.value, whole.value)


@pytest.mark.parametrize("make", [wh.Int8Scan.build, lambda rows: wh.Tiered(wh.RandomSubset(rows, size=300))])
def test_another_oracle_goes_on_with_the_run(make: Callable[[Any], Any], tmp_path: Path) -> None:
    cut(tmp_path / "run", 2, method=SLOW)
    result = wh.minimize(F, make(ROWS), method=SLOW, checkpoint=tmp_path / "run")
    whole = wh.minimize(F, ROWS)
    assert result.status is Status.GAP_REACHED
    assert max(result.lower, whole.lower) <= min(result.value, whole.value)


def test_files_and_memory_hold_the_same_atoms(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    cut(tmp_path / "run", 2, rows=tmp_path / "rows.npy", method=SLOW)
    assert wh.minimize(F, ROWS, method=SLOW, checkpoint=tmp_path / "run").success


# ---------------------------------------------------------------- refusals

RULE = "`checkpoint` must be new, or hold a run of the same atoms, objective, method and options. Got "
OTHERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "atoms": ("other atoms", lambda run: wh.minimize(F, ROWS[:-1], checkpoint=run)),
    "rows": ("other atoms", lambda run: wh.minimize(F, ROWS + 1.0, checkpoint=run)),
    "target": (
        "another objective",
        lambda run: wh.minimize(wh.SquaredDistance(TARGET + 1e-9), ROWS, checkpoint=run),
    ),
    "objective": (
        "another objective",
        lambda run: wh.minimize(wh.LeastSquares(np.eye(20), TARGET), ROWS, checkpoint=run),
    ),
    "method": ("another method", lambda run: wh.minimize(F, ROWS, checkpoint=run, method=wh.FrankWolfe())),
    "option": (
        "another method",
        lambda run: wh.minimize(F, ROWS, checkpoint=run, method=wh.FullyCorrective(pool=99)),
    ),
    "rtol": ("rtol = 1e-06", lambda run: wh.minimize(F, ROWS, checkpoint=run, rtol=1e-3)),
    "atol": ("atol = 0.0", lambda run: wh.minimize(F, ROWS, checkpoint=run, atol=1e-3)),
    "exclude": ("another exclude", lambda run: wh.minimize(F, ROWS, checkpoint=run, exclude=[3])),
    "start": ("another start", lambda run: wh.minimize(F, ROWS, checkpoint=run, start=([3], [1.0]))),
    "seed": ("another seed", lambda run: wh.minimize(F, ROWS, checkpoint=run, seed=1)),
}


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("name", OTHERS)
def test_another_run_is_refused(name: str, ended: bool, tmp_path: Path) -> None:
    run = tmp_path / "run"
    wh.minimize(F, ROWS, checkpoint=run, max_passes=9 if ended else 0)
    data = store.place(run).read_bytes()
    got, call = OTHERS[name]
    with pytest.raises(StoreError) as error:
        call(run)
    assert str(error.value) == f"{RULE}{got} in {run}.safetensors."
    assert store.place(run).read_bytes() == data


def test_the_same_start_may_be_written_in_two_ways(tmp_path: Path) -> None:
    wh.minimize(F, ROWS, checkpoint=tmp_path / "saved", start=([3, 5], [0.5, 0.5]), exclude=[2, 1], seed=4)
    same: dict[str, Any] = {
        "start": (np.array([3, 5]), (0.5, 0.5)),
        "exclude": np.array([1, 2]),
        "seed": np.int64(4),
    }
    assert wh.minimize(F, Watched(most=0), checkpoint=tmp_path / "saved", **same).success


def test_another_function_of_the_same_name_is_refused(tmp_path: Path) -> None:
    def make(centre: float) -> wh.Custom:
        return wh.Custom(lambda x: (float((x - centre) @ (x - centre)), 2.0 * (x - centre)), convex=True)

    wh.minimize(make(0.3), ROWS, checkpoint=tmp_path / "saved", rtol=1e-3)
    # Of a function only the name is known: its bound is proved again, in one pass.
    assert wh.minimize(make(0.3), once := Watched(), checkpoint=tmp_path / "saved", rtol=1e-3).success
    assert once.passes == 1.0
    with pytest.raises(StoreError, match=r"^`checkpoint` must be new, or of the same objective\. Got f = "):
        wh.minimize(make(0.4), ROWS, checkpoint=tmp_path / "saved", rtol=1e-3)


def test_something_else_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("mine")
    wh.minimize(F, ROWS).save(tmp_path / "result")
    (tmp_path / "file.safetensors").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("notes", "result", "file"):
        with pytest.raises(StoreError, match=r"^`checkpoint` must ") as error:
            wh.minimize(F, Watched(most=0), checkpoint=tmp_path / name)
        assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("folder", [3, b"run", ""])
def test_what_is_no_path_is_refused(folder: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^`checkpoint` must be a path\. Got "):
        wh.minimize(F, ROWS, checkpoint=folder)


# ---------------------------------------------------------------- forgery

KNOWN = wh.minimize(F, ROWS, rtol=1e-12)


def _forge(**changes: Any) -> Callable[[Checkpoint], Checkpoint]:
    return lambda kept: replace(kept, **changes)


FORGED: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "lower": lambda kept: replace(kept, lower=kept.value),
    "goal": _forge(goal=1e9),
    "proof": _forge(proof=np.full(20, 1e100)),
    "another proof": _forge(proof=ROWS[0].astype(np.float64)),
    "a proof that knows": _forge(proof=TARGET),
    "no proof": _forge(proof=None),
    "x": _forge(x=TARGET),
    "pool": _forge(pool_ids=np.arange(3000)),
    "no pool": _forge(pool_ids=np.empty(0, np.int64)),
    "active": _forge(active_ids=np.array([7]), active_weights=np.ones(1)),
    "estimate": _forge(estimate=1e300),
    "passes": _forge(passes=0.0),
    "a little lower": lambda kept: replace(kept, lower=min(kept.value - 0.03, KNOWN.value * 1.1)),
    "steps": _forge(steps=10**17),
    "weights": lambda kept: replace(kept, active_weights=kept.active_weights * (1.0 - 9e-7)),
}


@pytest.mark.parametrize("method", [SLOW, wh.FrankWolfe(wh.Pairwise(), wh.Adaptive(), lazy=True)])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_makes_nothing_false(name: str, method: Any, tmp_path: Path) -> None:
    cut(tmp_path / "saved", 3, method=method, rtol=1e-3)
    CODEC.save(FORGED[name](Checkpoint.load(tmp_path / "saved")), tmp_path / "saved")
    result = wh.minimize(F, ROWS, method=method, rtol=1e-3, checkpoint=tmp_path / "saved", max_passes=60)
    assert result.lower <= KNOWN.value
    assert result.value >= KNOWN.lower
    assert result.value >= loss(result.weights, result.ids) * (1.0 - 1e-12)
    assert result.goal < 1.0


REFUSED: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "value": _forge(value=100.0, lower=0.0),
    "value below lower": lambda kept: replace(kept, value=kept.lower - 1.0),
    "weights": lambda kept: replace(kept, weights=kept.weights / 2.0),
    "repeated": lambda kept: replace(kept, ids=np.zeros_like(kept.ids)),
    "active": lambda kept: replace(kept, active_ids=np.zeros_like(kept.active_ids)),
    "reached": _forge(status=Status.GAP_REACHED),
    "excluded": _forge(active_ids=np.array([2999]), active_weights=np.ones(1)),
    "excluded in the pool": _forge(pool_ids=np.array([5, 2999])),
    "excluded at the best": _forge(ids=np.array([2999]), weights=np.ones(1)),
    "passes": _forge(passes=np.inf),
    "steps": _forge(steps=10**30),
    "repeated pool": _forge(pool_ids=np.array([3, 3])),
    "outside": _forge(pool_ids=np.array([3000])),
    "proof": _forge(proof=np.full(20, np.nan)),
    "another width": _forge(proof=np.ones(21)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_run_can_have_written_is_refused(name: str, tmp_path: Path) -> None:
    cut(tmp_path / "saved", 3, method=SLOW, exclude=[2999])
    CODEC.save(REFUSED[name](Checkpoint.load(tmp_path / "saved")), tmp_path / "saved")
    with pytest.raises(StoreError) as error:
        wh.minimize(F, ROWS, method=SLOW, checkpoint=tmp_path / "saved", exclude=[2999])
    assert "\n" not in str(error.value)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    cut(tmp_path / "saved", 1, method=SLOW)
    path = tmp_path / "saved.safetensors"
    data = path.read_bytes()
    for at in (20, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match=r"is damaged: (the checksum|an entry)|Got another"):
            wh.minimize(F, ROWS, method=SLOW, checkpoint=path)
        path.write_bytes(data)
    assert wh.minimize(F, ROWS, method=SLOW, checkpoint=tmp_path / "saved").success


# ---------------------------------------------------------------- disks and deaths


WRITTEN = r"^`checkpoint` must be a file that can be written\. Got "


def test_a_full_disk_is_told_and_the_checkpoint_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    cut(run, 2, method=SLOW)
    data = store.place(run).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=r"^`checkpoint` must be a file that can be written\. Got .*: File"):
            wh.minimize(F, ROWS, method=SLOW, checkpoint=run)
        with pytest.raises(OSError, match=r"^`checkpoint` must be a file that can be written\. Got .*: File"):
            wh.minimize(F, Watched(most=0), checkpoint=tmp_path / "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.place(run).read_bytes() == data
    assert list(tmp_path.glob("*new*")) == []
    assert wh.minimize(F, ROWS, method=SLOW, checkpoint=run).success


def test_a_place_that_cannot_be_written_costs_no_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        OSError, match=r"^`checkpoint` must be a file that can be written\. Got .*: (Not a dir|File exists)"
    ):
        wh.minimize(F, Watched(most=0), checkpoint=tmp_path / "file" / "run")


_KILLED = """
import os, signal, sys
import wolfhound as wh
from tests.solve.test_checkpoint import F, SLOW
from wolfhound.data import store

when, counts = int(sys.argv[2]), [0]
replace = os.replace

def dying(*args):
    counts[0] += 1
    if counts[0] == when:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*args)

os.replace = dying
wh.minimize(F, sys.argv[1] + "/rows.npy", method=SLOW, checkpoint=sys.argv[1] + "/run")
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", [1, 4])
def test_a_process_that_is_killed_while_it_writes_goes_on(when: int, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    command = [sys.executable, "-c", _KILLED, str(tmp_path), str(when)]
    here = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(tmp_path.glob(".run.safetensors.*.tmp"))) == 1
    whole = wh.minimize(F, ROWS, method=SLOW)
    result = wh.minimize(F, FileAtoms(tmp_path / "rows.npy"), method=SLOW, checkpoint=tmp_path / "run")
    assert result.status is Status.GAP_REACHED
    assert result.passes <= whole.passes + 1.0
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy", "run.safetensors"}  # nothing is left
