"""Rows in memory and in .npy files, which are read so that nothing is allocated that a file cannot fill.

Private: import the names of atoms from `wolfhound.data.atoms`, which knows all kinds of them.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import importlib
import io
import itertools
import math
import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import FileIO
from mmap import mmap
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Ids, Matrix
from wolfhound.core.progress import report_rows
from wolfhound.core.validate import count, real_array, require, require_exact

PathLike: TypeAlias = str | os.PathLike[str]


def import_extra(package: str, what: str, extra: str) -> Any:
    """Return a package that an extra of ours installs, or say which, and what needs it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f'{what} needs {package}: pip install "wolfhound[{extra}]"') from None


# ---------------------------------------------------------------- headers of .npy files

NOT_NPY = (
    *(ValueError, KeyError, TypeError, EOFError, SyntaxError, TokenError),
    *(RecursionError, MemoryError, OverflowError, UnicodeError, AttributeError, IndexError),
)
"""What numpy raises on a damaged .npy header."""

NOT_NUMPY = (*NOT_NPY, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""And on a damaged file."""

_HEADERS: dict[tuple[int, int], tuple[int, Any]] = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}
"""By version: bytes of the header's length, and what reads the rest; later ones are for tables."""

_LONGEST = 10_000  # bytes of a header that numpy trusts itself to parse


class Header(NamedTuple):
    """What a file says of an array: a .npy file of its own, others of each that they hold."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # without Python objects
    fortran: bool  # columns are contiguous, not rows
    offset: int  # bytes before the values

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Bytes that a file with these values has, at least."""
        return self.offset + self.nbytes

    def values(self, file: BinaryIO) -> NDArray[Any]:
        """Load the values of a plain file that is known not to end before them."""
        order: Literal["F", "C"] = "F" if self.fortran else "C"
        file.seek(self.offset)
        flat = np.fromfile(file, self.dtype, math.prod(self.shape))
        return flat.reshape(self.shape, order=order)


def npy_header(file: BinaryIO) -> Header:
    """Read the header of a .npy file; ValueError if it is none, or of Python objects.

    Nothing is allocated that it asks for.
    """
    try:
        start = _read(file, len(np.lib.format.MAGIC_PREFIX) + 2)
        version = np.lib.format.read_magic(io.BytesIO(start))
        width, parse = _HEADERS[version]
        start += _read(file, width)
        length = int.from_bytes(start[-width:], "little")
        if length > _LONGEST:
            raise ValueError(f"its header has {length} bytes")
        start += _read(file, length)
        shape, fortran, dtype = parse(io.BytesIO(start[-length - width :]))
        sizes = all(0 <= size <= sys.maxsize for size in shape)
    except NOT_NPY as error:
        raise ValueError(f"{type(error).__name__}: {error}".splitlines()[0]) from None
    if not sizes or dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"it claims to hold {dtype} of shape {shape}")
    return Header(tuple(map(int, shape)), dtype, bool(fortran), len(start))


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ends inside its header")
    return data


def check_holds(header: Header, size: int, path: object) -> None:
    """Raise ValueError if a file of this size ends before its values do."""
    values = f"{' x '.join(map(str, header.shape))} {header.dtype} values"
    require(size >= header.end, "path", f"a file of {values}, {header.end} bytes", f"{size} bytes in {path}")


# ---------------------------------------------------------------- whole arrays


def split_key(text: str) -> tuple[str, str | None]:
    """Split ``file::name`` into a file that holds several arrays and the name of one; ``x.npz:key`` too."""
    found = re.fullmatch(r"(.*\.npz)::?(.+)|(.*\.(?:h5|hdf5|zarr|safetensors))::(.+)", text, re.IGNORECASE)
    return (found[1] or found[3], found[2] or found[4]) if found else (text, None)


def check_exists(path: PathLike) -> Path:
    """Return the path of a file that is there and not empty; a Zarr store is a folder."""
    file = Path(path)
    if file.suffix.lower() == ".zarr" and file.is_dir():
        return file
    if not file.is_file():
        raise FileNotFoundError(f"`path` must name a file. Got {str(path)!r}, which is not there.")
    require(file.stat().st_size > 0, "path", "a file with content", f"{file}, which is empty")
    return file


def load_npy(path: Path) -> NDArray[Any]:
    """Return the array of a .npy file, of any shape."""
    with open(path, "rb") as file:
        with name_file(".npy file of numbers", path):
            header = npy_header(file)
        check_holds(header, os.fstat(file.fileno()).st_size, path)
        with name_file(".npy file of numbers", path):
            return header.values(file)


