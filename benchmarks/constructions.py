"""What each correction of the paper's construction is worth, in atoms scored."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import lineage
import numpy as np
import scores
from reference import Matrix
from rig import Claim
from walks import Walk

WANTED = 0.9
SOME = 60
"""Queries whose scores with all atoms are computed."""
TABLES = 48
RAW = "paper: one D_x, shift, lift"


@dataclass(frozen=True, slots=True)
class Some:
    """Some queries, and their (m, n) scores with all atoms."""

    walk: Walk
    scores: Matrix

    @classmethod
    def of(cls, walk: Walk, atoms: Matrix) -> Some:
        """Take some queries of a walk."""
        some = walk.part(slice(None, None, max(1, len(walk.here) // SOME)))
        return cls(some, some.queries.astype(atoms.dtype) @ atoms.T)


def probing(probes: lineage.Probing, some: Some) -> float:
    """The same for one table of cross-polytope hashes after some lift."""
    n = len(probes.ids)
    budgets = np.unique(np.geomspace(16, n, 80).round().astype(np.int64))
    curve = probes.curve(some.walk, some.scores, budgets)
    return scores.needed(budgets.astype(np.float64), curve, WANTED)


def report(
    claim: Claim, name: str, atoms: Matrix, some: Mapping[str, Some], known: Mapping[str, Mapping[str, float]]
) -> None:
    """Add rows for all constructions between the paper's and ours; `known` were counted before."""
    lifts = {
        "each query by its own norm": lineage.paper(atoms, None),
        "and no shift": lineage.simple(atoms),
        "and no lift, centred": lineage.centred(atoms),
    }
    found = {kind: dict(mine) for kind, mine in known.items()}
    for label, lifted in lifts.items():
        probes = lineage.Probing(atoms, lifted)
        for kind in some:
            found[kind][label] = probing(probes, some[kind])
    for kind, mine in found.items():
        for label in (RAW, *lifts, *(each for each in mine if each not in (RAW, *lifts))):
            claim.row(
                table="construction", data=f"{name} {kind}", n=len(atoms), index=label, candidates=mine[label]
            )
    classic(claim, name, atoms, some)


def classic(claim: Claim, name: str, atoms: Matrix, some: Mapping[str, Some]) -> None:
    """Tables of gathered rows: of the lengths of keys the one with the fewest rows."""
    best: dict[str, tuple[float, int, int, lineage.Tables]] = {}
    for bits in lineage.bucket_bits(len(atoms)):
        keys = lineage.sign_keys(atoms.shape[1], hashes=bits, tables=TABLES, seed=bits)
        made = lineage.Tables(atoms, lineage.centred(atoms), keys)
        for kind, mine in some.items():
            enough = made.enough(mine.walk, mine.scores, WANTED)
            if enough is not None and enough[1] < best.get(kind, (math.inf,))[0]:
                best[kind] = enough[1], enough[0], bits, made
    for kind, (_, tables, bits, made) in best.items():
        walk = some[kind].walk
        begin = time.perf_counter()
        _, scored = made.query(walk.queries, walk.here, tables)
        claim.row(
            table="construction",
            data=f"{name} {kind}",
            n=len(atoms),
            index=f"{tables} classic tables of {bits} signs, gathered",
            candidates=float(scored.mean()),
            microseconds=1e6 * (time.perf_counter() - begin) / len(walk.here),
            megabytes=made.nbytes * tables / TABLES / 2**20,
        )
