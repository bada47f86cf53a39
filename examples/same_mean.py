"""Find a few rows whose weighted mean is exactly the mean of 200,000 rows.

At most d + 1 weighted rows can stand for the mean of all (recombination). As
f >= 0, the value itself is the proof: no pass over the rows is needed.
"""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import SquaredDistance, minimize


def main() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200_000, 20), dtype=np.float32) ** 3
    mean = rows.mean(0, dtype=np.float64)
    result = minimize(SquaredDistance(mean), rows, rtol=1e-12)
    print(result)
    print(f"{result.support} rows, passes {result.passes:g}, mean off by {np.abs(result.x - mean).max():.1e}")


if __name__ == "__main__":
    main()
