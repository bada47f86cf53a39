"""The atoms: rows in memory, in files, joined or mapped, and passes over them.

Knows how rows are stored and read; must not know what a query or an objective
is. Every `blocks` gives read-only arrays, so that one specialisation of a
compiled kernel serves them all and nobody writes into a caller's array.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard, cast, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._arrays import ArrayAtoms, table
from wolfhound._arrow import find_frame
from wolfhound._exact import require_exact
from wolfhound._files import FileAtoms, find_mapped_file, lock, read_ahead, summary, valid_ids, widen
from wolfhound._prints import Fingerprint, PartPrint, print_rows
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.encoding import EncodingPlan, Missing, TableAtoms, encode_source, open_parts
from wolfhound.progress import report_rows
from wolfhound.rounding import gamma
from wolfhound.threads import map_ordered
from wolfhound.validate import count, function, kind, require

__all__ = ["ArrayAtoms", "ConcatAtoms", "FileAtoms", "Fingerprint", "MappedAtoms", "PartPrint", "as_atoms"]
__all__ += ["block_rows", "check_finite", "diameter_bound", "fingerprint", "finite_rows", "norms", "widen"]


@final
class ConcatAtoms:
    """Several sets of atoms, one after the other; ids run through.

    The dtype is the widest of the parts. A block never spans two parts; those in
    files are read one block ahead, from one file to the next too. Parts that are
    themselves joined are taken apart.

    Parameters
    ----------
    parts
        Atoms, arrays or paths of equal dimension d.
    """

    __slots__ = ("_starts", "parts")

    def __init__(self, parts: Sequence[AtomsLike]) -> None:
        kind(parts, "parts", "a list of atoms, arrays or paths", list, tuple)
        require(len(parts) > 0, "parts", "at least one set of atoms", "none")
        flat = [atoms for part in parts for atoms in _parts(as_atoms(part))]
        dims = sorted({part.shape[1] for part in flat})
        require(len(dims) == 1, "parts", "atoms of equal dimension", f"dimensions {dims}")
        self.parts: tuple[Atoms, ...] = tuple(flat)
        self._starts: Ids = np.cumsum([0, *(part.shape[0] for part in flat)], dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self._starts[-1]), self.parts[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return np.result_type(*(part.dtype for part in self.parts))

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        ids = valid_ids(ids, self.shape[0])
        owner = np.searchsorted(self._starts, ids, side="right") - 1
        out = np.empty((len(ids), self.shape[1]), self.dtype)
        for p in np.unique(owner):
            mine = owner == p
            out[mine] = self.parts[p].take(ids[mine] - self._starts[p])
        return out

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        in_files = any(isinstance(part, FileAtoms) for part in self.parts)
        return read_ahead(self._jobs(rows)) if in_files else (job() for job in self._jobs(rows))

    def _jobs(self, rows: int) -> Iterator[Callable[[], tuple[int, Matrix]]]:
        """Yield a function for each block: of files it reads, of others it has what was read."""
        for start, part in zip(self._starts.tolist(), self.parts, strict=False):
            if isinstance(part, FileAtoms):
                for job in part.jobs(rows, start):
                    yield partial(self._convert, job)
            else:
                for first, block in part.blocks(rows):
                    yield partial(self._convert, partial(tuple, [start + first, block]))

    def _convert(self, job: Callable[[], tuple[int, Matrix]]) -> tuple[int, Matrix]:
        first, block = job()
        return first, lock(block.astype(self.dtype, copy=False))

    def __repr__(self) -> str:
        """Shape, dtype and number of parts."""
        return summary(self, f"{len(self.parts)} parts")


@final
@dataclass(frozen=True, slots=True, eq=False)
class MappedAtoms:
    """Atoms mapped by a function, block by block, each time they are read.

    Parameters
    ----------
    atoms
        What is mapped.
    fn
        Pure function of r rows to an (r, dim) array, row by row: what a row
        becomes must not depend on the rows beside it, or a proof holds only up
        to that difference. To be pickled it must be a module-level function.
    dim
        Dimension of the mapped atoms.
    dtype
        float32 or float64.
    """

    atoms: Atoms
    fn: Callable[[Matrix], NDArray[Any]]
    dim: int
    dtype: np.dtype[Any] = np.dtype(np.float64)  # noqa: RUF009 - immutable

    def __post_init__(self) -> None:
        object.__setattr__(self, "atoms", as_atoms(self.atoms))
        function(self.fn, "fn", "a function of rows")
        count(self.dim, "dim", low=1)
        with contextlib.suppress(TypeError):  # what is no dtype is refused below
            object.__setattr__(self, "dtype", np.dtype(self.dtype))
        require(self.dtype in (np.float32, np.float64), "dtype", "float32 or float64", self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return self.atoms.shape[0], self.dim

    def take(self, ids: Ids) -> Matrix:
        """Return the mapped rows of these ids, a fresh C-ordered array."""
        return np.array(self._map(self.atoms.take(ids)), order="C")

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first, block in self.atoms.blocks(rows):
            yield first, lock(self._map(block)[:])

    def _map(self, rows: Matrix) -> Matrix:
        found = np.asarray(self.fn(rows))
        require_exact(found, "fn")
        out = np.ascontiguousarray(found, self.dtype)
        require(out.shape == (len(rows), self.dim), "fn", f"a map to {self.dim} columns", out.shape)
        return out


def _parts(atoms: Atoms) -> tuple[Atoms, ...]:
    return atoms.parts if isinstance(atoms, ConcatAtoms) else (atoms,)


# ---------------------------------------------------------------- whatever the caller has


def as_atoms(value: AtomsLike, name: str = "atoms") -> Atoms:
    """Return atoms from atoms, an array, a table, a path, or a list of these.

    A frame of pandas or polars, a table of Arrow or a structured array becomes atoms as `encode`
    has it; missing values are refused here, where nothing could say which rows were left out.
    A memory map of a file becomes `FileAtoms`: mapped pages count as resident
    memory. A list of paths, atoms or 2-D arrays becomes `ConcatAtoms`; files stay
    on disk unless all of them together are small.

    Parameters
    ----------
    value
        What the caller has.
    name
        What the caller calls it, for error messages.

    Examples
    --------
    >>> as_atoms(np.zeros((3, 2), np.float32))
    ArrayAtoms(3 x 2, float32)
    """
    if type(value) is np.ndarray and value.dtype.names is None:
        return ArrayAtoms(table(value, name))
    if _is_atoms(value):
        return _name_columns(value) if isinstance(value, TableAtoms) and value.ids is None else value
    source = find_frame(value)
    if source is not None:
        return _name_columns(encode_source(source, EncodingPlan(missing=Missing.ERROR, called=name)))
    if isinstance(value, (str, os.PathLike)):
        return join(open_parts([value], None))
    if isinstance(value, (list, tuple)) and value and all(map(_is_part, value)):
        paths = all(isinstance(part, (str, os.PathLike)) for part in value)
        return join(open_parts(cast(Any, value), None)) if paths else ConcatAtoms(value)
    mapped = find_mapped_file(value) if isinstance(value, np.memmap) else None
    return mapped or ArrayAtoms(table(value, name))


def _name_columns(coded: TableAtoms) -> Atoms:
    """Return the rows of a table; those in memory know their columns, so that others can be compared."""
    atoms = coded.atoms
    return ArrayAtoms(atoms.rows, coded.names) if isinstance(atoms, ArrayAtoms) else atoms


def _is_atoms(value: object) -> TypeGuard[Atoms]:
    return callable(getattr(value, "blocks", None)) and callable(getattr(value, "take", None))


def _is_part(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 2
    return isinstance(value, (str, os.PathLike)) or _is_atoms(value)


def join(parts: Sequence[Atoms]) -> Atoms:
    """Return the only part, or all of them one after the other."""
    return parts[0] if len(parts) == 1 else ConcatAtoms(parts)


# ---------------------------------------------------------------- passes


def block_rows(atoms: Atoms, nbytes: int = 16 << 20) -> int:
    """Rows per block of a pass: blocks of about `nbytes`, at any thread count.

    Examples
    --------
    >>> block_rows(ArrayAtoms(np.zeros((3, 128), np.float32)))
    32768
    """
    return max(1, nbytes // (atoms.shape[1] * atoms.dtype.itemsize))


def check_finite(block: Matrix, first: int, name: str = "atoms") -> None:
    """Raise ValueError if an entry is nan or infinite, naming its row; `first` is the id of the first."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum()):  # one fast read; a sum that overflows is looked into below
            return
    bad = ~np.isfinite(block)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        where = f"row {first + row}, column {column}"
        raise ValueError(f"`{name}` must be finite. Got {block[row, column]} in {where}.")


