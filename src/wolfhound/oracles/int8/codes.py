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
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Ints, Vector
from wolfhound.oracles._asked import Asked, lengths
from wolfhound.oracles.int8 import _kernels as kernels
from wolfhound.oracles.int8._instructions import ROWS
from wolfhound.pulse import pulse
from wolfhound.rounding import TINY, gamma
from wolfhound.store import Stored
from wolfhound.threads import map_ordered
from wolfhound.validate import count, number, require

_SINGLE = 2.0**-24
_UNDERFLOW = 2.0**-100
_LOWEST = -900

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

        Not yet proved to be the codes of any atoms, see `verified`. What follows from
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
        held = -(-n // ROWS)
        height, error = (number(numbers[name], name, low=0.0) for name in ("height", "error"))
        exponent = count(numbers["exponent"], "exponent", low=-_FARTHEST)
        centre = array(f"{prefix}_centre", np.float64, (d,))
        ids = array(f"{prefix}_ids", np.int64, (None,))
        require(max(height, error) <= LARGEST, "height", f"<= {LARGEST:g}", max(height, error))
        require(exponent <= _FARTHEST, "exponent", f"<= {_FARTHEST}", exponent)
        require(numbers["zero"] in (0, 128), "zero", "0 or 128", numbers["zero"])
        require(bool(np.abs(centre).max() <= math.ldexp(1.0, exponent + 400)), "centre", "near", "a far one")
        require(len(ids) in (0, n) and permuted(ids), "ids", f"a permutation of {n} ids", "others")
        return cls(
            blocks=array(f"{prefix}_blocks", np.int16, (held, -(-d // 2), ROWS)),
            scales=array(f"{prefix}_scales", np.float32, (held * ROWS,), low=0.0, high=LARGEST),
            errors=array(f"{prefix}_errors", np.float32, (held * ROWS,), low=0.0, high=LARGEST),
            ids=ids,
            centre=centre,
            zero=int(numbers["zero"]),
            exponent=exponent,
            height=height,
            error=error,
            radius=reach(centre, height + error, exponent),
            n=n,
        )


def permuted(ids: Ids) -> bool:
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
    hopeless : (m,) bool
        Queries that are zero, or so small that products underflow.
    """

    levels: kernels.Shorts
    rules: NDArray[Any]
    base: Vector
    slack: Vector
    exponents: Ints
    hopeless: NDArray[np.bool_]

    def only(self, which: Ints) -> Coded:
        """Return some of the queries."""
        return Coded(*(getattr(self, field.name)[which] for field in fields(self)))

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
    The float64 terms, gamma(d + 2) |q| radius each: the loop that defines a score, the
    product with the centre, and what cancels when base, key and slack are added.
    """
    m, d = ask.queries.shape
    exponents = np.frexp(ask.sizes)[1].astype(np.int64)
    sizes = np.ldexp(ask.sizes, -exponents)
    levels = np.zeros((m, 2 * codes.blocks.shape[1]), np.int16)
    steps, lost, base = np.empty(m, np.float32), np.empty(m), np.empty(m)
    middle = np.ldexp(codes.centre, -codes.exponent)
    most = min(32767, (2**31 - 1) // ((127 + codes.zero) * d))
    kernels.round_queries(ask.queries, exponents, middle, most, levels, steps, lost, base)
    lost += 4e-16
    slack = lost * codes.height + 8.0 * _SINGLE * ((sizes + lost) * codes.height + sizes * codes.error)
    # The centre is no longer than the radius.
    slack += 5.0 * gamma(d + 2) * sizes * math.ldexp(codes.radius, -codes.exponent) + d * _UNDERFLOW
    rules = np.empty(m, kernels.Rules)
    rules["start"] = codes.zero * levels.sum(axis=1, dtype=np.int64) if codes.zero else 0
    rules["step"], rules["floor"] = steps, -np.inf
    rules["size"] = np.nextafter(sizes.astype(np.float32), np.float32(np.inf))
    exponents += codes.exponent
    return Coded(levels, rules, base, 1.001 * slack, exponents, (ask.sizes == 0.0) | (exponents < _LOWEST))


# ---------------------------------------------------------------- a pass


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Candidates of m queries.

    Attributes
    ----------
    keys, lows, places : (m, c)
        Upper bounds of the kernel, what a row surely reaches, and places in the store;
        -inf and -1 where padded.
    floors : (m,) float32
        Rows that are no candidates have keys below; inf: there were too many.
    """

    keys: kernels.Singles
    lows: kernels.Singles
    places: Ids
    floors: kernels.Singles


def room(k: int) -> int:
    """How many candidates a query may have in a chunk."""
    return max(8 * k, _ROOM) + ROWS


class Trial(NamedTuple):
    """What a sample of the codes tells; read from far apart, as neighbours may be alike.

    Attributes
    ----------
    hopeless : (m,) bool
        Queries of which codes decide too little.
    rows : int
        Rows of the sample.
    """

    hopeless: NDArray[np.bool_]
    rows: int


def tried(codes: Codes, queries: Coded, k: int, exclude: Ids) -> Trial:
    """See in a sample whether codes tell rows apart; where that costs little anyway, hope for it.

    That is so of few codes, and of one query: what it loses is a read of the codes, a
    quarter of a read of the rows.
    """
    if codes.blocks.nbytes < _LARGE or len(codes.blocks) <= _SAMPLE or len(queries.hopeless) == 1:
        return Trial(queries.hopeless, 0)
    at = np.arange(_SAMPLE) * ((len(codes.blocks) - 1) // _SAMPLE)  # without the last, which may have gaps
    places = (ROWS * at[:, None] + np.arange(ROWS)).reshape(-1)
    sample = replace(
        codes,
        blocks=codes.blocks[at],
        scales=codes.scales[places],
        errors=codes.errors[places],
        ids=codes.ids[places] if len(codes.ids) else places,
        n=len(places),
    )
    lowest = np.where(queries.hopeless, np.inf, -np.inf).astype(np.float32)
    found = _sweep(sample, queries, (0, _SAMPLE), max(1, k * len(places) // codes.n), exclude, floors=lowest)
    left = (found.places >= 0).sum(axis=1)
    return Trial(queries.hopeless | (left > _MANY * len(places)), len(places))


def swept(codes: Codes, queries: Coded, k: int, exclude: Ids) -> Found:
    """Read all codes once; keep all rows that can be among the k best.

    The chunks, and the floors that they begin with, do not depend on the threads.
    """
    blocks = len(codes.blocks)
    step = max(1, CHUNK // codes.blocks[0].nbytes)
    spans = [(start, min(start + step, blocks)) for start in range(0, blocks, step)]
    lowest = np.where(queries.hopeless, np.inf, -np.inf).astype(np.float32)
    parts = [_sweep(codes, queries, spans[0], k, exclude, floors=lowest)]
    pulse(min(ROWS * step, codes.n))
    # What the first chunk tells of the k best holds for all.
    floors = np.where(parts[0].floors == np.inf, lowest, parts[0].floors)

    def work(span: tuple[int, int]) -> Found:
        return _sweep(codes, queries, span, k, exclude, floors=floors)

    for span, part in zip(spans[1:], map_ordered(work, spans[1:], blas=False), strict=True):
        pulse(min(ROWS * span[1], codes.n) - ROWS * span[0])
        parts.append(part)
    return Found(
        np.concatenate([part.keys for part in parts], axis=1),
        np.concatenate([part.lows for part in parts], axis=1),
        np.concatenate([part.places for part in parts], axis=1),
        np.max([part.floors for part in parts], axis=0),
    )


def _sweep(
    codes: Codes, queries: Coded, span: tuple[int, int], k: int, exclude: Ids, *, floors: kernels.Singles
) -> Found:
    """Sweep the blocks of a span; rows below the floors are not wanted."""
    m = len(queries.levels)
    shape = (m, room(k))
    keys, lows, places = np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty(shape, np.int64)
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
        lows,
        places,
        fill,
    )
    width = max(0, int(fill.max()))
    if m == 1:
        return Found(keys[:, :width], lows[:, :width], places[:, :width], rules["floor"])
    padded = np.arange(width) >= fill[:, None]
    keys, lows, places = keys[:, :width].copy(), lows[:, :width].copy(), places[:, :width].copy()
    keys[padded], lows[padded], places[padded] = -np.inf, -np.inf, -1
    return Found(keys, lows, places, rules["floor"])
