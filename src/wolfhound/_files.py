"""Atoms in a file, and the small checks that all kinds of atoms share.

Private: import the names from `wolfhound.atoms`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from mmap import mmap
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._exact import require_exact
from wolfhound._npy import Header, check_holds, load_npy, npy_header
from wolfhound.core import Atoms, Ids, Matrix
from wolfhound.validate import count, require

T = TypeVar("T")

IN_MEMORY = 64 << 20
"""Bytes of rows in files that are still loaded, of all files of a set together."""

_NEAR = 16 << 10  # bytes that are read in about the time of one more call to the system

_PIECE = 512 << 10  # bytes that are read at once, at most, where some of them are not wanted


def widen(dtype: Any, name: str) -> np.dtype[Any]:
    """Return float32 or float64: what atoms stored as `dtype` come out as.

    float16, bool and integers of 8 or 16 bits fit float32 exactly; wider
    integers become float64, and those that it does not hold are refused as they are read.

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
    found = ids.astype(np.int64, copy=False)
    if ids.size and not found.view(np.uint64).max() < n:  # below 0 is above all others
        raise IndexError(f"`ids` must lie in [0, {n}). Got {ids.min()} .. {ids.max()}.")
    return found


def lock(block: Matrix) -> Matrix:
    block.flags.writeable = False
    return block


def summary(atoms: Atoms, more: str = "") -> str:
    n, d = atoms.shape
    return f"{type(atoms).__name__}({n} x {d}, {atoms.dtype}{more and ', ' + more})"


class RowFile:
    """Rows of one length and type that lie in a plain file, one after the other.

    The file must stay as it is: every read sees to it, before and after, that it is the
    same file, of the same size and last written at the same time; else it raises OSError.
    A pickled one is told so of the file that it finds.
    """

    __slots__ = ("_seen", "dtype", "offset", "path", "shape")

    def __init__(self, path: Path, header: Header) -> None:
        shape = header.shape
        require(len(shape) == 2, "path", "a file with a 2-D array", f"shape {shape} in {path}")
        require(min(shape) > 0, "path", "a file with at least one row and column", f"{shape} in {path}")
        found = path.stat()
        check_holds(header, found.st_size, path)
        self.path = path.absolute()
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = header.dtype
        self.offset = header.offset
        self._seen: tuple[int, ...] | None = _identify(found)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.path, self.shape, self.dtype, self.offset

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.path, self.shape, self.dtype, self.offset = state
        self._seen = None

    @contextlib.contextmanager
    def open(self) -> Iterator[FileIO]:
        """Open the file, to read from it; OSError if it is no longer what it was."""
        with open(self.path, "rb", buffering=0) as file:
            self._check(file)
            yield file
            self._check(file)

    def _check(self, file: FileIO) -> None:
        found = _identify(os.fstat(file.fileno()))
        if self._seen is None:
            self._seen = found
        if found != self._seen:
            raise OSError(f"{self.path} has changed since it was opened: it must stay as it is")

    def read(self, first: int, rows: int) -> NDArray[Any]:
        """Return up to so many rows from the first on, as they are stored."""
        out = np.empty((min(rows, self.shape[0] - first), self.shape[1]), self.dtype)
        with self.open() as file:
            self.fill(file, first, out)
        return out

    def ask(self, file: FileIO, spans: Sequence[tuple[int, int]]) -> None:
        """Have rows brought that are about to be read: all at once, not one after the other."""
        if len(spans) > 1 and hasattr(os, "posix_fadvise"):
            row = self.shape[1] * self.dtype.itemsize
            for first, stop in spans:
                begin, size = self.offset + first * row, (stop - first) * row
                os.posix_fadvise(file.fileno(), begin, size, os.POSIX_FADV_WILLNEED)

    def fill(self, file: FileIO, first: int, out: NDArray[Any]) -> None:
        """Read rows from the first on."""
        file.seek(self.offset + first * self.shape[1] * self.dtype.itemsize)
        left = out.reshape(-1).view(np.uint8).data
        while len(left):  # one read gives at most 2 GiB
            got = file.readinto(left)
            if not got:
                raise OSError(f"{self.path} ends inside row {first} or a later one: it has shrunk")
            left = left[got:]


