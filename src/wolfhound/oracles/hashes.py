"""Locality-sensitive hashes as a `Bucketing`: two codes and a range of norms.

A family turns projections of a vector on random directions into a code. Two
blocks of directions make two codes, so that what a bucket promises is a sum of
two numbers. Hashes know no data but its centre, scale and norms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Ints, Matrix, Singles, Vector
from wolfhound.core.rounding import product
from wolfhound.core.threads import map_ordered
from wolfhound.core.validate import number, require
from wolfhound.data.store import Stored
from wolfhound.oracles import _probe_kernels as kernels
from wolfhound.oracles._probe_kernels import Promises
from wolfhound.oracles.buckets import scale_rows, unit_of

_NEAR = 1e-20
_WIDE = 2.0**25  # no entry of a hash is larger: rows are scaled to about 1, to 2**24 in extreme cases
_LARGEST = 2.0**512
_BLOCK = 1 << 12  # rows that one thread hashes at a time: they stay in the processor's cache
_MORE, _POWERS = 16, 3  # of the search for principal axes: columns beyond those wanted, and iterations


class Family(Protocol):
    """A kind of hash: from projections to codes."""

    mirrors: ClassVar[bool]
    """Whether codes are the directions, then their opposites, so that nothing need be summed."""

    def directions(self, d: int, codes: int, rng: np.random.Generator) -> Vector:
        """(2, w, d) random directions for two codes of about so many values."""

    def codes(self, width: int) -> int:
        """How many codes w directions have."""

    def assign(self, projections: Singles) -> tuple[Ints, Singles]:
        """Code of each row of projections, and its mean coefficient on the code's directions."""

    def spread(self, projections: Singles) -> Singles:
        """(m, codes) sum of a query's projections on the directions of each code."""


