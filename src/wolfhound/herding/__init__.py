"""Herding: few weighted rows whose kernel mean matches that of millions.

Kernels, random features and distances between sets of rows; import `herd`
from `wolfhound`.
"""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.herding.features import Features, Identity, RandomFourier, feature_mean
from wolfhound.herding.kernels import Gaussian, Kernel, Laplace, Linear, Stein, with_scores
from wolfhound.herding.mmd import Reference, mmd

__all__ = [
    "Features",
    "Gaussian",
    "Identity",
    "Kernel",
    "Laplace",
    "Linear",
    "RandomFourier",
    "Reference",
    "Stein",
    "feature_mean",
    "mmd",
    "with_scores",
]
