"""Ways to change a saved file: damage, and forgery with the right checksums."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.data.test_store import join, split
from wolfhound.data import store

Rng = np.random.Generator


def change(path: Path, rng: Rng) -> str:
    """Change a saved file; return what was done."""
    attacks = (damage, *[forge_array] * 4, swap, forge_header, forge_header)
    attack = replace_header if rng.random() < 0.03 else attacks[int(rng.integers(len(attacks)))]
    return attack(path, rng)


def damage(path: Path, rng: Rng) -> str:
    """Change the bytes of a file, or take it away."""
    data = path.read_bytes()
    at = int(rng.integers(max(1, len(data))))
    how = _pick(["flip", "cut", "add", "gone", "empty", "zeros"], rng)
    flipped = bytearray(data)
    flipped[at] ^= 1 << int(rng.integers(8))
    made = {"flip": bytes(flipped), "cut": data[:at], "add": data + data[: at + 1], "empty": b""}
    made |= {"zeros": data[:at] + bytes(len(data) - at), "gone": b""}
    path.write_bytes(made[how])
    if how == "gone":
        path.unlink()
    return how


def forge_array(path: Path, rng: Rng) -> str:
    """Replace an array by another, with the right checksum."""
    kind = store.describe(path)[0]
    stored = store.load(path, kind)
    name = _pick(sorted(stored.arrays), rng)
    how = _pick(sorted(CHANGES), rng)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        new = np.asarray(CHANGES[how](stored.arrays[name], rng))
    _save_again(path, kind, stored, {**stored.arrays, name: new})
    return f"{how} {name}"


def _save_again(path: Path, kind: str, stored: store.Stored, arrays: dict[str, NDArray[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store.save(f"{folder}/new", kind, arrays, stored.params, stored.fingerprint)
        os.replace(f"{folder}/new{store.ENDING}", path)


def _anywhere(value: Callable[[NDArray[Any]], Any]) -> Callable[[NDArray[Any], Rng], NDArray[Any]]:
    """A change of some entries to what `value` gives."""

    def change(array: NDArray[Any], rng: Rng) -> NDArray[Any]:
        out = array.copy()
        share = float(rng.choice([0.0, 0.3, 1.0]))
        where = rng.random(out.shape) < share
        if out.size:
            where.flat[int(rng.integers(out.size))] = True
        if out.dtype.kind in "iufb":
            out[where] = np.asarray(value(array)).astype(out.dtype)
        return out

    return change


def _largest(array: NDArray[Any]) -> Any:
    return np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 3e38


def _lowest(array: NDArray[Any]) -> Any:
    return np.iinfo(array.dtype).min if array.dtype.kind in "iu" else -3e38


def flipped(array: NDArray[Any], rng: Rng) -> NDArray[Any]:
    data = bytearray(array.tobytes())
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return np.frombuffer(bytes(data), array.dtype).reshape(array.shape)


CHANGES: dict[str, Callable[[NDArray[Any], Rng], Any]] = {
    "huge": _anywhere(_largest),
    "lowest": _anywhere(_lowest),
    "1e15": _anywhere(lambda array: 1e15),
    "minus": _anywhere(lambda array: -1.0),
    "one more": _anywhere(lambda array: 1.0 if not array.size else np.max(array.astype(np.float64)) + 1.0),
    "zero": _anywhere(lambda array: 0.0),
    "tiny": _anywhere(lambda array: 1e-42),
    "nan": _anywhere(lambda array: math.nan),
    "inf": _anywhere(lambda array: math.inf),
    "permuted": lambda array, rng: rng.permutation(array.ravel()).reshape(array.shape),
    "repeated": lambda array, rng: np.full_like(array, array.flat[0]) if array.size else array,
    "scaled": lambda array, rng: (array * 0.5).astype(array.dtype) if array.dtype.kind in "iuf" else array,
    "doubled": lambda array, rng: (array * 2).astype(array.dtype) if array.dtype.kind in "iuf" else array,
    "opposite": lambda array, rng: (-array).astype(array.dtype) if array.dtype.kind in "if" else array,
    "noise": lambda array, rng: np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape),
    "bit": flipped,
    "short": lambda array, rng: array[: len(array) // 2] if array.ndim else array,
    "long": lambda array, rng: np.concatenate([array, array]) if array.ndim else array,
    "empty": lambda array, rng: array[:0] if array.ndim else array,
    "flat": lambda array, rng: array.ravel(),
    "nested": lambda array, rng: array[None],
    "turned": lambda array, rng: np.asfortranarray(array),
    "single": lambda array, rng: _cast(array, np.float32),
    "double": lambda array, rng: _cast(array, np.float64),
    "integer": lambda array, rng: _cast(array, np.int32),
    "swapped bytes": lambda array, rng: array.astype(array.dtype.newbyteorder(">")),
    "text": lambda array, rng: np.full(array.shape, "x"),
    "complex": lambda array, rng: _cast(array, np.complex64),
}
"""Ways to change an array: its values, its shape, its type."""


def _cast(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return array.astype(dtype) if array.dtype.kind in "iufb" else array


def swap(path: Path, rng: Rng) -> str:
    """Let two arrays take each other's place."""
    kind = store.describe(path)[0]
    stored = store.load(path, kind)
    one, two = (_pick(sorted(stored.arrays), rng) for _ in range(2))
    _save_again(path, kind, stored, {**stored.arrays, one: stored.arrays[two], two: stored.arrays[one]})
    return f"swap {one} and {two}"


JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        3,
        10**6,
        10**15,
        10**30,
        -(10**30),
        2**63,
        0.5,
        -0.5,
        1e300,
        -1e300,
        1e-300,
    ),
    *(math.nan, math.inf, -math.inf, "", "x", "../x.npy", "/etc/passwd", [], {}, [[]], [1, 2], {"a": 1}),
)
"""What may stand where another value belongs."""


def forge_header(path: Path, rng: Rng) -> str:
    """Change, drop or add an entry of the header, with the right checksum."""
    manifest, entries, body = split(path)
    header = {"manifest": manifest, "entries": entries}
    holders = [place for place in _holders(header, "") if place[1] and place[0]]
    where, holder = holders[int(rng.integers(len(holders)))]
    keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[int(rng.integers(len(keys)))]
    how = _pick(["junk", "junk", "junk", "drop", "add", "move"], rng)
    junk = copy.deepcopy(JUNK[int(rng.integers(len(JUNK)))])
    if how == "junk":
        holder[key] = junk
    elif how == "drop":
        del holder[key]
    elif how == "add" and isinstance(holder, dict):
        holder["later"] = junk
    else:
        holder[key] = copy.deepcopy(holder[keys[int(rng.integers(len(keys)))]])
    join(path, manifest, entries, body)
    return f"{how} {where}/{key}"


def _holders(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Lists and dicts in a manifest, with their places."""
    if isinstance(value, (dict, list)):
        yield where, value
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _holders(part, f"{where}/{key}")


def replace_header(path: Path, rng: Rng) -> str:
    """Put another text in place of the header."""
    manifest, entries, body = split(path)
    texts = {
        "deep list": b"[" * 100_000,
        "deep dict": b'{"a":' * 100_000,
        "balanced": b"",
        "digits": b'{"__metadata__": {"wolfhound": ' + b"9" * 10_000 + b"}}",
        "nan": b"NaN",
        "bytes": rng.bytes(300),
        "utf-16": str(manifest).encode("utf-16"),
        "long": b"{}" + b" " * 10_000,
    }
    how = _pick(sorted(texts), rng)
    if how == "balanced":
        nest: Any = []
        for _ in range(int(rng.integers(100, 900))):
            nest = [nest]
        join(path, manifest | {"params": nest}, entries, body)
    else:
        size = len(texts[how]) if how != "bytes" else int(rng.integers(2**63))
        path.write_bytes(size.to_bytes(8, "little") + texts[how] + body)
    return how


def _pick(values: list[str], rng: Rng) -> str:
    return values[int(rng.integers(len(values)))]


def misplace(path: Path, rng: Rng) -> str:
    """Put now and then something there that is no plain file."""
    how = _pick(["plain"] * 30 + ["link", "pipe", "folder"], rng)
    if how != "plain":
        path.unlink(missing_ok=True)
    if how == "link":
        path.symlink_to("/dev/zero")
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    return "" if how == "plain" else f", {how}"
