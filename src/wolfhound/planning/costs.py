"""What every oracle costs: seconds, bytes, and the ratio that is typical of it.

A model is a function of a `Task`; to let `choose_oracle` weigh another oracle,
write one more and add it to `MODELS`. Formulas count bytes and products; what
one of them takes is a `Calibration`'s.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from wolfhound.atoms import ConcatAtoms, FileAtoms, MappedAtoms
from wolfhound.core import Atoms, Oracle
from wolfhound.machine import Calibration, Speed
from wolfhound.oracles.clusters import PER_CLUSTER, ClusterIndex
from wolfhound.oracles.faiss_index import FaissIndex, IvfPq, Pq
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.oracles.scan import SCREEN_MEMORY, Scan
from wolfhound.oracles.subset import LEAST, RandomSubset

Make: TypeAlias = Callable[[Atoms, int], Oracle]

# Mean gap ratios late in Frank-Wolfe runs on word vectors, images and mixtures, the
# lowest of them: (target inside the hull, outside). benchmarks/claim_ratio.py measures them.
TYPICAL_PQ = (0.98, 0.95)
TYPICAL_IVF_PQ = (0.95, 0.85)
_LOSS_OF_CLUSTERS = (0.2, 0.35)
"""A budget of ``f sqrt(n)`` atoms reaches ``1 - loss / sqrt(f)``."""
_LOSS_OF_SUBSET = 0.025
"""Outside, a share p of the atoms reaches ``1 - loss / p``; inside, ``n^(c^2)`` reach c."""

# As above, for a ratio of 0.9; benchmarks/claim_paper_tables.py measures them.
_HASHED = ((32.0, 0.4), (2.0, 0.75))
"""A budget of ``a n^e`` atoms (inside, outside) reaches 0.9; four times as many halve what is lost."""
_PER_BUCKET = 96
"""Atoms of a bucket of `LshIndex`."""
_PROMISE = 2.0
"""Bytes of codes that are read as fast as a bucket is passed over."""
_AXES = 32
"""Principal axes that it looks at."""

_RESCORED = {"Int8Scan": 16, "ClusterIndex": 24, "LshIndex": 24, "Pq": Pq().rerank, "IvfPq": IvfPq().rerank}
"""Rows that a query reads one by one."""

_PROBED = 0.05
"""Share of the codes that `IvfPq` reads."""

_ROUNDS = 7
"""k-means assigns its sample so often: six iterations, then once for the spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the models are told.

    Attributes
    ----------
    n, d : int
    row : int
        Bytes of a row.
    in_files : bool
        Whether rows are read from files.
    ratio : float
        The gap ratio that is wanted.
    interior : bool
        Whether the queries come from inside the hull.
    batch : int
        Queries that are asked together.
    memory : float
        Bytes that an oracle may take; inf: any.
    speeds : Calibration
    """

    n: int
    d: int
    row: int
    in_files: bool
    ratio: float
    interior: bool
    batch: int
    memory: float
    speeds: Calibration

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.n * self.row

    def sweeps(self, times: int) -> float:
        """Seconds to read all rows from files so often; 0 in memory."""
        return times * self.nbytes * self.speeds.file if self.in_files else 0.0

    def fetched(self, name: str) -> float:
        """Seconds to read the rows that are scored again; in memory they are in `call`."""
        return _RESCORED[name] * self.speeds.fetch if self.in_files else 0.0

    def rows(self, speed: Speed, nbytes: float) -> float:
        """Seconds per query of a pass over rows, which files can slow down."""
        slow = max(0.0, self.speeds.file - speed.first) if self.in_files else 0.0
        return speed.seconds(nbytes, self.batch) + slow * nbytes / self.batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an oracle is expected to cost and to give.

    Attributes
    ----------
    name, recipe : str
        What it is called, and how it is made by hand.
    build, query : float
        Seconds to build, and per query.
    scored : float
        Atoms that a query scores, as rows or codes; centres and hashes count too.
    nbytes : float
        Memory beside the atoms.
    ratio : float
        The gap ratio that is typical, 1 if it is exact.
    proves, savable : bool
    make : Make
    """

    name: str
    recipe: str
    build: float
    query: float
    scored: float
    nbytes: float
    ratio: float
    proves: bool
    savable: bool
    make: Make


def in_files(atoms: Atoms) -> bool:
    """Whether rows are read from files, all or some."""
    if isinstance(atoms, MappedAtoms):
        return in_files(atoms.atoms)
    if isinstance(atoms, ConcatAtoms):
        return any(map(in_files, atoms.parts))
    return isinstance(atoms, FileAtoms)


# ---------------------------------------------------------------- what is read and multiplied