def draw_some(n: int, size: int, rng: np.random.Generator) -> Ids:
    """Return `size` of n ids at random, in order; all, without a draw, if there are no more."""
    return np.sort(rng.choice(n, size, replace=False).astype(np.int64)) if size < n else np.arange(n)


def finite_rows(atoms: Atoms, ids: Ids) -> Matrix:
    """Take rows, and raise ValueError if one is not finite, naming it."""
    rows = atoms.take(ids)
    finite = np.isfinite(rows)
    if not finite.all():
        bad = int(np.flatnonzero(~finite.all(axis=1))[0])
        check_finite(rows[bad : bad + 1], int(ids[bad]))
    return rows


def _lengths(rows: Matrix) -> Vector:
    """Norms of the rows, rounded up."""
    up = 1.0 + gamma(rows.shape[1] + 6)  # d products and sums, then at most four more roundings
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    out: Vector = up * np.sqrt(squares)
    extreme = ~((squares > 2.0**-900) & (squares < np.inf))
    if extreme.any():  # squares under- or overflow: scale by a power of two
        exponents = np.frexp(np.abs(rows[extreme]).max(axis=1))[1]
        scaled = np.ldexp(rows[extreme].astype(np.float64), -exponents[:, None])
        lengths = up * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        # Only a length of 0 scales back without rounding.
        out[extreme] = np.nextafter(np.ldexp(lengths, exponents), np.where(lengths > 0.0, np.inf, 0.0))
    return out


