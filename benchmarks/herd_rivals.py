"""What `herd` is compared with: two packages, and herding in random features.

Rows are in units of the kernel's lengthscale: k(x, y) = exp(-|x - y|^2 / 2) for all.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import isolated
import numpy as np
from reference import Ids, Matrix, Vector

import wolfhound

FEATURES = 256
_TILE = 4096

COMPRESS = isolated.Tool(
    "goodpoints",
    ("goodpoints==0.6.3",),
    """
from goodpoints.compress import compresspp_kt
rows = np.ascontiguousarray(given["rows"], np.float64)
begin, busy = time.perf_counter(), time.process_time()
ids = compresspp_kt(rows, b"gaussian", k_params=np.array([2.0]), g=2, seed=int(given["seed"]))
answer = {"ids": ids, "seconds": time.perf_counter() - begin, "busy": time.process_time() - busy}
""",
)

KERNEL_HERDING = isolated.Tool(
    "coreax",
    ("coreax==1.0.0",),
    """
os.environ["JAX_PLATFORMS"] = "cpu"
if threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
import equinox, jax
from coreax import Data
from coreax.kernels import SquaredExponentialKernel
from coreax.solvers import KernelHerding
kernel = SquaredExponentialKernel(length_scale=1.0)
solver = KernelHerding(coreset_size=int(given["size"]), kernel=kernel, block_size=1024)
reduce, rows = equinox.filter_jit(solver.reduce), Data(jax.numpy.asarray(given["rows"]))
start = time.perf_counter()
reduce(rows)[0].unweighted_indices.block_until_ready()  # compiles
begin, busy = time.perf_counter(), time.process_time()
ids = np.asarray(reduce(rows)[0].unweighted_indices)
answer = {"ids": ids, "seconds": time.perf_counter() - begin, "busy": time.process_time() - busy}
answer["first"] = begin - start
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Rows that a method chose.

    Attributes
    ----------
    ids : (k,)
        May repeat.
    weights : (k,), optional
        None: equal.
    seconds : float
        All that it took, preparation included.
    busy : float
        Seconds that processors worked for it: less than `seconds` where others are busy too.
    passes, scored : float, optional
        Passes over all rows, and rows scored; None where a package does not say.
    note : str
        What else there is to say.
    """

    ids: Ids
    weights: Vector | None = None
    seconds: float
    busy: float
    passes: float | None = None
    scored: int | None = None
    note: str = ""


def compress(rows: Matrix, *, seed: int, threads: int, limit: float) -> Picked:
    """Compress++ of goodpoints, g = 2: the square root of as many rows as a power of 4."""
    given = {"rows": rows, "seed": np.array(seed)}
    answer = isolated.call(COMPRESS, given, threads=threads, limit=limit)
    return Picked(ids=answer["ids"], seconds=float(answer["seconds"]), busy=float(answer["busy"]))


def kernel_herding(rows: Matrix, m: int, *, threads: int, limit: float) -> Picked:
    """KernelHerding of coreax, over all rows; compiled before it is timed."""
    given = {"rows": rows, "size": np.array(m)}
    answer = isolated.call(KERNEL_HERDING, given, threads=threads, limit=limit)
    return Picked(
        ids=answer["ids"].astype(np.int64),
        seconds=float(answer["seconds"]),
        busy=float(answer["busy"]),
        note=f"the first call, which compiles, took {answer['first']:.1f} s",
    )


# ---------------------------------------------------------------- random features

FASTEST = "by Int8Scan"
"""What the best of all rows is found by: the fastest exact oracle."""


@dataclass(frozen=True, slots=True)
class Phi:
    """Random Fourier features of all rows, kept in memory.

    Attributes
    ----------
    values : (n, 256) float32
    mean : (256,) float64
    seconds, busy : float
        To make them, as in `Picked`.
    """

    values: Matrix
    mean: Vector
    seconds: float
    busy: float


def random_features(rows: Matrix, *, count: int = FEATURES, seed: int = 0) -> Phi:
    """Cosines and sines of normal frequencies, of every row."""
    begin, busy = time.perf_counter(), time.process_time()
    half = count // 2
    waves = np.random.default_rng(seed).standard_normal((rows.shape[1], half)).astype(np.float32)
    values, total = np.empty((len(rows), count), np.float32), np.zeros(count)
    for at in range(0, len(rows), _TILE):
        part = values[at : at + _TILE]
        angles = rows[at : at + _TILE] @ waves
        np.cos(angles, out=part[:, :half])
        np.sin(angles, out=part[:, half:])
        part *= np.float32(half**-0.5)
        total += part.sum(0, dtype=np.float64)
    return Phi(values, total / len(rows), time.perf_counter() - begin, time.process_time() - busy)


def exact_herding(phi: Phi, sizes: Sequence[int]) -> dict[int, Picked]:
    """Herding in random features: the best of all rows for every pick, by the fastest exact oracle.

    That is `Int8Scan`, its build included: a product with all rows takes seven times as long.
    One run to the largest size; it has passed through the smaller ones on the way.
    """
    begin, busy = time.perf_counter(), time.process_time()
    exact = wolfhound.Int8Scan.build(phi.values)
    state, picks = phi.mean.copy(), []
    out, scored = {}, 0
    for t in range(1, max(sizes) + 1):
        hits = exact.query(state[None])
        best = int(hits.ids[0, 0])
        picks.append(best)
        scored += int(hits.scored[0])
        state += phi.mean - phi.values[best]
        if t in sizes:
            out[t] = Picked(
                ids=np.array(picks),
                seconds=phi.seconds + time.perf_counter() - begin,
                busy=phi.busy + time.process_time() - busy,
                passes=1.0 + t,
                scored=scored,
                note=FASTEST,
            )
    return out
