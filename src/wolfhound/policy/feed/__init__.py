"""A feed of items to learn from, and the policies that compete on it.

`wolfhound.policy.feed.item_feed` registers it with Gymnasium, and is not imported here.
"""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.policy.feed.environment import BatchedFeed as BatchedFeed
from wolfhound.policy.feed.environment import Feed as Feed
from wolfhound.policy.feed.environment import FeedParameters as FeedParameters
from wolfhound.policy.feed.environment import feed_features as feed_features
