"""What a run over policies gives back: the policy, its worth, and what is proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from wolfhound import plot
from wolfhound._brief import known
from wolfhound.atoms import Fingerprint
from wolfhound.codec import FINITE, WEIGHTS, Array, Codec, Scalar
from wolfhound.core import AtomsLike, Ids, Status, Vector
from wolfhound.markup import HasSummary, Summary
from wolfhound.result import TRACE, Trace
from wolfhound.rounding import norm
from wolfhound.validate import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TabularResult(HasSummary):
    """The best policy of a run; see `fwpo`.

    Attributes
    ----------
    policy : (S, d)
        One action per state, ``sum_j weights[s, j] atoms[ids[s, j]]``.
    ids, weights : (S, k)
        The atoms of every action, by decreasing weight, padded with -1 and 0.
    values : (S,)
        V(s).
    score : float
        J, a proved lower bound on the worth of the policy.
    upper : float
        Proved upper bound on the best J of all policies, inf if none.
    gaps : (S,)
        What the oracle found in each state, ``max(ghat, 0)``; inf before the first query.
    bounds : (S,)
        Proved upper bounds on the gaps, inf where there are none.
    status : Status
        Why the run ended.
    goal, atol : float
        The wanted ``upper - score`` and the wanted root of the sum of squared gaps.
    steps : int
        Steps taken.
    passes, scored, seconds
        What it cost.
    trace : Trace
        Every state on the way; its value is -J, its lower is -upper.
    measures : (states,)
        Root of the sum of squared gaps, in the order of `trace`; nan before the
        first query. Where nothing is proved it rests on the oracle's share `ratio`.
    fingerprint : Fingerprint
        Of the atoms.
    problem, method : str
        What was solved, and how.
    """

    policy: Vector
    ids: Ids
    weights: Vector
    values: Vector
    score: float
    upper: float
    gaps: Vector
    bounds: Vector
    status: Status
    goal: float
    atol: float
    steps: int
    passes: float
    scored: int
    seconds: float
    trace: Trace
    measures: Vector
    fingerprint: Fingerprint = ()
    problem: str = ""
    method: str = ""

    @property
    def gap(self) -> float:
        """``upper - score``: no policy is better by more than this."""
        return self.upper - self.score

    @property
    def J(self) -> float:  # noqa: N802 - the letter of the paper
        """The same as `score`."""
        return self.score

    @property
    def scores(self) -> Vector:
        """(states,) J along the trace."""
        return -self.trace.value

    @property
    def success(self) -> bool:
        """Whether the run did what was asked."""
        return self.status.success

    @property
    def message(self) -> str:
        """Why the run ended and what it cost, in one sentence."""
        return f"{self.status.value}: J {self.score:.6g} after {self.steps:,} steps, {self._cost()}"

    def plot(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> Figure:
        """Draw J, the upper bound and their gap against passes and seconds.

        Parameters
        ----------
        path
            Where to write the picture; its ending chooses the format.
        title
            Heading; by default the method and J.
        """
        figure = plot.draw_convergence(
            passes=self.trace.passes,
            seconds=self.trace.seconds,
            value=self.trace.value,
            lower=self.trace.lower,
            goal=self.goal,
            title=f"{self.method}, J {self.score:.4g}" if title is None else title,
        )
        # The trace minimises -J: turn the axis over, so that better is higher.
        for axes in figure.axes[:2]:
            axes.yaxis.set_major_formatter(lambda value, _: f"{-value:g}")
        figure.axes[0].invert_yaxis()
        figure.axes[0].set_ylabel("J")
        figure.axes[1].legend(figure.axes[1].lines, ["J", "upper bound (proved)"], frameon=False)
        return plot.keep(figure, path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `wolfhound.load` reads; it must be new, or hold a policy."""
        CODEC.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> TabularResult:
        """Read a policy that `save` wrote; see `wolfhound.load`.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            Atoms, an array or a path. If given, must be the atoms of the run, else
            StoreError is raised.
        """
        return CODEC.load(path, atoms)

    def _cost(self) -> str:
        passes = f"{self.passes:.3g} {'pass' if self.passes == 1 else 'passes'}"
        return f"{passes}, {self.scored:,} atoms scored, {self.seconds:.3g} s"

    def gaps_text(self) -> str:
        """Return the largest gap of a state and the root of their squares, in words."""
        if not np.isfinite(self.gaps).all():
            return "not known"
        return f"largest {self.gaps.max():.3g}, root of squares {norm(self.gaps):.3g}"

    def summary(self) -> Summary:
        """Return J, what is proved, and the cost."""
        states, dim = self.policy.shape
        support = int((self.weights > 0.0).sum(axis=1).max())
        proved = f"{int(np.isfinite(self.bounds).sum()):,} of {states:,} states proved"
        lines = (
            ("J", f"{self.score:.9g}"),
            ("upper", known(self.upper, ".9g")),
            ("gap", f"{known(self.gap)} (goal {known(self.goal)})"),
            ("gaps", f"{self.gaps_text()} (goal {known(self.atol)}), {proved}"),
            ("cost", f"{self._cost()}, {self.steps:,} steps"),
            ("policy", f"{states:,} states, actions of {dim} entries, at most {support} atoms each"),
            ("of", f"{self.problem} by {self.method}"),
        )
        return Summary(f"TabularResult({self.status.name}: {self.status.value})", lines)


def _check(result: TabularResult) -> None:
    require(result.score <= result.upper, "score", f"<= {result.upper}", result.score)
    require(result.policy.size > 0, "policy", "of one state at least", "none")


CODEC = Codec(
    "policy",
    TabularResult,
    {
        "policy": Array(shape=("S", "d"), low=-FINITE, high=FINITE),
        "ids": Array(shape=("S", "k"), dtype=np.int64, low=-1, below="n"),
        "weights": Array(shape=("S", "k"), low=0.0, high=1.0 + WEIGHTS),
        "values": Array(shape=("S",)),
        "gaps": Array(shape=("S",), low=0.0),
        "bounds": Array(shape=("S",), low=0.0),
        "score": Scalar.NUMBER,
        "upper": Scalar.NUMBER,
        "goal": Scalar.NUMBER,
        "atol": Scalar.NUMBER,
        "passes": Scalar.COST,
        "seconds": Scalar.COST,
        "steps": Scalar.COUNT,
        "scored": Scalar.COUNT,
        "status": Scalar.STATUS,
        "problem": Scalar.TEXT,
        "method": Scalar.TEXT,
        "trace": TRACE,
        "measures": Array(shape=("states",)),
    },
    _check,
)
"""How policies are saved."""
