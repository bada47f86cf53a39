"""`INDEXES`: all indexes by name, each with what is known of it.

An index says itself how it is built, loaded and measured, and what it costs; planning
and the command line read that here and know none of them. An oracle without an index,
such as a pass over all atoms, is an entry too: it is weighed against the others.

To add one, from any package: ``wolfhound.INDEXES.add(IndexKind(...))``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, final

from wolfhound import store
from wolfhound.atoms import ConcatAtoms, FileAtoms, MappedAtoms
from wolfhound.core import Atoms, AtomsLike, Oracle
from wolfhound.editing import KeptAtoms
from wolfhound.machine import Calibration, Speed
from wolfhound.registry import Registry

SAVED_AS = "index"
"""The kind of a saved file; ``params["index"]`` says which index it is."""


class Make(Protocol):
    """Makes an oracle over atoms; the seed is that of whatever is random in it."""

    def __call__(self, atoms: AtomsLike, *, seed: int = 0) -> Oracle:
        """Build it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a cost model is told.

    Attributes
    ----------
    n, d : int
    row : int
        Bytes of a row.
    in_files : bool
        Whether rows are read from files.
    ratio : float
        The gap ratio that is wanted; 1: as the index is by default.
    interior : bool
        Whether the queries come from inside the hull.
    batch : int
        Queries that are asked together.
    tau, delta : float
        What an index that `takes_tau` is to promise; None: nothing.
    max_memory : float
        Bytes that an oracle may take; inf: any.
    speeds : Calibration
    """

    n: int
    d: int
    row: int
    in_files: bool = False
    ratio: float = 1.0
    interior: bool = False
    batch: int = 1
    tau: float | None = None
    delta: float = 0.1
    max_memory: float
    speeds: Calibration

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.n * self.row

    def file_seconds(self, passes: int) -> float:
        """Seconds to read all rows from files so often; 0 in memory."""
        return passes * self.nbytes * self.speeds.file if self.in_files else 0.0

    def fetch_seconds(self, rows: int) -> float:
        """Seconds to read so many rows one by one; in memory they are in `Speed.call`."""
        return rows * self.speeds.fetch if self.in_files else 0.0

    def pass_seconds(self, speed: Speed, nbytes: float) -> float:
        """Seconds per query of a pass over rows, which files can slow down."""
        slow = max(0.0, self.speeds.file - speed.first) if self.in_files else 0.0
        return speed.seconds(nbytes, self.batch) + slow * nbytes / self.batch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an index is expected to cost and to give, set up for a `Workload`.

    Attributes
    ----------
    recipe : str
        How it is made by hand.
    make : Make
        Makes it.
    build, query : float
        Seconds to build, and per query.
    reads : float
        Bytes that a query reads, of rows or codes.
    scored : float
        Atoms that a query scores, as rows or codes; centres and hashes count too.
    nbytes : float
        Memory beside the atoms.
    ratio : float
        The gap ratio that is typical of it, 1 if it is exact.
    details : dict
        Further numbers that a plan shows.
    """

    recipe: str
    make: Make
    build: float
    query: float
    reads: float
    scored: float
    nbytes: float
    ratio: float
    details: Mapping[str, int] = field(default_factory=dict)


class BuildTime(NamedTuple):
    """How long a build took, for what; the speeds of `work` are those measured so far."""

    work: Workload
    seconds: float


Load: TypeAlias = Callable[[str | os.PathLike[str], AtomsLike], Oracle]
BuildIn: TypeAlias = Callable[[AtomsLike, str | os.PathLike[str]], Oracle]
Model: TypeAlias = Callable[[Workload], Estimate]
Calibrate: TypeAlias = Callable[[Speed, BuildTime, BuildTime], dict[str, Any]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind:
    """What is known of an index.

    Parameters
    ----------
    name
        What the command line calls it, and what is saved: ``params["index"]`` of a
        path of kind "index".
    title
        What tables call it: the name of its class.
    build
        Makes it with default settings. None: it is not made from atoms alone.
    build_in
        Makes it, likewise, straight to the file where it is to be saved. None: it is
        built, then saved.
    load
        Opens a file that its `save` wrote, with the atoms. None: it has no `save`.
    expected
        The cost model. None: it is never weighed, but can be built by name.
    passes
        Passes over the atoms that building takes; 0: nothing is built.
    proves
        Whether its bounds are always finite: it answers as a scan does.
    takes_ratio
        Whether `expected` sets it up for the ratio of a workload.
    takes_tau
        Whether it sets it up for the tau and delta of one.
    adapt
        Sets a built one up for the ratio of a workload. None: it is built again.
    speeds
        Given the speed of its queries and two build times, over few atoms and over
        many, the fields of `Calibration` that are its own. None: it is not measured.
    """

    name: str
    title: str
    build: Make | None = None
    build_in: BuildIn | None = None
    load: Load | None = None
    expected: Model | None = None
    passes: int = 0
    proves: bool = False
    takes_ratio: bool = False
    takes_tau: bool = False
    adapt: Callable[[Any, Workload], Oracle] | None = None
    speeds: Calibrate | None = None


INDEXES: Registry[IndexKind] = Registry(
    "index",
    ("title", "build", "load", "expected", "passes", "proves", "takes_ratio", "adapt", "speeds"),
    {
        "scan": "wolfhound.oracles.scan:SCAN",
        "int8": "wolfhound.oracles.int8.scan:INT8",
        "clusters": "wolfhound.oracles.clusters:CLUSTERS",
        "lsh": "wolfhound.oracles.lsh_kind:LSH",
        "subset": "wolfhound.oracles.subset:SUBSET",
        "int8-file": "wolfhound.oracles.int8.file_scan:INT8_FILE",
    },
)
"""In the order of preference where seconds are equal; the first is what all others must beat."""


def find_saved(path: str | os.PathLike[str]) -> IndexKind:
    """Return which index a file holds; its header alone is read.

    Raises
    ------
    ValueError
        If it holds no index.
    StoreError
        If it holds one that is not in `INDEXES`.
    """
    held, params = store.describe(path)
    if held != SAVED_AS:
        raise ValueError(f"`path` must hold an index. Got a {held} in {store.find(path)}.")
    name = str(params.get("index"))
    kinds = {known: kind for known, kind in INDEXES.items() if kind.load is not None}
    if name not in kinds:
        rule = f"`path` must hold one of the indexes {', '.join(kinds)}."
        raise store.StoreError(f"{rule} Got {name} in {store.find(path)}.")
    return kinds[name]


def load_index(path: str | os.PathLike[str], atoms: AtomsLike) -> Oracle:
    """Open a saved index, whichever it is.

    Raises
    ------
    StoreError
        If the file is damaged, holds no index, or one of other atoms.
    """
    kind = find_saved(path)
    return cast(Load, kind.load)(path, atoms)


def in_files(atoms: Atoms) -> bool:
    """Whether rows are read from files, all or some."""
    if isinstance(atoms, (MappedAtoms, KeptAtoms)):
        return in_files(atoms.atoms)
    if isinstance(atoms, ConcatAtoms):
        return any(map(in_files, atoms.parts))
    return isinstance(atoms, FileAtoms)