def _identify(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_ahead(jobs: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield what the jobs return, in order; a thread does the next one meanwhile.

    The thread ends with the iterator; what a job raises is raised here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="wolfhound-reader") as helper:
        ahead: deque[Future[T]] = deque()
        for job in jobs:
            ahead.append(helper.submit(job))
            if len(ahead) > 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


@final
class FileAtoms:
    """Atoms in a .npy file, read by blocks, one block ahead.

    Uses read(), not a memory map, whose pages count as resident memory. The
    file must stay as it is; once it has changed, reading raises OSError.

    Parameters
    ----------
    path
        A .npy file of shape (n, d) in C order.
    """

    __slots__ = ("_rows",)

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
        widen(header.dtype, "path")
        self._rows = RowFile(path, header)

    @property
    def path(self) -> Path:
        """The file."""
        return self._rows.path

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return widen(self._rows.dtype, "path")

    @property
    def stored(self) -> np.dtype[Any]:
        """Type of the numbers in the file."""
        return self._rows.dtype

    def shows(self, rows: NDArray[Any]) -> bool:
        """Whether the first row, the last and one between are those of an array, to the bit."""
        some = (0, len(rows) // 2, len(rows) - 1)
        return all(self._rows.read(i, 1).tobytes() == rows[i].tobytes() for i in some)

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids; those that are near each other are read together."""
        return np.ascontiguousarray(self.gather(ids), self.dtype)

    def gather(self, ids: Ids) -> NDArray[Any]:
        """Return the rows of these ids, as they are stored."""
        wanted, back = np.unique(valid_ids(ids, self.shape[0]), return_inverse=True)
        rows = np.empty((len(wanted), self.shape[1]), self._rows.dtype)
        with self._rows.open() as file:
            runs = list(self._runs(wanted))
            self._rows.ask(file, [(int(wanted[start]), int(wanted[stop - 1]) + 1) for start, stop in runs])
            for start, stop in runs:
                first, last = int(wanted[start]), int(wanted[stop - 1])
                read = np.empty((last - first + 1, self.shape[1]), self._rows.dtype)
                self._rows.fill(file, first, read)
                rows[start:stop] = read[wanted[start:stop] - first]
        require_exact(rows, str(self.path), wanted)
        return rows[back]

    def read(self, first: int, rows: int) -> NDArray[Any]:
        """Return up to so many rows from the first on, as they are stored."""
        found = self._rows.read(first, rows)
        require_exact(found, str(self.path), first)
        return found

    def _runs(self, wanted: Ids) -> Iterator[tuple[int, int]]:
        """Cut ascending ids where reading on costs more than a new read, and into pieces."""
        row = self.shape[1] * self._rows.dtype.itemsize
        near, piece = max(1, _NEAR // row), max(1, _PIECE // row)
        cut = (np.diff(wanted) > near) | (np.diff(wanted // piece) > 0)
        ends = np.append(np.flatnonzero(cut) + 1, len(wanted))
        return itertools.pairwise([0, *ends.tolist()] if len(wanted) else [])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        return read_ahead(self.jobs(rows))

    def jobs(self, rows: int, start: int = 0) -> Iterator[Callable[[], tuple[int, Matrix]]]:
        """Yield a function for each block, which reads it; ids count from `start`."""
        for first in range(0, self.shape[0], count(rows, "rows", low=1)):
            yield functools.partial(self._block, first, rows, start + first)

    def _block(self, first: int, rows: int, label: int) -> tuple[int, Matrix]:
        return label, lock(np.ascontiguousarray(self.read(first, rows), self.dtype))

    def __repr__(self) -> str:
        """Shape, dtype and path."""
        return summary(self, str(self.path))


@final
class FileRows:
    """An array in a file, by slices and ids of its rows, as they are stored: read, never mapped.

    For what is no atoms and need not fit in memory: likelihoods, targets. A map of a file that
    shrinks would end the process; here it is an OSError. The last of its axes is a row.
    """

    __slots__ = ("_atoms", "axes")

    def __init__(self, atoms: FileAtoms, axes: tuple[int, ...]) -> None:
        self._atoms, self.axes = atoms, axes

    @property
    def shape(self) -> tuple[int, int]:
        """Rows in all, and entries of each."""
        return self._atoms.shape

    @property
    def ndim(self) -> int:
        """Axes of the array."""
        return len(self.axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """As it is stored."""
        return self._atoms.stored

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Load all of it."""
        return self[:].reshape(self.axes).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: slice | Ids) -> NDArray[Any]:
        """Return consecutive rows, or those of these ids."""
        if not isinstance(rows, slice):
            return self._atoms.gather(rows)
        first, stop, step = rows.indices(len(self))
        require(step == 1, "rows", "consecutive", rows)
        return self._atoms.read(first, max(0, stop - first))


def open_rows(path: Path) -> FileRows | NDArray[Any]:
    """Return the array of a .npy file: loaded if it is small or not in C order, else read as it is used."""
    with open(path, "rb") as file:
        try:
            header = npy_header(file)
        except ValueError as error:
            raise ValueError(f"`path` must be a .npy file of numbers. Got {path}: {error}.") from None
    if header.fortran or header.end <= IN_MEMORY or len(header.shape) < 2 or not header.shape[-1]:
        return load_npy(path)
    shape = math.prod(header.shape[:-1]), header.shape[-1]
    return FileRows(FileAtoms.raw(path, shape, header.dtype, offset=header.offset), header.shape)


def unmap(value: Any) -> Any:
    """Return rows of the file that a memory map shows, where they are plain there; all else as it is."""
    if not isinstance(value, np.memmap) or value.ndim < 2:
        return value
    rows: Any = value.reshape(-1, value.shape[-1]) if value.size else None
    found = find_mapped_file(rows) if isinstance(rows, np.memmap) else None
    return value if found is None else FileRows(found, value.shape)


def find_mapped_file(value: np.memmap[Any, Any]) -> FileAtoms | None:
    """Return the rows of the file that a memory map shows, if they are plain there, and there still."""
    root: Any = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    plain = value.ndim == 2 and value.size > 0 and value.flags.c_contiguous and value.mode != "c"
    if not plain or root.filename is None or not os.path.isfile(root.filename):
        return None
    if value.mode != "r":
        value.flush()
    # A map holds its file open, and says how long that one is: another may have its name by now.
    if isinstance(root.base, mmap) and root.base.size() != os.path.getsize(root.filename):
        return None
    # A view keeps the `offset` of the whole map, so count from the whole map's start.
    offset = root.offset + value.ctypes.data - root.ctypes.data
    found = FileAtoms.raw(root.filename, (value.shape[0], value.shape[1]), value.dtype, offset=offset)
    return found if found.shows(value) else None
