"""Labels: whose turn it is, the rows of one label as atoms, and weights that fit all labels at once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound.compiled import corral
from wolfhound.core.contracts import Ids, Ints, Vector
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import array, require
from wolfhound.data.tables import unwrap

SWEEPS = 5  # times that each label is fitted to what the others leave: more hardly changes anything
_NONE_MISSING = "no missing labels (None or nan)"


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """The rows of each label."""

    values: NDArray[Any]  # (n,) the label of each row, as given
    members: list[Ids]  # rows of each label, ascending; labels in sorted order
    shares: Vector  # (labels,) of all rows, or of their weights; sum 1

    @classmethod
    def of(cls, by: ArrayLike, n: int, row_weights: Vector | None = None) -> Labels:
        """Sort the rows by label; labels whose rows all weigh 0 are left out."""
        values = _plain(array(unwrap(by), "by", "labels, one per row"))
        require(values.shape == (n,), "by", f"{n} labels, one per row", f"shape {values.shape}")
        distinct, codes = np.unique(values, return_inverse=True)
        names, codes = len(distinct), codes.reshape(-1)
        # Whole numbers without weights, so that labels of equal size tie exactly.
        shares = np.bincount(codes, weights=row_weights, minlength=names)
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(codes, minlength=names))[:-1])
        kept = np.flatnonzero(shares > 0.0)
        return cls(
            values=values,
            members=[parts[c].astype(np.int64, copy=False) for c in kept],
            shares=shares[kept] / shares[kept].sum(),
        )

    def balance(self, row_weights: Vector | None) -> Vector:
        """(n,) weights of the rows by which all labels have the same share."""
        out = np.zeros(len(self.values))
        for members in self.members:
            within = np.ones(len(members)) if row_weights is None else row_weights[members]
            out[members] = within / within.sum()
        return out


def _is_missing(value: Any) -> bool:
    """Whether it is None, nan, or what pandas has instead, which is not even false."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - only nan differs from itself
    except TypeError:
        return True
    except ValueError:  # an array
        return False


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Labels of a plain dtype, none missing."""
    if values.dtype.kind == "O":
        bad = [value for value in values.flat if _is_missing(value)]
        require(not bad, "by", _NONE_MISSING, bad[:1])
        kinds = sorted({type(value).__name__ for value in values.flat})
        if len(kinds) > 1:
            raise TypeError(f"`by` must be labels of one kind. Got {', '.join(kinds)}.")
        if kinds and kinds[0] in ("dict", "list", "ndarray", "set", "tuple"):
            raise TypeError(f"`by` must be numbers, strings or dates. Got a column of {kinds[0]}.")
        values = np.array(values.tolist())
    if values.dtype.kind not in "biufUSM":
        raise TypeError(f"`by` must be numbers, strings or dates. Got dtype {values.dtype}.")
    if values.dtype.kind in "fM":
        require(not bool((values != values).any()), "by", _NONE_MISSING, "nan")  # noqa: PLR0124
    return values


def next_label(counts: Ints, room: Ints, shares: Vector, *, balanced: bool) -> int:
    """Return the label whose turn it is, by rows taken and rows left to take; -1 if none has rows left.

    Balanced: the label with fewest rows. Proportional: each label once, then
    Webster's rule, the largest share / (2 count + 1). The turn depends on the counts
    alone, so a longer run begins like a shorter one: with largest remainders a
    label can lose a row when m grows.
    """
    webster = np.where(counts == 0, 1.0 + shares, shares / (2.0 * counts + 1.0))
    claim = np.where(counts < room, -counts.astype(np.float64) if balanced else webster, -np.inf)
    turn = int(claim.argmax())
    return turn if claim[turn] > -np.inf else -1


def allot(m: int, counts: Ints, room: Ints, shares: Vector, *, balanced: bool) -> Ints:
    """Return how many of m rows each label gets, of which it has `counts` already."""
    counts = counts.copy()
    for _ in range(m - int(counts.sum())):
        counts[next_label(counts, room, shares, balanced=balanced)] += 1
    return counts


def fit_jointly(gram: Vector, whole: Vector, own: Vector, blocks: Sequence[slice], start: Vector) -> Vector:
    """(k,) weights that meet neither the whole mean nor that of a label worse than `start`.

    ``|w - mu|^2 + sum_c |w_c - share_c mu_c|^2`` is minimised by label in turn, each label keeping its sum;
    the picks are made by the same sum. (Weights fitted to each label alone would forget that picks of one
    make up for those of another.) What still made one of the distances larger is taken back as far as
    needed. `gram` are the (k, k) kernel values of the rows, `whole` and `own` the mean embeddings there of
    all rows and of a row's label, times its share; `blocks` the rows of each label.
    """
    with one_blas_thread():
        out, reached = start.copy(), gram @ start
        for block in [block for _ in range(SWEEPS) for block in blocks]:
            inner, share = gram[block, block], float(start[block].sum())
            others = reached[block] - inner @ out[block]
            linear = whole[block] + own[block] - others
            fitted = share * corral.solve(2.0 * share * inner, linear)
            reached += gram[:, block] @ (fitted - out[block])
            out[block] = fitted
        # As far along the move as no distance grows: first that of each label, then that of the whole.
        move = out - start
        for block in blocks:
            bent = gram[block, block] @ move[block]
            slope = start[block] @ bent - own[block] @ move[block]
            move[block] *= _reach(float(slope), float(bent @ move[block]))
        bent = gram @ move
        step = _reach(float(start @ bent - whole @ move), float(bent @ move))
        return np.maximum(start + step * move, 0.0)


def _reach(slope: float, bend: float) -> float:
    """The largest t in [0, 1] up to which ``2 slope t + bend t^2 <= 0``.

    Examples
    --------
    >>> _reach(-1.0, 4.0), _reach(1.0, 1.0)
    (0.5, 0.0)
    """
    if slope >= 0.0:
        return 0.0
    return min(1.0, -2.0 * slope / bend) if bend > 0.0 else 1.0
