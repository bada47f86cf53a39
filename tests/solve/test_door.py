"""The door of minimize: everything is checked once, tables become atoms, ids are mapped back."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wolfhound import SquaredDistance, design, herd, minimize, minimize_many
from wolfhound.core import validate
from wolfhound.core.contracts import State
from wolfhound.data import atoms as atoms_module
from wolfhound.data.atoms import find_rows, hear_rows, refuse_gaps, to_places, to_rows
from wolfhound.data.encoding import encode
from wolfhound.oracles import scan
from wolfhound.solve import minimize as minimize_module

ROWS = np.random.default_rng(0).standard_normal((50, 3))
F = SquaredDistance([0.4, 0.2, 0.9])


def table() -> pd.DataFrame:
    """Rows 0, 7, 14, ... have missing values."""
    frame = pd.DataFrame(ROWS, columns=list("abc"))
    frame.iloc[::7, 1] = np.nan
    return frame


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a check runs, by its name."""
    seen: Counter[str] = Counter()

    def count(name: str, check: Callable[..., Any], *homes: Any) -> None:
        def counted(*args: Any, **options: Any) -> Any:
            seen[name] += 1
            return check(*args, **options)

        for home in homes:
            monkeypatch.setattr(home, name, counted)

    count("as_atoms", atoms_module.as_atoms, atoms_module, scan, minimize_module)
    for name in ("ids", "vector", "number", "rng", "kind"):
        count(name, getattr(validate, name), validate)
    return seen


def test_checks_run_once(calls: Counter[str]) -> None:
    start = ([1, 2], [0.5, 0.5])
    minimize(F, ROWS, exclude=[3], start=start, names=[str(i) for i in range(50)], max_steps=9, seed=4)
    assert calls["as_atoms"] == 1
    assert calls["ids"] == 2  # exclude, start
    assert calls["vector"] == 1  # the weights of the start
    assert calls["number"] == 6  # rtol, atol, ridge, three limits
    assert calls["rng"] == 1
    assert calls["kind"] == 4  # objective, method, start, over


def test_checks_of_a_table_run_once(calls: Counter[str]) -> None:
    minimize(F, table(), exclude=[3])
    assert (calls["as_atoms"], calls["ids"], calls["number"], calls["kind"]) == (1, 1, 6, 3)
    calls.clear()
    minimize_many(ROWS[:3], table())
    assert calls["as_atoms"] == 1


def test_a_run_without_a_checkpoint_makes_no_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(minimize_module, "CheckpointWriter", lambda *given: made.append(given))
    assert minimize(F, ROWS).success
    assert made == []


def test_ids_go_to_places_and_back() -> None:
    found = find_rows(table())
    assert found is not None
    assert to_places(found, [1, 8], "start").tolist() == [0, 6]
    assert to_rows(found, np.array([0, 6])).tolist() == [1, 8]
    assert to_places(found, [0, 1], "exclude", strict=False).tolist() == [0]
    with pytest.raises(ValueError, match="`start` must be rows that are kept"):
        to_places(found, [0, 1], "start")
    with pytest.raises(ValueError, match="`out` must be None where rows of a table are left out"):
        refuse_gaps(found, "somewhere", "out")
    whole = encode(table().fillna(0.0))
    assert to_places(whole, [0, 1], "start") == [0, 1]
    assert to_rows(None, np.array([5])).tolist() == [5]
    assert hear_rows(whole, print) is print


def test_all_doors_name_the_rows_of_a_table() -> None:
    frame, kept = table(), np.delete(np.arange(50), np.arange(0, 50, 7))
    plain = frame.iloc[kept].to_numpy()
    np.testing.assert_array_equal(minimize(F, frame).ids, kept[minimize(F, plain).ids])
    many, expected = minimize_many(2.0 * ROWS[:4], frame).ids, minimize_many(2.0 * ROWS[:4], plain).ids
    np.testing.assert_array_equal(many, kept[expected])
    np.testing.assert_array_equal(herd(frame, 9, missing="drop").ids, kept[herd(plain, 9).ids])
    np.testing.assert_array_equal(design(frame).ids, kept[design(plain).ids])


def test_a_callback_hears_rows_of_the_table() -> None:
    states: list[State] = []
    result = minimize(F, table(), callback=states.append)
    assert not any((state.ids % 7 == 0).any() for state in states)
    assert set(result.ids.tolist()) == set(states[-1].ids.tolist())


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "0"])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`seed` must be an integer >= 0"):
        minimize(F, ROWS, seed=seed)