def code_bytes(n: float, d: int) -> float:
    """Bytes of n int8 codes with their scales and errors."""
    return n * (d + d % 2 + 8)


def probe_bytes(n: int, d: int, budget: int) -> float:
    """Bytes of codes that `ClusterIndex` reads for a query: of centres and of atoms."""
    return code_bytes(clusters_of(n) + budget, d)


def pq_bytes(n: float, d: int) -> float:
    """Bytes of n codes of `Pq`: 4 bits for two columns."""
    return n * (d + d % 2) / 4


def clusters_of(n: int) -> int:
    """Clusters of `ClusterIndex`."""
    return min(n, max(1, round(2.0 * math.sqrt(n))))


def kmeans_products(n: int, d: int, *, centres: int, sample: int) -> float:
    """Products to train centres on a sample, and to assign all rows."""
    return float(centres) * d * (_ROUNDS * min(n, sample) + n)


def hash_codes(n: int) -> int:
    """Values of each of the two codes of `LshIndex`, two for every direction."""
    return 2 * max(1, round(math.sqrt(n / _PER_BUCKET) / 2.0))


def hash_products(n: int, d: int) -> float:
    """Products to hash all rows: two blocks of directions."""
    return float(hash_codes(n)) * d * n


def cluster_products(n: int, d: int) -> float:
    """Products to build a `ClusterIndex`."""
    centres = clusters_of(n)
    return kmeans_products(n, d, centres=centres, sample=PER_CLUSTER * centres)


# ---------------------------------------------------------------- models


def scan(task: Task) -> Estimate:
    """Every row, for every query."""
    screen = 8 * task.n <= min(task.memory, SCREEN_MEMORY)
    return Estimate(
        name="Scan",
        recipe="Scan(atoms)" if screen else "Scan(atoms, screen=False)",
        build=0.0,
        query=task.rows(task.speeds.scan, task.nbytes),
        scored=task.n,
        nbytes=8.0 * task.n if screen else 0.0,
        ratio=1.0,
        proves=True,
        savable=False,
        make=partial(_scan, screen=screen),
    )


def int8(task: Task) -> Estimate:
    """Every code, for every query."""
    codes = code_bytes(task.n, task.d)
    return Estimate(
        name="Int8Scan",
        recipe="Int8Scan.build(atoms)",
        build=max(task.speeds.encode * task.nbytes, task.sweeps(1)),
        query=task.speeds.int8.seconds(codes, task.batch) + task.fetched("Int8Scan"),
        scored=task.n,
        nbytes=codes,
        ratio=1.0,
        proves=True,
        savable=True,
        make=_int8,
    )


def clusters(task: Task) -> Estimate:
    """The codes of `budget` atoms, and those of all centres."""
    n, d, speeds = task.n, task.d, task.speeds
    root, loss = math.sqrt(n), _LOSS_OF_CLUSTERS[0 if task.interior else 1]
    wanted = (loss / (1.0 - task.ratio)) ** 2 * root if task.ratio < 1.0 else 0.0
    # Beyond a quarter of the atoms a pass is the better way.
    budget = math.ceil(max(8.0 * root, min(wanted, n / 4)))
    budget, centres = min(n, budget), clusters_of(n)
    return Estimate(
        name="ClusterIndex",
        recipe=f"ClusterIndex.build(atoms, budget={budget})",
        build=speeds.kmeans * cluster_products(n, d) + speeds.encode * task.nbytes + task.sweeps(2),
        query=speeds.probe.seconds(probe_bytes(n, d, budget), task.batch) + task.fetched("ClusterIndex"),
        scored=budget + centres,
        nbytes=code_bytes(n, d) + 8.0 * n + centres * (4.0 * d) + code_bytes(centres, d),
        ratio=max(0.0, 1.0 - loss / math.sqrt(budget / root)),
        proves=False,
        savable=True,
        make=partial(_clusters, budget=budget),
    )


def lsh(task: Task) -> Estimate:
    """The codes of `budget` atoms, after the promises of all buckets."""
    n, d, speeds = task.n, task.d, task.speeds
    factor, exponent = _HASHED[0 if task.interior else 1]
    known, codes = factor * math.pow(n, exponent), hash_codes(n)
    wanted = (0.1 / (1.0 - task.ratio)) ** 2 * known if task.ratio < 1.0 else known
    budget = min(n, math.ceil(max(_PER_BUCKET, min(wanted, n / 4))))
    read = code_bytes(budget, d) + _PROMISE * codes**2
    return Estimate(
        name="LshIndex",
        recipe=f"LshIndex.build(atoms, axes={_AXES}, budget={budget})",
        build=speeds.kmeans * hash_products(n, d) + speeds.encode * task.nbytes + task.sweeps(2),
        query=speeds.probe.seconds(read, task.batch) + task.fetched("LshIndex"),
        scored=budget + codes,
        nbytes=code_bytes(n, d) + 8.0 * (n + codes**2) + codes * (4.0 * d),
        ratio=max(0.0, 1.0 - 0.1 * math.sqrt(known / budget)),
        proves=False,
        savable=True,
        make=partial(_lsh, budget=budget),
    )


