"""How an agent decides and how its actor learns: its networks, the rule of SFWPO and its parts.

The one importer of torch, so that its absence is said once, and well. A rule is a small record of
settings. It sees networks and actions through a `Brain`, and knows nothing of environments, replay or
training. Weights are drawn from a generator of the caller, never from torch's global one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.core.contracts import Ids, Vector
from wolfhound.core.registry import Registry
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import count, kind, require, within
from wolfhound.policy.actions import ActionSet, Chosen, HullPoints, Rows, Subset, draw_ids, project_rows

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("policies that learn need torch: pip install 'wolfhound[rl]'") from None

__all__ = ["Tensor", "nn", "torch"]  # of torch, for others here: all else is defined here

CriticFeatures: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(m, o) observations, (m, d) actions -> (m, f) further inputs of a critic."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold torch and BLAS to one thread, so that their sums have one order; small networks are no slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


def to_tensor(rows: NDArray[np.floating]) -> Tensor:
    """Return a float32 tensor; shares the memory of a C-ordered float32 array, unless it is read-only."""
    return torch.from_numpy(np.require(rows, np.float32, ["C", "W"]))


def _linear(inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    """A layer with torch's usual weights, uniform on +-1/sqrt(inputs)."""
    with torch.random.fork_rng(devices=[]):  # its own first weights come from the global generator
        layer = nn.Linear(inputs, outputs, bias=bias)
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def _layers(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    return nn.Sequential(
        _linear(inputs, hidden, generator),
        nn.SiLU(),
        _linear(hidden, hidden, generator),
        nn.SiLU(),
        _linear(hidden, outputs, generator),
    )


@final
class Critic(nn.Module):
    """Two estimates of Q(observation, action), the pessimist's pair of TD3.

    A network that is given observation and action side by side hardly finds
    their inner products, which decide what an item is worth to a user: give
    them as `features`, differentiable in the action. Actions enter divided by `scale`, their largest norm.
    """

    def __init__(
        self,
        obs_dim: int,
        dim: int,
        *,
        hidden: int = 128,
        scale: float = 1.0,
        features: CriticFeatures | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._scale, self._features = scale, features
        extra = 0
        if features is not None:
            out = features(torch.zeros(2, obs_dim), torch.zeros(2, dim))
            good = isinstance(out, Tensor) and out.ndim == 2 and len(out) == 2
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            require(good, "critic_features", "a function to (m, f) tensors", f"{got} for m = 2")
            extra = int(out.shape[1])
        self._one = _layers(obs_dim + dim + extra, hidden, 1, generator)
        self._two = _layers(obs_dim + dim + extra, hidden, 1, generator)

    def _inputs(self, obs: Tensor, actions: Tensor) -> Tensor:
        parts = [obs, actions / self._scale]
        if self._features is not None:
            parts.append(self._features(obs, actions))
        return torch.cat(parts, 1)

    def forward(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """(m,) values of both critics at (m, o) observations and (m, d) actions."""
        inputs = self._inputs(obs, actions)
        return self._one(inputs)[:, 0], self._two(inputs)[:, 0]

    def first(self, obs: Tensor, actions: Tensor) -> Tensor:
        """(m,) values of the first critic: the one that is climbed."""
        values: Tensor = self._one(self._inputs(obs, actions))[:, 0]
        return values

    def each(self, obs: Tensor, choices: Tensor) -> Tensor:
        """(m, k) values of the first critic at k actions (m, k, d) per observation; no gradients."""
        m, k, d = choices.shape
        flat = choices.reshape(m * k, d)
        weight, bias = itertools.islice(self._one.parameters(), 2)
        with torch.no_grad():
            parts = [flat / self._scale]
            if self._features is not None:
                parts.append(self._features(obs[:, None].expand(m, k, -1).reshape(m * k, -1), flat))
            # What the observation adds to the first layer is the same for its k actions. In place:
            # fresh memory costs more than these sums.
            seen, acted = weight.tensor_split([obs.shape[1]], dim=1)
            hidden = torch.cat(parts, 1) @ acted.T
            hidden.view(m, k, -1).add_(torch.addmm(bias, obs, seen.T)[:, None])
            hidden = self._one[2](nn.functional.silu(hidden, inplace=True))
            values: Tensor = self._one[4](nn.functional.silu(hidden, inplace=True)).view(m, k)
        return values

    def directions(self, obs: Tensor, actions: Tensor) -> Tensor:
        """(m, d) unit gradients of the first critic in the action; zero stays zero."""
        here = actions.detach().requires_grad_(True)
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(self.first(obs, here).sum(), here)
        lengths = slopes.norm(dim=1, keepdim=True)
        return slopes / torch.where(lengths > 0.0, lengths, torch.ones_like(lengths))


@final
class Actor(nn.Module):
    """A point of the ball around the hull for each observation.

    Two hidden layers beside a linear path: much of a good action is the taste
    of the user itself, which the linear path copies at once. Outputs longer than `scale` are shortened.
    """

    def __init__(
        self, obs_dim: int, dim: int, *, hidden: int = 128, scale: float = 1.0, generator: torch.Generator
    ) -> None:
        super().__init__()
        self._scale = scale
        self._deep = _layers(obs_dim, hidden, dim, generator)
        self._skip = _linear(obs_dim, dim, generator, bias=False)

    def forward(self, obs: Tensor) -> Tensor:
        """(m, d) points of norm at most `scale`, in the hull or not."""
        raw = self._deep(obs) + self._skip(obs)
        shortened: Tensor = self._scale * raw / raw.norm(dim=1, keepdim=True).clamp(min=1.0)
        return shortened


def follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Move the weights of `target` a share `tau` of the way to those of `source`."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.lerp_(new, tau)


# ---------------------------------------------------------------- rules

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
        self.work[0] += chosen.scored
        return chosen

    def project(self, points: Tensor, steps: int) -> HullPoints:
        """Move points into the hull by Frank-Wolfe steps."""
        hull = project_rows(self.actions, _to_rows(points), steps)
        self.work[0] += hull.scored
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
    """The thing that `describe` described."""
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
        rows, ids = brain.actions.take_random(m * _ANY, brain.rng)
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
        rows, ids = brain.actions.take_random(len(obs), brain.rng)
        return mix_in(hull, ids, rows, self.exploration * brain.rng.random(len(obs)))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FrankWolfeRule(Described):
    """SFWPO: the actor is drawn to the Frank-Wolfe step from its own output.

    That output is not projected, so an update costs one search of the atoms, by
    any oracle, and no projection.

    Parameters
    ----------
    decision
        From the actor's output to an action.
    """

    name: ClassVar[str] = "sfwpo"
    decision: HullDecision = HullDecision()

    def __post_init__(self) -> None:
        kind(self.decision, "decision", "a HullDecision(...)", HullDecision)

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        """The slow actor's output."""
        out: Tensor = brain.slow_actor(obs)
        return out

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
class Mix(Described):
    """Execute the mixture itself, a point of the hull."""

    name: ClassVar[str] = "mix"
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
        return draw_ids(hull.ids, hull.weights, rng)
