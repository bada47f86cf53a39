"""Atoms as int8 codes with proved errors, in any order, and one pass over them.

A row s is kept as ``centre + 2**exponent scale code`` with an error that is at
least the distance to s. With the query q rounded to ``step level``, integers both,

    <q, s> = <q, centre> + <step level, scale code> + <q - step level, scale code>
             + <q, s - its code>
          <= <q, centre> + scale step sum + |q - step level| height + |q| error

and the kernel computes ``scale step sum + |q| error`` in float32, each operation
rounded once. `Coded.slack` pays for the rest.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import block_rows, check_finite
from wolfhound.core import TINY, Atoms, Ids, Ints, Matrix, Vector, gamma, pulse
from wolfhound.oracles import _int8_kernels as kernels
from wolfhound.oracles._block import ROWS
from wolfhound.oracles._hits import Asked, lengths
from wolfhound.threads import ordered

_SAMPLE = 4096
_SINGLE = 2.0**-24
_RANGE = 2.0**60
_UNDERFLOW = 2.0**-100

CHUNK = 32 << 20
"""Bytes of codes that are swept between two pulses."""

_ROOM = 8192
_APART = 64
_ENOUGH = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """The codes of n atoms of dimension d.

    Attributes
    ----------
    blocks : (b, pairs, 16) int16
        Two codes each, of two columns; 16 rows to a block.
    scales, errors : (16 b,) float32
    ids : (n,) int64
        Atom at each place; empty if atom i is at place i.
    centre : (d,) float64
    zero : int
        128 if it was subtracted from codes between 0 and 255, else 0.
    exponent : int
        Scales and errors are in units of ``2**exponent``.
    height, error : float
        The largest |scale code| and error, in these units.
    radius : float
        At least the largest norm of an atom.
    n : int
    """

    blocks: kernels.Shorts
    scales: kernels.Singles
    errors: kernels.Singles
    ids: Ids
    centre: Vector
    zero: int
    exponent: int
    height: float
    error: float
    radius: float
    n: int

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self.blocks, self.scales, self.errors, self.ids))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        names = ("blocks", "scales", "errors", "ids", "centre")
        return {f"codes_{name}": getattr(self, name) for name in names}

    def numbers(self) -> dict[str, float]:
        """What is to be saved, with `arrays`."""
        return {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Codes:
        """Put together what was saved."""
        parts: dict[str, Any] = {
            name.removeprefix("codes_"): array for name, array in arrays.items() if name.startswith("codes_")
        }
        return cls(**parts, **{name: numbers[name] for name in _NUMBERS})


_NUMBERS = ("zero", "exponent", "height", "error", "radius", "n")


# ---------------------------------------------------------------- encoding


def encoded(atoms: Atoms, *, ids: Ids | None = None, centre: Vector | None = None) -> Codes:
    """Encode all atoms in one pass, exceptionally in two.

    Parameters
    ----------
    atoms
        What is encoded; all rows are checked to be finite.
    ids : (n,), optional
        Which atom is at each place.
    centre : (d,), optional
        Subtracted from every atom; any vector is right, one that makes the
        atoms small makes the errors small.
    """
    n, d = atoms.shape
    rows = atoms.take(np.unique(np.random.default_rng(0).integers(0, n, min(n, _SAMPLE))))
    check_finite(rows, 0)
    middle = np.zeros(d) if centre is None else np.asarray(centre, np.float64)
    zero = 128 if centre is None and rows.min() >= 0.0 and rows.max() > 0.0 else 0
    draft = _Draft(atoms, ids, middle, zero)
    top = draft.fill(_exponent(float(np.abs(rows - middle).max())))
    if top > 0.0 and not (1.0 / _RANGE < top < _RANGE and draft.error < math.inf):
        # The sample did not tell the scale of the rest: float32 would lose too much.
        draft.fill(draft.exponent + _exponent(top))
    return draft.codes()


def _exponent(size: float) -> int:
    return math.frexp(size)[1]


class _Draft:
    """Codes that are being filled."""

    def __init__(self, atoms: Atoms, ids: Ids | None, centre: Vector, zero: int) -> None:
        n, d = atoms.shape
        self._atoms = atoms
        self._ids = np.empty(0, np.int64) if ids is None else ids
        self._places = np.empty(len(self._ids), np.int64)
        self._places[self._ids] = np.arange(len(self._ids))
        self._centre, self._zero = centre, zero
        blocks, pairs = -(-n // ROWS), -(-d // 2)
        self._blocks = aligned((blocks, pairs, ROWS), np.int16)
        self._blocks[-1] = 0
        self._scales = np.zeros(ROWS * blocks, np.float32)
        self._errors = np.zeros(ROWS * blocks, np.float32)
        self.exponent, self.height, self.error = 0, 0.0, 0.0

    def fill(self, exponent: int) -> float:
        """Encode all rows; return the largest entry in units of 2**exponent."""
        unit = math.ldexp(1.0, -exponent)
        centre = unit * self._centre

        def work(task: tuple[int, Matrix]) -> tuple[int, float, float, float]:
            first, block = task
            top, height, error = kernels.encode(
                block,
                self._places[first : first + len(block)],
                first,
                centre,
                unit,
                self._zero,
                self._blocks,
                self._scales,
                self._errors,
            )
            if math.isnan(error):
                check_finite(block, first)  # else only its scale is out of range
                error = math.inf
            return len(block), top, height, error

        tops = []
        for size, *found in ordered(work, self._atoms.blocks(block_rows(self._atoms))):
            pulse(size)
            tops.append(found)
        top, self.height, self.error = (float(max(column)) for column in zip(*tops, strict=True))
        self.exponent = exponent
        return top

    def codes(self) -> Codes:
        size = math.ldexp(self.height + self.error, self.exponent)
        return Codes(
            blocks=self._blocks,
            scales=self._scales,
            errors=self._errors,
            ids=self._ids,
            centre=self._centre,
            zero=self._zero,
            exponent=self.exponent,
            height=self.height,
            error=self.error,
            radius=(size + float(lengths(self._centre[None])[0])) * (1.0 + 1e-15) + TINY,
            n=self._atoms.shape[0],
        )


def aligned(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an empty array that starts at a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


# ---------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Queries as integers, and what their bounds add up to.

    Attributes
    ----------
    levels : (m, 2 pairs) int16
    rules : (m,) `kernels.Rules`
    base, slack : (m,) float64
        ``base + upper + slack``, with the upper of the kernel, is at least the true
        and the computed float64 score; ``base + upper - 2 size error - slack`` at most.
    exponents : (m,)
        All are in units of ``2**exponent``.
    """

    levels: kernels.Shorts
    rules: NDArray[Any]
    base: Vector
    slack: Vector
    exponents: Ints

    def scores(self, keys: kernels.Singles) -> Vector:
        """Turn (m, c) keys of the kernel into upper bounds in the caller's units."""
        total = keys + (self.base + self.slack)[:, None]
        with np.errstate(over="ignore"):
            scores = np.ldexp(total * (1.0 + 1e-15 * np.sign(total)), self.exponents[:, None])
        return np.asarray(scores + TINY)


