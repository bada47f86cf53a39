"""What `claim_turns.py` times in each of two trees: a process that answers "name" with its CPU seconds.

Only names that both trees have, with the defaults of each. A case is prepared and run once when it is first
asked for, so that kernels are compiled, then timed each time.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import data
import numpy as np
from spectra import make_library, make_pixels

import wolfhound as wh

Case = Callable[[], object]

N, D = 100_000, 64
"""Atoms of the oracles."""


def repeat(call: Case, times: int) -> object:
    """Call several times: what takes microseconds is timed in bulk."""
    return [call() for _ in range(times)]


def ask_one_by_one(oracle: Any, queries: Any) -> object:
    """Ask for each query alone."""
    return [oracle.query(query) for query in queries]


# ---------------------------------------------------------------- oracles


def prepare_oracle(build: Callable[[Any], Any], how: str) -> Case:
    """One query at a time, 64 at once, or the build."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N, D)).astype(np.float32)
    queries = rng.standard_normal((64, D))
    if how == "build":
        return partial(build, rows)
    oracle = build(rows)
    if how == "one":
        return partial(ask_one_by_one, oracle, queries[:32, None])
    return partial(repeat, partial(oracle.query, queries), 4)


def prepare_small(build: Callable[[Any], Any]) -> Case:
    """One query at a time on 256 x 8 atoms: the price of a call."""
    rng = np.random.default_rng(0)
    oracle = build(rng.standard_normal((256, 8)))
    return partial(ask_one_by_one, oracle, rng.standard_normal((1000, 1, 8)))


ORACLES: dict[str, Callable[[Any], Any]] = {
    "Scan": wh.Scan,
    "Int8Scan": wh.Int8Scan.build,
    "ClusterIndex": wh.ClusterIndex.build,
    "LshIndex": wh.LshIndex.build,
}


# ---------------------------------------------------------------- minimize


def load_words() -> Any:
    """20,000 words."""
    return np.ascontiguousarray(data.load("glove100")[:20_000])


def prepare_steps() -> Case:
    """Classical Frank-Wolfe over a screened Scan."""
    words = load_words()
    target = wh.SquaredDistance(words[:40].astype(np.float64).mean(axis=0))
    method = wh.FrankWolfe(wh.Vanilla(), wh.OpenLoop(2.0))
    return lambda: wh.minimize(target, wh.Scan(words), method=method, rtol=0.0, max_steps=400)


def prepare_minimize(kind: str) -> Case:
    """The default method on problems of several kinds."""
    words = load_words()
    rng = np.random.default_rng(1)
    b = words[7].astype(np.float64)
    design = rng.standard_normal((300, 100))
    objectives: dict[str, Any] = {
        "word": wh.SquaredDistance(b),
        "inside": wh.SquaredDistance(words.mean(axis=0, dtype=np.float64)),
        "least squares": wh.LeastSquares(design, design @ b),
        "logistic": wh.Logistic(design, np.where(design @ b > 0.0, 1.0, -1.0)),
        "huber": wh.Huber(design, design @ b, delta=0.1),
    }
    exclude = [7]
    return partial(repeat, lambda: wh.minimize(objectives[kind], words, exclude=exclude), 3)


# ---------------------------------------------------------------- many targets


def prepare_small_dictionary(kind: str) -> Case:
    """Targets inside, on the boundary of and far from small dictionaries; spectra."""
    rng = np.random.default_rng(2)
    if kind == "spectra":
        library = make_library(300, 200, seed=0)
        return partial(wh.minimize_many, make_pixels(library, 3_000, seed=1), library)
    n, d, scale, m = SHAPES[kind]
    atoms = rng.standard_normal((n, d))
    targets = scale * rng.standard_normal((m, d))
    return partial(wh.minimize_many, targets, atoms)


SHAPES = {
    "inside": (300, 60, 0.05, 1_500),
    "boundary": (300, 60, 0.4, 3_000),
    "far": (300, 60, 3.0, 8_000),
    "low": (100, 8, 1.0, 10_000),
    "1000 x 100": (1_000, 100, 0.5, 800),
    "200 x 400": (200, 400, 0.5, 1_500),
}
"""Atoms, dimensions, size of the targets, targets."""


def prepare_large_dictionary() -> Case:
    """300 words, each by 20,000 others."""
    words = load_words()
    picked = np.arange(300)
    return partial(wh.minimize_many, words[picked], words, rtol=1e-4, exclude=picked[:, None])


# ---------------------------------------------------------------- jobs


def prepare_job(kind: str) -> Case:
    """Herding with fitted weights, designs, mixtures."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((20_000, 10))
    means = np.concatenate([rng.standard_normal(15_000), 4.0 + rng.standard_normal(5_000)])
    likelihoods = rng.random((20_000, 100)) + 1e-3
    jobs: dict[str, Case] = {
        "herd": lambda: wh.herd(rows, 300),
        "design": lambda: wh.design(rows[:, :6], model=wh.Quadratic()),
        "npmle": lambda: wh.npmle(means, wh.Normal(1.0)),
        "fit_weights": lambda: wh.fit_weights(likelihoods),
    }
    return jobs[kind]


CASES: dict[str, Callable[[], Case]] = {
    **{f"{name}, one query of 256": partial(prepare_small, build) for name, build in ORACLES.items()},
    **{
        f"{name}, {how}": partial(prepare_oracle, build, how)
        for how in ("one", "64", "build")
        for name, build in ORACLES.items()
        if (name, how) != ("Scan", "build")
    },
    "steps of Frank-Wolfe": prepare_steps,
    **{
        f"minimize, {kind}": partial(prepare_minimize, kind)
        for kind in ("word", "inside", "least squares", "logistic", "huber")
    },
    "many, spectra": partial(prepare_small_dictionary, "spectra"),
    **{f"many, {kind}": partial(prepare_small_dictionary, kind) for kind in SHAPES},
    "many, 20k words": prepare_large_dictionary,
    **{kind: partial(prepare_job, kind) for kind in ("herd", "design", "npmle", "fit_weights")},
}


def main() -> None:
    """Answer until there are no more questions."""
    wh.set_threads(1)
    prepared: dict[str, Case] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in prepared:
            prepared.clear()  # one case in memory
            prepared[name] = CASES[name]()
            prepared[name]()
        begin = time.process_time()
        prepared[name]()
        print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    main()
