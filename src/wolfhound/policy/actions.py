"""`ActionSet`: actions that are the hull of given vectors, searched in batches.

Knows atoms, oracles and directions; must not know what a state, a reward or a
critic is. The tabular and the deep methods ask it alike.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import ArrayAtoms, MappedAtoms, as_atoms, norms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Oracle, Vector
from wolfhound.objectives.quadratic import SquaredDistance
from wolfhound.oracles._question import ask_unchecked
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.policy.answers import Chosen, HullPoints, Subset, Winners, draw_ids, gather
from wolfhound.result import Result
from wolfhound.solve import minimize

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
        part = None if subset is None else self.subset(subset, "subset")
        validate.require(part is None or self._allowed is None, "subset", "None: each row has its own", part)
        return self.answer(queries, points=here, thresholds=thresholds, part=part)

    def answer(
        self,
        queries: Vector,
        *,
        points: Vector | None = None,
        thresholds: Vector | None = None,
        part: Subset | None = None,
    ) -> Chosen:
        """Answer as `argmax` does, unchecked: for loops that make their own finite float64 (m, d) rows."""
        groups = self._group(len(queries), part)
        found = [self._choose(queries[at], _some(thresholds, at), each) for each, at in groups]
        chosen = found[0] if len(found) == 1 else gather(found, [at for _, at in groups])
        if self._remembers:
            self.winners.remember(chosen.ids, chosen.rows)
        if points is None:
            return chosen
        return replace(chosen, gaps=chosen.scores - np.einsum("ij,ij->i", queries, points))

    def _choose(self, queries: Vector, thresholds: Vector | None, part: Subset | None) -> Chosen:
        if part is not None and (self.exact or len(part) < FEW * self.n):
            chosen = _scan(self.atoms, queries, part)
        else:
            chosen = _ask(self.oracle, self.atoms, queries, thresholds, part)
        return self.winners.compete(queries, chosen, part)

    def _group(self, m: int, part: Subset | None = None) -> list[tuple[Subset | None, Ids]]:
        """Rows of m that may choose of the same subset."""
        if self._allowed is None:
            return [(part, np.arange(m))]
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
            out[at] = self._find_nearest(rows[at], out.shape[1], part)
        return out

    def _find_nearest(self, rows: Vector, k: int, part: Subset | None) -> Ids:
        """Return the nearest of a subset; where it has fewer than k, the nearest stands again."""
        if part is not None:
            found = part.ids[
                NearestScan(ArrayAtoms(self.atoms.take(part.ids))).query(rows, min(k, len(part)))
            ]
            return np.concatenate([found, np.repeat(found[:, :1], k - found.shape[1], axis=1)], axis=1)
        if self._nearest is None:
            self._nearest = NearestScan(self.atoms)
        return self._nearest.query(rows, k)

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
        return draw_ids(ids, weights, self.n, self._rng if seed is None else validate.rng(seed))

    def random(self, m: int, seed: int | np.random.Generator | None = None) -> tuple[Matrix, Ids]:
        """(m, d) random atoms, all equally likely, and their (m,) ids."""
        rng = self._rng if seed is None else validate.rng(seed)
        ids = np.empty(validate.count(m, "m", low=1), np.int64)
        for part, at in self._group(len(ids)):
            drawn = rng.integers(self.n if part is None else len(part), size=len(at), dtype=np.int64)
            ids[at] = drawn if part is None else part.ids[drawn]
        return self.atoms.take(ids), ids


def _check_rows(value: Any, name: str, dim: int, m: int | None = None) -> Vector:
    rows = validate.matrix(value, name)
    fits = rows.shape[1] == dim and m in (None, len(rows))
    validate.require(fits, name, f"a ({'m' if m is None else m}, {dim}) array", f"shape {rows.shape}")
    return rows


def _some(values: Vector | None, at: Ids) -> Vector | None:
    return None if values is None else values[at]


def _ask(
    oracle: Oracle, atoms: Atoms, queries: Vector, thresholds: Vector | None, part: Subset | None
) -> Chosen:
    """Ask the oracle, take the best of a subset; scan where it leaves nothing."""
    k = 1 if part is None else min(WIDE, atoms.shape[0])
    hits = ask_unchecked(oracle, queries, k=k, thresholds=thresholds)
    good = hits.ids >= 0
    if part is not None:
        good &= part.has(hits.ids)
    lost = np.flatnonzero(~good.any(axis=1))
    if not len(lost):
        return Chosen.from_hits(hits, good.argmax(axis=1))
    other = _scan(atoms, queries[lost], part)
    scored, passes = int(hits.scored.sum()) + other.scored, hits.passes + other.passes
    if len(lost) == len(queries):
        return replace(other, scored=scored, passes=passes)
    chosen = Chosen.from_hits(hits, good.argmax(axis=1))
    chosen = replace(chosen, bounds=hits.bounds.copy(), scored=scored, passes=passes)
    for name in ("ids", "rows", "scores", "bounds"):
        getattr(chosen, name)[lost] = getattr(other, name)
    return chosen


def _scan(atoms: Atoms, queries: Vector, part: Subset | None) -> Chosen:
    """Scan all atoms, or those of a subset; ids ascend, so ties go to the smallest."""
    first = np.zeros(len(queries), np.int64)
    if part is None:
        return Chosen.from_hits(ask_unchecked(Scan(atoms, screen=False), queries), first)
    hits = ask_unchecked(Scan(ArrayAtoms(atoms.take(part.ids)), screen=False), queries)
    chosen = Chosen.from_hits(hits, first)
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
