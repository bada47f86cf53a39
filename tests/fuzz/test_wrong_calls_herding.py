"""A wrong use of herding or of policies raises at once, in one line, and names the argument."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fuzz.wrong_calls import Wrong
from tests.fuzz.wrong_calls_herding import CALLS


@pytest.mark.parametrize("wrong", CALLS, ids=lambda wrong: wrong.name)
def test_a_wrong_use_is_named(wrong: Wrong) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong.call()
    said = str(raised.value)
    assert "\n" not in said
    assert [word for word in wrong.words if word not in said] == [], said


def test_the_table_is_large_and_names_each_use_once() -> None:
    assert len(CALLS) >= 100
    assert len({wrong.name for wrong in CALLS}) == len(CALLS)
