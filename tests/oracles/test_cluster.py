"""`cluster.shard` on a real Ray with two workers: one is started for this file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from typer.testing import CliRunner

from tests.patience import PATIENCE
from wolfhound import Int8Scan, Scan, Sharded, SquaredDistance, Status, minimize
from wolfhound.cli._app import app
from wolfhound.core.contracts import Atoms, Hits, Matrix
from wolfhound.core.progress import Cut, on_progress, report_rows
from wolfhound.data.atoms import ConcatAtoms, fingerprint
from wolfhound.oracles import cluster

pytestmark = pytest.mark.slow

F = SquaredDistance(np.full(8, 2.0))
EXACT = functools.partial(Scan, screen=False)


def normal(n: int, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """A Ray of ours that all tests of this file use."""
    cluster._session.enter("local")
    folder = cluster._session._folder
    assert os.path.isdir(folder)
    yield
    cluster._session.leave()
    assert not os.path.exists(folder)
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shards")
    paths = [folder / "a.npy", folder / "b.npy"]
    rows = normal(6000)
    np.save(paths[0], rows[:2500])
    np.save(paths[1], rows[2500:])
    return paths


@pytest.fixture(scope="module")
def oracle(here: None, files: list[Path]) -> Iterator[Sharded]:
    """Two shards that read a file each."""
    with cluster.shard(files, EXACT) as shards:
        yield shards


def kill(oracle: Sharded, which: int) -> None:
    shard: Any = oracle._set.shards[which]
    os.kill(shard._up.result(), signal.SIGKILL)


def test_two_workers_give_the_answer_of_one_scan(oracle: Sharded, files: list[Path]) -> None:
    facts = oracle.describe()
    assert len({os.getpid(), *(each.pid for each in facts)}) == 3
    assert fingerprint(oracle.atoms) == fingerprint(ConcatAtoms(files))
    queries, whole = normal(7, seed=1).astype(np.float64), EXACT(normal(6000))
    for m in (1, 7):
        mine, other = oracle.query(queries[:m], k=40), whole.query(queries[:m], k=40)
        for name in ("ids", "scores", "bounds"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
    large = np.tile(queries, (300, 1))  # put aside once for both
    np.testing.assert_array_equal(oracle.query(large).ids[:7], oracle.query(queries).ids)


def test_a_solve_is_a_round_trip_per_pass_and_one_for_the_pool(oracle: Sharded) -> None:
    before, result, other = oracle.counts, minimize(F, oracle), minimize(F, EXACT(normal(6000)))
    assert (result.value, result.lower, result.status) == (other.value, other.lower, Status.GAP_REACHED)
    np.testing.assert_array_equal(result.ids, other.ids)
    trips = {name: times - before[name] for name, times in oracle.counts.items()}
    assert trips == {"query": result.passes, "take": 1, "waits": 0}


def test_a_worker_that_is_killed_is_started_again(oracle: Sharded) -> None:
    other = minimize(F, EXACT(normal(6000)))
    pids, waits = [each.pid for each in oracle.describe()], oracle.counts["waits"]

    def strike(state: Any) -> None:
        if state.kind == "start":
            os.kill(pids[1], signal.SIGKILL)

    result = minimize(F, oracle, callback=strike)
    assert (result.value, result.lower) == (other.value, other.lower)
    assert oracle.counts["waits"] > waits
    now = [each.pid for each in oracle.describe()]
    assert now[0] == pids[0]
    assert now[1] != pids[1]


class Endless:
    """Leaves a file when it has begun to sweep, and another when it was told to leave."""

    def __init__(self, folder: Path, atoms: Atoms) -> None:
        self.atoms, self._folder = atoms, folder

    def query(self, queries: Matrix, **options: Any) -> Hits:
        (self._folder / "begun").touch()
        try:
            while True:
                report_rows(1)
        finally:
            (self._folder / "left").touch()


def wait_for(path: Path) -> None:
    pause = threading.Event()
    tries = iter(range(round(50 * PATIENCE)))
    while not path.exists() and next(tries, None) is not None:
        pause.wait(0.02)
    assert path.exists()


def test_who_leaves_stops_the_worker(here: None, tmp_path: Path) -> None:
    def leave(rows: int) -> None:
        wait_for(tmp_path / "begun")
        raise Cut(Status.MAX_SECONDS)

    with cluster.shard(normal(10), functools.partial(Endless, tmp_path), shards=1) as oracle:
        with pytest.raises(Cut), on_progress(leave):
            oracle.query(np.ones((1, 8)))
        wait_for(tmp_path / "left")


def test_a_changed_file_is_refused_and_ends_a_run_with_what_is_proved(here: None, tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, normal(5000))

    def strike(state: Any) -> None:
        if state.kind == "pass":
            np.save(path, normal(5000, seed=1))
            kill(shards, 0)

    with cluster.shard([path], EXACT) as shards:
        result, whole = minimize(F, shards, callback=strike), minimize(F, EXACT(normal(5000)))
        assert result.status is Status.LOST
        assert 0.0 < result.lower <= whole.value <= result.value
        with pytest.raises(OSError, match="has changed since the shard was first read"):
            shards.query(np.ones((1, 8)))
        path.unlink()
        kill(shards, 0)
        with pytest.raises(FileNotFoundError):
            shards.query(np.ones((1, 8)))


def test_arrays_are_cut_and_any_oracle_is_built(here: None) -> None:
    rows = normal(900)
    with cluster.shard(rows, Int8Scan.build, shards=2, width=3) as oracle:
        assert [each.atoms.shape for each in oracle.describe()] == [(450, 8), (450, 8)]
        mine, other = oracle.query(np.ones((1, 8))), Scan(rows).query(np.ones((1, 8)))
        assert (mine.ids, mine.scores) == (other.ids, other.scores)


def test_the_command_line(here: None, tmp_path: Path) -> None:
    np.save(tmp_path / "atoms.npy", normal(3000))
    np.save(tmp_path / "point.npy", np.full(8, 2.0))
    files = [str(tmp_path / "atoms.npy"), "--target", str(tmp_path / "point.npy")]
    command = ["solve", *files, "--objective", "squared-distance", "--json"]
    mine, other = (CliRunner().invoke(app, [*command, *more]) for more in (["--ray", "local"], []))
    assert (mine.exit_code, other.exit_code) == (0, 0)
    assert json.loads(mine.stdout)["value"] == json.loads(other.stdout)["value"]


JOIN = """
import sys
import numpy as np
from wolfhound.oracles import cluster
with cluster.shard(np.eye(3), shards=1, address=sys.argv[1]) as oracle:
    print(oracle.query(np.array([[1.0, 3.0, 2.0]])).ids, cluster._session.alone)
