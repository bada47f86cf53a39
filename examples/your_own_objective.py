"""Minimise a function of your own over the hull of 50,000 points."""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import Custom, minimize


def main() -> None:
    rng = np.random.default_rng(2)
    points = rng.standard_normal((50_000, 12))
    target = np.full(12, 1.5)

    def log_cosh(x: np.ndarray) -> tuple[float, np.ndarray]:
        away = x - target
        return float(np.logaddexp(away, -away).sum()), np.tanh(away)

    objective = Custom(log_cosh, convex=True)
    objective.check(points[0])
    result = minimize(objective, points, rtol=1e-4)
    print(result)


if __name__ == "__main__":
    main()
