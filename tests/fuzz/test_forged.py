"""A few hundred forged files; `benchmarks/claim_sound.py` judges more."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.fuzz import forged


@pytest.mark.slow
def test_forged_files_are_refused_or_harmless() -> None:
    found = forged.run(300, seed=1)
    assert found.violations == []
    assert found.counts["files"] == 300
    assert found.counts["refused"] > 100
    assert found.counts["loaded"] > 30
