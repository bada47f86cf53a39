"""Edited indexes for other tests: of the same rows as a fresh one, by a way of their own."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np

from wolfhound.core.contracts import AtomsLike
from wolfhound.data.atoms import as_atoms


def build_edited(index: Any, atoms: AtomsLike, **options: Any) -> Any:
    """Build of half of the atoms and a copy of one, append the others, remove the copy."""
    known = as_atoms(atoms)
    n = known.shape[0]
    half = max(1, n // 2)
    first = index.build(known.take(np.append(np.arange(half), 0)), **options)
    grown = first if half == n else first.append(known.take(np.arange(half, n)))
    return grown.remove([half])
