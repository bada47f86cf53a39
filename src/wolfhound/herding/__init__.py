"""Herding: few weighted atoms whose mean matches that of millions, in a kernel or a feature space.

Begin with `herd`: a `session` reads what it is given, draws candidates, picks of them (`greedy`), weights
the picks and measures them, all by sums over `kernels` (`mmd`). `in_features` is
Frank-Wolfe on a mean that is known, `select` the face for scikit-learn. Nothing here knows policies, designs
or mixtures.
"""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.herding.features import Features as Features
from wolfhound.herding.features import Identity as Identity
from wolfhound.herding.features import RandomFourier as RandomFourier
from wolfhound.herding.features import feature_mean as feature_mean
from wolfhound.herding.herd import herd as herd
from wolfhound.herding.in_features import herd_in_features as herd_in_features
from wolfhound.herding.kernels import KERNELS as KERNELS
from wolfhound.herding.kernels import Gaussian as Gaussian
from wolfhound.herding.kernels import Kernel as Kernel
from wolfhound.herding.kernels import Laplace as Laplace
from wolfhound.herding.kernels import Linear as Linear
from wolfhound.herding.mmd import Reference as Reference
from wolfhound.herding.mmd import mmd as mmd
from wolfhound.herding.stein import Stein as Stein
from wolfhound.herding.stein import with_scores as with_scores
