"""An agent of Stable-Baselines3 acts among given vectors, and is tested beside ours in the same environment.

    pip install "wolfhound[rl]" stable-baselines3
    python examples/stable_baselines3_agent.py

Agents of Stable-Baselines3 know numbers or boxes. A wrapper lets one that acts in a box point into a
direction: what is done is the vector of largest inner product with it, which any oracle finds.
"""

# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np

from wolfhound import Int8Scan
from wolfhound.data.shipped import words

STEPS = 2000

try:
    import gymnasium
    from feed_policy import ITEMS, Feed, features
    from gymnasium.spaces import Box
    from stable_baselines3 import SAC

    from wolfhound.policy import SFWPO, ActionSet, evaluate
except ImportError as error:
    print(f"FINISHED: nothing is learned: {error}")
    raise SystemExit from None


class ByDirection(gymnasium.ActionWrapper[Any, Any, Any]):
    """One of n vectors, chosen by a direction; the environment below takes its number."""

    def __init__(self, env: Feed, oracle: Any) -> None:
        super().__init__(env)
        self.oracle, self.action_space = oracle, Box(-1.0, 1.0, (env.vectors.shape[1],))

    def action(self, action: Any) -> int:
        return int(self.oracle.query(action).ids[0, 0])


def main() -> None:
    vectors = words().vectors[:ITEMS].astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    env, oracle = Feed(vectors, single=True), Int8Scan.build(vectors)

    settings: dict[str, Any] = {"seed": 0, "learning_starts": 100, "batch_size": 64, "train_freq": 4}
    theirs = SAC("MlpPolicy", ByDirection(env, oracle), **settings).learn(STEPS)
    ours = SFWPO(env, ActionSet(vectors, oracle=oracle), critic_features=features).learn(STEPS)

    # The same episodes for both.
    for name, agent, test in (("SAC", theirs, ByDirection(env, oracle)), ("SFWPO", ours, env)):
        print(f"{name}: return {evaluate(agent, test, episodes=8, seed=1).mean():.2f} after {STEPS} steps")
    print(f"FINISHED: both act among {ITEMS} vectors")


if __name__ == "__main__":
    main()
