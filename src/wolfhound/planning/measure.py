"""Measure the oracles on this machine, and check what they answer.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound.atoms import ArrayAtoms, FileAtoms
from wolfhound.core import Oracle, Vector
from wolfhound.machine import Calibration, Origin, Speed
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.faiss_index import FaissIndex
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.scan import Scan
from wolfhound.oracles.subset import LEAST, RandomSubset
from wolfhound.planning import costs
from wolfhound.planning.audit import Probe, faults, is_best, probe
from wolfhound.threads import available, get_threads, map_ordered
from wolfhound.validate import count, function

Say: TypeAlias = Callable[[float, str], None]
Single: TypeAlias = NDArray[np.float32]

BATCH = 64
"""Queries of a batch."""

_FETCHED = 256
_TINY = 512
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An oracle as it was measured.

    Attributes
    ----------
    name : str
    build : float
        Seconds.
    one, many : float
        Seconds per query, alone and in a batch.
    speed : float
        Bytes per second that a query alone reads.
    ratio : float
        Mean gap ratio of its answers.
    pays_from : float
        Queries, one at a time, from which on it costs less than `Scan`; inf: never.
    faults : tuple of str
        What is wrong with its answers.
    """

    name: str
    build: float
    one: float
    many: float
    speed: float
    ratio: float
    pays_from: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was measured, on how many atoms, and how long it took."""

    rows: int
    columns: int
    trials: tuple[Trial, ...]
    calibration: Calibration
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether all answers were right."""
        return not any(trial.faults for trial in self.trials)


def measure(
    *,
    rows: int = 400_000,
    columns: int = 96,
    rounds: int = 13,
    seed: int = 0,
    say: Say = lambda share, text: None,
) -> Report:
    """Time and check the oracles on random atoms; well under a minute.

    Parameters
    ----------
    rows, columns
        Of the atoms.
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
    table = _mixture(count(rows, "rows", low=_TINY), count(columns, "columns", low=1), seed)
    asked = probe(ArrayAtoms(table), BATCH, seed=seed)
    say(0.05, "compiling")
    tiny = _built(table[:_TINY])
    _times(_subjects(tiny, tiny), asked.queries, 1)
    say(0.15, "building on a twentieth of the atoms")
    small = _built(table[: max(_TINY, rows // 20)])
    say(0.3, "building")
    full = _built(table)
    say(0.7, "asking")
    subjects = _subjects(small, full)
    times = _times(subjects, asked.queries, rounds)
    say(0.9, "reading")
    reads = _reads(table, -(-rounds // 3))
    say(0.95, "checking")
    return Report(
        rows=rows,
        columns=columns,
        trials=_trials(full, subjects, times, asked),
        calibration=_calibration(small, full, _speeds(subjects, times), reads),
        seconds=time.perf_counter() - begin,
    )


# ---------------------------------------------------------------- what is measured


class Built(NamedTuple):
    """The indexes over some atoms, and the seconds that each took."""

    atoms: ArrayAtoms
    int8: Int8Scan
    clusters: ClusterIndex
    pq: FaissIndex
    seconds: dict[str, float]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.atoms.rows.nbytes


class Subject(NamedTuple):
    """An oracle, and the bytes that it reads for a query."""

    oracle: Oracle
    nbytes: float


class Times(NamedTuple):
    """Seconds of a call with one query, and with `BATCH`."""

    one: float
    many: float


def _mixture(rows: int, columns: int, seed: int) -> Single:
    """A mixture of normals: atoms with some structure, as data have it."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((64, columns), dtype=np.float32)
    table = rng.standard_normal((rows, columns), dtype=np.float32)
    for at in range(0, rows, _CHUNK):
        part = table[at : at + _CHUNK]
        part += centres[rng.integers(0, len(centres), len(part))]
    return table


def _built(table: Single) -> Built:
    atoms = ArrayAtoms(table)
    begin = time.perf_counter()
    int8 = Int8Scan.build(atoms)
    coded = time.perf_counter()
    clusters = ClusterIndex.build(atoms)
    clustered = time.perf_counter()
    pq = FaissIndex.build(atoms)
    done = time.perf_counter()
    seconds = {
        "Int8Scan": coded - begin,
        "ClusterIndex": clustered - coded,
        "FaissIndex Pq": done - clustered,
    }
    return Built(atoms, int8, clusters, pq, seconds)


