"""What every `Oracle` promises, checked on small atoms against long doubles."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.patience import PATIENCE
from wolfhound.core.contracts import Atoms, Hits, Ids, Matrix, Oracle
from wolfhound.core.rounding import TINY, gamma
from wolfhound.core.threads import set_threads
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, FileAtoms

Make = Callable[[Atoms], Oracle]
See = Callable[[Matrix], Matrix]
"""What an oracle makes of the rows that it is given: mostly they are its atoms themselves."""
Truth = NDArray[np.longdouble]


def cases(n: int = 60, d: int = 5) -> dict[str, Matrix]:
    """Return sets of rows that oracles tend to get wrong."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d))
    copies = rows[rng.integers(0, 4, n)]
    with_zeros = rows * (rng.random(n) < 0.5)[:, None]
    return {
        "float64": rows,
        "float32": rows.astype(np.float32),
        "duplicates": copies.astype(np.float32),
        "zero rows": with_zeros.astype(np.float32),
        "all zero": np.zeros((n, d), np.float32),
        "heavy tails": rng.standard_cauchy((n, d)).astype(np.float32),
        "negative": -np.abs(rows),
        "one atom": rows[:1].astype(np.float32),
        "one column": rows[:, :1],
    }


def check_oracle(make: Make, *, exact: bool, see: See = np.asarray) -> None:
    """Check an oracle on rows in memory, in parts and in a file.

    Parameters
    ----------
    make
        Makes the oracle of some atoms.
    exact
        Whether it promises the best atom, not only a good one.
    see
        Maps the rows that it is given to its atoms.
    """
    for rows in cases().values():
        _check_answers(make, rows, see, exact)
        _check_exclude(make, rows, see, exact)
    rows = cases()["float32"]
    _check_one(make, rows, see)
    _check_threads(make, rows, see)
    _check_file(make, rows, see)
    _check_shared(make, see, exact)
    if exact:
        _check_permutation(make, cases()["duplicates"], see)


def true_scores(queries: Matrix, rows: Matrix) -> Truth:
    """(m, n) scores in extended precision."""
    return np.asarray(queries.astype(np.longdouble) @ rows.astype(np.longdouble).T)


def _norms(rows: Matrix) -> Truth:
    return np.asarray(np.sqrt((rows.astype(np.longdouble) ** 2).sum(axis=1)))


