"""The tables of `conftest.py` that say what runs when."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.conftest import PLAIN, REST, TESTS


@pytest.mark.parametrize("entry", sorted(PLAIN | REST))
def test_what_the_tables_name_is_there(entry: str) -> None:
    path, _, name = entry.partition("::")
    place = TESTS / path
    assert place.exists()
    assert not name or f"\ndef {name}(" in place.read_text()
