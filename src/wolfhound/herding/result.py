"""What `herd` gives back: the atoms, their weights, how good they are, the cost; and how to go on."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wolfhound import plot
from wolfhound.atoms import Fingerprint, as_atoms
from wolfhound.codec import WEIGHTS, Array, Codec, Columns, Json, Scalar, check_weights
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Status, Vector
from wolfhound.encoding import TableAtoms, TableReport
from wolfhound.herding.evaluation import Curve
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.picture import draw_herd
from wolfhound.herding.session import Callback, resume
from wolfhound.herding.settings import HerdSettings
from wolfhound.markup import HasSummary, Summary
from wolfhound.result import TRACE, Trace, make_frame
from wolfhound.validate import kind, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = 2000  # atoms that a picture shows

_SHOWN = 8


class Session(Protocol):
    """What a result keeps in memory to go on; lost when it is saved or pickled."""

    @property
    def atoms(self) -> Atoms:
        """What was herded."""

    @property
    def table(self) -> TableAtoms | None:
        """The table that it was."""

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m atoms; return the fields of the result."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HerdResult(HasSummary):
    """Few weighted atoms that stand for many, and how well they do.

    Attributes
    ----------
    ids : (k,) int64
        The atoms in the order of their picks, those of `start` first. k = m, less if a limit
        came first; in a feature space repeated picks are merged.
    weights : (k,)
        Their weights, >= 0 with sum 1.
    mmd : float
        Maximum mean discrepancy of the weighted atoms, in the true kernel, on the data of
        `reference`; nan if it was not evaluated.
    mmd_random, mmd_random_spread : float
        Mean and standard deviation of the MMD of random subsets of as many
        atoms, equally weighted, on the same data.
    reference : str
        What the MMD was measured on, and how many random subsets there were.
    seconds, evaluation_seconds : float
        Time to pick the atoms, and to measure how good they are.
    passes : float
        Passes over all atoms to pick them.
    scored : int
        Kernel values or features that were needed per atom: the machine-independent cost.
    status : Status
        Why the run ended.
    trace : Trace
        Every state on the way; `value` is half the squared MMD to the embedding.
    space : str
        The kernel or the feature space in words.
    curve : Curve
        MMD of the first atoms against their number, with random: `sizes, mmd, random`.
        Empty if it was not evaluated.
    labels : (k,), optional
        Labels of the atoms.
    mmd_by : (labels,), optional
        MMD within each label of ``np.unique(labels)``, against all atoms of the label (a
        calibrated sample of more than 10,000), in the order of these labels.
    fingerprint : Fingerprint
        Of all atoms.
    settings : HerdSettings, optional
        What decided the run; None in a feature space, and for a saved kernel that is
        in no table.
    table : TableReport, optional
        What became of the rows and columns, where a table was given.
    target_table : TableReport, optional
        The same of the target.
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
    space: str
    curve: Curve
    labels: NDArray[Any] | None = None
    mmd_by: Vector | None = None
    fingerprint: Fingerprint = ()
    settings: HerdSettings | None = None
    table: TableReport | None = None
    target_table: TableReport | None = None
    session: Session | None = None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel, with its lengthscale; None where there are no settings."""
        return None if self.settings is None else self.settings.kernel

    @property
    def ess(self) -> float:
        """Effective sample size, ``1 / sum(weights ** 2)``."""
        return 1.0 / float(self.weights @ self.weights)

    @property
    def zeros(self) -> int:
        """Atoms of weight 0: fitted weights can do without them."""
        return int((self.weights == 0.0).sum())

    @property
    def gain(self) -> float:
        """``mmd_random / mmd``: how many times closer than random; nan if one is not known, or 0."""
        return self.mmd_random / self.mmd if min(self.mmd, self.mmd_random) > 0.0 else math.nan

    @property
    def success(self) -> bool:
        """Whether all m atoms were picked."""
        return self.status.success

    @property
    def message(self) -> str:
        """Why the run ended, how good the atoms are and what it cost."""
        return f"{self.status.value}: {_describe_quality(self)} after {_describe_cost(self)}"

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is to be known of tables that were given: (subject, sentence)."""
        goal = () if self.target_table is None else self.target_table.notes
        gone = tuple(("target", text) for subject, text in goal if subject == "missing")
        return (() if self.table is None else self.table.notes) + gone

    @property
    def frame(self) -> Any:
        """The chosen rows with `id` and `weight`, as the kind of table that was given; of files, pandas."""
        table = getattr(self.session, "table", None)
        if table is None:
            what = "a table that was given, in this process: atoms of arrays, and saved results, have none"
            raise ValueError(f"`frame` needs {what}. Take rows by `ids`.")
        return table.take_rows(self.ids, id=self.ids, weight=self.weights)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per pick: id, weight, and label if there are any."""
        labels = {} if self.labels is None else {"label": self.labels}
        return make_frame({"id": self.ids, "weight": self.weights, **labels})

    def extend(
        self,
        m: int,
        *,
        atoms: AtomsLike | None = None,
        target: AtomsLike | None = None,
        by: ArrayLike | str | Sequence[str] | None = None,
        row_weights: ArrayLike | None = None,
        max_seconds: float = math.inf,
        callback: Callback | None = None,
    ) -> HerdResult:
        """Return a result with m atoms that begins with these.

        The same as one run with m atoms and as many `candidates`, if neither
        swapped nor weighted. Swaps and weights are made anew.

        Parameters
        ----------
        m
            Atoms in all; at most the candidates of the first run.
        atoms, target, by, row_weights
            What `herd` was given, needed if this was loaded or pickled; checked to be the same.
        max_seconds, callback
            As in `herd`.

        Examples
        --------
        >>> from wolfhound import herd
        >>> rows = np.linspace(0.0, 1.0, 50)[:, None]
        >>> np.array_equal(herd(rows, 4).extend(8).ids, herd(rows, 8).ids)
        True
        """
        session, given = self.session, {"target": target, "by": by, "row_weights": row_weights}
        for name, value in given.items():
            require(value is None or atoms is not None, "atoms", f"given where `{name}` is", None)
        if atoms is not None or session is None:
            if self.settings is None:
                how = "call herd with its ids as `start`"
                raise ValueError(f"a loaded result in {self.space} cannot go on: {how}.")
            session = resume(self.settings, self.ids, self.fingerprint, atoms, **given)
        return HerdResult(**session.extend(m, max_seconds=max_seconds, callback=callback))

    def plot(
        self, path: str | Path | None = None, *, atoms: AtomsLike | None = None, title: str | None = None
    ) -> Figure:
        """Draw the MMD against the number of atoms, and the chosen among the others.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        atoms
            What `herd` was given, for the second panel if the result was loaded.
        title
            Heading; by default the space and the gain over random.
        """
        if title is not None:
            kind(title, "title", "a string", str)
        chosen = sample = None
        table = atoms if isinstance(atoms, TableAtoms) else self.session.table if self.session else None
        given = as_atoms(atoms) if atoms is not None else self.session.atoms if self.session else None
        if given is not None:
            sample, chosen = take_drawn(given, self.ids, table)
        figure = draw_herd(
            sizes=self.curve.sizes.astype(np.float64),
            mmd=self.curve.mmd,
            last=self.mmd,
            random=self.curve.random,
            sample=sample,
            chosen=chosen,
            weights=self.weights,
            labels=self.labels,
            title=f"{self.space}: {_describe_quality(self)}" if title is None else title,
        )
        return plot.keep(figure, path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `wolfhound.load` reads."""
        CODEC.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> HerdResult:
        """Read a result that `save` wrote.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            Atoms, an array or a path. If given, must be those of the run.

        Raises
        ------
        StoreError
            If the file is damaged, or holds what no run can have given; or of other atoms.
        """
        return CODEC.load(path, atoms)

    def summary(self) -> Summary:
        """Return quality, cost and the first atoms."""
        return _describe(self)


