"""Every oracle, objective, method and kernel that must keep its protocol's promises: one line each.

`test_tables.py` runs the kits over them. Indexes and policy rules have tables of their own in
the package, `INDEXES` and `RULES`, which their tests read.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from tests.conformance.method import problems
from tests.conformance.oracle import Make, See
from tests.methods.shares import ANY
from tests.methods.test_tiers import On
from tests.objectives.cases import CASES as OBJECTIVES
from tests.oracles.degraded import EveryOther
from tests.oracles.edits import build_edited
from wolfhound.core.contracts import Atoms, Method, Oracle
from wolfhound.data.atoms import ArrayAtoms
from wolfhound.herding.kernels import KERNELS as CLASSES
from wolfhound.herding.kernels import Kernel
from wolfhound.methods.directions import Away, BlendedPairwise, Pairwise, Vanilla
from wolfhound.methods.frank_wolfe import FrankWolfe
from wolfhound.methods.fully_corrective import FullyCorrective
from wolfhound.methods.steps import Adaptive, Clipped, LineSearch, OpenLoop, ShortStep
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.forms import FormScan, pair_rows
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.sharded import Sharded
from wolfhound.oracles.subset import RandomSubset
from wolfhound.oracles.wrappers import Audited, Tiered
from wolfhound.paper.adaptive import QuantizedQueries
from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe

__all__ = ["KERNELS", "METHODS", "OBJECTIVES", "ORACLES", "OracleLine"]


class OracleLine(NamedTuple):
    """How to make an oracle, whether it promises the best atom, and how it sees the rows that it is given."""

    make: Make
    exact: bool = False
    see: See = np.asarray


class MethodLine(NamedTuple):
    """A method, the gap that it must reach, relative to a problem's scale, in how many states."""

    method: Method
    gap: float
    steps: int = 3000
    monotone: bool = True


_THREADS = ThreadPoolExecutor(4, thread_name_prefix="shards")


