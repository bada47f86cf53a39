"""What an MMD is measured on: all rows where that is known, else held-out rows.

Held-out rows are weighted so that their random features have the mean of all
rows, which the embedding found already: without this the chance of drawing them
would hide how good a herd is. Two halves, weighted apart, estimate
``|mu|^2`` by ``<mu_1, mu_2>``, so that their errors cancel on average.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.herding._draw import draw_ids, draw_weighted, taken
from wolfhound.herding.embedding import Embedding, calibrated
from wolfhound.herding.features import Features
from wolfhound.herding.kernels import Columns, Kernel, Linear
from wolfhound.herding.mmd import Reference, kernel_sums


@final
class Noting:
    """A kernel that gives the same features whenever it is asked, and keeps them.

    Parameters
    ----------
    kernel
        With nothing left to choose.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.noted: Features | None = None
        self._kernel = kernel

    @property
    def centred(self) -> bool:
        """As the kernel."""
        return self._kernel.centred

    def fitted(self, rows: Matrix) -> Noting:
        """Return itself."""
        return self

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k."""
        return self._kernel.gram(left, right)

    def against(self, left: Matrix, *, single: bool = False) -> Columns:
        """Prepare ``gram(left, .)`` for many calls."""
        return self._kernel.against(left, single=single)

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values of k(x, x)."""
        return self._kernel.diagonal(rows)

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> Features | None:
        """Return those of the first call."""
        if self.noted is None:
            self.noted = self._kernel.features(dim, count, rng, centre=centre)
        return self.noted


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What the embeddings of a run know of the target.

    Attributes
    ----------
    target : Atoms
        The rows to stand for.
    row_weights : (t,), optional
        Their weights.
    kernel : Kernel
        With nothing left to choose.
    embeddings, shares
        Of each label; one of all rows.
    features : Features, optional
        Those that the embeddings used; None if they needed none.
    used : (u,) int64
        Rows of the target that the embeddings used, ascending.
    """

    target: Atoms
    row_weights: Vector | None
    kernel: Kernel
    embeddings: Sequence[Embedding]
    shares: Vector
    features: Features | None
    used: Ids

    @property
    def exact(self) -> bool:
        """Whether the mean embedding is that of all rows."""
        return all(embedding.exact for embedding in self.embeddings)

    def reference(self, count: int, rng: np.random.Generator) -> tuple[Reference, str]:
        """Return `count` held-out rows, or better, and what they are in words."""
        n = self.target.shape[0]
        if self.kernel.centred:
            return Reference.of(self.embeddings[0].rows[:1], self.kernel), "the density itself (exact)"
        if self.exact:
            return self._whole(), f"all {n:,} rows (exact)"
        if n <= 2 * count or self.features is None:
            drawn = Reference.draw(
                self.target,
                self.kernel,
                count=count,
                row_weights=self.row_weights,
                exclude=self.used,
                rng=rng,
            )
            words = f"all {n:,} rows (exact)" if drawn.exact else f"{count:,} rows {self._fresh(count)}"
            return drawn, words
        return self._calibrated(self.features, count, rng), f"{count:,} rows {self._fresh(count)}, calibrated"

    def _fresh(self, count: int) -> str:
        return "held out" if self._left(count) else "drawn, also candidates"

    def _left(self, count: int) -> bool:
        """Whether enough rows are left that no embedding used; as `Reference.draw` decides."""
        return 10 * (self.target.shape[0] - len(self.used)) >= count

    def _whole(self) -> Reference:
        """The embeddings themselves, where they are exact."""
        parts = list(zip(self.embeddings, self.shares, strict=True))
        rows = np.concatenate([embedding.base for embedding, _ in parts])
        weights = np.concatenate([share * embedding.mass for embedding, share in parts])
        if len(parts) > 1 or isinstance(self.kernel, Linear):
            return Reference.of(rows, self.kernel, weights=weights, exact=True)
        return Reference(rows, self.kernel, weights, self.embeddings[0].square, True)

    def _calibrated(self, features: Features, count: int, rng: np.random.Generator) -> Reference:
        ids = rng.permutation(self._held_out(count, rng))
        mean = self._mean(features)
        halves = [taken(self.target, half, "rows") for half in np.array_split(ids, 2)]
        weights = [calibrated(features, half, mean, np.full(len(half), 1.0 / len(half))) for half in halves]
        square = float(weights[0] @ kernel_sums(self.kernel, halves[0], halves[1], weights[1]))
        both = 0.5 * np.concatenate(weights)
        return Reference(np.concatenate(halves), self.kernel, both, square, False)

    def _held_out(self, count: int, rng: np.random.Generator) -> Ids:
        used = self.used if self._left(count) else self.used[:0]
        if self.row_weights is None:
            return draw_ids(self.target.shape[0], count, used, rng)
        unused = self.row_weights.copy()
        unused[used] = 0.0
        return draw_weighted(unused if unused.any() else self.row_weights, count, rng)

    def _mean(self, features: Features) -> Vector:
        """Mean of the features over the target: the calibrated rows have it, up to their ridge."""
        parts = zip(self.embeddings, self.shares, strict=True)
        return np.asarray(sum(share * (each.mass @ features(each.base)) for each, share in parts))
