"""`ActionSet`: actions that are the hull of given vectors, searched in batches.

Knows atoms, oracles and directions; must not know what a state, a reward or a
critic is. The tabular and the deep methods ask it alike.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound import validate
from wolfhound.atoms import ArrayAtoms, MappedAtoms, as_atoms, norms
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Oracle, Vector
from wolfhound.objectives.quadratic import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.transforms import squared_min_ip_atom, squared_min_ip_query
from wolfhound.oracles.wrappers import check_same_atoms
from wolfhound.policy.answers import Chosen, HullPoints, Subset, first
from wolfhound.policy.winners import Winners
from wolfhound.result import Result
from wolfhound.solve import minimize
from wolfhound.threads import one_blas_thread

FEW = 0.1
"""Subsets of less than this share of the atoms are gathered and scanned."""

WIDE = 32
"""Answers an index is asked for where only a subset may be chosen."""

_ALIKE = 1e-6
"""Norms that differ by no more than this share are taken as equal."""


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
        Of `random` and `draw` where they are given no generator.

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
        self._atoms = as_atoms(atoms)
        if oracle is not None:
            check_same_atoms(self._atoms, validate.oracle(oracle, "oracle").atoms, "oracle")
        self._indexed = oracle is not None
        self._oracle: Oracle = Scan(self._atoms) if oracle is None else oracle
        self._winners = Winners(self._atoms, validate.count(cache, "cache"))
        self._remembers = True
        self._rng = validate.rng(seed)
        self._near: tuple[Scan, bool] | None = None

    @property
    def atoms(self) -> Atoms:
        """The vectors whose hull it is."""
        return self._atoms

    @property
    def n(self) -> int:
        """How many atoms."""
        return self._atoms.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d of an action."""
        return self._atoms.shape[1]

    @property
    def oracle(self) -> Oracle:
        """What answers directions."""
        return self._oracle

    @property
    def exact(self) -> bool:
        """Whether no oracle was given, so that every answer is proved."""
        return not self._indexed

    def __repr__(self) -> str:
        """The oracle and the size of the cache."""
        return f"ActionSet({self._oracle!r}, cache={self._winners.room})"

    # ------------------------------------------------------------ the cache

    @property
    def winners(self) -> Winners:
        """The atoms that won before."""
        return self._winners

    def fresh(self) -> ActionSet:
        """Return the same set with a cache of its own, in which nothing has won yet."""
        other = copy.copy(self)
        other._winners = Winners(self._atoms, self._winners.room)
        return other

    def frozen(self) -> ActionSet:
        """Return the same set with the same cache, which it uses but does not change.

        Examples
        --------
        >>> actions = ActionSet(np.eye(3))
        >>> chosen = actions.frozen().argmax([[1.0, 3.0, 2.0]])
        >>> len(actions.winners.kept()[0])
        0
        """
        other = copy.copy(self)
        other._remembers = False
        return other

    # ------------------------------------------------------------ directions

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
        queries = self._rows(directions, "directions")
        here = None if points is None else self._rows(points, "points", len(queries))
        if thresholds is not None:
            thresholds = validate.vector(thresholds, "thresholds", size=len(queries))
        part = None if subset is None else self.subset(subset, "subset")
        chosen = self._found(queries, thresholds, part)
        chosen = self._joined(queries, chosen, part)
        if self._remembers:
            self._winners.remember(chosen.ids, chosen.rows)
        if here is None:
            return chosen
        return replace(chosen, gaps=chosen.scores - np.einsum("ij,ij->i", queries, here))

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

    def _rows(self, value: Any, name: str, m: int | None = None) -> Vector:
        rows = validate.matrix(value, name)
        size = "m" if m is None else m
        fits = rows.shape[1] == self.dim and m in (None, len(rows))
        validate.require(fits, name, f"a ({size}, {self.dim}) array", f"shape {rows.shape}")
        return rows

    def _found(self, queries: Vector, floors: Vector | None, part: Subset | None) -> Chosen:
        """Ask the oracle; choose from a subset by scanning it, or by filtering what it finds."""
        if part is not None and (not self._indexed or len(part) < FEW * self.n):
            return self._scanned(queries, part)
        hits = self._oracle.query(queries, k=1 if part is None else min(WIDE, self.n), thresholds=floors)
        good = hits.ids >= 0
        if part is not None:
            good &= part.has(hits.ids)
        lost = np.flatnonzero(~good.any(axis=1))
        if not len(lost):
            return first(hits, good.argmax(axis=1))
        other = self._scanned(queries[lost], part)
        scored, passes = int(hits.scored.sum()) + other.scored, hits.passes + other.passes
        if len(lost) == len(queries):
            return replace(other, scored=scored, passes=passes)
        chosen = replace(
            first(hits, good.argmax(axis=1)), bounds=hits.bounds.copy(), scored=scored, passes=passes
        )
        for name in ("ids", "rows", "scores", "bounds"):
            getattr(chosen, name)[lost] = getattr(other, name)
        return chosen

    def _scanned(self, queries: Vector, part: Subset | None) -> Chosen:
        """Scan all atoms, or those of a subset; ids ascend, so ties go to the smallest."""
        if part is None:
            return first(Scan(self._atoms, screen=False).query(queries))
        chosen = first(Scan(ArrayAtoms(self._atoms.take(part.ids)), screen=False).query(queries))
        return replace(chosen, ids=part.ids[chosen.ids], passes=chosen.passes * len(part) / self.n)

    def _joined(self, queries: Vector, chosen: Chosen, part: Subset | None) -> Chosen:
        """Let past winners compete where nothing is proved."""
        unproved = np.flatnonzero(~chosen.proved)
        ids, rows = self._winners.kept()
        if part is not None:
            mine = part.has(ids)
            ids, rows = ids[mine], rows[mine]
        if not len(unproved) or not len(ids):
            return chosen
        asked = queries[unproved]
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            place = (asked.astype(rows.dtype) @ rows.T).argmax(axis=1)
        scores = np.einsum("ij,ij->i", asked, rows[place], dtype=np.float64)
        better = scores > chosen.scores[unproved]
        where, place = unproved[better], place[better]
        out = replace(chosen, scored=chosen.scored + len(unproved) * len(ids))
        if len(where):
            # Fresh arrays: what `_first` gave is ours alone.
            out.ids[where], out.rows[where], out.scores[where] = ids[place], rows[place], scores[better]
        return out

    # ------------------------------------------------------------ points of the hull

    def project(self, points: ArrayLike, *, steps: int = 4) -> HullPoints:
        """Move points into the hull by a few Frank-Wolfe steps on 1/2 |a - y|^2.

        Starts at the atom with the largest <y, s>; line searches are exact. The
        points are in the hull by construction, near the projection but not
        proved to be it: see `prove`.

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
        y = self._rows(points, "points")
        steps = validate.count(steps, "steps")
        begun = self.argmax(y)
        a = begun.rows.astype(np.float64)
        ids = np.empty((len(y), steps + 1), np.int64)
        weights = np.zeros((len(y), steps + 1))
        ids[:, 0], weights[:, 0], scored = begun.ids, 1.0, begun.scored
        for t in range(1, steps + 1):
            chosen = self.argmax(y - a, points=a)
            delta = chosen.rows - a
            square = np.einsum("ij,ij->i", delta, delta)
            moves = (chosen.gaps > 0.0) & (square > 0.0)
            step = np.where(moves, np.minimum(chosen.gaps / np.where(moves, square, 1.0), 1.0), 0.0)
            a += step[:, None] * delta
            weights[:, :t] *= 1.0 - step[:, None]
            ids[:, t], weights[:, t] = chosen.ids, step
            scored += chosen.scored
        return HullPoints(points=a, ids=ids, weights=weights, scored=scored)

    def prove(self, point: ArrayLike, *, rtol: float = 1e-6) -> Result:
        """Project one point onto the hull, with a proved gap; see `minimize`.

        ``result.value`` is at least 1/2 of the squared distance of the point from
        the hull, ``result.lower`` at most.

        Examples
        --------
        >>> ActionSet(np.eye(2)).prove([0.9, 0.3]).x.round(6)
        array([0.8, 0.2])
        """
        return minimize(
            SquaredDistance(validate.vector(point, "point", size=self.dim)), self._atoms, rtol=rtol
        )

    def nearest(self, points: ArrayLike) -> Ids:
        """(m,) ids of the atoms nearest to the points; see `neighbours`.

        Examples
        --------
        >>> ActionSet([[1.0], [5.0]]).nearest([[2.0], [4.0]])
        array([0, 1])
        """
        return np.ascontiguousarray(self.neighbours(points, 1)[:, 0])

    def neighbours(self, points: ArrayLike, k: int) -> Ids:
        """(m, k) ids of the k nearest atoms, nearest first, by an exact scan.

        The nearest atom has the largest ``2 <y, s> - |s|^2``: an inner product with one
        more coordinate. Where all norms are equal (to 1e-6 of them) it has the
        largest <y, s>, and the atoms are scanned as they are. k is at most n.

        Examples
        --------
        >>> ActionSet([[1.0], [5.0], [3.0]]).neighbours([[1.5]], 2)
        array([[0, 2]])
        """
        y = self._rows(points, "points")
        k = min(validate.count(k, "k", low=1), self.n)
        if self._near is None:
            self._near = self._distances()
        scan, lifted = self._near
        hits = scan.query(squared_min_ip_query(y, np.zeros_like(y), 1.0) if lifted else y, k=k)
        return hits.ids

    def _distances(self) -> tuple[Scan, bool]:
        """A scan by distance, and whether it needs one more coordinate."""
        sizes = norms(self._atoms)
        if float(np.ptp(sizes)) <= _ALIKE * float(sizes.max()):
            return Scan(self._atoms, screen=False), False
        return Scan(MappedAtoms(self._atoms, squared_min_ip_atom, self.dim + 1), screen=False), True

    # ------------------------------------------------------------ chance

    def draw(self, ids: ArrayLike, weights: ArrayLike, rng: np.random.Generator | None = None) -> Ids:
        """Draw one atom per row with these chances: its mean is the hull point.

        Parameters
        ----------
        ids, weights : (m, k)
            As in `HullPoints`.
        rng
            By default the set's own.

        Examples
        --------
        >>> ActionSet(np.eye(3)).draw([[2, 0], [0, 1]], [[1.0, 0.0], [0.0, 1.0]])
        array([2, 1])
        """
        atoms, shares = validate.real_array(ids, "ids", 2), validate.matrix(weights, "weights")
        if atoms.dtype.kind not in "iu":
            raise TypeError(f"`ids` must be an array of integer ids. Got dtype {atoms.dtype}.")
        validate.require(
            atoms.shape == shares.shape, "ids", f"like `weights`, {shares.shape}", f"shape {atoms.shape}"
        )
        validate.ids(np.unique(atoms[shares > 0.0]), "ids", self.n)  # rows may be padded by any id
        totals = shares.sum(axis=1)
        good = bool((shares >= 0.0).all() and (np.abs(totals - 1.0) <= 1e-6).all())
        got = f"sums {totals.min():g} .. {totals.max():g}"
        validate.require(good, "weights", ">= 0 with rows of sum 1", got)
        steps = np.cumsum(shares, axis=1)
        steps /= steps[:, -1:]
        spun = self._source(rng).random(len(shares))
        # The first step above the number; it has a positive share, as the last step is 1.
        place = (steps <= spun[:, None]).sum(axis=1)
        return np.asarray(atoms[np.arange(len(atoms)), place], np.int64)

    def random(self, m: int, rng: np.random.Generator | None = None) -> tuple[Matrix, Ids]:
        """(m, d) random atoms, all equally likely, and their (m,) ids.

        Examples
        --------
        >>> rows, ids = ActionSet(np.eye(3)).random(5)
        >>> rows.shape, ids.shape
        ((5, 3), (5,))
        """
        size = validate.count(m, "m", low=1)
        ids = self._source(rng).integers(self.n, size=size, dtype=np.int64)
        return self._atoms.take(ids), ids

    def _source(self, rng: np.random.Generator | None) -> np.random.Generator:
        if rng is not None:
            validate.kind(rng, "rng", "a numpy.random.Generator", np.random.Generator)
        return self._rng if rng is None else rng
