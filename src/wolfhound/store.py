"""Saving: one folder holds arrays and a manifest, complete or not there at all.

Array files get fresh names and are flushed to disk; replacing `manifest.json`
is the one moment at which a new save takes the place of the old. Of several
processes that save, the last one wins; who reads gets an old save or a new one,
whole. Knows nothing of what is saved.

Checksums tell damage, not forgery: whoever can write a folder can write its
checksums too. So nothing that is read is trusted to be of the right kind, and
what a loaded object proves must be checked against its atoms, by its own `load`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wolfhound._draft import ArrayWriter, Draft, file_name, open_flushing
from wolfhound._manifest import (
    ARRAY_FILE,
    FORMAT,
    MANIFEST,
    VERSION,
    Stored,
    StoreError,
    is_part,
    read_array,
    read_manifest,
)
from wolfhound._prints import DIGITS
from wolfhound.atoms import Fingerprint, PartPrint, as_atoms, fingerprint
from wolfhound.core import Atoms, AtomsLike
from wolfhound.validate import path as checked_path

__all__ = ["FORMAT", "MANIFEST", "VERSION", "ArrayWriter", "Draft", "StoreError", "Stored", "is_part"]
__all__ += [
    "are_same",
    "check_fingerprint",
    "check_free",
    "compose",
    "kind",
    "load",
    "save",
    "write_atomically",
]

_MARK = re.compile(rf"\.{re.escape(MANIFEST)}\.([0-9a-f]{{16}})\.tmp")
"""While such a file is there, arrays of this number belong to a save that is under way or was cut off."""


def save(
    folder: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, Any],
    fingerprint: Fingerprint = (),
) -> None:
    """Write a folder; at every moment it holds the old save or the new one.

    Files that are not of a save of ours are never touched.

    Parameters
    ----------
    folder
        Made if it is not there; else it must be empty or hold what may be replaced.
    kind
        What is saved; `load` must ask for the same.
    arrays
        Any dtypes but object; names of letters, digits and underscores.
    params
        JSON values.
    fingerprint
        Of the atoms it was made from.

    Raises
    ------
    StoreError
        If the folder holds something else; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(folder, "demo", {"ids": np.array([3, 1])}, {"c": 0.5})
    ...     load(folder, "demo").arrays["ids"]
    array([3, 1])
    """
    # Before any file is written: what cannot be saved must not cost more than an error.
    json.dumps(dict(params))
    for name in arrays:
        file_name(name, "")
    with compose(folder, kind) as draft:
        for name, array in arrays.items():
            draft.add(name, np.asarray(array))
        draft.params, draft.fingerprint = params, fingerprint


@contextlib.contextmanager
def compose(folder: str | os.PathLike[str], kind: str) -> Iterator[Draft]:
    """Write a folder as `save` does, arrays block by block; if that raises, nothing is left of it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with compose(folder, "demo") as draft, draft.open("ids", np.int64, (2,)) as out:
    ...         out.write(np.array([3]))
    ...         out.write(np.array([1]))
    ...     load(folder, "demo").arrays["ids"]
    array([3, 1])
    """
    root, token = checked_path(folder, "folder"), secrets.token_hex(8)
    fresh = not root.exists()
    if not fresh:
        _check_folder(root)
    root.mkdir(parents=True, exist_ok=True)
    draft = Draft(root, token)
    try:
        with _lock(root) as alone:
            old = _replaceable(root, kind)
            try:
                _mark(root, token)
                yield draft
                _flush_folder(root)
                for each in old:
                    _mark(root, each)
                write_atomically(root / MANIFEST, lambda stream: stream.write(draft.seal(kind)))
            finally:
                # The old arrays, or the new ones if it failed; and those of saves that were killed.
                _tidy(root, _find_marks(root) if alone else {token, *old})
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(root)  # writing to a full disk names no file
        if fresh:
            with contextlib.suppress(OSError):  # somebody else's files stay
                root.rmdir()
        raise


def load(
    folder: str | os.PathLike[str], kind: str, *, on_disk: Collection[str] = (), check: bool = True
) -> Stored:
    """Read a folder that `save` wrote; by default every byte is checked.

    Parameters
    ----------
    folder
        Where it was saved.
    kind
        What is expected there.
    on_disk
        Names of arrays that are not loaded but mapped, to say where they are: who reads a map of
        a file that has shrunk is killed.
    check
        Whether checksums are compared: all bytes are read.

    Raises
    ------
    StoreError
        If anything is missing, altered, of another kind or format version.
    """
    root = checked_path(folder, "folder")
    while True:
        manifest = read_manifest(root)
        if manifest["kind"] != kind:
            raise StoreError(f"`folder` must hold a saved {kind}. Got a {manifest['kind']} in {root}.")
        try:
            arrays = {
                name: read_array(root, entry, name in on_disk, check)
                for name, entry in manifest["arrays"].items()
            }
        except StoreError:
            if manifest == read_manifest(root):
                raise
            continue  # another save took its place, and its arrays away
        prints = tuple(PartPrint(*part) for part in manifest["fingerprint"])
        return Stored(folder=root, arrays=arrays, params=manifest["params"], fingerprint=prints)


def check_free(folder: str | os.PathLike[str], kind: str) -> None:
    """Raise StoreError if `save` would refuse the folder, which is left as it is."""
    root = checked_path(folder, "folder")
    if root.exists():
        _check_folder(root)
        _replaceable(root, kind)


def _check_folder(root: Path) -> None:
    if not root.is_dir():
        raise StoreError(f"`folder` must be a folder. Got a file, {root}.")


def kind(folder: str | os.PathLike[str]) -> str:
    """What a folder holds, as `load` must be asked for it; reads the manifest only.

    Raises
    ------
    StoreError
        If the manifest is missing, altered or of another format version.
    """
    return str(read_manifest(checked_path(folder, "folder"))["kind"])


def check_fingerprint(stored: Stored, atoms: AtomsLike, *, content: bool = True) -> None:
    """Raise StoreError, saying what differs, if it was made from other atoms; reads all of them once.

    In how many arrays and files the same rows are does not matter.

    Parameters
    ----------
    stored
        What was read.
    atoms
        Atoms, an array, a table, a path, or a list of these.
    content
        Whether all rows are compared, by their digest; False: their number and type only, where
        what was stored is proved against the rows.
    """
    saved = stored.fingerprint
    given = _print_like(as_atoms(atoms), saved)
    rule = f"`atoms` must be the atoms that {stored.folder} was made from."
    if len(given) != len(saved):
        sizes = [
            f"{sum(part.n for part in parts):,} rows in {len(parts)} part(s)" for parts in (given, saved)
        ]
        raise StoreError(f"{rule} Got {sizes[0]} instead of {sizes[1]}.")
    for place, (got, wanted) in enumerate(zip(given, saved, strict=True)):
        for field in ("n", "d", "dtype"):
            one, other = getattr(got, field), getattr(wanted, field)
            if one != other:
                raise StoreError(f"{rule} Got {field} = {one} instead of {other} in part {place}.")
    if content:
        _check_known(stored)
        for place, (got, wanted) in enumerate(zip(given, saved, strict=True)):
            if got != wanted:
                raise StoreError(f"{rule} Got other rows in part {place}.")


def _check_known(stored: Stored) -> None:
    """Refuse to compare rows with a digest that is not one of all rows."""
    lengths = {len(part.digest) for part in stored.fingerprint}
    if lengths - {DIGITS}:
        why = "they could not be read when it was saved" if lengths == {0} else "it knows only some rows"
        rest = "Load it without `atoms`, or make it again"
        raise StoreError(f"{stored.folder} cannot tell which atoms it was made from: {why}. {rest}.")


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


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
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
        with open_flushing(aside) as stream:
            write(stream)
        os.replace(aside, target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if error.errno is None or error.filename not in {None, str(aside)}:
            raise
        raise OSError(error.errno, error.strerror, str(target)) from None  # a full disk names no file
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


# ---------------------------------------------------------------- writing


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Keep other saves out; False if the file system has no locks.

    Without one, saves at the same time leave arrays behind that nobody needs, no more.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        held = False
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            held = True
        yield held
    finally:
        os.close(descriptor)


def _mark(root: Path, token: str) -> None:
    (root / f".{MANIFEST}.{token}.tmp").touch()


def _find_marks(root: Path) -> set[str]:
    """Numbers of the saves that are under way, were cut off, or are being replaced."""
    return {found[1] for path in root.iterdir() if (found := _MARK.fullmatch(path.name))}


def _replaceable(root: Path, kind: str) -> set[str]:
    """Numbers of the arrays that a save may replace; StoreError if it may not."""
    rule = f"`folder` must be new or empty, or hold a saved {kind}."
    marked = _find_marks(root)
    for path in root.iterdir():
        found = _MARK.fullmatch(path.name) or ARRAY_FILE.fullmatch(path.name)
        if not (found and found[1] in marked):
            break
    else:
        return set()
    try:
        manifest = read_manifest(root)
    except StoreError as error:
        raise StoreError(f"{rule} Got {root}: {error}") from None
    if manifest["kind"] != kind:
        raise StoreError(f"{rule} Got a {manifest['kind']} in {root}.")
    return {ARRAY_FILE.fullmatch(entry["file"])[1] for entry in manifest["arrays"].values()}  # type: ignore[index]


def _tidy(root: Path, tokens: set[str]) -> None:
    """Remove the arrays of these numbers that the manifest does not name, then their marks."""
    kept: set[str] = set()
    if (root / MANIFEST).exists():
        try:
            kept = {entry["file"] for entry in read_manifest(root)["arrays"].values()}
        except StoreError:  # what it names is not known: remove nothing
            return
    for path in list(root.iterdir()):
        found = ARRAY_FILE.fullmatch(path.name)
        if found and found[1] in tokens and path.name not in kept:
            path.unlink(missing_ok=True)
    for token in tokens:
        (root / f".{MANIFEST}.{token}.tmp").unlink(missing_ok=True)
