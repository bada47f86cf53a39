"""Codes that stay on disk: written block by block, read in order, one chunk ahead."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wolfhound._files import RowFile, lock, read_ahead
from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Ids, Ints, Matrix, Vector
from wolfhound.oracles.int8._encode_kernels import CodeScale
from wolfhound.oracles.int8.codes import LARGEST, NUMBERS, CodeChunk, Window, bare_scale, check_numbers
from wolfhound.oracles.int8.encoding import Encoder, Extent, encode_twice
from wolfhound.oracles.int8.layout import ROWS, PackedRows, allocate, empty_rows, shape_of
from wolfhound.progress import report_rows
from wolfhound.store import ArrayWriter, Draft, Stored
from wolfhound.threads import map_ordered

CHUNK = 8 << 20
"""Bytes of codes that are read at once."""

ON_DISK = ("codes_blocks", "codes_scales", "codes_errors")
"""Arrays of a file that are not loaded."""

_NO_IDS: Ids = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileCodes:
    """The codes of atoms in files, in the order of the atoms; what they share is as of `Codes`.

    Attributes
    ----------
    blocks, scales, errors : RowFile
        A row for each block of 16 atoms.
    """

    blocks: RowFile
    scales: RowFile
    errors: RowFile
    centre: Vector
    zero: int
    exponent: int
    height: float
    error: float
    radius: float
    n: int
    ids: Ids = field(default_factory=lambda: _NO_IDS)

    @classmethod
    def of(cls, stored: Stored, shape: tuple[int, int]) -> FileCodes:
        """Open codes that were saved; not yet proved to be those of any atoms, see `find_wrong_row`."""
        (n, d), (blocks, _, _) = shape, shape_of(*shape)
        centre = np.array(stored.array("codes_centre", np.float64, (d,)))
        numbers = check_numbers(stored.params, centre)
        found = {
            name: RowFile(stored.path, place._replace(shape=(blocks, math.prod(place.shape) // blocks)))
            for name, (dtype, size) in lay_out(shape).items()
            if name in ON_DISK and (place := stored.find(name, dtype, size))
        }
        if len(stored.array("codes_ids", np.int64, (None,))):
            raise stored.wrong("codes on disk must be in the order of the atoms")
        return cls(
            blocks=found["codes_blocks"],
            scales=found["codes_scales"],
            errors=found["codes_errors"],
            centre=centre,
            **numbers,
            n=n,
        )

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(each.shape[0] * each.shape[1] * each.dtype.itemsize for each in self._files())

    def _files(self) -> tuple[RowFile, RowFile, RowFile]:
        return self.blocks, self.scales, self.errors

    def scale(self) -> CodeScale:
        """What decides how a query is rounded."""
        return CodeScale(*bare_scale(self))

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order, one chunk ahead; the same chunks each time."""
        total, width = self.blocks.shape
        # The ids that a chunk is given count too.
        step = max(1, CHUNK // (2 * width + 16 * ROWS))
        return read_ahead(
            functools.partial(self._chunk, i, min(i + step, total)) for i in range(0, total, step)
        )

    def _chunk(self, start: int, stop: int) -> CodeChunk:
        return CodeChunk(self._read(start, stop), (0, stop - start), ROWS * start)

    def _read(self, start: int, stop: int) -> PackedRows:
        """Read blocks; ids are those of the atoms."""
        arrays = []
        for file in self._files():
            out = allocate((stop - start, file.shape[1]), file.dtype.type)
            with file.open() as stream:
                file.fill(stream, start, out)
            arrays.append(out)
        codes, scales, errors = arrays
        stays = min(ROWS * stop, self.n) - ROWS * start
        ids = np.arange(ROWS * start, ROWS * start + stays)
        return PackedRows(codes.reshape(stop - start, -1, ROWS), scales.ravel(), errors.ravel(), ids, stays)

    def sample(self, which: Ints) -> PackedRows:
        """Return some blocks, all of them full."""
        parts = [self._read(int(block), int(block) + 1) for block in which]
        blocks, scales, errors, ids = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("blocks", "scales", "errors", "ids")
        )
        return PackedRows(blocks, scales, errors, ids, len(ids))

    def windows(self) -> Window:
        """Return a function that reads the codes of some atoms, and checks that kernels may read them."""
        return self._window

    def _window(self, first: int, rows: int) -> tuple[PackedRows, Ids]:
        start, stop = first // ROWS, -(-(first + rows) // ROWS)
        packed = self._read(start, stop)
        for values, top in ((packed.scales, LARGEST), (packed.errors, self.error)):
            # Written so that nan is refused; a row that is refused is told as one that is wrong.
            if not (values.min() >= 0.0 and values.max() <= top):
                packed = packed._replace(errors=np.full_like(packed.errors, -1.0))
        # Locked, so that what is compiled for codes that are mapped serves here too.
        for array in (packed.blocks, packed.scales, packed.errors):
            array.flags.writeable = False
        return packed._replace(ids=np.empty(0, np.int64)), np.arange(first, first + rows) - ROWS * start

    def numbers(self) -> dict[str, float]:
        """What is to be saved, with the arrays."""
        return {name: getattr(self, name) for name in NUMBERS}

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
        writers = [draft.open(name) for name in ON_DISK]  # what was written before is forgotten
        for packed, extent in _encode(atoms, encoder):
            report_rows(packed.n)
            _write(writers, packed)
            yield extent

    facts = encode_twice(atoms, None, put)
    _add_rest(draft, facts.pop("centre"))
    return {**facts, "n": atoms.shape[0]}


def _encode(atoms: Atoms, encoder: Encoder) -> Iterator[tuple[PackedRows, Extent]]:
    """Yield codes and their extent, from whole blocks to whole blocks."""

    def work(task: tuple[int, Matrix]) -> tuple[PackedRows, Extent]:
        first, rows = task
        packed = empty_rows(len(rows), rows.shape[1], _NO_IDS)
        return packed, encoder.encode(np.arange(first, first + len(rows)), rows, np.arange(len(rows)), packed)

    return map_ordered(work, align_blocks(atoms.blocks(block_rows(atoms)), ROWS))


def align_blocks(blocks: Iterable[tuple[int, Matrix]], size: int) -> Iterator[tuple[int, Matrix]]:
    """Cut blocks anew so that each begins at a multiple of `size`; only the last may end elsewhere.

    Examples
    --------
    >>> blocks = [(0, np.zeros((3, 1))), (3, np.zeros((4, 1)))]
    >>> [(first, len(block)) for first, block in align_blocks(blocks, 2)]
    [(0, 2), (2, 4), (6, 1)]
    """
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
