"""How an agent decides and how its actor learns: the rule of SFWPO and its parts.

A rule is a small record of settings. It sees networks and actions through a
`Brain`, and knows nothing of environments, replay or training.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core import Ids, Vector
from wolfhound.policy.actions import ActionSet, project_rows
from wolfhound.policy.answers import Chosen, HullPoints, Rows, Subset
from wolfhound.policy.deep.networks import Actor, Critic, Tensor, to_tensor, torch
from wolfhound.registry import Registry
from wolfhound.validate import count, kind, require, within

GRID = (0.0, 0.03, 0.06, 0.12, 0.25, 0.5, 0.8)
"""Step sizes that are tried on the critic; 0 stays where it is."""

SubsetsOf: TypeAlias = Callable[[Rows], Sequence[Subset | ArrayLike | None]]
"""(m, o) observations -> for each, the ids of the actions that it allows, or None: all."""

_ANY = 4  # random atoms in a random point of the hull

_SPARSE = 0.5  # of the Dirichlet weights of a random point: below 1, few atoms have most of it


@dataclass(slots=True)
class Brain:
    """What a rule works with: networks that learn, slow ones that follow them for the targets, the hull."""

    actor: Actor
    critic: Critic
    slow_actor: Actor
    slow_critic: Critic
    actions: ActionSet
    rng: np.random.Generator  # of everything random that a rule does
    subsets: SubsetsOf | None = None  # which actions each observation allows; None: all
    work: list[int] = field(default_factory=lambda: [0])  # atoms scored, one number for all views

    @property
    def scored(self) -> int:
        """Atoms scored so far."""
        return self.work[0]

    def count(self, scored: int) -> None:
        """Note that so many atoms were scored."""
        self.work[0] += scored

    def facing(self, obs: Tensor | Rows) -> Brain:
        """Return a view whose actions are, row by row, those that these observations allow."""
        if self.subsets is None:
            return self
        allowed = self.subsets(np.asarray(obs, np.float32))
        kind(allowed, "subsets(...)", "a list of ids, one per observation", list, tuple)
        require(len(allowed) == len(obs), "subsets(...)", f"of length {len(obs)}", len(allowed))
        return replace(self, actions=self.actions.within(allowed), subsets=None)

    def choose(self, directions: Tensor, points: Tensor) -> Chosen:
        """Ask the action set for an atom per direction, and count the work."""
        chosen = self.actions.answer(_to_rows(directions), points=_to_rows(points))
        self.count(chosen.scored)
        return chosen

    def project(self, points: Tensor, steps: int) -> HullPoints:
        """Move points into the hull by Frank-Wolfe steps."""
        hull = project_rows(self.actions, _to_rows(points), steps)
        self.count(hull.scored)
        return hull


def _to_rows(points: Tensor) -> Vector:
    """Return what a network gave as an oracle takes it, unchecked but for numbers that are none."""
    rows: Vector = points.detach().numpy().astype(np.float64)
    if not np.isfinite(rows).all():
        raise FloatingPointError("a network gave inf or nan: are observations and rewards of moderate size?")
    return rows


class Decision(Protocol):
    """How an action is chosen; always in the hull."""

    def start(self, brain: Brain, m: int) -> HullPoints:
        """Choose m actions before anything was learned."""

    def decide(self, brain: Brain, obs: Tensor, *, explore: bool) -> HullPoints:
        """Choose an action per observation."""


class Rule(Protocol):
    """How an agent decides, and what its networks learn from.

    Frozen, made without arguments or with settings, and compared by them. Registered with
    ``wolfhound.policy.RULES.add``; `Described` gives `to_json` and `from_json` to a dataclass.
    """

    name: ClassVar[str]
    """What it is called in files."""

    @property
    def decision(self) -> Decision:
        """How an action is chosen."""

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """(m, d) actions at the next states, for the targets of the critics."""

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        """What the actor minimises, a scalar."""

    def to_json(self) -> dict[str, Any]:
        """Settings as JSON values."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Make the rule that `to_json` described."""


