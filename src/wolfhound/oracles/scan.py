"""`Scan`: reads every atom and proves its answers.

One query is scored by a float64 loop, several by matrix products that find candidates; a query close
to an earlier one by screening. The outcome never depends on the number of threads: blocks are fixed,
their results are taken in order, and the best entries of a stream are unique.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast, final

import numpy as np

from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Ints, Matrix, Singles, Vector
from wolfhound.core.progress import report_rows
from wolfhound.core.rounding import TINY, UNIT, gamma, product
from wolfhound.core.threads import get_threads, map_ordered
from wolfhound.core.validate import flag, memory, require
from wolfhound.data.atoms import as_atoms, block_rows, check_finite, in_files
from wolfhound.oracles import _scan_kernels as kernels
from wolfhound.oracles import asking
from wolfhound.oracles.asking import CheckedOracle, Cost, Question
from wolfhound.oracles.indexes import Estimate, IndexKind, Workload

_FEW = 4  # so many queries are faster one by one than as a product of matrices
_SHORT = 1 << 18  # entries of atoms that are read in less time than screening takes
SCREEN_MEMORY = 1 << 30  # bytes that screening may take by default; it needs 8 per atom

_NOTHING: Vector = np.empty(0)
_NO_COPY: Singles = np.empty(0, np.float32)


@final
class Scan(CheckedOracle):
    """Exact oracle: the best atom of all, and a bound to float64 rounding.

    One query is scored in float64 sums, a little slower than a read. Several queries
    share one pass of matrix products in the precision of the atoms; whatever
    can still win is scored again in float64. All rows are checked to be finite
    when they are first read.

    The best atom, its score and the bound are the same to the bit alone and among
    others, with screening and without. Without screening so are all k answers; with
    it, a query close to an earlier one may have good atoms, scored right, in place
    of the next best.

    Parameters
    ----------
    atoms
        Atoms, an array or a path.
    screen
        Whether to keep the scores of the last full pass, so that a query close
        to it is answered from the few atoms that can still win. Takes 8n
        bytes, and 4n more during a pass; default: where there are so many entries, 262,144, that it
        pays, 8n is at most 1 GiB, and 12n at most half of `max_memory`.
    max_memory
        Bytes, or a text such as "1GB", that passes may take, beside atoms in memory and the
        answer; default: any, blocks are of 32 MiB, 16 in files.

    Examples
    --------
    >>> hits = Scan(np.eye(3)).query(np.array([[1.0, 3.0, 2.0]]), k=2)
    >>> hits.ids, hits.scores
    (array([[1, 2]]), array([[3., 2.]]))
    """

    def __init__(
        self, atoms: AtomsLike, *, screen: bool | None = None, max_memory: float | str | None = None
    ) -> None:
        self._atoms = as_atoms(atoms)
        self._memory = math.inf if max_memory is None else memory(max_memory, "max_memory")
        wish = None if screen is None else flag(screen, "screen")
        n, d = self._atoms.shape
        if wish is None and (8 * n > SCREEN_MEMORY or n * d < _SHORT):
            wish = False
        self._plan = plan_pass(self._atoms, self._memory, wish)
        # Both are replaced whole, never changed: a query of another thread may hold them.
        self._norms: Norms | None = None
        self._reference: ReferencePass | None = None

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer checked queries; thresholds are ignored."""
        if len(question.queries) == 1:
            return self._answer_near(question) or self._answer_at_once(question) or self._loop(question)
        if len(question.queries) <= _FEW:
            return self._loop(question)
        size = min(self._atoms.shape[0] + 1, question.k + SPARE)  # n + 1: a list of all atoms is never full
        step = group_size(self._atoms, size, self._memory)
        starts = range(0, len(question.queries), step)
        return asking.join([self._many(question.only(slice(start, start + step)), size) for start in starts])

    def __repr__(self) -> str:
        return f"Scan({self._atoms!r}, screen={self._plan.screen})"

    # ------------------------------------------------------------ one query

    def _answer_near(self, question: Question) -> Hits | None:
        """Answer from the atoms that can still win; None if they are too many."""
        size, query, reference = float(question.sizes[0]), question.queries[0], self._reference
        if reference is None or not fits(size, reference.norms.radius):
            return None
        found = reference.find_survivors(self._atoms, question)
        if found is None:
            return None
        ids, probed = found
        rows, scored = self._atoms.take(ids), len(ids) + probed
        scores, best = asking.rank_one(asking.rescore(rows, query), ids, question.k)
        cost = Cost(np.array([scored]), min(1.0, scored / self._atoms.shape[0]), reference.norms.radius)
        bounds = asking.prove(question, scores, -np.inf, cost.radius)

        def take(wanted: Ids) -> Matrix:
            return rows[np.searchsorted(ids, wanted)]

        return asking.build_hits(take, scores, best, bounds, cost)

    def _answer_at_once(self, question: Question) -> Hits | None:
        """Answer from one block of rows in memory that were measured: few calls."""
        norms, rows, k = self._norms, asking.in_memory(self._atoms), question.k
        if norms is None or rows is None or rows.nbytes > self._plan.block:
            return None
        slack = asking.slack_of_one(float(question.sizes[0]), rows.shape[1], norms.radius)
        copy, scale = self._make_copy(question), scale_of(float(question.sizes[0]))
        scores, ids, found = np.empty((1, 2 * k)), np.empty((1, 2 * k), np.int64), np.zeros(1, np.int64)
        asked, lists = (question.queries, 0, question.exclude), (scores, ids, found, np.array([-np.inf]))
        kernels.scan_rows(rows, 0, asked, lists, (_NOTHING, copy, scale))
        if found[0] < k:  # some are excluded, and answers padded
            return None
        report_rows(len(rows))
        if len(copy):
            self._keep_reference(question, copy, norms)
        scores, ids = (scores[:, :1], ids[:, :1]) if k == 1 else asking.rank_one(scores[0, :k], ids[0, :k], k)
        found[0], bound = len(rows), np.array([math.nextafter(float(scores[0, 0]) + slack, math.inf)])
        slots = np.zeros((1, 1), np.int64) if k == 1 else np.arange(k)[None]
        answer = scores, ids, slots, bound, found, rows.take(ids[0], 0)
        return asking.make_hits(answer, k, 1.0, norms.radius)

    # ------------------------------------------------------------ several queries

    def _many(self, question: Question, size: int) -> Hits:
        """Answer by products; what they cannot decide, by the float64 loop."""
        recorder = NormRecorder(self._atoms, self._norms, keep=self._plan.screen)
        block = min(self._plan.block, 16 << 20)
        ids, uppers, rest, norms = product_pass(self._atoms, recorder, question, size, block=block)
        self._norms = norms
        cost = Cost(np.full(len(ids), self._atoms.shape[0]), 1.0, norms.radius)
        hits = asking.settle(self._atoms, question, ids, uppers, rest=rest, cost=cost)
        undecided = np.flatnonzero((rest > -np.inf) & (rest >= hits.scores[:, -1]))
        if not len(undecided):
            return hits
        return asking.patch(hits, undecided, self._loop(question.only(undecided), keep=False))

    def _loop(self, question: Question, *, keep: bool = True) -> Hits:
        """Answer by the float64 loop, in one pass; with `keep` it becomes the reference of screening."""
        copy = self._make_copy(question) if keep else _NO_COPY
        recorder = NormRecorder(self._atoms, self._norms, keep=self._plan.screen)
        best, norms = full_pass(self._atoms, recorder, question, copy, self._plan.block)
        self._norms = norms
        self._keep_reference(question, copy, norms)
        empty = np.arange(best.keys.shape[1]) >= best.fill[:, None]
        keys, found = np.where(empty, -np.inf, best.keys), np.where(empty, -1, best.ids)
        scores, ids = asking.rank(keys, found, question.k)
        cost = Cost(np.full(len(ids), self._atoms.shape[0]), 1.0, norms.radius)
        bounds = asking.prove(question, scores, -np.inf, norms.radius)
        return asking.build_hits(self._atoms.take, scores, ids, bounds, cost)

    def _make_copy(self, question: Question) -> Singles:
        """Room for the scores of the first query, which are kept where screening pays."""
        pays = self._plan.screen and self._atoms.shape[0] >= WORTH and fits(float(question.sizes[0]), 1.0)
        return np.empty(self._atoms.shape[0], np.float32) if pays else _NO_COPY

    def _keep_reference(self, question: Question, copy: Singles, norms: Norms) -> None:
        size = float(question.sizes[0])
        if len(copy) and fits(size, norms.radius):
            self._reference = ReferencePass(question.queries[0].copy(), size, copy, norms)


