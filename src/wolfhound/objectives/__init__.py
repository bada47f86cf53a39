"""What is minimised: smooth objectives with proved rounding errors."""

# SPDX-License-Identifier: Apache-2.0
from wolfhound.objectives.custom import Custom
from wolfhound.objectives.glm import Huber, Logistic
from wolfhound.objectives.likelihood import MixtureLikelihood, likelihood_atoms
from wolfhound.objectives.quadratic import LeastSquares, SquaredDistance

__all__ = [
    "Custom",
    "Huber",
    "LeastSquares",
    "Logistic",
    "MixtureLikelihood",
    "SquaredDistance",
    "likelihood_atoms",
]
