"""Which experiments to run: from possible settings to a plan, with a proved efficiency.

python examples/plan_experiments.py
"""

# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np

import wolfhound as wh


def is_unsafe(x: dict[str, Any]) -> Any:
    return (x["catalyst"] == "Pd") & (x["temperature"] > 380.0) & (x["time"] > 40.0)


def main() -> None:
    # 6,615 possible experiments; a quadratic model of three numbers and a category has 18 terms.
    possible = wh.Factors(
        {
            "temperature": np.linspace(300.0, 400.0, 21),
            "pressure": np.linspace(1.0, 5.0, 21),
            "time": [10.0, 20.0, 30.0, 40.0, 50.0],
            "catalyst": ["none", "Pd", "Pt"],
        }
    )
    # With palladium it must not be hot and long.
    found = wh.design(possible, model="quadratic", exclude=is_unsafe)
    print(found)

    plan = found.round(30)
    print(plan)
    # in random order
    print(plan.to_frame(seed=0).head())

    # Ten runs were made; which twenty should follow, if predictions matter most?
    done = plan.to_frame().head(10)
    more = wh.design(possible, model="quadratic", criterion="I", given=done, runs=20, exclude=is_unsafe)
    print(more.round(20))

    # The variance of a prediction in the middle, per run.
    middle = [[350.0, 3.0, 30.0, 0.0]]
    print(
        f"variance in the middle: {found.variance(middle)[0]:.2f} by D, {more.variance(middle)[0]:.2f} by I"
    )


if __name__ == "__main__":
    main()
