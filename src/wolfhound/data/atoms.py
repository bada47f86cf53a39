"""The atoms: rows in memory, in files, joined or mapped, after an edit or scaled, and passes over them.

Knows how rows are stored and read; must not know what a query or an objective
is. Every `blocks` gives read-only arrays, so that one specialisation of a
compiled kernel serves them all and nobody writes into a caller's array.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Matrix, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import gamma
from wolfhound.core.text import list_some
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, function, is_oracle, kind, require, require_exact
from wolfhound.core.validate import ids as checked_ids
from wolfhound.data.encoding import EncodingPlan, Missing, TableAtoms, encode_source, read_parts
from wolfhound.data.files import (
    ArrayAtoms,
    FileAtoms,
    KeptAtoms,
    find_mapped_file,
    lock,
    read_ahead,
    summary,
    table,
    valid_ids,
    widen,
)
from wolfhound.data.table_atoms import RowAtoms
from wolfhound.data.table_files import open_table
from wolfhound.data.tables import find_frame

__all__ = ["ArrayAtoms", "ConcatAtoms", "FileAtoms", "Fingerprint", "KeptAtoms", "MappedAtoms", "PartPrint"]
__all__ += ["as_atoms", "block_rows", "check_finite", "diameter_bound", "fingerprint", "finite_rows", "norms"]
__all__ += ["widen"]

R = TypeVar("R")


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

    __slots__ = ("_starts", "dtype", "parts", "shape")

    def __init__(self, parts: Sequence[AtomsLike]) -> None:
        kind(parts, "parts", "a list of atoms, arrays or paths", list, tuple)
        require(len(parts) > 0, "parts", "at least one set of atoms", "none")
        flat = [atoms for part in parts for atoms in _parts(as_atoms(part))]
        dims = sorted({part.shape[1] for part in flat})
        require(len(dims) == 1, "parts", "atoms of equal dimension", f"dimensions {dims}")
        self.parts: tuple[Atoms, ...] = tuple(flat)
        self._starts: Ids = np.cumsum([0, *(part.shape[0] for part in flat)], dtype=np.int64)
        self.shape = int(self._starts[-1]), dims[0]
        self.dtype: np.dtype[Any] = np.result_type(*(part.dtype for part in flat))

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
        return join(read_parts([open_table(value)]))
    if isinstance(value, (list, tuple)) and value and all(map(_is_part, value)):
        paths = all(isinstance(part, (str, os.PathLike)) for part in value)
        return join(read_parts(map(open_table, cast(Any, value)))) if paths else ConcatAtoms(value)
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


# ---------------------------------------------------------------- rows of a table, and places among atoms

# The ids of a caller are rows of his table, those of atoms places among the rows that are kept. All doors
# map the one to the other by these lines, where there is a table.


def find_rows(atoms: Any) -> TableAtoms | None:
    """Return a frame or a table as atoms, without the rows that have missing values; None for others."""
    if isinstance(atoms, TableAtoms):
        return atoms
    plain = isinstance(atoms, np.ndarray) and atoms.dtype.names is None
    source = None if plain or is_oracle(atoms) else find_frame(atoms)
    return None if source is None else encode_source(source, EncodingPlan(called="atoms"))


def to_places(table: TableAtoms | None, rows: Any, name: str, *, strict: bool = True) -> Any:
    """Return the ids of atoms for those of a caller; if strict, rows that are left out are refused."""
    return rows if table is None else table.find_places(rows, name, strict=strict)


def to_rows(table: TableAtoms | None, places: Ids) -> Ids:
    """Return the ids of a caller for those of atoms."""
    return places if table is None else table.name_rows(places)


def hear_rows(table: TableAtoms | None, callback: Any) -> Any:
    """Return a callback that hears states whose ids are those of the caller."""
    if callback is None or table is None or table.ids is None:
        return callback
    return lambda state: callback(replace(state, ids=table.name_rows(state.ids)))


def take_by_rows(table: TableAtoms) -> Atoms:
    """Return atoms whose ids are rows of the table, as those of its results are."""
    return table.atoms if table.ids is None else RowAtoms(table)


def refuse_gaps(table: TableAtoms | None, value: object, name: str) -> None:
    """Refuse what is written during a run, by places, where rows of the table are left out."""
    rule = "None where rows of a table are left out; leave them out before the call"
    require(value is None or table is None or table.ids is None, name, rule, value)


# ---------------------------------------------------------------- passes


def block_rows(atoms: Atoms, nbytes: int = 16 << 20) -> int:
    """Rows per block of a pass: blocks of about `nbytes`, at any thread count."""
    return max(1, nbytes // (atoms.shape[1] * atoms.dtype.itemsize))


def check_finite(block: Matrix, first: int | Ids, name: str = "atoms") -> None:
    """Raise ValueError if an entry is nan or infinite, naming its row; `first`: the first id, or all ids."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum()):  # one fast read; a sum that overflows is looked into below
            return
    bad = ~np.isfinite(block)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        where = f"row {first[row] if isinstance(first, np.ndarray) else first + row}, column {column}"
        raise ValueError(f"`{name}` must be finite. Got {block[row, column]} in {where}.")


