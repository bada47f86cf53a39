"""Embeddings in a file: an index that is kept, how much it finds, and an answer that is proved.

The same for a file of your own: `wolfhound index build vectors.npy -o vectors.index`.
"""

# SPDX-License-Identifier: Apache-2.0
import tempfile
from pathlib import Path

import numpy as np

import wolfhound as wh


def main() -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, 64))
    vectors = (centres[rng.integers(0, 200, 50_000)] + 0.5 * rng.standard_normal((50_000, 64))).astype(
        np.float32
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        np.save(path, vectors)
        wh.ClusterIndex.build(path).save(Path(folder) / "vectors.index")
        index = wh.load(Path(folder) / "vectors.index", atoms=path)

        # What other libraries call search is a query: the largest inner products.
        queries = vectors[rng.integers(0, 50_000, 200)]
        found, true = index.query(queries, k=10).ids, wh.Scan(path).query(queries, k=10).ids
        share = np.mean([len(set(ours) & set(best)) / 10 for ours, best in zip(found, true, strict=True)])
        print(f"the index finds {share:.2f} of the ten nearest")

        # An index proves nothing. Behind Tiered it answers what it can; a pass finds the rest, and proves.
        target = wh.SquaredDistance(1.5 * vectors[7])
        quick = wh.minimize(target, index, exclude=[7])
        proved = wh.minimize(target, wh.Tiered(index), exclude=[7])
        print(quick, proved, sep="\n")
        wh.plot({"index": quick, "index, proved": proved}, path=Path(folder) / "runs.png", shared=True)


if __name__ == "__main__":
    main()
