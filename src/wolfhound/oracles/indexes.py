"""`INDEXES`: all indexes by name, each with what is known of it.

An index says itself how it is built and loaded, and what it costs; planning
and the command line read that here and know none of them. An oracle without an index,
such as a pass over all atoms, is an entry too: it is weighed against the others.

To add one, from any package: ``wolfhound.INDEXES.add(IndexKind(...))``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast, final

from wolfhound import store
from wolfhound.core import AtomsLike, Oracle
from wolfhound.oracles.costs import Estimate, Make, Workload
from wolfhound.registry import Registry

SAVED_AS = "index"
"""The kind of a saved file; ``params["index"]`` says which index it is."""


Load: TypeAlias = Callable[[str | os.PathLike[str], AtomsLike], Oracle]
BuildIn: TypeAlias = Callable[[AtomsLike, str | os.PathLike[str]], Oracle]
Model: TypeAlias = Callable[[Workload], Estimate]


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
    build_in: BuildIn | None = None
    load: Load | None = None
    expected: Model | None = None
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