# ---------------------------------------------------------------- memory

_BLOCK = 32 << 20  # bytes of a block: with smaller ones too much time goes between two blocks
_FILE_BLOCK = 16 << 20  # of one that is read: memory for larger ones is given back to the system each time
_LEAST_BLOCK = 64 << 10
_BESIDE = 40  # bytes per row of a block that a pass takes beside it: scores, ids, squares, and what it picks
_SCREEN_BYTES = 12  # bytes per atom that screening takes during a pass


class PassPlan(NamedTuple):
    """How passes are done within a memory."""

    block: int  # bytes
    screen: bool  # whether a pass is kept, to answer later queries from it


def least_memory(atoms: Atoms) -> int:
    """Bytes that a pass takes at least."""
    return _blocks_memory(atoms, _LEAST_BLOCK)


def _blocks_memory(atoms: Atoms, nbytes: int) -> int:
    """Bytes of all blocks that are under way: two per thread, those read ahead, and one in another type."""
    row = atoms.shape[1] * atoms.dtype.itemsize + _BESIDE
    return (2 * get_threads() + 4) * row * block_rows(atoms, nbytes)


def plan_pass(atoms: Atoms, max_memory: float, screen: bool | None) -> PassPlan:
    """Choose blocks, and whether to screen if that is not said, so that a memory is kept."""
    block = _FILE_BLOCK if in_files(atoms) else _BLOCK
    if max_memory == math.inf:
        return PassPlan(block, screen is None or screen)
    kept = _SCREEN_BYTES * atoms.shape[0]
    least = least_memory(atoms) + (kept if screen else 0)
    rule = f"at least {least:,} bytes, for {get_threads()} threads and these atoms"
    require(max_memory >= least, "max_memory", rule, f"{max_memory:,.0f}")
    screened = kept <= max_memory / 2 and least + kept <= max_memory if screen is None else screen
    left = max_memory - (kept if screened else 0)
    while block > _LEAST_BLOCK and _blocks_memory(atoms, block) > left:
        block //= 2
    return PassPlan(block, screened)


