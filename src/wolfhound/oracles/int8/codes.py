"""Atoms as int8 codes with proved errors, in any order, and one pass over them.

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

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Singles, Vector
from wolfhound.oracles._question import Question, lengths
from wolfhound.oracles.int8._encode_kernels import BareScale, CodedRows, CodeScale, code_queries, empty_coded
from wolfhound.oracles.int8.layout import ROWS, BareRows, PackedQueries, PackedRows, Shorts, shape_of
from wolfhound.rounding import TINY
from wolfhound.store import Stored
from wolfhound.validate import count, number, require

CHUNK = 40 << 20
"""Bytes of codes that are swept between two reports."""

LARGEST = 2.0**90
"""Bounds scales, heights and errors, which are about 1: float32 sums of products stay far below inf."""

_FARTHEST = 1000


class CodeChunk(NamedTuple):
    """Codes that are swept together.

    Attributes
    ----------
    packed : PackedRows
    span : (int, int)
        Blocks of them.
    first : int
        Place of the first row of `packed` among all.
    """

    packed: PackedRows
    span: tuple[int, int]
    first: int = 0

    @property
    def rows(self) -> int:
        """How many they are."""
        return min(ROWS * self.span[1], self.packed.n) - ROWS * self.span[0]


Window: TypeAlias = Callable[[int, int], tuple[PackedRows, Ids]]
"""Of so many atoms from the first on: codes, and the places in them."""


class CodeStore(Protocol):
    """The codes of atoms, wherever they are; the properties are those of `Codes`, which are in memory."""

    @property
    def ids(self) -> Ids:
        """Atom at each place; empty if atom i is at place i."""

    @property
    def centre(self) -> Vector:
        """(d,) what was subtracted."""

    @property
    def zero(self) -> int:
        """128 or 0."""

    @property
    def exponent(self) -> int:
        """Of the units."""

    @property
    def height(self) -> float:
        """The largest size of a code."""

    @property
    def error(self) -> float:
        """The largest error."""

    @property
    def radius(self) -> float:
        """At least the largest norm of an atom."""

    @property
    def n(self) -> int:
        """How many atoms."""

    def scale(self) -> CodeScale:
        """What decides how a query is rounded; see `bare_scale`."""

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order; the same chunks each time."""

    def sample(self, which: Ints) -> PackedRows:
        """Return some blocks, all of them full."""

    def windows(self) -> Window:
        """Return a function that gives codes, and the places in them of some atoms."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """The codes of n atoms of dimension d.

    Attributes
    ----------
    blocks, scales, errors, ids, n
        Of `PackedRows`.
    centre : (d,) float64
    zero : int
        128 if it was subtracted from codes between 0 and 255, else 0.
    exponent : int
        Scales and errors are in units of ``2**exponent``.
    height, error : float
        The largest |scale code| and error, in these units.
    radius : float
        At least the largest norm of an atom.
    bare
        The fields of `PackedRows` and `CodeScale`: what kernels read.
    """

    blocks: Shorts
    scales: Singles
    errors: Singles
    ids: Ids
    centre: Vector
    zero: int
    exponent: int
    height: float
    error: float
    radius: float
    n: int
    bare: tuple[BareRows, BareScale] = field(init=False)

    def __post_init__(self) -> None:
        """Put together, once, what kernels read."""
        packed = self.blocks, self.scales, self.errors, self.ids, self.n
        object.__setattr__(self, "bare", (packed, bare_scale(self)))

    def pack(self) -> PackedRows:
        """What kernels read."""
        return PackedRows(*self.bare[0])

    def scale(self) -> CodeScale:
        """What decides how a query is rounded."""
        return CodeScale(*self.bare[1])

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes once, in order; the same chunks each time."""
        packed, blocks = self.pack(), len(self.blocks)
        step = max(1, CHUNK // self.blocks[0].nbytes)
        for start in range(0, blocks, step):
            yield CodeChunk(packed, (start, min(start + step, blocks)))

    def sample(self, which: Ints) -> PackedRows:
        """Return some blocks, all of them full."""
        return self.pack().take_blocks(which)

    def windows(self) -> Window:
        """Return a function that gives all codes, and the places in them of some atoms."""
        places, packed = places_of(self.ids, self.n), self.pack()
        return lambda first, rows: (packed, places[first : first + rows])

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self.blocks, self.scales, self.errors, self.ids))

    def arrays(self, prefix: str = "codes") -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _ARRAYS}

    def numbers(self) -> dict[str, float]:
        """What is to be saved, with `arrays`."""
        return {name: getattr(self, name) for name in NUMBERS}

    @classmethod
    def of(
        cls, stored: Stored, numbers: Mapping[str, Any], shape: tuple[int, int], prefix: str = "codes"
    ) -> Codes:
        """Put together what was saved; whatever it holds, kernels may read it.

        Not yet proved to be the codes of any atoms, see `find_wrong_row`. What follows from
        the rest, n and the radius, is computed again.

        Parameters
        ----------
        stored
            What was read.
        numbers
            What `numbers` gave.
        shape
            n and d.
        prefix
            Of the names of the arrays.
        """
        (n, d), array = shape, stored.array
        blocks = shape_of(n, d)
        centre = array(f"{prefix}_centre", np.float64, (d,))
        ids = array(f"{prefix}_ids", np.int64, (None,))
        checked = check_numbers(numbers, centre)
        require(len(ids) in (0, n) and is_permutation(ids), "ids", f"a permutation of {n} ids", "others")
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


