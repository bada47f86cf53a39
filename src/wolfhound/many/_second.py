"""A second opinion: the ordinary method takes over where the compiled loops gave up.

Passes of the compiled loops are in float32 or int8 and their rounding is part of what they
prove, and their tableau does not tell nearly dependent atoms apart. A target that stalls
there is minimised once more as `minimize` would, in float64, from the point where it is;
those of a chunk share their passes. Both proofs are of the same problem, so the better of
the two values and of the two bounds count.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wolfhound._budget import fit_memory
from wolfhound.atoms import ConcatAtoms, MappedAtoms, as_atoms, finite_rows
from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Oracle, Start, Status, Vector
from wolfhound.gram._answers import judge
from wolfhound.gram._small import MEMORY
from wolfhound.gram._units import Units, measure_norms
from wolfhound.many._objectives import TOGETHER, Ended, run_method, run_together, sort_atoms, widen
from wolfhound.many._portion import ENDS, Goals, Portion, pick_answer, replace_answers
from wolfhound.many.result import CODES
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.objectives.quadratic import SquaredDistance
from wolfhound.oracles.scan import Scan
from wolfhound.rounding import TINY, UNIT, gamma

METHOD = FullyCorrective(harvest=256, pool=2048)
"""It begins close to the optimum, beside up to `TOGETHER` others: small harvests and pools do."""

KEPT = 1 << 26
"""Most bytes of atoms that are kept in our units; others are moved in every pass."""

FAR = 1e100
"""Targets beyond it, in our units, see all atoms as one point."""

WAITING = CODES[Status.INTERRUPTED]
"""Code of a target whose turn has not come."""

CUT = (Status.MAX_SECONDS, Status.LOST)
"""How a run ends that would have gone on."""


class Exact(NamedTuple):
    """Who answers, how many runs share a question, and the rows of the random atoms."""

    oracle: Oracle
    together: int
    pool: Matrix


class OneTarget(NamedTuple):
    """A target in our units, atoms that it must not use, its place, goal and where it is."""

    target: Vector
    banned: Ids
    at: int
    goal: float
    start: Start


@dataclass(slots=True)
class SecondOpinion:
    """Solves targets again that the compiled loops left STALLED.

    Attributes
    ----------
    oracle : Oracle
        All atoms, as given.
    units : Units
        In which targets are solved: far from the origin, others would lose digits.
    moved : bool
        Whether atoms are read and brought into these; else the oracle is asked as it is.
    pool : ids
        Random atoms to begin with.
    wanted : Goals
    memory : float
        Bytes to work in.
    over
        Tells whether time is over.
    """

    oracle: Oracle
    units: Units
    moved: bool
    pool: Ids
    wanted: Goals
    memory: float
    over: Callable[[], bool]
    _exact: Exact | None = None

    def rounds(self, found: Portion, rows: Vector, starts: Ints, banned: Ids) -> Iterator[Portion]:
        """Yield the answers before the first and after each round, if a target of them stalled.

        Those that wait for their turn are `WAITING`.

        Parameters
        ----------
        found
            Answers of a chunk.
        rows : (m, d)
            Its targets, as given; they are written.
        starts, banned
            As in `solve_portion`.
        """
        stalled = np.flatnonzero(found.codes == CODES[Status.STALLED])
        exact = self._prepare() if len(stalled) else None
        if exact is None:
            return
        self.units.convert_targets(rows)
        stalled = stalled[np.abs(rows[stalled]).max(axis=1) <= FAR]
        found = found._replace(codes=found.codes.copy())
        found.codes[stalled] = WAITING
        yield found
        for first in range(0, len(stalled), exact.together):
            some = [
                self._begin(exact, found, t, rows[t], banned[starts[t] : starts[t + 1]])
                for t in stalled[first : first + exact.together].tolist()
            ]
            runs = [_plan(each, self.over) for each in some]
            ends = run_together(exact.oracle, runs)
            answers = [self._combine(found, one, ended) for one, ended in zip(some, ends, strict=True)]
            found = replace_answers(found, [one.at for one in some], answers)
            yield found

    def _prepare(self) -> Exact | None:
        """Make the oracle once, when a target first needs it; None if there is no memory for it."""
        if self._exact is not None:
            return self._exact
        oracle, together = self.oracle, TOGETHER
        given, (n, d) = _add_origin(oracle.atoms), oracle.atoms.shape
        if not self.moved:
            oracle = WithOrigin(oracle, given) if self.wanted.zero >= 0 else oracle
        else:
            given = given if self.wanted.zero >= 0 else oracle.atoms
            atoms: Atoms = MappedAtoms(given, self.units.convert, d)
            if 8 * n * d <= min(KEPT, self.memory / 8.0):
                atoms = as_atoms(atoms.take(np.arange(atoms.shape[0])))
            oracle = Scan(atoms)
            if self.memory < MEMORY:
                try:
                    oracle, together = fit_memory(atoms, METHOD, self.memory / 4.0)[0], 1
                except ValueError:
                    return None
        self._exact = Exact(oracle, together, finite_rows(oracle.atoms, self.pool))
        return self._exact

    def _begin(self, exact: Exact, found: Portion, t: int, target: Vector, banned: Ids) -> OneTarget:
        """Where the compiled loops left a target; they may have found nothing."""
        here = slice(found.indptr[t], found.indptr[t + 1])
        ids, weights = found.ids[here], found.weights[here]
        shadow = 1.0 - float(weights.sum())
        if self.wanted.zero >= 0 and shadow > 0.0:
            ids, weights = np.append(ids, self.wanted.zero), np.append(weights, shadow)
        usable = ~np.isin(self.pool, banned)
        start = Start(
            ids=ids,
            weights=weights,
            rows=finite_rows(exact.oracle.atoms, ids),
            pool_ids=self.pool[usable],
            pool=exact.pool[usable],
            exclude=banned,
        )
        # Half of the goal is left for what moving rows into our units loses.
        return OneTarget(target, banned, t, 0.5 * self.units.square_in(float(found.goal[t])), start)

    def _combine(self, found: Portion, one: OneTarget, ended: Ended | None) -> Portion:
        """What both opinions prove of a target."""
        old = pick_answer(found, one.at)
        if ended is None:
            return old._replace(codes=np.array([CODES[Status.MAX_SECONDS]], np.int8))
        ids, weights = sort_atoms(ended.best)
        value, lower = np.array([ended.best.value]), np.array([max(ended.last.lower, 0.0)])
        far, near = widen(value, lower, self._doubt(one.target, float(value[0]), len(ids)))
        slack = self.units.square_up(ended.best.slack + (far - value) + (lower - near))
        far, near = self.units.square_up(far), np.maximum(old.lower, self.units.square_down(near))
        full = np.minimum(old.value - old.price, far)
        limit = self.wanted.max_atoms
        if far < old.value and (limit is None or len(ids) <= limit):
            held = ids != self.wanted.zero
            size = np.array([0, held.sum()])
            old = old._replace(indptr=size, ids=ids[held], weights=weights[held], value=far)
        near = np.minimum(near, old.value)
        codes = ENDS[judge(full - np.minimum(near, full), old.goal, slack)]
        if codes[0] == CODES[Status.STALLED]:
            codes = np.array([CODES[ended.status if ended.status in CUT else Status.STALLED]], np.int8)
        elif full < old.value < math.inf and old.value - near > old.goal:
            codes = np.array([CODES[Status.FINISHED]], np.int8)
        passes = old.passes + math.ceil(ended.last.passes)
        return old._replace(lower=near, codes=codes, passes=passes, price=np.maximum(old.value - full, 0.0))

    def _doubt(self, target: Vector, value: float, k: int) -> float:
        """At most how far rows and target in our units, and a mixture of k, are from the true ones.

        Entries that were moved are off by a unit of themselves, and those of rows are at most 1. The
        weight of the origin is left out of an answer: the others sum to what they do.
        """
        d, norm, doubt = len(target), float(measure_norms(target[None])[0]), 0.0
        size = norm + math.sqrt(2.0 * value)
        if self.moved:
            size = math.sqrt(d) * (1.0 + gamma(8))
            doubt = UNIT * (size + norm) + 2 * d * TINY
        if self.wanted.zero >= 0:
            origin = float(measure_norms(self.units.convert(np.zeros((1, d))))[0])
            doubt += gamma(8 * k + 8) * (size + origin)
        return 1.01 * doubt


class WithOrigin(NamedTuple):
    """An oracle of the caller's, and the origin as one more atom: the last of `atoms`."""

    oracle: Oracle
    atoms: Atoms

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        """Ask; the origin has score 0, and comes last among equals."""
        n, m = self.oracle.atoms.shape[0], len(queries)
        hits = self.oracle.query(queries, k=min(k, n), thresholds=thresholds, exclude=exclude)
        scores = np.concatenate([hits.scores, np.zeros((m, 1))], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        ids = np.concatenate([hits.ids, np.full((m, 1), n)], axis=1)
        slots = np.concatenate([hits.slots, np.full((m, 1), len(hits.rows))], axis=1)
        return replace(
            hits,
            ids=np.take_along_axis(ids, order, axis=1),
            scores=np.take_along_axis(scores, order, axis=1),
            bounds=np.maximum(hits.bounds, 0.0),
            rows=np.concatenate([hits.rows, np.zeros((1, hits.rows.shape[1]), hits.rows.dtype)]),
            slots=np.take_along_axis(slots, order, axis=1),
        )


def _add_origin(atoms: Atoms) -> Atoms:
    return ConcatAtoms([atoms, np.zeros((1, atoms.shape[1]), atoms.dtype)])


def _plan(one: OneTarget, over: Callable[[], bool]) -> Callable[[Oracle], Ended | None]:
    """The run of a target."""
    objective = SquaredDistance(one.target)
    start = METHOD.begin(objective, one.start, np.random.default_rng(0))
    # Stake 0: how it ended is judged when both opinions are combined.
    return lambda oracle: run_method(METHOD, objective, oracle, start, goal=one.goal, stake=0.0, over=over)
