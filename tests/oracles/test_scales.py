"""Any scale of atoms and queries: no oracle dies, warns or claims what is false in exact arithmetic."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound.core.contracts import Matrix, Oracle
from wolfhound.data.atoms import MappedAtoms, as_atoms
from wolfhound.oracles._probe_kernels import BINS, bin_of, per_unit
from wolfhound.oracles.buckets import FAR, scale_rows, unit_of
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.faiss_index import FaissIndex
from wolfhound.oracles.hashes import SimHash
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Tiered
from wolfhound.paper.adaptive import QuantizedQueries
from wolfhound.paper.projected import Projected


def same(rows: Matrix) -> Matrix:
    return rows


def projected(rows: Matrix) -> Oracle:
    return Projected(Scan(MappedAtoms(as_atoms(rows), same, rows.shape[1])), same, rows)


MAKERS: dict[str, Callable[[Matrix], Oracle]] = {
    "scan": Scan,
    "int8": Int8Scan.build,
    "int8 on disk": Int8FileScan.build,
    "clusters": lambda rows: ClusterIndex.build(rows, budget=4, proof=True),
    "lsh": lambda rows: LshIndex.build(rows, bucket=2.0),
    "lsh with proof": lambda rows: LshIndex.build(rows, budget=4, tables=2, proof=True),
    "simhash": lambda rows: LshIndex.build(rows, family=SimHash(), axes=1),
    "projected": projected,
    "quantized": lambda rows: QuantizedQueries(Scan(rows), side=0.1),
    "subset": lambda rows: RandomSubset(rows, size=3),
    "tiered": lambda rows: Tiered(LshIndex.build(rows)),
}

SCALES: dict[type[Any], list[float]] = {
    np.float32: [0.0, 1e-45, 1e-39, 1e-30, 1.0, 1e20, 1e37, 3e38],
    np.float64: [0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1.0, 1e100, 1e153],
}


def hostile(seed: int) -> tuple[Matrix, Matrix]:
    """Return atoms and queries of one wild scale, or of several."""
    rng = np.random.default_rng(seed)
    dtype = (np.float32, np.float64)[seed % 2]
    n, d = int(rng.choice([1, 2, 5, 17])), int(rng.choice([1, 2, 3]))
    per_entry = ((1, 1), (n, 1), (n, d))[seed % 3]
    rows: Matrix = (rng.uniform(-1.0, 1.0, (n, d)) * rng.choice(SCALES[dtype], per_entry)).astype(dtype)
    size = rng.choice([5e-324, 1e-310, 1e-150, 1.0, 1e30, 1e140])
    return rows, rng.uniform(-1.0, 1.0, (int(rng.choice([1, 2, 9])), d)) * size


def exact(rows: Matrix, query: Matrix) -> list[Fraction]:
    """Scores without rounding."""
    numbers = [Fraction(float(value)) for value in query]
    return [
        sum((Fraction(float(a)) * b for a, b in zip(row, numbers, strict=True)), Fraction(0)) for row in rows
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_no_scale_breaks_an_oracle(name: str) -> None:
    for seed in range(60):
        rows, queries = hostile(seed)
        oracle = MAKERS[name](rows)
        for hits in (oracle.query(queries, k=2), oracle.query(queries, thresholds=np.zeros(len(queries)))):
            assert not np.isnan(hits.bounds).any()
            assert (hits.ids[:, 0] >= 0).all()
            assert np.isfinite(hits.scores[:, 0]).all()
            for query, score, bound, atom in zip(
                queries, hits.scores[:, 0], hits.bounds, hits.ids[:, 0], strict=True
            ):
                truth = exact(rows, query)
                assert min(bound, sys.float_info.max) >= max(truth)
                size = sum(exact(np.abs(rows[atom : atom + 1]), np.abs(query)))
                assert abs(Fraction(float(score)) - truth[atom]) <= size / 2**48 + Fraction(2) ** -1018


@pytest.mark.parametrize("make", [LshIndex.build, ClusterIndex.build, Int8Scan.build, Scan])
def test_atoms_that_are_too_long_are_named(make: Callable[[Matrix], Oracle]) -> None:
    rows = np.full((40, 3), 1.7e308)
    rows[:7] = 1.0
    with pytest.raises(ValueError, match=r"`atoms` must have norms below 1e154\. Got a larger one in row 7"):
        make(rows).query(np.ones((1, 3)))


@pytest.mark.parametrize(
    "make", [LshIndex.build, lambda rows: LshIndex.build(rows, tau=0.3), ClusterIndex.build]
)
@pytest.mark.parametrize(("dtype", "tiny", "huge"), [(np.float64, 1e-300, 1e150), (np.float32, 1e-44, 1e38)])
def test_atoms_beyond_the_sample_may_have_another_scale(
    make: Callable[[Matrix], Oracle], dtype: type[Any], tiny: float, huge: float
) -> None:
    rng = np.random.default_rng(0)
    rows: Matrix = (tiny * rng.standard_normal((20_500, 2))).astype(dtype)
    left = np.setdiff1d(np.arange(20_500), np.random.default_rng(0).permutation(20_500)[:20_000])
    rows[left[::2]] = huge
    hits = make(rows).query(rng.standard_normal((2, 2)))
    assert np.isfinite(hits.scores).all()


def test_scores_that_overflow_to_minus_infinity_are_refused() -> None:
    faiss = pytest.importorskip("faiss")
    flat = faiss.IndexFlatIP(2)
    flat.add(np.ones((1, 2), np.float32))
    index = FaissIndex(flat, np.full((1, 2), 1e200))
    with pytest.raises(ValueError, match="`queries` must be so small that no score overflows"):
        index.query(np.full((1, 2), -1e150))


# ---------------------------------------------------------------- kernels

HOSTILE = [0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 3e38, -3e38, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("promised", HOSTILE)
@pytest.mark.parametrize("low", HOSTILE)
def test_a_bin_is_a_bin_whatever_the_numbers(promised: float, low: float) -> None:
    for high in HOSTILE:
        scale = per_unit(np.float32(low), np.float32(high), BINS)
        for each in (scale, *np.array(HOSTILE, np.float32)):
            assert 0 <= bin_of(np.float32(promised), np.float32(low), each, BINS) < BINS


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-44), (np.float32, 3e38), (np.float64, 1e-300)])
def test_small_rows_are_near_one(dtype: type[Any], scale: float) -> None:
    rows = np.array([[scale, -scale], [0.0, scale]], dtype)
    out = scale_rows(rows, unit_of(scale))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out[0], [0.75, -0.75], rtol=0.34)
    assert np.abs(scale_rows(np.array([[1e300]]), 1.0)).max() == np.float32(FAR)


@pytest.mark.slow
def test_hashes_of_subnormal_atoms_leave_the_process_alive() -> None:
    code = (
        "import numpy as np; from wolfhound import LshIndex;"
        "rows = np.array([[1e-39, 0], [0, 0]], np.float32);"
        "print(LshIndex.build(rows).query(np.eye(2)).ids.ravel().tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "[0, 0]\n", "")
