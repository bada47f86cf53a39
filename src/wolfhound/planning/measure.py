"""Measure the oracles of `INDEXES` on this machine, and check what they answer.

Oracles are asked in turn, so that drift of the machine hits all alike and none
finds its data in the caches. The only file here that reads a clock.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import importlib.metadata
import math
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import ArrayAtoms, FileAtoms
from wolfhound.core import Oracle, Vector
from wolfhound.machine import Calibration, Origin, Speed, fit_line
from wolfhound.oracles.indexes import INDEXES, BuildTime, Calibrate, IndexKind, Model, Workload
from wolfhound.oracles.scan import Scan
from wolfhound.planning.audit import QuerySample, find_faults, is_best, sample_queries
from wolfhound.threads import available, get_threads, map_ordered
from wolfhound.validate import count, function

Say: TypeAlias = Callable[[float, str], None]
Single: TypeAlias = NDArray[np.float32]

BATCH = 64
"""Queries of a batch."""

_MUCH = 0.97  # a ratio for which an index that can be set up for one reads much

_FETCHED = 256
_TINY = 512
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """An oracle as it was measured.

    Attributes
    ----------
    name, title : str
    build : float
        Seconds.
    one, many : float
        Seconds per query, alone and in a batch.
    speed : float
        Bytes per second that a query alone reads.
    ratio : float
        Mean gap ratio of its answers.
    pays_from : float
        Queries, one at a time, from which on it costs less than a scan; inf: never.
    faults : tuple of str
        What is wrong with its answers.
    """

    name: str
    title: str
    build: float
    one: float
    many: float
    speed: float
    ratio: float
    pays_from: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What was measured, on how many atoms, and how long it took."""

    n: int
    d: int
    oracles: tuple[Measurement, ...]
    calibration: Calibration
    seconds: float

    @property
    def right(self) -> bool:
        """Whether all answers were right."""
        return not any(each.faults for each in self.oracles)