def coded(codes: Codes, ask: Asked) -> Coded:
    """Round queries to integers, and bound what that loses.

    The float32 operations of the kernel lose at most ``(1 + u)**4 - 1`` of
    ``scale step sum`` and ``(1 + u)**2 - 1`` of ``|q| error``, u = 2**-24; 8u is more.
    """
    d = ask.queries.shape[1]
    pairs = codes.blocks.shape[1]
    exponents = np.frexp(ask.sizes)[1].astype(np.int64)
    queries = np.ldexp(ask.queries, -exponents[:, None])
    sizes = lengths(queries)
    most = min(32767, (2**31 - 1) // ((127 + codes.zero) * d))
    steps = _above(np.abs(queries).max(axis=1) / most)
    levels = np.zeros((len(queries), 2 * pairs), np.int16)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.rint(queries / steps[:, None].astype(np.float64))
    levels[:, :d] = np.where(steps[:, None] > 0.0, whole, 0.0)
    lost = lengths(queries - steps[:, None].astype(np.float64) * levels[:, :d]) + 4e-16
    slack = lost * codes.height + 8.0 * _SINGLE * ((sizes + lost) * codes.height + sizes * codes.error)
    middle = np.ldexp(codes.centre, -codes.exponent)
    loop = gamma(d + 2) * sizes * math.ldexp(codes.radius, -codes.exponent)
    slack += _UNDERFLOW + 4.0 * loop + gamma(d + 2) * sizes * float(lengths(middle[None])[0])
    rules = np.empty(len(queries), kernels.Rules)
    rules["start"] = codes.zero * levels.sum(axis=1, dtype=np.int64)
    rules["step"], rules["size"], rules["floor"] = steps, _above(sizes), -np.inf
    return Coded(levels, rules, queries @ middle, 1.001 * slack, exponents + codes.exponent)


def _above(values: Vector) -> kernels.Singles:
    """Round up to float32; 0 stays 0."""
    out = values.astype(np.float32)
    return np.asarray(np.where(out < values, np.nextafter(out, np.float32(np.inf)), out))


# ---------------------------------------------------------------- a pass


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Candidates of m queries.

    Attributes
    ----------
    keys, places : (m, c)
        Upper bounds of the kernel and places in the store, -inf and -1 where padded.
    floors : (m,) float32
        Rows that are no candidates have keys below; inf: there were too many.
    """

    keys: kernels.Singles
    places: Ids
    floors: kernels.Singles


def room(k: int) -> int:
    """How many candidates a query may have in a chunk."""
    return max(8 * k, _ROOM) + ROWS


def swept(codes: Codes, queries: Coded, k: int, exclude: Ids) -> Found:
    """Read all codes once; keep all rows that can be among the k best.

    The chunks and the floors that they begin with do not depend on the threads.
    """
    blocks = len(codes.blocks)
    step = max(1, CHUNK // codes.blocks[0].nbytes)
    floors = np.full(len(queries.levels), -np.inf, np.float32)
    apart = blocks // max(blocks // _APART, _ENOUGH * k // ROWS, 1)
    if apart > 1:
        # A few blocks, far apart, tell what the k best reach at least.
        floors = _sweep(codes, queries, (0, blocks, apart), k, exclude, floors).floors
        floors[floors == np.inf] = -np.inf
    parts = []
    spans = [(start, min(start + step, blocks), 1) for start in range(0, blocks, step)]
    for part in ordered(lambda span: _sweep(codes, queries, span, k, exclude, floors), spans):
        pulse(min(ROWS * step, codes.n))
        parts.append(part)
    return Found(
        np.concatenate([part.keys for part in parts], axis=1),
        np.concatenate([part.places for part in parts], axis=1),
        np.max([part.floors for part in parts], axis=0),
    )


def _sweep(
    codes: Codes, queries: Coded, span: tuple[int, int, int], k: int, exclude: Ids, floors: kernels.Singles
) -> Found:
    """Sweep the blocks range(*span); rows below the floors are not wanted."""
    m = len(queries.levels)
    keys, places = np.empty((m, room(k)), np.float32), np.empty((m, room(k)), np.int64)
    fill, rules = np.zeros(m, np.int64), queries.rules.copy()
    rules["floor"] = floors
    kernels.sweep(
        codes.blocks,
        codes.scales,
        codes.errors,
        codes.ids,
        codes.n,
        span,
        queries.levels,
        rules,
        queries.slack,
        k,
        exclude,
        keys,
        places,
        fill,
    )
    width = max(0, int(fill.max()))
    padded = np.arange(width) >= fill[:, None]
    keys, places = keys[:, :width].copy(), places[:, :width].copy()
    keys[padded], places[padded] = -np.inf, -1
    return Found(keys, places, rules["floor"])
