"""Saved oracles: the same answers as before, or a refusal that says what differs.

To have another oracle tested, add one line to `SAVABLE`.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

import wolfhound
from tests.conformance.oracle import _same
from tests.data.test_store import failing, names, rewrite, run_script
from tests.oracles.edits import build_edited
from wolfhound.core.contracts import Atoms, Matrix, Oracle
from wolfhound.data import store
from wolfhound.data.atoms import ArrayAtoms, ConcatAtoms, fingerprint
from wolfhound.data.store import StoreError
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex

DAMAGES = 300


class Savable(Oracle, Protocol):
    """An oracle that can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file."""


class Case(NamedTuple):
    """How an oracle is made and read back."""

    build: Callable[[Atoms], Savable]
    load: Callable[[Path, Atoms], Savable]


SAVABLE = {
    "int8": Case(Int8Scan.build, Int8Scan.load),
    "int8 on disk": Case(Int8FileScan.build, Int8FileScan.load),
    "clusters": Case(ClusterIndex.build, ClusterIndex.load),
    "lsh": Case(lambda atoms: LshIndex.build(atoms, tables=2, tau=0.5), LshIndex.load),
    "clusters edited": Case(lambda atoms: build_edited(ClusterIndex, atoms), ClusterIndex.load),
}
every_oracle = pytest.mark.parametrize("case", SAVABLE.values(), ids=SAVABLE)


def rows_of(seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((300, 6)).astype(np.float32)


ATOMS, CHANGED = ArrayAtoms(rows_of(0)), ArrayAtoms(rows_of(9))
QUERIES = np.random.default_rng(1).standard_normal((40, 6))


# ---------------------------------------------------------------- what is saved is loaded


@every_oracle
def test_the_loaded_answers_as_the_saved(case: Case, tmp_path: Path) -> None:
    saved = case.build(ATOMS)
    saved.save(tmp_path / "a" / "b")
    np.save(tmp_path / "rows.npy", ATOMS.rows)
    exclude = np.arange(160).reshape(40, 4)
    for atoms in (ATOMS, wolfhound.FileAtoms(tmp_path / "rows.npy")):
        loaded = case.load(tmp_path / "a" / "b", atoms)
        assert loaded.atoms is atoms
        for k, m in ((1, 1), (1, 40), (20, 3)):
            _same(loaded.query(QUERIES[:m], k=k), saved.query(QUERIES[:m], k=k))
            given: dict[str, Any] = {"k": k, "thresholds": np.zeros(m), "exclude": exclude[:m]}
            _same(loaded.query(QUERIES[:m], **given), saved.query(QUERIES[:m], **given))


@every_oracle
def test_the_loaded_can_be_saved_again(case: Case, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "one")
    loaded = case.load(tmp_path / "one", ATOMS)
    loaded.save(tmp_path / "two")
    loaded.save(tmp_path / "one")  # over the files that it may have mapped
    one, two = (store.load(tmp_path / name, store.describe(tmp_path / name)[0]) for name in ("one", "two"))
    assert one.params == two.params
    assert one.arrays.keys() == two.arrays.keys()
    assert all(one.arrays[name].tobytes() == two.arrays[name].tobytes() for name in one.arrays)
    _same(loaded.query(QUERIES), case.load(tmp_path / "one", ATOMS).query(QUERIES))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="maps of a process are told by Linux only")
@every_oracle
def test_arrays_are_read_not_mapped(case: Case, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "saved")
    loaded = case.load(tmp_path / "saved", ATOMS)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert loaded.atoms is ATOMS


# ---------------------------------------------------------------- what is refused


OTHERS: dict[str, Atoms] = {
    "n = 299 instead of 300": ArrayAtoms(ATOMS.rows[:299]),
    "d = 5 instead of 6": ArrayAtoms(ATOMS.rows[:, :5]),
    "dtype = float64 instead of float32": ArrayAtoms(ATOMS.rows.astype(np.float64)),
    "other rows": ArrayAtoms(np.where(np.arange(300)[:, None] == 7, 2 * ATOMS.rows, ATOMS.rows)),
    r"301 rows in 2 part\(s\) instead of 300 rows in 1": ConcatAtoms([ATOMS.rows[:9], ATOMS.rows[8:]]),
}


@every_oracle
@pytest.mark.parametrize("differs", OTHERS)
def test_other_atoms_are_refused(case: Case, differs: str, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "saved")
    with pytest.raises(
        StoreError, match=f"`atoms` must be the atoms that .* Got ({differs}|a row 7 that is not the one)"
    ):
        case.load(tmp_path / "saved", OTHERS[differs])


@every_oracle
def test_other_files_are_refused(case: Case, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "mine")
    kind = store.describe(tmp_path / "mine")[0]
    store.save(tmp_path / "other", "recipe", {}, {}, fingerprint(ATOMS))
    with pytest.raises(StoreError, match=f"`path` must hold a saved {kind}. Got a recipe in .*other"):
        case.load(tmp_path / "other", ATOMS)
    with pytest.raises(StoreError, match=r"`path` must be a file.* Got .*absent.*: No such file"):
        case.load(tmp_path / "absent", ATOMS)


@every_oracle
@pytest.mark.parametrize("version", [store.VERSION - 1, store.VERSION + 1])
def test_older_and_newer_formats_are_refused(case: Case, version: int, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "saved")
    rewrite(tmp_path / "saved", lambda manifest: manifest.update(version=version))
    with pytest.raises(StoreError, match=f"format version {store.VERSION}.* Got version {version}"):
        case.load(tmp_path / "saved", ATOMS)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return data with a flipped bit, cut short, or with bytes added."""
    at, bit = int(rng.integers(len(data))), int(rng.integers(8))
    flipped = bytearray(data)
    flipped[at] ^= 1 << bit
    return [bytes(flipped), bytes(flipped), data[:at], data + data[: at + 1]][int(rng.integers(4))]


