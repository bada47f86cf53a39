"""`SFWPO`, the agent for huge action sets; `Agent`, for the rivals of it.

Everything that a caller of the deep part needs can be imported from here.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import final

from wolfhound.policy import ActionSet
from wolfhound.policy._agent import Agent
from wolfhound.policy._worlds import Env
from wolfhound.policy.networks import Features
from wolfhound.policy.rules import Draw, Execution, FrankWolfeRule, Hull, HullDecision, Nearest
from wolfhound.policy.settings import Report, Settings

__all__ = ["SFWPO", "Agent", "Draw", "Hull", "HullDecision", "Nearest", "Report", "Settings"]


@final
class SFWPO(Agent):
    """Sublinear Frank-Wolfe policy optimisation over the hull of many atoms.

    Twin critics as in TD3. The actor is drawn to the Frank-Wolfe step from its
    own output, so an update costs one search of the atoms and no projection.
    At decision time that output is projected by a few Frank-Wolfe steps, then
    improved by a few more on the critic. See `Agent` for the other methods.

    Parameters
    ----------
    env, actions, execution, critic_features
        See `Agent`.
    refine
        Frank-Wolfe steps on the critic, per decision.
    project
        Frank-Wolfe steps of the projection, per decision.
    exploration
        Largest share of the random atom that exploration mixes in.
    learning_rate, buffer_size, learning_starts, batch_size, tau, gamma
        See `Settings`.
    train_freq, gradient_steps, policy_delay, hidden, seed, audit_every
        See `Settings`.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfhound.policy.batch import BatchedFeed
    >>> from wolfhound.policy.feed import Feed, feed_features
    >>> feed = Feed.build(np.eye(3), users=5)
    >>> env = BatchedFeed(feed, 4)
    >>> agent = SFWPO(env, ActionSet(feed.atoms), learning_starts=8, critic_features=feed_features)
    >>> action, _ = agent.learn(40).predict(env.reset(0))
    >>> bool((action >= 0.0).all()), action.sum(axis=1).round(5)
    (True, array([1., 1., 1., 1.], dtype=float32))
    """

    def __init__(
        self,
        env: Env,
        actions: ActionSet,
        *,
        gamma: float = 0.9,
        seed: int = 0,
        execution: Execution | None = None,
        refine: int = 3,
        project: int = 4,
        exploration: float = 0.4,
        critic_features: Features | None = None,
        learning_rate: float = 1e-3,
        buffer_size: int = 40_000,
        learning_starts: int = 800,
        batch_size: int = 128,
        tau: float = 0.02,
        train_freq: int = 16,
        gradient_steps: int = 4,
        policy_delay: int = 2,
        hidden: int = 128,
        audit_every: int = 0,
    ) -> None:
        settings = Settings(
            learning_rate=learning_rate,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            batch_size=batch_size,
            tau=tau,
            gamma=gamma,
            train_freq=train_freq,
            gradient_steps=gradient_steps,
            policy_delay=policy_delay,
            hidden=hidden,
            seed=seed,
            audit_every=audit_every,
        )
        decision = HullDecision(project=project, refine=refine, exploration=exploration)
        super().__init__(
            env,
            actions,
            rule=FrankWolfeRule(decision=decision),
            settings=settings,
            execution=execution,
            critic_features=critic_features,
        )