def draw_some(n: int, size: int, rng: np.random.Generator) -> Ids:
    """Return `size` of n ids at random, in order; all, without a draw, if there are no more."""
    return np.sort(rng.choice(n, size, replace=False).astype(np.int64)) if size < n else np.arange(n)


def finite_rows(atoms: Atoms, ids: Ids, name: str = "atoms") -> Matrix:
    """Take rows, and raise ValueError if one is not finite, naming it."""
    rows = atoms.take(ids)
    check_finite(rows, ids, name)
    return rows


@final
class FewAtoms(KeptAtoms):
    """Atoms so few of all that they are taken, not read with the others; an error names the row of all."""

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these places."""
        return finite_rows(self.atoms, self.ids[valid_ids(ids, len(self.ids))])

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first place, read-only block) over all rows once, in order."""
        for first in range(0, len(self.ids), count(rows, "rows", low=1)):
            yield first, lock(finite_rows(self.atoms, self.ids[first : first + rows]))


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


def map_blocks(
    atoms: Atoms, work: Callable[[int, Matrix], R], *, name: str = "atoms", nbytes: int = 16 << 20
) -> Iterator[tuple[int, R]]:
    """Yield (first id, work(first id, block)) over one pass on our threads, blocks checked to be finite.

    Where numbers of the work overflow it gives inf, or looks at them itself: no warning is made of them.
    """

    def check_and_work(task: tuple[int, Matrix]) -> tuple[int, int, R]:
        first, block = task
        check_finite(block, first, name)
        with np.errstate(over="ignore", invalid="ignore"):
            return first, len(block), work(first, block)

    for first, rows, value in map_ordered(check_and_work, atoms.blocks(block_rows(atoms, nbytes))):
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
    for first, lengths in map_blocks(atoms, lambda _, block: _lengths(block)):
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
    for _, total in map_blocks(atoms, lambda _, block: block.sum(axis=0, dtype=np.float64)):
        mean += total / atoms.shape[0]
    mean[~np.isfinite(mean)] = 0.0
    far = [lengths.max() for _, lengths in map_blocks(atoms, lambda _, block: _lengths(block - mean))]
    return 2.0 * float(max(far))


# ---------------------------------------------------------------- fingerprints

# Which atoms something was made from: their size, their type, and a digest of all their rows. A digest is a
# tree: rows are hashed in leaves of fixed size, on all threads, and the leaves are hashed. So it does not
# depend on the number of threads, on where rows are kept, nor on the blocks in which they are read.

SAMPLE = 1024
"""Up to so many rows are hashed at once; of more, so many are, until all of them have to be."""

LEAF = 4 << 20
"""Bytes of a leaf, about."""

UNKNOWN = ""
"""The digest of atoms that could not be read when it was asked for; or that nobody needs."""

DIGITS = 64
"""Of a digest of all rows, as text."""


