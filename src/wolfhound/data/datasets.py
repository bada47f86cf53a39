"""Arrays in files, by their endings: read where they lie if they are plain, else loaded or spooled.

What a format is known by is in one function each, which lists the arrays of a file.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms
from wolfhound.core.text import list_some
from wolfhound.core.validate import require, require_exact
from wolfhound.data.files import (
    ArrayAtoms,
    FileAtoms,
    Header,
    check_exists,
    check_holds,
    import_extra,
    load_npy,
    name_file,
    npy_header,
    say_kind,
    split_key,
    spool,
    table,
    widen,
)

_BLOCK = 16 << 20  # bytes that are read at once, about
_LONGEST = 100_000_000  # bytes of a .safetensors header, as its own library has it


class Dataset(NamedTuple):
    """An array of a file that is open."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: Callable[[Any], NDArray[Any]]  # reads a slice of them; () of an array without axes
    chunk: int = 1  # rows that are stored, and so best read, together
    offset: int | None = None  # where its values lie in the file, plain and in C order; None: they do not
    packed: bool = False  # all of it is loaded, or nothing
    fault: str = ""  # why it is not read: the file would have us open or run what it names


def load_array(text: str) -> NDArray[Any]:
    """Return an array of a file, loaded: the one that ``file::name`` names, else the only one."""
    file = check_exists(split_key(text)[0])
    if file.suffix.lower() == ".npy":
        return load_npy(file)
    with _open(text, None) as (_, found):
        return np.asarray(found.rows(slice(0, None) if found.shape else ()), order="C")


def weigh_rows(text: str) -> int:
    """Bytes of the rows of an array that need not be loaded."""
    if Path(split_key(text)[0]).suffix.lower() == ".npy":
        return os.path.getsize(text)
    with _open(text, 2) as (_, found):
        return 0 if found.packed else math.prod(found.shape) * found.dtype.itemsize


def read_rows(text: str, *, load: bool) -> Atoms:
    """Return the rows of an array with two axes: loaded, in place or spooled."""
    if Path(split_key(text)[0]).suffix.lower() == ".npy":
        return ArrayAtoms(table(load_npy(Path(text)), text)) if load else FileAtoms(text)
    with _open(text, 2) as (where, found):
        n, d = found.shape
        require(min(n, d) > 0, "path", "an array with at least one row and column", f"{n, d} in {where}")
        dtype = widen(found.dtype, where)
        if load or found.packed:
            return ArrayAtoms(table(np.ascontiguousarray(found.rows(slice(0, n))), where))
        if found.offset is not None:
            return FileAtoms.raw(split_key(text)[0], (n, d), found.dtype, offset=found.offset)
        step = found.chunk * max(1, _BLOCK // (found.chunk * d * dtype.itemsize))

        def read() -> Iterator[NDArray[Any]]:
            for first in range(0, n, step):
                block = found.rows(slice(first, min(first + step, n)))
                require_exact(block, where, first)
                yield block

        return spool(read(), (n, d), dtype)


@contextlib.contextmanager
def _open(text: str, ndim: int | None) -> Iterator[tuple[str, Dataset]]:
    """Give the one array that is meant, and what to call it."""
    file, key = split_key(text)
    ending = Path(file).suffix.lower()
    with _OPENERS[ending](Path(file)) as arrays:
        known = {name: each for name, each in arrays.items() if ndim in (None, len(each.shape))}
        chosen = list(known) if key is None else [name for name in arrays if name == key.strip("/")]
        listed = list_some(f"{name} {each.shape}" for name, each in sorted(arrays.items()))
        rule = f"{file}::name, name one of {listed or 'its arrays, of which there are none'}"
        require(len(chosen) == 1, "path", rule, repr(text))
        found = arrays[chosen[0]]
        got = f"{found.shape} in {text}"
        require(ndim in (None, len(found.shape)), "path", f"an array with {ndim} axes", got)
        where = f"{file}::{chosen[0]}"
        rule = "an array that is read without opening other files or running code"
        require(not found.fault, "path", rule, f"{where}, {found.fault}")
        with name_file(f"{ending} file that can be read", text, OSError, RuntimeError, KeyError):
            yield where, found


# ---------------------------------------------------------------- .npz

_PACKED, _HARMLESS = 200, 1 << 30
"""An array that is packed more times than this, and has more bytes, may be a trap."""

_CHUNK = 1 << 20


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[Mapping[str, Dataset]]:
    require(zipfile.is_zipfile(path), "path", "a .npz file", path)
    found = {}
    with name_file(".npz file of numbers", path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                header = npy_header(cast(BinaryIO, stream))
            read = partial(_unpack, path, info, header)
            found[info.filename.removesuffix(".npy")] = Dataset(header.shape, header.dtype, read, packed=True)
    yield found


def _unpack(file: Path, info: zipfile.ZipInfo, header: Header, which: Any) -> NDArray[Any]:
    """Unpack an array, of which all or some is wanted; nothing is allocated that the archive cannot fill."""
    where = f"{info.filename} of {file}"
    check_holds(header, info.file_size, where)
    most = max(_PACKED * info.compress_size, _HARMLESS)
    rule = f"a file whose arrays are packed at most {_PACKED} times; unpack it to a .npy file"
    require(header.end <= most, "path", rule, f"{header.end:,} bytes in {where}")
    named = name_file(".npz file of numbers", file)
    with named, zipfile.ZipFile(file) as archive, archive.open(info) as stream:
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
        return np.asarray(flat.reshape(header.shape, order="F" if header.fortran else "C")[which])


# ---------------------------------------------------------------- HDF5


@contextlib.contextmanager
def _open_hdf5(path: Path) -> Iterator[Mapping[str, Dataset]]:
    h5py = import_extra("h5py", path.suffix, "files")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        line = " ".join(str(error).split())
        raise ValueError(f"`path` must be an HDF5 file. Got {path}: {line}.") from None
    found: dict[str, Dataset] = {}

    def visit(name: str, each: Any) -> None:
        if isinstance(each, h5py.Dataset) and each.shape is not None:
            chunk = each.chunks[0] if each.chunks else 1
            # What would be taken from other files, any that we may read; links need no check: not visited.
            fault = "whose storage is external" if each.external else ""
            fault = "a virtual dataset, made of others" if each.is_virtual else fault
            place = None if each.chunks or fault else each.id.get_offset()
            plain = each.dtype.kind in "fiub" and each.dtype.names is None and not file.userblock_size
            offset = place if plain else None
            found[name] = Dataset(each.shape, each.dtype, each.__getitem__, chunk, offset, fault=fault)

    with file:
        file.visititems(visit)
        yield found


# ---------------------------------------------------------------- Zarr


@contextlib.contextmanager
def _open_zarr(path: Path) -> Iterator[Mapping[str, Dataset]]:
    zarr, root = import_extra("zarr", path.suffix, "files"), os.path.realpath(path)
    for folder, folders, files in os.walk(root):  # of an archive that was unpacked, links are another's
        for each in (os.path.join(folder, name) for name in (*folders, *files)):
            own = not os.path.islink(each) or os.path.realpath(each).startswith(root + os.sep)
            require(own, "path", "a Zarr folder without links that lead out of it", each)
    try:
        found = dict(_walk_zarr(zarr.open(str(path), mode="r"), ""))
    except Exception as error:  # each version has its own
        line = " ".join(say_kind(error).split())
        raise ValueError(f"`path` must be a Zarr folder. Got {path}: {line}.") from None
    yield found


def _walk_zarr(node: Any, name: str) -> Iterator[tuple[str, Dataset]]:
    if hasattr(node, "shape"):
        codecs = (*(node.filters or ()), *(node.compressors or ()))
        fault = "which must be unpickled" if "pickle" in str(codecs).lower() else ""
        chunk = int(node.chunks[0]) if node.chunks else 1
        shape, dtype = tuple(node.shape), np.dtype(node.dtype)
        yield name, Dataset(shape, dtype, node.__getitem__, chunk, fault=fault)
        return
    for members in (node.arrays(), node.groups()):
        for each, child in members:
            yield from _walk_zarr(child, f"{name}/{each}".strip("/"))


# ---------------------------------------------------------------- safetensors

TENSORS = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"{letter.upper()}8": f"|{letter}1" for letter in "iu"},
    **{f"{letter.upper()}{8 * size}": f"<{letter}{size}" for letter in "iu" for size in (2, 4, 8)},
    "BOOL": "|b1",
}
"""Types of numpy by what safetensors calls them."""


