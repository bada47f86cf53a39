"""`Projected`: searches mapped atoms, answers for the atoms themselves."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import final

from numpy.typing import ArrayLike

from wolfhound.core.contracts import AtomsLike, Hits, Oracle, Vector
from wolfhound.core.validate import count, function, matrix, oracle, require
from wolfhound.data.atoms import MappedAtoms, as_atoms
from wolfhound.oracles.asking import CheckedOracle, Question, ask_index, check_thresholds, offer


@final
class Projected(CheckedOracle):
    """Asks an index of psi(atoms) with phi(query): (c, phi, psi, tau)-MaxIP.

    What the index finds is scored again with the caller's own query on the
    caller's own atoms. So maps that keep the order of scores lose nothing, and of
    others (fewer dimensions) the best of all that was found is returned. A bound of the
    index is one on <phi, psi>, not on scores: bounds are inf.

    Parameters
    ----------
    index
        Any oracle over ``MappedAtoms(atoms, psi, dim)``.
    phi
        Pure function of (m, d) queries to (m, dim) queries of the index.
    atoms
        Atoms, an array or a path: what psi maps. Only needed if the index does not
        say so itself, by ``index.atoms.atoms``.
    extra
        How many more than k answers the index is asked for.
    thresholds
        Pure function of (m, d) queries and (m,) scores to the scores to ask the
        index for. Without it the index gets no thresholds: a score is not one of
        <phi, psi>.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfhound.data.atoms import MappedAtoms
    >>> from wolfhound.oracles.scan import Scan
    >>> from wolfhound.paper.transforms import sphere_atom, sphere_query
    >>> rows = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> on_sphere = MappedAtoms(rows, lambda y: sphere_atom(y, 4.0), 4)
    >>> projected = Projected(Scan(on_sphere), lambda x: sphere_query(x, 3.0))
    >>> projected.query(np.array([[1.0, 2.0]]), k=2).scores
    array([[8., 3.]])
    """

    def __init__(
        self,
        index: Oracle,
        phi: Callable[[Vector], ArrayLike],
        atoms: AtomsLike | None = None,
        *,
        extra: int = 0,
        thresholds: Callable[[Vector, Vector], ArrayLike] | None = None,
    ) -> None:
        self._index = oracle(index, "index")
        self._phi = phi
        function(phi, "phi", "a function of queries")
        if thresholds is not None:
            function(thresholds, "thresholds", "a function of queries and scores")
        if atoms is None:
            if not isinstance(index.atoms, MappedAtoms):
                rule = "given, as the index is not over MappedAtoms"
                raise TypeError(f"`atoms` must be {rule}. Got {index.atoms!r}.")
            atoms = index.atoms.atoms
        self._atoms = as_atoms(atoms)
        self._extra = count(extra, "extra")
        self._thresholds = thresholds
        n, mapped = self._atoms.shape[0], index.atoms.shape[0]
        require(mapped == n, "index", f"an oracle over the {n} mapped atoms", f"{mapped} atoms")

    def answer(self, question: Question, thresholds: Vector | None = None) -> Hits:
        """Answer for the atoms, not what they are mapped to, the best of what the index finds."""
        m, dim = len(question.queries), self._index.atoms.shape[1]
        mapped = matrix(self._phi(question.queries), "phi(queries)")
        require(mapped.shape == (m, dim), "phi(queries)", f"an ({m}, {dim}) array", f"shape {mapped.shape}")
        floors = None
        if thresholds is not None and self._thresholds is not None:
            floors = check_thresholds(self._thresholds(question.queries, thresholds), m)
        hits = ask_index(self._index, replace(question, queries=mapped, k=question.k + self._extra), floors)
        scored = hits.scored + (hits.ids >= 0).sum(axis=1)
        return replace(offer(self._atoms, question, hits.ids, scored=scored), passes=hits.passes)

    def __repr__(self) -> str:
        """The index and the atoms."""
        return f"Projected({self._index!r}, {self._atoms!r}, extra={self._extra})"
