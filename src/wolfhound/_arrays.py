"""Atoms in memory.

Private: import the names from `wolfhound.atoms`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wolfhound._files import lock, summary, valid_ids, widen
from wolfhound.core import Ids, Matrix
from wolfhound.validate import count, real_array, require


def table(value: Any, name: str) -> NDArray[Any]:
    """Return a non-empty array of real numbers with two axes, from an array or a table."""
    rows = real_array(value.to_numpy() if hasattr(value, "to_numpy") else value, name, 2)
    require(rows.size > 0, name, "an array with at least one row and column", f"shape {rows.shape}")
    return rows


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayAtoms:
    """Atoms in memory.

    C-ordered float32 and float64 arrays are used as they are; other types and
    layouts are converted block by block, never all at once.

    Parameters
    ----------
    rows : (n, d) array
        Real numbers, see `widen`. Never written to.
    names
        Of the columns, where they come from a table.

    Attributes
    ----------
    plain : (n, d) array, optional
        The rows, read-only, if a kernel can read them where they are.

    Examples
    --------
    >>> ArrayAtoms([[0, 1], [2, 3]]).take(np.array([1]))
    array([[2., 3.]])
    """

    rows: NDArray[Any]
    names: tuple[str, ...] = ()
    plain: Matrix | None = field(init=False)

    def __post_init__(self) -> None:
        rows = table(self.rows, "rows")
        object.__setattr__(self, "rows", rows)
        plain = rows.dtype == self.dtype and rows.flags.c_contiguous
        object.__setattr__(self, "plain", lock(rows.view()) if plain else None)

    def __reduce__(self) -> tuple[type[ArrayAtoms], tuple[NDArray[Any], tuple[str, ...]]]:
        """Pickle the rows once."""
        return ArrayAtoms, (self.rows, self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.rows.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return widen(self.rows.dtype, "rows")

    def take(self, ids: Ids) -> Matrix:
        """Return the rows of these ids, a fresh C-ordered array."""
        # Not np.take: it would first copy an array that is not C-ordered.
        return np.ascontiguousarray(self.rows[valid_ids(ids, len(self.rows))], self.dtype)

    def blocks(self, rows: int) -> Iterator[tuple[int, Matrix]]:
        """Yield (first id, read-only block) over all rows once, in order."""
        for first in range(0, len(self.rows), count(rows, "rows", low=1)):
            yield first, lock(np.ascontiguousarray(self.rows[first : first + rows], self.dtype))

    def __repr__(self) -> str:
        """Shape and dtype, not the rows."""
        return summary(self)