class Execution(Protocol):
    """How a point of the hull becomes what the environment is given."""

    name: ClassVar[str]
    """What it is called in files."""

    single: ClassVar[bool]
    """Whether single atoms are executed, by id: what an environment with a Discrete space needs."""

    def act(self, actions: ActionSet, hull: HullPoints, rng: np.random.Generator) -> Rows | Ids:
        """What is executed: (m,) ids of atoms if `single`, else (m, d) points of the hull."""

    def to_json(self) -> dict[str, Any]:
        """Settings as JSON values."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Make the execution that `to_json` described."""


@dataclass(frozen=True, slots=True)
class Described:
    """A record of settings that is saved as its fields; all must have defaults.

    Examples
    --------
    >>> FrankWolfeRule.from_json({"decision": {"refine": 1}}).decision
    HullDecision(project=4, refine=1, exploration=0.4)
    """

    def to_json(self) -> dict[str, Any]:
        """Return the fields, those of records within as well."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Make the record that `to_json` described; fields that are missing have their defaults."""
        inner = {name: getattr(cls(), name) for name in values}
        records = {name for name, part in inner.items() if isinstance(part, Described)}
        return cls(**values | {name: inner[name].from_json(values[name]) for name in records})


Thing = TypeVar("Thing", Rule, Execution)


def describe(table: Registry[type[Thing]], thing: Thing, argument: str) -> dict[str, Any]:
    """Name and settings of a thing, as they are saved.

    What is not in the table, or has settings that are no JSON, is a TypeError: it could not be loaded again.
    """
    name = getattr(thing, "name", None)
    if not isinstance(name, str) or name not in table or table[name] is not type(thing):
        rule = f"of the table of {', '.join(table)}: add its class by `{argument.upper()}S.add`"
        raise TypeError(f"`{argument}` must be {rule}. Got {thing!r}.")
    saved = {"name": name, "settings": thing.to_json()}
    json.dumps(saved)
    return saved


def recall(table: Registry[type[Thing]], saved: Mapping[str, Any]) -> Thing:
    """The thing that `describe` described.

    Examples
    --------
    >>> from wolfhound.policy.deep import EXECUTIONS
    >>> recall(EXECUTIONS, describe(EXECUTIONS, Draw(), "execution"))
    Draw()
    """
    return table.find(saved["name"]).from_json(saved["settings"])


# ---------------------------------------------------------------- Frank-Wolfe on the critic


def climb(brain: Brain, obs: Tensor, points: Tensor) -> tuple[Chosen, Tensor]:
    """One Frank-Wolfe step on the critic: atoms (m,) and step sizes (m,).

    The atom is the action set's answer to the gradient of the first critic; the
    step is the best of `GRID` by the critic's values.
    """
    chosen = brain.choose(brain.critic.directions(obs, points), points)
    grid = torch.tensor(GRID)
    with torch.no_grad():
        delta = to_tensor(chosen.rows) - points
        values = brain.critic.each(obs, points[:, None] + grid[None, :, None] * delta[:, None])
        return chosen, grid[values.argmax(dim=1)]


