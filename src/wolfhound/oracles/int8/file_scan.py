"""`Int8FileScan`: a certified pass over codes on disk, a quarter of the bytes of the atoms."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import final

from wolfhound import store
from wolfhound._spool import spool_folder
from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, AtomsLike, Hits, Vector
from wolfhound.display import read_rows, show_progress
from wolfhound.oracles import _saved as saved
from wolfhound.oracles._question import CheckedOracle, Question
from wolfhound.oracles.indexes import SAVED_AS, IndexKind
from wolfhound.oracles.int8.on_disk import ON_DISK, FileCodes, lay_out, write_codes
from wolfhound.oracles.int8.scan import NAME as IN_MEMORY
from wolfhound.oracles.int8.scan import ON_DISK as NAME
from wolfhound.oracles.int8.scan import answer_by_codes
from wolfhound.oracles.scan import Scan


@final
class Int8FileScan(CheckedOracle):
    """As `Int8Scan`, with the codes on disk: for atoms, and codes, that do not fit in memory.

    A query reads the codes from the first to the last, one chunk ahead, n (d + 8) bytes; then,
    from the atoms, the few rows that can be among the k best. All k answers are those of
    ``Scan(atoms, screen=False)``, to the bit. Takes the memory of a few chunks.

    Made by `build` or `load`. The file must stay as it is; once it has changed, a query
    raises OSError.

    Examples
    --------
    >>> import numpy as np
    >>> hits = Int8FileScan.build(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(self, atoms: Atoms, codes: FileCodes, path: Path) -> None:
        self._atoms, self._codes, self._path = atoms, codes, path
        self._scan = Scan(atoms, screen=False)

    @classmethod
    def build(
        cls, atoms: AtomsLike, path: saved.PathLike | None = None, *, progress: bool | None = None
    ) -> Int8FileScan:
        """Encode the atoms to a file in one pass, which also checks that they are finite.

        Parameters
        ----------
        atoms
            Atoms, an array or a path.
        path
            New, or of an index that is replaced; whole or not at all. It can be loaded later.
            Default: a temporary file, removed with the oracle.
        progress
            As for `minimize`.
        """
        rows = as_atoms(atoms)
        spool = tempfile.mkdtemp(dir=spool_folder()) if path is None else ""
        place = store.place(os.path.join(spool, "codes") if path is None else path)
        watched = show_progress(progress, read_rows("building", rows.shape[0]))
        layout, made_from = lay_out(rows.shape), saved.describe_proved(rows)
        with watched, store.compose(place, SAVED_AS, layout, made_from) as draft:
            draft.params = {"index": NAME, **write_codes(rows, draft)}
        # What was just written needs no proof.
        stored = store.load(place, SAVED_AS, on_disk=ON_DISK, check=False)
        built = cls(rows, FileCodes.of(stored, rows.shape), stored.path)
        if spool:
            weakref.finalize(built, shutil.rmtree, spool, ignore_errors=True)
        return built

    @property
    def nbytes(self) -> int:
        """Bytes that the codes take on disk."""
        return self._codes.nbytes

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds are ignored."""
        return answer_by_codes(self._atoms, self._codes, self._scan, question)

    def save(self, path: saved.PathLike) -> None:
        """Write the codes to another file, whole or not at all; see `load`."""
        place = store.place(path)
        if place.exists() and place.samefile(self._path):
            return  # they are there
        made_from = saved.describe_proved(self._atoms)
        with store.compose(place, SAVED_AS, lay_out(self._atoms.shape), made_from) as draft:
            self._codes.copy(draft)
            draft.params = {"index": NAME, **self._codes.numbers()}

    @classmethod
    def load(cls, path: saved.PathLike, atoms: AtomsLike) -> Int8FileScan:
        """Open codes that this class or `Int8Scan` saved; prove in one pass that they are of the atoms.

        As for `Int8Scan.load`, bounds rest on the atoms, not on the file.

        Raises
        ------
        StoreError
            If the file is damaged, or was made from other atoms.
        """
        rows, stored = saved.open_index(path, atoms, [NAME, IN_MEMORY], proved=True, on_disk=ON_DISK)
        with stored.reading():
            codes = FileCodes.of(stored, rows.shape)
        saved.check_codes(stored, codes, rows)
        return cls(rows, codes, stored.path)

    def __repr__(self) -> str:
        """The atoms and the bytes."""
        return f"Int8FileScan({self._atoms!r}, {self.nbytes / 2**20:.1f} MiB on disk)"


def _make(atoms: AtomsLike, *, seed: int = 0) -> Int8FileScan:
    return Int8FileScan.build(atoms)


INT8_FILE = IndexKind(
    name=NAME,
    title="Int8FileScan",
    build=_make,
    build_in=Int8FileScan.build,
    load=Int8FileScan.load,
    passes=1,
    proves=True,
)
