"""What comes in at the doors: integers near and beyond 2^53, and files that name other files.

Integers that float64 holds are solved as they are, judged in exact arithmetic; one that it
does not hold, anywhere, is refused by name. A forged .h5 file never gives what lies elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import torch

from tests.fuzz import cells, exact
from tests.fuzz.bounds import judge_hits
from tests.fuzz.hostile import Array, Rng
from tests.fuzz.supervise import Findings
from wolfhound import FileAtoms, SquaredDistance, encode, minimize, minimize_many
from wolfhound.data.readers import read_array, read_atoms, read_matrix

CASES = 12
"""Of each kind in a batch."""

ASKED = 64
"""Times an oracle is asked: a random sample refuses the rows that it reads, and has then read all of them."""

REFUSED = "made of numbers that float64 holds exactly"

BASES = (0, 2**31, 2**52, 2**53, 2**53, 2**54, 2**60, 2**62, 2**63 - 8, 2**63, 2**64 - 5000)


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Solve, ask and read."""
    rng = np.random.default_rng([seed, batch, 9])
    kinds = {"solve": _solve, "many": _solve_many, "ask": _ask, "forged": _read_forged}
    for case in range(CASES):
        for name, attack in kinds.items():
            found, label = Findings(), f"{seed}/{batch} {name} {case}"
            yield label
            with tempfile.TemporaryDirectory() as folder:
                found.violations.extend(f"{label}: {text}" for text in attack(found, rng, Path(folder)))
            yield found


# ---------------------------------------------------------------- integers


def draw_integers(rng: Rng, n: int, d: int, dtype: Any) -> Array:
    """Return integers around one or several sizes, in steps that float64 has or has not."""
    info = np.iinfo(dtype)
    step = int(rng.choice([1, 1, 2, 256, 4096]))
    few = rng.integers(0, len(BASES), int(rng.choice([1, 1, 3])))
    numbers = [
        BASES[int(rng.choice(few))] * int(rng.choice([1, -1])) + step * int(rng.integers(-6, 7))
        for _ in range(n * d)
    ]
    flat = [min(max(number, int(info.min)), int(info.max)) for number in numbers]
    return np.array(flat, dtype).reshape(n, d)


def is_held(*arrays: Array) -> bool:
    """Whether every integer is a float."""
    return all(int(float(number)) == number for array in arrays for number in array.ravel().tolist())


def store(rng: Rng, values: Array, folder: Path) -> tuple[str, Any]:
    """Return the same rows in some storage, and its name."""
    columns = {f"c{i}": column for i, column in enumerate(values.T)}
    kinds: dict[str, Callable[[], Any]] = {
        "array": lambda: values,
        "Fortran": lambda: np.asfortranarray(values),
        "big-endian": lambda: values.astype(values.dtype.newbyteorder(">")),
        "file": lambda: FileAtoms(_save(values, folder)),
        "loaded": lambda: _save(values, folder),
        "mapped": lambda: np.load(_save(values, folder), mmap_mode="r"),
        "hdf5": lambda: _save_h5(values, folder),
        "parquet": lambda: _save_parquet(pa.table(columns), folder),
        "csv": lambda: _save_csv(columns, folder),
        "pandas": lambda: pd.DataFrame(columns),
        "pandas beside floats": lambda: pd.DataFrame(columns).assign(f=0.0),
        "objects": lambda: pd.DataFrame({name: column.astype(object) for name, column in columns.items()}),
        "polars": lambda: pl.DataFrame(columns),
        "arrow": lambda: pa.table(columns),
        "parts": lambda: [values, np.zeros((1, values.shape[1]))],
    }
    if values.dtype == np.int64:
        kinds["tensor"] = lambda: torch.tensor(values)
    name = str(rng.choice(sorted(kinds)))
    return name, kinds[name]()


def _save(values: Array, folder: Path) -> Path:
    np.save(folder / "x.npy", values)
    return folder / "x.npy"


def _save_h5(values: Array, folder: Path) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(1, 1))
    return folder / "x.h5"


def _save_parquet(table: Any, folder: Path) -> Path:
    pa.parquet.write_table(table, folder / "x.parquet")
    return folder / "x.parquet"


def _save_csv(columns: dict[str, Array], folder: Path) -> Path:
    pd.DataFrame(columns).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def _draw(rng: Rng, folder: Path) -> tuple[str, Array, Any]:
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    values = draw_integers(rng, n, d, str(rng.choice(["int64", "uint64"])))
    name, given = store(rng, values, folder)
    # As the package must see them, which the columns and rows that were added are part of.
    seen = np.hstack([values.astype(object), np.zeros((n, 1), object)]) if "floats" in name else values
    seen = np.vstack([seen.astype(object), np.zeros((1, d), object)]) if name == "parts" else seen
    return f"{values.dtype} {n} x {d}, {name}", seen, given


def _judge(found: Findings, label: str, held: bool, call: Callable[[], Iterable[str]]) -> list[str]:
    """Judge an answer, or that there is none."""
    found.counts["doors"] += 1
    try:
        wrong = list(call())
    except Exception as error:
        found.counts["refused"] += 1
        clear = (
            not held and isinstance(error, ValueError) and REFUSED in str(error) and "\n" not in str(error)
        )
        return [] if clear else [f"{label}: {type(error).__name__}: {error}"]
    return [f"{label}: {text}" for text in wrong] if held else [f"{label}: not refused"]


