"""Files and globs of them, by their endings: arrays without names, or tables of named columns.

Knows endings, not what the rows mean. A table may be far larger than memory: columns that
do not count are not read before rows are chosen, and then a batch at a time.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound import _files
from wolfhound._arrays import ArrayAtoms, table
from wolfhound._arrow import ARROW, ArrowFiles
from wolfhound._csv import CsvTable
from wolfhound._datasets import ENDINGS, read_dataset, weigh_dataset
from wolfhound._files import FileAtoms
from wolfhound._npy import PathLike, check_exists, load_npy, load_npz, split_key
from wolfhound.core import Atoms, Ids
from wolfhound.validate import require

ROW = "row"
"""What the rows of a file without named columns are called."""


def find_files(path: str) -> list[str]:
    """Return the files that a text stands for, without the names of datasets; there may be none."""
    file = split_key(path)[0]
    return [file] if os.path.exists(file) else sorted(glob.glob(file, recursive=True))


def split_paths(text: str) -> list[str]:
    """Return a, b of "a,b", unless that is itself the name of a file."""
    whole = "," not in text or bool(find_files(text))
    return [text] if whole else [part.strip() for part in text.split(",") if part.strip()]


class ArrayTable:
    """Files of arrays: rows without names."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files

    def weigh(self) -> int:
        """Bytes of the rows that need not be loaded."""
        return sum(map(_weigh, self.files))

    def parts(self, *, load: bool | None = None) -> list[Atoms]:
        """All columns: there are no names to choose by. Loaded if all files together are small."""
        fits = self.weigh() <= _files.IN_MEMORY if load is None else load
        return [_read_atoms(file, load=fits) for file in self.files]

    def rows(self, ids: Ids) -> dict[str, NDArray[Any]]:
        """Return the rows as one column of vectors."""
        parts = self.parts()
        starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        owners = np.searchsorted(starts, ids, side="right") - 1
        taken = [parts[p].take(ids[i : i + 1] - starts[p]) for i, p in enumerate(owners)]
        return {ROW: np.concatenate(taken)}


def _ending(path: str) -> str:
    return Path(split_key(path)[0]).suffix.lower()


def _weigh(path: str) -> int:
    ending = _ending(path)
    if ending == ".npz":  # always loaded
        return 0
    return weigh_dataset(path) if ending in ENDINGS else os.path.getsize(path)


def _read_atoms(path: str, *, load: bool) -> Atoms:
    ending = _ending(path)
    if ending == ".npz":
        return ArrayAtoms(table(load_npz(path, 2), path))
    if ending in ENDINGS:
        return read_dataset(path, load=load)
    return ArrayAtoms(table(load_npy(Path(path)), path)) if load else FileAtoms(path)


FileTable: TypeAlias = ArrayTable | ArrowFiles | CsvTable
"""One file, or several with the same columns, of which little is read before it is asked for."""

_KINDS: dict[str, type[FileTable]] = {
    ".npy": ArrayTable,
    ".npz": ArrayTable,
    ".csv": CsvTable,
    **dict.fromkeys(ARROW, ArrowFiles),
    **dict.fromkeys(ENDINGS, ArrayTable),
}

NAMED = tuple(ending for ending, kind in _KINDS.items() if kind is not ArrayTable)
"""Endings of files with named columns."""


def open_table(path: PathLike | Sequence[PathLike]) -> FileTable:
    """Open a file, or all files that a glob matches, in the order of their names.

    ``file::name`` is one array of several; commas, or a list, join several files of one kind.
    """
    several = isinstance(path, (list, tuple))
    texts = list(map(os.fspath, cast(Any, path))) if several else split_paths(os.fspath(cast(PathLike, path)))
    text = ", ".join(texts)
    files = [file for part in texts for file in _expand(part)]
    endings = [_ending(file) for file in files]
    known = all(ending in _KINDS for ending in endings)
    require(known, "path", f"a file that ends in one of {', '.join(_KINDS)}", repr(text))
    require(len({_KINDS[ending] for ending in endings}) == 1, "path", "files of one kind", repr(text))
    for file in files:
        check_exists(split_key(file)[0])
    return _KINDS[endings[0]](files)


def _expand(text: str) -> list[str]:
    """Return the files of a glob, each with the name of the array that is wanted."""
    pattern = split_key(text)[0]
    files = find_files(text) if glob.has_magic(pattern) else [pattern]
    require(bool(files), "path", "a glob that matches a file", text)
    return [file + text[len(pattern) :] for file in files]