def read_tensor_header(file: BinaryIO) -> tuple[bytes, int]:
    """Return the text of the header of a .safetensors file, and where its arrays begin; else ValueError."""
    length, size = int.from_bytes(file.read(8), "little"), os.fstat(file.fileno()).st_size
    if not 2 <= length <= min(size - 8, _LONGEST):
        raise ValueError(f"it says that its header has {length} bytes")
    return file.read(length), 8 + length


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[Mapping[str, Dataset]]:
    """Its header says where each tensor lies: no package is needed to read it."""
    errors = ValueError, TypeError, KeyError, AttributeError, RecursionError
    with open(path, "rb") as file, name_file(".safetensors file", path, *errors, say=say_kind):
        text, start = read_tensor_header(file)
        entries = {name: each for name, each in json.loads(text).items() if name != "__metadata__"}
        found = {name: _tensor(path, each, start) for name, each in entries.items()}
    yield found


def _tensor(path: Path, entry: Mapping[str, Any], start: int) -> Dataset:
    kind, shape = entry["dtype"], tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    sizes = all(type(each) is int and each >= 0 for each in (*shape, begin, end))
    if kind not in TENSORS:  # BF16 and FP8 are no types of numpy: refused when they are asked for
        dtype = np.dtype(f"V{max(1, (end - begin) // max(1, math.prod(shape)))}")
    else:
        dtype = np.dtype(TENSORS[kind])
        if not sizes or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"its entry {dict(entry)} contradicts itself")
    header = Header(shape, dtype, False, start + begin)

    def read(which: slice) -> NDArray[Any]:
        with open(path, "rb") as file:
            check_holds(header, os.fstat(file.fileno()).st_size, path)
            return header.values(file)[which]

    return Dataset(shape, dtype, read, offset=header.offset)


_OPENERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Mapping[str, Dataset]]]] = {
    ".npz": _open_npz,
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".zarr": _open_zarr,
    ".safetensors": _open_safetensors,
}

ARRAYS = (".npy", *_OPENERS)
"""Endings of files of arrays."""
