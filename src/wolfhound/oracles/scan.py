"""`Scan`: reads every atom and proves its answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import final

import numpy as np

from wolfhound.atoms import as_atoms
from wolfhound.core import Atoms, Hits, Ids, Ints, Matrix, Vector
from wolfhound.oracles import _spread
from wolfhound.oracles._batch import groups, product_pass
from wolfhound.oracles._gauge import Gauge
from wolfhound.oracles._hits import Asked, Best, asked, joined, packed, patched, rank, rescore, settle, slacks
from wolfhound.oracles._pass import Watch, Windows, full_pass
from wolfhound.oracles._screen import Reference, Screen, fits, scale_of

SCREEN_MEMORY = 1 << 30
"""Bytes that screening may take by default; it needs 8 per atom."""


@final
class Scan:
    """Exact oracle: the best atom of all, and a bound to float64 rounding.

    One query is scored in float64 sums at the speed of a read. Several queries
    share one pass of matrix products in the precision of the atoms; whatever
    can still win is scored again in float64, so that a query is answered alike
    alone and among others. All rows are checked to be finite when they are
    first read.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    screen
        Whether to keep the scores of the last full pass, so that a query close
        to it is answered from the few atoms that can still win. Takes 8n
        bytes; default: where that is at most 1 GiB.
    spread
        Whether the hits of one query with k >= 192 are spread out: a third are
        the best atoms, a third the best of windows of consecutive ids, a third
        the best of random-sign buckets. The first hit is the best atom anyhow.

    Examples
    --------
    >>> hits = Scan(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(self, atoms: object, *, screen: bool | None = None, spread: bool = True) -> None:
        self._atoms = as_atoms(atoms)
        if screen is None:
            screen = 8 * self._atoms.shape[0] <= SCREEN_MEMORY
        self._screen = screen
        self._spread = spread
        self._gauge = Gauge(self._atoms, keep=screen)
        self._reference: Reference | None = None
        self._kept = np.empty(0, np.float32)

    @property
    def atoms(self) -> Atoms:
        """The atoms that are searched."""
        return self._atoms

    def query(
        self,
        queries: Matrix,
        *,
        k: int = 1,
        thresholds: Vector | None = None,  # noqa: ARG002 - an exact oracle needs none
        exclude: Ids | None = None,
    ) -> Hits:
        """Answer m queries, see `Oracle.query`; thresholds are ignored."""
        ask = asked(self._atoms, queries, k, exclude)
        if len(ask.queries) > 1:
            return self._many(ask)
        return self._screened(ask) or self._one(ask)

    # ------------------------------------------------------------ one query

    def _screened(self, ask: Asked) -> Hits | None:
        size = float(ask.sizes[0])
        if self._reference is None or not fits(size, self._gauge.radius):
            return None
        screen = Screen(self._reference, ask.queries[0], size, _banned(ask, 0))
        ids = screen.survivors(self._atoms, ask.k)
        if ids is None:
            return None
        ...
