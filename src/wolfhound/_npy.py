"""Files of numpy: .npy and .npz, read so that nothing is allocated that a file cannot fill."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound.validate import require

PathLike: TypeAlias = str | os.PathLike[str]

NOT_NPY = (
    *(ValueError, KeyError, TypeError, EOFError, SyntaxError, TokenError),
    *(RecursionError, MemoryError, OverflowError, UnicodeError, AttributeError, IndexError),
)
"""What numpy raises on a damaged .npy header."""

_HEADERS: dict[tuple[int, int], tuple[int, Any]] = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}
"""By version: bytes of the header's length, and what reads the rest; later ones are for tables."""

_LONGEST = 10_000  # bytes of a header that numpy trusts itself to parse

_PACKED, _HARMLESS = 200, 1 << 30
"""An array that is packed more times than this, and has more bytes, may be a trap."""

_CHUNK = 1 << 20


class Header(NamedTuple):
    """What a .npy file says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # without Python objects
    fortran: bool  # columns are contiguous, not rows
    offset: int  # bytes before the values

    @property
    def end(self) -> int:
        """Bytes that a file with these values has, at least."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def values(self, file: BinaryIO, *, mapped: bool = False) -> NDArray[Any]:
        """Load or map the values of a plain file that is known not to end before them."""
        order: Literal["F", "C"] = "F" if self.fortran else "C"
        if not math.prod(self.shape):  # nothing can be mapped of an empty array
            return np.empty(self.shape, self.dtype, order)
        if mapped:
            return np.memmap(file, self.dtype, "r", self.offset, self.shape, order)
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
        with _name_file(".npy", path):
            header = npy_header(file)
        check_holds(header, os.fstat(file.fileno()).st_size, path)
        with _name_file(".npy", path):
            return header.values(file)


@contextlib.contextmanager
def _name_file(kind: str, path: object) -> Iterator[None]:
    """Say which file it is that cannot be read as of this kind."""
    try:
        yield
    except (*NOT_NPY, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        text = f"{type(error).__name__} {error}".strip() if isinstance(error, MemoryError) else str(error)
        raise ValueError(f"`path` must be a {kind} file of numbers. Got {path}: {text}.") from None


def load_npz(text: str, ndim: int | None) -> NDArray[Any]:
    """Return the named array, else the only one (with `ndim` axes); others are not unpacked."""
    file, key = split_key(text)
    require(zipfile.is_zipfile(check_exists(file)), "path", "a .npz file", file)
    with _name_file(".npz", file), zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        headers = {name: _member(archive, info) for name, info in members.items()}
    fitting = [name for name, header in headers.items() if ndim in (None, len(header.shape))]
    wanted = [name for name in headers if name == key] if key else fitting
    require(len(wanted) == 1, "path", f"{file}::key, key one of {', '.join(headers)}", repr(text))
    return _unpack(file, members[wanted[0]], headers[wanted[0]])


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as stream:
        return npy_header(cast(BinaryIO, stream))


def _unpack(file: str, info: zipfile.ZipInfo, header: Header) -> NDArray[Any]:
    """Unpack an array; nothing is allocated that the archive cannot fill."""
    where = f"{info.filename} of {file}"
    check_holds(header, info.file_size, where)
    most = max(_PACKED * info.compress_size, _HARMLESS)
    rule = f"a file whose arrays are packed at most {_PACKED} times; unpack it to a .npy file"
    require(header.end <= most, "path", rule, f"{header.end:,} bytes in {where}")
    with _name_file(".npz", file), zipfile.ZipFile(file) as archive, archive.open(info) as stream:
        flat = np.empty(math.prod(header.shape), header.dtype)
        left = flat.view(np.uint8).data
        stream.read(header.offset)
        while len(left):
            data = stream.read(min(len(left), _CHUNK))
            if not data:
                raise EOFError(f"{where} ends early")
            left[: len(data)] = data
            left = left[len(data) :]
        stream.read(1)  # at the end its checksum is compared
        return flat.reshape(header.shape, order="F" if header.fortran else "C")
