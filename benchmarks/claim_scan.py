"""Claim: an exact query with its proof costs little more than reading the atoms.

One query for the best atom, a proved bound on its score and the top 256, summed in
float64, against `(X @ q).argmax()` in float32, faiss IndexFlatIP (top 1 and top
256) and a compiled loop that only adds up all numbers of X. The others prove
nothing and sum in float32. At 1e6 x 128, 400,000 x 256, glove100, fashion_mnist.

Protocol: random normal queries, a new one each round and the same for all methods;
screening off, as it would answer from an earlier pass; interleaved rounds,
medians; the first query, which also checks the atoms and takes their norms, is
reported apart. Every answer is compared with a float64 numpy product.

Threshold, on one thread: at least 1.2 times faster than the matvec, at most 1.3
times the time of faiss (top 256) and of the plain read. Two threads are reported.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import data
import faiss
import numba
import numpy as np
from reference import Matrix, Vector
from rig import Claim, Timed, held_threads, interleave

import wolfhound
from wolfhound.core.contracts import Hits

TOP = 256


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def read(numbers: Matrix) -> float:
    """Add up all numbers: the time of a plain read."""
    total = np.float32(0.0)
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            total += numbers[i, j]
    return float(total)


def atom_sets(tiny: bool) -> dict[str, Callable[[], Matrix]]:
    """The data by name."""
    if tiny:
        return {"gaussian": functools.partial(data.gaussian, 4000, 16)}
    return {
        "gaussian 1e6 x 128": functools.partial(data.gaussian, 1_000_000, 128),
        "gaussian 400,000 x 256": functools.partial(data.gaussian, 400_000, 256),
        "glove100": functools.partial(data.atoms, "glove100"),
        "fashion_mnist": functools.partial(data.atoms, "fashion_mnist"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=45)
    for name, make in atom_sets(claim.options.tiny).items():
        if claim.wants(name):
            atoms = make()
            for threads in (1, 2):
                with held_threads(threads):
                    judge(claim, name, atoms, threads)
    return claim.finish()


def judge(claim: Claim, name: str, atoms: Matrix, threads: int) -> None:
    """Measure one data set with a number of threads; add rows and checks."""
    scan = wolfhound.Scan(wolfhound.ArrayAtoms(atoms), screen=False)
    timed, asked, first = measure(scan, atoms, claim.options.repeats)
    ours = timed["ours"].median
    for method, runs_of in timed.items():
        claim.row(
            data=name,
            shape=f"{atoms.shape[0]:,} x {atoms.shape[1]}",
            threads=threads,
            method=method,
            milliseconds=1e3 * runs_of.median,
            best=1e3 * min(runs_of.seconds),
            gb_per_second=atoms.nbytes / runs_of.median / 1e9,
            ratio_to_ours=runs_of.median / ours,
            first_query_ms=1e3 * first if method == "ours" else None,
        )
    answers = [hits for hits in timed["ours"].answers if isinstance(hits, Hits)]
    claim.holds(f"{name}, {threads} threads: best atom and bound are true", exact(atoms, asked, answers))
    if threads == 1:
        claim.at_least(
            f"{name}: times faster than the matvec", timed["matvec"].median / ours, 1.2, full_size=True
        )
        claim.at_most(
            f"{name}: time / faiss top {TOP}", ours / timed["faiss top 256"].median, 1.3, full_size=True
        )
        claim.at_most(f"{name}: time / plain read", ours / timed["plain read"].median, 1.3, full_size=True)


def measure(
    scan: wolfhound.Scan, atoms: Matrix, repeats: int
) -> tuple[dict[str, Timed[object]], Vector, float]:
    """Time all methods; return also the queries asked and our first query's seconds."""
    index = faiss.IndexFlatIP(atoms.shape[1])
    index.add(atoms)
    queries = np.random.default_rng(3).standard_normal((repeats + 1, atoms.shape[1]))
    singles = queries.astype(np.float32)
    begin = time.perf_counter()
    scan.query(queries[:1], k=TOP)
    first = time.perf_counter() - begin
    read(atoms)
    calls: dict[str, Callable[[int], object]] = {
        "ours": lambda at: scan.query(queries[at : at + 1], k=TOP),
        "matvec": lambda at: (atoms @ singles[at]).argmax(),
        "faiss top 1": lambda at: index.search(singles[at : at + 1], 1),
        "faiss top 256": lambda at: index.search(singles[at : at + 1], TOP),
        "plain read": lambda at: read(atoms),
    }
    interleave({name: functools.partial(call, 0) for name, call in calls.items()}, repeats=1)
    rounds = {name: _counted(call) for name, call in calls.items()}
    return interleave(rounds, repeats=repeats), queries[1:], first


def _counted(call: Callable[[int], object]) -> Callable[[], object]:
    """Give a call the round it is in: 1, 2, ..."""
    at: Iterator[int] = iter(range(1, sys.maxsize))
    return lambda: call(next(at))


def exact(atoms: Matrix, asked: Vector, answers: Sequence[Hits]) -> bool:
    """Whether every best atom is the best and every bound tight, in float64."""
    good = len(answers) == len(asked)
    best, at = np.full(len(asked), -np.inf), np.zeros(len(asked), np.int64)
    for first in range(0, len(atoms), 65536):
        scores = atoms[first : first + 65536].astype(np.float64) @ asked.T
        rows = scores.argmax(0)
        top = scores[rows, np.arange(len(asked))]
        at, best = np.where(top > best, first + rows, at), np.maximum(top, best)
    for hits, row, score in zip(answers, at, best, strict=True):
        near = 1e-12 * abs(score)
        tight = score - near <= hits.bounds[0] <= score + 1e-9 * abs(score)
        good = bool(good and hits.ids[0, 0] == row and abs(hits.scores[0, 0] - score) <= near and tight)
    return good


if __name__ == "__main__":
    sys.exit(main())
