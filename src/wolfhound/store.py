"""Saving: one folder holds arrays and a manifest, complete or not there at all.

Array files get fresh names and are flushed to disk; replacing `manifest.json`
is the one moment at which a new save takes the place of the old. Knows nothing
of what is saved. One process at a time may write to a folder.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import Fingerprint, Part, fingerprint
from wolfhound.core import Atoms

FORMAT = "wolfhound store"
VERSION = 1

_MANIFEST = "manifest.json"
_ARRAY_FILE = re.compile(r"[A-Za-z0-9_]+-[0-9a-f]{16}\.npy")
_HASH_CHUNK = 1 << 20


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
        Arrays by name; read-only maps of their files, if mapped.
    params : dict
        The JSON values that were saved.
    fingerprint : Fingerprint
        Of the atoms it was made from, () if of none.
    """

    folder: Path
    arrays: Mapping[str, NDArray[Any]]
    params: Mapping[str, Any]
    fingerprint: Fingerprint


def save(
    folder: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, Any],
    fingerprint: Fingerprint = (),
) -> None:
    """Write a folder; at every moment it holds the old save or the new one.

    Parameters
    ----------
    folder
        Made if it is not there.
    kind
        What is saved; `load` must ask for the same.
    arrays
        Any dtypes but object; names of letters, digits and underscores.
    params
        JSON values.
    fingerprint
        Of the atoms it was made from.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(folder, "demo", {"ids": np.array([3, 1])}, {"c": 0.5})
    ...     load(folder, "demo", mmap=False).arrays["ids"]
    array([3, 1])
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    # Before any file is written: a value that is not JSON must not cost more than an error.
    body = {"format": FORMAT, "version": VERSION, "kind": kind, "params": dict(params)}
    json.dumps(body)
    files = {name: f"{name}-{secrets.token_hex(8)}.npy" for name in arrays}
    try:
        entries = {name: _write_array(root, files[name], np.asarray(arrays[name])) for name in arrays}
        _flush_folder(root)
        manifest = body | {"arrays": entries, "fingerprint": [list(part) for part in fingerprint]}
        write_atomically(root / _MANIFEST, lambda stream: _write(stream, _sealed(manifest)))
    except BaseException:
        # What fails after the manifest is in place must not cost the new save its arrays.
        _remove(root, set(files.values()) - _referenced(root))
        raise
    _remove(root, _leftovers(root) - set(files.values()))


def load(folder: str | os.PathLike[str], kind: str, *, mmap: bool = True) -> Stored:
    """Read a folder that `save` wrote; every byte is checked.

    Parameters
    ----------
    folder
        Where it was saved.
    kind
        What is expected there.
    mmap
        Map the array files rather than load them.

    Raises
    ------
    StoreError
        If anything is missing, altered, of another kind or format version.
    """
    root = Path(folder)
    manifest = _read_manifest(root)
    if manifest["kind"] != kind:
        raise StoreError(f"`folder` must hold a saved {kind}. Got a {manifest['kind']} in {root}.")
    return Stored(
        folder=root,
        arrays={name: _read_array(root, entry, mmap) for name, entry in manifest["arrays"].items()},
        params=manifest["params"],
        fingerprint=tuple(Part(*part) for part in manifest["fingerprint"]),
    )


def kind(folder: str | os.PathLike[str]) -> str:
    """What a folder holds, as `load` must be asked for it; reads the manifest only.

    Raises
    ------
    StoreError
        If the manifest is missing, altered or of another format version.
    """
    return str(_read_manifest(Path(folder))["kind"])


def check_fingerprint(stored: Stored, atoms: Atoms) -> None:
    """Raise StoreError, saying what differs, if it was made from other atoms."""
    given, saved = fingerprint(atoms), stored.fingerprint
    if given == saved:
        return
    rule = f"`atoms` must be the atoms that {stored.folder} was made from."
    if len(given) != len(saved):
        raise StoreError(f"{rule} Got {len(given)} part(s) instead of {len(saved)}.")
    part = next(p for p in range(len(saved)) if given[p] != saved[p])
    field = next(f for f in Part._fields if getattr(given[part], f) != getattr(saved[part], f))
    got, wanted = getattr(given[part], field), getattr(saved[part], field)
    differs = "other rows" if field == "digest" else f"{field} = {got} instead of {wanted}"
    raise StoreError(f"{rule} Got {differs} in part {part}.")


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], None]) -> None:
    """Write a file aside, flush it to disk, then put it in place of the old.

    If writing fails, also for want of space, the old file stays as it was.

    Parameters
    ----------
    path
        The file to write or replace.
    write
        Called with the open file.
    """
    target = Path(path)
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _flushed(aside) as stream:
            write(stream)
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


# ---------------------------------------------------------------- writing


class _Hashing:
    """A file that hashes and counts what is written to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.hash = hashlib.blake2b(digest_size=32)
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._stream.write(data)


