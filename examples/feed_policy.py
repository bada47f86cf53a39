"""Learn what to show to whom: actions are mixtures of given vectors, here words."""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import ClusterIndex
from wolfhound.data import words
from wolfhound.policy.actions import ActionSet
from wolfhound.policy.deep.evaluation import Policy, evaluate
from wolfhound.policy.feed import Feed, feed_features
from wolfhound.policy.feed.contenders import GreedyItem, Myopic
from wolfhound.policy.feed.environment import BatchedFeed

ITEMS = 2000
STEPS = 2000


def main() -> None:
    feed = Feed.build(words().vectors[:ITEMS])  # your vectors here, one per row
    exact = ActionSet(feed.atoms)
    fresh = BatchedFeed(feed.fresh(seed=1), 16)  # users that no agent has met
    policies: dict[str, Policy] = {
        "the item liked most": GreedyItem(exact),
        "the best mixture now": Myopic(feed, exact),
    }

    try:
        from wolfhound.policy.deep.agent import SFWPO, Settings  # noqa: PLC0415 - torch is an extra
    except ImportError as error:
        print(f"nothing is learned: {error}")
    else:
        # Any oracle over the same atoms may answer: here an index that scores a few of them.
        actions = ActionSet(feed.atoms, oracle=ClusterIndex.build(feed.atoms, budget=200))
        agent = SFWPO(
            BatchedFeed(feed, 16), actions, settings=Settings(audit_every=20), critic_features=feed_features
        )
        agent.learn(STEPS)
        policies["learned"] = lambda obs: agent.predict(obs)[0]
        stats = agent.stats
        print(f"{stats.updates} updates, gap ratio {stats.ratio_mean:.2f} in the mean")

    for name, policy in policies.items():
        returns = evaluate(policy, fresh, episodes=16)
        print(f"{name:22}return {returns.mean():6.2f}")

    # What is executed is in the hull, and that can be proved: the projection is the point itself.
    action = list(policies.values())[-1](fresh.reset(7))[0]
    proof = exact.prove(action)
    far = np.sqrt(2.0 * proof.value)
    print(f"\nat most {far:.1e} from the hull of {exact.n:,} items: {proof.status.name}")
    shown = ", ".join(f"{words().names[i]} {weight:.2f}" for i, _, weight in proof.top(4))
    print(f"the first user is shown {shown}")


if __name__ == "__main__":
    main()
