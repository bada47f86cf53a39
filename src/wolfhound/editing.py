"""Atoms after an edit: rows added at the end, rows left out.

Ids are places, always 0 to n - 1: rows that are added get the next ids, and those behind rows
that are left out move up, as with ``numpy.concatenate`` and ``numpy.delete``. What was given is
never changed.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from wolfhound._files import lock, summary, valid_ids
from wolfhound.atoms import (
    ArrayAtoms,
    ConcatAtoms,
    FileAtoms,
    MappedAtoms,
    as_atoms,
    block_rows,
    check_finite,
)
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix
from wolfhound.validate import ids as checked_ids
from wolfhound.validate import require

_SHOWN = 8


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeptAtoms:
    """Some of the atoms that are read from elsewhere, in their order."""

    atoms: Atoms
    ids: Ids  # (n,) those that are kept, ascending

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.ids), self.atoms.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.atoms.dtype

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


def in_files(atoms: Atoms) -> bool:
    """Whether rows are read from files, all or some."""
    if isinstance(atoms, (MappedAtoms, KeptAtoms)):
        return in_files(atoms.atoms)
    if isinstance(atoms, ConcatAtoms):
        return any(map(in_files, atoms.parts))
    return isinstance(atoms, FileAtoms)


# ---------------------------------------------------------------- adding


def check_order(names: Sequence[str], others: Sequence[str], name: str) -> None:
    """Raise ValueError if columns of one name stand at different places: rows are used by place.

    Examples
    --------
    >>> check_order(["a", "b"], ["b", "a"], "rows")
    Traceback (most recent call last):
    ...
    ValueError: `rows` must be a table with the columns of the atoms in their order, a, b. Got b, a.
    """
    places = {column: place for place, column in enumerate(names)}
    same = all(places.get(column, place) == place for place, column in enumerate(others))
    listed, got = (", ".join(each[:_SHOWN]) + ", ..." * (len(each) > _SHOWN) for each in (names, others))
    require(same, name, f"a table with the columns of the atoms in their order, {listed}", got)


def append_rows(atoms: Atoms, rows: AtomsLike) -> Atoms:
    """Return atoms followed by rows, or by one (d,) vector; their type stays.

    What is in memory, in one array each, becomes one array; all else stays where it is, in parts.
    Of float64 rows, float32 atoms take only those that float32 holds exactly.

    Examples
    --------
    >>> append_rows(ArrayAtoms([[0.0, 1.0]]), [[2.0, 3.0]]).take(np.array([1]))
    array([[2., 3.]])
    """
    one = isinstance(rows, np.ndarray) and rows.ndim == 1
    added = as_atoms(rows[None] if one else rows, "rows")  # type: ignore[index, call-overload]
    d = atoms.shape[1]
    require(added.shape[1] == d, "rows", f"vectors of {d} entries, as the atoms", f"shape {added.shape}")
    names = _find_names(atoms) or _find_names(added)
    check_order(_find_names(atoms), _find_names(added), "rows")
    added = _as_type(added, atoms.dtype)
    for first, block in added.blocks(block_rows(added)):
        check_finite(block, first, "rows")
    if not (isinstance(atoms, ArrayAtoms) and isinstance(added, ArrayAtoms)):
        return ConcatAtoms([atoms, added])
    n, whole = atoms.shape[0], np.empty((atoms.shape[0] + added.shape[0], d), atoms.dtype)
    whole[:n], whole[n:] = atoms.rows, added.rows
    return ArrayAtoms(whole, names)


def _find_names(atoms: Atoms) -> tuple[str, ...]:
    """Return the columns of a table, where they are known."""
    names: tuple[str, ...] = getattr(atoms, "names", ())
    return names


def _as_type(added: Atoms, dtype: np.dtype[Any]) -> Atoms:
    """Return rows that do not widen what they are added to, nor are rounded."""
    if np.can_cast(added.dtype, dtype):
        return added
    if isinstance(added, ArrayAtoms):
        with np.errstate(over="ignore"):
            narrow = added.rows.astype(dtype)
        if np.array_equal(narrow, added.rows, equal_nan=True):
            return ArrayAtoms(narrow, added.names)
    rule = f"{dtype}, as the atoms; rows.astype(numpy.{dtype}) rounds them"
    require(False, "rows", rule, added.dtype)
    return added


# ---------------------------------------------------------------- leaving out


def check_removed(atoms: Atoms, ids: Any) -> Ids:
    """Return the ids that are to go, ascending; ValueError unless some atoms stay."""
    n = atoms.shape[0]
    gone = np.sort(checked_ids([ids] if isinstance(ids, (int, np.integer)) else ids, "ids", n))
    require(len(gone) < n, "ids", f"at most {n - 1} of the {n} atoms: one must stay", f"{len(gone)} ids")
    return gone


def remove_rows(atoms: Atoms, gone: Ids) -> Atoms:
    """Return atoms without some, whose ids ascend as `check_removed` gives them.

    Rows in memory are copied; of others, which stay where they are, it is known which are left.

    Examples
    --------
    >>> remove_rows(ArrayAtoms([[0.0], [1.0], [2.0]]), np.array([1])).take(np.array([1]))
    array([[2.]])
    """
    if not len(gone):
        return atoms
    if isinstance(atoms, ArrayAtoms):
        return ArrayAtoms(np.delete(atoms.rows, gone, axis=0), atoms.names)
    if isinstance(atoms, ConcatAtoms):
        ends = np.cumsum([0, *(part.shape[0] for part in atoms.parts)])
        cuts = np.searchsorted(gone, ends)
        mine = [gone[a:b] - end for a, b, end in zip(cuts[:-1], cuts[1:], ends, strict=False)]
        left = [
            remove_rows(part, each)
            for part, each in zip(atoms.parts, mine, strict=True)
            if len(each) < part.shape[0]
        ]
        return left[0] if len(left) == 1 else ConcatAtoms(left)
    if isinstance(atoms, KeptAtoms):
        return KeptAtoms(atoms.atoms, np.delete(atoms.ids, gone))
    return KeptAtoms(atoms, np.delete(np.arange(atoms.shape[0]), gone))
