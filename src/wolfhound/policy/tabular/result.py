"""What a run over policies gives back: the policy, its worth, and what is proved."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wolfhound.core.contracts import Ids, Status, Vector
from wolfhound.core.rounding import norm
from wolfhound.core.text import cost_text, finite_text, seconds_text
from wolfhound.core.validate import require
from wolfhound.data.atoms import Fingerprint
from wolfhound.data.codec import FINITE, WEIGHTS, Array, Codec, HasCodec, Scalar
from wolfhound.show.markup import Atom, Field, Grid, RunResult, Summary, pick
from wolfhound.solve.result import LISTED, TRACE, Trace, picture_trace, tell_trace

_TOP = 4  # atoms of a state that a table shows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TabularResult(HasCodec, RunResult):
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
    def message(self) -> str:
        """Why the run ended and what it cost, in one sentence."""
        cost = cost_text(self.passes, self.scored, self.seconds)
        return f"{self.status.value}: J {self.score:.6g} after {self.steps:,} steps, {cost}"

    def summary(self) -> Summary:
        """Return J, what is proved, and the cost."""
        return Summary.of_run(
            "TabularResult",
            self.status,
            fields=self._list_fields(),
            tables=(self._list_states(),),
            meaning="J is the expected sum of discounted rewards; no policy has more than the upper bound.",
            title="The best policy",
            message=self.message,
            caption=f"{self.method}, J {self.score:.4g}",
            pictures=lambda: picture_trace(self.trace, goal=self.goal, names=("J", "upper bound")),
            details=lambda: tell_trace(self.trace, self.fingerprint, self.seconds),
        )

    def _list_fields(self) -> tuple[Field, ...]:
        states, dim = self.policy.shape
        support = int((self.weights > 0.0).sum(axis=1).max())
        proved = f"{int(np.isfinite(self.bounds).sum()):,} of {states:,} states proved"
        gaps, root = "not known", math.inf
        if np.isfinite(self.gaps).all():
            root = norm(self.gaps)
            gaps = f"largest {self.gaps.max():.3g}, root of squares {root:.3g}"
        gap = finite_text(self.gap)
        return (
            Field("J", f"{self.score:.9g}", {"J": self.score}, ("J", f"{self.score:.6g}")),
            Field("upper", finite_text(self.upper, ".9g"), {"upper": self.upper}),
            Field(
                "gap",
                f"{gap} (goal {finite_text(self.goal)})",
                pick(self, "gap", "goal"),
                ("proved gap", gap),
            ),
            Field(
                "gaps",
                f"{gaps} (goal {finite_text(self.atol)}), {proved}",
                {"gap_norm": root, "atol": self.atol},
            ),
            Field(
                "cost",
                f"{cost_text(self.passes, self.scored, self.seconds)}, {self.steps:,} steps",
                pick(self, "steps", "passes", "scored", "seconds"),
                ("time", seconds_text(self.seconds)),
            ),
            Field(
                "policy",
                f"{states:,} states, actions of {dim} entries, at most {support} atoms each",
                tile=("states", f"{states:,}"),
            ),
            Field("of", f"{self.problem} by {self.method}", pick(self, "problem", "method")),
        )

    def _list_states(self) -> Grid:
        rows = []
        for state, each in enumerate(self._mixtures(LISTED)):
            numbers = f"{self.values[state]:.6g}", finite_text(self.gaps[state], ".2g"), f"{len(each)}"
            rows.append((f"{state}", *numbers, tuple((Atom(i), weight) for i, weight in each[:_TOP])))
        headings = ("state", "V(s)", "gap", "atoms", "largest weights")

        def record() -> list[dict[str, object]]:
            every = ([*zip(*mixture, strict=True)] for mixture in self._mixtures(len(self.policy)))
            return [{"atoms": list(ids), "weights": list(weights)} for ids, weights in every]

        return Grid("The states", headings, rows, (0, 4), len(self.policy), "policy", record)

    def _mixtures(self, most: int) -> Iterator[tuple[tuple[int, float], ...]]:
        """Atoms and weights of the first states."""
        for ids, weights in zip(self.ids[:most], self.weights[:most], strict=True):
            yield tuple(zip(ids[ids >= 0].tolist(), weights[ids >= 0].tolist(), strict=True))


def _check(result: TabularResult) -> None:
    require(result.score <= result.upper, "score", f"<= {result.upper}", result.score)
    require(result.policy.size > 0, "policy", "of one state at least", "none")


TabularResult.codec = Codec(
    "policy",
    TabularResult,
    {
        "policy": Array(shape=("S", "d"), low=-FINITE, high=FINITE),
        "ids": Array(shape=("S", "k"), dtype=np.int64, low=-1, below="n"),
        "weights": Array(shape=("S", "k"), low=0.0, high=1.0 + WEIGHTS),
        "values": Array(shape=("S",)),
        "gaps": Array(shape=("S",), low=0.0),
        "bounds": Array(shape=("S",), low=0.0),
        **dict.fromkeys(("score", "upper", "goal", "atol"), Scalar.NUMBER),
        **dict.fromkeys(("passes", "seconds"), Scalar.COST),
        **dict.fromkeys(("steps", "scored"), Scalar.COUNT),
        "status": Scalar.STATUS,
        **dict.fromkeys(("problem", "method"), Scalar.TEXT),
        "trace": TRACE,
        "measures": Array(shape=("states",)),
    },
    _check,
)
