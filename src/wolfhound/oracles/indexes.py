"""`INDEXES`: all indexes by name, each with what is known of it, and the file that one is saved in.

An index says itself how it is built and loaded, and what it costs; planning
and the command line read that here and know none of them. An oracle without an index,
such as a pass over all atoms, is an entry too: it is weighed against the others.

To add one, from any package: ``wolfhound.INDEXES.add(IndexKind(...))``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, cast, final

from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Oracle
from wolfhound.core.registry import Registry
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
from wolfhound.oracles.costs import Estimate, Make, Workload

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
