"""Claim: rows with missing values are worth keeping: a level of their own loses least of what a table says.

20,000 flights, ten standardised numbers and the carrier, of which the truth is known; then four of the
numbers are hidden in 2, 10 or 30 % of the rows each, independently of each other: *at random*; more often
where *another* column is large; more often where they are large *themselves*. `herd` picks 500 rows of what
is left to see, by each value of `missing`, and these are judged by what they truly are.

Protocol: MMD of the chosen rows, with nothing hidden, from all rows, with nothing hidden, in a Gaussian
kernel of the median distance; over that of random rows, median of five draws. Three seeds hide and pick;
medians. One thread.

Threshold: over all nine cases the worst of `Missing.LEVEL`, the default of `herd`, is the least of the
three, at most half of random rows; at random it is at most 1.5 times `Missing.DROP`, which needs complete
rows and is best there.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import data
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rig import Claim, held_threads
from scipy.spatial.distance import pdist
from scipy.special import expit

import wolfhound as wh
from wolfhound.herding import Gaussian, mmd

NUMBERS = 10
HIDDEN = (0, 2, 4, 6)
RATES = (0.02, 0.1, 0.3)
WAYS = ("drop", "mean", "level")
SEEDS = 3


class Flights(NamedTuple):
    """What is true: numbers (n, 10), carriers (n,), and both as one array."""

    numbers: NDArray[np.float64]
    carrier: NDArray[np.str_]
    rows: NDArray[np.float64]


HIDES: dict[str, Callable[[NDArray[np.float64], int], NDArray[np.float64]]] = {
    "at random": lambda numbers, column: np.zeros(len(numbers)),
    "by another": lambda numbers, column: numbers[:, (column + 1) % NUMBERS],
    "by itself": lambda numbers, column: numbers[:, column],
}
"""What makes a value likelier to be missing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=SEEDS)
    flights = load(tiny=claim.options.tiny)
    m = 50 if claim.options.tiny else 500
    ratios: dict[str, dict[str, float]] = {}
    with held_threads(claim.options.threads):
        judge = make_judge(flights, m)
        for name in HIDES:
            for rate in RATES:
                problem = f"{name}, {rate:.0%}"
                ratios[problem] = compare(claim, problem, judge, hide(flights, name, rate), m)
    worst = {way: max(each[way] for each in ratios.values()) for way in WAYS}
    for way in WAYS:
        claim.row(problem="worst of all", way=way, of_random=worst[way])
    claim.holds("every way picks rows in every case", all(math.isfinite(each) for each in worst.values()))
    least = min(worst.values())
    claim.at_most("worst of level / least of the worst", worst["level"] / least, 1.0, full_size=True)
    claim.at_most("worst of level, of random rows", worst["level"], 0.5, full_size=True)
    plain = [each["level"] / each["drop"] for name, each in ratios.items() if name.startswith("at random")]
    claim.at_most("at random: level / drop", max(plain), 1.5, full_size=True)
    return claim.finish()


def load(*, tiny: bool) -> Flights:
    """Draw the flights; a tiny run makes some up."""
    rng = np.random.default_rng(0)
    if tiny:
        numbers, places = rng.standard_normal((1_000, NUMBERS)), rng.integers(0, 4, 1_000)
    else:
        all_flights = data.load("flights")
        some = all_flights[rng.choice(len(all_flights), 20_000, replace=False)].astype(np.float64)
        numbers, places = some[:, :NUMBERS], some[:, NUMBERS : NUMBERS + 16].argmax(axis=1)
    one_hot = np.eye(16)[places]
    return Flights(numbers, np.array([f"c{place}" for place in places]), np.hstack([numbers, one_hot]))


def make_judge(flights: Flights, m: int) -> Callable[[NDArray[np.int64]], float]:
    """Return how far chosen rows are from all, over how far random rows are."""
    rng = np.random.default_rng(1)
    kernel = Gaussian(float(np.median(pdist(flights.rows[:1_000]))))

    def distance(ids: NDArray[np.int64]) -> float:
        return mmd(flights.rows[ids], flights.rows, kernel)

    draws = [rng.choice(len(flights.rows), m, replace=False) for _ in range(5)]
    random = statistics.median(distance(ids) for ids in draws)
    return lambda ids: distance(ids) / random


def hide(flights: Flights, name: str, rate: float) -> Callable[[int], pd.DataFrame]:
    """Return the table that is left to see, by seed."""

    def make(seed: int) -> pd.DataFrame:
        rng, seen = np.random.default_rng([seed, 2]), flights.numbers.copy()
        for column in HIDDEN:
            chance = expit(2.0 * HIDES[name](flights.numbers, column))
            seen[rng.random(len(seen)) < chance * rate / chance.mean(), column] = np.nan
        return pd.DataFrame(seen, columns=[f"x{i}" for i in range(NUMBERS)]).assign(carrier=flights.carrier)

    return make


def compare(
    claim: Claim,
    problem: str,
    judge: Callable[[NDArray[np.int64]], float],
    make: Callable[[int], pd.DataFrame],
    m: int,
) -> dict[str, float]:
    """Pick by each way; return how far the rows are, over random ones."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    complete = 0.0
    for seed in range(claim.options.repeats):
        table = make(seed)
        complete = float((~table.isna().any(axis=1)).mean())
        for way in WAYS:
            found[way].append(judge(wh.herd(table, m, missing=way, seed=seed, evaluate=False).ids))
    for way in WAYS:
        claim.row(problem=problem, way=way, complete=complete, of_random=statistics.median(found[way]))
    return {way: statistics.median(values) for way, values in found.items()}


if __name__ == "__main__":
    sys.exit(main())