# ---------------------------------------------------------------- norms

_SQUARES_UNDERFLOW = 1e-150  # norms below are known by the largest entry: their squares say too little


class Norms(NamedTuple):
    """What a whole pass has measured; never written to."""

    radius: float  # the largest norm, rounded up
    each: Singles  # (n,) norms, rounded up; empty if they are not kept


class NormRecorder:
    """Measures the atoms during one pass, which also checks that they are finite; nothing that is known.

    A pass has its own: passes of other threads measure for themselves. With `keep`, the norm of
    each atom is kept (4n bytes), else only the maximum.
    """

    def __init__(self, atoms: Atoms, known: Norms | None = None, *, keep: bool) -> None:
        n, self._d = atoms.shape
        self._known = known
        self._each = np.empty(n if keep and known is None else 0, np.float32)
        self._tops: list[float] = []

    def norms(self) -> Norms:
        """Return what is known after a pass that has read all atoms."""
        return Norms(max(self._tops), self._each) if self._known is None else self._known

    def room(self, rows: int) -> Vector:
        """Return room for the squared norms of a block; none if they are known."""
        return np.empty(rows if self._known is None else 0)

    def measure(self, first: int, block: Matrix) -> Singles:
        """Return the norms of a block's rows, rounded up to float32."""
        if self._known is not None and len(self._known.each):
            return self._known.each[first : first + len(block)]
        squares = np.empty(len(block))
        kernels.square_all(block, squares)
        return self.note(first, block, squares)

    def note(self, first: int, block: Matrix, squares: Vector) -> Singles:
        """Take the squared norms of a block, once; return its norms, rounded up."""
        stop = first + len(block)
        norms = self._each[first:stop] if len(self._each) else np.empty(len(block), np.float32)
        # Rounded up, to float32 too; inf or nan if one is not finite.
        above = np.sqrt(squares + self._d * TINY) * (1.0 + (self._d + 4) * UNIT)
        with np.errstate(over="ignore"):
            norms[:] = above * (1.0 + 2.0**-22) + 2.0**-148
        top = float(above.max())
        if not math.isfinite(top):
            check_finite(block, first)
            row = first + int(np.flatnonzero(~np.isfinite(squares))[0])
            raise ValueError(f"`atoms` must have norms below 1e154. Got a larger one in row {row}.")
        if top < _SQUARES_UNDERFLOW:
            top = min(top, math.sqrt(self._d) * float(np.abs(block).max()) * (1.0 + 8.0 * UNIT) + TINY)
        self._tops.append(top)
        return norms


