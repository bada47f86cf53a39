"""`ActionSet`: actions that are the hull of given vectors, searched in batches, and what it answers.

Knows atoms, oracles and directions; must not know what a state, a reward or a
critic is. The tabular and the deep methods ask it alike.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import validate
from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Matrix, Oracle, Vector
from wolfhound.core.rounding import product
from wolfhound.core.threads import one_blas_thread
from wolfhound.data.atoms import ArrayAtoms, MappedAtoms, as_atoms, norms
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.oracles.asking import ask_unchecked
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.solve.minimize import minimize
from wolfhound.solve.result import Result

Rows: TypeAlias = NDArray[np.float32]
"""(m, anything) float32: a row per state, as environments and networks have them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """Answers to m directions, one atom each.

    Attributes
    ----------
    ids : (m,) int64
    rows : (m, d)
        The atoms, in their dtype.
    scores : (m,) float64
        <direction, atom>.
    bounds : (m,) float64
        Proved upper bound on the best score, inf where nothing is proved.
    gaps : (m,) float64
        <direction, atom - point>; nan where no points were given.
    scored : int
        Atoms scored, for all directions together.
    passes : float
        Share of the atoms swept to prove the answers.
    """

    ids: Ids
    rows: Matrix
    scores: Vector
    bounds: Vector
    gaps: Vector
    scored: int
    passes: float

    @classmethod
    def from_hits(cls, hits: Hits, queries: Ids, columns: Ids | int = 0) -> Chosen:
        """Take the answers of these queries, each in its column; all arrays are fresh."""
        at = (queries, columns)
        return cls(
            ids=hits.ids[at],
            rows=hits.rows[hits.slots[at]],
            scores=np.asarray(hits.scores[at], np.float64),
            bounds=hits.bounds[queries],
            gaps=np.full(len(queries), np.nan),
            scored=int(hits.scored.sum()),
            passes=hits.passes,
        )

    @property
    def is_proved(self) -> NDArray[np.bool_]:
        """(m,) where the bound is finite."""
        return np.isfinite(self.bounds)


