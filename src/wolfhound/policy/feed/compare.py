"""Policies side by side: returns on fresh users, cost, gap ratios, learning curves.

Knows how to test any policy and how to train any learner, but no policy by name:
see `wolfhound.policy.feed.contenders`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from wolfhound import plot
from wolfhound.core import Ints, Status, Vector
from wolfhound.markup import Grid, HasSummary, Summary
from wolfhound.policy.answers import Rows
from wolfhound.policy.deep.evaluation import FRESH, Policy, evaluate
from wolfhound.policy.deep.settings import Training, TrainingCallback
from wolfhound.policy.deep.worlds import Env
from wolfhound.policy.feed.picture import Learning, draw_learning
from wolfhound.text import table_lines
from wolfhound.validate import count, function, kind, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Trainee(Protocol):
    """What `compare` uses of an agent."""

    @property
    def stats(self) -> Training:
        """What training came to."""

    @property
    def status(self) -> Status | None:
        """Why the last `learn` ended."""

    def learn(
        self, total_timesteps: int, *, reset_num_timesteps: bool, callback: TrainingCallback | None = None
    ) -> object:
        """Make so many more transitions."""

    def predict(self, observation: Rows) -> tuple[Rows, None]:
        """Choose actions."""


TraineeMaker: TypeAlias = Callable[[int], Trainee]
"""Seed -> an agent that has learned nothing yet."""

PolicyMaker: TypeAlias = Callable[[int], Policy]
"""Seed -> a policy."""


class Bout(NamedTuple):
    """What comes next in a comparison: a policy with a seed.

    Attributes
    ----------
    name : str
    seed : int
    done, total : int
        How many are done, of how many.
    share : float
        How much of this one is done, in [0, 1].
    """

    name: str
    seed: int
    done: int
    total: int
    share: float = 0.0


# ---------------------------------------------------------------- results


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """One policy of a comparison.

    Attributes
    ----------
    name : str
    steps : (k,)
        Steps of training after which it was tested; [0] if it does not learn.
    returns : (seeds, k)
        Mean returns of the tests.
    ms_per_update, scored : float
        Milliseconds of an update and atoms scored in training, means of the
        seeds; nan if it does not learn.
    ratio_mean, ratio_p5 : float
        Gap found / true gap of the searches of an update, where the gap is
        positive; nan if it has none.
    """

    name: str
    steps: Vector
    returns: Vector
    ms_per_update: float = math.nan
    scored: float = math.nan
    ratio_mean: float = math.nan
    ratio_p5: float = math.nan

    @property
    def mean(self) -> float:
        """Mean of the last returns over the seeds."""
        return float(self.returns[:, -1].mean())

    @property
    def spread(self) -> float:
        """Their standard deviation over the seeds; nan for one."""
        last = self.returns[:, -1]
        return float(last.std(ddof=1)) if len(last) > 1 else math.nan

    @property
    def learns(self) -> bool:
        """Whether it was trained."""
        return len(self.steps) > 1 or self.steps[0] > 0


_COSTS = ("ms_per_update", "scored", "ratio_mean", "ratio_p5")
HEADINGS = ("policy", "return", "spread", "ms/update", "atoms scored", "gap ratio", "5th pct")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(HasSummary):
    """Policies, the best return first.

    Parameters
    ----------
    standings
        One per policy.
    """

    standings: tuple[Standing, ...]

    def __post_init__(self) -> None:
        ranked = sorted(self.standings, key=lambda each: -each.mean)
        object.__setattr__(self, "standings", tuple(ranked))

    def __getitem__(self, name: str) -> Standing:
        found = [each for each in self.standings if each.name == name]
        require(bool(found), "name", f"one of {', '.join(each.name for each in self.standings)}", name)
        return found[0]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text, a tuple per policy, under `HEADINGS`."""
        return [
            (
                row.name,
                f"{row.mean:.2f}",
                _text(row.spread, ".2f"),
                _text(row.ms_per_update, ".2f"),
                _text(row.scored, ",.0f"),
                _text(row.ratio_mean, ".3f"),
                _text(row.ratio_p5, ".3f"),
            )
            for row in self.standings
        ]

    def plot(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> Figure:
        """Draw the learning curves; what does not learn is a level.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        title
            Heading; empty for none.
        """
        curves = {row.name: Learning(row.steps, row.returns) for row in self.standings if row.learns}
        levels = {row.name: row.mean for row in self.standings if not row.learns}
        figure = draw_learning(curves, levels=levels, title=title or "")
        return plot.keep(figure, path)

    def summary(self) -> Summary:
        """Return the table."""
        grid = Grid("Returns of an episode on fresh users", HEADINGS, self.cells())
        return Summary(f"Comparison({len(self.standings)} policies)", (), (grid,))

    def __repr__(self) -> str:
        """Return the table."""
        return "\n".join(table_lines([HEADINGS, *self.cells()]))


def _text(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"


# ---------------------------------------------------------------- tests and training


def compare(
    learners: Mapping[str, TraineeMaker],
    baselines: Mapping[str, PolicyMaker],
    *,
    test: Callable[[int], Env],
    steps: int = 10_000,
    points: int = 5,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    episodes: int = 64,
    callback: Callable[[Bout], bool | None] | None = None,
) -> Comparison:
    """Train and test policies under the same conditions.

    Parameters
    ----------
    learners
        Name -> maker of an agent for a seed.
    baselines
        Name -> maker of a policy for a seed, tested only.
    test
        Seed -> the environment of the tests. The same seed gives every policy the
        same users.
    steps
        Transitions of training.
    points
        Tests of a learner, evenly over its training, the last one at its end.
    seeds
        Of training and tests.
    episodes
        Per test.
    callback
        Called with a `Bout` before each is trained or tested, and while it is trained;
        returning True stops, and what is done so far is compared. All policies are
        first run with the first seed: then it is known what each takes.

    Examples
    --------
    >>> from wolfhound.policy.feed.contenders import feed_baselines, fresh_users
    >>> from wolfhound.policy.feed.environment import Feed
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> table = compare({}, feed_baselines(feed), test=fresh_users(feed), seeds=[0, 1])
    >>> len(table.standings), table["random"].mean < table["myopic hull"].mean
    (4, True)
    """
    kind(learners, "learners", "a dict of makers of agents", Mapping)
    kind(baselines, "baselines", "a dict of makers of policies", Mapping)
    function(test, "test", "a function of a seed")
    if callback is not None:
        function(callback, "callback", "a function of a Bout")
    require(len(learners) + len(baselines) > 0, "learners", "at least one policy", "none")
    kind(seeds, "seeds", "a list of integers >= 0", Sequence, np.ndarray)
    require(len(seeds) > 0, "seeds", "at least one seed", "none")
    seeds = [count(seed, "seeds") for seed in seeds]
    tests = count(points, "points", low=1) + 1
    at = np.unique(np.linspace(0, count(steps, "steps", low=1), tests).astype(np.int64))[1:]
    exam = _Exam(test, count(episodes, "episodes", low=1))
    makers: dict[str, tuple[Any, ...]] = {name: (exam.train, make, at) for name, make in learners.items()}
    makers |= {name: (exam.judge, make) for name, make in baselines.items()}
    played: dict[str, list[Standing]] = {}
    bouts = [(name, seed) for seed in seeds for name in makers]
    for done, (name, seed) in enumerate(bouts):
        run, *given = makers[name]
        tell = _Teller(callback, Bout(name, seed, done, len(bouts)))
        if tell(0.0):
            break
        standing = run(name, *given, seed, tell)
        if tell.stopped:
            break
        played.setdefault(name, []).append(standing)
    return Comparison(tuple(map(_combine, played.values())))


class _Teller:
    """Tells the callback of `compare` how far a bout is, and knows whether it wants to stop."""

    def __init__(self, callback: Callable[[Bout], bool | None] | None, bout: Bout) -> None:
        self._callback, self._bout, self.stopped = callback, bout, False

    def __call__(self, share: float) -> bool:
        if self._callback is not None and self._callback(self._bout._replace(share=share)):
            self.stopped = True
        return self.stopped


def _combine(seeds: list[Standing]) -> Standing:
    """One policy's standings with each seed, as one."""
    means: dict[str, Any] = {cost: float(np.mean([getattr(each, cost) for each in seeds])) for cost in _COSTS}
    return replace(seeds[0], returns=np.concatenate([each.returns for each in seeds]), **means)


@dataclass(frozen=True, slots=True)
class _Exam:
    """How policies are tested."""

    test: Callable[[int], Env]
    episodes: int

    def score(self, policy: Policy, seed: int) -> float:
        env = self.test(seed)
        return float(evaluate(policy, env, episodes=self.episodes, seed=seed + FRESH).mean())

    def judge(self, name: str, make: PolicyMaker, seed: int, tell: _Teller) -> Standing:
        """Test a policy that does not learn."""
        return Standing(name=name, steps=np.zeros(1), returns=np.array([[self.score(make(seed), seed)]]))

    def train(self, name: str, make: TraineeMaker, at: Ints, seed: int, tell: _Teller) -> Standing:
        """Train up to each of these steps and test there, as long as nobody wants to stop."""
        learner, returns, scored = make(seed), [], 0

        def hear(training: Training) -> bool:
            return tell(min(training.timesteps / float(at[-1]), 1.0))

        for step in at:
            before = learner.stats
            # A batch makes several transitions at once, so the last test may be a few late.
            learner.learn(max(1, int(step) - before.timesteps), reset_num_timesteps=False, callback=hear)
            if learner.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            scored += learner.stats.scored - before.scored  # tests score atoms too, and do not count
            if tell.stopped:
                break
            returns.append(self.score(lambda obs: learner.predict(obs)[0], seed))
        return Standing(
            name=name,
            steps=at.astype(np.float64),
            returns=np.array([returns]),
            scored=scored,
            **{cost: getattr(learner.stats, cost) for cost in _COSTS if cost != "scored"},
        )
