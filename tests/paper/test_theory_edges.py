"""Formulas at the edges of float64: a number that is no nan, or one ValueError that names the argument."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfhound.oracles.indexes import Speeds
from wolfhound.paper import theory, transforms
from wolfhound.paper.adaptive import plan_adaptive
from wolfhound.paper.transforms import polynomial_dim, projection_dim
from wolfhound.planning.plan import plan
from wolfhound.policy.tabular.steps import policy_steps

EDGES = [0.0, 5e-324, 2.3e-308, 1e-300, 1e-160, 1e-17, 1e-9, 0.1, 0.5, 0.5 + 2**-53, 0.9, 1.0 - 2**-53, 1.0]
LARGE = [1.0 + 2**-52, 2.0, 1e9, 2.0**53, 1e160, 1e300, 1.7e308, math.inf]
SIZES = [0, 1, 2, 3, 10, 100, 2**31, 2**53 + 1, 2**62, 2**63, 10**19, 10**300, 10**320]

floats = st.sampled_from([*EDGES, *LARGE, *(-x for x in EDGES + LARGE), math.nan]) | st.floats()
counts = st.sampled_from(SIZES) | st.integers(-1, 2**64)
OF_TYPE = {"int": counts, "float": floats, "bool": st.booleans(), "Regime": st.sampled_from(theory.Regime)}

FORMULAS = {
    name: formula
    for name, formula in vars(theory).items()
    if inspect.isfunction(formula) and formula.__module__ == theory.__name__ and not name.startswith("_")
}
OTHERS = {each.__name__: each for each in (projection_dim, polynomial_dim, plan_adaptive, policy_steps)}


def arguments(formula: Callable[..., Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw all arguments of a function, by their types."""
    types = {name: each.annotation for name, each in inspect.signature(formula).parameters.items()}
    return st.fixed_dictionaries({name: OF_TYPE[kind] for name, kind in types.items()})


