"""`INDEXES`: all indexes by name, each with what is known of it, and the file that one is saved in.

An index says itself how it is built and loaded, and what it is expected to cost, from two speeds of the
machine: how fast it reads and multiplies. Planning and the command line read that here and know none of
them. An oracle without an index, such as a pass over all atoms, is an entry too: it is weighed against
the others.

To add one, from any package: ``wolfhound.INDEXES.add(IndexKind(...))``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import functools
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Oracle, Singles
from wolfhound.core.registry import Registry
from wolfhound.core.rounding import product
from wolfhound.core.threads import get_threads, map_ordered
from wolfhound.core.validate import kind, number, require
from wolfhound.data import store
from wolfhound.data.atoms import (
    Fingerprint,
    PartPrint,
    append_rows,
    as_atoms,
    check_removed,
    fingerprint,
    remove_rows,
)

# ---------------------------------------------------------------- what an oracle is expected to cost

_CALL, _QUERY = 1e-4, 1e-5  # seconds of any call, and of any further query in it
_FURTHER = 0.35  # products for a byte that one more query of a call takes
_SCATTERED = 1.7  # how much slower bytes are read and scored that lie here and there
_ENCODE = 24.0  # products for a byte of rows that becomes codes
_PATIENCE = 0.4  # seconds that each speed is measured for
_FILE, _FETCH = 10.0, 4.5e-6  # how much slower files are than memory; seconds for a row that is read alone


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast a machine is, in seconds, with the threads that are set.

    Parameters
    ----------
    byte
        Per byte of a plain read of rows in memory.
    product
        Per product in a matrix product of float32.
    """

    byte: float = 3e-11
    product: float = 1.5e-11

    def __post_init__(self) -> None:
        for name in ("byte", "product"):
            value = number(getattr(self, name), name, low=0.0, strict=True)
            require(math.isfinite(value), name, "finite", value)

    @classmethod
    def here(cls) -> Speeds:
        """Return those of this machine, measured in about a second, once per process and thread count."""
        return _measure(get_threads())


@functools.cache
def _measure(threads: int) -> Speeds:
    """Read 128 MB and multiply blocks, again and again; the fastest counts.

    In time of the processor: what others do at this moment is no speed of the machine.
    """
    table = np.ones((1 << 18, 128), np.float32)
    parts = np.split(table, 256)
    # Numbers that stay small, and centres enough for whole blocks of the product.
    centres = np.full((128, 128), 1e-3, np.float32)

    def find_fastest(work: Callable[[Singles], Any], tasks: Sequence[Singles]) -> float:
        fastest, end = math.inf, time.perf_counter() + _PATIENCE
        while time.perf_counter() < end:
            begin = time.process_time()
            for _ in map_ordered(work, tasks):
                pass
            fastest = min(fastest, time.process_time() - begin)
        return fastest / threads

    read = find_fastest(np.max, parts)
    multiply = find_fastest(lambda rows: product(rows, centres)[0, 0], parts[:16])
    return Speeds(byte=read / table.nbytes, product=multiply / (16 * parts[0].size * centres.shape[1]))


def check_speeds(speeds: Speeds | None) -> Speeds:
    """Return speeds that were given; None: those of this machine."""
    if speeds is None:
        return Speeds.here()
    kind(speeds, "speeds", "a Speeds", Speeds)
    return speeds


class Make(Protocol):
    """Makes an oracle over atoms; the seed is that of whatever is random in it."""

    def __call__(self, atoms: AtomsLike, *, seed: int = 0) -> Oracle:
        """Build it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be done, as an entry of `INDEXES` is told."""

    n: int
    d: int
    row: int  # bytes of a row
    in_files: bool = False  # whether rows are read from files
    ratio: float = 1.0  # the gap ratio that is wanted; 1: as the index is by default
    interior: bool = False  # whether the queries come from inside the hull
    batch: int = 1  # queries that are asked together
    max_memory: float = math.inf  # bytes that an oracle may take
    speeds: Speeds

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.n * self.row

    def query_seconds(self, nbytes: float, *, scattered: bool = False, shared: bool = True) -> float:
        """Return the seconds per query that reads so many bytes of rows or codes.

        `scattered`: they lie here and there; `shared`: one read serves all queries of a call.
        """
        slower = _SCATTERED if scattered else 1.0
        first = self.speeds.byte * nbytes
        further = _FURTHER * self.speeds.product * nbytes if shared else first
        more = (self.batch - 1) * (_QUERY + slower * further)
        return (_CALL + slower * first + more) / self.batch

    def fetch_seconds(self, rows: int) -> float:
        """Return the seconds to read so many rows one by one; in memory they are part of a call."""
        return rows * _FETCH if self.in_files else 0.0

    def file_seconds(self, passes: float, nbytes: float | None = None) -> float:
        """Return the seconds by which reading all rows, or so many bytes of them, from files is slower."""
        size = self.nbytes if nbytes is None else nbytes
        return passes * _FILE * self.speeds.byte * size if self.in_files else 0.0

    def build_seconds(self, products: float = 0.0, *, encoded: float = 0.0, passes: int = 0) -> float:
        """Return the seconds to build what takes these products, bytes of rows to encode, and passes."""
        return (products + _ENCODE * encoded) * self.speeds.product + self.file_seconds(passes)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an oracle is expected to cost and to give, set up for a `Workload`.

    Attributes
    ----------
    recipe : str
        How it is made by hand.
    make : Make
        Makes it.
    build, query : float
        Seconds to build, and per query.
    scored : float
        Atoms that a query scores, as rows or codes; centres and hashes count too.
    nbytes : float
        Memory beside the atoms.
    ratio : float
        The gap ratio that is typical of it, 1 if it is exact.
    """

    recipe: str
    make: Make
    build: float
    query: float
    scored: float
    nbytes: float
    ratio: float = 1.0


# ---------------------------------------------------------------- the table of all, and saved files


SAVED_AS = "index"
"""The kind of a saved file; ``params["index"]`` says which index it is."""


PathLike: TypeAlias = str | os.PathLike[str]
Load: TypeAlias = Callable[[PathLike, AtomsLike], Oracle]


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
        What it costs and gives for a `Workload`. None: it is never weighed, but can be built by name.
    passes
        Passes over the atoms that building takes; 0: nothing is built.
    proves
        Whether its bounds are always finite: it answers as a scan does.
    takes_ratio
        Whether `expected` sets it up for the ratio of a workload.
    """

    name: str
    title: str
    build: Make | None = None
    build_in: Callable[[AtomsLike, PathLike], Oracle] | None = None
    load: Load | None = None
    expected: Callable[[Workload], Estimate] | None = None
    passes: int = 0
    proves: bool = False
    takes_ratio: bool = False


