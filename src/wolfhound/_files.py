"""Atoms in a file, and the small checks that all kinds of atoms share.

Private: import the names from `wolfhound.atoms`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._npy import Header, check_holds, npy_header
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.validate import count, require

IN_MEMORY = 64 << 20
"""Bytes of a .npy file, or of the rows of a .parquet file, that are still loaded."""

_NEAR = 16 << 10  # bytes that are read in about the time of one more call to the system

_PIECE = 512 << 10  # bytes that are read at once, at most, where some of them are not wanted


def widen(dtype: Any, name: str) -> np.dtype[Any]:
    """Return float32 or float64: what atoms stored as `dtype` come out as.

    float16, bool and integers of 8 or 16 bits fit float32 exactly; wider
    integers become float64 (rounded beyond 2^53).

    Examples
    --------
    >>> widen("int8", "atoms"), widen(">f8", "atoms")
    (dtype('float32'), dtype('float64'))
    """
    stored = np.dtype(dtype)
    if stored.kind not in "fiub" or stored.itemsize > 8:
        raise TypeError(f"`{name}` must hold real numbers of at most 64 bits. Got dtype {stored}.")
    exact = stored.itemsize <= (4 if stored.kind == "f" else 2)
    return np.dtype(np.float32 if exact else np.float64)


def valid_ids(ids: Ids, n: int) -> Ids:
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TypeError(f"`ids` must be a vector of integers. Got {ids.dtype}, shape {ids.shape}.")
    if ids.size and not (ids.min() >= 0 and ids.max() < n):
        raise IndexError(f"`ids` must lie in [0, {n}). Got {ids.min()} .. {ids.max()}.")
    return ids.astype(np.int64, copy=False)


def lock(block: Matrix) -> Matrix:
    block.flags.writeable = False
    return block


def summary(atoms: Atoms, more: str = "") -> str:
    n, d = atoms.shape
    return f"{type(atoms).__name__}({n} x {d}, {atoms.dtype}{more and ', ' + more})"


@final
class FileAtoms:
    """Atoms in a .npy file, read by blocks, one block ahead.

    Uses read(), not a memory map, whose pages count as resident memory. The
    file must stay as it is; if it shrinks, reading raises OSError.

    Parameters
    ----------
    path
        A .npy file of shape (n, d) in C order.
    """

    __slots__ = ("_offset", "_shape", "_stored", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file:
            try:
                header = npy_header(file)
            except ValueError as error:
                raise ValueError(f"`path` must be a .npy file. Got {path}: {error}.") from None
        if header.fortran and min(header.shape, default=1) > 1:
            raise ValueError(
                f"`path` must be in C order. Got Fortran order in {path}; "
                "write it again with np.save(path, np.ascontiguousarray(array))."
            )
        self._set(Path(path), header)

    @classmethod
    def raw(
        cls, path: str | os.PathLike[str], shape: tuple[int, int], dtype: Any, *, offset: int = 0
    ) -> FileAtoms:
        """Return the atoms that start `offset` bytes into any file, C order."""
        atoms = cls.__new__(cls)
        atoms._set(Path(path), Header(tuple(shape), np.dtype(dtype), False, count(offset, "offset")))
        return atoms

    def _set(self, path: Path, header: Header) -> None:
        shape, stored = header.shape, header.dtype
        require(len(shape) == 2, "path", "a file with a 2-D array", f"shape {shape} in {path}")
        require(min(shape) > 0, "path", "a file with at least one row and column", f"{shape} in {path}")
        widen(stored, "path")
        check_holds(header, path.stat().st_size, path)
        self.path = path.absolute()
        self._shape = (int(shape[0]), int(shape[1]))
        self._stored = stored
        self._offset = header.offset

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return widen(self._stored, "path")

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids; those that are near each other are read together."""
        wanted, back = np.unique(valid_ids(ids, self._shape[0]), return_inverse=True)
        rows = np.empty((len(wanted), self._shape[1]), self._stored)
        with open(self.path, "rb", buffering=0) as file:
            for start, stop in self._runs(wanted):
                first, last = int(wanted[start]), int(wanted[stop - 1])
                read = np.empty((last - first + 1, self._shape[1]), self._stored)
                self._fill(file, first, read)
                rows[start:stop] = read[wanted[start:stop] - first]
        return np.ascontiguousarray(rows[back], self.dtype)

    def _runs(self, wanted: Ids) -> Iterator[tuple[int, int]]:
        """Cut ascending ids where reading on costs more than a new read, and into pieces."""
        row = self._shape[1] * self._stored.itemsize
        near, piece = max(1, _NEAR // row), max(1, _PIECE // row)
        cut = (np.diff(wanted) > near) | (np.diff(wanted // piece) > 0)
        ends = np.append(np.flatnonzero(cut) + 1, len(wanted))
        return itertools.pairwise([0, *ends.tolist()] if len(wanted) else [])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        n = self._shape[0]
        count(rows, "rows", low=1)
        with open(self.path, "rb", buffering=0) as file, ThreadPoolExecutor(1) as helper:
            ahead = helper.submit(self._block, file, 0, rows)
            for first in range(0, n, rows):
                block = ahead.result()
                if first + rows < n:
                    ahead = helper.submit(self._block, file, first + rows, rows)
                yield first, block

    def _block(self, file: FileIO, first: int, rows: int) -> Matrix:
        out = np.empty((min(rows, self._shape[0] - first), self._shape[1]), self._stored)
        self._fill(file, first, out)
        return lock(np.ascontiguousarray(out, self.dtype))

    def _fill(self, file: FileIO, first: int, out: NDArray[Any]) -> None:
        file.seek(self._offset + first * self._shape[1] * self._stored.itemsize)
        left = out.reshape(-1).view(np.uint8).data
        while len(left):  # one read gives at most 2 GiB
            got = file.readinto(left)
            if not got:
                raise OSError(f"{self.path} ends inside row {first} or a later one: it has shrunk")
            left = left[got:]

    def __repr__(self) -> str:
        """Shape, dtype and path."""
        return summary(self, str(self.path))


def find_mapped_file(value: np.memmap[Any, Any]) -> FileAtoms | None:
    """Return the rows of the file that a memory map shows, if they are plain there."""
    root: Any = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    plain = value.ndim == 2 and value.size > 0 and value.flags.c_contiguous and value.mode != "c"
    if not plain or root.filename is None or not os.path.isfile(root.filename):
        return None
    if value.mode != "r":
        value.flush()
    # A view keeps the `offset` of the whole map, so count from the whole map's start.
    offset = root.offset + value.ctypes.data - root.ctypes.data
    return FileAtoms.raw(root.filename, (value.shape[0], value.shape[1]), value.dtype, offset=offset)
