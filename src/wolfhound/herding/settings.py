"""What decides a run of kernel herding: data that is given, and the settings that are saved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import store
from wolfhound.atoms import Fingerprint, PartPrint, fingerprint
from wolfhound.core import Atoms, AtomsLike, Ids, Vector
from wolfhound.encoding import TableAtoms
from wolfhound.herding.kernels import KERNELS, Kernel
from wolfhound.herding.kernels.features import row_shares
from wolfhound.herding.labels import Labels
from wolfhound.herding.tabular import AS_USUAL, TableOptions, read_rows
from wolfhound.validate import count, flag, ids, require

FLAGS = ("balanced", "weights", "swap", "evaluate")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HerdData:
    """What is herded."""

    atoms: Atoms  # to pick from
    target: Atoms | None  # to stand for; None: the atoms
    labels: Labels | None
    row_weights: Vector | None  # (t,) of what is to be stood for, with sum 1
    table: TableAtoms | None = None  # what the atoms were; ids of its rows are what a caller sees
    target_table: TableAtoms | None = None  # what the target was

    @classmethod
    def of(
        cls,
        atoms: AtomsLike,
        target: AtomsLike | None,
        by: ArrayLike | None,
        row_weights: ArrayLike | None,
        options: TableOptions = AS_USUAL,
    ) -> HerdData:
        """Check what a caller gives; the row weights are scaled to sum 1."""
        rows = read_rows(atoms, target, by, options)
        n, d = rows.atoms.shape
        if rows.target is not None:
            check_width(rows.target, d)
        weighed = rows.table if rows.target is None else rows.target_table
        if weighed is not None:
            row_weights = weighed.pick(row_weights, "row_weights")
        size = n if rows.target is None else rows.target.shape[0]
        shares = row_shares(row_weights, size, "row_weights")
        return cls(
            atoms=rows.atoms,
            target=rows.target,
            labels=None if rows.by is None else Labels.of(rows.by, n, shares),
            row_weights=shares,
            table=rows.table,
            target_table=rows.target_table,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the atoms; of a table with the number of its rows, of which ids are."""
        parts = fingerprint(self.atoms)
        return parts if self.table is None else tuple(p.resize(self.table.report.rows) for p in parts)

    def fingerprints(self) -> dict[str, Any]:
        """What tells this data from other data: the fields of `HerdSettings` of these names."""
        return {
            "target": () if self.target is None else fingerprint(self.target),
            "by": _digest(None if self.labels is None else self.labels.values),
            "row_weights": _digest(self.row_weights),
        }


def _digest(array: NDArray[Any] | None) -> str:
    """Return a hash of an array; "" for none."""
    if array is None:
        return ""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HerdSettings:
    """All that decides a run besides its data; saved with the result, so that it can go on."""

    kernel: Kernel  # with nothing left to choose
    candidates: tuple[int, ...]  # to draw of each label, or of all atoms
    held: int  # atoms of `start`: the first ids
    exclude: Ids
    balanced: bool
    weights: bool
    swap: bool
    evaluate: bool
    seed: int
    target: Fingerprint  # () if there is none
    by: str  # digest of the labels, "" if there are none
    row_weights: str  # digest, "" if there are none
    options: TableOptions = AS_USUAL  # how a table became atoms

    def to_json(self) -> dict[str, Any] | None:
        """Return JSON values; None for a kernel that is in no table, so cannot be made again."""
        name = getattr(self.kernel, "name", "")
        if KERNELS.get(name) is not type(self.kernel):
            return None
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "kernel": {"name": name} | self.kernel.to_json(),
            "exclude": self.exclude.tolist(),
            "target": [list(part.settle()) for part in self.target],
            "options": self.options.to_json(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> HerdSettings | None:
        """Return the settings of such values; ValueError or TypeError if they can be none."""
        if saved is None:
            return None
        kernel = dict(saved["kernel"])
        require(all(map(store.is_part, saved["target"])), "target", "a fingerprint", saved["target"])
        flags: dict[str, Any] = {name: flag(saved[name], name) for name in FLAGS}
        return cls(
            kernel=KERNELS.find(kernel.pop("name")).from_json(kernel),
            candidates=tuple(count(each, "candidates") for each in saved["candidates"]),
            held=count(saved["held"], "held"),
            exclude=ids(saved["exclude"], "exclude", sys.maxsize),
            **flags,
            seed=count(saved["seed"], "seed"),
            target=tuple(PartPrint(*part) for part in saved["target"]),
            by=str(saved["by"]),
            row_weights=str(saved["row_weights"]),
            options=TableOptions.from_json(saved.get("options")),
        )


# ---------------------------------------------------------------- arguments of both ways to herd


def check_width(target: Atoms, d: int) -> None:
    """Check that the target has d columns, as what it is compared with."""
    got = target.shape[1]
    require(got == d, "target", f"rows of {d} columns", f"{got} columns")


def check_start(n: int, m: int, start: ArrayLike | None, exclude: ArrayLike | None) -> tuple[Ids, Ids]:
    """Return the ids of `start` and `exclude`, with room for m atoms."""
    banned = ids([] if exclude is None else exclude, "exclude", n)
    chosen = ids([] if start is None else start, "start", n)
    both = np.intersect1d(chosen, banned)
    require(not len(both), "start", "none of `exclude`", f"atom {both.min(initial=n)} in both")
    size, left = count(m, "m", low=1), n - len(banned)
    rule = f"an integer in [1, {left}], the atoms there are" + (" without `exclude`" if len(banned) else "")
    require(size <= left, "m", rule, m)
    require(size > len(chosen), "m", f"more than the {len(chosen)} atoms of `start`", m)
    return chosen, banned


def seed_number(seed: int | np.random.Generator) -> int:
    """Return one integer that decides all: a run can then be repeated from a file."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return count(seed, "seed")
