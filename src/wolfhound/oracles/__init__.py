"""Oracles: which atoms have a large inner product with a query.

Each answers with `Hits`: atoms, scores and a proved bound. They know nothing of objectives, points or gaps.
Begin with `asking` (what is asked, how candidates become an answer), then `scan`, the exact pass that others
must beat. `int8` reads a quarter of its bytes; `buckets` probes some of them, put in order by `clusters` or
`hashes` (`lsh`, with what it promises in `promises`); `subset`, `wrappers` and `sharded` stand around others.
`indexes` is the table of all, with what they are expected to take. Import them from `wolfhound`.
"""

# SPDX-License-Identifier: Apache-2.0
