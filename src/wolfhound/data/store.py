"""Saving: one file per object, complete or not there at all.

A file is one of the format safetensors: a header in JSON, then the arrays one after the other; nothing
in it can run. Our part of the header, the manifest, says what was saved, by what settings and of which
atoms, and has a checksum of every array. The header has one of itself. A save is written aside and
renamed: who reads gets an old save or a new one, whole. Knows nothing of what is saved.

Checksums tell damage, not forgery: whoever can write a file can write its checksums too. So nothing
that is read is trusted to be of the right kind, and what a loaded object proves must be checked
against its atoms, by its own `load`.
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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.atomic import open_atomically
from wolfhound.core.contracts import Atoms, AtomsLike
from wolfhound.core.validate import path as checked_path
from wolfhound.core.validate import require
from wolfhound.data.atoms import DIGITS, Fingerprint, PartPrint, as_atoms, fingerprint
from wolfhound.data.datasets import TENSORS, read_tensor_header
from wolfhound.data.files import Header, PathLike

FORMAT = "wolfhound"
VERSION = 1
ENDING = ".safetensors"
RUN_FILE = f"run{ENDING}"
"""What a folder that grows says of itself: see `wolfhound.many.run`."""

_NAMES = {dtype: name for name, dtype in TENSORS.items()}
_RAW = "UScMmiufb"  # kinds of types that safetensors has no name for, such as text: saved as bytes
_TYPE = re.compile(rf"[<>|][{_RAW}]\d{{1,9}}(\[\d{{0,9}}[a-zA-Z]+\])?")
_SPARE = 1 << 14  # bytes of a header for settings that are known only when all arrays are written
_CHUNK = 1 << 22


class StoreError(ValueError):
    """A file cannot be read back as what was saved."""


def place(path: PathLike, name: str = "path") -> Path:
    """Return the file of a path: one without the ending .safetensors gets it."""
    given = checked_path(path, name)
    if given.name in ("", ".."):
        raise StoreError(f"`{name}` must be a file. Got a folder, {given}.")
    return given if given.name.endswith(ENDING) else given.with_name(given.name + ENDING)


# ---------------------------------------------------------------- writing


def save(
    path: PathLike,
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, Any],
    fingerprint: Fingerprint = (),
) -> None:
    """Write arrays and JSON values to a new file, or over a save of the same kind; else StoreError."""
    known = {name: np.asarray(array) for name, array in arrays.items()}
    layout = {name: (array.dtype, array.shape) for name, array in known.items()}
    with compose(path, kind, layout, fingerprint, params=params) as draft:
        for name, array in known.items():
            draft.open(name).write(array)


@contextlib.contextmanager
def compose(
    path: PathLike,
    kind: str,
    layout: Mapping[str, tuple[Any, tuple[int, ...]]],
    fingerprint: Fingerprint = (),
    *,
    params: Mapping[str, Any] | None = None,
) -> Iterator[Draft]:
    """Write a file as `save` does, arrays of this layout block by block; if that raises, nothing is left.

    Without `params`, they are those of the draft when the block ends.
    """
    # What cannot be saved must not cost more than an error.
    draft = Draft(kind, layout, fingerprint)
    room = len(draft.header(params or {})) + (_SPARE if params is None else 0)
    room += -room % 8
    check_free(path, kind)
    target = Path(os.path.realpath(place(path)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_atomically(target) as stream:
        draft.begin(stream, 8 + room)
        yield draft
        text = draft.header(draft.params if params is None else params, draft.checksums())
        require(len(text) <= room, "params", f"of {room} bytes at most with the header", len(text))
        stream.seek(0)
        stream.write(room.to_bytes(8, "little") + text.ljust(room))


def _seal(manifest: Mapping[str, Any], entries: Mapping[str, Header]) -> bytes:
    """Text of a header with its own checksum, always the same for the same content."""
    arrays = {}
    for name, entry in entries.items():
        offsets = [entry.offset, entry.end]
        arrays[name] = {"dtype": _NAMES[entry.dtype.str], "shape": list(entry.shape), "data_offsets": offsets}
    told = {FORMAT: json.dumps(manifest, sort_keys=True)}
    told["seal"] = _hash(json.dumps([arrays, told], sort_keys=True).encode()).hexdigest()
    return json.dumps({**arrays, "__metadata__": told}, sort_keys=True).encode()


def _hash(data: bytes | memoryview = b"") -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=32)


class Draft:
    """A save under way; `params` are JSON values. Arrays of larger numbers lie first, so all are aligned."""

    def __init__(
        self, kind: str, layout: Mapping[str, tuple[Any, tuple[int, ...]]], fingerprint: Fingerprint
    ) -> None:
        self._body: dict[str, Any] = {"format": FORMAT, "version": VERSION, "kind": kind}
        self._body["fingerprint"] = [list(part) for part in fingerprint]
        self.params: Mapping[str, Any] = {}
        self._writers: dict[str, ArrayWriter] = {}
        self._types = {name: np.dtype(dtype) for name, (dtype, _) in layout.items()}
        self._entries: dict[str, Header] = {}  # places from the end of the header on
        end = 0
        sizes = {name: dtype.itemsize if dtype.str in _NAMES else 1 for name, dtype in self._types.items()}
        for name, dtype in sorted(self._types.items(), key=lambda item: -sizes[item[0]]):
            good = re.fullmatch(r"[A-Za-z0-9_]+", name) is not None
            require(good, "arrays", "named by letters, digits and underscores", repr(name))
            require(dtype.kind in _RAW and dtype.itemsize > 0, "arrays", "of numbers or text", dtype)
            entry = Header(layout[name][1], dtype, False, end)
            if dtype.str not in _NAMES:  # its bytes
                entry = Header((*entry.shape, dtype.itemsize), np.dtype(np.uint8), False, end)
            self._entries[name], end = entry, entry.end

    def begin(self, stream: BinaryIO, start: int) -> None:
        """Write to this file, arrays from `start` on."""
        self._stream, self._start = stream, start

    def open(self, name: str) -> ArrayWriter:
        """Begin an array, or begin it again."""
        begin = self._start + self._entries[name].offset
        self._writers[name] = ArrayWriter(self._stream, self._types[name], begin)
        return self._writers[name]

    def checksums(self) -> dict[str, str]:
        """Those of all arrays, each of which must be whole."""
        for name, entry in self._entries.items():
            size = self._writers[name].size if name in self._writers else 0
            require(size == entry.nbytes, name, f"{entry.nbytes} bytes", size)
        return {name: writer.hash.hexdigest() for name, writer in self._writers.items()}

    def header(self, params: Mapping[str, Any], checksums: Mapping[str, str] | None = None) -> bytes:
        """Text of the header; without checksums, one that is as long."""
        sums = dict.fromkeys(self._entries, "0" * 64) if checksums is None else checksums
        types = {name: dtype.str for name, dtype in self._types.items() if dtype.str not in _NAMES}
        return _seal(self._body | {"params": dict(params), "checksums": sums, "types": types}, self._entries)


class ArrayWriter:
    """An array of a `Draft` that grows, in C order; several may grow at the same time."""

    def __init__(self, stream: BinaryIO, dtype: np.dtype[Any], begin: int) -> None:
        self._stream, self._dtype, self._at = stream, dtype, begin
        self.hash, self.size = _hash(), 0

    def write(self, block: NDArray[Any]) -> None:
        """Write the next values."""
        data = np.ascontiguousarray(block, self._dtype).reshape(-1).view(np.uint8).data
        self._stream.seek(self._at + self.size)
        self._stream.write(data)
        self.hash.update(data)
        self.size += len(data)


def check_free(path: PathLike, kind: str) -> None:
    """Raise StoreError if `save` would refuse the place, which is left as it is."""
    given = checked_path(path, "path")
    rule = f"`path` must be a new file, or one that holds a saved {kind}."
    if given.is_dir():
        raise StoreError(f"{rule} Got a folder, {given}.")
    target = place(given)
    if not os.path.lexists(target):
        return
    try:
        found, _ = describe(target)
    except StoreError as error:
        raise StoreError(f"{rule} Got {target}: {error}") from None
    if found != kind:
        raise StoreError(f"{rule} Got a {found} in {target}.")


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stored:
    """What a file holds."""

    path: Path
    arrays: Mapping[str, NDArray[Any]]
    on_disk: Mapping[str, Header]  # where those lie that were not loaded
    params: Mapping[str, Any]  # the JSON values that were saved
    fingerprint: Fingerprint  # of the atoms it was made from, () if of none

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
        """Return an array that compiled loops may read; StoreError if it is another.

        `dtype` is one, or several; "U" is text of any length. A length that is None is any. With `low`
        or `high`, numbers are not nan either.
        """
        out: NDArray[Any] = self._get(self.arrays, name, dtype, shape)
        bounded = low > -math.inf or high < math.inf
        if bounded and out.size and not (out.min() >= low and out.max() <= high):
            raise self.wrong(f"{name!r} must lie in [{low:g}, {high:g}]")
        return out

    def find(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> Header:
        """Return where an array lies that was not loaded; StoreError if it is another."""
        header: Header = self._get(self.on_disk, name, dtype, shape)
        return header

    def _get(self, known: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
        if name not in known:
            raise self.wrong(f"there is no array {name!r}")
        found = known[name]
        kinds = dtype if isinstance(dtype, tuple) else (dtype,)
        kind = found.dtype.kind == dtype if dtype == "U" else found.dtype in kinds
        pairs = zip(shape, found.shape, strict=False)
        fits = len(shape) == len(found.shape) and all(size in (None, got) for size, got in pairs)
        if not (kind and fits):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            got = f"got {found.dtype} of shape {found.shape}"
            raise self.wrong(f"{name!r} must be {np.dtype(kinds[0])} of shape ({wanted}), {got}")
        return found

    def wrong(self, what: str) -> StoreError:
        """Return the error that says why this cannot have been saved."""
        return StoreError(f"{self.path} is damaged: {what}.")

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


def load(path: PathLike, kind: str, *, on_disk: Collection[str] = (), check: bool = True) -> Stored:
    """Read a file that `save` wrote; StoreError if it is damaged, or of another kind or version.

    The arrays named by `on_disk` are not loaded; without `check` checksums are not compared.
    """
    target = find(path)
    with _open_plain(target) as file:
        manifest, entries, start = _read_header(file, target)
        if manifest["kind"] != kind:
            raise StoreError(f"`path` must hold a saved {kind}. Got a {manifest['kind']} in {target}.")
        arrays, places = {}, {}
        for name, entry in entries.items():
            file.seek(start + entry.offset)
            if name not in on_disk:
                arrays[name] = _read_array(file, entry, manifest["types"].get(name))
                found = _hash(arrays[name].reshape(-1).view(np.uint8).data) if check else None
            else:
                places[name] = entry._replace(offset=start + entry.offset)
                found = _hash_file(file, entry.nbytes) if check else None
            if found is not None and found.hexdigest() != manifest["checksums"][name]:
                raise StoreError(f"{target} is damaged: the checksum of {name!r} differs.")
    prints = tuple(PartPrint(*part) for part in manifest["fingerprint"])
    return Stored(path=target, arrays=arrays, on_disk=places, params=manifest["params"], fingerprint=prints)


def find(path: PathLike) -> Path:
    """Return the file that a path stands for: of a folder that grows, what says which run it is."""
    given = checked_path(path, "path")
    return given / RUN_FILE if given.is_dir() else place(given)


def describe(path: PathLike) -> tuple[str, Mapping[str, Any]]:
    """Return what a file holds, as `load` must be asked for it, and its settings; reads the header only."""
    target = find(path)
    with _open_plain(target) as file:
        manifest = _read_header(file, target)[0]
    return manifest["kind"], manifest["params"]


@contextlib.contextmanager
def _open_plain(path: Path) -> Iterator[io.BufferedReader]:
    """Open a plain file: no pipe, which would be waited for, and no device, which has no end."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(f"`path` must be a file. Got {path}, which is none.")
            yield file
    except OSError as error:
        raise StoreError(f"`path` must be a file that can be read. Got {path}: {error.strerror}.") from None