@contextlib.contextmanager
def name_file(
    what: str, path: object, *errors: type[Exception], say: Callable[[Exception], str] = str
) -> Iterator[None]:
    """Say which file it is that cannot be read as what it should be; errors of the disk pass."""
    caught = errors or NOT_NUMPY
    try:
        yield
    except caught as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = f"{type(error).__name__} {error}" if isinstance(error, MemoryError) else say(error)
        raise ValueError(f"`path` must be a {what}. Got {path}: {' '.join(text.split())}.") from None


def say_kind(error: Exception) -> str:
    """Return an error with its kind, where its text alone says little."""
    return f"{type(error).__name__} {error}"


# ---------------------------------------------------------------- rows in files


T = TypeVar("T")

IN_MEMORY = 64 << 20
"""Bytes of rows in files that are still loaded, of all files of a set together."""

_NEAR = 16 << 10  # bytes that are read in about the time of one more call to the system

_PIECE = 512 << 10  # bytes that are read at once, at most, where some of them are not wanted


def widen(dtype: Any, name: str) -> np.dtype[Any]:
    """Return float32 or float64: what atoms stored as `dtype` come out as.

    float16, bool and integers of 8 or 16 bits fit float32 exactly; wider
    integers become float64, and those that it does not hold are refused as they are read.
    """
    stored = np.dtype(dtype)
    if stored.kind not in "fiub" or stored.itemsize > 8:
        raise TypeError(f"`{name}` must hold real numbers of at most 64 bits. Got dtype {stored}.")
    exact = stored.itemsize <= (4 if stored.kind == "f" else 2)
    return np.dtype(np.float32 if exact else np.float64)


def valid_ids(ids: Ids, n: int) -> Ids:
    """Ids as int64, each in [0, n)."""
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TypeError(f"`ids` must be a vector of integers. Got {ids.dtype}, shape {ids.shape}.")
    found = ids.astype(np.int64, copy=False)
    if ids.size and not found.view(np.uint64).max() < n:  # below 0 is above all others
        raise IndexError(f"`ids` must lie in [0, {n}). Got {ids.min()} .. {ids.max()}.")
    return found


def lock(block: Matrix) -> Matrix:
    """Make a block read-only: it may be shared with the caller."""
    block.flags.writeable = False
    return block


def summary(atoms: Atoms, more: str = "") -> str:
    """The repr of atoms."""
    n, d = atoms.shape
    return f"{type(atoms).__name__}({n} x {d}, {atoms.dtype}{more and ', ' + more})"


