"""`HerdingSelector`: herding with the conventions of scikit-learn.

The only importer of scikit-learn.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound.core import Ids, Vector
from wolfhound.herding.herd import herd
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.result import HerdResult
from wolfhound.validate import require

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import _safe_indexing, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("HerdingSelector needs scikit-learn: pip install 'wolfhound[sklearn]'") from None

_SEEDS = 2**31 - 1


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
    by_label : bool
        Choose within each class of y, if `fit` is given y. Otherwise y is
        carried along only.
    balanced : bool
        Equally many rows of every class, rather than in proportion.
    weights : bool
        Fit weights; else rows of a class have equal weights.
    swap : bool
        Try to swap every chosen row at the end.
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
        by_label: bool = True,
        balanced: bool = False,
        weights: bool = False,
        swap: bool = False,
        candidates: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_rows = n_rows
        self.kernel = kernel
        self.by_label = by_label
        self.balanced = balanced
        self.weights = weights
        self.swap = swap
        self.candidates = candidates
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> HerdingSelector:  # noqa: N803 - scikit-learn's name
        """Choose rows of X.

        Parameters
        ----------
        X : (n, d)
            Rows: an array or a data frame.
        y : (n,), optional
            Classes.
        """
        data = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
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
            Classes, or what else goes with the rows (with ``by_label=False``).

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
            return int(given)
        require(bool(0.0 < given < 1.0), "n_rows", rule, given)
        return max(classes, math.floor(given * n))

    def _labels(self, y: Any, n: int) -> NDArray[np.int64] | None:
        """Return the classes of y as codes; None if they do not count."""
        if y is None:
            return None
        labels = np.asarray(y)
        require(labels.shape[:1] == (n,), "y", f"of length {n}, as X", f"shape {labels.shape}")
        if not self.by_label:
            return None
        labels = labels.ravel() if labels.shape == (n, 1) else labels
        require(labels.ndim == 1, "y", "one class per row, or `by_label` False", f"shape {labels.shape}")
        check_classification_targets(labels)
        codes: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return codes

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(_SEEDS))
