"""`load`: one door to whatever was saved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pkgutil
from os import PathLike
from typing import Any

from wolfhound.core.contracts import AtomsLike
from wolfhound.data import store

KINDS = {
    "result": "wolfhound.solve.result:Result",
    "checkpoint": "wolfhound.solve.checkpoint:Checkpoint",
    "many results": "wolfhound.many.result:ManyResult",
    "many run": "wolfhound.many.run:read_stream",
    "design": "wolfhound.designs.result:Design",
    "herd": "wolfhound.herding.result:HerdResult",
    "policy": "wolfhound.policy.tabular.result:TabularResult",
    "mixture": "wolfhound.mixtures.fit:MixtureFit",
    "agent": "wolfhound.policy.deep.agent:Agent",
    "index": "wolfhound.oracles.indexes:load_index",
}
"""Where what a file holds is read: a function of the file and the atoms, or a class with such a `load`.

Loading runs nothing that a file names: this table alone says what is imported.
"""


def load(path: str | PathLike[str], atoms: AtomsLike | None = None) -> Any:
    """Read whatever was saved: results, a herd, a design, a mixture, a policy, an agent or an index.

    What was proved in a run is read, not proved again: checksums tell damage, but
    whoever can write the file can write what he likes. To prove it, solve again.
    What an index proves is checked against its atoms.

    Parameters
    ----------
    path
        Where it was saved; the ending .safetensors is added. A folder is the `out` of a run.
    atoms : (n, d) array, atoms, table, path, or a list of these
        An index and an agent need theirs. For others: if given, they must be the
        atoms of the run. All of them are read once, and compared by a digest of every row
        (`Int8Scan`: by proving every code).

    Returns
    -------
    Result, ManyResult, HerdResult, Design, MixtureFit, TabularResult, Agent or an index
        By what the file holds.

    Raises
    ------
    StoreError
        If the file is damaged, was made from other atoms, or is of another format.

    Examples
    --------
    >>> import tempfile
    >>> import wolfhound as wh
    >>> run = wh.minimize(wh.SquaredDistance([0.2, 0.3]), [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run")
    ...     wh.load(f"{folder}/run").value == run.value
    True
    """
    kind, _ = store.describe(path)
    if kind not in KINDS:
        raise store.StoreError(f"`path` must hold one of {', '.join(KINDS)}. Got a {kind} in {path}.")
    found = pkgutil.resolve_name(KINDS[kind])
    return getattr(found, "load", found)(path, atoms)