@final
class PartPrint:
    """Which atoms one set is; two are equal if all their rows are.

    The digest is made when it is first looked at, by a save, a comparison or a copy to another
    process: one read of all rows at the speed of a hash. Until then the atoms are held, and must
    stay as they are. "" equals nothing: it is not known.
    """

    __slots__ = ("_digest", "d", "dtype", "n")

    def __init__(
        self, n: int, d: int, dtype: str, digest: str | tuple[Callable[[], list[str]], int] = UNKNOWN
    ) -> None:
        self.n, self.d, self.dtype = n, d, dtype
        self._digest = digest

    @property
    def digest(self) -> str:
        """Hash of all rows; OSError if they can no longer be read, or are others now."""
        if isinstance(self._digest, tuple):
            hash_parts, place = self._digest
            self._digest = hash_parts()[place]
        return self._digest

    @property
    def kind(self) -> tuple[int, int, str]:
        """All but the digest."""
        return self.n, self.d, self.dtype

    def resize(self, n: int) -> PartPrint:
        """The same rows, said to be of a table with n."""
        return PartPrint(n, self.d, self.dtype, self._digest)

    def settle(self) -> PartPrint:
        """Make the digest now; it is unknown if rows can no longer be read."""
        try:
            return PartPrint(*self.kind, self.digest)
        except OSError:
            return PartPrint(*self.kind)

    def __iter__(self) -> Iterator[Any]:
        """Yield what is saved."""
        return iter((*self.kind, self.digest))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PartPrint) or self.kind != other.kind:
            return False
        # The same rows, not hashed yet.
        waiting = isinstance(self._digest, tuple) and self._digest is other._digest
        return waiting or UNKNOWN != self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return PartPrint, (*self.kind, self.settle().digest)

    def __repr__(self) -> str:
        """Size, type, and the digest if it is known."""
        known = "..." if isinstance(self._digest, tuple) else self._digest
        return f"PartPrint({self.n} x {self.d}, {self.dtype}, {known!r})"


Fingerprint: TypeAlias = tuple[PartPrint, ...]


def print_rows(atoms: Atoms, sizes: Sequence[int] | None = None) -> Fingerprint:
    """Return what tells atoms from others, of one part or of parts of these sizes."""
    n, d = atoms.shape
    name = atoms.dtype.name
    if sizes is None and n <= SAMPLE:
        rows = getattr(atoms, "plain", None)
        return (PartPrint(n, d, name, _hash(atoms.take(np.arange(n)) if rows is None else rows).hex()),)
    parts = (n,) if sizes is None else tuple(sizes)
    some = _hash_some(atoms)

    @cache
    def hash_parts() -> list[str]:
        """Hash all parts in one pass; some rows as they were tell a change."""
        if _hash_some(atoms) != some:
            raise OSError(f"{atoms!r} has changed since it was first read: it must stay as it is")
        return hash_rows(atoms, parts)

    return tuple(PartPrint(size, d, name, (hash_parts, place)) for place, size in enumerate(parts))


