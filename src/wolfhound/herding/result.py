"""What `herd` gives back: the rows, their weights, how good they are, the cost."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import plot, store
from wolfhound.atoms import Fingerprint, as_atoms
from wolfhound.codec import WEIGHTS
from wolfhound.core import Atoms, AtomsLike, Ids, Progress, Status, Vector
from wolfhound.herding._record import (
    Curve,
    Record,
    loaded_kernel,
    loaded_record,
    saved_kernel,
    saved_record,
)
from wolfhound.herding.kernels import Kernel
from wolfhound.result import Trace, TraceRow
from wolfhound.validate import count, function, kind, number, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "HerdResult", "Record", "Session"]

_KIND = "herd"
_DRAWN = 2000
"""Rows that a picture shows."""

_SHOWN = 8


class Session(Protocol):
    """What a result keeps in memory to go on; lost when it is saved or pickled."""

    @property
    def rows(self) -> Atoms:
        """The rows that were herded."""

    def extend(
        self, m: int, *, max_seconds: float, callback: Callable[[Progress], bool | None] | None
    ) -> HerdResult:
        """Go on to m rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HerdResult:
    """Few weighted rows that stand for many, and how well they do.

    Attributes
    ----------
    ids : (k,) int64
        The rows in the order of their picks, those of `init` first. k = m, less
        if a limit came first; in a feature space repeated picks are merged.
    weights : (k,)
        Their weights, >= 0 with sum 1.
    mmd : float
        Maximum mean discrepancy of the weighted rows, in the true kernel, on
        the data of `reference`; nan if it was not evaluated.
    mmd_random, mmd_random_spread : float
        Mean and standard deviation of the MMD of random subsets of as many
        rows, equally weighted, on the same data.
    reference : str
        What the MMD was measured on, and how many random subsets there were.
    seconds, evaluation_seconds : float
        Time to pick the rows, and to measure how good they are.
    passes : float
        Passes over all rows to pick them.
    scored : int
        Kernel values or features that were needed per row: the
        machine-independent cost.
    status : Status
        Why the run ended.
    trace : Trace
        Every state on the way; `value` is half the squared MMD to the embedding.
    kernel : Kernel or None
        With its lengthscale; None in a feature space, and for a saved kernel
        that is not one of ours.
    space : str
        The kernel or the feature space in words.
    labels : (k,), optional
        Labels of the rows.
    mmd_by : (labels,), optional
        MMD within each label of ``np.unique(labels)``, against all rows of the label (a
        calibrated sample of more than 10,000), in the order of these labels.
    fingerprint : Fingerprint
        Of all rows.
    measured : Curve
        What `curve` returns.
    record : Record, optional
        Settings, for `extend` after loading.
    session : Session, optional
        What `extend` goes on with.
    """

    ids: Ids
    weights: Vector
    mmd: float
    mmd_random: float
    mmd_random_spread: float
    reference: str
    seconds: float
    evaluation_seconds: float
    passes: float
    scored: int
    status: Status
    trace: Trace
    kernel: Kernel | None
    space: str
    labels: NDArray[Any] | None = None
    mmd_by: Vector | None = None
    fingerprint: Fingerprint = ()
    measured: Curve
    record: Record | None = None
    session: Session | None = None

    @property
    def ess(self) -> float:
        """Effective sample size, ``1 / sum(weights ** 2)``."""
        return 1.0 / float(self.weights @ self.weights)

    @property
    def zeros(self) -> int:
        """Rows of weight 0: fitted weights can do without them."""
        return int((self.weights == 0.0).sum())

    @property
    def gain(self) -> float:
        """``mmd / mmd_random``: below 1 is better than random."""
        return self.mmd / self.mmd_random if self.mmd_random > 0.0 else math.nan

    @property
    def success(self) -> bool:
        """Whether all m rows were picked."""
        return self.status.success

    @property
    def message(self) -> str:
        """Why the run ended, how good the rows are and what it cost."""
        return f"{self.status.value}: {self._quality()} after {self._cost()}"

    def curve(self) -> Curve:
        """MMD of the first rows against their number, with random; nothing is computed.

        Rows are equally weighted within a label (within all), also where the
        result's weights were fitted. Empty if the result was not evaluated.
        """
        return self.measured

    def extend(
        self,
        m: int,
        *,
        rows: AtomsLike | None = None,
        target: AtomsLike | None = None,
        by: ArrayLike | None = None,
        row_weights: ArrayLike | None = None,
        max_seconds: float = math.inf,
        callback: Callable[[Progress], bool | None] | None = None,
    ) -> HerdResult:
        """Return a result with m rows that begins with these.

        The same as one run with m rows and as many `candidates`, if neither
        swapped nor weighted. Swaps and weights are made anew.

        Parameters
        ----------
        m
            Rows in all; at most the candidates of the first run.
        rows, target, by, row_weights
            What `herd` was given, needed if this result was loaded or pickled;
            checked to be the same.
        max_seconds, callback
            As in `herd`.

        Examples
        --------
        >>> from wolfhound.herding.herd import herd
        >>> rows = np.linspace(0.0, 1.0, 50)[:, None]
        >>> np.array_equal(herd(rows, 4).extend(8).ids, herd(rows, 8).ids)
        True
        """
        if callback is not None:
            function(callback, "callback", "a function of a state")
        session = self.session
        for name, value in (("target", target), ("by", by), ("row_weights", row_weights)):
            require(value is None or rows is not None, "rows", f"given where `{name}` is", None)
        if rows is not None or session is None:
            from wolfhound.herding._session import resumed  # noqa: PLC0415 - makes results

            session = resumed(self, rows, target=target, by=by, row_weights=row_weights)
        return session.extend(m, max_seconds=max_seconds, callback=callback)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        rows: AtomsLike | None = None,
        title: str | None = None,
    ) -> Figure:
        """Draw the MMD against the number of rows, and the chosen among the others.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        rows
            What `herd` was given, for the second panel if the result was loaded.
        title
            Heading; by default the space and the gain over random.
        """
        if title is not None:
            kind(title, "title", "a string", str)
        atoms = None if self.session is None else self.session.rows
        if rows is not None:
            atoms = as_atoms(rows, "rows")
        chosen = sample = None
        if atoms is not None:
            n = atoms.shape[0]
            require(bool(self.ids.max() < n), "rows", "the rows that were herded", f"{n} rows")
            some = np.random.default_rng(0).choice(n, min(n, _DRAWN), replace=False)
            sample, chosen = atoms.take(some), atoms.take(self.ids)
        figure = plot.herding(
            sizes=self.measured.sizes.astype(np.float64),
            mmd=self.measured.mmd,
            last=self.mmd,
            random=self.measured.random,
            sample=sample,
            chosen=chosen,
            weights=self.weights,
            title=f"{self.space}: {self._quality()}" if title is None else title,
        )
        if path is not None:
            plot.save(figure, path)
        return figure

    def save(self, folder: str | PathLike[str]) -> None:
        """Write to a folder that `HerdResult.load` reads."""
        arrays = {f"trace_{name}": getattr(self.trace, name) for name in TraceRow._fields}
        arrays |= {f"curve_{name}": getattr(self.measured, name) for name in Curve._fields}
        numbers = (self.mmd, self.mmd_random, self.mmd_random_spread, self.seconds, self.evaluation_seconds)
        # As an array: JSON has no nan.
        arrays |= {"numbers": np.array([*numbers, self.passes]), "ids": self.ids, "weights": self.weights}
        for name in ("labels", "mmd_by"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        if self.mmd_by is not None:
            arrays["mmd_by"] = self.mmd_by
        if self.record is not None:
            arrays["exclude"] = self.record.exclude
        params = {
            "status": self.status.name,
            "scored": self.scored,
            "reference": self.reference,
            "space": self.space,
            "kernel": saved_kernel(self.kernel),
            "record": saved_record(self.record),
        }
        store.save(folder, _KIND, arrays, params, self.fingerprint)

    @classmethod
    def load(cls, folder: str | PathLike[str], rows: AtomsLike | None = None) -> HerdResult:
        """Read a result that `save` wrote.

        Parameters
        ----------
        folder
            Where it was saved.
        rows
            Atoms, an array or a path. If given, must be the rows of the run, else
            StoreError is raised.

        Raises
        ------
        StoreError
            If the folder is damaged, or holds what no run can have given.
        """
        stored = store.load(folder, _KIND, mmap=False)
        if rows is not None:
            store.check_fingerprint(stored, rows)
        with stored.reading():
            return _read(stored)

    def _quality(self) -> str:
        if math.isnan(self.mmd):
            return "MMD not evaluated"
        against = f"{self.gain:.2f} of random" if self.mmd_random > 0.0 else "random 0"
        return f"MMD {self.mmd:.3g}, {against}"

    def _within(self) -> list[str]:
        if self.mmd_by is None or self.labels is None:
            return []
        low, high, worst = self.mmd_by.min(), self.mmd_by.max(), np.unique(self.labels)[self.mmd_by.argmax()]
        return [f"  by       {len(self.mmd_by):,} labels, MMD within them {low:.3g} .. {high:.3g} ({worst})"]

    def _cost(self) -> str:
        passes = f"{self.passes:.3g} {'pass' if self.passes == 1 else 'passes'}"
        return f"{self.seconds:.3g} s, {passes}, {self.scored:,} atoms scored"

    def __repr__(self) -> str:
        """Quality, cost and the first rows, on several lines."""
        k, n = len(self.ids), sum(part.n for part in self.fingerprint)
        first = ", ".join(f"{i}" for i in self.ids[:_SHOWN]) + (", ..." if k > _SHOWN else "")
        unused = f", {self.zeros:,} of weight 0" if self.zeros else ""
        random = f"{self.mmd_random:.3g} +- {self.mmd_random_spread:.1g}"
        return "\n".join(
            [
                f"HerdResult({self.status.name}: {self.status.value})",
                f"  rows     {k:,} of {n:,}, effective {self.ess:,.6g}{unused}: {first}",
                f"  mmd      {self._quality()} ({random})",
                *self._within(),
                f"  on       {self.reference}",
                f"  cost     {self._cost()}; evaluation {self.evaluation_seconds:.3g} s",
                f"  in       {self.space}",
            ]
        )


def _read(stored: store.Stored) -> HerdResult:
    params, n = stored.params, stored.shape[0]
    mmd, random, spread, *costs = stored.array("numbers", np.float64, (6,)).tolist()
    seconds, evaluation, passes = (number(cost, "numbers", low=0.0) for cost in costs)
    ids = stored.array("ids", np.int64, (None,), low=0, high=n - 1)
    weights = stored.array("weights", np.float64, ids.shape, low=0.0, high=1.0 + WEIGHTS)
    require(abs(weights.sum() - 1.0) <= WEIGHTS, "weights", "of sum 1", weights.sum())
    sizes = stored.array("curve_sizes", np.int64, (None,), low=0)
    labels = stored.arrays.get("labels")
    require(labels is None or labels.shape == ids.shape, "labels", "one for each row", labels)
    return HerdResult(
        ids=ids,
        weights=weights,
        mmd=mmd,
        mmd_random=random,
        mmd_random_spread=spread,
        reference=str(params["reference"]),
        seconds=seconds,
        evaluation_seconds=evaluation,
        passes=passes,
        scored=count(params["scored"], "scored"),
        status=Status[params["status"]],
        trace=Trace.read(stored),
        kernel=loaded_kernel(params["kernel"]),
        space=str(params["space"]),
        labels=labels,
        mmd_by=None if "mmd_by" not in stored.arrays else _read_by(stored, labels),
        fingerprint=stored.fingerprint,
        measured=Curve(
            sizes, *(stored.array(f"curve_{name}", np.float64, sizes.shape) for name in ("mmd", "random"))
        ),
        record=loaded_record(params["record"], stored, len(ids)),
    )


def _read_by(stored: store.Stored, labels: NDArray[Any] | None) -> Vector:
    distinct = 0 if labels is None else len(np.unique(labels))
    return stored.array("mmd_by", np.float64, (distinct,), low=0.0)