def _subjects(small: Built, full: Built) -> dict[str, Subject]:
    """Each oracle reading little and much; and with default settings, to be shown."""
    n, d = full.atoms.shape
    few, many, row = 8 * math.isqrt(n), n // 4, full.nbytes // n
    least = min(LEAST, many)

    def subset(size: int) -> Subject:
        return Subject(RandomSubset(full.atoms, size=size), size * row)

    def probing(budget: int) -> Subject:
        return Subject(full.clusters.with_budget(budget), costs.probe_bytes(n, d, budget))

    return {
        "scan small": Subject(Scan(small.atoms, screen=False), small.nbytes),
        "scan": Subject(Scan(full.atoms, screen=False), full.nbytes),
        "int8 small": Subject(small.int8, costs.code_bytes(small.atoms.shape[0], d)),
        "int8": Subject(full.int8, costs.code_bytes(n, d)),
        "probe small": probing(few),
        "probe": probing(many),
        "subset small": subset(least),
        "subset": subset(many),
        "pq small": Subject(small.pq, costs.pq_bytes(small.atoms.shape[0], d)),
        "pq": Subject(full.pq, costs.pq_bytes(n, d)),
        _SHOWN["RandomSubset"]: subset(max(least, n // 100)),
    }


_SPEEDS = ("scan", "int8", "probe", "subset", "pq")
_SHOWN = {
    "Scan": "scan",
    "Int8Scan": "int8",
    "ClusterIndex": "probe small",
    "RandomSubset": "subset shown",
    "FaissIndex Pq": "pq",
}
"""Which subject stands for an oracle in the table."""


# ---------------------------------------------------------------- timing


def _times(subjects: Mapping[str, Subject], queries: Vector, rounds: int) -> dict[str, Times]:
    """Seconds of every oracle, asked in turn."""
    for subject in subjects.values():
        subject.oracle.query(queries[:1])
        subject.oracle.query(queries)
    one: dict[str, list[float]] = {name: [] for name in subjects}
    many: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(rounds):
        query = queries[turn % BATCH :][:1]
        for name, subject in subjects.items():
            one[name].append(_seconds(partial(subject.oracle.query, query)))
    for _ in range(-(-rounds // 3)):
        for name, subject in subjects.items():
            many[name].append(_seconds(partial(subject.oracle.query, queries)))
    return {name: Times(_typical(one[name]), _typical(many[name])) for name in subjects}


def _typical(seconds: list[float]) -> float:
    """The lower quartile: what other programs take is not this machine's speed."""
    return sorted(seconds)[(len(seconds) - 1) // 4]


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _reads(table: Single, rounds: int) -> tuple[float, float, float]:
    """Seconds per byte of a plain read and of a pass over a file; per row fetched from it."""
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
    seconds = [_typical(each) for each in (plain, passes, fetches)]
    return seconds[0] / table.nbytes, seconds[1] / table.nbytes, seconds[2] / _FETCHED


# ---------------------------------------------------------------- what follows


def _line(small: tuple[float, float], full: tuple[float, float]) -> tuple[float, float]:
    """Intercept and slope of a line through two points; noise makes neither negative.

    Examples
    --------
    >>> _line((1.0, 3.0), (2.0, 5.0)), _line((1.0, 5.0), (2.0, 4.0))
    ((1.0, 2.0), (0.0, 2.0))
    """
    (x, y), (far, high) = small, full
    if high <= y or far <= x:
        return 0.0, high / far
    slope = (high - y) / (far - x)
    return max(0.0, y - slope * x), slope


def _speeds(subjects: Mapping[str, Subject], times: Mapping[str, Times]) -> dict[str, Speed]:
    out = {}
    for name in _SPEEDS:
        pair = (f"{name} small", name)
        firsts = [(subjects[key].nbytes, times[key].one) for key in pair]
        more = [
            (subjects[key].nbytes, max(0.0, times[key].many - times[key].one) / (BATCH - 1)) for key in pair
        ]
        call, first = _line(firsts[0], firsts[1])
        query, further = _line(more[0], more[1])
        out[name] = Speed(call=call, query=query, first=first, more=further)
    return out


def _calibration(
    small: Built, full: Built, speeds: Mapping[str, Speed], reads: tuple[float, float, float]
) -> Calibration:
    n, d = full.atoms.shape
    encode = full.seconds["Int8Scan"] / full.nbytes
    clustering = full.seconds["ClusterIndex"]
    training = max(0.5 * clustering, clustering - encode * full.nbytes)
    learnt, quantise = _line(*((each.nbytes, each.seconds["FaissIndex Pq"]) for each in (small, full)))
    return Calibration(
        threads=get_threads(),
        scan=speeds["scan"],
        int8=speeds["int8"],
        probe=speeds["probe"],
        subset=speeds["subset"],
        pq=speeds["pq"],
        read=reads[0],
        file=reads[1],
        fetch=reads[2],
        encode=encode,
        kmeans=training / costs.cluster_products(n, d),
        quantise=quantise,
        train=learnt / d,
        origin=_origin(),
    )


def _origin() -> Origin:
    return Origin(
        machine=platform.node(),
        cores=available(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        wolfhound=importlib.metadata.version("wolfhound"),
        numpy=np.__version__,
        numba=_version("numba"),
        faiss=_version("faiss-cpu"),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _trials(
    full: Built, subjects: Mapping[str, Subject], times: Mapping[str, Times], asked: Probe
) -> tuple[Trial, ...]:
    truth = subjects["scan"].oracle.query(asked.queries)
    base = times["scan"].one
    trials = []
    for name, key in _SHOWN.items():
        subject, took, build = subjects[key], times[key], full.seconds.get(name, 0.0)
        hits = subject.oracle.query(asked.queries)
        wrong = faults(full.atoms, asked.queries, hits, truth, exact=name == "Int8Scan")
        if name == "Scan" and not is_best(full.atoms.rows, asked.queries, truth):
            wrong.append("the best score is not that of a plain product")
        trials.append(
            Trial(
                name=name,
                build=build,
                one=took.one,
                many=took.many / BATCH,
                speed=subject.nbytes / took.one,
                ratio=float(asked.ratios(hits, truth).mean()),
                pays_from=max(1.0, math.ceil(build / (base - took.one))) if took.one < base else math.inf,
                faults=tuple(wrong),
            )
        )
    return tuple(trials)
