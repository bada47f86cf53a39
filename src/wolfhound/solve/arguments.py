"""Where `many` finds what has moved to `data.atoms` and `minimize`; goes when its imports name these."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.data.atoms import find_rows, refuse_gaps, take_by_rows, to_rows
from wolfhound.solve.minimize import as_names

__all__ = ["as_names", "find_rows", "refuse_gaps", "take_by_rows", "to_rows"]