def _read_header(file: io.BufferedReader, path: Path) -> tuple[dict[str, Any], dict[str, Header], int]:
    """Return the manifest, the arrays and where they begin, all of the right kind, else raise StoreError."""
    rule = "`path` must be a file that wolfhound saved."
    try:
        raw, start = read_tensor_header(file)
        text = raw.rstrip(b" ")
        header = json.loads(text)
        told = header.pop("__metadata__")
        manifest = json.loads(told[FORMAT])
        if manifest.get("format") != FORMAT:
            raise KeyError
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise StoreError(f"{rule} Got another format, or a part, in {path}.") from None
    if manifest.get("version") != VERSION:
        got = f"Got version {manifest.get('version')} in {path}: save it again."
        raise StoreError(f"`path` must be of format version {VERSION}, which this wolfhound reads. {got}")
    entries = _read_entries(header, os.fstat(file.fileno()).st_size - start)
    if entries is None or not _is_well_formed(manifest, entries):
        raise StoreError(f"{path} is damaged: an entry is missing, or of the wrong kind or size.")
    # Written in one canonical way, so any changed byte shows, even one that JSON ignores.
    if _seal(manifest, entries) != text:
        raise StoreError(f"{path} is damaged: the checksum of its header differs.")
    return manifest, entries, start


