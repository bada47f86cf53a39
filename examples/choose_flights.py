"""Choose 200 flights that stand for all, from a table as it comes: texts, numbers, missing values.

The same on the command line, for a table of your own:
`wolfhound herd flights.csv -m 200 --by carrier --standardize -o core.parquet`.
"""

# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd

from wolfhound import encode, herd


def make_table(n: int) -> pd.DataFrame:
    """A table of flights that never were."""
    rng = np.random.default_rng(0)
    carrier = rng.choice(["AA", "B6", "DL", "UA"], n, p=[0.2, 0.3, 0.3, 0.2])
    miles = rng.gamma(3.0, 350.0, n)
    late = rng.exponential(20.0, n) - 8.0 + 6.0 * (carrier == "B6")
    # cancelled
    late[rng.random(n) < 0.03] = np.nan
    return pd.DataFrame(
        {
            "carrier": carrier,
            "origin": rng.choice(["EWR", "JFK", "LGA"], n),
            "tail": [f"N{i}" for i in rng.integers(0, n, n)],
            "miles": miles,
            "minutes": 20.0 + miles / 8.0,
            "late": late,
        }
    )


def main() -> None:
    flights = make_table(5000)
    # What becomes of the table: missing values, columns coded and carried.
    print(encode(flights, missing="level"))

    result = herd(flights, 200, by="carrier", standardize=True)
    print(result)
    # the chosen rows, with their ids and weights
    core = result.frame
    print(core.head(3).to_string())

    for column in ("late", "miles"):
        there = core.dropna(subset=column)
        of_all, of_few = flights[column].mean(), np.average(there[column], weights=there["weight"])
        print(f"mean of {column}: {of_all:.2f} of all flights, {of_few:.2f} of 200")
    shares = core.groupby("origin")["weight"].sum().round(3).to_dict()
    print(
        "shares of origins:", shares, "of", flights["origin"].value_counts(normalize=True).round(3).to_dict()
    )
    # Flights without a value are rows like others; `missing="drop"` leaves them out, and says how many.
    share = core.loc[core["late"].isna(), "weight"].sum()
    print(f"{flights['late'].isna().mean():.3f} of all flights are cancelled, {share:.3f} of 200")
    few = herd(flights, 200, by="carrier", standardize=True, missing="drop")
    print(f"{few.table.dropped} rows are left out with missing='drop'")


if __name__ == "__main__":
    main()
