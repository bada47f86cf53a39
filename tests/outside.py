"""A package of somebody else's: a kernel, an index and a rule, each added with one call."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import wolfhound as wh
from wolfhound.core.contracts import Atoms, AtomsLike, Hits, Ids, Matrix, Vector
from wolfhound.data import store
from wolfhound.data.atoms import as_atoms, fingerprint
from wolfhound.herding import Kernel
from wolfhound.oracles.indexes import Estimate, IndexKind, Workload
from wolfhound.policy import RULES, HullDecision
from wolfhound.policy.deep.rules import Brain, Described, Tensor

ONCE = HullDecision(refine=1)


@dataclass(frozen=True, repr=False)
class Rational(Kernel):
    """``1 / (1 + |x - y|^2 / l^2)^power``, by what a kernel must have and no more."""

    power: float = 1.0
    length: float | None = None

    name: ClassVar[str] = "rational"

    def fit(self, rows: Matrix) -> Rational:
        return self if self.length else Rational(self.power, float(np.std(rows)))

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        apart = ((left[:, None, :] - right) ** 2).sum(axis=2)
        out: Matrix = (1.0 + apart / (self.length or 1.0) ** 2) ** -self.power
        return out

    def diagonal(self, rows: Matrix) -> Vector:
        return np.ones(len(rows))


class CopyIndex:
    """Scans a copy of the atoms; proves nothing."""

    def __init__(self, atoms: Atoms, rows: Matrix) -> None:
        self.atoms = atoms
        self._rows = rows
        self._scan = wh.Scan(rows, screen=False)

    @classmethod
    def build(cls, atoms: AtomsLike, *, seed: int = 0) -> CopyIndex:
        known = as_atoms(atoms)
        return cls(known, known.take(np.arange(known.shape[0])))

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def query(
        self, queries: Matrix, *, k: int = 1, thresholds: Vector | None = None, exclude: Ids | None = None
    ) -> Hits:
        hits = self._scan.query(queries, k=k, exclude=exclude)
        return replace(hits, bounds=np.full(len(hits.bounds), np.inf))

    def save(self, folder: str | os.PathLike[str]) -> None:
        store.save(folder, "index", {"rows": self._rows}, {"index": "copy"}, fingerprint(self.atoms))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], atoms: AtomsLike) -> CopyIndex:
        stored = store.load(folder, "index")
        store.check_fingerprint(stored, atoms)
        return cls(as_atoms(atoms), stored.arrays["rows"])


def estimate_copy(work: Workload) -> Estimate:
    """Nearly nothing: it is chosen."""
    return Estimate(
        recipe="CopyIndex.build(atoms)",
        make=CopyIndex.build,
        build=1e-9,
        query=1e-9,
        scored=work.n,
        nbytes=work.nbytes,
        ratio=0.995,
    )


COPY = IndexKind(
    name="copy",
    title="CopyIndex",
    build=CopyIndex.build,
    load=CopyIndex.load,
    expected=estimate_copy,
    passes=1,
)


@dataclass(frozen=True)
class Cautious(Described):
    """The policy gradient, and a part of the way to it."""

    name: ClassVar[str] = "cautious"
    reach: float = 0.5
    decision: HullDecision = ONCE

    def ahead(self, brain: Brain, obs: Tensor) -> Tensor:
        out: Tensor = brain.slow_actor(obs)
        return out

    def loss(self, brain: Brain, obs: Tensor) -> Tensor:
        return -self.reach * brain.critic.first(obs, brain.actor(obs)).mean()


def register() -> None:
    """What the entry point of the group ``wolfhound.plugins`` names."""
    wh.KERNELS.add(Rational)
    wh.INDEXES.add(COPY)
    RULES.add(Cautious)