def subset(task: Task) -> Estimate:
    """Some random rows, for every query."""
    size = min(task.n, _sample_of(task))
    return Estimate(
        name="RandomSubset",
        recipe=f"RandomSubset(atoms, size={size})",
        build=0.0,
        query=task.rows(task.speeds.subset, size * task.row),
        scored=size,
        nbytes=0.0,
        ratio=_sample_ratio(task, size),
        proves=False,
        savable=False,
        make=partial(_subset, size=size),
    )


def _sample_of(task: Task) -> int:
    """Atoms that typically reach the ratio; the default size if none but all do."""
    if task.ratio == 1.0:
        return max(LEAST, task.n // 100)
    if task.interior:
        return math.ceil(math.pow(task.n, task.ratio**2))
    return math.ceil(task.n * min(1.0, _LOSS_OF_SUBSET / (1.0 - task.ratio)))


def _sample_ratio(task: Task, size: int) -> float:
    if task.interior:
        ratio = math.sqrt(math.log(size) / math.log(task.n)) if task.n > 1 else 1.0
    else:
        ratio = max(0.0, 1.0 - _LOSS_OF_SUBSET * task.n / size)
    return ratio


def pq(task: Task) -> Estimate:
    """Every code of 4 bits for two columns, for every query."""
    codes = pq_bytes(task.n, task.d)
    return Estimate(
        name="FaissIndex Pq",
        recipe="FaissIndex.build(atoms, kind=Pq())",
        build=_quantised(task) + task.sweeps(2),
        query=task.speeds.pq.seconds(codes, task.batch) + task.fetched("Pq"),
        scored=task.n,
        nbytes=codes,
        ratio=TYPICAL_PQ[0 if task.interior else 1],
        proves=False,
        savable=True,
        make=partial(_faiss, kind=Pq()),
    )


def ivf_pq(task: Task) -> Estimate:
    """The codes of 5 % of the lists, after a pass over the centres of all."""
    n, d, speeds = task.n, task.d, task.speeds
    lists = min(n, round(4.0 * math.sqrt(n)))
    products = kmeans_products(n, d, centres=lists, sample=64 * lists)
    centres = Speed(call=0.0, query=0.0, first=speeds.scan.first, more=speeds.scan.more)
    codes = speeds.pq.seconds(_PROBED * pq_bytes(n, d), task.batch)
    return Estimate(
        name="FaissIndex IvfPq",
        recipe="FaissIndex.build(atoms, kind=IvfPq())",
        build=speeds.kmeans * products + _quantised(task) + task.sweeps(3),
        query=codes + centres.seconds(4.0 * lists * d, task.batch) + task.fetched("IvfPq"),
        scored=_PROBED * n + lists,
        nbytes=pq_bytes(n, d) + 8.0 * n + 4.0 * lists * d,
        ratio=TYPICAL_IVF_PQ[0 if task.interior else 1],
        proves=False,
        savable=True,
        make=partial(_faiss, kind=IvfPq()),
    )


def _quantised(task: Task) -> float:
    """Seconds to learn and write codes of faiss."""
    learnt = min(1.0, task.n / 8192)
    return task.speeds.train * task.d * learnt + task.speeds.quantise * task.nbytes


MODELS: tuple[Callable[[Task], Estimate], ...] = (scan, int8, clusters, lsh, subset, pq, ivf_pq)
"""In the order of preference where seconds are equal."""


# ---------------------------------------------------------------- making


def _scan(atoms: Atoms, seed: int, *, screen: bool) -> Oracle:
    return Scan(atoms, screen=screen)


def _int8(atoms: Atoms, seed: int) -> Oracle:
    return Int8Scan.build(atoms)


def _clusters(atoms: Atoms, seed: int, *, budget: int) -> Oracle:
    return ClusterIndex.build(atoms, budget=budget, seed=seed)


def _lsh(atoms: Atoms, seed: int, *, budget: int) -> Oracle:
    return LshIndex.build(atoms, axes=_AXES, budget=budget, seed=seed)


def _subset(atoms: Atoms, seed: int, *, size: int) -> Oracle:
    return RandomSubset(atoms, size=size, seed=seed)


def _faiss(atoms: Atoms, seed: int, *, kind: Pq | IvfPq) -> Oracle:
    return FaissIndex.build(atoms, kind=kind, seed=seed)
