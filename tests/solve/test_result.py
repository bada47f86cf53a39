"""Results sort themselves, explain themselves, and survive disk and pickle."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfhound.catalogue.loading import load
from wolfhound.core.contracts import Status
from wolfhound.data import store
from wolfhound.data.atoms import ArrayAtoms, fingerprint
from wolfhound.data.store import StoreError
from wolfhound.solve.result import Result, Trace, TraceRow

ATOMS = ArrayAtoms(np.arange(24.0).reshape(8, 3))
ROWS = [
    TraceRow(0, 9.0, -math.inf, 0.0, 0, 0.01, math.nan, "start"),
    TraceRow(1, 5.0, 1.0, 1.0, 8, 0.02, 0.5, "pass"),
    TraceRow(2, 4.0, 3.5, 1.5, 12, 0.05, math.nan, "forward"),
]


def make(
    *,
    ids: tuple[int, ...] = (5, 1, 3),
    weights: tuple[float, ...] = (0.2, 0.3, 0.5),
    names: tuple[str, ...] | None = ("five", "one", "three"),
    status: Status = Status.GAP_REACHED,
) -> Result:
    """Return a small result."""
    return Result(
        x=np.array([1.0, 2.0, 3.0]),
        ids=np.array(ids, np.int64),
        weights=np.array(weights),
        value=4.0,
        lower=3.5,
        status=status,
        goal=0.75,
        steps=2,
        passes=1.5,
        scored=12,
        seconds=0.0625,
        trace=Trace.of(ROWS),
        names=names,
        fingerprint=fingerprint(ATOMS),
        objective="SquaredDistance(d=3)",
        method="FullyCorrective()",
    )


def assert_same(a: Result, b: Result) -> None:
    """Compare every field, nan equal to nan."""
    for name in ("x", "ids", "weights"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in TraceRow._fields:
        np.testing.assert_array_equal(getattr(a.trace, name), getattr(b.trace, name))
        assert getattr(a.trace, name).dtype == getattr(b.trace, name).dtype
    np.testing.assert_array_equal([a.value, a.lower, a.goal], [b.value, b.lower, b.goal])
    for name in ("status", "steps", "passes", "scored", "seconds", "names", "objective", "method"):
        assert getattr(a, name) == getattr(b, name)


# ---------------------------------------------------------------- trace


def test_trace_has_a_column_per_field() -> None:
    trace = Trace.of(ROWS)
    assert len(trace) == 3
    np.testing.assert_array_equal(trace.gap, [math.inf, 4.0, 0.5])
    assert trace.t.dtype == trace.scored.dtype == np.int64
    assert trace.kind.tolist() == ["start", "pass", "forward"]


def test_a_trace_is_iterated_by_rows() -> None:
    trace = Trace.of(ROWS)
    assert len(trace) == len(ROWS)
    assert repr(list(trace)) == repr(ROWS)  # a nan is not equal to itself
    assert list(Trace.of([])) == []


def test_a_trace_becomes_a_table() -> None:
    frame = Trace.of(ROWS).to_frame()
    assert frame.columns.tolist() == [*TraceRow._fields, "gap"]
    assert frame["kind"].tolist() == [row.kind for row in ROWS]
    assert frame["gap"].tolist() == [row.value - row.lower for row in ROWS]


def test_a_table_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install \"wolfhound\[data\]\""):
        Trace.of(ROWS).to_frame()


def test_trace_may_be_empty() -> None:
    trace = Trace.of([])
    assert len(trace) == 0
    assert trace.gap.shape == (0,)
    assert trace.t.dtype == np.int64


def test_trace_gap_of_infinities_is_quiet() -> None:
    trace = Trace.of([ROWS[0]._replace(value=-math.inf)])
    assert np.isnan(trace.gap).all()


def test_trace_refuses_columns_of_unequal_length() -> None:
    with pytest.raises(ValueError, match="`trace` must be columns of equal length"):
        replace(Trace.of(ROWS), value=np.zeros(2))


# ---------------------------------------------------------------- result


def test_active_atoms_are_sorted_with_their_names() -> None:
    result = make()
    np.testing.assert_array_equal(result.ids, [3, 1, 5])
    np.testing.assert_array_equal(result.weights, [0.5, 0.3, 0.2])
    assert result.names == ("three", "one", "five")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.1, 0.2, 0.3])), unique_by=lambda pair: pair[0])
)
def test_order_is_by_weight_then_id(pairs: list[tuple[int, float]]) -> None:
    result = make(
        ids=tuple(i for i, _ in pairs),
        weights=tuple(w for _, w in pairs),
        names=tuple(str(i) for i, _ in pairs),
    )
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    assert [(atom.id, atom.weight) for atom in result.top(len(pairs))] == expected
    assert [atom.name for atom in result.top(len(pairs))] == [str(i) for i, _ in expected]


def test_top_gives_plain_records() -> None:
    assert make().top(2) == [(3, "three", 0.5), (1, "one", 0.3)]
    assert make(names=None).top(1) == [(3, None, 0.5)]
    assert len(make().top(99)) == make().support == 3
    with pytest.raises(ValueError, match="`k` must be"):
        make().top(-1)


@pytest.mark.parametrize("status", Status)
def test_gap_success_and_message(status: Status) -> None:
    result = make(status=status)
    assert result.gap == 0.5
    assert result.success is status.success
    assert result.message == (
        f"{status.value}: gap 0.5 (goal 0.75) after 1.5 passes, 12 atoms scored, 0.0625 s"
    )


def test_repr_says_what_matters() -> None:
    text = repr(make())
    assert text.splitlines()[0] == "Result(GAP_REACHED: the proved gap is at most the goal)"
    assert len(text.splitlines()) == 7
    parts = ["4", "3.5", "0.5 (goal 0.75)", "1.5 passes", "2 steps", "3 atoms: three 0.500, one 0.300, five"]
    assert [part for part in parts if part not in text] == []
    assert "#3 0.500" in repr(make(names=None))


def test_wrong_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`weights` must be of length 3\. Got length 1"):
        make(weights=(1.0,))
    with pytest.raises(ValueError, match=r"`names` must be 3 names, one per active atom\. Got 1"):
        make(names=("one",))


@pytest.mark.slow
def test_plot_draws_the_trace_and_saves(tmp_path: Path) -> None:
    result = make()
    figure = result.plot(tmp_path / "run.png")
    np.testing.assert_array_equal(figure.axes[0].get_lines()[0].get_ydata(), result.trace.value)
    assert figure.get_suptitle() == "FullyCorrective(), gap 0.5"
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert result.plot(title="mine").get_suptitle() == "mine"


# ---------------------------------------------------------------- disk and pickle


def _pickled(result: Result, folder: Path) -> Result:
    copy = pickle.loads(pickle.dumps(result))
    assert isinstance(copy, Result)
    return copy


def _stored(result: Result, folder: Path) -> Result:
    result.save(folder / "run")
    return Result.load(folder / "run")


@pytest.mark.parametrize("copy", [_pickled, _stored])
@pytest.mark.parametrize(
    "result",
    [
        make(),
        make(names=None),
        make(names=("naïve", "", "trailing\0")),
        make(ids=(), weights=(), names=()),
        make(status=Status.INTERRUPTED),
        replace(make(), value=math.inf, lower=-math.inf, goal=math.nan),
        replace(make(), trace=Trace.of([])),
    ],
)
def test_copies_are_the_same(copy: Callable[[Result, Path], Result], result: Result, tmp_path: Path) -> None:
    assert_same(copy(result, tmp_path), result)


def test_load_checks_the_atoms(tmp_path: Path) -> None:
    make().save(tmp_path / "run")
    assert_same(load(tmp_path / "run", atoms=ATOMS), make())
    with pytest.raises(
        StoreError, match=r"`atoms` must be the atoms that .*run.safetensors was made from\. Got other"
    ):
        load(tmp_path / "run", atoms=ArrayAtoms(ATOMS.rows + 1.0))


def test_a_loaded_result_can_be_saved_again(tmp_path: Path) -> None:
    make().save(tmp_path / "a")
    load(tmp_path / "a").save(tmp_path / "b")
    assert_same(load(tmp_path / "b", atoms=ATOMS), make())


def test_atoms_may_be_whatever_atoms_may_be(tmp_path: Path) -> None:
    make().save(tmp_path / "run")
    np.save(tmp_path / "rows.npy", ATOMS.rows)
    for atoms in (ATOMS.rows, ATOMS.rows.tolist(), str(tmp_path / "rows.npy"), tmp_path / "rows.npy"):
        assert_same(load(tmp_path / "run", atoms=atoms), make())


@pytest.mark.parametrize("names", [3, "abc", {"a", "b", "c"}, (1, 2, 3), ("a", "b", None)])
def test_names_are_a_sequence_of_strings(names: Any) -> None:
    with pytest.raises(TypeError, match=r"`names` must be a sequence of strings\. Got "):
        make(names=names)


FORGED: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "ids out of range": lambda arrays, _: arrays.update(ids=arrays["ids"] + 10**15),
    "ids twice": lambda arrays, _: arrays.update(ids=np.zeros_like(arrays["ids"])),
    "negative weights": lambda arrays, _: arrays.update(weights=-arrays["weights"]),
    "large weights": lambda arrays, _: arrays.update(weights=3.0 * arrays["weights"]),
    "nan weights": lambda arrays, _: arrays.update(weights=np.full(3, np.nan)),
    "fewer weights": lambda arrays, _: arrays.update(weights=arrays["weights"][:2]),
    "an infinite point": lambda arrays, _: arrays.update(x=np.full(3, np.inf)),
    "a short point": lambda arrays, _: arrays.update(x=np.zeros(2)),
    "a lower bound above": lambda arrays, _: arrays["numbers"].__setitem__(1, 9.0),
    "no lower bound": lambda arrays, _: arrays["numbers"].__setitem__(1, np.nan),
    "fewer numbers": lambda arrays, _: arrays.update(numbers=arrays["numbers"][:3]),
    "a short trace": lambda arrays, _: arrays.update(trace_value=np.zeros(1)),
    "a trace of text": lambda arrays, _: arrays.update(trace_value=arrays["trace_kind"]),
    "no trace": lambda arrays, _: arrays.pop("trace_t"),
    "an unknown status": lambda _, params: params.update(status="PROVED"),
    "names of numbers": lambda _, params: params.update(names=[1, 2, 3]),
    "one name": lambda _, params: params.update(names=["one"]),
    "steps of text": lambda _, params: params.update(steps="2"),
    "no method": lambda _, params: params.pop("method"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FORGED)
def test_what_no_run_can_have_given_is_refused(how: str, tmp_path: Path) -> None:
    make().save(tmp_path / "run")
    stored = store.load(tmp_path / "run", "result")
    arrays, params = dict(stored.arrays), dict(stored.params)
    FORGED[how](arrays, params)
    store.save(tmp_path / "run", "result", arrays, params, stored.fingerprint)
    with pytest.raises(StoreError, match=r"run.safetensors is damaged: "):
        load(tmp_path / "run")
