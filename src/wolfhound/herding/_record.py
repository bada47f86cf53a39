"""The parts of a `HerdResult` that are more than numbers, and how they are saved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from wolfhound import store
from wolfhound.atoms import Fingerprint, Part
from wolfhound.core import Ids, Ints, Vector
from wolfhound.herding.kernels import Gaussian, Kernel, Laplace, Linear, Stein
from wolfhound.validate import count, require

_KERNELS: dict[str, Callable[..., Kernel]] = {
    kind.__name__: kind for kind in (Gaussian, Laplace, Linear, Stein)
}


class Curve(NamedTuple):
    """MMD of the first rows, and the mean of random subsets of as many.

    Attributes
    ----------
    sizes : (s,) int64
        Numbers of rows.
    mmd, random : (s,)
        On the same data as the result's `mmd`.
    """

    sizes: Ints
    mmd: Vector
    random: Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """Settings of a run that a saved result needs to go on.

    Attributes
    ----------
    counts : tuple of int
        Candidates of each label, or of all rows.
    seed : int
        Of all that is random.
    held : int
        Rows of `init`: the first ids.
    exclude : (e,) int64
        Rows that must not be picked.
    balanced, weights, swap, evaluate : bool
        As given to `herd`.
    target : Fingerprint
        Of the target, () if there is none.
    digests : tuple of str
        Of the labels and the row weights, "" where there are none.
    """

    counts: tuple[int, ...]
    seed: int
    held: int
    exclude: Ids
    balanced: bool
    weights: bool
    swap: bool
    evaluate: bool
    target: Fingerprint
    digests: tuple[str, str]


def saved_kernel(kernel: Kernel | None) -> list[Any] | None:
    """Return JSON values; None for a kernel that is not ours."""
    if isinstance(kernel, (Gaussian, Laplace, Stein)):
        return [type(kernel).__name__, kernel.lengthscale]
    return ["Linear"] if isinstance(kernel, Linear) else None


def loaded_kernel(saved: list[Any] | None) -> Kernel | None:
    """Return the kernel of such values."""
    return None if saved is None else _KERNELS[saved[0]](*saved[1:])


def saved_record(record: Record | None) -> dict[str, Any] | None:
    """Return JSON values, all but the excluded rows."""
    if record is None:
        return None
    saved = {field.name: getattr(record, field.name) for field in fields(record)}
    del saved["exclude"]
    return saved | {"target": [list(part) for part in record.target]}


def loaded_record(saved: dict[str, Any] | None, stored: store.Stored, k: int) -> Record | None:
    """Return the record of such values, of a result of k rows."""
    if saved is None:
        return None
    labels, row_weights = saved["digests"]
    flags = {name: saved[name] for name in ("balanced", "weights", "swap", "evaluate")}
    require(all(isinstance(flag, bool) for flag in flags.values()), "record", "of true and false", flags)
    require(all(map(store.is_part, saved["target"])), "target", "a fingerprint", saved["target"])
    require(count(saved["held"], "held") <= k, "held", f"<= {k}", saved["held"])
    return Record(
        counts=tuple(count(rows, "counts") for rows in saved["counts"]),
        seed=count(saved["seed"], "seed"),
        held=saved["held"],
        exclude=stored.array("exclude", np.int64, (None,), low=0, high=stored.shape[0] - 1),
        target=tuple(Part(*part) for part in saved["target"]),
        digests=(str(labels), str(row_weights)),
        **flags,
    )