def is_permutation(ids: Ids) -> bool:
    """Whether these are all numbers below their count."""
    seen = np.zeros(len(ids), np.bool_)
    if len(ids) and (ids.min() < 0 or ids.max() >= len(ids)):
        return False
    seen[ids] = True
    return bool(seen.all())


def reach(centre: Vector, size: float, exponent: int) -> float:
    """At least the norm of all that is no farther than ``2**exponent size`` from the centre."""
    return (math.ldexp(size, exponent) + float(lengths(centre[None])[0])) * (1.0 + 1e-15) + TINY


_ARRAYS = ("blocks", "scales", "errors", "ids", "centre")
NUMBERS = ("zero", "exponent", "height", "error", "radius", "n")


# ---------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True, eq=False)
class CodedQueries:
    """Queries as integers, and what their bounds add up to.

    Attributes
    ----------
    levels, rules, exclude
        Of `PackedQueries`.
    base, slack : (m,) float64
        ``base + upper + slack``, with the upper of the kernel, is at least the true
        and the computed float64 score; ``base + upper - 2 size error - slack`` at most.
    exponents : (m,)
        All are in units of ``2**exponent``.
    hopeless : (m,) bool
        Queries that are zero, or so small that products underflow.
    """

    levels: Shorts
    rules: NDArray[Any]
    exclude: Ids
    base: Vector
    slack: Vector
    exponents: Ints
    hopeless: NDArray[np.bool_]

    def pack(self) -> PackedQueries:
        """What kernels read."""
        return PackedQueries(self.levels, self.rules, self.slack, self.exclude)

    def only(self, which: Ints) -> CodedQueries:
        """Return some of the queries."""
        return CodedQueries(*(getattr(self, field.name)[which] for field in fields(self)))

    def scores(self, keys: Singles) -> Vector:
        """Turn (m, c) keys of the kernel into upper bounds in the caller's units."""
        total = keys + (self.base + self.slack)[:, None]
        with np.errstate(over="ignore"):
            scores = np.ldexp(total * (1.0 + 1e-15 * np.sign(total)), self.exponents[:, None])
        return np.asarray(scores + TINY)


def encode_queries(codes: CodeStore, question: Question) -> CodedQueries:
    """Round queries to integers, and bound what that loses; see `code_queries`."""
    out = CodedRows(*empty_coded(*question.queries.shape))
    code_queries(question.queries, question.sizes, codes.scale(), out)
    base, slack, exponents, hopeless = out.numbers
    return CodedQueries(
        out.levels, out.rules, question.exclude, base, slack, exponents.astype(np.int64), hopeless > 0.0
    )
