"""Atoms as int8 codes: a quarter of the bytes, with proved errors.

Knows codes and bounds by them; what is then scored is `asking`'s. `layout` is how codes lie in memory and
`_instructions` what multiplies them; `codes` makes them, and proves those of unknown origin; `scan` is the
oracle in memory, `file_scan` the one on disk. Begin with the head of `codes`.
"""

# SPDX-License-Identifier: Apache-2.0
