"""What a promise takes: cuts that planted pairs reach as often as promised, and not much more often."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tests.fuzz import promises as attack
from wolfhound.core.contracts import Matrix, Vector
from wolfhound.data import store
from wolfhound.data.atoms import as_atoms, fingerprint
from wolfhound.oracles import promises as _planted
from wolfhound.oracles._probe_kernels import BINS, count_above
from wolfhound.oracles.hashes import CrossPolytope, Family, Hash, SimHash, draw_hash
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.promises import Ladder, count_typical, find_cuts, find_least_delta, split_delta
from wolfhound.paper import theory


def sphere(n: int, d: int, seed: int = 0) -> Matrix:
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


def plant(units: Vector, cosine: float, rng: np.random.Generator) -> Vector:
    """Unit vectors at this cosine with others."""
    across = rng.standard_normal(units.shape)
    across -= np.einsum("ij,ij->i", across, units)[:, None] * units
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.asarray(cosine * units + math.sqrt(1.0 - cosine**2) * across)


def shown(hashing: Hash, queries: Vector, atoms: Vector) -> Vector:
    """Sum of the projections of queries on the directions of the codes of atoms, by its definition."""
    total = np.zeros(len(queries))
    for block in blocks(hashing):
        code = hashing.family.assign((atoms @ block.T).astype(np.float32))[0]
        spread = hashing.family.spread((queries @ block.T).astype(np.float32))
        total += spread[np.arange(len(queries)), code]
    return total


def blocks(hashing: Hash) -> tuple[Matrix, Matrix]:
    return hashing.first, hashing.second


# ---------------------------------------------------------------- cuts


@pytest.mark.parametrize("family", [CrossPolytope(), SimHash()])
@pytest.mark.parametrize(("tau", "delta"), [(0.3, 0.1), (0.7, 0.1), (0.9, 0.3)])
def test_cuts_are_missed_as_often_as_promised_and_not_much_less(
    family: Family, tau: float, delta: float
) -> None:
    """By hashes and pairs that the cuts were not measured on."""
    rows, missed = sphere(2000, 24), 0
    cuts = find_cuts(
        draw_hash(family, rows, 2000, per_bucket=32, rng=np.random.default_rng(1)),
        1.0,
        [tau],
        delta=delta,
        tables=1,
        rng=np.random.default_rng(2),
    )
    for seed in range(5):
        rng = np.random.default_rng([seed, 3])
        hashing = draw_hash(family, rows, 2000, per_bucket=32, rng=rng)
        units = sphere(1000, 24, seed + 10).astype(np.float64)
        missed += int((shown(hashing, units, plant(units, tau, rng)) < cuts[0, 0]).sum())
    assert binom.sf(missed - 1, 5000, delta) > 1e-3
    assert missed / 5000 > 0.7 * delta


def test_two_tables_share_the_failures() -> None:
    rows, rng = sphere(2000, 24), np.random.default_rng(4)
    both = [draw_hash(CrossPolytope(), rows, 2000, per_bucket=32, rng=rng) for _ in range(2)]
    cuts = find_cuts(both[0], 1.0, [0.6], delta=0.1, tables=2, rng=rng)
    alone = find_cuts(both[0], 1.0, [0.6], delta=0.1, tables=1, rng=rng)
    units = sphere(4000, 24, 9).astype(np.float64)
    planted = plant(units, 0.6, rng)
    missed = np.all([shown(each, units, planted) < cuts[0, 0] for each in both], axis=0).sum()
    assert cuts[0, 0] > alone[0, 0]
    assert binom.sf(missed - 1, 4000, 0.1) > 1e-3
    assert missed / 4000 > 0.06


def test_ranges_of_short_atoms_are_left_out_and_rungs_look_further() -> None:
    rng = np.random.default_rng(5)
    rows = sphere(4000, 16) * np.float32(2.0) ** rng.integers(-3, 1, (4000, 1)).astype(np.float32)
    hashing = draw_hash(CrossPolytope(), rows, 4000, per_bucket=32, rng=rng)
    radius = float(np.linalg.norm(hashing.scale(rows), axis=1).max())
    cuts = find_cuts(hashing, radius, [0.8, 0.4], delta=0.1, tables=1, rng=rng)
    assert cuts.shape == (2, len(hashing.norms))
    assert (cuts[1] <= cuts[0]).all()
    # Of norms 1/8, 1/4, 1/2 and 1 only the longest can be at 0.8; shorter ones at a larger cosine.
    units = sphere(500, 16, 6).astype(np.float64)
    assert shown(hashing, units, units).max() < cuts[0, 0]
    assert cuts[0, -1] == cuts[0].min()


def test_atoms_above_cuts_are_counted_as_by_hand() -> None:
    rows, rng = sphere(3000, 12), np.random.default_rng(7)
    hashing = draw_hash(CrossPolytope(), rows, 3000, per_bucket=16, rng=rng)
    owner = hashing.assign(rows)
    sizes = np.bincount(owner, minlength=hashing.buckets)
    aimed = replace(hashing, cuts=np.array([[0.9], [0.5]]))
    units = sphere(20, 12, 8).astype(np.float64)
    found = aimed.count_above(units, np.ones(20), sizes)
    tops = [
        hashing.family.spread((units @ each.T).astype(np.float32)).max(axis=1) for each in blocks(hashing)
    ]
    for q, unit in enumerate(units):
        sums = shown(hashing, np.repeat(unit[None], 3000, axis=0), hashing.scale(rows).astype(np.float64))
        top = float(tops[0][q] + tops[1][q])
        for row, cut in zip(found, (0.9, 0.5), strict=True):
            # What is counted ends with a whole bin, of which there are 256 from -top to top.
            assert (sums >= cut + 1e-5).sum() <= row[q]
            assert row[q] <= (sums >= min(cut, top) - 2.01 * top / 256).sum()


def test_a_cut_below_all_promises_counts_all() -> None:
    rows, rng = sphere(500, 6), np.random.default_rng(9)
    hashing = draw_hash(CrossPolytope(), rows, 500, per_bucket=16, rng=rng)
    sizes = np.bincount(hashing.assign(rows), minlength=hashing.buckets)
    promises = hashing.promises(rows[:3].astype(np.float64), np.ones(3))
    out = np.empty((1, 3), np.int64)
    count_above(promises, sizes, np.full(1, -1e9, np.float32), np.empty(BINS, np.int64), out)
    assert (out == 500).all()


# ---------------------------------------------------------------- the formula


@pytest.mark.parametrize("tau", [0.4, 0.6, 0.8])
def test_the_share_that_is_probed_follows_the_formula(tau: float) -> None:
    rows, rng = sphere(20_000, 48), np.random.default_rng(11)
    hashing = draw_hash(CrossPolytope(), rows, 20_000, per_bucket=48, rng=rng)
    sizes = np.bincount(hashing.assign(rows), minlength=hashing.buckets)
    cuts = find_cuts(hashing, 1.0, [tau], delta=0.1, tables=1, rng=rng)
    found = count_typical(replace(hashing, cuts=cuts), sizes, hashing.scale(rows), rng)[0] / 20_000
    codes = hashing.family.codes(len(hashing.first))
    assert found == pytest.approx(theory.probed_share(tau, codes), rel=0.2)


@pytest.mark.slow
def test_an_index_fails_near_delta_on_a_sphere() -> None:
    """Two-sided: the promise is kept, and not by probing far more than it takes."""
    rows, missed, tau = sphere(6000, 48), 0, 0.75
    for seed in range(4):
        index = LshIndex.build(rows, ratio=1.0, tau=tau, delta=0.1, seed=seed)
        rng = np.random.default_rng([seed, 12])
        away = rows[rng.integers(0, 6000, 150)] - index.centre
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        cosines = tau * index.radius / lengths
        units = away / lengths
        across = plant(units, 0.0, rng)
        queries = cosines * units + np.sqrt(1.0 - cosines**2) * across
        found = index.query(queries).scores[:, 0] - queries @ index.centre
        missed += int((found < tau * index.radius * (1.0 - 1e-9)).sum())
    assert binom.sf(missed - 1, 600, 0.1) > 1e-3
    assert binom.cdf(missed, 600, 0.1 / 3.0) > 1e-3


def test_cuts_of_other_ranges_are_refused(tmp_path: Path) -> None:
    rows = sphere(300, 8)
    LshIndex.build(rows, tau=0.5).save(tmp_path / "one")
    stored = store.load(tmp_path / "one", "index")
    params = {**stored.params, "cuts": [[0.5, 0.4]]}
    arrays = {name: np.asarray(array) for name, array in stored.arrays.items()}
    store.save(tmp_path / "two", "index", arrays, params, fingerprint(as_atoms(rows)))
    with pytest.raises(store.StoreError, match="cuts"):
        LshIndex.load(tmp_path / "two", rows)


# ---------------------------------------------------------------- the least delta


def test_the_least_delta_is_what_pairs_without_a_miss_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many pairs all of which reach a cut would be rarer than 5 % if more than that missed it."""
    for pairs in (100, 4096):
        monkeypatch.setattr(_planted, "PAIRS", pairs)
        assert binom.pmf(0, pairs, find_least_delta()) == pytest.approx(0.05)
        assert find_least_delta(3) == pytest.approx(find_least_delta() ** 3)