def _read_entries(header: Mapping[str, Any], size: int) -> dict[str, Header] | None:
    """Return the arrays if they fill the file, one after the other; else None."""
    entries, end = {}, 0
    try:
        for name, said in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            shape, (begin, after) = tuple(said["shape"]), said["data_offsets"]
            entry = Header(shape, np.dtype(TENSORS[said["dtype"]]), False, begin)
            whole = all(type(number) is int and 0 <= number < 2**62 for number in (*shape, begin, after))
            if not whole or len(shape) > 32 or begin != end or after != entry.end:
                return None
            entries[name], end = entry, after
    except (KeyError, TypeError, ValueError):
        return None
    return entries if end == size else None


def _is_well_formed(manifest: Mapping[str, Any], entries: Mapping[str, Header]) -> bool:
    kinds = {"kind": str, "params": dict, "checksums": dict, "types": dict, "fingerprint": list}
    if not all(isinstance(manifest.get(name), each) for name, each in kinds.items()):
        return False
    sums, types = manifest["checksums"], manifest["types"]
    return (
        sums.keys() == entries.keys()
        and types.keys() <= entries.keys()
        and all(_is_raw(said, entries[name]) for name, said in types.items())
        and all(map(is_part, manifest["fingerprint"]))
    )


def _is_raw(said: Any, entry: Header) -> bool:
    """Whether the bytes of an array can be of a type that safetensors has no name for."""
    if not isinstance(said, str) or not _TYPE.fullmatch(said):
        return False
    try:
        dtype = np.dtype(said)
    except (TypeError, ValueError):
        return False
    return entry.dtype == np.uint8 and 0 < dtype.itemsize == (entry.shape or (0,))[-1]


