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
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Singles, Vector
from wolfhound.oracles._question import Question, lengths
from wolfhound.oracles.int8 import _encode_kernels, _sweep_kernels
from wolfhound.oracles.int8._encode_kernels import BareScale, CodeScale
from wolfhound.oracles.int8.layout import ROWS, BareRows, PackedQueries, PackedRows, Shorts, shape_of
from wolfhound.pulse import pulse
from wolfhound.rounding import TINY
from wolfhound.store import Stored
from wolfhound.threads import map_ordered
from wolfhound.validate import count, number, require

CHUNK = 40 << 20
"""Bytes of codes that are swept between two pulses."""

_ROOM = 8192

_LARGE = 16 << 20
"""Bytes of codes from which on a sample costs little beside a pass."""

_SAMPLE = 64
"""Blocks of a sample."""

_MANY = 0.25
"""Share of a sample from which on scoring what is left takes longer than a pass over the atoms."""

LARGEST = 2.0**90
"""Bounds scales, heights and errors, which are about 1: float32 sums of products stay far below inf."""

_FARTHEST = 1000


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
        most = min(32767, (2**31 - 1) // ((127 + self.zero) * len(self.centre)))
        middle, radius = np.ldexp(self.centre, -self.exponent), math.ldexp(self.radius, -self.exponent)
        scale = middle, self.zero, self.exponent, self.height, self.error, radius, most
        object.__setattr__(self, "bare", (packed, scale))

    def pack(self) -> PackedRows:
        """What kernels read."""
        return PackedRows(*self.bare[0])

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self.blocks, self.scales, self.errors, self.ids))

    def arrays(self, prefix: str = "codes") -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _ARRAYS}

    def numbers(self) -> dict[str, float]:
        """What is to be saved, with `arrays`."""
        return {name: getattr(self, name) for name in _NUMBERS}

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
        height, error = (number(numbers[name], name, low=0.0) for name in ("height", "error"))
        exponent = count(numbers["exponent"], "exponent", low=-_FARTHEST)
        centre = array(f"{prefix}_centre", np.float64, (d,))
        ids = array(f"{prefix}_ids", np.int64, (None,))
        require(max(height, error) <= LARGEST, "height", f"<= {LARGEST:g}", max(height, error))
        require(exponent <= _FARTHEST, "exponent", f"<= {_FARTHEST}", exponent)
        require(numbers["zero"] in (0, 128), "zero", "0 or 128", numbers["zero"])
        require(bool(np.abs(centre).max() <= math.ldexp(1.0, exponent + 400)), "centre", "near", "a far one")
        require(len(ids) in (0, n) and is_permutation(ids), "ids", f"a permutation of {n} ids", "others")
        return cls(
            blocks=array(f"{prefix}_blocks", np.int16, blocks),
            scales=array(f"{prefix}_scales", np.float32, (ROWS * blocks[0],), low=0.0, high=LARGEST),
            errors=array(f"{prefix}_errors", np.float32, (ROWS * blocks[0],), low=0.0, high=LARGEST),
            ids=ids,
            centre=centre,
            zero=int(numbers["zero"]),
            exponent=exponent,
            height=height,
            error=error,
            radius=reach(centre, height + error, exponent),
            n=n,
        )


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
_NUMBERS = ("zero", "exponent", "height", "error", "radius", "n")


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


def encode_queries(codes: Codes, question: Question) -> CodedQueries:
    """Round queries to integers, and bound what that loses; see `code_queries`."""
    out = _encode_kernels.empty_coded(len(question.queries), 2 * codes.blocks.shape[1])
    _encode_kernels.code_queries(question.queries, question.sizes, CodeScale(*codes.bare[1]), out)
    return CodedQueries(
        out.levels, out.rules, question.exclude, out.base, out.slack, out.exponents, out.hopeless
    )


# ---------------------------------------------------------------- a pass


