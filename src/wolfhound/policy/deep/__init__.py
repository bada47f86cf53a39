"""Agents that learn from samples; they need ``wolfhound[rl]``, which is not imported here.

`wolfhound.policy.deep.agent` has all that a caller needs.
"""

# SPDX-License-Identifier: Apache-2.0