def hash_rows(atoms: Atoms, sizes: Sequence[int]) -> list[str]:
    """Return a digest of all rows for each of consecutive parts; one pass, in a few blocks of memory."""
    step = max(1, LEAF // (atoms.shape[1] * atoms.dtype.itemsize))
    # Rows of each leaf of each part; few rows are one, so that they can also be hashed at once.
    leaves = [[n] if n <= SAMPLE else [min(step, n - first) for first in range(0, n, step)] for n in sizes]
    hashes = map_ordered(_hash, _cut(atoms.blocks(step), itertools.chain(*leaves)), blas=False)
    found = [list(itertools.islice(hashes, len(mine))) for mine in leaves]
    roots = (each[0] if n <= SAMPLE else _join(each) for n, each in zip(sizes, found, strict=True))
    return [root.hex() for root in roots]


def _cut(blocks: Iterable[tuple[int, Matrix]], sizes: Iterable[int]) -> Iterator[Matrix]:
    """Cut the blocks of a pass anew, into consecutive ones of these sizes."""
    source = (block for _, block in blocks)
    left: Matrix = np.empty((0, 0))
    for size in sizes:
        held: list[Matrix] = []
        missing = size
        while missing > 0:
            left = left if len(left) else next(source)
            held.append(left[:missing])
            left, missing = left[missing:], missing - len(left)
        yield held[0] if len(held) == 1 else np.concatenate(held)


def _hash(rows: Matrix) -> bytes:
    """Digest of some rows, the same on every machine."""
    data = np.ascontiguousarray(rows.astype(rows.dtype.newbyteorder("<"), copy=False))
    return hashlib.blake2b(data.data, digest_size=DIGITS // 2).digest()


def _join(hashes: Iterable[bytes]) -> bytes:
    """Digest of the leaves, which is never that of rows."""
    return hashlib.blake2b(b"".join(hashes), digest_size=DIGITS // 2, person=b"leaves").digest()


def _hash_some(atoms: Atoms) -> bytes:
    """Digest of up to `SAMPLE` rows, always the same ones."""
    # Raw bits of PCG64 stay the same in all versions of numpy, those of a Generator may not.
    drawn = np.random.PCG64(20).random_raw(SAMPLE) % np.uint64(atoms.shape[0])
    return _hash(atoms.take(np.unique(drawn).astype(np.int64)))


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


def in_files(atoms: Atoms) -> bool:
    """Whether rows are read from files, all or some."""
    if isinstance(atoms, (MappedAtoms, KeptAtoms)):
        return in_files(atoms.atoms)
    if isinstance(atoms, ConcatAtoms):
        return any(map(in_files, atoms.parts))
    return isinstance(atoms, FileAtoms)


# ---------------------------------------------------------------- adding


def check_order(names: Sequence[str], others: Sequence[str], name: str) -> None:
    """Raise ValueError if columns of one name stand at different places: rows are used by place."""
    places = {column: place for place, column in enumerate(names)}
    same = all(places.get(column, place) == place for place, column in enumerate(others))
    rule = f"a table with the columns of the atoms in their order, {list_some(names)}"
    require(same, name, rule, list_some(others))


def append_rows(atoms: Atoms, rows: AtomsLike) -> Atoms:
    """Return atoms followed by rows, or by one (d,) vector; their type stays.

    What is in memory, in one array each, becomes one array; all else stays where it is, in parts.
    Of float64 rows, float32 atoms take only those that float32 holds exactly.
    """
    one = isinstance(rows, np.ndarray) and rows.ndim == 1
    added = as_atoms(rows[None] if one else rows, "rows")  # type: ignore[index, call-overload]
    d = atoms.shape[1]
    require(added.shape[1] == d, "rows", f"vectors of {d} entries, as the atoms", f"shape {added.shape}")
    names, others = (getattr(each, "names", ()) for each in (atoms, added))  # of tables
    check_order(names, others, "rows")
    added = _as_type(added, atoms.dtype)
    for first, block in added.blocks(block_rows(added)):
        check_finite(block, first, "rows")
    if not (isinstance(atoms, ArrayAtoms) and isinstance(added, ArrayAtoms)):
        return ConcatAtoms([atoms, added])
    n, whole = atoms.shape[0], np.empty((atoms.shape[0] + added.shape[0], d), atoms.dtype)
    whole[:n], whole[n:] = atoms.rows, added.rows
    return ArrayAtoms(whole, names or others)


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
    raise ValueError(f"`rows` must be {rule}. Got {added.dtype}.")


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
    """
    if not len(gone):
        return atoms
    if isinstance(atoms, ArrayAtoms):
        return ArrayAtoms(np.delete(atoms.rows, gone, axis=0), atoms.names)
    if isinstance(atoms, ConcatAtoms):
        starts = atoms._starts
        mine = np.split(gone, np.searchsorted(gone, starts[1:-1]))
        parts = zip(atoms.parts, mine, starts, strict=False)
        return join([remove_rows(p, each - start) for p, each, start in parts if len(each) < p.shape[0]])
    if isinstance(atoms, KeptAtoms):
        return KeptAtoms(atoms.atoms, np.delete(atoms.ids, gone))
    return KeptAtoms(atoms, np.delete(np.arange(atoms.shape[0]), gone))