def take_drawn(atoms: Atoms, ids: Ids, table: TableAtoms | None = None) -> tuple[Matrix, Matrix]:
    """Rows for a picture: some of all, and the chosen; with a table, ids are of its rows."""
    n = atoms.shape[0]
    ids = ids if table is None else table.find_places(ids, "ids")
    require(bool(ids.max() < n), "atoms", "the atoms that were herded", f"{n} atoms")
    some = np.random.default_rng(0).choice(n, min(n, _DRAWN), replace=False)
    return atoms.take(some), atoms.take(ids)


def _describe(result: HerdResult) -> Summary:
    k, n = len(result.ids), sum(part.n for part in result.fingerprint)
    first = ", ".join(f"{i}" for i in result.ids[:_SHOWN]) + (", ..." if k > _SHOWN else "")
    unused = f", {result.zeros:,} of weight 0" if result.zeros else ""
    random = f"{result.mmd_random:.3g} +- {result.mmd_random_spread:.1g}"
    by, within = [], result.mmd_by
    if within is not None and result.labels is not None:
        worst = np.unique(result.labels)[within.argmax()]
        spread = f"{within.min():.3g} .. {within.max():.3g} ({worst})"
        by = [("by", f"{len(within):,} labels, MMD within them {spread}")]
    lines = (
        ("atoms", f"{k:,} of {n:,}, effective {result.ess:,.6g}{unused}: {first}"),
        ("mmd", f"{_describe_quality(result)} ({random})"),
        *by,
        *result.notes,
        ("on", result.reference),
        ("cost", f"{_describe_cost(result)}; evaluation {result.evaluation_seconds:.3g} s"),
        ("in", result.space),
    )
    return Summary(f"HerdResult({result.status.name}: {result.status.value})", lines)


