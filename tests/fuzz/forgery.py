"""Ways to change a saved folder: damage, and forgery with the right checksums."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound._manifest import seal

Forged = dict[str, bytes]
"""Files of a folder."""

Rng = np.random.Generator


def change(files: Forged, rng: Rng) -> str:
    """Change the files of a folder; return what was done."""
    attacks = (damage, *[forge_array] * 4, swap, forge_manifest, forge_manifest)
    attack = replace_manifest if rng.random() < 0.03 else attacks[int(rng.integers(len(attacks)))]
    return attack(files, rng)


def damage(files: Forged, rng: Rng) -> str:
    """Change the bytes of a file, or take it away."""
    name = _pick(sorted(files), rng)
    data = files[name]
    at = int(rng.integers(max(1, len(data))))
    how = _pick(["flip", "cut", "add", "gone", "empty", "zeros"], rng)
    flipped = bytearray(data)
    flipped[at] ^= 1 << int(rng.integers(8))
    made = {"flip": bytes(flipped), "cut": data[:at], "add": data + data[: at + 1], "empty": b""}
    made |= {"zeros": data[:at] + bytes(len(data) - at), "gone": b""}
    files[name] = made[how]
    if how == "gone":
        del files[name]
    return f"{how} {name.split('-')[0]}"


def forge_array(files: Forged, rng: Rng) -> str:
    """Replace an array by another, with the right checksum."""
    manifest = _manifest(files)
    names = [name for name in sorted(manifest["arrays"]) if name != "index"]
    name = _pick(names, rng)
    file = manifest["arrays"][name]["file"]
    old = np.load(io.BytesIO(files[file]))
    how = _pick(sorted(CHANGES), rng)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        new = np.asarray(CHANGES[how](old, rng))
    _put(files, manifest, name, new)
    return f"{how} {name}"


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
    "table": lambda array, rng: np.zeros(array.shape, [("a", "f4")]),
}
"""Ways to change an array: its values, its shape, its type."""


def _cast(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return array.astype(dtype) if array.dtype.kind in "iufb" else array


def swap(files: Forged, rng: Rng) -> str:
    """Let two arrays take each other's place."""
    manifest = _manifest(files)
    one, two = (_pick(sorted(manifest["arrays"]), rng) for _ in range(2))
    if "index" in (one, two):
        return "swap nothing"
    arrays = manifest["arrays"]
    arrays[one], arrays[two] = arrays[two], arrays[one]
    _seal(files, manifest)
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


def forge_manifest(files: Forged, rng: Rng) -> str:
    """Change, drop or add an entry of the manifest, with the right checksum."""
    manifest = _manifest(files)
    holders = [place for place in _holders(manifest, "") if place[1]]
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
    _seal(files, manifest)
    return f"{how} {where}/{key}"


def _holders(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Lists and dicts in a manifest, with their places."""
    if isinstance(value, (dict, list)):
        yield where, value
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _holders(part, f"{where}/{key}")


def replace_manifest(files: Forged, rng: Rng) -> str:
    """Put another text in place of the manifest."""
    texts = {
        "deep list": b"[" * 100_000,
        "deep dict": b'{"a":' * 100_000,
        "balanced": b"[" * 900 + b"]" * 900,
        "digits": b'{"format": "wolfhound store", "version": ' + b"9" * 10_000 + b"}",
        "nan": b"NaN",
        "bytes": rng.bytes(300),
        "utf-16": files["manifest.json"].decode().encode("utf-16"),
        "twice": files["manifest.json"] * 2,
    }
    how = _pick(sorted(texts), rng)
    files["manifest.json"] = texts[how]
    if how == "balanced":
        manifest = _manifest(dict(files) | {"manifest.json": b'{"checksum": 1}'})
        nest: Any = []
        for _ in range(int(rng.integers(100, 900))):
            nest = [nest]
        _seal(files, manifest | {"params": nest})
    return how


def _manifest(files: Forged) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(files["manifest.json"])
    del manifest["checksum"]
    return manifest


def _seal(files: Forged, manifest: dict[str, Any]) -> None:
    files["manifest.json"] = seal(manifest)


def _seal_again(text: str) -> bytes:
    try:
        manifest = json.loads(text)
        manifest.pop("checksum", None)
        return seal(manifest)
    except (ValueError, AttributeError, RecursionError):  # it was damaged before
        return text.encode()


def _put(files: Forged, manifest: dict[str, Any], name: str, array: NDArray[Any]) -> None:
    """Write an array, and say so in the manifest."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    entry, data = manifest["arrays"][name], stream.getvalue()
    files[entry["file"]] = data
    entry |= {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": len(data)}
    entry["checksum"] = hashlib.blake2b(data, digest_size=32).hexdigest()
    _seal(files, manifest)


def _pick(values: list[str], rng: Rng) -> str:
    return values[int(rng.integers(len(values)))]


def write(folder: Path, files: Forged, rng: Rng) -> str:
    """Write the files; now and then one that is no plain file, or lies elsewhere."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    how = _pick(["plain"] * 30 + ["link", "pipe", "folder", "outside"], rng)
    path = folder / _pick(sorted(files), rng)
    if how == "outside" and path.suffix == ".npy" and "manifest.json" in files:
        os.replace(path, folder.parent / "outside.npy")
        text = files["manifest.json"].decode(errors="replace").replace(path.name, "../outside.npy")
        (folder / "manifest.json").write_bytes(_seal_again(text))
    elif how == "link":
        path.unlink()
        path.symlink_to("/dev/zero")
    elif how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "folder":
        path.unlink()
        path.mkdir()
    return "" if how == "plain" else f", {how} {path.name.split('-')[0]}"
