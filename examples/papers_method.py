"""Solve a problem by sublinear Frank-Wolfe on an LSH index, and measure the share c that it finds."""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import LshIndex, SquaredDistance, SublinearFrankWolfe, minimize
from wolfhound.data.shipped import words


def main() -> None:
    glove = words()
    mean = glove.vectors.mean(axis=0, dtype=np.float64)
    # Now and then a pass tells the true gap: the trace has the share of it that the steps had.
    index = LshIndex.build(glove.vectors)
    result = minimize(SquaredDistance(mean), index, method=SublinearFrankWolfe(ratio=0.8), rtol=1e-3)
    print(result)
    c = result.trace.ratio[np.isfinite(result.trace.ratio)]
    probed = (result.scored - result.passes * len(glove)) / result.steps
    print(f"measured c: mean {c.mean():.2f}, tenth percentile {np.quantile(c, 0.1):.2f}, in {len(c)} audits")
    print(f"{probed:.0f} of {len(glove):,} atoms scored per step")


if __name__ == "__main__":
    main()