@pytest.mark.parametrize("tau", [0.5, Ladder(zeta=1.0, low=0.3)])
@pytest.mark.parametrize("tables", [1, 2])
def test_a_delta_below_what_is_measured_is_refused(tau: float | Ladder, tables: int) -> None:
    least = find_least_delta(tables)
    rows = sphere(300, 6)
    assert LshIndex.build(rows, tau=tau, delta=least, tables=tables).promise.delta == least
    for delta in (math.nextafter(least, 0.0), 1e-9, 1e-300):
        with pytest.raises(ValueError, match=r"`delta` must be >= .* planted pairs back; .* copies="):
            LshIndex.build(rows, tau=tau, delta=delta, tables=tables)


def test_the_error_names_the_least_and_the_remedy() -> None:
    with pytest.raises(ValueError) as error:
        LshIndex.build(sphere(300, 6), tau=0.5, delta=1e-6)
    assert str(error.value) == (
        "`delta` must be >= 0.000732, the least that 4,096 planted pairs back; for less, build with "
        "copies=2, delta=0.001: independent copies all miss with delta^copies. Got 1e-06."
    )
    assert LshIndex.build(sphere(300, 6), tau=0.5, delta=0.001, copies=2).promise.delta == 0.001
    assert LshIndex.build(sphere(300, 6), delta=1e-6).promise.taus == ()  # nothing is promised


