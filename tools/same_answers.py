"""Whether another tree gives the same answers: ``python tools/same_answers.py answers.json``.

Runs a list of calls of public names and writes a digest of every answer to the file; where the file is there,
compares instead, and names the calls whose answers differ. Bits are those of one machine: record with the
old tree (``PYTHONPATH=old/src``), then compare with the new one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wolfhound as wh

Calls = dict[str, Callable[[], Any]]


def make_data() -> dict[str, Any]:
    """Rows of several shapes; the same in every process."""
    rng = np.random.default_rng(5)
    return {
        "rows": rng.standard_normal((4_000, 12)).astype(np.float32),
        "wide": rng.standard_normal((900, 60)),
        "target": 0.3 * rng.standard_normal(12),
        "far": 3.0 * rng.standard_normal(60),
        "labels": np.arange(4_000) % 3,
        "normal": np.concatenate([rng.standard_normal(300), 4.0 + rng.standard_normal(200)]),
        "counts": rng.poisson(3.0, 400),
        "likelihoods": rng.random((500, 40)) + 1e-3,
        "signs": np.where(rng.random(80) < 0.5, -1.0, 1.0),
        "matrix": rng.standard_normal((80, 12)),
        "targets": rng.standard_normal((30, 12)),
    }


def list_solves(data: dict[str, Any]) -> Calls:
    """`minimize` by every objective, method and oracle."""
    rows, wide, b = data["rows"], data["wide"], data["target"]
    near, away = wh.SquaredDistance(b), wh.SquaredDistance(data["far"])
    objectives: dict[str, Any] = {
        "distance": near,
        "least squares": wh.LeastSquares(data["matrix"], data["matrix"] @ b),
        "huber": wh.Huber(data["matrix"], data["matrix"] @ b, delta=0.5),
        "logistic": wh.Logistic(data["matrix"], data["signs"]),
    }
    methods: dict[str, Any] = {
        "corrective": wh.FullyCorrective(),
        "frank-wolfe": wh.FrankWolfe(),
        "away": wh.FrankWolfe(direction=wh.Away(), step=wh.LineSearch()),
        "pairwise": wh.FrankWolfe(direction=wh.Pairwise(), step=wh.ShortStep(1.0)),
        "blended": wh.FrankWolfe(direction=wh.BlendedPairwise()),
        "sublinear": wh.SublinearFrankWolfe(ratio=0.8),
    }
    halves = [wh.Scan(rows[:1_500]), wh.Scan(rows[1_500:])]
    oracles: dict[str, Callable[[], Any]] = {
        "scan": lambda: wh.Scan(rows),
        "int8": lambda: wh.Int8Scan.build(rows),
        "clusters": lambda: wh.ClusterIndex.build(rows, seed=3),
        "lsh": lambda: wh.LshIndex.build(rows, seed=3),
        "tiers": lambda: wh.Tiered(wh.LshIndex.build(rows, seed=3)),
        "subset": lambda: wh.RandomSubset(rows, size=500),
        "sharded": lambda: wh.Sharded.over(halves, ThreadPoolExecutor(2)),
    }
    plain = wh.FrankWolfe()
    calls: Calls = {}
    for name, f in objectives.items():
        calls[f"minimize {name}"] = partial(wh.minimize, f, rows)
    for name, method in methods.items():
        calls[f"by {name}"] = partial(wh.minimize, near, rows, method=method, max_steps=60)
    for name, make in oracles.items():
        calls[f"over {name}"] = partial(search, near, make, plain)
    calls["far away"] = lambda: wh.minimize(away, wide)
    calls["excluded"] = lambda: wh.minimize(away, wide, exclude=np.arange(100))
    calls["three atoms"] = lambda: wh.minimize(wh.SquaredDistance([1.0, 0.2, 0.0]), np.eye(3))
    calls["queries"] = lambda: [make().query(wide[:5, :12], k=7) for make in oracles.values()]
    return calls


def search(objective: Any, make: Callable[[], Any], method: Any) -> Any:
    """A short run that asks an oracle at every step."""
    return wh.minimize(objective, make(), method=method, max_steps=40)


def list_jobs(data: dict[str, Any]) -> Calls:
    """Herding, many targets, designs, mixtures, tables."""
    rows = data["rows"]
    factors = wh.Factors({"t": np.linspace(-1, 1, 9), "p": np.linspace(-1, 1, 7)})
    return {
        "many": lambda: wh.minimize_many(data["targets"], rows[:300]),
        "many of many": lambda: wh.minimize_many(data["targets"], rows),
        "herd": lambda: wh.herd(rows, 50),
        "herd by labels": lambda: wh.herd(rows, 50, by=data["labels"]),
        "herd laplace": lambda: wh.herd(rows, 30, kernel=wh.Laplace(2.0)),
        "herd in features": lambda: wh.herd_in_features(rows, 40),
        "design": lambda: wh.design(factors, model=wh.Quadratic()),
        "design A": lambda: wh.design(rows[:200, :4].astype(float), criterion=wh.AOptimal()),
        "exact design": lambda: wh.design(factors, model=wh.Quadratic()).round(12),
        "ellipsoid": lambda: wh.enclosing_ellipsoid(rows[:500, :5].astype(float)),
        "npmle": lambda: wh.npmle(data["normal"], wh.Normal(1.0)),
        "npmle counts": lambda: wh.npmle(data["counts"], wh.Poisson()),
        "weights": lambda: wh.fit_weights(data["likelihoods"]),
        "table": lambda: read_table(data),
    }


def read_table(data: dict[str, Any]) -> Any:
    """A csv with text, blanks and numbers, herded."""
    kinds = np.array(["red", "green", "", "blue"])[np.arange(400) % 4]
    lines = [
        f"{row[0]:.4f},{kind},{'' if i % 17 == 0 else i}"
        for i, (row, kind) in enumerate(zip(data["rows"][:400], kinds, strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text("x,colour,place\n" + "\n".join(lines))
        return wh.herd(path, 20)


def list_bits(value: Any) -> Iterator[bytes]:
    """The bits of an answer: numbers, ids, weights, statuses; no times, no names of classes."""
    if isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from list_bits(each)
    elif isinstance(value, bool | int | float | str | np.generic):
        yield repr(value).encode()
    else:
        for name in KEPT:
            if hasattr(value, name):
                yield name.encode()
                yield from list_bits(getattr(value, name))


KEPT = (
    *(
        "ids",
        "scores",
        "bounds",
        "scored",
        "x",
        "weights",
        "value",
        "values",
        "lower",
        "lowers",
        "steps",
        "passes",
    ),
    *("indptr", "indices", "mmd", "efficiency", "atoms", "centre", "shape_matrix", "counts", "runs"),
)
"""Fields of answers that are compared, where they are numbers or arrays."""


def digest(call: Callable[[], Any]) -> str:
    """A short name for the bits of an answer; the error where there is none."""
    try:
        parts = list(list_bits(call()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    hashed = hashlib.blake2b(digest_size=12)
    for part in parts:
        hashed.update(part)
    return f"{hashed.hexdigest()} of {len(parts)} parts"


def main() -> None:
    """Record, or compare."""
    path = Path(sys.argv[1])
    wh.set_threads(1)
    data = make_data()
    found = {name: digest(call) for name, call in (list_solves(data) | list_jobs(data)).items()}
    if not path.exists():
        path.write_text(json.dumps(found, indent=1))
        print("\n".join(f"{name:18} {text}" for name, text in found.items()))
        return
    known = json.loads(path.read_text())
    differ = [name for name in known if known[name] != found.get(name)]
    for name in differ:
        print(f"{name}: {known[name]} -> {found.get(name)}")
    print(f"{len(known) - len(differ)} of {len(known)} answers are the same to the bit")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
