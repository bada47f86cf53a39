"""An audit finds every kind of wrong answer, and none in right ones."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wolfhound.cli.index import find_faults, measure_ratios, sample_queries
from wolfhound.core.contracts import Hits
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import RandomSubset

ROWS = np.random.default_rng(0).standard_normal((500, 7)) + 3.0
ATOMS = ArrayAtoms(ROWS)
ASKED, HERE = sample_queries(ATOMS, 30, seed=1)
TRUTH = Scan(ATOMS).query(ASKED)


def test_queries_are_spread_as_the_atoms_are() -> None:
    many, _ = sample_queries(ArrayAtoms(ROWS * np.arange(1.0, 8.0)), 2000, seed=2)
    np.testing.assert_allclose(many.std(axis=0), np.arange(1.0, 8.0) * ROWS.std(axis=0), rtol=0.15)
    assert np.array_equal(sample_queries(ATOMS, 30, seed=1)[0], ASKED)
    assert not np.array_equal(sample_queries(ATOMS, 30, seed=2)[0], ASKED)


def test_ratios_count_from_the_mean() -> None:
    np.testing.assert_allclose(HERE, ASKED @ ROWS.mean(axis=0))
    assert (measure_ratios(TRUTH, TRUTH, HERE) == 1.0).all()
    middle = replace(TRUTH, scores=HERE[:, None])
    np.testing.assert_allclose(measure_ratios(middle, TRUTH, HERE), 0.0, atol=1e-12)


def test_where_there_is_nothing_to_gain_the_ratio_is_1() -> None:
    atoms = ArrayAtoms(np.ones((4, 3)))
    asked, here = sample_queries(atoms, 5, seed=0)
    truth = Scan(atoms).query(asked)
    assert (measure_ratios(truth, truth, here) == 1.0).all()


@pytest.mark.parametrize("exact", [True, False])
def test_right_answers_have_no_faults(exact: bool) -> None:
    assert find_faults(ATOMS, ASKED, TRUTH, TRUTH, exact=exact) == []


def test_a_poor_answer_is_a_fault_of_exact_oracles_only() -> None:
    poor = RandomSubset(ATOMS, size=20).query(ASKED)
    assert find_faults(ATOMS, ASKED, poor, TRUTH, exact=False) == []
    assert find_faults(ATOMS, ASKED, poor, TRUTH, exact=True) == ["the answers are not those of Scan"]


def _with(row: int, **values: float) -> Hits:
    """The true answers with one number changed."""
    changed = {name: getattr(TRUTH, name).copy() for name in values}
    for name, value in values.items():
        changed[name][row] = value
    return replace(TRUTH, **changed)


@pytest.mark.parametrize(
    ("hits", "fault"),
    [
        (_with(3, scores=0.0), "a score is not the inner product of query and atom"),
        (_with(4, scores=1e6), "a score lies above the proved bound of Scan"),
        (_with(5, bounds=float(TRUTH.scores[5, 0]) - 1e-6), "the best atom lies above a bound"),
        (_with(6, ids=-1), "a query has no answer"),
        (_with(7, ids=500), "a query has no answer"),
        (
            _with(8, ids=(int(TRUTH.ids[8, 0]) + 1) % 500),
            "a score is not the inner product of query and atom",
        ),
    ],
)
def test_faults_are_found(hits: Hits, fault: str) -> None:
    assert fault in find_faults(ATOMS, ASKED, hits, TRUTH, exact=False)