def _describe_quality(result: HerdResult) -> str:
    if math.isnan(result.mmd):
        return "MMD not evaluated"
    known = not math.isnan(result.gain)
    against = f"{result.gain:.3g} times closer than random" if known else f"random {result.mmd_random:.3g}"
    return f"MMD {result.mmd:.3g}, {against}"


def _describe_cost(result: HerdResult) -> str:
    passes = f"{result.passes:.3g} {'pass' if result.passes == 1 else 'passes'}"
    return f"{result.seconds:.3g} s, {passes}, {result.scored:,} atoms scored"


# ---------------------------------------------------------------- saved


def _check(result: HerdResult) -> None:
    check_weights(result.weights)
    if result.mmd_by is not None:
        distinct = 0 if result.labels is None else len(np.unique(result.labels))
        require(len(result.mmd_by) == distinct, "mmd_by", f"one for each of {distinct} labels", result.mmd_by)
    if result.settings is not None:
        k, n = len(result.ids), sum(part.n for part in result.fingerprint)
        require(result.settings.held <= k, "held", f"<= {k}", result.settings.held)
        require(bool((result.settings.exclude < n).all()), "exclude", f"ids in [0, {n})", "others")


CODEC = Codec(
    "herd",
    HerdResult,
    {
        "ids": Array(shape=("k",), dtype=np.int64, low=0, below="n"),
        "weights": Array(shape=("k",), low=0.0, high=1.0 + WEIGHTS),
        "labels": Array(shape=("k",), dtype=None, optional=True),
        "mmd_by": Array(shape=("labels",), low=0.0, optional=True),
        "mmd": Scalar.NUMBER,
        "mmd_random": Scalar.NUMBER,
        "mmd_random_spread": Scalar.NUMBER,
        "seconds": Scalar.COST,
        "evaluation_seconds": Scalar.COST,
        "passes": Scalar.COST,
        "scored": Scalar.COUNT,
        "status": Scalar.STATUS,
        "reference": Scalar.TEXT,
        "space": Scalar.TEXT,
        "trace": TRACE,
        "curve": Columns(
            Curve,
            {
                "sizes": Array(shape=("sizes",), dtype=np.int64, low=0),
                "mmd": Array(shape=("sizes",)),
                "random": Array(shape=("sizes",)),
            },
        ),
        "settings": Json(lambda settings: settings and settings.to_json(), HerdSettings.from_json),
        **dict.fromkeys(
            ("table", "target_table"),
            Json(lambda table: table and table.to_json(), TableReport.from_json, optional=True),
        ),
    },
    _check,
)
"""How results are saved."""
