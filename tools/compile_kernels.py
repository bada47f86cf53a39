"""Compile what the tests use, once, before their processes start: all that `warm_up` compiles, and some more.

What a test compiles all the same, both processes of `make test` compile beside each other: find it by the
files of kernels that are newer than a run of this.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import wolfhound as wh
from wolfhound.compiled.jit import on_compile


def compile_more() -> None:
    """Call what tests call in more than one file and `warm_up` leaves out."""
    rows = np.random.default_rng(0).standard_normal((3000, 8))
    for atoms in (rows, rows.astype(np.float32)):
        for some in (atoms, atoms[:100]):
            wh.minimize_many(2.0 * rows[:4], some, max_atoms=2)
        wh.minimize_many(2.0 * rows[:4], wh.ClusterIndex.build(atoms))
        wh.herd(atoms, 8, kernel=wh.Laplace())
        wh.design(atoms[:300]).round(12)
        with tempfile.TemporaryDirectory() as folder:
            for index in (wh.Int8Scan.build(atoms), wh.LshIndex.build(atoms), wh.ClusterIndex.build(atoms)):
                place = Path(folder) / type(index).__name__
                index.save(place)
                type(index).load(place, atoms)


if __name__ == "__main__":
    began: list[None] = []
    with on_compile(lambda: began.append(None)):
        wh.warm_up()
        compile_more()
    print(f"{len(began)} kernels compiled")
