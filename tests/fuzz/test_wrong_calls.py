"""A wrong use raises at once, in one line, and names the argument."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fuzz import wrong_calls, wrong_calls_designs, wrong_calls_herding, wrong_calls_many
from tests.fuzz.wrong_calls import Wrong

TABLES = (wrong_calls.CALLS, wrong_calls_herding.CALLS, wrong_calls_many.CALLS, wrong_calls_designs.CALLS)


@pytest.mark.parametrize(
    "wrong", [wrong for table in TABLES for wrong in table], ids=lambda wrong: wrong.name
)
def test_a_wrong_use_is_named(wrong: Wrong) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong.call()
    said = str(raised.value)
    assert "\n" not in said
    assert [word for word in wrong.words if word not in said] == [], said


@pytest.mark.parametrize(
    ("table", "least"),
    list(zip(TABLES, (100, 100, 100, 50), strict=True)),
    ids=["engine", "herding and policies", "many targets", "designs"],
)
def test_the_table_is_large_and_names_each_use_once(table: list[Wrong], least: int) -> None:
    assert len(table) >= least
    assert len({wrong.name for wrong in table}) == len(table)
