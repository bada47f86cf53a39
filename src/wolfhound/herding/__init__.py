"""Herding: few weighted atoms whose mean matches that of millions, in a kernel or a feature space."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.herding.herd import herd
from wolfhound.herding.in_features import herd_in_features
from wolfhound.herding.kernels import KERNELS, Kernel
from wolfhound.herding.kernels.features import Features, Identity, RandomFourier, feature_mean
from wolfhound.herding.kernels.gaussian import Gaussian
from wolfhound.herding.kernels.laplace import Laplace
from wolfhound.herding.kernels.linear import Linear
from wolfhound.herding.kernels.stein import Stein, with_scores
from wolfhound.herding.mmd import Reference, mmd

__all__ = [
    "KERNELS",
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
    "herd",
    "herd_in_features",
    "mmd",
    "with_scores",
]
