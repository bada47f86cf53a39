"""Oracles: which atoms have a large inner product with a query.

Each answers with `Hits`: atoms, scores and a proved bound. They know nothing of
objectives, points or gaps. Import them from `wolfhound`.
"""

# SPDX-License-Identifier: Apache-2.0
