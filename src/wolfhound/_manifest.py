"""Reading what `store` wrote: a manifest and arrays, every byte checked.

Private: import the names from `wolfhound.store`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound._npy import npy_header
from wolfhound.atoms import Fingerprint

FORMAT = "wolfhound store"
VERSION = 1

MANIFEST = "manifest.json"
ARRAY_FILE = re.compile(r"[A-Za-z0-9_]+-([0-9a-f]{16})\.npy")


class StoreError(ValueError):
    """A folder cannot be read back as what was saved."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stored:
    """What a folder holds.

    Attributes
    ----------
    folder : Path
        Where it was read from.
    arrays : dict
        Arrays by name, in memory; those that were to stay on disk are maps, of which only the place counts.
    params : dict
        The JSON values that were saved.
    fingerprint : Fingerprint
        Of the atoms it was made from, () if of none.
    """

    folder: Path
    arrays: Mapping[str, NDArray[Any]]
    params: Mapping[str, Any]
    fingerprint: Fingerprint

    @property
    def shape(self) -> tuple[int, int | None]:
        """n and d of the atoms it was made from; any, if it is not known which."""
        widths = {part.d for part in self.fingerprint}
        if len(widths) > 1:
            raise self.wrong("parts of the atoms have other dimensions")
        return sum(part.n for part in self.fingerprint) or 2**62, next(iter(widths), None)

    def array(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int | None, ...],
        *,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> NDArray[Any]:
        """Return an array that compiled loops may read, plain in memory; StoreError if it is another.

        Parameters
        ----------
        name
            Of the array.
        dtype
            In native byte order, or several; "U" is text of any length.
        shape
            None: any length.
        low, high
            Of numbers, which are not nan, unless neither is given.
        """
        if name not in self.arrays:
            raise self.wrong(f"there is no array {name!r}")
        out = np.asarray(self.arrays[name])
        kinds = dtype if isinstance(dtype, tuple) else (dtype,)
        kind = out.dtype.kind == dtype if dtype == "U" else out.dtype in kinds
        fits = len(shape) == out.ndim and all(map(lambda size, got: size in (None, got), shape, out.shape))
        if not (kind and fits and out.flags.c_contiguous and out.flags.aligned):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            got = f"got {out.dtype} of shape {out.shape}"
            raise self.wrong(f"{name!r} must be {np.dtype(kinds[0])} of shape ({wanted}), {got}")
        bounded = low > -math.inf or high < math.inf
        if bounded and out.size and not (out.min() >= low and out.max() <= high):
            raise self.wrong(f"{name!r} must lie in [{low:g}, {high:g}]")
        return out

    def wrong(self, what: str) -> StoreError:
        """Return the error that says why this cannot have been saved."""
        return StoreError(f"{self.folder} is damaged: {what}.")

    @contextlib.contextmanager
    def reading(self, *passed: type[Exception]) -> Iterator[None]:
        """Turn whatever a value of the wrong kind leads to into a StoreError, but for what is passed on."""
        try:
            yield
        except Exception as error:
            if isinstance(error, (StoreError, OSError, *passed)):
                raise
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            raise self.wrong(f"it cannot have been saved as it is ({text})") from None


# ---------------------------------------------------------------- the manifest


def seal(manifest: Mapping[str, Any]) -> bytes:
    """Text of a manifest with its own checksum, always the same for the same content."""
    checksum = hashlib.blake2b(json.dumps(manifest, sort_keys=True).encode(), digest_size=32).hexdigest()
    return json.dumps({**manifest, "checksum": checksum}, sort_keys=True, indent=1).encode()


@contextlib.contextmanager
def _open_plain(path: Path) -> Iterator[io.BufferedReader]:
    """Open a plain file that lies here: no link, and no pipe, which would be waited for."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    with open(path, "rb", opener=opener) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "Not a plain file")
        yield file


def read_manifest(root: Path) -> dict[str, Any]:
    """Return a manifest all of whose entries are of the right kind, else raise StoreError."""
    try:
        with _open_plain(root / MANIFEST) as file:
            text = file.read()
    except OSError as error:
        raise StoreError(f"`folder` must hold {MANIFEST}. Got {root}: {error.strerror}.") from None
    try:
        manifest = json.loads(text)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise StoreError(f"`folder` must hold a {FORMAT}. Got another format in {root / MANIFEST}.")
        if manifest.get("version") != VERSION:
            raise StoreError(
                f"`folder` must be of format version {VERSION}, which this wolfhound reads."
                f" Got version {manifest.get('version')} in {root}: save it again."
            )
        manifest.pop("checksum", None)
        expected = seal(manifest)
    except StoreError:
        raise
    except (ValueError, RecursionError):
        raise StoreError(f"{root / MANIFEST} is damaged: it is not JSON, or too deep.") from None
    # Written in one canonical way, so any changed byte shows, even one that JSON ignores.
    if expected != text:
        raise StoreError(f"{root / MANIFEST} is damaged: its checksum differs.")
    if not _well_formed(manifest):
        raise StoreError(f"{root / MANIFEST} is damaged: an entry is missing or of the wrong kind.")
    return manifest


def _well_formed(manifest: Mapping[str, Any]) -> bool:
    kinds = {"kind": str, "params": dict, "arrays": dict, "fingerprint": list}
    if not all(isinstance(manifest.get(name), kind) for name, kind in kinds.items()):
        return False
    return all(map(_is_entry, manifest["arrays"].values())) and all(map(is_part, manifest["fingerprint"]))


def _is_entry(entry: Any) -> bool:
    """Whether this describes an array, in a file of this folder."""
    return (
        isinstance(entry, dict)
        and entry.keys() == {"file", "dtype", "shape", "bytes", "checksum"}
        and isinstance(entry["file"], str)
        and ARRAY_FILE.fullmatch(entry["file"]) is not None
    )


def is_part(part: Any) -> bool:
    """Whether a list of JSON values is a `PartPrint` of a fingerprint."""
    return (
        isinstance(part, list)
        and [type(value) for value in part] == [int, int, str, str]
        and 0 < min(part[:2]) <= max(part[:2]) < 2**62
    )


# ---------------------------------------------------------------- arrays


def _digest(file: io.BufferedReader) -> str:
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def read_array(root: Path, entry: Mapping[str, Any], mapped: bool, check: bool = True) -> NDArray[Any]:
    """Return the array of an entry of the manifest, else raise StoreError."""
    path = root / entry["file"]
    try:
        with _open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry["bytes"]:
                raise StoreError(f"{path} is damaged: it has {size} bytes, not {entry['bytes']}.")
            if check and _digest(file) != entry["checksum"]:
                raise StoreError(f"{path} is damaged: its checksum differs.")
            file.seek(0)
            header = npy_header(file)
            said = header.dtype.str == entry["dtype"] and list(header.shape) == entry["shape"]
            if header.end > size or not said:
                raise StoreError(f"{path} is damaged: it holds {header.dtype} of shape {header.shape}.")
            return header.values(file, mapped=mapped)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.") from None