def _check(rows: Array, target: Array, weights: Array, value: float, lower: float) -> list[str]:
    floats, goal = rows.astype(np.float64), target.astype(np.float64)
    here = exact.half_square(exact.mix(floats, weights).fractions(), goal).low
    least = exact.least_half_square(floats, None, goal)
    wrong = [] if here <= Fraction(value) else [f"f(weights) {float(here)!r} > value {value!r}"]
    return wrong if Fraction(lower) <= least else [*wrong, f"lower {lower!r} > min f {float(least)!r}"]


def _draw_point(rng: Rng, rows: Array) -> Array:
    """A target or a query: an integer vector, or floats if all that is to be tried are the atoms."""
    if rng.random() < 0.4:
        return np.zeros(rows.shape[1]) + float(rng.choice([0.0, 1.0, 2.0**53, 0.5]))
    (point,) = draw_integers(rng, 1, rows.shape[1], str(rng.choice(["int64", "uint64"])))
    return np.asarray(point)


def _is_exact(point: Array) -> bool:
    return point.dtype.kind == "f" or is_held(point)


def _solve(found: Findings, rng: Rng, folder: Path) -> list[str]:
    label, rows, given = _draw(rng, folder)
    target = _draw_point(rng, rows)

    def call() -> list[str]:
        made = minimize(SquaredDistance(target), given, max_steps=50)
        whole = np.zeros(len(rows))
        whole[made.ids] = made.weights
        return _check(rows, target, whole, made.value, made.lower)

    return _judge(found, label, is_held(rows) and _is_exact(target), call)


def _solve_many(found: Findings, rng: Rng, folder: Path) -> list[str]:
    label, rows, given = _draw(rng, folder)
    target = _draw_point(rng, rows)

    def call() -> list[str]:
        made = minimize_many(target[None], given)
        whole = np.zeros(len(rows))
        whole[made.ids] = made.weights
        return _check(rows, target, whole, float(made.value[0]), float(made.lower[0]))

    return _judge(found, label, is_held(rows) and _is_exact(target), call)


def _ask(found: Findings, rng: Rng, folder: Path) -> list[str]:
    label, rows, given = _draw(rng, folder)
    query = _draw_point(rng, rows)
    name = str(rng.choice(sorted(cells.ORACLES)))

    def call() -> Iterator[str]:
        oracle = cells.ORACLES[name](given, rng)
        for _ in range(ASKED):
            hits = oracle.query(query[None])
            yield from judge_hits(hits, query[None].astype(np.float64), rows.astype(np.float64), None)

    return _judge(found, f"{label}, {name}", is_held(rows) and _is_exact(query), call)


# ---------------------------------------------------------------- files that name other files

SECRET = bytes(range(200, 232)) * 8
KNOWN = frozenset(SECRET)


def _read_forged(found: Findings, rng: Rng, folder: Path) -> list[str]:
    """Forge a file whose datasets lie elsewhere, and read all of them in every way."""
    secret = folder / "secret"
    secret.write_bytes(SECRET)
    with h5py.File(folder / "other.h5", "w") as other:
        other["a"] = np.frombuffer(SECRET, "u1").reshape(16, 16)
        other.create_dataset("b", (16, 16), "u1", external=[(str(secret), 0, 256)])
    with h5py.File(folder / "x.h5", "w") as file:
        names = [_forge(rng, file, f"{i}", secret) for i in range(int(rng.integers(1, 4)))]
    wrong = []
    for name in ("", *(f"::{name}" for name in names)):
        for read in (_take_all, read_array, read_matrix, encode):
            found.counts["doors"] += 1
            try:
                values = read(f"{folder}/x.h5{name}")
            except (ValueError, TypeError) as error:
                clear = "\n" not in str(error)
                wrong += [] if clear else [f"{name} {read.__name__}: {error}"]
            else:
                told = any(value in KNOWN for value in np.asarray(values).ravel().tolist())
                wrong += [f"{name} {read.__name__}: what lies elsewhere was read"] if told else []
    return wrong


def _take_all(path: str) -> Array:
    atoms = read_atoms(path)
    return atoms.take(np.arange(atoms.shape[0]))


def _forge(rng: Rng, file: Any, name: str, secret: Path) -> str:
    """Write one entry that leads elsewhere, or is as it should be."""
    begin = int(rng.integers(0, 64))
    parts = (
        [(str(secret), begin, 64), ("secret", 0, 64)] if rng.random() < 0.5 else [(str(secret), begin, 128)]
    )
    source = str(rng.choice(["other.h5", "./other.h5", str(secret.with_name("other.h5")), "."]))
    layout = h5py.VirtualLayout((8, 16), "u1")
    layout[:4] = h5py.VirtualSource(source, str(rng.choice(["a", "b", "plain"])), (16, 16))[:4]
    kinds: dict[str, Callable[[], Any]] = {
        "external": lambda: file.create_dataset(name, (8, 16), "u1", external=parts),
        "virtual": lambda: file.create_virtual_dataset(name, layout, fillvalue=1),
        "link": lambda: file.__setitem__(name, h5py.ExternalLink(source, "a")),
        "soft link": lambda: file.__setitem__(name, h5py.SoftLink("/plain")),
        "plain": lambda: file.create_dataset(name, data=np.ones((8, 16), "u1")),
        "deep": lambda: file.create_dataset(f"{name}/deep", (8, 16), "u1", external=parts),
        "reference": lambda: file.create_dataset(name, data=[[file.ref]], dtype=h5py.ref_dtype),
    }
    kinds[str(rng.choice(sorted(kinds)))]()
    return name
