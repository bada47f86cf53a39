"""Atoms as int8 codes: a quarter of the bytes, with proved errors.

`layout` knows how codes lie in memory, `encoding` makes them and proves those of unknown origin,
`codes` bounds scores by them, and `scan` is the oracle. Import `Int8Scan` from `wolfhound`.
"""

# SPDX-License-Identifier: Apache-2.0
