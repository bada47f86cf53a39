"""`HerdingSelector`: herding with the conventions of scikit-learn.

The only importer of scikit-learn.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Ids, Vector
from wolfhound.core.validate import array, count, describe, require, require_finite
from wolfhound.data.encoding import Missing
from wolfhound.data.tables import find_frame
from wolfhound.herding.herd import herd
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.result import HerdResult

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import _safe_indexing, check_random_state
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("HerdingSelector needs scikit-learn: pip install 'wolfhound[sklearn]'") from None

_SEEDS = 2**31 - 1
# Types of target that have no classes to choose within.
_CARRIED = ("continuous", "continuous-multioutput", "multiclass-multioutput", "multilabel-indicator")
_TWO, _FEW = 2, 20  # distinct numbers that are always classes, and that are where each has two rows or more


class HerdingSelector(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Choose a few rows, with weights, that stand for all rows.

    See `wolfhound.herd`, which takes files larger than memory, targets and more.

    Parameters
    ----------
    n_rows : int or float
        Rows to choose; a float in (0, 1) is a share of the rows, at least one
        row, and one of every class.
    kernel : Kernel, optional
        How rows are compared; `Gaussian()` by default. Columns of different
        units should be scaled first, e.g. by `StandardScaler`.
    by_label : bool or None
        Whether to choose within each class of y, if `fit` is given y; if not, y is
        carried along only. None: where y holds classes, which it does if scikit-learn's
        `type_of_target` says "binary" or "multiclass" and, for more than two numbers, there
        are at most n / 10 (or 20) distinct ones and at most n / 2: many whole numbers
        are the target of a regression.
    balanced : bool
        Equally many rows of every class, rather than in proportion.
    weights : bool
        Fit weights; else rows of a class have equal weights.
    swap : bool
        Try to swap every chosen row at the end.
    missing : str or Missing
        What becomes of rows of a data frame without a value: "drop", "mean", "level" or "error".
    candidates : int, optional
        Random rows to choose among.
    random_state : int, RandomState or None
        Seed; None draws a new one for every fit.

    Attributes
    ----------
    indices_ : (m,) int64
        The chosen rows, in the order in which they were chosen.
    weights_ : (m,) float64
        Their weights, with sum 1.
    mmd_, mmd_random_ : float
        Distance from all rows, and the mean of that of random subsets.
    result_ : HerdResult
        All that is known of the choice.
    n_features_in_ : int
        Columns seen by `fit`.
    feature_names_in_ : (n_features_in_,) str
        Their names, if X had any.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> selector = HerdingSelector(n_rows=20).fit(X)
    >>> X[selector.indices_].shape
    (20, 2)
    >>> selector.mmd_ < selector.mmd_random_
    True
    """

    indices_: Ids
    weights_: Vector
    mmd_: float
    mmd_random_: float
    result_: HerdResult
    n_features_in_: int

    def __init__(
        self,
        n_rows: float = 0.1,
        *,
        kernel: Kernel | None = None,
        by_label: bool | None = None,
        balanced: bool = False,
        weights: bool = False,
        swap: bool = False,
        missing: Missing | str = "level",
        candidates: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_rows = n_rows
        self.kernel = kernel
        self.by_label = by_label
        self.balanced = balanced
        self.weights = weights
        self.swap = swap
        self.missing = missing
        self.candidates = candidates
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> HerdingSelector:  # noqa: N803 - scikit-learn's name
        """Choose rows of X.

        Parameters
        ----------
        X : (n, d)
            Rows: an array, or a data frame as `herd` takes it, texts and missing values included.
        y : (n,), optional
            Classes, or what else goes with the rows: see `by_label`.
        """
        if find_frame(X) is None:
            data = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        else:
            data = validate_data(self, X, skip_check_array=True)
        labels = self._labels(y, len(data))
        require(labels is not None or not self.balanced, "balanced", "False without classes", self.balanced)
        result = herd(
            data,
            self._size(len(data), 1 if labels is None else int(labels.max()) + 1),
            kernel=self.kernel,
            by=labels,
            balanced=self.balanced,
            weights=self.weights,
            swap=self.swap,
            missing=self.missing,
            candidates=self.candidates,
            seed=self._seed(),
        )
        self.result_ = result
        self.indices_, self.weights_ = result.ids, result.weights
        self.mmd_, self.mmd_random_ = result.mmd, result.mmd_random
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        """Choose rows and return them, as the samplers of imbalanced-learn do.

        Parameters
        ----------
        X : (n, d)
            Rows: an array or a data frame.
        y : (n,)
            Classes, or what else goes with the rows: see `by_label`.

        Returns
        -------
        X, y
            The chosen rows, of the types that were given.

        Examples
        --------
        >>> X = np.random.default_rng(0).standard_normal((100, 2))
        >>> X_few, y_few = HerdingSelector(10).fit_resample(X, X[:, 0] > 0.0)
        >>> X_few.shape, y_few.shape
        ((10, 2), (10,))
        """
        self.fit(X, y)
        return _safe_indexing(X, self.indices_), _safe_indexing(y, self.indices_)

    @property
    def sample_indices_(self) -> Ids:
        """`indices_`, by the name that imbalanced-learn uses."""
        check_is_fitted(self)
        return self.indices_

    def _size(self, n: int, classes: int) -> int:
        """Return how many rows to choose of n."""
        rule = f"an integer in [1, {n}] or a share in (0, 1)"
        given: object = self.n_rows
        if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)):
            raise TypeError(f"`n_rows` must be {rule}. Got {given!r}.")
        if isinstance(given, (int, np.integer)):
            require(bool(1 <= given <= n), "n_rows", rule, given)
            least = f"at least {classes}, one row of every class of y (or `by_label` False)"
            require(bool(given >= classes), "n_rows", least, given)
            return int(given)
        require(bool(0.0 < given < 1.0), "n_rows", rule, given)
        return max(classes, math.floor(given * n))

    def _labels(self, y: Any, n: int) -> NDArray[np.int64] | None:
        """Return the classes of y as codes; None if they do not count."""
        by: object = self.by_label
        if not (by is None or isinstance(by, (bool, np.bool_))):
            raise TypeError(f"`by_label` must be True, False or None. Got {describe(by)}.")
        if y is None:
            return None
        labels = array(y, "y", "an array, an entry per row of X")
        require(labels.shape[:1] == (n,), "y", f"of length {n}, as X", f"shape {labels.shape}")
        if by is not None and not by:
            return None
        labels = labels.ravel() if labels.shape == (n, 1) else labels
        if labels.dtype.kind == "f":
            require_finite(labels, "y")
        kind = _kind(labels)
        if by is None and (kind in _CARRIED or _many(labels)):
            return None
        got = f"{kind}, shape {labels.shape}"
        require(kind in ("binary", "multiclass"), "y", "one class per row, or `by_label` False", got)
        codes: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return codes

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return count(self.random_state, "random_state")
        try:
            return int(check_random_state(self.random_state).randint(_SEEDS))
        except ValueError:
            rule = "an integer >= 0, a RandomState or None"
            raise TypeError(f"`random_state` must be {rule}. Got {describe(self.random_state)}.") from None


def _kind(labels: NDArray[Any]) -> str:
    """scikit-learn's word for a target."""
    try:
        return str(type_of_target(labels, input_name="y", raise_unknown=True))
    except (TypeError, ValueError):
        return "Unknown label type"  # what it says itself, in several lines


def _many(labels: NDArray[Any]) -> bool:
    """Whether these are numbers, and too many different ones to be classes."""
    if labels.dtype.kind not in "iuf":
        return False
    distinct = len(np.unique(labels))
    return distinct > _TWO and distinct > min(len(labels) / 2, max(_FEW, len(labels) / 10))
