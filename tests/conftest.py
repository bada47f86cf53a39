"""Settings of the whole suite: deterministic, and nothing on the screen."""

# SPDX-License-Identifier: Apache-2.0
import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")

# No clocks: on a busy machine examples are slow to draw, too.
settings.register_profile(
    "wolfhound", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("wolfhound")