def is_part(part: Any) -> bool:
    """Whether a list of JSON values is a `PartPrint` of a fingerprint."""
    return (
        isinstance(part, list)
        and [type(value) for value in part] == [int, int, str, str]
        and 0 < min(part[:2]) <= max(part[:2]) < 2**62
    )


def _read_array(file: io.BufferedReader, entry: Header, said: str | None) -> NDArray[Any]:
    """Read an array whose bytes are known to be there."""
    out = np.empty(entry.shape, entry.dtype)
    if file.readinto(out.reshape(-1).view(np.uint8).data) != entry.nbytes:
        raise StoreError(f"{file.name} has shrunk while it was read.")
    return out if said is None else out.view(np.dtype(said)).reshape(entry.shape[:-1])


def _hash_file(file: io.BufferedReader, size: int) -> hashlib.blake2b:
    found = _hash()
    while size > 0:
        data = file.read(min(size, _CHUNK))
        if not data:
            raise StoreError(f"{file.name} has shrunk while it was read.")
        found.update(data)
        size -= len(data)
    return found


# ---------------------------------------------------------------- of which atoms


def check_fingerprint(stored: Stored, atoms: AtomsLike, *, content: bool = True) -> None:
    """Raise StoreError, saying what differs, if it was made from other atoms; reads all of them once.

    In how many arrays and files the same rows are does not matter. Without `content` only their
    number and type are compared: where what was stored is yet to be proved against the rows.
    """
    saved = stored.fingerprint
    given = _print_like(as_atoms(atoms), saved)
    rule = f"`atoms` must be the atoms that {stored.path} was made from."
    if len(given) != len(saved):
        sizes = [f"{sum(part.n for part in each):,} rows in {len(each)} part(s)" for each in (given, saved)]
        raise StoreError(f"{rule} Got {' instead of '.join(sizes)}.")
    for place, (got, wanted) in enumerate(zip(given, saved, strict=True)):
        for field, one, other in zip(("n", "d", "dtype"), got.kind, wanted.kind, strict=True):
            if one != other:
                raise StoreError(f"{rule} Got {field} = {one} instead of {other} in part {place}.")
    if not content:
        return
    lengths = {len(part.digest) for part in saved}
    if lengths - {DIGITS}:  # no digest of all rows
        why = "they could not be read when it was saved" if lengths == {0} else "it knows only some rows"
        rest = "Load it without `atoms`, or make it again"
        raise StoreError(f"{stored.path} cannot tell which atoms it was made from: {why}. {rest}.")
    for place, (got, wanted) in enumerate(zip(given, saved, strict=True)):
        if got != wanted:
            raise StoreError(f"{rule} Got other rows in part {place}.")


def are_same(atoms: Atoms, others: Atoms) -> bool:
    """Whether what is made from some atoms may be loaded with others: the same rows, in any parts."""
    saved = fingerprint(atoms)
    return _print_like(others, saved) == saved


def _print_like(atoms: Atoms, saved: Fingerprint) -> Fingerprint:
    """Return the fingerprint of atoms, in the parts of a saved one if they are as many rows and of a type."""
    given = fingerprint(atoms)
    same = [part.kind for part in given] == [part.kind for part in saved]
    if not same and _sum_up(given) == _sum_up(saved) != ():
        return fingerprint(atoms, [part.n for part in saved])
    return given


def _sum_up(prints: Fingerprint) -> tuple[int, int, str] | tuple[()]:
    """Rows in all, entries of each and the widest type, which they are read as together."""
    dims = {part.d for part in prints}
    wide = "float64" if any(part.dtype == "float64" for part in prints) else "float32"
    return (sum(part.n for part in prints), dims.pop(), wide) if len(dims) == 1 else ()