def gather(parts: Sequence[Chosen], places: Sequence[Ids]) -> Chosen:
    """Put answers to some of the directions each, whose places these are, together."""
    order = np.argsort(np.concatenate(places))
    columns = ("ids", "rows", "scores", "bounds", "gaps")
    joined = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in columns}
    return Chosen(
        **joined, scored=sum(part.scored for part in parts), passes=sum(part.passes for part in parts)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HullPoints:
    """m points of the hull, with the atoms that make them.

    Attributes
    ----------
    points : (m, d) float64
        ``sum_j weights[i, j] atoms[ids[i, j]]``.
    ids : (m, k) int64
        Atoms may repeat within a row.
    weights : (m, k) float64
        Not negative, each row of sum 1.
    scored : int
        Atoms scored to find them.
    """

    points: Vector
    ids: Ids
    weights: Vector
    scored: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """The actions of one state, by id; made by `ActionSet.subset`.

    Attributes
    ----------
    ids : (r,) int64
        Ascending.
    """

    ids: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether each of these atoms belongs to it."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.asarray(self.ids[at] == ids)


def draw_ids(ids: Ids, weights: Vector, rng: np.random.Generator) -> Ids:
    """Draw as `ActionSet.draw` does, unchecked."""
    steps = np.cumsum(weights, axis=1)
    steps /= steps[:, -1:]
    # The first step above a random number; it has a positive share, as the last step is 1.
    place = (steps <= rng.random(len(steps))[:, None]).sum(axis=1)
    return np.asarray(ids[np.arange(len(steps)), place], np.int64)


@final
class Winners:
    """Distinct atoms that won, the last winners first, up to `room`: what won longest ago goes.

    Of one batch, atoms that won more of its queries count as more recent.
    """

    def __init__(self, atoms: Atoms, room: int) -> None:
        self.room = min(room, atoms.shape[0])
        self.ids: Ids = np.empty(0, np.int64)
        self.rows: Matrix = np.empty((0, atoms.shape[1]), atoms.dtype)

    def compete(self, queries: Vector, chosen: Chosen, part: Subset | None) -> Chosen:
        """Put past winners, those of a subset only, in the place of worse answers that are not proved."""
        open_ = np.flatnonzero(~chosen.is_proved)
        ids, rows = self.ids, self.rows
        if part is not None:
            mine = part.has(ids)
            ids, rows = ids[mine], rows[mine]
        if not len(open_) or not len(ids):
            return chosen
        asked = queries[open_]
        with one_blas_thread(), np.errstate(over="ignore"):  # queries too large for float32
            place = product(asked.astype(rows.dtype), rows.T).argmax(axis=1)
        scores = np.einsum("ij,ij->i", asked, rows[place], dtype=np.float64)
        better = scores > chosen.scores[open_]
        where, place = open_[better], place[better]
        out = replace(chosen, scored=chosen.scored + len(open_) * len(ids))
        if len(where):
            out.ids[where], out.rows[where], out.scores[where] = ids[place], rows[place], scores[better]
        return out

    def restore(self, ids: Ids, atoms: Atoms) -> None:
        """Take over the ids of others; where there is less room, those that won last."""
        self.ids = ids[: self.room]
        self.rows = atoms.take(self.ids)

    def remember(self, ids: Ids, rows: Matrix) -> None:
        """Take the winners of a batch, (m,) ids and (m, d) rows."""
        unique, first, times = np.unique(ids, return_index=True, return_counts=True)
        rank = np.argsort(-times, kind="stable")
        others = ~Subset(unique).has(self.ids)
        self.ids = np.concatenate([unique[rank], self.ids[others]])[: self.room]
        self.rows = np.concatenate([rows[first[rank]], self.rows[others]])[: self.room]


# ---------------------------------------------------------------- the action set

FEW = 0.1
"""Subsets of less than this share of the atoms are gathered and scanned."""

_ALIKE = 1e-6  # norms that differ by no more than this share are taken as equal

WIDE = 32
"""Answers an index is asked for where only a subset may be chosen."""


@final
class ActionSet:
    """The convex hull of n given vectors, as a set of actions.

    Directions are answered in batches by one oracle, shared by all states. What
    an oracle cannot prove is compared with the atoms that won before: critics
    and value functions change little from one query to the next, so a cache of a
    few hundred winners lifts the share of the gap that an index finds.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    oracle
        Any oracle over these atoms; default: ``Scan(atoms)``, which is exact.
    cache
        Past winners that join the candidates; 0: none.
    seed
        Of `random` and `draw` where they are given none.

    Attributes
    ----------
    atoms : Atoms
        The vectors whose hull it is, n of dimension `dim`.
    oracle : Oracle
        What answers directions.
    exact : bool
        Whether no oracle was given, so that every answer is proved.

    Examples
    --------
    >>> actions = ActionSet(np.eye(3))
    >>> chosen = actions.argmax([[1.0, 3.0, 2.0]], points=[[1.0, 0.0, 0.0]])
    >>> chosen.ids, chosen.gaps
    (array([1]), array([2.]))
    """

    def __init__(
        self,
        atoms: AtomsLike,
        *,
        oracle: Oracle | None = None,
        cache: int = 256,
        seed: int | np.random.Generator = 0,
    ) -> None:
        self.atoms: Atoms = as_atoms(atoms)
        if oracle is not None:
            check_same_atoms(self.atoms, validate.oracle(oracle, "oracle").atoms, "oracle")
        self.n, self.dim = self.atoms.shape
        self.exact = oracle is None
        self.oracle: Oracle = Scan(self.atoms) if oracle is None else oracle
        self.winners = Winners(self.atoms, validate.count(cache, "cache"))
        self._remembers = True
        self._rng = validate.rng(seed)
        self._nearest: NearestScan | None = None
        self._allowed: tuple[Subset | None, ...] | None = None

    def __repr__(self) -> str:
        """The oracle and the size of the cache."""
        return f"ActionSet({self.oracle!r}, cache={self.winners.room})"

    def fresh(self, room: int = 0) -> ActionSet:
        """Return the same set with a cache of its own, in which nothing has won yet.

        Parameters
        ----------
        room
            Least size of the cache; a set without one stays without.
        """
        other = copy.copy(self)
        own = self.winners.room
        other.winners = Winners(self.atoms, max(own, room) if own else 0)
        return other

    def frozen(self) -> ActionSet:
        """Return the same set with the same cache, which it uses but does not change.

        Examples
        --------
        >>> actions = ActionSet(np.eye(3))
        >>> chosen = actions.frozen().argmax([[1.0, 3.0, 2.0]])
        >>> len(actions.winners.ids)
        0
        """
        other = copy.copy(self)
        other._remembers = False
        return other

    def within(self, subsets: Sequence[Subset | ArrayLike | None]) -> ActionSet:
        """Return the same set, where row i of what is asked may choose of subset i only.

        It answers batches of as many rows as there are subsets; `random` those of a multiple. The
        cache of past winners is shared.

        Parameters
        ----------
        subsets
            Ids, or what `subset` made of them, which is faster; None: all atoms.

        Examples
        --------
        >>> ActionSet(np.eye(3)).within([[0, 1], None]).argmax([[1.0, 2.0, 3.0]] * 2).ids
        array([1, 2])
        """
        # The same ids are checked once, however many rows have them.
        known = {
            id(each): None if each is None else self.subset(each, f"subsets[{i}]")
            for i, each in enumerate(subsets)
        }
        other = copy.copy(self)
        other._allowed = tuple(known[id(each)] for each in subsets)
        return other

    def argmax(
        self,
        directions: ArrayLike,
        *,
        points: ArrayLike | None = None,
        thresholds: Vector | None = None,
        subset: Subset | ArrayLike | None = None,
    ) -> Chosen:
        """Find, for every direction, an atom with a large inner product.

        Parameters
        ----------
        directions : (m, d)
            Such as gradients of Q in the action.
        points : (m, d), optional
            Where the gaps are measured from, such as the present actions.
        thresholds : (m,), optional
            Scores that will do, for oracles that then stop early or go on; see `Oracle.query`.
        subset : ids or Subset, optional
            Only these atoms may be chosen. Fewer than n/10 are gathered and
            scanned; of more, the oracle's best 32 are filtered, and scanned only
            if none is left. An exact action set scans the subset at once.

        Examples
        --------
        >>> ActionSet(np.eye(3)).argmax([[1.0, 3.0, 2.0]], subset=[0, 2]).ids
        array([2])
        """
        queries = _check_rows(directions, "directions", self.dim)
        here = None if points is None else _check_rows(points, "points", self.dim, len(queries))
        if thresholds is not None:
            thresholds = validate.vector(thresholds, "thresholds", size=len(queries))
        if subset is None:
            return self.answer(queries, points=here, thresholds=thresholds)
        part = self.subset(subset, "subset")
        validate.require(self._allowed is None, "subset", "None: each row has its own", part)
        return self.within([part] * len(queries)).answer(queries, points=here, thresholds=thresholds)

    def answer(
        self, queries: Vector, *, points: Vector | None = None, thresholds: Vector | None = None
    ) -> Chosen:
        """Answer as `argmax` does, unchecked: for loops that make their own finite float64 (m, d) rows."""
        groups, found = self._group(len(queries)), []
        for part, at in groups:
            asked = queries[at]
            if part is not None and (self.exact or len(part) < FEW * self.n):
                chosen = _scan(self.atoms, asked, part)
            else:
                floors = None if thresholds is None else thresholds[at]
                chosen = _ask(self.oracle, self.atoms, asked, floors, part)
            found.append(self.winners.compete(asked, chosen, part))
        chosen = found[0] if len(found) == 1 else gather(found, [at for _, at in groups])
        if self._remembers:
            self.winners.remember(chosen.ids, chosen.rows)
        if points is None:
            return chosen
        return replace(chosen, gaps=chosen.scores - np.einsum("ij,ij->i", queries, points))

    def _group(self, m: int) -> list[tuple[Subset | None, Ids]]:
        """Rows of m that may choose of the same subset."""
        if self._allowed is None:
            return [(None, np.arange(m))]
        allowed = len(self._allowed)
        validate.require(m % allowed == 0, "rows", f"{allowed}, as there are subsets", m)
        rows: dict[int, list[int]] = {}
        for i, each in enumerate(self._allowed):
            rows.setdefault(id(each), []).append(i)
        repeat = np.arange(m // allowed)
        return [
            (self._allowed[at[0]], (np.array(at)[:, None] * len(repeat) + repeat).ravel())
            for at in rows.values()
        ]

    def scan(self, directions: ArrayLike) -> Chosen:
        """Find the best atom for every direction, by a pass; past winners are left alone."""
        queries = _check_rows(directions, "directions", self.dim)
        groups = self._group(len(queries))
        found = [_scan(self.atoms, queries[at], part) for part, at in groups]
        return gather(found, [at for _, at in groups])

    def subset(self, ids: Subset | ArrayLike, name: str = "ids") -> Subset:
        """Return checked ids of a state's actions, to be used again and again.

        Examples
        --------
        >>> ActionSet(np.eye(3)).subset([2, 0]).ids
        array([0, 2])
        """
        if isinstance(ids, Subset):
            validate.require(ids.ids[-1] < self.n, name, f"ids in [0, {self.n})", f"up to {ids.ids[-1]}")
            return ids
        kept = np.sort(validate.ids(ids, name, self.n))
        validate.require(len(kept) > 0, name, "at least one id", "none")
        return Subset(kept)

    def project(self, points: ArrayLike, *, steps: int = 4) -> HullPoints:
        """Move points into the hull by a few Frank-Wolfe steps on 1/2 |a - y|^2.

        Starts at the atom with the largest <y, s>; line searches are exact. The points are in
        the hull by construction, near the projection but not proved to be it: see `prove`.

        Parameters
        ----------
        points : (m, d)
        steps
            Frank-Wolfe steps; each point is made of at most ``steps + 1`` atoms.

        Examples
        --------
        >>> ActionSet(np.eye(2)).project([[0.9, 0.3]], steps=1).weights.round(9)
        array([[0.8, 0.2]])
        """
        rows = _check_rows(points, "points", self.dim)
        return project_rows(self, rows, validate.count(steps, "steps"))

    def prove(self, point: ArrayLike, *, rtol: float = 1e-6) -> Result:
        """Project one point onto the hull, with a proved gap; see `minimize`.

        ``result.value`` is at least 1/2 of the squared distance of the point from
        the hull, ``result.lower`` at most.
        """
        target = validate.vector(point, "point", size=self.dim)
        return minimize(SquaredDistance(target), self.atoms, rtol=rtol)

    def neighbours(self, points: ArrayLike, k: int) -> Ids:
        """(m, k) ids of the k nearest atoms to each point, the nearest first; exact.

        Examples
        --------
        >>> ActionSet([[1.0], [5.0], [3.0]]).neighbours([[1.5]], 2)
        array([[0, 2]])
        """
        return self.find_neighbours(_check_rows(points, "points", self.dim), validate.count(k, "k", low=1))

    def find_neighbours(self, rows: Vector, k: int) -> Ids:
        """Find as `neighbours` does, unchecked: see `answer`."""
        out = np.empty((len(rows), min(k, self.n)), np.int64)
        for part, at in self._group(len(rows)):
            if part is None:
                self._nearest = self._nearest or NearestScan(self.atoms)
                out[at] = self._nearest.query(rows[at], out.shape[1])
            else:
                scan, wide = NearestScan(ArrayAtoms(self.atoms.take(part.ids))), min(out.shape[1], len(part))
                found = part.ids[scan.query(rows[at], wide)]
                # Where a subset has fewer than k, the nearest stands again.
                again = np.repeat(found[:, :1], out.shape[1] - wide, axis=1)
                out[at] = np.concatenate([found, again], axis=1)
        return out

    def nearest(self, points: ArrayLike) -> Ids:
        """(m,) ids of the nearest atom to each point; exact."""
        return self.neighbours(points, 1)[:, 0]

    def draw(self, ids: ArrayLike, weights: ArrayLike, seed: int | np.random.Generator | None = None) -> Ids:
        """Draw one atom per row with these chances, (m, k) as in `HullPoints`: its mean is the hull point.

        Examples
        --------
        >>> ActionSet(np.eye(3)).draw([[2, 0], [0, 1]], [[1.0, 0.0], [0.0, 1.0]])
        array([2, 1])
        """
        atoms, shares = validate.real_array(ids, "ids", 2), validate.matrix(weights, "weights")
        if atoms.dtype.kind not in "iu":
            raise TypeError(f"`ids` must be an array of integer ids. Got dtype {atoms.dtype}.")
        alike = atoms.shape == shares.shape
        validate.require(alike, "ids", f"like `weights`, {shares.shape}", f"shape {atoms.shape}")
        validate.ids(np.unique(atoms[shares > 0.0]), "ids", self.n)  # rows may be padded by any id
        totals = shares.sum(axis=1)
        good = bool((shares >= 0.0).all() and (np.abs(totals - 1.0) <= 1e-6).all())
        got = f"sums {totals.min():g} .. {totals.max():g}"
        validate.require(good, "weights", ">= 0 with rows of sum 1", got)
        return draw_ids(atoms, shares, self._rng if seed is None else validate.rng(seed))

    def random(self, m: int, seed: int | np.random.Generator | None = None) -> tuple[Matrix, Ids]:
        """(m, d) random atoms, all equally likely, and their (m,) ids."""
        rng = self._rng if seed is None else validate.rng(seed)
        return self.take_random(validate.count(m, "m", low=1), rng)

    def take_random(self, m: int, rng: np.random.Generator) -> tuple[Matrix, Ids]:
        """Draw as `random` does, unchecked: see `answer`."""
        ids = np.empty(m, np.int64)
        for part, at in self._group(m):
            drawn = rng.integers(self.n if part is None else len(part), size=len(at), dtype=np.int64)
            ids[at] = drawn if part is None else part.ids[drawn]
        return self.atoms.take(ids), ids


def _check_rows(value: Any, name: str, dim: int, m: int | None = None) -> Vector:
    rows = validate.matrix(value, name)
    fits = rows.shape[1] == dim and m in (None, len(rows))
    validate.require(fits, name, f"a ({'m' if m is None else m}, {dim}) array", f"shape {rows.shape}")
    return rows


def _ask(
    oracle: Oracle, atoms: Atoms, queries: Vector, thresholds: Vector | None, part: Subset | None
) -> Chosen:
    """Ask the oracle, take the best of a subset; scan where it leaves nothing."""
    k = 1 if part is None else min(WIDE, atoms.shape[0])
    hits = ask_unchecked(oracle, queries, k=k, thresholds=thresholds)
    good = hits.ids >= 0
    if part is not None:
        good &= part.has(hits.ids)
    kept, lost = np.flatnonzero(good.any(axis=1)), np.flatnonzero(~good.any(axis=1))
    chosen = Chosen.from_hits(hits, kept, good.argmax(axis=1)[kept])
    return gather([chosen, _scan(atoms, queries[lost], part)], [kept, lost]) if len(lost) else chosen


def _scan(atoms: Atoms, queries: Vector, part: Subset | None) -> Chosen:
    """Scan all atoms, or those of a subset; ids ascend, so ties go to the smallest."""
    searched = atoms if part is None else ArrayAtoms(atoms.take(part.ids))
    chosen = Chosen.from_hits(ask_unchecked(Scan(searched, screen=False), queries), np.arange(len(queries)))
    if part is None:
        return chosen
    return replace(chosen, ids=part.ids[chosen.ids], passes=chosen.passes * len(part) / atoms.shape[0])


def project_rows(actions: ActionSet, y: Vector, steps: int) -> HullPoints:
    """Move rows into the hull as `ActionSet.project` does, unchecked."""
    first = actions.answer(y)
    a = first.rows.astype(np.float64)
    ids = np.empty((len(y), steps + 1), np.int64)
    weights = np.zeros((len(y), steps + 1))
    ids[:, 0], weights[:, 0], scored = first.ids, 1.0, first.scored
    for t in range(1, steps + 1):
        chosen = actions.answer(y - a, points=a)
        delta = chosen.rows - a
        square = np.einsum("ij,ij->i", delta, delta)
        moves = (chosen.gaps > 0.0) & (square > 0.0)
        step = np.where(moves, np.minimum(chosen.gaps / np.where(moves, square, 1.0), 1.0), 0.0)
        a += step[:, None] * delta
        weights[:, :t] *= 1.0 - step[:, None]
        ids[:, t], weights[:, t] = chosen.ids, step
        scored += chosen.scored
    return HullPoints(points=a, ids=ids, weights=weights, scored=scored)


@final
class NearestScan:
    """Finds neighbours by inner products: with one more coordinate, unless all atoms are as long."""

    def __init__(self, atoms: Atoms) -> None:
        sizes = norms(atoms)
        self._lifted = float(np.ptp(sizes)) > _ALIKE * float(sizes.max())
        wider = MappedAtoms(atoms, _add_squares, atoms.shape[1] + 1) if self._lifted else atoms
        self._scan = Scan(wider, screen=False)

    def query(self, points: Vector, k: int) -> Ids:
        """(m, k) nearest atoms to (m, d) points, the nearest first."""
        if self._lifted:  # the largest 2 <y, s> - |s|^2 has the least |y - s|^2
            points = np.hstack([2.0 * points, np.full((len(points), 1), -1.0)])
        return ask_unchecked(self._scan, points, k=k).ids


def _add_squares(rows: Matrix) -> Vector:
    """[s, |s|^2] of every row."""
    wide = rows.astype(np.float64)
    return np.hstack([wide, np.einsum("ij,ij->i", wide, wide)[:, None]])
