"""The time that a comparison still takes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from wolfhound.cli._forecast import Forecast
from wolfhound.policy.feed.compare import Bout


def test_nothing_is_said_before_anything_is_known() -> None:
    forecast = Forecast(["a", "b"], 2)
    assert forecast.left(Bout("a", 0, 0, 4), 0.0) is None
    assert forecast.left(Bout("a", 0, 0, 4, 0.01), 1.0) is None


def test_policies_to_come_take_what_the_others_take() -> None:
    forecast = Forecast(["a", "b"], 2)
    forecast.left(Bout("a", 0, 0, 4), 0.0)
    assert forecast.left(Bout("a", 0, 0, 4, 0.5), 5.0) == pytest.approx(4 * 10.0 - 5.0)


def test_what_a_policy_took_counts_for_its_other_seeds() -> None:
    forecast = Forecast(["a", "b"], 2)
    forecast.left(Bout("a", 0, 0, 4), 0.0)
    forecast.left(Bout("b", 0, 1, 4), 10.0)  # a took 10
    assert forecast.left(Bout("b", 0, 1, 4, 0.5), 11.0) == pytest.approx(1.0 + 10.0 + 2.0)
    forecast.left(Bout("a", 1, 2, 4), 12.0)  # b took 2
    assert forecast.left(Bout("b", 1, 3, 4), 22.0) == pytest.approx(2.0)
    assert forecast.left(Bout("b", 1, 3, 4, 1.0), 30.0) == 0.0
