"""A save under way: arrays are written block by block, and hashed on the way.

Private: import the names from `wolfhound.store`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound._manifest import ARRAY_FILE, FORMAT, VERSION, seal
from wolfhound.atoms import Fingerprint
from wolfhound.validate import require


class Hashing:
    """A file that hashes and counts what is written to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.hash = hashlib.blake2b(digest_size=32)
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._stream.write(data)


class Draft:
    """A save under way.

    Attributes
    ----------
    params : mapping
        JSON values.
    fingerprint : Fingerprint
        Of the atoms it is made from.
    """

    def __init__(self, root: Path, token: str) -> None:
        self._root, self._token = root, token
        self._entries: dict[str, dict[str, Any]] = {}
        self.params: Mapping[str, Any] = {}
        self.fingerprint: Fingerprint = ()

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array."""
        with self._file(name, array.dtype, array.shape) as hashing:
            np.lib.format.write_array(cast(BinaryIO, hashing), array, allow_pickle=False)

    @contextlib.contextmanager
    def open(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Iterator[ArrayWriter]:
        """Begin an array that is given block by block; over one of the same name."""
        dtype = np.dtype(dtype)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        with self._file(name, dtype, shape) as hashing:
            np.lib.format.write_array_header_1_0(cast(BinaryIO, hashing), header)
            writer = ArrayWriter(hashing, dtype)
            yield writer
            require(writer.size == math.prod(shape), name, f"{math.prod(shape)} values", writer.size)

    @contextlib.contextmanager
    def _file(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Iterator[Hashing]:
        file = file_name(name, self._token)
        (self._root / file).unlink(missing_ok=True)
        with open_flushing(self._root / file) as stream:
            hashing = Hashing(stream)
            yield hashing
        self._entries[name] = {
            "file": file,
            "dtype": dtype.str,
            "shape": list(shape),
            "bytes": hashing.size,
            "checksum": hashing.hash.hexdigest(),
        }

    def seal(self, kind: str) -> bytes:
        """Text of the manifest."""
        parts = [list(part) for part in self.fingerprint]
        body = {"format": FORMAT, "version": VERSION, "kind": kind, "params": dict(self.params)}
        return seal(body | {"arrays": self._entries, "fingerprint": parts})


class ArrayWriter:
    """An array of a `Draft` that grows; C order."""

    def __init__(self, stream: Hashing, dtype: np.dtype[Any]) -> None:
        self._stream, self._dtype = stream, dtype
        self.size = 0

    def write(self, block: NDArray[Any]) -> None:
        """Write the next values."""
        self._stream.write(np.ascontiguousarray(block, self._dtype).reshape(-1).view(np.uint8).data)
        self.size += block.size


def file_name(name: str, token: str) -> str:
    file = f"{name}-{token or '0' * 16}.npy"
    if not ARRAY_FILE.fullmatch(file):
        raise ValueError(f"`arrays` must have names of letters, digits and underscores. Got {name!r}.")
    return file


@contextlib.contextmanager
def open_flushing(path: Path) -> Iterator[BinaryIO]:
    with open(path, "xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