def _each(atoms: Atoms, work: Callable[[Matrix], Vector]) -> Iterator[tuple[int, Vector]]:
    """Yield (first id, work(block)) over one pass, blocks checked to be finite."""

    def check_and_work(task: tuple[int, Matrix]) -> tuple[int, int, Vector]:
        first, block = task
        check_finite(block, first)
        with np.errstate(over="ignore", invalid="ignore"):  # huge atoms: inf is a true bound
            return first, len(block), work(block)

    for first, rows, value in map_ordered(check_and_work, atoms.blocks(block_rows(atoms))):
        report_rows(rows)
        yield first, value


def norms(atoms: Atoms) -> Vector:
    """(n,) norms of the atoms, proved upper bounds to float64 rounding; one pass.

    Examples
    --------
    >>> norms(ArrayAtoms([[3.0, 4.0]])).round(12)
    array([5.])
    """
    out = np.empty(atoms.shape[0])
    for first, lengths in _each(atoms, _lengths):
        out[first : first + len(lengths)] = lengths
    return out


def diameter_bound(atoms: Atoms) -> float:
    """Proved upper bound on the diameter of the hull; two passes.

    ``2 max |s_i - m|`` with m the mean of the atoms: by the triangle inequality
    a bound for any m, so the rounding of m does no harm, and at most twice too
    large for m in the hull.

    Examples
    --------
    >>> round(diameter_bound(ArrayAtoms([[0.0, 0.0], [3.0, 4.0]])), 12)
    5.0
    """
    mean = np.zeros(atoms.shape[1])
    for _, total in _each(atoms, lambda block: block.sum(axis=0, dtype=np.float64)):
        mean += total / atoms.shape[0]
    mean[~np.isfinite(mean)] = 0.0
    far = [lengths.max() for _, lengths in _each(atoms, lambda block: _lengths(block - mean))]
    return 2.0 * float(max(far))


# ---------------------------------------------------------------- fingerprints


def fingerprint(atoms: Atoms, sizes: Sequence[int] | None = None) -> Fingerprint:
    """Return one `PartPrint` per part: tells whether two atoms are the same, to the last bit.

    Nothing but a sample of 1,024 rows is read before a digest is looked at; then all rows are,
    once. The same for the same rows in memory, on disk and in shards, which say their own.

    Parameters
    ----------
    atoms
        What is told.
    sizes
        Rows of each part, n in all; default: as the atoms are in parts.

    Examples
    --------
    >>> fingerprint(ArrayAtoms([[1.0, 2.0]]))[0].kind
    (1, 2, 'float64')
    """
    if isinstance(atoms, TableAtoms):  # ids are of rows of the table
        return tuple(part.resize(atoms.report.rows) for part in fingerprint(atoms.atoms))
    if sizes is not None:
        return print_rows(atoms, sizes)
    known: Fingerprint | None = getattr(atoms, "fingerprint", None)
    return tuple(print_rows(part)[0] for part in _parts(atoms)) if known is None else known