def _shard(atoms: Atoms, make: Make = Scan, *, parts: int = 3, width: int | None = None) -> Oracle:
    """An oracle over contiguous parts of the atoms, as many as there are atoms for."""
    n = atoms.shape[0]
    ends = sorted({n * i // parts for i in range(parts + 1)})
    shards = [make(ArrayAtoms(atoms.take(np.arange(a, b)))) for a, b in itertools.pairwise(ends)]
    return Sharded.over(shards, _THREADS, width=width)


ORACLES = {
    "Scan": OracleLine(Scan, exact=True),
    "Scan, screened": OracleLine(lambda atoms: Scan(atoms, screen=True), exact=True),
    "Scan, not screened": OracleLine(lambda atoms: Scan(atoms, screen=False), exact=True),
    "FormScan": OracleLine(FormScan, exact=True, see=pair_rows),
    "Tiered over forms": OracleLine(lambda atoms: Tiered(FormScan(atoms), cache=5), see=pair_rows),
    "Int8FileScan": OracleLine(Int8FileScan.build, exact=True),
    "ClusterIndex, edited": OracleLine(lambda atoms: build_edited(ClusterIndex, atoms)),
    "RandomSubset": OracleLine(RandomSubset),
    "RandomSubset of 1": OracleLine(lambda atoms: RandomSubset(atoms, size=1)),
    "RandomSubset of 7": OracleLine(lambda atoms: RandomSubset(atoms, size=7)),
    "RandomSubset of all": OracleLine(lambda atoms: RandomSubset(atoms, size=60)),
    "Tiered, no cache": OracleLine(lambda atoms: Tiered(EveryOther(atoms), cache=0)),
    "Tiered, cache of 1": OracleLine(lambda atoms: Tiered(EveryOther(atoms), cache=1)),
    "Tiered, cache of 5": OracleLine(lambda atoms: Tiered(EveryOther(atoms), cache=5)),
    "Tiered": OracleLine(lambda atoms: Tiered(EveryOther(atoms))),
    "Tiered over exact": OracleLine(lambda atoms: Tiered(Scan(atoms), cache=0, sample=0), exact=True),
    "Audited always": OracleLine(lambda atoms: Audited(EveryOther(atoms), every=1)),
    "Audited twice": OracleLine(lambda atoms: Audited(EveryOther(atoms), every=2)),
    "Audited subset": OracleLine(lambda atoms: Audited(RandomSubset(atoms, size=5), every=2)),
    "Audited rarely": OracleLine(lambda atoms: Audited(EveryOther(atoms), every=100)),
    "Audited tiers": OracleLine(lambda atoms: Audited(Tiered(EveryOther(atoms)), every=2)),
    "Tiers of audits": OracleLine(lambda atoms: Tiered(Audited(EveryOther(atoms), every=2))),
    "QuantizedQueries, fine": OracleLine(lambda atoms: QuantizedQueries(Scan(atoms), side=2.0**-50)),
    "QuantizedQueries, small": OracleLine(lambda atoms: QuantizedQueries(Scan(atoms), side=1e-3)),
    "QuantizedQueries": OracleLine(lambda atoms: QuantizedQueries(Scan(atoms), side=0.3)),
    "QuantizedQueries, coarse": OracleLine(lambda atoms: QuantizedQueries(Scan(atoms), side=1.9)),
    "QuantizedQueries of an index": OracleLine(lambda atoms: QuantizedQueries(EveryOther(atoms), side=0.1)),
    "Tiers of quantized": OracleLine(lambda atoms: Tiered(QuantizedQueries(EveryOther(atoms), side=0.1))),
    "Quantized tiers": OracleLine(lambda atoms: QuantizedQueries(Tiered(EveryOther(atoms)), side=0.1)),
    "Sharded": OracleLine(_shard, exact=True),
    "Sharded, one part": OracleLine(lambda atoms: _shard(atoms, parts=1), exact=True),
    "Sharded int8": OracleLine(lambda atoms: _shard(atoms, Int8Scan.build), exact=True),
    "Sharded subsets": OracleLine(lambda atoms: _shard(atoms, RandomSubset)),
    "Sharded tiers": OracleLine(lambda atoms: _shard(atoms, lambda part: Tiered(EveryOther(part)), width=2)),
    "Tiers of shards": OracleLine(lambda atoms: Tiered(EveryOther(atoms), _shard(atoms))),
}

_DIRECTIONS = (Away(), Pairwise(), BlendedPairwise())
_STEEP = max(problem.objective.smoothness for problem in problems())

METHODS = {
    "FullyCorrective": MethodLine(FullyCorrective(), gap=1e-8, steps=60),
    "open loop": MethodLine(FrankWolfe(Vanilla(), OpenLoop()), gap=0.02, monotone=False),
    "sublinear": MethodLine(SublinearFrankWolfe(ratio=1.0), 0.03, 2000, monotone=False),
    "sublinear, clipped": MethodLine(
        SublinearFrankWolfe(ratio=0.8, schedule=Clipped(0.8)), 0.03, 2000, monotone=False
    ),
    "sublinear, one tau": MethodLine(SublinearFrankWolfe(ratio=0.9, tau=ANY), 0.03, 2000, monotone=False),
    "sublinear, index": MethodLine(
        On(SublinearFrankWolfe(ratio=0.7), EveryOther), 0.03, 2000, monotone=False
    ),
    **{
        f"{type(direction).__name__}, {type(step).__name__}{', lazy' if lazy else ''}": MethodLine(
            FrankWolfe(direction, step, lazy=lazy), gap
        )
        for direction, gap in [(Vanilla(), 2e-3), *((each, 1e-6) for each in _DIRECTIONS)]
        for step in (LineSearch(), Adaptive())
        for lazy in (False, True)
    },
    **{
        f"{type(direction).__name__}, short": MethodLine(FrankWolfe(direction, ShortStep(_STEEP)), gap=0.1)
        for direction in (Vanilla(), *_DIRECTIONS)
    },
}

KERNELS: dict[str, Kernel] = {name: kind() for name, kind in CLASSES.items()}
