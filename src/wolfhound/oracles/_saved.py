"""What all saved indexes share: a file of kind "index" that says which, and what is checked of it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

from wolfhound import store
from wolfhound.atoms import Fingerprint, PartPrint, as_atoms, fingerprint
from wolfhound.core import Atoms, AtomsLike
from wolfhound.oracles.indexes import SAVED_AS
from wolfhound.oracles.int8.codes import Codes, CodeStore
from wolfhound.oracles.int8.encoding import find_wrong_row
from wolfhound.validate import count, require

_LARGEST_BUDGET = 1 << 40

PathLike: TypeAlias = str | os.PathLike[str]


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

    Parameters
    ----------
    path, atoms, names
        What is opened.
    proved
        Whether all that was saved is yet to be proved against the atoms, which are then not hashed.
    on_disk
        Arrays that are not loaded.
    """
    rows = as_atoms(atoms)
    stored = store.load(path, SAVED_AS, on_disk=on_disk)
    name = str(stored.params.get("index"))
    if name not in names:
        rule = f"`path` must hold a saved index {' or '.join(names)}."
        raise store.StoreError(f"{rule} Got {name} in {stored.path}.")
    store.check_fingerprint(stored, rows, content=not proved)
    return rows, stored


def check_codes(stored: store.Stored, codes: CodeStore, atoms: Atoms) -> None:
    """Raise StoreError unless all codes are proved to be those of the atoms; one pass."""
    if isinstance(codes, Codes) and codes.errors.max() > codes.error:
        raise stored.wrong(f"errors must be <= {codes.error:g}")
    row = find_wrong_row(codes, atoms)
    if row is not None:
        rule = f"`atoms` must be the atoms that {stored.path} was made from."
        raise store.StoreError(f"{rule} Got a row {row} that is not the one of these codes.")


def read_probing(stored: store.Stored, codes: Codes, atoms: Atoms) -> tuple[int, bool]:
    """Return the budget and whether misses are proved: by these codes, which are then checked."""
    with stored.reading():
        budget, proof = count(stored.params["budget"], "budget", low=1), stored.params["proof"]
        # Kernels multiply budgets by numbers of buckets.
        require(budget <= _LARGEST_BUDGET, "budget", f"<= {_LARGEST_BUDGET}", budget)
        require(isinstance(proof, bool), "proof", "true or false", proof)
    if proof:
        check_codes(stored, codes, atoms)
    return budget, bool(proof)