@pytest.mark.slow
@every_oracle
def test_all_damage_is_refused(case: Case, tmp_path: Path) -> None:
    case.build(ATOMS).save(tmp_path / "saved")
    rng = np.random.default_rng(4)
    file = tmp_path / "saved.safetensors"
    good = file.read_bytes()
    for _ in range(DAMAGES):
        file.write_bytes(damaged(good, rng))
        with pytest.raises(StoreError):
            case.load(file, ATOMS)
    file.write_bytes(good)
    case.load(file, ATOMS)


# ---------------------------------------------------------------- what fails while saving


@pytest.mark.slow
@every_oracle
@pytest.mark.parametrize("owner", [os, store.ArrayWriter], ids=["fsync", "write"])
def test_a_full_disk_leaves_the_old(
    case: Case, owner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {os: "fsync", store.ArrayWriter: "write"}[owner]
    old = case.build(ATOMS)
    old.save(tmp_path / "saved")
    before = names(tmp_path)
    new = case.build(CHANGED)
    for after in range(1 if owner is os else 3):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(owner, call, failing(getattr(owner, call), after))
            new.save(tmp_path / "saved")
        assert names(tmp_path) == before
        _same(case.load(tmp_path / "saved", ATOMS).query(QUERIES), old.query(QUERIES))


KEEPER = """
import os, sys
from pathlib import Path
from tests.oracles.test_persistence import ATOMS, CHANGED, QUERIES, SAVABLE
from tests.data.test_store import kill_at
from wolfhound.data.store import StoreError
from wolfhound.core.threads import set_threads

def answer(oracle):
    hits = oracle.query(QUERIES, k=3)
    return hits.ids.tobytes() + hits.scores.tobytes()

def held():
    try:
        return 0, answer(case.load(folder, ATOMS))
    except StoreError:
        return 1, answer(case.load(folder, CHANGED))

set_threads(1)  # a process with threads should not be forked
case, folder = SAVABLE[sys.argv[1]], Path(sys.argv[2])
oracles = [case.build(atoms) for atoms in (ATOMS, CHANGED)]
answers = list(enumerate(map(answer, oracles)))
for step in range(0, 1000, 2):
    oracles[0].save(folder)
    child = os.fork()
    if not child:
        kill_at(step)
        oracles[1].save(folder)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(int(killed), answers.index(held()))
    if not killed:
        break
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVABLE)
def test_a_save_that_is_killed_on_its_way_leaves_the_old_or_the_new(name: str, tmp_path: Path) -> None:
    *during, last = run_script(KEEPER, name, tmp_path / "saved")
    killed, new = zip(*during, strict=True)
    assert len(during) > 4  # every other step: `tests/data/test_store.py` takes them all
    assert set(killed) == {1}
    assert list(new) == sorted(new)
    assert set(new) == {0, 1}
    assert last == [0, 1]


# ---------------------------------------------------------------- what is forged


def forged(folder: Path, change: Callable[[dict[str, Any]], object], **params: Any) -> None:
    """Save again, with the right checksums, after a change of the arrays and the params."""
    kind = store.describe(folder)[0]
    stored = store.load(folder, kind)
    arrays = {name: array.copy() for name, array in stored.arrays.items()}
    change(arrays)
    store.save(folder, kind, arrays, {**stored.params, **params}, stored.fingerprint)


def lowered(codes: dict[str, Any]) -> None:
    codes["codes_errors"] *= np.float32(0.9)


def halved(codes: dict[str, Any]) -> None:
    codes["codes_scales"] *= np.float32(0.5)


def moved(codes: dict[str, Any]) -> None:
    codes["codes_blocks"][3, 1, 4] ^= 1 << 6


def shifted(codes: dict[str, Any]) -> None:
    codes["codes_centre"] += 0.25


FALSE = [lowered, halved, moved, shifted]
PROVING: dict[str, Case] = {
    "int8": SAVABLE["int8"],
    "clusters": Case(lambda atoms: ClusterIndex.build(atoms, proof=True), ClusterIndex.load),
}


@pytest.mark.parametrize("name", PROVING)
@pytest.mark.parametrize("change", FALSE)
def test_codes_that_would_prove_falsehoods_are_refused(
    name: str, change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    PROVING[name].build(ATOMS).save(tmp_path / "saved")
    forged(tmp_path / "saved", change)
    with pytest.raises(StoreError, match=r"`atoms` must be the atoms that .* Got a row \d+ that is not"):
        PROVING[name].load(tmp_path / "saved", ATOMS)


@pytest.mark.parametrize("number", ["height", "error", "exponent", "zero"])
def test_numbers_that_would_prove_falsehoods_are_refused(number: str, tmp_path: Path) -> None:
    Int8Scan.build(ATOMS).save(tmp_path / "saved")
    forged(
        tmp_path / "saved", lambda arrays: None, **{number: {"zero": 128, "exponent": 9}.get(number, 1e-9)}
    )
    with pytest.raises(StoreError):
        Int8Scan.load(tmp_path / "saved", ATOMS)


def test_codes_of_atoms_that_changed_are_refused_by_their_row(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).standard_normal((20_000, 4)).astype(np.float32)
    Int8Scan.build(rows).save(tmp_path / "saved")
    changed = rows.copy()
    changed[12_345] *= 3.0
    with pytest.raises(StoreError, match=r"Got a row 12345 that is not the one of these codes"):
        Int8Scan.load(tmp_path / "saved", changed)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("middle", [0.0, 1.0, 1e6])
def test_what_was_honestly_built_is_always_proved(
    dtype: type, scale: float, middle: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    rows: NDArray[Any] = (scale * (middle + rng.standard_normal((257, 7)))).astype(dtype)
    rows[3], rows[4] = 0.0, rows[5]
    for name, case in PROVING.items():
        case.build(ArrayAtoms(rows)).save(tmp_path / name)
        case.load(tmp_path / name, ArrayAtoms(rows))
        case.build(ArrayAtoms(np.abs(rows))).save(tmp_path / name)
        case.load(tmp_path / name, ArrayAtoms(np.abs(rows)))
