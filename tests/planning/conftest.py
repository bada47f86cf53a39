"""A place for a calibration that is not the user's."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a calibration is saved; nothing is there yet."""
    path = tmp_path / "cache" / "calibration.json"
    monkeypatch.setenv("WOLFHOUND_CALIBRATION", str(path))
    return path
