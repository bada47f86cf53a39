"""Claim: no proof is false, no input kills, nothing hangs.

Protocol: attacks from a fresh seed (printed; `--seed` repeats it), in worker processes
whose death or silence of two minutes is a finding. *Problems*: random and hostile
atoms (scales 1e-323 to 1e300, duplicates, collinear, n = 1, d = 1, both precisions,
ten storages), every objective, method and oracle, judged in integers and rational
numbers, in mpmath where logarithms are needed: f(weights) <= value, lower <= the
least exact value known (for quadratics the exact minimum), GAP_REACHED and ROUNDING
only where true, weights on the simplex, ids in range and distinct, errors clear and
for extreme numbers only. *Weights*: the same over caps, sums of at most 1, cones and ridges, on every
oracle; where atoms are few the minimum of a quadratic is that of all faces, in rational numbers.
*Many*: the same for targets of `minimize_many`, also over nearly
dependent atoms in mixed units and far from the origin, with every status judged, and for the
compiled solve of a small `minimize`. *Bounds*: every finite bound of every oracle against the
exact best score; scores, ids and rows, too. *Shared*: eight threads on one oracle.
*Designs*: proved efficiencies of designs over hostile candidates, against other designs in 400
digits, and bounds of forms. *Forged*: saved files damaged or forged with right checksums,
loaded and used. *Mixtures*: certificates over the continuum against the function they bound,
with 60 digits; fits against finer ones; gaps of likelihood matrices in extended precision.
*Stale*: one entry of the atoms changed between a save and its use, at every door; files that
shrink after they were opened. *Doors*: integers near and beyond 2^53 in every storage, solved
exactly or refused; forged .h5 files. *Promises*: indexes with a promise of tau, half of them
with the least delta, asked for planted atoms: misses that are less likely than 1e-9.

Threshold: 100,000 problems with at least 40 in every cell of objective x method x
oracle x dtype, 20,000 problems over other weights, 20,000 targets,
1,000,000 bounds, 2,000 shared runs, 5,000 designs, 10,000
files, 5,000 certificates of mixtures, 5,000 changed atoms, 10,000 doors, 500,000 promises:
0 violations, 0 deaths, 0 hangs.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rig import Claim

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fuzz import cells, hostile, supervise


class Attack(NamedTuple):
    """A module of tests/fuzz, what it counts, how many are wanted, and batches of a round; of a tiny one."""

    module: str
    counted: str
    wanted: int
    round: int
    tiny: int


ATTACKS = (
    Attack("problems", "problems", 100_000, 60, 2),
    Attack("weights", "problems over sets", 20_000, 60, 1),
    Attack("many", "targets", 20_000, 60, 4),
    Attack("bounds", "bounds", 1_000_000, 50, 2),
    Attack("shared", "shared runs", 2_000, 24, 1),
    Attack("designs", "designs", 5_000, 200, 6),
    Attack("forged", "files", 10_000, 40, 2),
    Attack("mixtures", "certificates", 5_000, 40, 2),
    Attack("stale", "changed atoms", 5_000, 100, 2),
    Attack("doors", "doors", 10_000, 20, 1),
    Attack("promises", "promised", 500_000, 60, 4),
)
CELL = 40
"""Least number of problems in every cell."""


def main(argv: Sequence[str] | None = None) -> int:
    """Attack, and report what was found."""
    claim = Claim(__file__, __doc__, argv, repeats=1)
    seed = secrets.randbits(32) if claim.options.seed is None else claim.options.seed
    claim.notes["seed"] = seed
    claim.say(f"seed {seed}")
    for attack in ATTACKS:
        if claim.wants(attack.module):
            found = run(claim, attack, seed)
            for text in found.violations[:20]:
                claim.say(text)
            claim.at_least(
                f"{attack.module}: {attack.counted}",
                found.counts[attack.counted],
                attack.wanted,
                full_size=True,
            )
            claim.at_most(f"{attack.module}: violations, deaths and hangs", len(found.violations), 0)
            if attack.module == "problems":
                least = min(found.counts[cell] for cell in cells.names(hostile.DTYPES))
                claim.at_least("problems: least count of a cell", least, CELL, full_size=True)
    return claim.finish()


def run(claim: Claim, attack: Attack, seed: int) -> supervise.Findings:
    """Attack in rounds until there are enough cases; one is enough for a tiny claim."""
    found, first = supervise.Findings(), 0
    step, wanted = (attack.tiny, 1) if claim.options.tiny else (attack.round, attack.wanted)
    while found.counts[attack.counted] < wanted:
        found.take(supervise.run(attack.module, seed, range(first, first + step)))
        first += step
        claim.say(f"{attack.module}: {found.counts[attack.counted]} of {attack.wanted}")
    counts = {name: count for name, count in found.counts.items() if "|" not in name}
    claim.row(attack=attack.module, batches=first, violations=len(found.violations), **counts)
    return found


if __name__ == "__main__":
    sys.exit(main())
