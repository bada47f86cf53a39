"""Rules to compare SFWPO with, on the same networks, replay and training.

Agent(env, actions, rule=TD3(), settings=Settings(seed=1))
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from wolfhound.core.contracts import Ids, Matrix
from wolfhound.core.validate import count, kind, number
from wolfhound.policy.actions import HullPoints
from wolfhound.policy.deep import RULES
from wolfhound.policy.deep.rules import (
    Brain,
    Critic,
    Described,
    HullDecision,
    Tensor,
    measure_step,
    to_tensor,
    torch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HullRule(Described):
    """What rules share whose actions are mixtures."""

    decision: HullDecision = field(default_factory=HullDecision)  # from the actor's output to an action

    def __post_init__(self) -> None:
        kind(self.decision, "decision", "a HullDecision(...)", HullDecision)

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """The slow actor's output."""
        out: Tensor = brain.slow_actor(obs)
        return out


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NFWPO(HullRule):
    """Frank-Wolfe policy optimisation with a projection wherever an action is used.

    The targets' actions and the point from which the actor's Frank-Wolfe step
    is taken are projected too (Lin, Hung, Yang, Hsieh, Liu 2021). Give it an action
    set with an exact oracle: the reference for what SFWPO leaves out.

    Parameters
    ----------
    decision
        From the actor's output to an action.
    project
        Frank-Wolfe steps of the projections in an update.
    """

    name: ClassVar[str] = "nfwpo"
    project: int = 8

    def __post_init__(self) -> None:
        HullRule.__post_init__(self)
        count(self.project, "project")

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """The projection of the slow actor's output."""
        return to_tensor(brain.project(brain.slow_actor(obs), self.project).points)

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        """Mean squared distance from the Frank-Wolfe step at the projected output."""
        points: Tensor = brain.actor(obs)
        origin = to_tensor(brain.project(points, self.project).points)
        return measure_step(brain, obs, points, origin)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TD3(HullRule):
    """The deterministic policy gradient; only what is executed is projected.

    Parameters
    ----------
    decision
        From the actor's output to an action; ``HullDecision(refine=0)`` is the
        usual TD3 with a projection, the default refines as SFWPO does.
    """

    name: ClassVar[str] = "td3"

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        """Minus the mean value of the actor's output."""
        return -brain.critic.first(obs, brain.actor(obs)).mean()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wolpertinger(Described):
    """The best by the critic of the k atoms nearest to the actor's output.

    Dulac-Arnold et al. 2015, with an exact search for neighbours. Every action
    is an atom; the actor learns as in TD3.

    Parameters
    ----------
    neighbours
        k.
    noise
        Standard deviation, in every coordinate, of what exploration adds to the
        actor's output.
    """

    name: ClassVar[str] = "wolpertinger"
    neighbours: int = 10
    noise: float = 0.15

    def __post_init__(self) -> None:
        count(self.neighbours, "neighbours", low=1)
        number(self.noise, "noise", low=0.0)

    @property
    def decision(self) -> Wolpertinger:
        """Itself."""
        return self

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """The best neighbour by the slow networks."""
        points = brain.slow_actor(obs)
        return to_tensor(find_neighbours(brain, brain.slow_critic, obs, points, self.neighbours)[1])

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        """Minus the mean value of the actor's output."""
        return -brain.critic.first(obs, brain.actor(obs)).mean()

    def start(self, brain: Brain, m: int) -> HullPoints:
        """Random atoms."""
        rows, ids = brain.actions.random(m, brain.rng)
        return _as_points(ids, rows)

    def decide(self, brain: Brain, obs: Tensor, *, explore: bool) -> HullPoints:
        """The best neighbour of the actor's output, moved at random to explore."""
        with torch.no_grad():
            points = brain.actor(obs)
        if explore:
            points = points + self.noise * to_tensor(brain.rng.standard_normal(points.shape))
        return _as_points(*find_neighbours(brain, brain.critic, obs, points, self.neighbours))


def _as_points(ids: Ids, rows: Matrix) -> HullPoints:
    return HullPoints(points=rows.astype(np.float64), ids=ids[:, None], weights=np.ones((len(ids), 1)))


def find_neighbours(brain: Brain, critic: Critic, obs: Tensor, points: Tensor, k: int) -> tuple[Ids, Matrix]:
    """(m,) ids and (m, d) rows of the best by a critic of each point's k nearest atoms."""
    near = brain.actions.neighbours(points.numpy(), k)
    brain.work[0] += len(near) * brain.actions.n
    rows = brain.actions.atoms.take(near.ravel()).reshape(*near.shape, -1)
    with torch.no_grad():
        best = critic.each(obs, to_tensor(rows)).argmax(dim=1).numpy()
    each = np.arange(len(near))
    return near[each, best], rows[each, best]


for each in (NFWPO, TD3, Wolpertinger):
    RULES.add(each)
