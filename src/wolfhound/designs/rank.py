"""A first pool of full rank, or an error that names the terms which cannot be told apart."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wolfhound.atoms import finite_rows
from wolfhound.core import Atoms, Ids, Matrix, Vector
from wolfhound.designs.search import SAMPLE, Search
from wolfhound.methods._begin import POOL
from wolfhound.oracles.forms import survey

_SINGULAR = 1e-9
"""Singular values below this share of the largest are none, columns having equal norms."""

_SHOWN = 6


class AliasedTerms(ValueError):
    """Candidates cannot tell terms apart; `null` are (d, z) directions that no candidate has a part in."""

    def __init__(self, null: Vector, names: Sequence[str]) -> None:
        rule = "`model` must have terms that the candidates can tell apart."
        super().__init__(f"{rule} Got {describe_aliases(null, names)}.")
        self.null = null


def scale_to_one(sizes: Vector) -> Vector:
    """Powers of two that bring sizes to [1/2, 1), zeros apart: columns in any units, exactly.

    Examples
    --------
    >>> scale_to_one(np.array([3.0, 0.0, 1e-3])).tolist()
    [0.25, 1.0, 512.0]
    """
    return np.asarray(np.exp2(-np.frexp(sizes)[1].astype(np.float64)))


def scale_root(root: Vector | None, scale: Vector) -> Vector | None:
    """C of terms that were multiplied by powers of two, itself brought to size one: only ratios matter."""
    if root is None:
        return None
    scaled = root * scale[:, None]
    return np.asarray(scaled * scale_to_one(np.abs(scaled).max(initial=0.0)))


def draw_sample(atoms: Atoms, exclude: Ids, rng: np.random.Generator) -> Ids:
    """Random candidates that are not excluded, in random order."""
    n = atoms.shape[0]
    if n <= 2 * SAMPLE + len(exclude):
        ids = np.setdiff1d(np.arange(n), exclude)
        return rng.permutation(ids)[:SAMPLE]
    drawn = np.unique(rng.integers(0, n, SAMPLE + SAMPLE // 4))
    drawn = np.setdiff1d(drawn, exclude)
    return rng.permutation(drawn)[:SAMPLE]


def find_null_space(rows: Matrix) -> Vector:
    """(d, z) directions that no row has a part in, orthonormal."""
    wide = rows.astype(np.float64)
    sizes = np.sqrt((wide**2).sum(axis=0))
    sizes[sizes == 0.0] = 1.0
    triangle = np.linalg.qr(wide / sizes, mode="r")
    _, values, turn = np.linalg.svd(triangle, full_matrices=True)
    rank = int((values > _SINGULAR * values.max(initial=0.0)).sum()) if values.size else 0
    null = turn[rank:].T / sizes[:, None]
    return np.asarray(np.linalg.qr(null)[0]) if null.size else np.empty((rows.shape[1], 0))


def complete_sample(search: Search, ids: Ids, names: Sequence[str]) -> tuple[Ids, Vector, float]:
    """Add candidates until the sample, and its first `POOL`, have full rank: ids, rows, passes it took."""
    candidates, given, passes = search.candidates, search.given, 0.0
    rows = np.asarray(finite_rows(candidates, ids), np.float64)
    some = max(POOL, 4 * candidates.shape[1])
    null = find_null_space(np.concatenate([rows[:some], given]))
    if null.shape[1] and len(ids) > some:
        order = _put_first(rows, null)
        ids, rows = ids[order], rows[order]
        null = find_null_space(np.concatenate([rows[:some], given]))
    while null.shape[1]:
        hits = survey(search.oracle, null @ null.T, 256, search.exclude)
        passes += hits.passes
        best = hits.ids
        rest = float(hits.scores[0]) if len(best) else 0.0
        if not rest > (_SINGULAR * 1e2) ** 2 * hits.radius or np.isin(best, ids[:some]).all():
            raise AliasedTerms(null, names)
        new = np.setdiff1d(best, ids[:some])
        ids = np.concatenate([new, np.setdiff1d(ids, new, assume_unique=True)])
        rows = np.asarray(finite_rows(candidates, ids), np.float64)
        null = find_null_space(np.concatenate([rows[:some], given]))
    return ids, rows, passes


def _put_first(rows: Vector, null: Vector) -> Ids:
    """Rows with a part in the missing directions come first."""
    parts = ((rows @ null) ** 2).sum(axis=1)
    front = np.argsort(-parts, kind="stable")[: max(256, 4 * null.shape[1])]
    return np.concatenate([front, np.setdiff1d(np.arange(len(rows)), front)])


def list_aliases(null: Vector, names: Sequence[str]) -> str:
    """Groups of aliased terms, from a basis with few terms in each direction."""
    basis = null.T.copy()
    taken: list[int] = []
    for row in range(len(basis)):  # Gauss and Jordan, largest pivots
        free = np.abs(basis[row])
        free[taken] = 0.0
        pivot = int(free.argmax())
        taken.append(pivot)
        basis[row] /= basis[row, pivot]
        others = np.arange(len(basis)) != row
        basis[others] -= np.outer(basis[others, pivot], basis[row])
    groups = [" ~ ".join(names[j] for j in np.flatnonzero(np.abs(each) > 1e-6).tolist()) for each in basis]
    more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return f"{'; '.join(groups[:_SHOWN])}{more}"


def describe_aliases(null: Vector, names: Sequence[str]) -> str:
    """Say how many groups of terms are aliased, and which."""
    many = "group" if null.shape[1] == 1 else "groups"
    return f"{null.shape[1]} {many} of aliased terms: {list_aliases(null, names)}"