def numbers(answer: Any) -> Iterator[float]:
    """All numbers of an answer."""
    parts = astuple(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer
    yield from parts if isinstance(parts, tuple) else (parts,)


def outcome(formula: Callable[..., Any], given: dict[str, Any]) -> str:
    """What a call comes to: a number, or an error that names an argument of the call."""
    try:
        answer = list(numbers(formula(**given)))
    except ValueError as error:
        return next((name for name in given if f"`{name}` must be" in str(error)), str(error))
    return "nan" if any(part != part for part in answer) else "a number"  # noqa: PLR0124 - only nan differs


@pytest.mark.parametrize("name", sorted(FORMULAS | OTHERS))
@settings(max_examples=400)
@given(data=st.data())
def test_every_formula_answers_or_names_what_is_wrong(name: str, data: st.DataObject) -> None:
    formula = (FORMULAS | OTHERS)[name]
    given = data.draw(arguments(formula))
    assert outcome(formula, given) in {"a number", *given}


PLANNED = {
    "n": counts,
    "d": counts,
    "ratio": st.none() | floats,
    "tau": st.none() | floats,
    "queries": counts,
}


@pytest.mark.slow
@settings(max_examples=100)
@given(st.fixed_dictionaries({}, optional=PLANNED))
def test_a_plan_says_what_it_costs_or_what_is_wrong(options: dict[str, Any]) -> None:
    wish = {"n": 1000, "d": 10} | options

    def text(**given: Any) -> float:
        return float(len(repr(plan(speeds=Speeds(), **given))))

    assert outcome(text, wish) in {"a number", *wish}


# ---------------------------------------------------------------- what the edges are


def test_numbers_beyond_float64_are_whole_or_inf() -> None:
    sizes = {"curvature": 1e300, "first": 1.0}
    assert theory.steps(1e-300, c=1.0, **sizes) / 10**600 == pytest.approx(2.0)
    assert theory.gap_after(0, c=1e-300, **sizes) == math.inf
    assert theory.gap_after(10**700, c=0.5, **sizes) == 0.0
    assert theory.candidates(2**62, 1e300) == math.inf
    assert projection_dim(2, 1e-300) / 10**594 == pytest.approx(projection_dim(2, 1e-3), rel=1e-2)
    assert theory.space_time(1e300, 0.0) == 0.0
    assert theory.copies_printed(2**62, 10, 1e-300, 1e300, 1e-300) == pytest.approx(10 * 2117, rel=0.01)
    assert theory.copies_printed(1, 1, 1e300, 1e-300, 0.5) == 1
    assert theory.copies(1, 0.1, cells=10**9, dim=2**62) == 9 * 2**62 + 1


def test_small_tails_are_not_rounded_away() -> None:
    near, at = theory.probed_share(0.9, 100, delta=1e-15), theory.probed_share(0.9, 100, delta=1e-17)
    assert near < at < 1.0
    assert 0.0 < theory.probed_share(1.0, 2**62) < theory.probed_share(1.0, 2**52) < 1e-20


@pytest.mark.parametrize("c", [1e-20, 1e-300, 5e-324])
def test_the_clipped_bound_rises_by_half_the_curvature_a_step_where_c_is_small(c: float) -> None:
    assert theory.gap_after_clipped(10, c=c, curvature=2.0, first=1.0) == pytest.approx(11.0)


def test_the_clipped_bound_is_that_of_its_formula() -> None:
    for c, t in ((0.3, 2), (0.3, 5), (0.3, 40), (1.0, 0), (1.0, 3), (0.01, 1000)):
        clipped = math.ceil(2 / c - 2)
        kept = (1 - c) ** min(t, clipped)
        gap = kept * 2.0 + 3.0 * (1 - kept) / (2 * c)
        late = (clipped * (clipped + 1) * gap + 2 * (t - clipped) * 3.0 / c**2) / max(1, t * (t + 1))
        assert theory.gap_after_clipped(t, c=c, curvature=3.0, first=2.0) == pytest.approx(
            late if t > clipped else gap
        )


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-160, 1.0, 1e140, 1e160, 1.7e308])
@pytest.mark.parametrize("other", [1e-300, 1.0, 1.7e308])
def test_maps_answer_or_name_what_is_too_large(size: float, other: float) -> None:
    rows, more = np.full((2, 3), size), np.full((2, 3), -other)
    calls: list[tuple[Callable[[], Any], set[str]]] = [
        (lambda: transforms.shift_query(rows, more), {"x", "grad"}),
        (lambda: transforms.policy_query(rows, more), {"pi", "grad"}),
        (lambda: transforms.sphere_query(rows, other), {"size"}),
        (lambda: transforms.paper_query(rows, more, other), {"x", "grad", "size"}),
        (lambda: transforms.paper_atom(rows, other), {"size"}),
        (lambda: transforms.polynomial_query(rows, more, [1.0, other, size]), {"a1", "a2"}),
        (lambda: transforms.polynomial_atom(rows, more, 4), {"b1", "b2"}),
        (lambda: transforms.squared_min_ip_query(rows, more, size), {"x", "direction", "alpha"}),
        (lambda: transforms.squared_min_ip_atom(rows), {"y"}),
        (lambda: transforms.regularized_min_ip(rows, more[0], rows[0], other), {"x", "direction", "alpha"}),
        (lambda: transforms.regularized_min_ip(rows, [1.0] * 3, [1.0] * 3, 1.0), {"atoms"}),
    ]
    for made, names in calls:
        assert told(made) in {"finite", *names}


def told(made: Callable[[], Any]) -> str:
    """Whether all that is made is finite, or the argument that an error names."""
    try:
        answer = made()
    except ValueError as error:
        return str(error).split("`")[1]
    return "finite" if np.isfinite(answer).all() else "not finite"


def test_sizes_that_no_machine_holds_are_refused_by_name() -> None:
    table: list[tuple[Callable[[], Any], str]] = [
        (lambda: polynomial_dim(0, 2**62, 2**62), "degree"),
        (lambda: transforms.johnson_lindenstrauss(2**62, 2**62), "dim"),
        (lambda: transforms.polynomial_query([[1.0]], [[1.0]], np.ones(200)), "coefficients"),
        (lambda: theory.lattice_side(1.0, 10**400, c=0.5), "dim"),
    ]
    for wrong, name in table:
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            wrong()
    assert transforms.norm_ranges(np.arange(5.0), 2**62)[0].tolist() == [0, 1, 2, 3, 4]
