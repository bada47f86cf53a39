"""The door: what may be given, what comes back, saved, streamed, cut short."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import wolfhound as wh
from tests.many.judge import check_proofs
from tests.many.test_gram_solver import normal
from wolfhound.core.contracts import Status
from wolfhound.data.store import StoreError
from wolfhound.many import run as runs
from wolfhound.many.result import ManyResult
from wolfhound.many.run import ManyState

Array = NDArray[Any]

ATOMS = normal(40, 5)
TARGETS = normal(12, 5, seed=1)
COLUMNS = ("indptr", "ids", "weights", "value", "lower", "goal", "codes", "passes")


def same(one: ManyResult, two: ManyResult) -> bool:
    return one.shape == two.shape and all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in COLUMNS
    )


class Unreadable:
    """Atoms that nobody may read."""

    shape, dtype = ATOMS.shape, ATOMS.dtype

    def take(self, ids: Any) -> Any:
        raise AssertionError("read")

    def blocks(self, rows: int) -> Any:
        raise AssertionError("read")


# ---------------------------------------------------------------- what is given


@pytest.mark.parametrize(
    "atoms", [ATOMS, pd.DataFrame(ATOMS).mask(np.eye(40, 5) > 0)], ids=["array", "frame"]
)
def test_masked_exclude_is_refused(atoms: Any) -> None:
    masked = np.ma.masked_equal(np.arange(24).reshape(12, 2), 3)
    with pytest.raises(TypeError, match=r"`exclude` must be .* without masked entries"):
        wh.minimize_many(TARGETS, atoms, exclude=masked)


@pytest.mark.parametrize(
    "given",
    [TARGETS.tolist(), list(TARGETS), tuple(TARGETS), pd.DataFrame(TARGETS), np.asfortranarray(TARGETS)],
    ids=["lists", "vectors", "tuple", "table", "fortran"],
)
def test_targets_of_any_kind(given: Any) -> None:
    assert same(wh.minimize_many(given, ATOMS), wh.minimize_many(TARGETS, ATOMS))


def test_a_cube_keeps_its_shape() -> None:
    result = wh.minimize_many(TARGETS.reshape(3, 4, 5), ATOMS)
    assert result.shape == (3, 4)
    assert result.to_dense().shape == (3, 4, 40)
    assert np.array_equal(result.weights, wh.minimize_many(TARGETS, ATOMS).weights)
    frame = result.to_frame()
    assert list(frame.columns[:3]) == ["row", "column", "value"]
    assert frame["column"].tolist() == [0, 1, 2, 3] * 3


def test_no_targets() -> None:
    result = wh.minimize_many(np.zeros((0, 5)), ATOMS)
    assert len(result) == 0
    assert result.indptr.tolist() == [0]
    assert "0 targets" in repr(result)
    assert result.success


def test_an_oracle_stands_for_its_atoms() -> None:
    assert same(wh.minimize_many(TARGETS, wh.Scan(ATOMS)), wh.minimize_many(TARGETS, ATOMS))


BAD = TARGETS.copy()
BAD[3, 2] = np.nan
LARGE = TARGETS.copy()
LARGE[5, 0] = 1e200
RAGGED = [TARGETS[0], TARGETS[1, :3], TARGETS[2]]


@pytest.mark.parametrize(
    ("targets", "options", "error", "text"),
    [
        (BAD, {}, ValueError, "`targets` must be finite. Got nan in target 3"),
        (LARGE, {}, ValueError, "at most 1e\\+150 in size; scale the problem. Got 1e\\+200 in target 5"),
        (RAGGED, {}, ValueError, "vectors of length 5, as wide as the atoms. Got length 3 in target 1"),
        (TARGETS[:, :4], {}, ValueError, "`targets` must be an array \\(m, 5\\)"),
        (TARGETS[0], {}, ValueError, "`targets` must be an array \\(m, 5\\)"),
        ("pixels.npy", {}, TypeError, "`targets` must be an array of real numbers"),
        (TARGETS, {"rtol": -1.0}, ValueError, "`rtol` must be"),
        (TARGETS, {"atol": "0"}, TypeError, "`atol` must be"),
        (TARGETS, {"max_atoms": 0}, ValueError, "`max_atoms` must be an integer >= 1"),
        (TARGETS, {"max_memory": 0.0}, ValueError, "`max_memory` must be a number > 0"),
        (TARGETS, {"max_seconds": -1.0}, ValueError, "`max_seconds` must be"),
        (TARGETS, {"skip": 1}, TypeError, "`skip` must be True or False"),
        (TARGETS, {"over": "yes"}, TypeError, r"`over` must be Hull\(\) or Cone\(\)"),
        (TARGETS, {"ridge": -1.0}, ValueError, "`ridge` must be a number >= 0"),
        (TARGETS, {"over": wh.Hull(cap=0.01)}, ValueError, "`cap` must be of sum >= 1"),
        (TARGETS, {"over": wh.Hull(cap=np.ones(3))}, ValueError, "`cap` must be a number, or 40 numbers"),
        (
            TARGETS,
            {"over": wh.Cone(), "max_atoms": 2},
            ValueError,
            "`max_atoms` must be left out over a cone",
        ),
        (TARGETS, {"over": wh.Hull(cap=0.5), "max_atoms": 2}, ValueError, "`max_atoms` must be left out"),
        (TARGETS, {"callback": 3}, TypeError, "`callback` must be a function of a ManyState"),
        (TARGETS, {"exclude": [40]}, ValueError, "`exclude` must be ids in \\[0, 40\\)"),
        (TARGETS, {"exclude": [[0]]}, ValueError, "`exclude` must be ids for all targets, or 12 vectors"),
        (TARGETS, {"exclude": np.full((12, 2), 3)}, ValueError, "distinct ids for each target"),
        (TARGETS, {"exclude": np.full((12, 1), 40)}, ValueError, "ids in \\[0, 40\\), padded with -1"),
        (TARGETS, {"exclude": np.zeros((3, 1), int)}, ValueError, "ids for all targets, or 12 vectors"),
        (TARGETS, {"exclude": np.zeros((12, 1))}, TypeError, "must be a vector of integer ids"),
        (TARGETS, {"exclude": range(40)}, ValueError, "`exclude` must be fewer than all atoms"),
        (TARGETS, {"out": ""}, ValueError, "`out` must be a path"),
    ],
)
def test_wrong_calls(targets: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wh.minimize_many(targets, ATOMS, **options)


@pytest.mark.parametrize(
    ("targets", "bad"), [(BAD, 3), (LARGE, 5), (RAGGED, 1)], ids=["nan", "large", "width"]
)
def test_skip_solves_the_others(targets: Any, bad: int) -> None:
    result = wh.minimize_many(targets, ATOMS, skip=True)
    good = np.setdiff1d(np.arange(len(targets)), [bad])
    alone = wh.minimize_many([targets[i] for i in good], ATOMS)
    assert result.status[bad] is Status.SKIPPED
    assert np.isnan(result.x(bad)).all()
    assert result.success  # as asked
    assert f"{len(good):,} of {len(targets):,} targets are proved" in repr(result)
    # Products of other sizes may add in another order.
    np.testing.assert_allclose(result.value[good], alone.value, rtol=1e-12, atol=1e-24)
    np.testing.assert_array_equal(result.ids, alone.ids)
    np.testing.assert_allclose(result.weights, alone.weights, rtol=1e-9)


def test_skip_targets_without_atoms() -> None:
    exclude = [list(range(40)), [], *[[1]] * 10]
    result = wh.minimize_many(TARGETS, ATOMS, exclude=exclude, skip=True)
    assert [status.name for status in result.status[:2]] == ["SKIPPED", "GAP_REACHED"]


# ---------------------------------------------------------------- what comes back


def test_points_and_columns() -> None:
    result = wh.minimize_many(TARGETS, ATOMS)
    dense = result.to_dense()
    for i in (0, 5, -1):
        np.testing.assert_allclose(result.x(i), dense[i] @ ATOMS)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0)
    np.testing.assert_allclose(result.distance, np.linalg.norm(dense @ ATOMS - TARGETS, axis=1), atol=1e-12)
    for i in range(12):
        weights = result.weights[result.indptr[i] : result.indptr[i + 1]]
        assert (np.diff(weights) <= 0.0).all()
    assert result.to_frame()["status"].tolist() == ["GAP_REACHED"] * 12
    with pytest.raises(ValueError, match="`i` must be in"):
        result.x(12)


def test_repr_counts_and_draws_a_histogram() -> None:
    text = repr(wh.minimize_many(BAD, ATOMS, skip=True))
    assert "12 targets: 11 GAP_REACHED, 1 SKIPPED" in text
    assert "gap/goal" in text
    assert "atoms on average" in text


def test_saved_and_loaded(tmp_path: Path) -> None:
    result = wh.minimize_many(TARGETS.reshape(3, 4, 5), ATOMS, max_atoms=2)
    result.save(tmp_path / "saved")
    back = wh.load(tmp_path / "saved", ATOMS)
    assert same(result, back)
    np.testing.assert_array_equal(back.price, result.price)
    np.testing.assert_allclose(back.x(3), result.x(3))
    plain = ManyResult.load(tmp_path / "saved")
    with pytest.raises(ValueError, match="`atoms` must be given to `load`"):
        plain.x(0)
    assert plain.to_dense(40).shape == (3, 4, 40)
    with pytest.raises(StoreError, match="must be the atoms"):
        wh.load(tmp_path / "saved", ATOMS + 1.0)


def test_few_atoms_at_a_price() -> None:
    free, few = wh.minimize_many(TARGETS, ATOMS), wh.minimize_many(TARGETS, ATOMS, max_atoms=2)
    assert few.support.max() <= 2
    assert few.price is not None
    np.testing.assert_array_equal(few.lower, free.lower)
    np.testing.assert_allclose(few.value - few.price, free.value, atol=1e-12)
    check_proofs(few, TARGETS, ATOMS)
    limited = free.support > 2
    assert set(few.status[limited]) == {Status.FINISHED}
    proved = int((few.gap <= few.goal).sum())
    assert few.success
    assert proved == 1
    assert few.verdict() == (
        "12 of 12 targets are solved with at most 2 atoms; 1 is proved best of that size; "
        f"at most {few.gap.max():.3g} above the best without the limit"
    )
    assert few.verdict() in repr(few)
    assert (few.price[~limited] == 0.0).all()
    assert few.success
    best = wh.minimize_many(TARGETS, ATOMS, max_atoms=1)
    nearest = np.linalg.norm(TARGETS[:, None] - ATOMS[None], axis=2).argmin(axis=1)
    assert best.ids.tolist() == nearest.tolist()


# ---------------------------------------------------------------- cut short


def test_the_callback_hears_and_stops() -> None:
    heard: list[ManyState] = []

    def listen(state: ManyState) -> bool:
        heard.append(state)
        return state.done >= 512

    result = wh.minimize_many(normal(1000, 5), ATOMS, callback=listen)
    assert [state.done for state in heard] == [256, 512]
    assert heard[-1].total == 1000
    assert set(result.status[:512]) == {Status.GAP_REACHED}
    assert set(result.status[512:]) == {Status.STOPPED}
    assert np.isinf(result.value[512:]).all()
    assert (result.lower[512:] == 0.0).all()


def test_ctrl_c_keeps_what_is_finished() -> None:
    def interrupt(state: ManyState) -> None:
        raise KeyboardInterrupt

    result = wh.minimize_many(normal(1000, 5), ATOMS, callback=interrupt)
    assert set(result.status[:256]) == {Status.GAP_REACHED}
    assert set(result.status[256:]) == {Status.INTERRUPTED}


def test_no_time_keeps_what_is_finished() -> None:
    result = wh.minimize_many(normal(1000, 5), ATOMS, max_seconds=0.0)
    assert set(result.status[:256]) == {Status.GAP_REACHED}
    assert set(result.status[256:]) == {Status.MAX_SECONDS}


# ---------------------------------------------------------------- streams


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "GROUPED", 256)


def stop_early(state: ManyState) -> bool:
    return state.done >= 512


@pytest.mark.usefixtures("small_groups")
def test_a_stream_can_be_read_while_it_grows_and_goes_on(tmp_path: Path) -> None:
    targets, out = normal(1000, 5), tmp_path / "out"
    whole = wh.minimize_many(targets, ATOMS)
    wh.minimize_many(targets, ATOMS, out=out, callback=stop_early)
    part = wh.load(out, ATOMS)
    assert np.array_equal(part.value[:512], whole.value[:512])
    assert set(part.status[512:]) == {Status.INTERRUPTED}
    heard: list[int] = []
    resumed = wh.minimize_many(targets, ATOMS, out=out, callback=lambda state: heard.append(state.done))
    assert heard == [768, 1000]
    assert same(resumed, whole)
    assert same(wh.load(out), whole)


@pytest.mark.usefixtures("small_groups")
def test_a_group_that_was_cut_off_is_solved_again(tmp_path: Path) -> None:
    targets, out = normal(600, 5), tmp_path / "out"
    whole = wh.minimize_many(targets, ATOMS, out=out)
    for start in (256, 512):
        (out / f"targets-{start:010d}.safetensors").unlink()
    assert set(wh.load(out).status[256:]) == {Status.INTERRUPTED}
    assert same(wh.minimize_many(targets, ATOMS, out=out), whole)


@pytest.mark.parametrize(
    ("options", "targets", "atoms", "text"),
    [
        ({"rtol": 1e-3}, TARGETS, ATOMS, "Got rtol = 1e-06"),
        ({"max_atoms": 3}, TARGETS, ATOMS, "Got max_atoms = None"),
        ({"exclude": [3]}, TARGETS, ATOMS, "Got other exclude"),
        ({"over": wh.Hull(at_most=True)}, TARGETS, ATOMS, r"Got over = Hull\(\)"),
        ({"ridge": 0.5}, TARGETS, ATOMS, r"Got over = Hull\(\)"),
        ({"seed": 1}, TARGETS, ATOMS, "Got seed = 0"),
        ({}, TARGETS[:5], ATOMS, "Got total = 12"),
        ({}, TARGETS + 1.0, ATOMS, "Got other targets"),
        ({}, TARGETS, ATOMS + 1.0, "Got other atoms"),
    ],
)
def test_a_stream_of_something_else_is_refused(
    options: Any, targets: Array, atoms: Array, text: str, tmp_path: Path
) -> None:
    wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out")
    with pytest.raises(StoreError, match=text):
        wh.minimize_many(targets, atoms, out=tmp_path / "out", **options)


def test_a_stream_of_another_oracle_is_refused(tmp_path: Path) -> None:
    wh.minimize_many(TARGETS, ATOMS, out=tmp_path / "out")
    wh.minimize_many(TARGETS, wh.Int8Scan.build(ATOMS), out=tmp_path / "out")  # as exact as atoms are
    with pytest.raises(StoreError, match=r"Got oracle = exact in .* not ClusterIndex"):
        wh.minimize_many(TARGETS, wh.ClusterIndex.build(ATOMS), out=tmp_path / "out")


def test_pixels_by_row_and_column_and_names_of_the_library() -> None:
    cube, names = TARGETS.reshape(3, 4, -1), [f"mineral {i}" for i in range(len(ATOMS))]
    found = wh.minimize_many(cube, ATOMS, names=names)
    np.testing.assert_array_equal(found.x((1, 2)), found.x(6))
    largest = found.top((1, 2), 2)[0]
    place = found.indptr[6]
    assert (largest.id, largest.weight) == (found.ids[place], found.weights[place])
    assert largest.name == f"mineral {largest.id}"
    assert "mineral" in str(found.summary().tables[0].rows[0])
    with pytest.raises(ValueError, match=r"`i` must be a place in 3 x 4 targets. Got \(3, 0\)\."):
        found.x((3, 0))
    with pytest.raises(ValueError, match="`names` must be"):
        wh.minimize_many(cube, ATOMS, names=["one"])


def test_a_cube_is_drawn_as_maps() -> None:
    cube = 0.1 * TARGETS.reshape(3, 4, -1)
    found = wh.minimize_many(
        cube, ATOMS, over=wh.Hull(at_most=True), names=[f"m{i}" for i in range(len(ATOMS))]
    )
    titles = [picture.title for picture in found.summary().pictures()]
    used = np.bincount(found.ids, found.weights)
    assert titles[1] == f"Where m{used.argmax()} is"
    assert titles[-1] == "Sum of all weights: the rest is shadow"
    assert len(found.plot().axes) == len(titles)


def test_a_skipped_target_is_not_one_of_zeros(tmp_path: Path) -> None:
    rows = [*TARGETS[:3], np.ones(2)]
    wh.minimize_many(rows, ATOMS, skip=True, out=tmp_path / "out")
    with pytest.raises(StoreError, match="Got other targets"):
        wh.minimize_many([*TARGETS[:3], np.zeros(5)], ATOMS, skip=True, out=tmp_path / "out")


def test_seeds_of_any_integer_type_are_the_same(tmp_path: Path) -> None:
    one = wh.minimize_many(TARGETS, ATOMS, seed=0, out=tmp_path / "out")
    assert same(wh.minimize_many(TARGETS, ATOMS, seed=np.int64(0), out=tmp_path / "out"), one)  # type: ignore[arg-type]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match="`out` must be new or empty"):
        wh.minimize_many(TARGETS, Unreadable(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_damaged_stream_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wh.minimize_many(TARGETS, ATOMS, out=out)
    (group,) = out.glob("targets-*")
    group.write_bytes(group.read_bytes()[:-1] + b"\x09")
    with pytest.raises(StoreError, match="damaged"):
        wh.load(out)
    with pytest.raises(StoreError, match="damaged"):
        wh.minimize_many(TARGETS, ATOMS, out=out)
