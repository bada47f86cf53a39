"""Targets over sets of weights that the Gram matrix of a hull or a pass does not know.

A cone is solved in batches (`solve.cones`); what these do not prove, and every other set, is solved as
`minimize` does, one target after the other.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfhound.core.contracts import Oracle, Status, Vector
from wolfhound.many.batch import Banned, TargetBatch, join_batches, make_unsolved
from wolfhound.many.given import make_answer, solve_objective
from wolfhound.many.result import CODES
from wolfhound.objectives.plain import SquaredDistance
from wolfhound.solve.cones import ConeBatch

IN_TURN = 16
"""Targets that are solved one by one between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class SetSolver:
    """Atoms, options of `minimize`, the cone if batches may be proved of it, and seconds that are left."""

    oracle: Oracle
    options: dict[str, Any]
    cone: ConeBatch | None
    time_left: Callable[[], float]
    alone = True
    quick = False

    def chunk(self, m: int) -> int:
        """How many of m targets are solved in one go."""
        return IN_TURN if self.cone is None else self.cone.most

    def answer(self, targets: Vector, banned: Banned) -> TargetBatch:
        """Solve (m, d) targets."""
        proved = self._solve_batch(targets, banned) if self.cone is not None else {}
        done = list[TargetBatch]()
        for i, target in enumerate(targets):
            if i in proved:
                done.append(proved[i])
                continue
            ids, options = banned.atoms[banned.targets == i], self.options | {"max_seconds": self.time_left()}
            if len(ids) == self.oracle.atoms.shape[0]:  # it may use none
                done.append(make_unsolved(1, Status.SKIPPED))
                continue
            done.append(solve_objective(SquaredDistance(target), self.oracle, ids, options))
            if done[-1].codes[0] == CODES[Status.INTERRUPTED]:
                done.append(make_unsolved(len(targets) - len(done), Status.INTERRUPTED))
                break
        return join_batches(done)

    def _solve_batch(self, targets: Vector, banned: Banned) -> dict[int, TargetBatch]:
        """Solve all together; those that are proved, by their place."""
        assert self.cone is not None
        scale = 0.5 * np.einsum("ij,ij->i", targets, targets)  # f(0), as `minimize` has it over a cone
        goals = np.maximum(self.options["atol"], self.options["rtol"] * scale)
        found = self.cone.solve(targets, goals, banned)
        proved = {}
        for i in np.flatnonzero(found.value - found.lower <= goals):
            ids = np.flatnonzero(found.weights[i])
            proof = float(found.value[i]), float(found.lower[i]), float(goals[i])
            proved[int(i)] = make_answer(
                (ids, found.weights[i, ids]), proof, Status.GAP_REACHED, int(found.passes[i])
            )
        return proved
