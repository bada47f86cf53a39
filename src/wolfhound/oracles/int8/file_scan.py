"""`Int8FileScan`: a certified pass over codes on disk, a quarter of the bytes of the atoms.

Codes that stay on disk are written block by block, and read in order, one chunk ahead.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Matrix, Vector
from wolfhound.core.progress import read_rows, report_rows, show_progress
from wolfhound.core.threads import map_ordered
from wolfhound.data import store
from wolfhound.data.atoms import as_atoms, block_rows
from wolfhound.data.files import RowFile, lock, read_ahead, spool_folder
from wolfhound.data.store import ArrayWriter, Draft, Stored
from wolfhound.oracles import indexes as saved
from wolfhound.oracles.asking import CheckedOracle, Question
from wolfhound.oracles.indexes import SAVED_AS, IndexKind
from wolfhound.oracles.int8.codes import (
    LARGEST,
    CodeChunk,
    CodeStore,
    Encoder,
    Extent,
    check_codes,
    check_numbers,
    encode_twice,
)
from wolfhound.oracles.int8.layout import ROWS, PackedRows, allocate, empty_rows, shape_of
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
        check_codes(stored, codes, rows)
        return cls(rows, codes, stored.path)

    def __repr__(self) -> str:
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


CHUNK = 8 << 20  # bytes of codes that are read at once
ON_DISK = ("codes_blocks", "codes_scales", "codes_errors")  # arrays of a file that are not loaded

_NO_IDS: Ids = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileCodes(CodeStore):
    """Codes in a file, in the order of the atoms."""

    files: tuple[RowFile, ...]  # blocks, scales and errors, a row for each block of 16 atoms

    @classmethod
    def of(cls, stored: Stored, shape: tuple[int, int]) -> FileCodes:
        """Open codes that were saved; not yet proved to be those of any atoms, see `find_wrong_row`."""
        (n, d), (blocks, _, _) = shape, shape_of(*shape)
        centre = np.array(stored.array("codes_centre", np.float64, (d,)))
        numbers = check_numbers(stored.params, centre)
        layout, files = lay_out(shape), []
        for name in ON_DISK:
            place = stored.find(name, *layout[name])
            width = math.prod(place.shape) // blocks
            files.append(RowFile(stored.path, place._replace(shape=(blocks, width))))
        if len(stored.array("codes_ids", np.int64, (None,))):
            raise stored.wrong("codes on disk must be in the order of the atoms")
        return cls(files=tuple(files), centre=centre, **numbers, n=n)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(each.shape[0] * each.shape[1] * each.stored.itemsize for each in self.files)

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order, one chunk ahead; the same chunks each time."""
        total, width = self.files[0].shape
        # The ids that a chunk is given count too.
        step = max(1, CHUNK // (2 * width + 16 * ROWS))

        def read(start: int) -> CodeChunk:
            stop = min(start + step, total)
            return CodeChunk(self._read(start, stop), (0, stop - start), ROWS * start)

        return read_ahead(functools.partial(read, start) for start in range(0, total, step))

    def _read(self, start: int, stop: int) -> PackedRows:
        """Read blocks; ids are those of the atoms."""
        arrays = []
        for file in self.files:
            out = allocate((stop - start, file.shape[1]), file.stored.type)
            with file.open() as stream:
                file.fill(stream, start, out)
            arrays.append(out)
        codes, scales, errors = arrays
        stays = min(ROWS * stop, self.n) - ROWS * start
        ids = np.arange(ROWS * start, ROWS * start + stays)
        return PackedRows(codes.reshape(stop - start, -1, ROWS), scales.ravel(), errors.ravel(), ids, stays)

    def window(self, first: int, stop: int) -> tuple[PackedRows, int]:
        """Read the codes of some atoms, and check that kernels may read them."""
        start = first // ROWS
        packed = self._read(start, -(-stop // ROWS))
        for values, top in ((packed.scales, LARGEST), (packed.errors, self.error)):
            # Written so that nan is refused; a row that is refused is told as one that is wrong.
            if not (values.min() >= 0.0 and values.max() <= top):
                packed = packed._replace(errors=np.full_like(packed.errors, -1.0))
        # Locked, so that what is compiled for codes that are mapped serves here too.
        for array in (packed.blocks, packed.scales, packed.errors):
            array.flags.writeable = False
        return packed._replace(ids=_NO_IDS), ROWS * start

    def copy(self, draft: Draft) -> None:
        """Write the arrays to another file."""
        writers = [draft.open(name) for name in ON_DISK]
        for chunk in self.chunks():
            _write(writers, chunk.packed)
        _add_rest(draft, self.centre)


def lay_out(shape: tuple[int, int]) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Type and shape of every array of the codes of (n, d) atoms."""
    blocks, pairs, _ = shape_of(*shape)
    singles = (np.float32, (ROWS * blocks,))
    return {
        "codes_blocks": (np.int16, (blocks, pairs, ROWS)),
        "codes_scales": singles,
        "codes_errors": singles,
        "codes_ids": (np.int64, (0,)),
        "codes_centre": (np.float64, (shape[1],)),
    }


# ---------------------------------------------------------------- writing


def write_codes(atoms: Atoms, draft: Draft) -> dict[str, Any]:
    """Encode all atoms in one pass, exceptionally in two, to the arrays of a file.

    Takes the memory of a few blocks. Returns what is to be saved with them.
    """

    def put(encoder: Encoder) -> Iterator[Extent]:
        def work(task: tuple[int, Matrix]) -> tuple[PackedRows, Extent]:
            first, rows = task
            n, packed = len(rows), empty_rows(len(rows), rows.shape[1], _NO_IDS)
            return packed, encoder.encode(np.arange(first, first + n), rows, np.arange(n), packed)

        writers = [draft.open(name) for name in ON_DISK]  # what was written before is forgotten
        for packed, extent in map_ordered(work, align_blocks(atoms.blocks(block_rows(atoms)), ROWS)):
            report_rows(packed.n)
            _write(writers, packed)
            yield extent

    facts = encode_twice(atoms, None, put)
    _add_rest(draft, facts.pop("centre"))
    return {**facts, "n": atoms.shape[0]}


def align_blocks(blocks: Iterable[tuple[int, Matrix]], size: int) -> Iterator[tuple[int, Matrix]]:
    """Cut blocks anew so that each begins at a multiple of `size`; only the last may end elsewhere."""
    held: Matrix | None = None
    start = 0
    for first, block in blocks:
        rows = block if held is None else np.concatenate([held, block])
        start = first if held is None else start
        whole = len(rows) - len(rows) % size
        if whole:
            yield start, lock(rows[:whole])
        held, start = (rows[whole:], start + whole) if whole < len(rows) else (None, start + whole)
    if held is not None:
        yield start, lock(np.ascontiguousarray(held))


def _write(writers: Sequence[ArrayWriter], packed: PackedRows) -> None:
    """Write the next codes."""
    for writer, name in zip(writers, ("blocks", "scales", "errors"), strict=True):
        writer.write(getattr(packed, name))


def _add_rest(draft: Draft, centre: Vector) -> None:
    draft.open("codes_ids")
    draft.open("codes_centre").write(centre)
