"""Shards in long-lived Ray actors: the only importer of ray.

Knows where shards live, how they are started, started again and ended; what they are
asked, `oracles.shards` knows.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import functools
import itertools
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Oracle
from wolfhound.core.threads import available
from wolfhound.core.validate import count, require
from wolfhound.data.atoms import ArrayAtoms, as_atoms, block_rows
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.sharded import ShardDown, Sharded, ShardHost, ShardPlace, ShardSearch, Ticket

try:
    import ray
    from ray import exceptions
except ImportError:
    raise ImportError("shards on a cluster need ray: pip install 'wolfhound[ray]'") from None

_RESTARTS = 5  # deaths in a row, without an answer between, after which a shard is lost
_TASKS = 8  # tasks that an actor works on at once: several threads may share an oracle
_KNOCK = 10.0  # seconds in which a cluster must let itself be connected to
_LARGE = 100_000  # bytes of a task that is put aside once for all shards; a smaller one travels with the call


def shard(
    atoms: AtomsLike | Sequence[AtomsLike],
    build: Callable[[Atoms], Oracle] = Scan,
    *,
    shards: int | None = None,
    address: str | None = None,
    hosts: Sequence[str] | None = None,
    threads: int = 1,
    in_memory: bool = True,
    width: int | None = None,
    patience: float = 60.0,
) -> Sharded:
    """Put atoms into Ray actors, one per shard, and return the oracle over all of them.

    An actor reads its atoms where it runs, keeps them, and builds its oracle once. If
    its process dies, it is started again and reads them again; if they are then not the
    same, or cannot be read, the shard is lost: a run ends with `Status.LOST`.

    Parameters
    ----------
    atoms : path, array or atoms, or a list of these
        A list makes one shard of each entry; paths are read by the actors, so they must
        lead there. Anything else is cut into `shards` parts of rows.
    build
        Makes the oracle of a shard from its atoms: `Scan`, `Int8Scan.build`, ...
    shards
        Parts that one set of atoms is cut into; default: as many as there are cores for.
    address
        "auto" or the address of a running cluster; None: what RAY_ADDRESS says, or a
        Ray of our own on this machine, which ends with the last oracle that uses it.
    hosts : list of addresses, optional
        Where each shard must run, as ``ray.nodes()`` has them: files that lie on one machine.
    threads
        Of a shard; on a cluster so many cores are reserved for it.
    in_memory
        Whether an actor holds its rows; else files are read again in every pass, which
        needs a list: parts of a file are always held.
    width
        As for `Sharded`.
    patience
        Seconds that an actor may take to be started, the reading aside.

    Returns
    -------
    Sharded
        A context manager: its end, or `close`, ends the actors.

    Raises
    ------
    ImportError
        If ray is not installed, when this module is imported.

    Examples
    --------
    Two shards on this machine::

        from wolfhound.oracles import cluster


        from wolfhound import minimize

        with cluster.shard(["monday.npy", "tuesday.npy"]) as oracle:
            result = minimize(f, oracle)
    """
    validate.function(build, "build", "a function of atoms that makes an oracle, such as Scan")
    validate.flag(in_memory, "in_memory")
    threads, patience = count(threads, "threads", low=1), validate.number(patience, "patience", low=0.0)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"`address` must be a text such as 'auto'. Got {validate.describe(address)}.")
    given: Any = atoms
    listed = isinstance(given, (list, tuple))
    if listed:
        require(shards is None, "shards", "left out where atoms are a list: one shard of each entry", shards)
        require(len(given) > 0, "atoms", "at least one set of atoms", "none")
    else:
        require(in_memory, "in_memory", "True where one set of atoms is cut; give a list of files", in_memory)
    parts = 0 if shards is None else count(shards, "shards", low=1)
    _session.enter(address)
    members: list[_Actor] = []
    try:
        if listed:
            sources = [ShardSource(build, _send(entry), in_memory=in_memory) for entry in given]
        else:
            sources = _cut(build, given, parts, threads)
        for source, host in zip(sources, _check_hosts(hosts, len(sources)), strict=True):
            members.append(_Actor(source, host, threads, patience))
        return Sharded(members, width=width, pack=_pack, on_close=_session.leave)
    except BaseException:
        for each in members:
            each.close()
        _session.leave()
        raise


# ---------------------------------------------------------------- what an actor holds


@dataclass(frozen=True, slots=True)
class ShardSource:
    """Makes the oracle of a shard where it lives: of rows `first` to `stop` (None: all) of the atoms."""

    build: Callable[[Atoms], Oracle]
    atoms: Any
    first: int = 0
    stop: int | None = None
    in_memory: bool = True

    def __call__(self) -> Oracle:
        """Read, build, and check that it is an oracle."""
        return validate.oracle(self.build(self._open()), "build")

    def _open(self) -> Atoms:
        """Read the rows, or open the file that is read in every pass."""
        whole = as_atoms(self.atoms)
        stop = whole.shape[0] if self.stop is None else self.stop
        if not self.in_memory or (isinstance(whole, ArrayAtoms) and self.stop is None):
            return whole
        rows, step = np.empty((stop - self.first, whole.shape[1]), whole.dtype), block_rows(whole)
        for start in range(self.first, stop, step):
            ids = np.arange(start, min(start + step, stop))
            rows[start - self.first :][: len(ids)] = whole.take(ids)
        return ArrayAtoms(rows)


def _cut(build: Callable[[Atoms], Oracle], atoms: Any, parts: int, threads: int) -> list[ShardSource]:
    """Ranges of about equally many rows, 0: one per core that is free; of an array only these travel."""
    whole = as_atoms(atoms)
    n = whole.shape[0]
    if not parts:
        free = available() if _session.alone else int(ray.available_resources().get("CPU", 0.0))
        parts = max(1, free // threads)
    require(parts <= n, "shards", f"at most {n}, the number of atoms", parts)
    spans = list(itertools.pairwise(n * i // parts for i in range(parts + 1)))
    if isinstance(whole, ArrayAtoms):
        return [ShardSource(build, ArrayAtoms(whole.rows[first:stop])) for first, stop in spans]
    return [ShardSource(build, _send(atoms), first, stop) for first, stop in spans]


def _send(atoms: Any) -> Any:
    """What travels: a path that means the same there, or checked atoms."""
    return os.path.abspath(atoms) if isinstance(atoms, (str, os.PathLike)) else as_atoms(atoms)


def _check_hosts(hosts: Any, parts: int) -> list[str | None]:
    if hosts is None:
        return [None] * parts
    validate.kind(hosts, "hosts", "a list of addresses, one per shard", list, tuple)
    require(len(hosts) == parts, "hosts", f"{parts} addresses, one per shard", len(hosts))
    known = sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])
    for host in hosts:
        require(host in known, "hosts", f"addresses of the cluster's nodes, {', '.join(known)}", host)
    return list(hosts)


# ---------------------------------------------------------------- actors


def _pack(task: ShardSearch) -> Any:
    """Put a large task aside once, where all actors can read it."""
    return ray.put(task) if task.queries.nbytes + task.exclude.nbytes > _LARGE else task


@final
class _Actor:
    """A shard in an actor that is started again when its process dies: a `Shard`."""

    def __init__(self, source: ShardSource, host: str | None, threads: int, patience: float) -> None:
        options: dict[str, Any] = {} if host is None else {"resources": {f"node:{host}": 0.001}}
        # A Ray of our own has nobody to share its cores with.
        cores = 0 if _session.alone else threads
        options |= {"num_cpus": cores, "max_concurrency": _TASKS, "concurrency_groups": {"control": 1}}
        self._kind: Any = ray.remote(scheduling_strategy="SPREAD", **options)(ShardHost)
        self._source, self._threads, self._patience = ray.put(source), threads, patience
        self._lock = threading.Lock()  # several threads may ask
        self._deaths, self._lost = 0, ""
        self._last: tuple[Any, BaseException] | None = None  # the actor that died last, and of what
        self._start()

    def _start(self) -> None:
        self._actor = self._kind.remote(self._source, self._threads)
        self._up = self._actor.pid.options(concurrency_group="control").remote().future()
        self._since = time.monotonic()

    def begin(self, ticket: Ticket, task: Any, place: ShardPlace) -> Future[Any]:
        """Start a task, or the actor again if it has died."""
        with self._lock:
            trouble = self._find_trouble()
            if trouble is not None:
                failed: Future[Any] = Future()
                failed.set_exception(trouble)
                return failed
            actor, out = self._actor, Future[Any]()
            done = actor.run.remote(ticket, task, place).future()
        done.add_done_callback(functools.partial(self._settle, out, actor))
        return out

    def _find_trouble(self) -> OSError | None:
        """Why the actor cannot be asked now; one that has died is started again."""
        death = self._up.exception() if self._up.done() else None
        if self._last is not None and self._last[0] is self._actor:
            death = self._last[1]
        if death is not None and not self._lost:
            self._deaths += 1
            ray.kill(self._actor)  # it may only be out of reach
            if self._deaths > _RESTARTS:
                why = (str(death).strip() or type(death).__name__).splitlines()[-1]
                self._lost = f"a shard has died {self._deaths} times without an answer: {why}"
            else:
                self._start()
        if not self._lost and not self._up.done() and time.monotonic() - self._since > self._patience:
            self._lost = f"a shard could not be started in {self._patience:g} s; has the cluster a free core?"
            ray.kill(self._actor)
        if self._lost:
            return OSError(self._lost)
        return None if self._up.done() else ShardDown("a shard is being started")

    def _settle(self, out: Future[Any], actor: Any, done: Future[Any]) -> None:
        """Pass an answer on, or what went wrong in words of ours; on a thread of Ray's."""
        if not out.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is None:
            self._deaths = 0
            out.set_result(done.result())
        elif isinstance(error, exceptions.RayTaskError):
            out.set_exception(error.cause)
        elif isinstance(error, exceptions.RayActorError):
            self._last = (actor, error)  # no lock: who holds it may wait for this thread
            out.set_exception(ShardDown("a shard has died"))
        else:
            out.set_exception(OSError(str(error)))

    def stop(self, ticket: Ticket) -> None:
        """Tell the actor to leave a task."""
        self._actor.stop.options(concurrency_group="control").remote(ticket)

    def close(self) -> None:
        """End the actor."""
        self._lost = "the shards are closed"
        ray.kill(self._actor)


