"""Checks of a model: rows are distributions, gradients belong to values."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wolfhound.atoms import block_rows
from wolfhound.core import Atoms, Matrix, Vector
from wolfhound.policy.answers import Subset
from wolfhound.policy.tabular.rewards import Reward
from wolfhound.policy.tabular.transitions import AffineTransition, Transition
from wolfhound.rounding import UNIT

_SUM = 1e-6  # allowed error of a sum of probabilities: that of atoms in float32

_STEP = 6e-6  # of central differences, near the third root of the rounding error

_CELLS = 1 << 24  # probabilities that are looked at together


def check_rows(chances: Vector) -> None:
    """Raise ValueError if a row of P is no distribution, naming its state."""
    _check_distributions(chances, "distributions", lambda s: f"in state {s}")


def _check_distributions(chances: Vector, rule: str, where: Callable[[int], str]) -> None:
    low, sums = chances.min(axis=1), chances.sum(axis=1)
    bad = np.flatnonzero((low < -_SUM) | (np.abs(sums - 1.0) > _SUM))
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"`transition` must give {rule}. Got a row of sum {sums[i]:g} "
            f"with least entry {low[i]:g} {where(i)}."
        )


def check_affine(transition: AffineTransition, atoms: Atoms, subsets: Sequence[Subset] | None) -> None:
    """Raise ValueError unless every action of a state leads to a distribution.

    For atoms in the simplex and distributions per coordinate nothing more need be
    computed; else all n S^2 probabilities are.
    """
    tensor, states = transition.tensor, transition.shape[0]
    plain = transition.offset is None and bool((tensor >= 0.0).all())
    plain = plain and bool((np.abs(tensor.sum(axis=2) - 1.0) <= _SUM).all())
    if subsets is not None:
        for s, part in enumerate(subsets):
            _check_block(transition, range(s, s + 1), atoms.take(part.ids), part.ids.tolist())
        return
    for first, block in atoms.blocks(block_rows(atoms)):
        if plain and bool((block >= 0.0).all() and (np.abs(block.sum(axis=1) - 1.0) <= _SUM).all()):
            continue
        _check_block(transition, range(states), block, range(first, first + len(block)))


def _check_block(transition: AffineTransition, states: range, rows: Matrix, names: Sequence[int]) -> None:
    step = max(1, _CELLS // transition.shape[0])
    for s in states:
        offset = 0.0 if transition.offset is None else transition.offset[s]
        for at in range(0, len(rows), step):
            chances = rows[at : at + step] @ transition.tensor[s] + offset
            part = names[at : at + step]
            _check_distributions(
                chances,
                "distributions for all actions",
                lambda i, part=part, s=s: f"for atom {part[i]} in state {s}",  # type: ignore[misc]
            )


def check_gradients(reward: Reward, transition: Transition, policy: Vector, *, rtol: float) -> float:
    """Compare gradients with central differences; see `ACMDP.check`."""
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, len(policy))
    worst = _check("reward", reward.values, reward.gradients(policy), policy, rtol)
    slopes = transition.pull(policy, weights)
    other = _check("transition", lambda a: transition.matrix(a) @ weights, slopes, policy, rtol)
    return max(worst, other)


def _check(
    name: str, value: Callable[[Vector], Vector], slopes: Vector, policy: Vector, rtol: float
) -> float:
    found = np.empty_like(slopes)
    for j in range(policy.shape[1]):
        above, below = policy.copy(), policy.copy()
        above[:, j] += _STEP
        below[:, j] -= _STEP
        found[:, j] = (value(above) - value(below)) / (above[:, j] - below[:, j])
    # Differences of values carry their rounding: no fault of the gradient.
    noise = 64.0 * UNIT * float(np.abs(value(policy)).max()) / _STEP
    scale = max(float(np.abs(found).max()), float(np.abs(slopes).max()), 1e-300)
    excess = np.maximum(np.abs(found - slopes) - noise, 0.0) / scale
    s, j = (int(i) for i in np.unravel_index(excess.argmax(), excess.shape))
    if excess[s, j] > rtol:
        raise ValueError(
            f"`gradient` of the {name} gives {slopes[s, j]:g} for coordinate {j} in state {s}, "
            f"but differences of its value give {found[s, j]:g}."
        )
    return float(excess[s, j])