"""


def test_a_running_cluster_is_joined_and_left(here: None) -> None:
    address = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        [sys.executable, "-c", JOIN, address], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.stdout, done.returncode) == ("[[1]] False\n", 0), done.stderr
    assert ray.cluster_resources()["CPU"] >= 1.0


def die(atoms: Atoms) -> Scan:
    os.kill(os.getpid(), signal.SIGKILL)
    return Scan(atoms)


def test_a_shard_that_dies_over_and_over_is_lost(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RESTARTS", 1)
    with pytest.raises(OSError, match="a shard has died 2 times without an answer"):
        cluster.shard(np.eye(3), die, shards=1)


def test_a_shard_that_cannot_be_started_is_lost(here: None) -> None:
    with pytest.raises(OSError, match="a shard could not be started in 0 s"):
        cluster.shard(np.eye(3), shards=1, patience=0.0)


def test_files_of_another_width_are_refused(here: None, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    np.save(tmp_path / "b.npy", np.eye(4))
    with pytest.raises(ValueError, match=r"equal dimension\. Got dimension 3 in shard 0 and 4 in shard 1"):
        cluster.shard([tmp_path / "a.npy", tmp_path / "b.npy"], in_memory=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"build": 3}, "`build` must be a function of atoms"),
        ({"shards": 0}, "`shards` must be an integer >= 1"),
        ({"shards": 99}, "`shards` must be at most 8"),
        ({"threads": 0}, "`threads` must be"),
        ({"address": 7}, "`address` must be a text"),
        ({"in_memory": False}, "`in_memory` must be True where one set of atoms is cut"),
        ({"hosts": ["nowhere"], "shards": 1}, "`hosts` must be addresses of the cluster's nodes"),
        ({"hosts": ["nowhere"], "shards": 2}, "`hosts` must be 2 addresses"),
        ({"patience": -1.0}, "`patience` must be"),
        ({"width": 0, "shards": 1}, "`width` must be"),
        ({"atoms": []}, "`atoms` must be at least one set of atoms"),
        ({"atoms": [np.eye(2)], "shards": 2}, "`shards` must be left out where atoms are a list"),
    ],
)
def test_wrong_calls(here: None, options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"atoms": np.eye(8)} | options
    with pytest.raises((TypeError, ValueError), match=words):
        cluster.shard(**given)


def test_an_address_where_nobody_listens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as taken, pytest.raises(ValueError, match=r"`address` must be 'local', 'auto' or"):
        taken.bind(("127.0.0.1", 0))  # a port of ours that does not listen
        cluster.shard(np.eye(3), address=f"127.0.0.1:{taken.getsockname()[1]}")


def test_without_ray_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['ray'] = None\nimport wolfhound.oracles.cluster"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: shards on a cluster need ray: pip install 'wolfhound[ray]'" in done.stderr