def mix_in(hull: HullPoints, ids: Ids, rows: NDArray[np.floating], steps: Vector) -> HullPoints:
    """Move points of the hull towards atoms: ``(1 - step) point + step atom``.

    Examples
    --------
    >>> one = HullPoints(points=np.eye(2)[:1], ids=np.array([[0]]), weights=np.ones((1, 1)))
    >>> two = mix_in(one, np.array([1]), np.eye(2)[1:], np.array([0.25]))
    >>> two.points, two.weights
    (array([[0.75, 0.25]]), array([[0.75, 0.25]]))
    """
    step = steps[:, None]
    return HullPoints(
        points=hull.points + step * (rows - hull.points),
        ids=np.concatenate([hull.ids, ids[:, None]], axis=1),
        weights=np.concatenate([(1.0 - step) * hull.weights, step], axis=1),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HullDecision(Described):
    """From the actor's point to an action in the hull.

    Projects by Frank-Wolfe steps, then takes Frank-Wolfe steps on the critic.
    Exploration mixes in a random atom, which stays in the hull.

    Parameters
    ----------
    project
        Steps of the projection.
    refine
        Steps on the critic; 0: none.
    exploration
        The share of the random atom is uniform on [0, exploration].

    Examples
    --------
    >>> HullDecision(refine=0).project
    4
    """

    project: int = 4
    refine: int = 3
    exploration: float = 0.4

    def __post_init__(self) -> None:
        count(self.project, "project")
        count(self.refine, "refine")
        within(self.exploration, "exploration", "[0, 1]")

    def start(self, brain: Brain, m: int) -> HullPoints:
        """Random points of the hull, each of four random atoms."""
        rows, ids = brain.actions.random(m * _ANY, brain.rng)
        weights = brain.rng.dirichlet(np.full(_ANY, _SPARSE), size=m)
        points = np.einsum("mk,mkd->md", weights, rows.reshape(m, _ANY, -1), dtype=np.float64)
        return HullPoints(points=points, ids=ids.reshape(m, _ANY), weights=weights)

    def decide(self, brain: Brain, obs: Tensor, *, explore: bool) -> HullPoints:
        """Project the actor's output, refine it, explore from there."""
        with torch.no_grad():
            hull = brain.project(brain.actor(obs), self.project)
        for _ in range(self.refine):
            chosen, steps = climb(brain, obs, to_tensor(hull.points))
            hull = mix_in(hull, chosen.ids, chosen.rows, steps.numpy().astype(np.float64))
        if not explore:
            return hull
        rows, ids = brain.actions.random(len(obs), brain.rng)
        return mix_in(hull, ids, rows, self.exploration * brain.rng.random(len(obs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HullRule(Described):
    """What rules share whose actions are mixtures."""

    decision: HullDecision = HullDecision()  # from the actor's output to an action

    def __post_init__(self) -> None:
        kind(self.decision, "decision", "a HullDecision(...)", HullDecision)

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """The slow actor's output."""
        out: Tensor = brain.slow_actor(obs)
        return out


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FrankWolfeRule(HullRule):
    """SFWPO: the actor is drawn to the Frank-Wolfe step from its own output.

    That output is not projected, so an update costs one search of the atoms, by
    any oracle, and no projection.

    Parameters
    ----------
    decision
        From the actor's output to an action.
    """

    name: ClassVar[str] = "sfwpo"

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        """Mean squared distance from the Frank-Wolfe step."""
        points: Tensor = brain.actor(obs)
        return measure_step(brain, obs, points, points.detach())


def measure_step(brain: Brain, obs: Tensor, points: Tensor, origin: Tensor) -> Tensor:
    """Mean squared distance of points from the Frank-Wolfe step at `origin`."""
    chosen, steps = climb(brain, obs, origin)
    goal = origin + steps[:, None] * (to_tensor(chosen.rows) - origin)
    return ((points - goal) ** 2).sum(dim=1).mean()


# ---------------------------------------------------------------- what is sent to the environment


@final
@dataclass(frozen=True, slots=True)
class Hull(Described):
    """Execute the point of the hull itself."""

    name: ClassVar[str] = "hull"
    single: ClassVar[bool] = False

    def act(self, actions: ActionSet, hull: HullPoints, rng: np.random.Generator) -> Rows:
        """The points."""
        return hull.points.astype(np.float32)


@final
@dataclass(frozen=True, slots=True)
class Nearest(Described):
    """Execute the nearest atom."""

    name: ClassVar[str] = "nearest"
    single: ClassVar[bool] = True

    def act(self, actions: ActionSet, hull: HullPoints, rng: np.random.Generator) -> Ids:
        """The atoms nearest to the points."""
        return actions.find_neighbours(hull.points, 1)[:, 0]


@final
@dataclass(frozen=True, slots=True)
class Draw(Described):
    """Execute a random atom whose mean is the point of the hull."""

    name: ClassVar[str] = "draw"
    single: ClassVar[bool] = True

    def act(self, actions: ActionSet, hull: HullPoints, rng: np.random.Generator) -> Ids:
        """Atoms drawn by their weights."""
        return actions.draw(hull.ids, hull.weights, rng)
