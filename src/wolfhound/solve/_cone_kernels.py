"""Many right sides over a cone by a Gram matrix: the one active set, a target after the other."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from wolfhound.compiled.active_set import AT_ZERO, FREE, STATE, WEIGHT, GramState, begin, walk
from wolfhound.compiled.jit import lean_kernel
from wolfhound.core.contracts import Ints, Vector

MANY = 1 << 40  # more atoms and steps than there are


@lean_kernel
def solve_cones(
    state: GramState, cross: Vector, squares: Vector, goals: Vector, ids: Ints, weights: Vector, support: Ints
) -> None:
    """Write the (m, c) atoms and weights of every target, and (m,) how many; where it starts is there before.

    `state` is that of the Gram matrix of n atoms; `cross` (m, wide) has the products of targets and atoms,
    `active_set.SHUT` for atoms that must not be used, and the padding; `squares` and `goals` (m,) are |b|^2,
    and the largest violation that is accepted.
    """
    linear, states, n = state.linear, state.marks[STATE], len(state.gram)
    for t in range(len(goals)):
        begin(state, n, 0.0, 0.0, 0.0)
        for j in range(len(linear)):
            linear[j] = cross[t, j]
        for j in range(n):
            states[j] = AT_ZERO
        walk(state, None, ids[t], weights[t], support[t], squares[t], goals[t], MANY, MANY)
        support[t] = state.sizes[FREE]
        for i in range(support[t]):
            ids[t, i], weights[t, i] = state.labels[i], state.lines[WEIGHT, i]
