"""Settings of the whole suite: deterministic, and nothing on the screen."""

# SPDX-License-Identifier: Apache-2.0
import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("wolfhound", deadline=None, derandomize=True, database=None)
settings.load_profile("wolfhound")
