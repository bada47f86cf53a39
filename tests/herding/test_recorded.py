"""The same seed gives the same rows, weights and MMD as when they were recorded."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wolfhound import Gaussian, Laplace, Linear, LineSearch, OpenLoop, Scan, Stein, herd, herd_in_features
from wolfhound.herding import with_scores
from wolfhound.herding.result import HerdResult

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text())

DRAWS = np.random.default_rng(20)
SMALL = DRAWS.standard_normal((1500, 5)) @ DRAWS.standard_normal((5, 5)) + 3.0
SINGLE = SMALL.astype(np.float32)
MANY = np.random.default_rng(21).standard_normal((24_000, 3)).cumsum(axis=1).astype(np.float32)
MANY64 = MANY.astype(np.float64) ** 3
OTHERS = 0.5 * SMALL[:700] + 1.0
NAMES = np.array(["a", "b", "c"])[np.searchsorted([0.6, 0.9], DRAWS.random(1500))]
GROUPS = (MANY[:, 0] > 0.8).astype(np.int64) + 2 * (MANY[:, 1] > 1.0)
WEIGHTS = DRAWS.gamma(2.0, size=1500)
HEAVY = np.random.default_rng(22).gamma(0.3, size=24_000)
SCORED = with_scores(SMALL, -SMALL)


def waves(rows: Any) -> Any:
    """Nine features of five columns."""
    return np.hstack([np.cos(rows[:, :4]), np.sin(rows)])


KERNELS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "gaussian": (SMALL, 40, {}),
    "gaussian, float32": (SINGLE, 40, {"seed": 3}),
    "gaussian, lengthscale": (SMALL, 40, {"kernel": Gaussian(0.7), "weights": True}),
    "laplace": (SMALL, 40, {"kernel": Laplace(), "swap": True}),
    "laplace, float32": (SINGLE, 40, {"kernel": Laplace(2.0), "weights": True}),
    "linear": (SMALL, 40, {"kernel": Linear()}),
    "linear, float32": (SINGLE, 40, {"kernel": Linear(), "swap": True, "weights": True}),
    "linear, target": (SMALL, 40, {"kernel": Linear(), "target": OTHERS, "weights": True}),
    "linear, labels": (SMALL, 40, {"kernel": Linear(), "by": NAMES, "row_weights": WEIGHTS}),
    "stein": (SCORED, 40, {"kernel": Stein()}),
    "stein, weights": (SCORED, 40, {"kernel": Stein(1.5), "swap": True, "weights": True, "seed": 4}),
    "stein, labels": (SCORED, 40, {"kernel": Stein(), "by": NAMES, "balanced": True}),
    "swap": (SMALL, 60, {"swap": True}),
    "weights": (SMALL, 60, {"weights": True, "seed": 1}),
    "labels": (SMALL, 41, {"by": NAMES}),
    "balanced": (SMALL, 41, {"by": NAMES, "balanced": True, "weights": True}),
    "labels, weighted": (SINGLE, 41, {"by": NAMES, "weights": True, "swap": True, "row_weights": WEIGHTS}),
    "target": (SMALL, 40, {"target": OTHERS, "seed": 7}),
    "target, weighted": (SMALL, 40, {"target": OTHERS, "row_weights": WEIGHTS[:700], "weights": True}),
    "start, exclude": (SMALL, 40, {"start": [5, 99, 7], "exclude": range(100, 400), "swap": True}),
    "start, labels": (SMALL, 40, {"start": [5, 99, 7], "exclude": range(100, 400), "by": NAMES}),
    "weighted": (SMALL, 40, {"row_weights": WEIGHTS}),
    "candidates": (SMALL, 40, {"candidates": 200}),
    "many": (MANY, 100, {}),
    "many, float64": (MANY64, 100, {"kernel": Laplace(), "seed": 5}),
    "many, weighted": (MANY, 60, {"row_weights": HEAVY, "weights": True}),
    "many, target": (SMALL[:, :3], 60, {"target": MANY, "swap": True}),
    "many, candidates": (MANY, 60, {"candidates": 500, "exclude": range(0, 24_000, 2)}),
    "many, labels": (MANY, 60, {"by": GROUPS, "weights": True}),
    "many, balanced": (MANY, 60, {"by": GROUPS, "balanced": True, "row_weights": HEAVY}),
    "many, linear": (MANY, 60, {"kernel": Linear(), "weights": True}),
}

FEATURES: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "plain": (SMALL, 40, {}),
    "scan": (SMALL, 40, {"oracle": Scan}),
    "map": (SMALL, 40, {"features": waves}),
    "map, float32": (SINGLE, 40, {"features": waves, "oracle": Scan, "seed": 2}),
    "array": (SMALL, 40, {"features": waves(SMALL), "oracle": Scan, "step": OpenLoop(2.0)}),
    "line search": (SMALL, 40, {"features": waves, "step": LineSearch()}),
    "target": (SMALL, 40, {"features": waves, "target": OTHERS, "row_weights": WEIGHTS[:700]}),
    "start, exclude": (SMALL, 40, {"oracle": Scan, "start": [5, 99, 7], "exclude": range(100, 400)}),
    "weighted": (SMALL, 40, {"row_weights": WEIGHTS, "step": OpenLoop(1.0), "seed": 9}),
    "many": (MANY, 400, {}),
}


def numbers(result: HerdResult) -> dict[str, Any]:
    """What is recorded of a result."""
    return {
        "ids": result.ids.tolist(),
        "weights": [] if len(set(result.weights.tolist())) == 1 else result.weights.tolist(),
        "mmd": result.mmd,
        "random": [result.mmd_random, result.mmd_random_spread],
        "value": float(result.trace.value[-1]),
        "cost": [result.passes, result.scored],
    }


def check(result: HerdResult, name: str) -> None:
    """Compare with what was recorded: ids exactly, sums up to the rounding of another machine."""
    found, wanted = numbers(result), RECORDED[name]
    assert found["ids"] == wanted["ids"]
    assert found["cost"] == wanted["cost"]
    for part in ("weights", "mmd", "random", "value"):
        np.testing.assert_allclose(found[part], wanted[part], rtol=1e-6, atol=1e-8, err_msg=part)


def ways(options: dict[str, Any]) -> dict[str, Any]:
    """What `extend` must be given again."""
    return {name: options[name] for name in ("target", "by", "row_weights") if name in options}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_picks_in_a_kernel(name: str) -> None:
    rows, m, options = KERNELS[name]
    check(herd(rows, m, **options), f"kernel: {name}")


@pytest.mark.parametrize("name", FEATURES)
def test_picks_in_features(name: str) -> None:
    rows, m, options = FEATURES[name]
    check(herd_in_features(rows, m, **options), f"features: {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "start, labels", "many, weighted", "laplace", "stein, weights"])
def test_extended_picks(name: str, tmp_path: Path) -> None:
    rows, m, options = KERNELS[name]
    herd(rows, m, **options).save(tmp_path / "run")
    loaded = HerdResult.load(tmp_path / "run")
    check(loaded.extend(m + 15, atoms=rows, **ways(options)), f"extended: {name}")


@pytest.mark.parametrize("name", ["scan", "line search", "start, exclude"])
def test_extended_picks_in_features(name: str) -> None:
    rows, m, options = FEATURES[name]
    check(herd_in_features(rows, m, **options).extend(m + 15), f"extended features: {name}")


def test_picks_of_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", SMALL)
    np.savetxt(tmp_path / "rows.csv", SMALL, delimiter=",", header="a,b,c,d,e", comments="", fmt="%.17g")
    check(herd(tmp_path / "rows.npy", 40), "kernel: gaussian")
    check(herd(tmp_path / "rows.csv", 40), "kernel: gaussian")
    check(herd([tmp_path / "rows.npy", tmp_path / "rows.csv"], 40), "file: both")