INDEXES: Registry[IndexKind] = Registry(
    "index",
    ("title", "build", "load", "expected", "passes", "proves", "takes_ratio"),
    {
        "scan": "wolfhound.oracles.scan:SCAN",
        "int8": "wolfhound.oracles.int8.scan:INT8",
        "clusters": "wolfhound.oracles.clusters:CLUSTERS",
        "lsh": "wolfhound.oracles.lsh:LSH",
        "subset": "wolfhound.oracles.subset:SUBSET",
        "int8-file": "wolfhound.oracles.int8.file_scan:INT8_FILE",
    },
)
"""In the order of preference where seconds are equal; the first is what all others must beat."""


def find_saved(path: PathLike) -> IndexKind:
    """Return which index a file holds, by its header; ValueError if none, StoreError if none of `INDEXES`."""
    held, params = store.describe(path)
    if held != SAVED_AS:
        raise ValueError(f"`path` must hold an index. Got a {held} in {store.find(path)}.")
    name = str(params.get("index"))
    kinds = {known: kind for known, kind in INDEXES.items() if kind.load is not None}
    if name not in kinds:
        rule = f"`path` must hold one of the indexes {', '.join(kinds)}."
        raise store.StoreError(f"{rule} Got {name} in {store.find(path)}.")
    return kinds[name]


def load_index(path: PathLike, atoms: AtomsLike) -> Oracle:
    """Open a saved index, whichever it is; StoreError if it is damaged, or of other atoms."""
    kind = find_saved(path)
    return cast(Load, kind.load)(path, atoms)


# ---------------------------------------------------------------- edits


class BuiltAnew(abc.ABC):
    """An index whose edits build it again: what is known of the old atoms says too little of the new."""

    _atoms: Atoms

    def append(self, rows: AtomsLike) -> Self:
        """Return the index of the atoms followed by these rows, whose ids are n, n + 1, ...

        It is the index that `build` makes of them with the settings and the seed of this one, which
        stays as it is. A default budget stays the default.

        Parameters
        ----------
        rows : (r, d) array, or whatever `build` takes
            Rows in memory are joined to atoms in memory; all else stays where it is.
        """
        return self._build_again(append_rows(self._atoms, rows))

    def remove(self, ids: ArrayLike) -> Self:
        """Return the index of the atoms without some; those behind move up, as with ``numpy.delete``.

        It is the index that `build` makes of them, as for `append`.

        Parameters
        ----------
        ids : (r,) integers
            Distinct; one atom must stay. ``numpy.delete(numpy.arange(n), ids)`` are the old ids
            of the new atoms.
        """
        gone = check_removed(self._atoms, ids)
        return self._build_again(remove_rows(self._atoms, gone)) if len(gone) else self

    @abc.abstractmethod
    def _build_again(self, atoms: Atoms) -> Self:
        """Return the index of other atoms, with the settings of this one."""


# ---------------------------------------------------------------- files


def save_index(
    path: PathLike,
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, Any],
    atoms: Atoms,
    *,
    proved: bool = False,
) -> None:
    """Write an index of this name in `INDEXES`, over another if there is one; `proved` as of `open_index`."""
    made_from = describe_proved(atoms) if proved else fingerprint(atoms)
    store.save(path, SAVED_AS, arrays, {"index": name, **params}, made_from)


def describe_proved(atoms: Atoms) -> Fingerprint:
    """Size and type of the atoms of an index all of which is proved when it is loaded: nothing is hashed."""
    return tuple(PartPrint(*part.kind) for part in fingerprint(atoms))


def open_index(
    path: PathLike,
    atoms: AtomsLike,
    names: Collection[str],
    *,
    proved: bool = False,
    on_disk: Collection[str] = (),
) -> tuple[Atoms, store.Stored]:
    """Return the atoms, and what was saved of an index of them that has one of these names.

    With `proved`, all that was saved is yet to be proved against the atoms, which are then not hashed. Arrays
    `on_disk` are not loaded.
    """
    rows = as_atoms(atoms)
    stored = store.load(path, SAVED_AS, on_disk=on_disk)
    name = str(stored.params.get("index"))
    if name not in names:
        rule = f"`path` must hold a saved index {' or '.join(names)}."
        raise store.StoreError(f"{rule} Got {name} in {stored.path}.")
    store.check_fingerprint(stored, rows, content=not proved)
    return rows, stored