def measure(
    *, n: int = 400_000, d: int = 96, rounds: int = 13, seed: int = 0, say: Say = lambda share, text: None
) -> Benchmark:
    """Time and check the oracles on random atoms; well under a minute.

    Parameters
    ----------
    n, d
        How many atoms, of which dimension.
    rounds
        How often every oracle is asked; the lower quartile counts.
    seed
        Of the atoms and queries.
    say
        Told the share that is done, and what comes next.
    """
    begin = time.perf_counter()
    count(rounds, "rounds", low=1)
    count(seed, "seed")
    function(say, "say")
    say(0.0, "making atoms")
    table = _draw_mixture(count(n, "n", low=_TINY), count(d, "d", low=1), seed)
    kinds = [kind for kind in INDEXES.values() if kind.speeds is not None and kind.expected is not None]
    sample = sample_queries(ArrayAtoms(table), BATCH, seed=seed)
    say(0.05, "compiling")
    _ask([_build(kind, table[:_TINY]) for kind in kinds], sample.queries, 1)
    say(0.15, "building on a twentieth of the atoms")
    little = [_build(kind, table[: max(_TINY, n // 20)]) for kind in kinds]
    say(0.3, "building")
    usual = [_build(kind, table) for kind in kinds]
    much = [_set_up(each, _MUCH) if each.kind.takes_ratio else each for each in usual]
    say(0.7, "asking")
    times = _ask([*little, *usual, *much], sample.queries, rounds)
    say(0.9, "reading")
    calibration = _time_reads(table, -(-rounds // 3))
    say(0.95, "checking")
    for few, plain, many in zip(little, usual, much, strict=True):
        calibration = _calibrate(calibration, few, plain, many, times)
    found = _check(usual, times, sample)
    return Benchmark(n=n, d=d, oracles=found, calibration=calibration, seconds=time.perf_counter() - begin)


# ---------------------------------------------------------------- what is measured


class Subject(NamedTuple):
    """An oracle, the bytes that it reads for a query, and the seconds that it took to build."""

    kind: IndexKind
    work: Workload
    oracle: Oracle
    reads: float
    build: float


def _draw_mixture(n: int, d: int, seed: int) -> Single:
    """A mixture of normals: atoms with some structure, as data have it."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((64, d), dtype=np.float32)
    table = rng.standard_normal((n, d), dtype=np.float32)
    for at in range(0, n, _CHUNK):
        part = table[at : at + _CHUNK]
        part += centres[rng.integers(0, len(centres), len(part))]
    return table


def _build(kind: IndexKind, table: Single) -> Subject:
    """Build an index with default settings; a scan without screening."""
    n, d = table.shape
    work = Workload(n=n, d=d, row=4 * d, max_memory=0.0, speeds=Calibration())
    expected = cast(Model, kind.expected)(work)
    begin = time.perf_counter()
    oracle = expected.make(ArrayAtoms(table))
    seconds = time.perf_counter() - begin
    return Subject(kind, work, oracle, expected.reads, seconds if kind.passes else 0.0)


def _set_up(built: Subject, ratio: float) -> Subject:
    """The same index, set up for a ratio."""
    kind, work = built.kind, replace(built.work, ratio=ratio)
    expected = cast(Model, kind.expected)(work)
    atoms = built.oracle.atoms
    oracle = expected.make(atoms) if kind.adapt is None else kind.adapt(built.oracle, work)
    return Subject(kind, work, oracle, expected.reads, built.build)


# ---------------------------------------------------------------- timing


class Times(NamedTuple):
    """Seconds of a call with one query, and with `BATCH`."""

    one: float
    many: float


def _ask(subjects: list[Subject], queries: Vector, rounds: int) -> dict[int, Times]:
    """Seconds of every oracle by its `id`, asked in turn."""
    oracles = {id(each.oracle): each.oracle for each in subjects}
    for oracle in oracles.values():
        oracle.query(queries[:1])
        oracle.query(queries)
    one: dict[int, list[float]] = {key: [] for key in oracles}
    many: dict[int, list[float]] = {key: [] for key in oracles}
    for turn in range(rounds):
        query = queries[turn % BATCH :][:1]
        for key, oracle in oracles.items():
            one[key].append(_seconds(partial(oracle.query, query)))
    for _ in range(-(-rounds // 3)):
        for key, oracle in oracles.items():
            many[key].append(_seconds(partial(oracle.query, queries)))
    return {key: Times(_typical(one[key]), _typical(many[key])) for key in oracles}


def _typical(seconds: list[float]) -> float:
    """The lower quartile: what other programs take is not this machine's speed."""
    return sorted(seconds)[(len(seconds) - 1) // 4]


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _time_reads(table: Single, rounds: int) -> Calibration:
    """Speeds of a plain read, of a pass over a file and of rows fetched from it; nothing else yet."""
    step = max(1, (1 << 24) // table[0].nbytes)
    parts = [table[at : at + step] for at in range(0, len(table), step)]
    ids = np.random.default_rng(0).integers(0, len(table), (rounds, _FETCHED))
    plain, passes, fetches = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, table)
        atoms = FileAtoms(path)
        scan, query = Scan(atoms, screen=False), table[:1].astype(np.float64)
        for some in ids:
            plain.append(_seconds(lambda: list(map_ordered(np.max, parts))))
            passes.append(_seconds(partial(scan.query, query)))
            fetches.append(_seconds(partial(atoms.take, some)))
    return Calibration(
        threads=get_threads(),
        read=_typical(plain) / table.nbytes,
        file=_typical(passes) / table.nbytes,
        fetch=_typical(fetches) / _FETCHED,
        origin=_origin(),
    )


# ---------------------------------------------------------------- what follows


def _calibrate(
    known: Calibration, little: Subject, usual: Subject, much: Subject, times: dict[int, Times]
) -> Calibration:
    """Add the speeds that an index measures: lines through what it takes to read little and much."""
    few, many = times[id(little.oracle)], times[id(much.oracle)]
    more = [max(0.0, each.many - each.one) / (BATCH - 1) for each in (few, many)]
    call, first = fit_line((little.reads, few.one), (much.reads, many.one))
    query, further = fit_line((little.reads, more[0]), (much.reads, more[1]))
    speed = Speed(call=call, query=query, first=first, more=further)
    builds = [BuildTime(replace(each.work, speeds=known), each.build) for each in (little, usual)]
    return replace(known, **cast(Calibrate, usual.kind.speeds)(speed, *builds))


def _origin() -> Origin:
    return Origin(
        machine=platform.node(),
        cores=available(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        wolfhound=_version("wolfhound"),
        numpy=np.__version__,
        numba=_version("numba"),
        faiss=_version("faiss-cpu"),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _check(subjects: list[Subject], times: dict[int, Times], sample: QuerySample) -> tuple[Measurement, ...]:
    """Compare all answers with those of a scan, which comes first, and that with a plain product."""
    scan = subjects[0].oracle
    truth, base = scan.query(sample.queries), times[id(scan)].one
    out = []
    for kind, _, oracle, reads, build in subjects:
        took, hits = times[id(oracle)], oracle.query(sample.queries)
        faults = find_faults(oracle.atoms, sample.queries, hits, truth, exact=kind.proves)
        if oracle is scan and not is_best(oracle.atoms, sample.queries, truth):
            faults.append("the best score is not that of a plain product")
        out.append(
            Measurement(
                name=kind.name,
                title=kind.title,
                build=build,
                one=took.one,
                many=took.many / BATCH,
                speed=reads / took.one,
                ratio=float(sample.ratios(hits, truth).mean()),
                pays_from=max(1.0, math.ceil(build / (base - took.one))) if took.one < base else math.inf,
                faults=tuple(faults),
            )
        )
    return tuple(out)
