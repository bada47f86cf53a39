"""Solve a problem by sublinear Frank-Wolfe on an LSH index, and measure the share c that it finds."""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import Audited, LshIndex, SquaredDistance, SublinearFrankWolfe, minimize
from wolfhound.data.shipped import words


def main() -> None:
    glove = words()
    mean = glove.vectors.mean(axis=0, dtype=np.float64)
    # An audit is a pass that tells the true gap: the trace has the share of it that the index found.
    index = Audited(LshIndex.build(glove.vectors, ratio=0.8), every=20)
    result = minimize(SquaredDistance(mean), index, method=SublinearFrankWolfe(ratio=0.8), rtol=1e-3)
    print(result)
    c = result.trace.ratio
    probed = (result.scored - result.passes * len(glove)) / result.steps
    print(f"measured c: mean {np.nanmean(c):.2f}, least {np.nanmin(c):.2f}, in {index.audits} audits")
    print(f"{probed:.0f} of {len(glove):,} atoms scored per step")


if __name__ == "__main__":
    main()
