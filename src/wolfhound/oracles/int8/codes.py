"""Atoms as int8 codes with proved errors, in any order: made in one streaming pass, and proved again.

A row s is kept as ``centre + 2**exponent scale code`` with an error that is at
least the distance to s. With the query q rounded to ``step level``, integers both,

    <q, s> = <q, centre> + <step level, scale code> + <q - step level, scale code>
             + <q, s - its code>
          <= <q, centre> + scale step sum + |q - step level| height + |q| error

and the kernel computes ``scale step sum + |q| error`` in float32, each operation
rounded once. `CodedQueries.slack` pays for the rest.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Ids, Matrix, Singles, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import TINY
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import count, number, require
from wolfhound.data.atoms import ArrayAtoms, block_rows, check_finite
from wolfhound.data.files import lock
from wolfhound.data.store import Stored, StoreError
from wolfhound.oracles.asking import Question, lengths
from wolfhound.oracles.int8._kernels import (
    BareCodes,
    BareScale,
    CodeFrame,
    CodeScale,
    code_queries,
    encode,
    make_scratch,
    verify,
)
from wolfhound.oracles.int8.layout import (
    ROWS,
    CodedQueries,
    PackedRows,
    Shorts,
    empty_queries,
    empty_rows,
    shape_of,
)

CHUNK = 40 << 20  # bytes of codes that are swept between two reports

LARGEST = 2.0**90  # of scales, heights and errors, which are about 1: float32 sums of products stay below inf
_FARTHEST = 1000


class CodeChunk(NamedTuple):
    """Codes that are swept together."""

    packed: PackedRows
    span: tuple[int, int]  # blocks of them
    first: int = 0  # place of the first row of `packed` among all

    @property
    def rows(self) -> int:
        """How many they are."""
        return min(ROWS * self.span[1], self.packed.n) - ROWS * self.span[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeStore(abc.ABC):
    """The codes of n atoms of dimension d, wherever they are."""

    ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))  # by place; empty: in their order
    centre: Vector  # (d,) what was subtracted
    zero: int  # 128 if it was subtracted from codes between 0 and 255, else 0
    exponent: int  # scales and errors are in units of 2**exponent
    height: float  # the largest |scale code|, in these units
    error: float  # the largest error, likewise
    radius: float  # at least the largest norm of an atom
    n: int

    def numbers(self) -> dict[str, float]:
        """What is to be saved, with the arrays."""
        return {name: getattr(self, name) for name in _NUMBERS}

    @abc.abstractmethod
    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order; the same chunks each time."""

    @abc.abstractmethod
    def window(self, first: int, stop: int) -> tuple[PackedRows, int]:
        """Return codes that hold the atoms from the first on, and the place of the first code among all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes(CodeStore):
    """Codes in memory."""

    blocks: Shorts  # as of `PackedRows`, as are scales and errors
    scales: Singles
    errors: Singles
    bare: BareCodes = field(init=False)  # for kernels

    def __post_init__(self) -> None:
        """Put together, once, what kernels read."""
        packed = self.blocks, self.scales, self.errors, self.ids, self.n
        object.__setattr__(self, "bare", (packed, bare_scale(self)))

    def pack(self) -> PackedRows:
        """What kernels read."""
        return PackedRows(*self.bare[0])

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order; the same chunks each time."""
        packed, blocks = self.pack(), len(self.blocks)
        step = max(1, CHUNK // self.blocks[0].nbytes)
        for start in range(0, blocks, step):
            yield CodeChunk(packed, (start, min(start + step, blocks)))

    def window(self, first: int, stop: int) -> tuple[PackedRows, int]:
        """Return all codes."""
        return self.pack(), 0

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self.blocks, self.scales, self.errors, self.ids))

    def arrays(self, prefix: str = "codes") -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _ARRAYS}

    @classmethod
    def of(
        cls, stored: Stored, numbers: Mapping[str, Any], shape: tuple[int, int], prefix: str = "codes"
    ) -> Codes:
        """Put together what was saved; whatever it holds, kernels may read it.

        Not yet proved to be the codes of any atoms, see `find_wrong_row`. What follows from
        the rest, n and the radius, is computed again.

        `numbers` are what `numbers` gave, `shape` is n and d, `prefix` that of the names of the arrays.
        """
        (n, d), array = shape, stored.array
        blocks = shape_of(n, d)
        centre = array(f"{prefix}_centre", np.float64, (d,))
        ids = array(f"{prefix}_ids", np.int64, (None,), low=0, high=n - 1)
        checked = check_numbers(numbers, centre)
        once = len(ids) in (0, n) and np.bincount(ids, minlength=1).max() <= 1
        require(bool(once), "ids", f"a permutation of {n} ids", "others")
        return cls(
            blocks=array(f"{prefix}_blocks", np.int16, blocks),
            scales=array(f"{prefix}_scales", np.float32, (ROWS * blocks[0],), low=0.0, high=LARGEST),
            errors=array(f"{prefix}_errors", np.float32, (ROWS * blocks[0],), low=0.0, high=LARGEST),
            ids=ids,
            centre=centre,
            **checked,
            n=n,
        )


