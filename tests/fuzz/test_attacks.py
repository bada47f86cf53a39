"""Small attacks from a fixed and from a fresh seed: what `benchmarks/claim_sound.py` does at full size.

The seed is in the message of a failure; WOLFHOUND_FUZZ_SEED repeats it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import secrets

import pytest

from tests.fuzz import supervise

SEED = int(os.environ.get("WOLFHOUND_FUZZ_SEED", secrets.randbits(32)))
FIRST = 2 * (SEED % 6)
"""Batch to begin with: objectives take turns over twelve, precisions over two."""


ATTACKS = [
    ("problems", 6, "problems", 300),
    ("weights", 3, "problems over sets", 150),
    ("many", 12, "targets", 100),
    ("bounds", 8, "bounds", 2000),
    ("shared", 2, "shared runs", 150),
    ("designs", 40, "designs", 30),
    ("mixtures", 6, "certificates", 30),
    ("stale", 14, "changed atoms", 100),
    ("doors", 2, "doors", 200),
    ("promises", 12, "promised", 5000),
]
"""Modules, batches, and what is counted at least so often."""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "batches", "counted"), [attack[:3] for attack in ATTACKS])
def test_a_fixed_seed_finds_nothing(module: str, batches: int, counted: str) -> None:
    found = supervise.run(module, 27, range(1 + batches // 8), workers=1)
    assert found.violations == []
    assert found.counts[counted] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("module", "batches", "counted", "least"), ATTACKS)
def test_nothing_is_found(module: str, batches: int, counted: str, least: int) -> None:
    found = supervise.run(module, SEED, range(FIRST, FIRST + batches), workers=1)
    assert found.violations == [], f"seed {SEED}"
    assert found.counts[counted] >= least