@dataclass(frozen=True, slots=True, eq=False)
class CodeCandidates:
    """Rows that can be among the best of m queries.

    Attributes
    ----------
    keys, lows, places : (m, c)
        Upper bounds of the kernel, what a row surely reaches, and places in the codes;
        -inf and -1 where padded.
    floors : (m,) float32
        Rows that are no candidates have keys below; inf: there were too many.
    """

    keys: Singles
    lows: Singles
    places: Ids
    floors: Singles


def room(k: int) -> int:
    """How many candidates a query may have in a chunk."""
    return max(8 * k, _ROOM) + ROWS


def try_sample(codes: Codes, queries: CodedQueries, k: int) -> tuple[NDArray[np.bool_], int]:
    """See in a sample whether codes tell rows apart; where that costs little anyway, hope for it.

    That is so of few codes, and of one query: what it loses is a read of the codes, a
    quarter of a read of the rows. The sample is read from far apart, as neighbours may be alike.

    Returns
    -------
    hopeless : (m,) bool
        Queries of which codes decide too little.
    rows : int
        Rows of the sample.
    """
    blocks = len(codes.blocks)
    if codes.blocks.nbytes < _LARGE or blocks <= _SAMPLE or len(queries.hopeless) == 1:
        return queries.hopeless, 0
    # Without the last block, which may have gaps.
    sample = codes.pack().take_blocks(np.arange(_SAMPLE) * ((blocks - 1) // _SAMPLE))
    found = _sweep(sample, queries, (0, _SAMPLE), max(1, k * sample.n // codes.n), _lowest(queries))
    left = (found.places >= 0).sum(axis=1)
    return queries.hopeless | (left > _MANY * sample.n), sample.n


def sweep_codes(codes: Codes, queries: CodedQueries, k: int) -> CodeCandidates:
    """Read all codes once; keep all rows that can be among the k best.

    The chunks, and the floors that they begin with, do not depend on the threads.
    """
    blocks, packed = len(codes.blocks), codes.pack()
    step = max(1, CHUNK // codes.blocks[0].nbytes)
    spans = [(start, min(start + step, blocks)) for start in range(0, blocks, step)]
    lowest = _lowest(queries)
    parts = [_sweep(packed, queries, spans[0], k, lowest)]
    pulse(min(ROWS * step, codes.n))
    # What the first chunk tells of the k best holds for all.
    floors = np.where(parts[0].floors == np.inf, lowest, parts[0].floors)

    def work(span: tuple[int, int]) -> CodeCandidates:
        return _sweep(packed, queries, span, k, floors)

    for span, part in zip(spans[1:], map_ordered(work, spans[1:], blas=False), strict=True):
        pulse(min(ROWS * span[1], codes.n) - ROWS * span[0])
        parts.append(part)
    keys, lows, places = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("keys", "lows", "places")
    )
    return CodeCandidates(keys, lows, places, np.max([part.floors for part in parts], axis=0))


def _lowest(queries: CodedQueries) -> Singles:
    """Floors to begin with: of hopeless queries nothing is kept."""
    return np.where(queries.hopeless, np.inf, -np.inf).astype(np.float32)


def _sweep(
    packed: PackedRows, queries: CodedQueries, span: tuple[int, int], k: int, floors: Singles
) -> CodeCandidates:
    """Sweep the blocks of a span; rows below the floors are not wanted."""
    m = len(queries.levels)
    shape = (m, room(k))
    keys, lows, places = np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(shape, np.int64)
    fill, rules = np.zeros(m, np.int64), queries.rules.copy()
    rules["floor"] = floors
    found = _sweep_kernels.Found(keys, lows, places, fill)
    asked = PackedQueries(queries.levels, rules, queries.slack, queries.exclude)
    _sweep_kernels.sweep(packed, span, asked, k, found)
    width = max(0, int(fill.max()))
    if m == 1:
        return CodeCandidates(keys[:, :width], lows[:, :width], places[:, :width], rules["floor"])
    padded = np.arange(width) >= fill[:, None]
    keys, lows, places = keys[:, :width].copy(), lows[:, :width].copy(), places[:, :width].copy()
    keys[padded], lows[padded], places[padded] = -np.inf, -np.inf, -1
    return CodeCandidates(keys, lows, places, rules["floor"])