def bare_scale(codes: CodeStore) -> BareScale:
    """Compute the fields of the `CodeScale` of some codes."""
    most = min(32767, (2**31 - 1) // ((127 + codes.zero) * len(codes.centre)))
    middle, radius = np.ldexp(codes.centre, -codes.exponent), math.ldexp(codes.radius, -codes.exponent)
    return middle, codes.zero, codes.exponent, codes.height, codes.error, radius, most


def check_numbers(numbers: Mapping[str, Any], centre: Vector) -> dict[str, Any]:
    """Check numbers that were saved; return them with the radius that follows."""
    height, error = (number(numbers[name], name, low=0.0) for name in ("height", "error"))
    exponent = count(numbers["exponent"], "exponent", low=-_FARTHEST)
    require(max(height, error) <= LARGEST, "height", f"<= {LARGEST:g}", max(height, error))
    require(exponent <= _FARTHEST, "exponent", f"<= {_FARTHEST}", exponent)
    require(numbers["zero"] in (0, 128), "zero", "0 or 128", numbers["zero"])
    require(bool(np.abs(centre).max() <= math.ldexp(1.0, exponent + 400)), "centre", "near", "a far one")
    return {
        "zero": int(numbers["zero"]),
        "exponent": exponent,
        "height": height,
        "error": error,
        "radius": reach(centre, height + error, exponent),
    }


def places_of(ids: Ids, n: int) -> Ids:
    """Place of each of n atoms; ids: atom at each place, none if in order."""
    places = np.arange(n)
    places[ids] = np.arange(len(ids))
    return places


def reach(centre: Vector, size: float, exponent: int) -> float:
    """At least the norm of all that is no farther than ``2**exponent size`` from the centre."""
    return (math.ldexp(size, exponent) + float(lengths(centre[None])[0])) * (1.0 + 1e-15) + TINY


_ARRAYS = ("blocks", "scales", "errors", "ids", "centre")
_NUMBERS = ("zero", "exponent", "height", "error", "radius", "n")


# ---------------------------------------------------------------- queries


def encode_queries(codes: CodeStore, question: Question) -> CodedQueries:
    """Round queries to integers, and bound what that loses; see `code_queries`."""
    out = CodedQueries(*empty_queries(question.queries.shape[1], question.exclude))
    code_queries(question.queries, question.sizes, CodeScale(*bare_scale(codes)), out)
    return out


_SAMPLE = 4096
_RANGE = 2.0**60
_WIDEST = 1 << 20
_GATHERED = 1 << 20  # bytes of rows that are gathered at a time: they stay in the processor's cache
_LARGEST = 2.0**511
# Exponents by size of a float: 2**-exponent must fit, and squares of a centre in these units.
_EXTREME = {4: 120, 8: 1000}
_APART = {4: 60, 8: 400}


def encode_atoms(atoms: Atoms, *, ids: Ids | None = None, centre: Vector | None = None) -> Codes:
    """Encode all atoms in one pass, exceptionally in two.

    All rows are checked to be finite. `ids` say which atom is at each place. Any centre is right; one that
    makes the atoms small makes the errors small.
    """
    n, d = atoms.shape
    packed = empty_rows(n, d, np.empty(0, np.int64) if ids is None else ids)
    rows = atoms.plain if ids is not None and isinstance(atoms, ArrayAtoms) else None
    # Codes of single rows lie apart. What is in memory is read in the order of the places instead, whole
    # blocks of codes at a time: `places` are then the atoms by place, else the places by atom.
    places = places_of(packed.ids, n) if rows is None else packed.ids
    some = max(1, _GATHERED // (d * atoms.dtype.itemsize * ROWS)) * ROWS

    def put(encoder: Encoder) -> Iterator[Extent]:
        def work(task: tuple[int, Matrix]) -> tuple[int, Extent]:
            first, block = task
            mine = np.arange(first, first + len(block))
            if rows is None:
                return len(mine), encoder.encode(mine, block, places[mine], packed)
            return len(mine), encoder.encode(places[mine], rows[places[mine]], mine, packed)

        for many, extent in map_ordered(work, atoms.blocks(block_rows(atoms) if rows is None else some)):
            report_rows(many)
            yield extent

    return Codes(**packed._asdict(), **encode_twice(atoms, centre, put))


class Extent(NamedTuple):
    """How large some rows are: their largest entry in the caller's units, height and error."""

    top: float
    height: float
    error: float


def encode_twice(
    atoms: Atoms, centre: Vector | None, put: Callable[[Encoder], Iterable[Extent]]
) -> dict[str, Any]:
    """Have `put` encode all atoms, again if the first scale was wrong; return what `Codes` has of all."""
    n, d = atoms.shape
    require(d <= _WIDEST, "atoms", f"of dimension <= {_WIDEST:,}", d)
    rows = atoms.take(np.unique(np.random.default_rng(0).integers(0, n, min(n, _SAMPLE))))
    rows = np.where(np.isfinite(rows), rows, 0.0)  # the pass names the row that is not finite
    middle = np.zeros(d) if centre is None else centre.astype(atoms.dtype).astype(np.float64)
    zero = 128 if centre is None and rows.min() >= 0.0 and rows.max() > 0.0 else 0
    guess = float(np.abs(rows - middle).max())
    encoder = Encoder.near(guess, middle, zero, atoms.dtype)
    extent = join_extents(put(encoder))
    apart = not (extent.top / _RANGE < guess < extent.top * _RANGE and extent.error < math.inf)
    if extent.top > 0.0 and apart:
        # The sample did not tell the scale of the rest: float32 would lose too much.
        encoder = Encoder.near(extent.top, middle, zero, atoms.dtype)
        extent = join_extents(put(encoder))
    # Rows of zeros have no scale, and errors of some: a shard of them stands beside others that have one.
    nothing = extent.top == 0.0 and not middle.any()
    return {
        "centre": middle,
        "zero": zero,
        "exponent": encoder.exponent,
        "height": extent.height,
        "error": extent.error,
        "radius": TINY if nothing else reach(middle, extent.height + extent.error, encoder.exponent),
    }


def join_extents(extents: Iterable[Extent]) -> Extent:
    """How large all rows are together."""
    return Extent(*(float(max(column)) for column in zip(*extents, strict=True)))


class Encoder(NamedTuple):
    """Encodes rows about a centre, `middle`, in units of ``2**exponent``."""

    frame: CodeFrame
    exponent: int
    middle: Vector

    @classmethod
    def near(cls, top: float, centre: Vector, zero: int, dtype: np.dtype[Any]) -> Encoder:
        """Return the one that is best if the largest entry of what is encoded is near `top`."""
        size = dtype.itemsize
        far = float(np.abs(centre).max())
        least = max(math.frexp(far)[1] - _APART[size] if far > 0.0 else -math.inf, -_EXTREME[size])
        # Rows that all are the centre have no scale of their own: errors are far below the centre's.
        wanted = math.frexp(top)[1] if top > 0.0 or far == 0.0 else math.frexp(far)[1] - _APART[4]
        exponent = int(min(max(wanted, least), _EXTREME[size]))
        unit = dtype.type(math.ldexp(1.0, -exponent))
        frame = CodeFrame(np.asarray(unit * centre.astype(dtype.type)), unit, zero)
        return cls(frame, exponent, centre)

    def encode(self, ids: Ids, block: Matrix, places: Ids, packed: PackedRows) -> Extent:
        """Encode a block of the atoms `ids` to places; on any thread."""
        exponent, scratch = self.exponent, make_scratch(block.shape[1], block.dtype)
        rows = lock(block.view())  # one kind of array: two are compiled twice
        top, height, error = encode(rows, places, self.frame, scratch, packed)
        if math.isnan(error) or height > math.ldexp(_LARGEST, -max(exponent, -500)):
            for row, name in zip(block, ids.tolist(), strict=True):
                check_norms(row[None], name)
        if math.isnan(error):  # only its scale is out of range
            return Extent(float(np.abs(block).max()), 0.0, math.inf)
        return Extent(math.ldexp(top, exponent), height, error)


def find_wrong_row(codes: CodeStore, atoms: Atoms) -> int | None:
    """Prove that codes are those of the atoms, in one pass; return a row that is not, if there is.

    For every row, its error is shown to be at least the distance from what its code
    stands for, and the height at least the size of that: all that bounds rest on.
    """
    places = places_of(codes.ids, codes.n) if len(codes.ids) else None
    centre = np.ldexp(codes.centre, -codes.exponent)
    frame = CodeFrame(centre, math.ldexp(1.0, -codes.exponent), codes.zero)

    def work(task: tuple[int, Matrix]) -> tuple[int, int]:
        first, block = task
        stop = first + len(block)
        packed, start = codes.window(first, stop)
        mine = np.arange(first, stop) - start if places is None else places[first:stop]
        wrong = verify(block, mine, frame, codes.height, packed)
        return len(block), first + wrong if wrong >= 0 else -1

    for rows, wrong in map_ordered(work, atoms.blocks(block_rows(atoms))):
        report_rows(rows)
        if wrong >= 0:
            return wrong
    return None


def check_norms(block: Matrix, first: int) -> None:
    """Raise ValueError if a row is not finite, or too long for float64 sums of squares."""
    check_finite(block, first)
    long = np.abs(block).max(axis=1).astype(np.float64) > _LARGEST / math.sqrt(block.shape[1])
    if long.any():
        row = first + int(np.flatnonzero(long)[0])
        raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")


def check_codes(stored: Stored, codes: CodeStore, atoms: Atoms) -> None:
    """Raise StoreError unless all codes are proved to be those of the atoms; one pass."""
    if isinstance(codes, Codes) and codes.errors.max() > codes.error:
        raise stored.wrong(f"errors must be <= {codes.error:g}")
    row = find_wrong_row(codes, atoms)
    if row is not None:
        rule = f"`atoms` must be the atoms that {stored.path} was made from."
        raise StoreError(f"{rule} Got a row {row} that is not the one of these codes.")