# ---------------------------------------------------------------- Ray itself


@final
class _Session:
    """The Ray that we started or joined: left with the last oracle that uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._ours, self._folder = 0, False, ""

    @property
    def alone(self) -> bool:
        """Whether this Ray runs on this machine for us only."""
        return bool(self._folder)

    def enter(self, address: str | None) -> None:
        """Make sure that there is a Ray, and count who uses it; one that runs already is joined."""
        with self._lock:
            if not ray.is_initialized():
                self._begin(address or os.environ.get("RAY_ADDRESS") or "local")
                self._ours = True
            self._users += 1

    def leave(self) -> None:
        """End with the last user what we began."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.end()

    def end(self) -> None:
        """Leave Ray if we entered it, and remove its files."""
        if self._ours:
            ray.shutdown()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._ours, self._folder = False, ""

    def _begin(self, address: str) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address != "local":
            try:
                host, _, port = address.rpartition(":")
                if port.isdigit() and "/" not in host:  # where nobody listens Ray would try for minutes
                    socket.create_connection((host.strip("[]"), int(port)), _KNOCK).close()
                ray.init(address, **quiet)
            except (OSError, ValueError, OverflowError, exceptions.RayError) as error:
                rule = "'local', 'auto' or the address of a running cluster"
                raise ValueError(f"`address` must be {rule}. Got {address!r}: {error}") from None
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Not where TMPDIR says: names of sockets may have 100 letters or so.
        self._folder = tempfile.mkdtemp(
            prefix="wolfhound-ray-", dir="/tmp" if os.path.isdir("/tmp") else None
        )
        ray.init(address, num_cpus=available(), include_dashboard=False, _temp_dir=self._folder, **quiet)


_session = _Session()
atexit.register(_session.end)
