"""A feed of items to learn from, and the policies that compete on it in `claim_policy.py`."""

# SPDX-License-Identifier: Apache-2.0