def _write_array(root: Path, file: str, array: NDArray[Any]) -> dict[str, Any]:
    if not _ARRAY_FILE.fullmatch(file):
        raise ValueError(f"`arrays` must have names of letters, digits and underscores. Got {file[:-21]!r}.")
    with _flushed(root / file) as stream:
        hashing = _Hashing(stream)
        np.lib.format.write_array(cast(BinaryIO, hashing), array, allow_pickle=False)
    return {
        "file": file,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": hashing.size,
        "checksum": hashing.hash.hexdigest(),
    }


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    """Text of a manifest with its own checksum, always the same for the same content."""
    checksum = hashlib.blake2b(json.dumps(manifest, sort_keys=True).encode(), digest_size=32).hexdigest()
    return json.dumps({**manifest, "checksum": checksum}, sort_keys=True, indent=1).encode()


@contextlib.contextmanager
def _flushed(path: Path) -> Iterator[BinaryIO]:
    with open(path, "xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _leftovers(root: Path) -> set[str]:
    """Our files, of this save and of older ones, finished or not."""
    aside = re.compile(rf"\.{re.escape(_MANIFEST)}\.[0-9a-f]{{16}}\.tmp")
    names = {path.name for path in root.iterdir()}
    return {name for name in names if aside.fullmatch(name) or _ARRAY_FILE.fullmatch(name)}


def _referenced(root: Path) -> set[str]:
    try:
        return {entry["file"] for entry in _read_manifest(root)["arrays"].values()}
    except StoreError:
        return set()


def _remove(root: Path, files: set[str]) -> None:
    for file in files:
        (root / file).unlink(missing_ok=True)


# ---------------------------------------------------------------- reading


def _read_manifest(root: Path) -> dict[str, Any]:
    try:
        text = (root / _MANIFEST).read_bytes()
    except OSError as error:
        raise StoreError(f"`folder` must hold {_MANIFEST}. Got {root}: {error.strerror}.") from None
    try:
        manifest = json.loads(text)
    except ValueError:
        raise StoreError(f"{root / _MANIFEST} is damaged: it is not JSON.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StoreError(f"`folder` must hold a {FORMAT}. Got another format in {root / _MANIFEST}.")
    if manifest.get("version") != VERSION:
        raise StoreError(
            f"`folder` must be of format version {VERSION}, which this wolfhound reads."
            f" Got version {manifest.get('version')} in {root}: save it again."
        )
    manifest.pop("checksum", None)
    # Written in one canonical way, so any changed byte shows, even one that JSON ignores.
    if _sealed(manifest) != text:
        raise StoreError(f"{root / _MANIFEST} is damaged: its checksum differs.")
    return manifest


def _read_array(root: Path, entry: Mapping[str, Any], mmap: bool) -> NDArray[Any]:
    path = root / entry["file"]
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise StoreError(f"{path} is damaged: it has {size} bytes, not {entry['bytes']}.")
        if _checksum(path) != entry["checksum"]:
            raise StoreError(f"{path} is damaged: its checksum differs.")
        mapped = mmap and 0 not in entry["shape"]  # nothing can be mapped of an empty array
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise StoreError(f"{path} is damaged: it holds {array.dtype} of shape {array.shape}.")
    return array


def _checksum(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as stream:
        while chunk := stream.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
