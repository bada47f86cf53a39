"""Which atoms something was made from: their size, their type, and a digest of all their rows.

Private: import the names from `wolfhound.data.atoms`.

A digest is a tree: rows are hashed in leaves of fixed size, on all threads, and the leaves
are hashed. So it does not depend on the number of threads, on where rows are kept, nor on
the blocks in which they are read.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from wolfhound.core.contracts import Atoms, Matrix
from wolfhound.core.threads import map_ordered

SAMPLE = 1024
"""Up to so many rows are hashed at once; of more, so many are, until all of them have to be."""

LEAF = 4 << 20
"""Bytes of a leaf, about."""

UNKNOWN = ""
"""The digest of atoms that could not be read when it was asked for; or that nobody needs."""

DIGITS = 64
"""Of a digest of all rows, as text."""

_NAMES = {np.dtype(kind): np.dtype(kind).name for kind in (np.float32, np.float64)}  # .name takes its time


@final
class PartPrint:
    """Which atoms one set is; two are equal if all their rows are.

    The digest is made when it is first looked at, by a save, a comparison or a copy to another
    process: one read of all rows at the speed of a hash. Until then the atoms are held, and must
    stay as they are. "" equals nothing: it is not known.
    """

    __slots__ = ("_digest", "d", "dtype", "n")

    def __init__(self, n: int, d: int, dtype: str, digest: str | tuple[_Rows, int] = UNKNOWN) -> None:
        self.n, self.d, self.dtype = n, d, dtype
        self._digest = digest

    @property
    def digest(self) -> str:
        """Hash of all rows; OSError if they can no longer be read, or are others now."""
        if isinstance(self._digest, tuple):
            rows, place = self._digest
            self._digest = rows.hash_parts()[place]
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


class _Rows:
    """Atoms whose digests are not made yet, and some rows as they were, which tell a change."""

    __slots__ = ("_atoms", "_found", "_sizes", "_some")

    def __init__(self, atoms: Atoms, sizes: Sequence[int]) -> None:
        self._atoms: Atoms | None = atoms
        self._sizes = sizes
        self._some = _hash_some(atoms)
        self._found: list[str] = []

    def hash_parts(self) -> list[str]:
        """Return the digest of each part; the atoms are let go."""
        atoms = self._atoms  # before what was found, which another thread sets first
        if not self._found and atoms is not None:
            if _hash_some(atoms) != self._some:
                raise OSError(f"{atoms!r} has changed since it was first read: it must stay as it is")
            self._found = hash_rows(atoms, self._sizes)
            self._atoms = None
        return self._found


def print_rows(atoms: Atoms, sizes: Sequence[int] | None = None) -> Fingerprint:
    """Return what tells atoms from others, of one part or of parts of these sizes."""
    n, d = atoms.shape
    name = _NAMES[atoms.dtype]
    if sizes is None and n <= SAMPLE:
        rows = getattr(atoms, "plain", None)
        return (PartPrint(n, d, name, _hash(atoms.take(np.arange(n)) if rows is None else rows).hex()),)
    parts = (n,) if sizes is None else tuple(sizes)
    content = _Rows(atoms, parts)
    return tuple(PartPrint(size, d, name, (content, place)) for place, size in enumerate(parts))


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