@dataclass(frozen=True, slots=True)
class CrossPolytope:
    """The direction, or its opposite, that a vector is closest to, after a random rotation.

    Andoni, Indyk, Laarhoven, Razenshteyn and Schmidt (2015). Beyond d directions
    further rotations are added.

    Examples
    --------
    >>> CrossPolytope().assign(np.array([[0.1, -0.9], [0.8, 0.2]], np.float32))[0]
    array([3, 0])
    """

    mirrors: ClassVar[bool] = True

    def directions(self, d: int, codes: int, rng: np.random.Generator) -> Vector:
        """Rows of random rotations."""
        width = max(1, codes // 2)
        parts = []
        for _ in range(-(-2 * width // d)):
            rotation, triangle = np.linalg.qr(rng.standard_normal((d, d)))
            parts.append((rotation * np.sign(np.diag(triangle))).T)  # the signs make it uniform
        return np.concatenate(parts)[: 2 * width].reshape(2, width, d)

    def codes(self, width: int) -> int:
        """Two for each direction."""
        return 2 * width

    def assign(self, projections: Singles) -> tuple[Ints, Singles]:
        """Return the largest projection, by size; opposites come after all directions."""
        best = np.abs(projections).argmax(axis=1)
        value = projections[np.arange(len(best)), best]
        return best + projections.shape[1] * (value < 0.0), np.abs(value)

    def spread(self, projections: Singles) -> Singles:
        """Return the projections and their opposites."""
        return np.concatenate((projections, -projections), axis=1)


@dataclass(frozen=True, slots=True)
class SimHash:
    """On which side of random hyperplanes a vector lies (Charikar 2002).

    Examples
    --------
    >>> SimHash().assign(np.array([[0.5, -0.5], [-0.5, 0.5]], np.float32))[0]
    array([1, 2])
    """

    mirrors: ClassVar[bool] = False

    def directions(self, d: int, codes: int, rng: np.random.Generator) -> Vector:
        """Independent random unit vectors."""
        rows = rng.standard_normal((2, max(1, round(math.log2(max(2, codes)))), d))
        return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True))

    def codes(self, width: int) -> int:
        """Two to the number of hyperplanes."""
        return 1 << width

    def assign(self, projections: Singles) -> tuple[Ints, Singles]:
        """Return a bit per hyperplane."""
        bits = (projections > 0.0).astype(np.int64)
        return bits @ (1 << np.arange(bits.shape[1])), np.abs(projections).mean(axis=1)

    def spread(self, projections: Singles) -> Singles:
        """Return all sums with the signs of a code."""
        out = np.zeros((len(projections), 1), np.float32)
        for column in projections.T[:, :, None]:
            out = np.concatenate([out - column, out + column], axis=1)
        return out


FAMILIES: dict[str, Family] = {"cross-polytope": CrossPolytope(), "simhash": SimHash()}
"""By the names under which they are saved."""


@dataclass(frozen=True, slots=True, eq=False)
class Hash:
    """A `Bucketing` by two codes of a family, and by the norm.

    Rows are centred and multiplied by a power of two.

    Ranges of norms may differ in direction: of vectors on a sphere, those near the centre lie on one side.
    """

    family: Family
    first: Singles  # (w, d) directions of the first code
    second: Singles  # (w, d) and of the second
    centre: Vector  # (d,)
    unit: float
    edges: Singles  # (r - 1,) norms that separate the ranges
    norms: Singles  # (r,) typical distance of the rows of a range from their mean
    shifts: Singles  # (r, d) half of that mean, of which codes tell the rest
    # Mean coefficient of a unit row, less the mean of its range, on the directions of its codes.
    weight: float
    variances: Singles  # (d,) mean squares of the entries of unit rows
    above: float  # how many deviations the best row of a bucket can be expected to lie above its mean
    cuts: Vector = field(default_factory=lambda: np.empty((0, 0)))  # (t, r) see `Promise`; none: no promise

    @property
    def buckets(self) -> int:
        """How many there are."""
        return len(self.norms) * self.family.codes(len(self.first)) * self.family.codes(len(self.second))

    @property
    def cost(self) -> int:
        """A query is projected on every direction."""
        return len(self.first) + len(self.second)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        arrays = (self.first, self.second, self.centre, self.variances, self.shifts)
        return sum(each.nbytes for each in arrays)

    def scale(self, rows: Matrix) -> Singles:
        """Centre and scale rows, as they are hashed."""
        return scale_rows(rows, self.unit, self.centre)

    def assign(self, rows: Matrix) -> Ints:
        """Return the bucket of each row."""

        def work(start: int) -> Ints:
            here = self.scale(rows[start : start + _BLOCK])
            place: Ints = np.searchsorted(self.edges, np.sqrt(np.einsum("ij,ij->i", here, here)))
            for block in (self.first, self.second):
                code = self.family.assign(product(here, block.T))[0]
                place = place * self.family.codes(len(block)) + code
            return place

        parts = map_ordered(work, range(0, len(rows), _BLOCK))
        return np.concatenate([np.empty(0, np.int64), *parts])

    def promises(self, queries: Vector, sizes: Vector) -> Promises:
        """Score of the mean of a bucket with the unit query, and what its best row adds.

        With cuts: what the bucket shows of the unit query, beyond the last cut of its range.
        """
        m = len(queries)
        each = 2 if self.family.mirrors else 1
        first = np.empty((m, each * len(self.first)), np.float32)
        second = np.empty((m, each * len(self.second)), np.float32)
        lift, room = np.empty((m, len(self.norms)), np.float32), np.empty(queries.shape[1], np.float32)
        mine = self.first, self.second, self.norms, self.shifts, self.variances, self.weight, self.above
        kernels.project_queries(queries, sizes, mine, (first, second, lift), room)
        if not self.family.mirrors:
            first, second = self.family.spread(first), self.family.spread(second)
        if len(self.cuts):
            lift[:] = np.float32(-self.weight) * self.cuts[-1].astype(np.float32)
        return Promises(first, second, self.norms, lift)

    def count_above(self, queries: Vector, sizes: Vector, buckets: Ints) -> Ints:
        """(t, m) atoms that a query probes to have seen all buckets above the cuts of a rung.

        `sizes` are the norms of the queries, `buckets` the atoms in each bucket.
        """
        above = (self.cuts - self.cuts[-1]) * self.weight * self.norms
        out, room = np.empty((len(self.cuts), len(queries)), np.int64), np.empty(kernels.BINS, np.int64)
        cuts = above.min(axis=1).astype(np.float32)
        kernels.count_above(self.promises(queries, sizes), buckets, cuts, room, out)
        return np.maximum(out, 1)  # some answer there is

    # ------------------------------------------------------------ to be saved

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What is to be saved, with `numbers`."""
        return {f"{prefix}_{name}": getattr(self, name) for name in _ARRAYS}

    def numbers(self) -> dict[str, Any]:
        """What is to be saved, with `arrays`."""
        name = next(name for name, family in FAMILIES.items() if family == self.family)
        return {"family": name, "unit": self.unit, "weight": self.weight, "above": self.above}

    @classmethod
    def of(cls, stored: Stored, numbers: Mapping[str, Any], d: int, prefix: str) -> Hash:
        """Put together what was saved; whatever it holds, promises are finite."""

        def array(name: str, *shape: int | None, low: float = -_WIDE, high: float = _WIDE) -> Singles:
            return stored.array(f"{prefix}_{name}", np.float32, shape, low=low, high=high)

        norms = array("norms", None, low=float(np.float32(_NEAR)))
        ranges = len(norms)
        scalars: dict[str, Any] = {name: number(numbers[name], name, low=0.0) for name in _NUMBERS}
        require(ranges > 0, "norms", "one at least", "none")
        require(max(scalars["weight"], scalars["above"]) <= _WIDE, "weight", f"<= {_WIDE:g}", scalars)
        return cls(
            family=FAMILIES[numbers["family"]],
            first=array("first", None, d),
            second=array("second", None, d),
            centre=stored.array(f"{prefix}_centre", np.float64, (d,), low=-_LARGEST, high=_LARGEST),
            edges=array("edges", ranges - 1),
            norms=norms,
            shifts=array("shifts", ranges, d),
            variances=array("variances", d, low=0.0),
            **scalars,
        )


_ARRAYS = ("first", "second", "centre", "edges", "norms", "shifts", "variances")
_NUMBERS = ("unit", "weight", "above")


# ---------------------------------------------------------------- drawing one


def draw_hash(
    family: Family,
    sample: Matrix,
    n: int,
    *,
    per_bucket: float,
    rng: np.random.Generator,
    axes: int | None = None,
) -> Hash:
    """Draw a hash for n atoms, a sample of which tells centre, scale and norms.

    `axes`: leading principal axes of the sample that the directions are combined from; None: all
    directions are alike.
    """
    centre = sample.mean(axis=0, dtype=np.float64)
    unit = unit_of(float(np.abs(sample - centre).max()))
    rows = scale_rows(sample, unit, centre)
    sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    edges = _edges(sizes)
    owner = np.searchsorted(edges, sizes)
    means = _means(rows, owner, len(edges) + 1)
    left = rows - means[owner]
    lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
    norms = np.maximum(_means(lengths[:, None], owner, len(edges) + 1)[:, 0], np.float32(_NEAR))
    codes = 2 * max(1, round(math.sqrt(n / (per_bucket * len(norms))) / 2.0))
    frame = np.eye(rows.shape[1]) if axes is None else _principal(rows, axes, rng)
    first, second = (family.directions(len(frame), codes, rng) @ frame).astype(np.float32)
    units = left / np.maximum(lengths, np.float32(_NEAR))[:, None]
    values = [family.assign(product(units, block.T))[1].mean(dtype=np.float64) for block in (first, second)]
    return Hash(
        family=family,
        first=first,
        second=second,
        centre=centre,
        unit=unit,
        edges=edges,
        norms=norms,
        shifts=np.float32(0.5) * means,
        weight=float(np.mean(values)),
        variances=np.square(units).mean(axis=0),
        above=math.sqrt(2.0 * math.log(max(2.0, per_bucket))),
    )


def _means(rows: Singles, owner: Ints, ranges: int) -> Singles:
    """(ranges, c) mean of the rows of each range; 0 where there are none."""
    means = [rows[owner == r].sum(axis=0) / max(1, (owner == r).sum()) for r in range(ranges)]
    return np.stack(means).astype(np.float32)


def _principal(rows: Singles, axes: int, rng: np.random.Generator) -> Vector:
    """(axes, d) leading principal axes, by powers of a random block."""
    d = rows.shape[1]
    block = rng.standard_normal((d, min(d, axes + _MORE))).astype(np.float32)
    for _ in range(_POWERS):
        block = np.linalg.qr(product(rows.T, product(rows, block)))[0]
    scores = product(rows, block).astype(np.float64)
    order = np.linalg.eigh(scores.T @ scores)[1][:, ::-1]
    return np.asarray((block @ order).T[:axes])


def _edges(norms: Singles) -> Singles:
    """Return the norms that separate ranges: the more norms spread, the more of them."""
    low, high = np.quantile(norms, [0.1, 0.9])
    ranges = 1 if high <= 1.3 * low else (4 if high <= 2.0 * low else 8)
    return np.quantile(norms, np.arange(1, ranges) / ranges).astype(np.float32)
