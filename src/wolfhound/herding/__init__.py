"""Herding: few weighted atoms whose mean matches that of millions, in a kernel or a feature space."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.herding.herd import herd as herd
from wolfhound.herding.in_features import herd_in_features as herd_in_features
from wolfhound.herding.kernels import KERNELS as KERNELS
from wolfhound.herding.kernels import Kernel as Kernel
from wolfhound.herding.kernels.features import Features as Features
from wolfhound.herding.kernels.features import Identity as Identity
from wolfhound.herding.kernels.features import RandomFourier as RandomFourier
from wolfhound.herding.kernels.features import feature_mean as feature_mean
from wolfhound.herding.kernels.gaussian import Gaussian as Gaussian
from wolfhound.herding.kernels.laplace import Laplace as Laplace
from wolfhound.herding.kernels.linear import Linear as Linear
from wolfhound.herding.kernels.stein import Stein as Stein
from wolfhound.herding.kernels.stein import with_scores as with_scores
from wolfhound.herding.mmd import Reference as Reference
from wolfhound.herding.mmd import mmd as mmd
