"""Every pixel of a small hyperspectral cube as a mixture of known spectra, each with a proof.

python examples/unmix_a_cube.py
"""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

import wolfhound as wh


def main() -> None:
    rng = np.random.default_rng(0)
    bands = np.linspace(0.0, 1.0, 80)
    centres, widths = rng.random((40, 1)), rng.uniform(0.03, 0.2, (40, 1))
    spectra = 0.7 - 0.5 * np.exp(-0.5 * ((bands - centres) / widths) ** 2)

    # 30 x 40 pixels: three spectra and a shadow, which is darkness, in slowly changing parts.
    row, column = np.mgrid[0:1:30j, 0:1:40j]
    parts = np.stack([row * column, row * (1 - column), (1 - row) * column], axis=2) * 0.9
    cube = parts @ spectra[[3, 17, 29]] + 0.003 * rng.standard_normal((30, 40, 80))
    # a dead pixel
    cube[12, 20] = np.nan

    minerals = [f"mineral {i}" for i in range(40)]
    result = wh.minimize_many(cube, spectra, names=minerals, over=wh.Hull(at_most=True), skip=True)
    print(result)

    # (30, 40, 40) fractions
    found = result.to_dense()
    error = np.abs(found[..., [3, 17, 29]] - parts)[~np.isnan(cube).any(axis=2)].mean()
    print(f"mean error of the fractions {error:.4f}")
    print(f"distance of pixel (5, 5) from its mixture {result.distance.reshape(30, 40)[5, 5]:.4f}")
    print("pixel (20, 30):", ", ".join(f"{atom.name} {atom.weight:.2f}" for atom in result.top((20, 30), 3)))
    # Maps of the misfit, of the largest fractions and of their sum; a path would write them.
    result.plot()

    few = wh.minimize_many(cube, spectra, over=wh.Hull(at_most=True), skip=True, max_atoms=4)
    solved = np.isfinite(few.value)
    grows = 100.0 * np.mean((few.price / few.value)[solved])
    print(f"with at most 3 spectra and the shadow: f grows by {grows:.2f} % on average")


if __name__ == "__main__":
    main()