@given(st.floats(5e-324, 1.0, exclude_max=True), st.integers(1, 5))
def test_the_copies_that_are_proposed_keep_delta_and_are_backed(delta: float, tables: int) -> None:
    copies, each = split_delta(delta, tables)
    assert each >= find_least_delta(tables)
    assert copies * math.log(each) <= math.log(delta) + 1e-12
    assert copies == 1 or delta ** (1.0 / (copies - 1)) < find_least_delta(tables) * 1.01


@given(st.floats(find_least_delta(), 0.999), st.integers(0, 2**32))
def test_a_cut_is_the_highest_that_the_bound_of_clopper_and_pearson_allows(missing: float, seed: int) -> None:
    shown = np.random.default_rng(seed).standard_normal(_planted.PAIRS)
    rank = int((shown < _planted._quantile(shown, missing)).sum())
    assert binom.cdf(rank, len(shown), missing) <= 0.05 * (1.0 + 1e-9)
    assert binom.cdf(rank + 1, len(shown), missing) > 0.05 * (1.0 - 1e-9)


@pytest.mark.parametrize("family", [CrossPolytope(), SimHash()])
@pytest.mark.parametrize(("d", "options"), [(2, {"copies": 3}), (3, {"tables": 2}), (16, {"copies": 2})])
def test_every_table_keeps_the_least_delta(family: Family, d: int, options: dict[str, Any]) -> None:
    """In few dimensions a cut that was measured on one is missed far more often by another."""
    missed = total = 0
    share = find_least_delta()
    for seed in range(10):
        rng = np.random.default_rng([seed, d])
        delta = share ** options.get("tables", 1)
        rows = sphere(1000, d, seed)
        index = LshIndex.build(rows, tau=0.6, delta=delta, family=family, seed=seed, **options)
        asked, queries = attack.plant_queries(rng, index, rows)
        for table in index._tables.all:
            missed += attack.count_hidden(table.bucketing, index.promise.cuts[0], asked, queries)
            total += len(queries)
    assert total >= 20_000
    assert binom.sf(missed - 1, total, share) > 1e-6


def test_a_promise_that_was_saved_with_too_small_a_delta_is_refused(tmp_path: Path) -> None:
    rows = sphere(300, 8)
    LshIndex.build(rows, tau=0.5).save(tmp_path / "one")
    stored = store.load(tmp_path / "one", "index")
    arrays = {name: np.asarray(array) for name, array in stored.arrays.items()}
    params = {**stored.params, "delta": 1e-6}
    store.save(tmp_path / "two", "index", arrays, params, fingerprint(as_atoms(rows)))
    with pytest.raises(store.StoreError, match=r"`delta` must be >= 0\.000732"):
        LshIndex.load(tmp_path / "two", rows)
