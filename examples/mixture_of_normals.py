"""Fit a mixture of normals with unknown means: the nonparametric likelihood.

Every candidate mean on a fine grid is an atom, the vector of its likelihoods at
the observations. The gap is in nats per observation.
"""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import MixtureLikelihood, minimize
from wolfhound.objectives.likelihood import likelihood_atoms


def main() -> None:
    rng = np.random.default_rng(1)
    sample = np.concatenate([rng.normal(-2.0, 1.0, 300), rng.normal(2.5, 1.0, 200)])
    grid = np.linspace(sample.min(), sample.max(), 50_000)
    atoms, offsets = likelihood_atoms(-0.5 * (grid[:, None] - sample) ** 2 - 0.5 * np.log(2.0 * np.pi))
    result = minimize(MixtureLikelihood(), atoms, rtol=0.0, atol=1e-6)
    print(result)
    print(f"mean log-likelihood {offsets.mean() - result.value:.6f}, proved within {result.gap:.1e}")
    for atom in result.top(4):
        print(f"{atom.weight:6.3f}  normal around {grid[atom.id]:+.3f}")


if __name__ == "__main__":
    main()
