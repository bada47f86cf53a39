"""Numbers that float64 does not hold are refused at every door, and all others are taken as they are."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wolfhound import (
    ClusterIndex,
    Custom,
    Factors,
    Huber,
    Int8Scan,
    LeastSquares,
    Logistic,
    LshIndex,
    Normal,
    Poisson,
    Scan,
    SquaredDistance,
    design,
    enclosing_ellipsoid,
    encode,
    fit_weights,
    minimize,
    minimize_many,
    npmle,
    read_atoms,
)
from wolfhound.core.contracts import Hits
from wolfhound.core.validate import EXACT, number, require_exact, vector, within
from wolfhound.data import files, table_files
from wolfhound.data.atoms import MappedAtoms, as_atoms
from wolfhound.data.readers import read_matrix, read_vector
from wolfhound.herding.herd import herd
from wolfhound.herding.kernels import Gaussian
from wolfhound.oracles.sharded import Sharded
from wolfhound.policy.tabular.models import AffineReward

BAD = 2**60 + 1
GOOD = 2**60
TOLD = r"must be made of numbers that float64 holds exactly.*subtract an offset.*\. Got \d{19}"

ROWS = np.random.default_rng(3).standard_normal((12, 2))


def table(value: int) -> NDArray[Any]:
    """Atoms, one entry of which is this."""
    return np.array([[3, 1], [value, 0], [-7, 2], [5, 5]])


def row(value: int) -> NDArray[Any]:
    return np.array([1, value])


def ask(value: Any) -> Any:
    """What its type does not say, but may be given."""
    return value


def zero(x: NDArray[Any]) -> tuple[float, NDArray[Any]]:
    return 0.0, 0.0 * x


def ask_shards(queries: NDArray[Any]) -> Hits:
    with ThreadPoolExecutor(1) as threads:
        return Sharded.over([Scan(ROWS), Scan(-ROWS)], threads).query(queries)


DOORS: dict[str, Callable[[int], Any]] = {
    "atoms of minimize": lambda v: minimize(SquaredDistance([0.0, 0.0]), table(v), max_steps=1),
    "atoms of minimize_many": lambda v: minimize_many(np.zeros((1, 2)), table(v), rtol=0.1),
    "atoms of a scan": lambda v: Scan(table(v)),
    "atoms of int8": lambda v: Int8Scan.build(table(v)),
    "atoms of hashes": lambda v: LshIndex.build(table(v)),
    "atoms of clusters": lambda v: ClusterIndex.build(table(v)),
    "queries of shards": lambda v: ask_shards(table(v)),
    "atoms of a list": lambda v: as_atoms([table(v), ROWS]),
    "atoms of a map": lambda v: MappedAtoms(as_atoms(ROWS), lambda rows: np.full((len(rows), 1), v), 1).take(
        row(0)
    ),
    "added atoms": lambda v: Int8Scan.build(ROWS).append(table(v)),
    "atoms of herd": lambda v: herd(table(v), 2),
    "target of herd": lambda v: herd(ROWS, 2, target=table(v)),
    "candidates": lambda v: design(table(v), max_passes=1),
    "given runs": lambda v: design(ROWS, given=table(v)[:2], runs=4, max_passes=1),
    "levels": lambda v: Factors({"x": [v, 0]}).take(row(0)),
    "points": lambda v: enclosing_ellipsoid(table(v)).measure(ROWS),
    "measured points": lambda v: enclosing_ellipsoid(ROWS).measure(table(v)),
    "target": lambda v: SquaredDistance(row(v)),
    "targets": lambda v: minimize_many(table(v), ROWS, rtol=0.1),
    "a cube of targets": lambda v: minimize_many(table(v)[None], ROWS, rtol=0.1),
    "a frame of targets": lambda v: minimize_many(pd.DataFrame({"a": [v], "b": [0.5]}), ROWS, rtol=0.1),
    "targets of polars": lambda v: minimize_many(pl.DataFrame({"a": [v], "b": [0.5]}), ROWS, rtol=0.1),
    "vectors": lambda v: minimize_many([[v, 0.5], [1.0]], ROWS, rtol=0.1, skip=True),
    "design": lambda v: LeastSquares(table(v), np.ones(4)),
    "response": lambda v: LeastSquares(np.eye(2), row(v)),
    "response of Huber": lambda v: Huber(np.eye(2), row(v), delta=1.0),
    "delta": lambda v: Huber(np.eye(2), [1, 2], delta=v),
    "design of Logistic": lambda v: Logistic(table(v), [1, -1, 1, -1]),
    "a point": lambda v: SquaredDistance([0.0, 0.0]).at(row(v)),
    "points of f": lambda v: Custom(zero, convex=True).values(table(v)),
    "a query": lambda v: Scan(ROWS).query(row(v)),
    "queries": lambda v: Scan(ROWS).query(table(v)),
    "queries of int8": lambda v: Int8Scan.build(ROWS).query(table(v)),
    "queries in a list": lambda v: Scan(ROWS).query(ask([[v, 0.5]])),
    "a threshold": lambda v: Scan(ROWS).query(row(1), thresholds=ask(v)),
    "observations": lambda v: npmle(np.array([v, 1, 2]), Poisson(), max_seconds=0.0),
    "a series": lambda v: npmle(pd.Series([v, 1, 2]), Poisson(), max_seconds=0.0),
    "a series with gaps": lambda v: npmle(pd.Series([v, None, 2], dtype="Int64"), Poisson(), max_seconds=0.0),
    "weights of observations": lambda v: npmle([1.0, 2.0], Normal(1.0), weights=row(v)),
    "a grid": lambda v: npmle([1.0, 2.0], Normal(1.0), grid=row(v)),
    "likelihoods": lambda v: fit_weights(np.abs(table(v)) + 1 - 1),
    "weights": lambda v: fit_weights(np.abs(ROWS), weights=np.array([v] * 12)),
    "rewards": lambda v: AffineReward(table(v)),
    "rows of a kernel": lambda v: Gaussian(1.0).gram(table(v), ROWS),
    "a number": lambda v: number(v, "delta"),
    "a number of numpy": lambda v: number(np.int64(v), "delta"),
    "a number in an interval": lambda v: within(v, "delta", "(0, inf)"),
    "integers beside a float": lambda v: vector([v, 0.5], "x"),
    "integers beside a negative": lambda v: vector([v + 2**63, -1], "x"),
    "a tensor": lambda v: vector(torch.tensor([v, 1]), "x"),
    "unsigned": lambda v: vector(np.array([v], np.uint64), "x"),
    "big-endian": lambda v: vector(np.array([v], ">i8"), "x"),
    "a frame of floats": lambda v: Scan(ROWS).query(pd.DataFrame({"a": [v], "b": [0.5]})),
    "a table of Arrow": lambda v: Scan(ROWS).query(pa.table({"a": [v], "b": [0.5]})),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_a_cast_would_change(door: str) -> None:
    with pytest.raises(ValueError, match=TOLD) as caught:
        DOORS[door](BAD)
    assert "\n" not in str(caught.value)


HEAVY = ("likelihoods", "observations", "a series", "a series with gaps", "points")


@pytest.mark.parametrize("door", [name for name in DOORS if name not in HEAVY])
def test_every_door_takes_what_a_cast_keeps(door: str) -> None:
    DOORS[door](GOOD)


def test_the_place_and_the_value_are_named() -> None:
    with pytest.raises(ValueError, match=rf"^`atoms` must .* Got {BAD} in row 1, column 0\.$"):
        Scan(table(BAD))
    with pytest.raises(ValueError, match=rf"^`target` must .* Got {BAD} at index 1\.$"):
        SquaredDistance(row(BAD))
    with pytest.raises(ValueError, match=rf"^`targets` must .* Got {BAD} at index \(0, 1, 0\)\.$"):
        minimize_many(table(BAD)[None], ROWS)


def test_what_has_more_bits_is_refused_with_the_remedy() -> None:
    for values in (np.ones(2, np.longdouble), np.array([2**70, 1]), np.array([Decimal(1)])):
        with pytest.raises(TypeError, match=r"real numbers\. Got dtype \w+; \.astype\(float\) rounds them"):
            vector(values, "x")


LIMITS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**64 - 1)
NEAR = st.sampled_from([2**53, 2**54, 2**62, 2**63, 2**64, -(2**53), -(2**63)])


@given(st.lists(LIMITS | st.builds(lambda a, b: a + b, NEAR, st.integers(-3, 3)), min_size=1, max_size=4))
def test_exactly_those_integers_are_refused_that_no_float_equals(values: list[int]) -> None:
    signed = min(values) < 0
    low, high = (-(2**63), 2**63 - 1) if signed else (0, 2**64 - 1)
    held = [min(max(value, low), high) for value in values]
    wrong = [value for value in held if int(float(value)) != value]
    found: list[str] = []
    try:
        require_exact(np.array(held, np.int64 if signed else np.uint64), "x", rows=10)
    except ValueError as error:
        found = [str(error)]
    told = [f" Got {value} at index {10 + held.index(value)}." for value in wrong[:1]]
    assert [text[text.index(" Got") :] for text in found] == told


def test_rows_of_large_arrays_are_named_and_nothing_large_is_copied() -> None:
    values = np.zeros((1 << 20, 4), np.int64)
    values[900_000, 3] = -BAD
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"Got -{BAD} in row 900000, column 3"):
            require_exact(values, "x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * 1_100_000  # of one slice, where the values have 33 MB


# ---------------------------------------------------------------- files


def write_npy(values: NDArray[Any]) -> str:
    np.save("x.npy", values)
    return "x.npy"


def write_npz(values: NDArray[Any]) -> str:
    np.savez("x.npz", a=values)
    return "x.npz"


def write_h5(values: NDArray[Any]) -> str:
    with h5py.File("x.h5", "w") as file:
        file["a"] = values
    return "x.h5"


def write_chunked(values: NDArray[Any]) -> str:
    with h5py.File("y.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(2, 1))
    return "y.h5"


def write_zarr(values: NDArray[Any]) -> str:
    zarr.create_array("x.zarr", data=values, chunks=(2, 1), overwrite=True)
    return "x.zarr"


def write_safetensors(values: NDArray[Any]) -> str:
    data = values.tobytes()
    header = (
        f'{{"a":{{"dtype":"I64","shape":[{len(values)},{values.shape[1]}],"data_offsets":[0,{len(data)}]}}}}'
    )
    Path("x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode() + data)
    return "x.safetensors"


def write_parquet(values: NDArray[Any]) -> str:
    pa.parquet.write_table(pa.table({f"c{i}": column for i, column in enumerate(values.T)}), "x.parquet")
    return "x.parquet"


def write_lists(values: NDArray[Any]) -> str:
    pa.parquet.write_table(pa.table({"row": values.tolist()}), "y.parquet")
    return "y.parquet"


def write_csv(values: NDArray[Any]) -> str:
    pd.DataFrame(values, columns=["a", "b"]).to_csv("x.csv", index=False)
    return "x.csv"


WRITERS = {
    function.__name__: function
    for function in (
        *(write_npy, write_npz, write_h5, write_chunked, write_zarr, write_safetensors),
        *(write_parquet, write_lists, write_csv),
    )
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pass_over(path: str) -> NDArray[Any]:
    return np.concatenate([block for _, block in read_atoms(path).blocks(3)])


def take_all(path: str) -> NDArray[Any]:
    return read_atoms(path).take(np.arange(4))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("loaded", [0, 1 << 20], ids=["in place", "loaded"])
@pytest.mark.parametrize("read", [pass_over, take_all, read_matrix])
@pytest.mark.parametrize("write", WRITERS)
def test_files_are_refused_by_their_name(
    monkeypatch: pytest.MonkeyPatch, write: str, read: Callable[[str], Any], loaded: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", loaded)
    np.testing.assert_array_equal(read(WRITERS[write](table(GOOD))), table(GOOD))
    with pytest.raises(ValueError, match=rf"[xy]\.\w+.* must be made of numbers.* Got {BAD}") as caught:
        read(WRITERS[write](table(BAD)))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("here")
def test_a_row_of_a_file_is_named_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    values = np.zeros((100, 2), np.int64)
    values[77, 1] = BAD
    atoms = read_atoms(write_npy(values))
    np.testing.assert_array_equal(atoms.take(np.array([76, 78])), np.zeros((2, 2)))
    for read in (lambda: atoms.take(np.array([99, 77, 3])), lambda: list(atoms.blocks(10))):
        with pytest.raises(ValueError, match=rf"x\.npy` must .* Got {BAD} in row 77, column 1\.$"):
            read()
    with pytest.raises(ValueError, match=r"in row 77, column 1\.$"):
        Scan(np.load("x.npy", mmap_mode="r")).query(row(1))


# ---------------------------------------------------------------- tables


def frames(value: int) -> dict[str, Callable[[], Any]]:
    """A table with one integer, in every form that may hold it."""
    cells = [value, 3, 5]
    decimals = [Decimal(cell) for cell in cells]
    return {
        "int64": lambda: pd.DataFrame({"a": cells, "b": [0.5, 1.0, 2.0]}),
        "nullable": lambda: pd.DataFrame({"a": pd.array(cells, "Int64")}),
        "gaps": lambda: pd.DataFrame({"a": pd.array([*cells, None], "UInt64")}),
        "objects": lambda: pd.DataFrame({"a": np.array(cells, object)}),
        "mixed": lambda: pd.DataFrame({"a": np.array([*cells, 0.5, None], object)}),
        "decimals": lambda: pd.DataFrame({"a": np.array(decimals, object)}),
        "arrow in pandas": lambda: pd.DataFrame({"a": pd.array([*cells, None], "int64[pyarrow]")}),
        "vectors": lambda: pd.DataFrame({"a": [[cell, 1] for cell in cells]}),
        "mixed vectors": lambda: pd.DataFrame({"a": [[cell, 0.5] for cell in cells]}),
        "vectors of two types": lambda: pd.DataFrame({"a": [np.array([value, 1]), np.array([0.5, 1.5])]}),
        "polars": lambda: pl.DataFrame({"a": cells, "b": [0.5, 1.0, 2.0]}),
        "polars with gaps": lambda: pl.DataFrame({"a": [*cells, None]}),
        "polars decimals": lambda: pl.DataFrame({"a": decimals}),
        "polars vectors": lambda: pl.DataFrame({"a": [[cell, 1] for cell in cells]}),
        "arrow": lambda: pa.table({"a": cells}),
        "arrow with gaps": lambda: pa.table({"a": [*cells, None]}),
        "arrow decimals": lambda: pa.table({"a": pa.array(decimals, pa.decimal128(30, 0))}),
        "arrow vectors": lambda: pa.table({"a": [[cell, 1] for cell in cells]}),
        "records": lambda: np.array([(cell, 0.5) for cell in cells], [("a", "i8"), ("b", "f8")]),
        "masked records": lambda: np.ma.array(
            [(cell, 0.5) for cell in cells], dtype=[("a", "u8"), ("b", "f8")]
        ),
    }


@pytest.mark.parametrize("form", frames(0))
def test_every_kind_of_table_is_refused_by_its_column(form: str) -> None:
    found = encode(frames(GOOD)[form]())
    assert found.take(np.arange(1))[0, 0] == GOOD
    with pytest.raises(ValueError, match=rf"^`a` must be made of numbers .* Got (Decimal\(')?{BAD}"):
        encode(frames(BAD)[form]())


def test_what_a_mask_hides_is_not_judged() -> None:
    rows: Any = np.ma.array(
        [(BAD, 0.5), (3, 1.5)], mask=[(True, False), (False, False)], dtype=[("a", "i8"), ("b", "f8")]
    )
    assert encode(rows).report.dropped == 1


@pytest.mark.usefixtures("here")
def test_texts_of_integers_are_read_exactly_or_refused() -> None:
    for cell in (str(EXACT + 1), f"-{BAD}", f"{BAD:023d}", "1" + "0" * 399 + "1"):
        Path("x.csv").write_text(f"a,b\n1,2\n{cell},3\n")
        for read in (encode, read_atoms):
            with pytest.raises(ValueError, match=r"a'? in line 3 of x.csv`? must be"):
                read("x.csv")
    for cell in (str(EXACT), str(2**70), "1e23", "1152921504606846977.0", "1.7976931348623157e308"):
        Path("x.csv").write_text(f"a,b\n1,2\n{cell},3\n")
        for read in (encode, read_atoms):
            np.testing.assert_array_equal(read("x.csv").take(np.array([1])), [[float(cell), 3.0]])


@pytest.mark.usefixtures("here")
def test_labels_are_no_numbers_and_are_kept() -> None:
    keys = [BAD, BAD + 1, BAD, BAD + 1]
    pd.DataFrame({"key": keys, "x": [1.0, 2.0, 3.0, 4.0]}).to_csv("x.csv", index=False)
    objects = pd.DataFrame({"key": np.array(keys, object), "x": [1.0, 2.0, 3.0, 4.0]})
    for table in ("x.csv", pd.read_csv("x.csv"), objects, pa.Table.from_pandas(pd.read_csv("x.csv"))):
        assert encode(table, labels=["key"]).read_labels(["key"]).tolist() == keys
        assert sorted(ask(herd(table, 2, by="key").labels)) == [BAD, BAD + 1]


@pytest.mark.usefixtures("here")
def test_keys_beside_blanks_are_carried_as_they_stand() -> None:
    Path("x.csv").write_text(f"key,x\n{BAD},1.5\n,2.5\n")
    rows = table_files.CsvTable(["x.csv"]).rows(np.array([0, 1]))
    assert rows.to_pydict() == {"key": [BAD, None], "x": [1.5, 2.5]}


@pytest.mark.usefixtures("here")
def test_files_of_integers_and_of_floats_are_one_table_only_if_nothing_is_rounded() -> None:
    for value in (GOOD, BAD):
        pa.parquet.write_table(pa.table({"a": [value]}), f"a-{value}.parquet")
    pa.parquet.write_table(pa.table({"a": [0.5]}), "b.parquet")
    assert encode([f"a-{GOOD}.parquet", "b.parquet"]).take(np.array([0]))[0, 0] == GOOD
    with pytest.raises(ValueError, match=rf"^`a` must .* Got {BAD}"):
        encode([f"a-{BAD}.parquet", "b.parquet"])


@pytest.mark.usefixtures("here")
def test_vectors_of_files_too() -> None:
    np.save("t.npy", row(BAD))
    with pytest.raises(ValueError, match=rf"^`t\.npy` must .* Got {BAD} at index 1"):
        read_vector("t.npy")
