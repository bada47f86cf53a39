"""Shrink estimates: late flights by carrier from a small sample, and insurance claims.

A sample says little of a carrier that has three flights in it. The mixing distribution of all
carriers' rates, fitted by maximum likelihood, says how much; the whole year judges.
"""

# SPDX-License-Identifier: Apache-2.0
import numpy as np

from wolfhound import Binomial, NormalScales, Poisson, npmle

# nycflights13 (CC0): 600 arrivals of 2013 drawn at random, those of them more than 30 minutes late,
# and the share of late ones in the whole year.
FLIGHTS = {
    "9E": (23, 4, 0.1792),
    "AA": (62, 4, 0.1198),
    "AS": (1, 1, 0.0874),
    "B6": (104, 22, 0.1743),
    "DL": (91, 13, 0.1161),
    "EV": (81, 14, 0.2283),
    "F9": (1, 0, 0.2511),
    "FL": (13, 3, 0.2094),
    "MQ": (45, 10, 0.1772),
    "UA": (101, 21, 0.1363),
    "US": (34, 5, 0.1033),
    "VX": (13, 3, 0.1202),
    "WN": (28, 9, 0.1599),
    "YV": (3, 1, 0.2316),
}

# Simar (1976): how many of 9,461 insurance policies had 0, 1, 2, ... claims in a year.
CLAIMS = [7840, 1317, 239, 42, 14, 4, 4, 1]


def main() -> None:
    flights, late, year = np.array(list(FLIGHTS.values())).T
    fit = npmle(late, Binomial(flights))
    print(fit)
    shrunken = fit.posterior_mean()
    for carrier, n, own, better, truth in zip(FLIGHTS, flights, late / flights, shrunken, year, strict=True):
        print(
            f"  {carrier}  {n:4.0f} flights  late {own:6.1%}  shrunken {better:6.1%}  whole year {truth:6.1%}"
        )
    for name, guess in (("as they are", late / flights), ("shrunken", shrunken)):
        print(f"root mean square error against the year, {name}: {np.sqrt(np.mean((guess - year) ** 2)):.3f}")

    claims = npmle(range(len(CLAIMS)), Poisson(), weights=CLAIMS)
    print(claims)
    expected = claims.posterior_mean()
    print("claims expected next year after 0, 1, 2, ...:", ", ".join(f"{each:.2f}" for each in expected))

    # 2,000 effects of which most are exactly 0: a null for signs, a smooth prior for intervals.
    rng = np.random.default_rng(0)
    truth, errors = rng.normal(0.5, 1.5, 2000) * (rng.random(2000) < 0.2), rng.uniform(0.3, 2.0, 2000)
    genes = npmle(truth + errors * rng.standard_normal(2000), NormalScales(errors), null=0.0)
    sure = genes.lfsr() < 0.05
    wrong = np.sign(genes.posterior_mean()[sure]) != np.sign(truth[sure])
    low, high = genes.posterior_interval(level=0.9).T
    print(f"{sure.sum()} of 2,000 signs are sure, {wrong.sum()} of them wrong")
    print(f"intervals of 90 % cover {np.mean((low <= truth) & (truth <= high)):.0%}")


if __name__ == "__main__":
    main()