# ---------------------------------------------------------------- a pass by the float64 loop


def empty_lists(m: int, size: int, floors: Matrix | None = None) -> kernels.Lists:
    """Return m empty lists that take keys from the floors on; default: any float64."""
    floors = np.full(m, -np.inf) if floors is None else floors
    keys, ids = np.empty((m, 2 * size), floors.dtype), np.empty((m, 2 * size), np.int64)
    return kernels.Lists(keys, ids, np.zeros(m, np.int64), floors)


def full_pass(
    atoms: Atoms, recorder: NormRecorder, question: Question, copy: Singles, block: int
) -> tuple[kernels.Lists, Norms]:
    """Read all atoms once, by blocks of so many bytes; return the k best of every query, and the norms.

    `copy`: where the scaled score of every atom with the first query goes, unless it is empty.
    """
    m, rows, scale = len(question.queries), block_rows(atoms, block), scale_of(float(question.sizes[0]))
    best: kernels.Lists | None = None

    def work(task: tuple[int, Matrix]) -> tuple[int, kernels.Lists]:
        first, block = task
        floors, squares = None if best is None else best.floors.copy(), recorder.room(len(block))
        part = empty_lists(m, question.k, floors)
        aside = squares, copy[first : first + len(block)], scale
        for i in range(m):
            asked = question.queries, i, question.exclude
            kernels.scan_rows(block, first, asked, part[:], (_NOTHING, _NO_COPY, 1.0) if i else aside)
        if len(squares):
            recorder.note(first, block, squares)
        return len(block), part

    blocks = atoms.blocks(rows)
    for size, part in map_ordered(work, blocks, blas=False) if rows < atoms.shape[0] else map(work, blocks):
        report_rows(size)
        if best is None:
            best = part
        else:
            kernels.merge_lists(best, part)
    return cast(kernels.Lists, best), recorder.norms()


# ---------------------------------------------------------------- a pass by products

SPARE = 128  # candidates beyond k: more near-ties than this are left to the float64 loop

_LISTS_MEMORY = 256 << 20
_AHEAD = 5
_TILE = 1 << 19
_WIDEST = 1024
_SINGLE_LIMIT = 2.0**100


def round_queries(question: Question, dtype: np.dtype[Any]) -> tuple[Matrix, Ints, Matrix, Any]:
    """Scale queries to norms near 1, round them to the atoms' dtype, and bound what that loses.

    Returns queries (m, d), exponents (m,), width (m,) and shift: ``product + (width * norm + shift)`` is
    at least the true and at least the computed float64 score of an atom, in the scale of these queries;
    the caller's are about ``2**exponent`` times as long.

    The width is the sum of: the product in any order, ``gamma_d |q|`` in the
    unit roundoff u of its dtype; the rounding of the query; the float64 loop
    that defines a score; 8u for the arithmetic of the key.
    """
    d = question.queries.shape[1]
    unit = float(np.finfo(dtype).eps) / 2.0
    exponents = np.frexp(question.sizes)[1].astype(np.int64)
    exact = np.ldexp(question.queries, -exponents[:, None])
    low = exact.astype(dtype)
    width = gamma(d, unit) * asking.lengths(low.astype(np.float64)) + asking.lengths(exact - low)
    width += (gamma(d + 2) + 8.0 * unit) * asking.lengths(exact)
    width = np.nextafter((width * (1.0 + 8.0 * unit)).astype(dtype), dtype.type(np.inf))
    return low, exponents, width, dtype.type(2.0 * (d + 4) * float(np.finfo(dtype).tiny))