def locked(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written."""
    out = array.copy()
    out.flags.writeable = False
    return out


def queries_for(rows: Matrix, m: int) -> Matrix:
    """Return random queries, the first along an atom, the last zero."""
    queries = np.random.default_rng(m).standard_normal((m, rows.shape[1]))
    queries[0] = rows[0]
    queries[-1] *= m == 1
    return queries


def check_hits(hits: Hits, queries: Matrix, rows: Matrix, k: int) -> None:
    """Check shapes, dtypes, padding, order, scores and rows of an answer to a question for k."""
    m, d = queries.shape
    k = min(k, len(rows))
    assert hits.ids.shape == hits.scores.shape == hits.slots.shape == (m, k)
    assert hits.bounds.shape == hits.scored.shape == (m,)
    assert hits.ids.dtype == hits.slots.dtype == hits.scored.dtype == np.int64
    assert hits.scores.dtype == hits.bounds.dtype == np.float64
    assert hits.rows.dtype == rows.dtype
    assert isinstance(hits.passes, float)
    found = hits.ids >= 0
    assert (hits.ids >= -1).all()
    assert (hits.ids < len(rows)).all()
    assert (hits.scores[~found] == -np.inf).all()
    assert (hits.slots[~found] == 0).all()
    assert (found[:, :-1] >= found[:, 1:]).all()
    for ids in hits.ids:
        assert len(np.unique(ids[ids >= 0])) == (ids >= 0).sum()
    np.testing.assert_array_equal(hits.rows[hits.slots[found]], rows[hits.ids[found]])
    here, nxt = hits.scores[:, :-1], hits.scores[:, 1:]
    tie = (here == nxt) & found[:, 1:]
    assert (here >= nxt).all()
    assert (hits.ids[:, :-1][tie] < hits.ids[:, 1:][tie]).all()
    truth = np.take_along_axis(true_scores(queries, rows), np.maximum(hits.ids, 0), 1)
    sizes = _norms(queries)[:, None] * _norms(rows)[hits.ids]
    room = 1.1 * gamma(d + 2) * sizes + d * TINY
    assert (np.abs(hits.scores - truth)[found] <= room[found]).all()
    assert (hits.scores[:, 0] <= hits.bounds).all()
    assert hits.radius >= _norms(rows).max()


def check_proof(hits: Hits, truth: Truth, *, exact: bool) -> None:
    """Check the bounds; of an exact oracle also the first hits.

    Parameters
    ----------
    hits
        The answer.
    truth : (m, n)
        True scores, -inf where excluded.
    exact
        Whether the first hit must be the best, the first of equal rows.
    """
    assert (hits.bounds >= truth.max(axis=1)).all()
    if exact:
        best = truth[np.arange(len(truth)), hits.ids[:, 0]]
        assert (best >= truth.max(axis=1) - 2.0 * (hits.bounds - hits.scores[:, 0])).all()
        assert (hits.bounds < np.inf).all()


def first_of_equals(ids: Ids, rows: Matrix) -> Ids:
    """Return for each id the smallest id with the same row."""
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.reshape(-1)][ids])


def _check_answers(make: Make, given: Matrix, see: See, exact: bool) -> None:
    atoms, rows = ArrayAtoms(locked(given)), see(given)
    for m, k in ((1, 1), (1, 7), (3, 2), (6, 2), (1, len(rows) + 3), (6, 10**9)):
        queries = locked(queries_for(rows, m))
        before = queries.copy()
        oracle = make(atoms)
        assert oracle.atoms.shape == rows.shape
        for hits in (oracle.query(queries, k=k), oracle.query(queries, k=k, thresholds=np.zeros(m))):
            check_hits(hits, queries, rows, k)
            check_proof(hits, true_scores(queries, rows), exact=exact)
            if exact:
                best = hits.ids[:, 0]
                np.testing.assert_array_equal(best, first_of_equals(best, rows))
                assert ((hits.ids >= 0).sum(axis=1) == min(k, len(rows))).all()
        np.testing.assert_array_equal(queries, before)


def _check_exclude(make: Make, given: Matrix, see: See, exact: bool) -> None:
    """Exclude half of the atoms for even queries, all of them for odd ones."""
    rows = see(given)
    n, m = len(rows), 6
    queries = queries_for(rows, m)
    left = true_scores(queries, rows)
    rounding = 1e-12 * np.abs(left).max(axis=1)
    exclude = np.full((m, n + 1), -1)
    exclude[::2, 1 : n // 2 + 1] = np.argsort(-left[::2], axis=1)[:, : n // 2]
    exclude[1::2, :n] = np.arange(n)
    for scores, banned in zip(left, exclude, strict=True):
        scores[banned[banned >= 0]] = -np.inf
    best = left.max(axis=1)
    for which in ([0], [1], [0, 1], list(range(m))):
        hits = make(ArrayAtoms(given)).query(queries[which], k=4, exclude=locked(exclude[which]))
        check_hits(hits, queries[which], rows, 4)
        for ids, banned in zip(hits.ids, exclude[which], strict=True):
            assert not np.isin(ids[ids >= 0], banned).any()
        assert (hits.bounds >= best[which]).all()
        if exact:
            some = best[which] > -np.inf
            assert (hits.scores[:, 0] >= best[which] - rounding[which])[some].all()
            assert (hits.bounds[~some] == -np.inf).all()


def _check_one(make: Make, given: Matrix, see: See) -> None:
    """One direction as a vector is a question of m = 1, and so are what it excludes and its threshold."""
    query = queries_for(see(given), 1)
    asked = make(ArrayAtoms(given)).query(query, k=3, thresholds=np.zeros(1), exclude=np.array([[2, 5]]))
    for exclude in (np.array([2, 5]), [5, 2]):
        one: Any = make(ArrayAtoms(given))
        _same(one.query(query[0], k=3, thresholds=0.0, exclude=exclude), asked)
    _same(make(ArrayAtoms(given)).query(query[0]), make(ArrayAtoms(given)).query(query))


def _same(a: Hits, b: Hits) -> None:
    for name in ("ids", "scores", "bounds", "rows", "slots", "scored"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.passes, a.radius) == (b.passes, b.radius)


def _check_threads(make: Make, given: Matrix, see: See) -> None:
    # Parts make blocks of a few rows each, which the threads then share.
    atoms, rows = ConcatAtoms([given[i : i + 7] for i in range(0, len(given), 7)]), see(given)
    answers = []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            oracle = make(atoms)
            answers.append([oracle.query(queries_for(rows, m), k=5) for m in (1, 6, 1)])
    finally:
        set_threads(None)
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            _same(a, b)
    for hits, m in zip(answers[0], (1, 6, 1), strict=True):
        check_hits(hits, queries_for(rows, m), rows, 5)


def _walks(d: int, walks: int, steps: int) -> Matrix:
    """(walks, steps, d) queries, each close to the one before: what an oracle remembers is of use."""
    rng = np.random.default_rng(2)
    start, moves = rng.standard_normal((walks, 1, d)), rng.standard_normal((walks, steps, d))
    moves[:, ::5] *= 100.0  # and now and then far away
    return np.asarray(start + 0.01 * np.cumsum(moves, axis=1))


def _check_shared(make: Make, see: See, exact: bool) -> None:
    """Ask one oracle from several threads at once, which change places as often as they can."""
    given = np.random.default_rng(3).standard_normal((2000, 4)).astype(np.float32)
    oracle, rows = make(ArrayAtoms(locked(given))), see(given)
    walks = _walks(rows.shape[1], walks=8, steps=10)
    start = threading.Barrier(len(walks))

    def run(walk: Matrix) -> list[Hits]:
        start.wait(timeout=PATIENCE)
        hits = [oracle.query(query[None], k=3) for query in walk]
        hits.append(oracle.query(walk[:6], k=3, thresholds=np.zeros(6)))
        return hits

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(walks)) as pool:
            answers = list(pool.map(run, walks))
    finally:
        sys.setswitchinterval(interval)
    for walk, hits in zip(walks, answers, strict=True):
        asked = [*(query[None] for query in walk), walk[:6]]
        for queries, each in zip(asked, hits, strict=True):
            check_hits(each, queries, rows, 3)
            check_proof(each, true_scores(queries, rows), exact=exact)


def _check_file(make: Make, given: Matrix, see: See) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, given)
        for m in (1, 3, 6):
            queries = queries_for(see(given), m)
            in_memory = make(ArrayAtoms(given)).query(queries, k=5)
            _same(make(FileAtoms(path)).query(queries, k=5), in_memory)


def _check_permutation(make: Make, given: Matrix, see: See) -> None:
    order, rows = np.random.default_rng(1).permutation(len(given)), see(given)
    for m in (1, 3, 6):
        queries = queries_for(rows, m)
        plain = make(ArrayAtoms(given)).query(queries, k=3)
        moved = make(ArrayAtoms(given[order])).query(queries, k=3)
        np.testing.assert_array_equal(moved.scores[:, 0], plain.scores[:, 0])
        np.testing.assert_array_equal(moved.bounds, plain.bounds)
        best = order[moved.ids[:, 0]]
        np.testing.assert_array_equal(rows[best[:-1]], rows[plain.ids[:-1, 0]])