class RowFile:
    """Rows of one length and type that lie in a plain file, one after the other.

    The file must stay as it is: every read sees to it, before and after, that it is the same file, of the
    same size and last written at the same time; else it raises OSError. A pickled one knows only the file
    that it finds.
    """

    __slots__ = ("_seen", "offset", "path", "shape", "stored")

    def __init__(self, path: Path, header: Header) -> None:
        shape = header.shape
        require(len(shape) == 2, "path", "a file with a 2-D array", f"shape {shape} in {path}")
        require(min(shape) > 0, "path", "a file with at least one row and column", f"{shape} in {path}")
        found = path.stat()
        check_holds(header, found.st_size, path)
        self.path = path.absolute()
        self.shape = (int(shape[0]), int(shape[1]))
        self.stored = header.dtype
        self.offset = header.offset
        self._seen: tuple[int, ...] | None = self._identify(found)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.path, self.shape, self.stored, self.offset

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.path, self.shape, self.stored, self.offset = state
        self._seen = None

    @contextlib.contextmanager
    def open(self) -> Iterator[FileIO]:
        """Open the file, to read from it; OSError if it is no longer what it was."""
        with open(self.path, "rb", buffering=0) as file:
            self._check(file)
            yield file
            self._check(file)

    @staticmethod
    def _identify(found: os.stat_result) -> tuple[int, ...]:
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _check(self, file: FileIO) -> None:
        found = self._identify(os.fstat(file.fileno()))
        if self._seen is None:
            self._seen = found
        if found != self._seen:
            raise OSError(f"{self.path} has changed since it was opened: it must stay as it is")

    def read(self, first: int, rows: int) -> NDArray[Any]:
        """Return up to so many rows from the first on, as they are stored."""
        out = np.empty((min(rows, self.shape[0] - first), self.shape[1]), self.stored)
        with self.open() as file:
            self.fill(file, first, out)
        return out

    def ask(self, file: FileIO, spans: Sequence[tuple[int, int]]) -> None:
        """Have rows brought that are about to be read: all at once, not one after the other."""
        if len(spans) > 1 and hasattr(os, "posix_fadvise"):
            row = self.shape[1] * self.stored.itemsize
            for first, stop in spans:
                begin, size = self.offset + first * row, (stop - first) * row
                os.posix_fadvise(file.fileno(), begin, size, os.POSIX_FADV_WILLNEED)

    def fill(self, file: FileIO, first: int, out: NDArray[Any]) -> None:
        """Read rows from the first on."""
        file.seek(self.offset + first * self.shape[1] * self.stored.itemsize)
        left = out.reshape(-1).view(np.uint8).data
        while len(left):  # one read gives at most 2 GiB
            got = file.readinto(left)
            if not got:
                raise OSError(f"{self.path} ends inside row {first} or a later one: it has shrunk")
            left = left[got:]


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
class FileAtoms(RowFile):
    """Atoms in a .npy file, read by blocks, one block ahead.

    Uses read(), not a memory map, whose pages count as resident memory. The
    file must stay as it is; once it has changed, reading raises OSError.

    Parameters
    ----------
    path
        A .npy file of shape (n, d) in C order.
    """

    __slots__ = ()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file, name_file(".npy file", path):
            header = npy_header(file)
        if header.fortran and min(header.shape, default=1) > 1:
            remedy = "write it again with np.save(path, np.ascontiguousarray(array))"
            raise ValueError(f"`path` must be in C order. Got Fortran order in {path}; {remedy}.")
        widen(header.dtype, "path")
        super().__init__(Path(path), header)

    @classmethod
    def raw(
        cls, path: str | os.PathLike[str], shape: tuple[int, int], dtype: Any, *, offset: int = 0
    ) -> FileAtoms:
        """Return the atoms that start `offset` bytes into any file, C order."""
        header = Header(tuple(shape), np.dtype(dtype), False, count(offset, "offset"))
        widen(header.dtype, "path")
        atoms = cls.__new__(cls)
        RowFile.__init__(atoms, Path(path), header)
        return atoms

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return widen(self.stored, "path")

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids; those that are near each other are read together."""
        return np.ascontiguousarray(self.gather(ids), self.dtype)

    def gather(self, ids: Ids) -> NDArray[Any]:
        """Return the rows of these ids, as they are stored."""
        wanted, back = np.unique(valid_ids(ids, self.shape[0]), return_inverse=True)
        rows = np.empty((len(wanted), self.shape[1]), self.stored)
        with self.open() as file:
            runs = list(self._runs(wanted))
            self.ask(file, [(int(wanted[start]), int(wanted[stop - 1]) + 1) for start, stop in runs])
            for start, stop in runs:
                first, last = int(wanted[start]), int(wanted[stop - 1])
                read = np.empty((last - first + 1, self.shape[1]), self.stored)
                self.fill(file, first, read)
                rows[start:stop] = read[wanted[start:stop] - first]
        require_exact(rows, str(self.path), wanted)
        return rows[back]

    def read_exact(self, first: int, rows: int) -> NDArray[Any]:
        """As `read`, of numbers that atoms can hold."""
        found = self.read(first, rows)
        require_exact(found, str(self.path), first)
        return found

    def _runs(self, wanted: Ids) -> Iterator[tuple[int, int]]:
        """Cut ascending ids where reading on costs more than a new read, and into pieces."""
        row = self.shape[1] * self.stored.itemsize
        near, piece = max(1, _NEAR // row), max(1, _PIECE // row)
        cut = (np.diff(wanted) > near) | (np.diff(wanted // piece) > 0)
        ends = np.append(np.flatnonzero(cut) + 1, len(wanted))
        return itertools.pairwise([0, *ends.tolist()] if len(wanted) else [])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        return read_ahead(self.jobs(rows))

    def jobs(self, rows: int, start: int = 0) -> Iterator[Callable[[], tuple[int, Matrix]]]:
        """Yield a function for each block, which reads it; ids count from `start`."""

        def read(first: int) -> tuple[int, Matrix]:
            return start + first, lock(np.ascontiguousarray(self.read_exact(first, rows), self.dtype))

        for first in range(0, self.shape[0], count(rows, "rows", low=1)):
            yield functools.partial(read, first)

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
        return self._atoms.read_exact(first, max(0, stop - first))


def open_rows(path: Path) -> FileRows | NDArray[Any]:
    """Return the array of a .npy file: loaded if it is small or not in C order, else read as it is used."""
    with open(path, "rb") as file, name_file(".npy file of numbers", path):
        header = npy_header(file)
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
    some = (0, len(value) // 2, len(value) - 1)  # rows that must be the same there, to the bit
    return found if all(found.read(i, 1).tobytes() == value[i].tobytes() for i in some) else None


# ---------------------------------------------------------------- rows in memory


def table(value: Any, name: str) -> NDArray[Any]:
    """Return a non-empty array of real numbers with two axes, from an array or a table."""
    rows = real_array(value.to_numpy() if hasattr(value, "to_numpy") else value, name, 2)
    require(rows.size > 0, name, "an array with at least one row and column", f"shape {rows.shape}")
    return rows


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayAtoms:
    """Atoms in memory.

    C-ordered float32 and float64 arrays are used as they are; other types and
    layouts are converted block by block, never all at once.

    Parameters
    ----------
    rows : (n, d) array
        Real numbers, see `widen`. Never written to.
    names
        Of the columns, where they come from a table.

    Attributes
    ----------
    plain : (n, d) array, optional
        The rows, read-only, if a kernel can read them where they are.

    Examples
    --------
    >>> ArrayAtoms([[0, 1], [2, 3]]).take(np.array([1]))
    array([[2., 3.]])
    """

    rows: NDArray[Any]
    names: tuple[str, ...] = ()
    plain: Matrix | None = field(init=False)

    def __post_init__(self) -> None:
        rows = table(self.rows, "rows")
        object.__setattr__(self, "rows", rows)
        plain = rows.dtype == self.dtype and rows.flags.c_contiguous
        object.__setattr__(self, "plain", lock(rows.view()) if plain else None)

    def __reduce__(self) -> tuple[type[ArrayAtoms], tuple[NDArray[Any], tuple[str, ...]]]:
        """Pickle the rows once."""
        return ArrayAtoms, (self.rows, self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.rows.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return widen(self.rows.dtype, "rows")

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        # Not np.take: it would first copy an array that is not C-ordered.
        return np.ascontiguousarray(self.rows[valid_ids(ids, len(self.rows))], self.dtype)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first in range(0, len(self.rows), count(rows, "rows", low=1)):
            yield first, lock(np.ascontiguousarray(self.rows[first : first + rows], self.dtype))

    def __repr__(self) -> str:
        """Shape and dtype, not the rows."""
        return summary(self)


class KeptAtoms:
    """Some of the atoms that are read from elsewhere, in their order; `ids`, those that are kept, ascend."""

    def __init__(self, atoms: Atoms, ids: Ids) -> None:
        self.atoms, self.ids = atoms, ids
        self.shape, self.dtype = (len(ids), atoms.shape[1]), atoms.dtype

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        return self.atoms.take(self.ids[valid_ids(ids, len(self.ids))])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first, block in self.atoms.blocks(rows):
            start, stop = np.searchsorted(self.ids, [first, first + len(block)]).tolist()
            if stop - start == len(block):
                yield start, block
            elif stop > start:
                yield start, lock(np.ascontiguousarray(block[self.ids[start:stop] - first]))

    def __repr__(self) -> str:
        """Shape, dtype and of how many."""
        return summary(self, f"of {self.atoms.shape[0]:,}")


# ---------------------------------------------------------------- rows that cannot be read where they are


def spool(blocks: Iterator[Matrix], shape: tuple[int, int], dtype: np.dtype[Any]) -> FileAtoms:
    """Write blocks of rows to a temporary file, removed when the process ends, or at once on an OSError."""
    size = math.prod(shape) * dtype.itemsize
    folder = spool_folder()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise _no_room(size, free)
    descriptor, name = tempfile.mkstemp(suffix=".npy", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            write_npy(file, blocks, shape, dtype)
        return FileAtoms(name)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise _no_room(size, shutil.disk_usage(folder).free) from None
        raise


def write_npy(file: BinaryIO, blocks: Iterable[Matrix], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Write blocks of rows as one array."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype).data)
        report_rows(len(block))


def _no_room(size: int, free: int) -> OSError:
    where = f"{tempfile.gettempdir()}, where {free:,} are free; set TMPDIR to a folder with more"
    return OSError(errno.ENOSPC, f"No room for a copy of the rows, {size:,} bytes, in {where}")


@functools.cache
def spool_folder() -> str:
    """A folder of this process, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="wolfhound-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