def group_size(atoms: Atoms, size: int, max_memory: float = math.inf) -> int:
    """How many queries one pass can serve within the memory."""
    per_query = (8 + atoms.dtype.itemsize) * 2 * size * _AHEAD
    return max(1, int(min(_LISTS_MEMORY, max_memory / 4)) // per_query)


def product_pass(
    atoms: Atoms, recorder: NormRecorder, question: Question, size: int, *, block: int = 16 << 20
) -> tuple[Ids, Vector, Vector, Norms]:
    """Read all atoms once, by blocks of so many bytes, for the candidates of every query.

    Products run in the precision of the atoms, with proved errors; the key of a candidate is an upper
    bound on its score, and a list per query keeps the highest keys. Returns ids and uppers (m, size), the
    highest first, as `settle` wants them; rest (m,), at least the score of every other atom that is not
    excluded; and the norms.
    """
    m = len(question.queries)
    queries, exponents, width, shift = round_queries(question, atoms.dtype)
    best = empty_lists(m, size, np.full(m, -np.inf, atoms.dtype))
    wide = min(m, _WIDEST)
    tall = max(512, _TILE // wide)

    def work(task: tuple[int, Matrix]) -> tuple[int, kernels.Lists]:
        first, block = task
        part, norms = empty_lists(m, size, best.floors.copy()), recorder.measure(first, block)
        for start in range(0, len(block), tall):  # in tiles that suit the cache
            rows, sizes = block[start : start + tall], norms[start : start + tall]
            for here in (slice(q, q + wide) for q in range(0, m, wide)):
                products, widths = product(queries[here], rows.T), (width[here], shift)
                mine = kernels.Lists(*(getattr(part, name)[here] for name in part._fields))
                kernels.keep_products(products, sizes, widths, first + start, question.exclude[here], mine)
        return len(block), part

    for rows, part in map_ordered(work, atoms.blocks(block_rows(atoms, block))):
        report_rows(rows)
        kernels.merge_lists(best, part)

    norms = recorder.norms()
    full = best.fill == size
    # Products of huge float32 rows may have overflowed: nothing is then known.
    unsafe = atoms.dtype == np.float32 and norms.radius > _SINGLE_LIMIT
    rest = np.where(full, _above(best.floors, exponents), -np.inf)
    kernels.sort_lists(best)
    ids, keys = best.ids[:, :size], best.keys[:, :size]
    uppers = np.where(ids >= 0, _above(keys, exponents[:, None]), -np.inf)
    return ids, uppers, np.full_like(rest, np.inf) if unsafe else rest, norms


def _above(keys: Matrix, exponents: Ints) -> Vector:
    """Keys in the caller's scale, rounded up."""
    with np.errstate(over="ignore"):
        return np.asarray(np.nextafter(np.ldexp(keys.astype(np.float64), exponents), np.inf))


# ---------------------------------------------------------------- screening
#
# Most atoms cannot win a query that is close to an earlier one. With the scores of a reference
# query q0 and the norms kept, any number a gives
# <q, s> = a <q0, s> + <q - a q0, s> <= a <q0, s> + |q - a q0| |s|.

PROBES = 256  # atoms whose best score is the threshold of screening
SHARE = 0.05  # largest share of the atoms that is scored instead of a pass
WORTH = 2 * PROBES  # atoms from which on screening can score fewer than all

_RANGE = 2.0**100
_SINGLE, _SINGLE_TINY = 2.0**-24, 2.0**-126


@dataclass(frozen=True, slots=True)
class ReferencePass:
    """A full pass that was kept."""

    query: Vector  # (d,) float64
    size: float  # |query|, rounded up
    scores: Singles  # (n,) times `scale_of` the size
    norms: Norms  # of each atom too

    def rule(self, query: Vector, size: float) -> kernels.ScreenRule:
        """Bounds on the true and on the computed float64 scores of a query.

        rho collects all that is proportional to the norm of an atom: the distance of the queries
        and its own rounding, beside which squares that underflow are nothing; the float64 loop of
        the reference, its storage in float32, and the loop of the new query; the three roundings
        of the bound itself.
        """
        d, scale = len(query), scale_of(self.size)
        near = _multiply(query, self.query) / _multiply(self.query, self.query)
        away = query - near * self.query
        loop, kept = gamma(d + 2), abs(near) * self.size
        rho = math.sqrt(_multiply(away, away)) * (1.0 + gamma(d + 4))
        rho += 4.0 * UNIT * (size + kept)
        rho += kept * (loop + 1.001 * _SINGLE) + loop * size
        rho += 8.0 * UNIT * (rho + 1.01 * kept)
        shift = abs(near) * (d * TINY + 2.0 * _SINGLE_TINY / scale) + d * TINY
        return kernels.ScreenRule(near / scale, rho * (1.0 + 4.0 * UNIT), shift * (1.0 + 4.0 * UNIT))

    def find_survivors(self, atoms: Atoms, question: Question) -> tuple[Ids, int] | None:
        """List the atoms that can win a query, filled up to k by best upper bounds, and how many were probed.

        None if more than a small share of the atoms can win. `fits` must hold of the query.
        """
        query, size, k, n = question.queries[0], float(question.sizes[0]), question.k, len(self.scores)
        rule = self.rule(query, size)
        if rule.slope <= 0.0 or rule.rho > 0.5 * size:
            return None
        known, banned = (self.scores, self.norms.each, rule), question.exclude
        # Atoms with high upper bounds, far apart: the best of them is a good threshold.
        window = max(1, n // PROBES)
        tops, probes = np.full(-(-n // window), -np.inf), np.full(-(-n // window), -1)
        kernels.find_peaks(*known, 0, banned, window, tops, probes)
        probes = probes[probes >= 0]
        if not len(probes):
            return None
        best = float(asking.rescore(atoms.take(probes), query).max())
        found: Ids = np.empty(int(SHARE * n), np.int64)
        count = kernels.collect_reaching(*known, banned, best, found)
        if count < 0:
            return None
        if count < k:
            # The k atoms of highest upper bounds; that of the k-th window is no higher than theirs.
            floor = float(np.sort(tops)[-k]) if k <= len(tops) else -math.inf
            found = np.empty(n, np.int64)
            count = kernels.collect_reaching(*known, banned, floor, found)
            ids = found[:count]
            uppers = rule.slope * self.scores[ids].astype(np.float64)
            uppers += rule.rho * self.norms.each[ids].astype(np.float64) + rule.shift
            return asking.keep_highest(uppers, ids, k)[1], len(probes)
        return found[:count], len(probes)


def _multiply(first: Vector, second: Vector) -> float:
    """Inner product: not by BLAS, whose bits depend on the threads."""
    return float(np.einsum("i,i->", first, second))


def scale_of(size: float) -> float:
    """Return a power of two that brings a query of this size near 1."""
    return math.ldexp(1.0, -math.frexp(size)[1])


def fits(size: float, radius: float) -> bool:
    """Whether scaled scores and norms are far from the limits of float32."""
    return 1.0 / _RANGE < size < _RANGE and 1.0 / _RANGE < radius < _RANGE


# ---------------------------------------------------------------- what it costs


def _make(atoms: AtomsLike, *, seed: int = 0, screen: bool | None = None) -> Scan:
    return Scan(atoms, screen=screen)


def _estimate(work: Workload) -> Estimate:
    """Every row, for every query."""
    screen = 8 * work.n <= min(work.max_memory, SCREEN_MEMORY)
    return Estimate(
        recipe="Scan(atoms)" if screen else "Scan(atoms, screen=False)",
        make=partial(_make, screen=None if screen else False),
        build=0.0,
        query=work.query_seconds(work.nbytes) + work.file_seconds(1) / work.batch,
        scored=work.n,
        nbytes=8.0 * work.n if screen else 0.0,
    )


SCAN = IndexKind(name="scan", title="Scan", build=_make, expected=_estimate, proves=True)
