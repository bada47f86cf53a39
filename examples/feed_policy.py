"""Learn what to show to whom in a Gymnasium environment: mixtures of given vectors, or one of them."""

# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np

from wolfhound import ClusterIndex
from wolfhound.data.shipped import words

ITEMS = 2000
STEPS = 2000

try:
    import gymnasium
    import torch
    from gymnasium.spaces import Box, Discrete

    from wolfhound.policy import SFWPO, ActionSet, Settings, evaluate
except ImportError as error:
    raise SystemExit(f"FINISHED: nothing is learned: {error}") from None


class Feed(gymnasium.Env[Any, Any]):
    """A reader likes what is near his taste, less of what he was shown lately, and breadth."""

    def __init__(self, vectors: Any, *, single: bool = False) -> None:
        self.vectors = vectors
        n, d = vectors.shape
        self.observation_space = Box(-1.0, 1.0, (2 * d,))
        # One of n vectors, by its number; or any mixture of them.
        self.action_space: Any = Discrete(n) if single else Box(-1.0, 1.0, (d,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.shown = 0, np.zeros(self.vectors.shape[1], np.float32)
        pair = self.vectors[self.np_random.integers(len(self.vectors), size=2)].sum(axis=0)
        self.taste = pair / np.linalg.norm(pair)
        return np.concatenate([self.taste, self.shown]), {}

    def step(self, action: Any) -> Any:
        item = self.vectors[action] if isinstance(self.action_space, Discrete) else action
        reward = self.taste @ item - 0.8 * self.shown @ item + 0.2 * (1.0 - item @ item)
        self.shown = 0.7 * self.shown + 0.3 * item
        self.time += 1
        obs = np.concatenate([self.taste, self.shown]).astype(np.float32)
        return obs, float(reward), False, self.time == 20, {}


def features(obs: Any, actions: Any) -> Any:
    """What a critic should see: how an action matches the taste and what was shown, and how broad it is."""
    taste, shown = obs.tensor_split(2, dim=1)
    parts = [3.0 * taste * actions, 3.0 * shown * actions, actions * actions]
    return torch.stack([part.sum(dim=1) for part in parts], dim=1)


def main() -> None:
    # your vectors here, one per row
    vectors = words().vectors[:ITEMS].astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    # Any oracle over the same vectors may answer: here an index that scores a few of them.
    actions = ActionSet(vectors, oracle=ClusterIndex.build(vectors, budget=200))
    settings = Settings(audit_every=20)
    for name, single in (("mixtures", False), ("single items", True)):
        env, test = Feed(vectors, single=single), Feed(vectors, single=single)
        agent = SFWPO(env, actions, settings=settings, critic_features=features)
        before = evaluate(agent, test, episodes=8, seed=1).mean()
        agent.learn(STEPS)
        after = evaluate(agent, test, episodes=8, seed=1).mean()
        stats = agent.stats
        print(f"{name}: return {before:.2f} -> {after:.2f}, {stats.updates} updates,", end=" ")
        print(f"gap ratio {stats.ratio_mean:.2f} in the mean, {agent.status.name if agent.status else ''}")
        if single:
            item, _ = agent.predict(test.reset(seed=7)[0])
            print(f"the first reader is shown {words().names[item]}")
        else:  # what is executed is in the hull, and that can be proved
            mixture, _ = agent.predict(test.reset(seed=7)[0])
            proof = ActionSet(vectors).prove(mixture, rtol=1e-9)
            shown = ", ".join(f"{words().names[i]} {weight:.2f}" for i, _, weight in proof.top(4))
            print(
                f"the first reader is shown {shown}: at most {np.sqrt(2.0 * proof.value):.1e} from the hull"
            )


if __name__ == "__main__":
    main()
