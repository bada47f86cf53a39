"""Forged and damaged files: refused with a clear error, or harmless, never false.

A file that was saved is changed at random: its bytes, a whole array with its checksum
made right again, entries of the header. Then it is loaded, and what loads is used: ids are in
range, a score is that of its atom, a
finite bound is above all scores, and ``lower`` is below the minimum.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.fuzz import forgery, supervise
from tests.fuzz.supervise import Findings
from tests.oracles.edits import build_edited
from wolfhound import (
    Adaptive,
    FrankWolfe,
    LinearModel,
    Normal,
    Pairwise,
    SquaredDistance,
    design,
    load,
    minimize,
    npmle,
)
from wolfhound.data.store import StoreError
from wolfhound.herding.herd import herd
from wolfhound.herding.result import HerdResult
from wolfhound.oracles.clusters import ClusterIndex
from wolfhound.oracles.int8.file_scan import Int8FileScan
from wolfhound.oracles.int8.scan import Int8Scan
from wolfhound.oracles.lsh import LshIndex
from wolfhound.policy import ACMDP, AffineTransition, QuadraticReward, TabularResult, fwpo
from wolfhound.solve.result import Result

BATCH = 50
"""Files that are judged together; a death costs the rest of them."""

CLEAR = (ValueError, TypeError, FloatingPointError)
"""What may be raised where something loaded is used; loading raises StoreError."""

ROWS = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)
POSITIVE = np.abs(ROWS).astype(np.float64)
QUERIES = np.random.default_rng(2).standard_normal((9, 5))
TARGET = np.full(5, 0.7)


class Template(NamedTuple):
    """Something that was saved, and how it is read and used."""

    name: str
    data: bytes
    load: Callable[[Path], Any]
    use: Callable[[Any], list[str]]


# ---------------------------------------------------------------- what is saved


def _index(oracle: Any, rows: NDArray[Any], **options: Any) -> tuple[Any, ...]:
    return (
        oracle.build(rows, **options),
        lambda path: oracle.load(path, rows),
        lambda index: use_index(index, rows),
    )


def _edited(oracle: Any, rows: NDArray[Any], **options: Any) -> tuple[Any, ...]:
    return build_edited(oracle, rows, **options), *_index(oracle, rows, **options)[1:]


class _Unfinished:
    """A run that was cut short, and can go on."""

    def save(self, path: Path) -> None:
        _go_on(path, max_passes=6)


def _go_on(path: Path, **limits: Any) -> Result:
    """Solve by many short passes, from what the file holds."""
    method = FrankWolfe(Pairwise(), Adaptive())
    return minimize(SquaredDistance(TARGET), ROWS, method=method, checkpoint=path, exclude=[39], **limits)


def _policy() -> ACMDP:
    rng = np.random.default_rng(3)
    chances = rng.uniform(0.0, 0.01, (3, 5, 3))
    chances -= chances.mean(axis=2, keepdims=True)
    reward = QuadraticReward(rng.uniform(-1.0, 1.0, (3, 5)), np.zeros((3, 5)), curvature=1.0)
    return ACMDP(
        reward, AffineTransition(chances, np.full((3, 3), 1.0 / 3.0)), 0.5, np.full(3, 1.0 / 3.0), ROWS
    )


@functools.cache
def templates() -> tuple[Template, ...]:
    """Everything that can be saved, small."""
    makers: dict[str, Callable[[], tuple[Any, ...]]] = {
        "result": lambda: (
            minimize(SquaredDistance(TARGET), ROWS, names=[f"atom {i}" for i in range(40)]),
            lambda path: load(path, atoms=ROWS),
            use_result,
        ),
        "checkpoint": lambda: (_Unfinished(), _go_on, use_run),
        "herd": lambda: (herd(ROWS, 6), lambda path: HerdResult.load(path, ROWS), use_result),
        "policy": lambda: (
            fwpo(_policy(), max_steps=4),
            lambda path: TabularResult.load(path, atoms=ROWS),
            use_result,
        ),
        "mixture": lambda: (npmle(ROWS[:, 0], Normal(0.5)), load, use_mixture),
        "design": lambda: (
            design(ROWS, model=LinearModel(), given=ROWS[:2], runs=9),
            lambda path: load(path, atoms=ROWS),
            use_design,
        ),
        "int8": lambda: _index(Int8Scan, ROWS),
        "int8 positive": lambda: _index(Int8Scan, POSITIVE),
        "int8 on disk": lambda: _index(Int8FileScan, POSITIVE),
        "clusters": lambda: _index(ClusterIndex, ROWS),
        "clusters proof": lambda: _index(ClusterIndex, ROWS, proof=True),
        "lsh": lambda: _index(LshIndex, ROWS, tables=2, tau=0.5),
        "lsh proof": lambda: _index(LshIndex, POSITIVE, proof=True),
        "clusters edited": lambda: _edited(ClusterIndex, ROWS, proof=True),
    }
    return tuple(_template(name, *make()) for name, make in makers.items())


def _template(name: str, saved: Any, read: Any, use: Any) -> Template:
    with tempfile.TemporaryDirectory() as folder:
        saved.save(Path(folder) / "saved")
        data = (Path(folder) / "saved.safetensors").read_bytes()
    return Template(name, data, read, use)


# ---------------------------------------------------------------- how it is used


def use_index(index: Any, rows: NDArray[Any]) -> list[str]:
    """Ask and solve; return what is wrong."""
    exact = QUERIES @ rows.astype(np.float64).T
    slack = 1e-12 * np.abs(QUERIES).sum(axis=1) * float(np.abs(rows).sum(axis=1).max())
    wrong = []
    for m, k, asked in ((1, 1, False), (9, 3, True), (9, 40, False)):
        hits = index.query(QUERIES[:m], k=k, thresholds=np.zeros(m) if asked else None)
        found = hits.ids >= 0
        if hits.ids.min() < -1 or hits.ids.max() >= len(rows):
            wrong.append(f"ids {hits.ids.min()} .. {hits.ids.max()}")
            continue
        scores = np.take_along_axis(exact[:m], np.maximum(hits.ids, 0), axis=1)
        if (np.abs(scores - hits.scores) > slack[:m, None])[found].any():
            wrong.append("a score is not that of its atom")
        if not (hits.bounds >= exact[:m].max(axis=1) - slack[:m]).all():
            wrong.append(f"bounds {hits.bounds} below {exact[:m].max(axis=1)}")
    result = minimize(SquaredDistance(TARGET), index, max_steps=20)
    if not result.lower <= least(rows.tobytes(), rows.dtype.str) * (1.0 + 1e-9):
        wrong.append(f"lower {result.lower} is above the minimum")
    return wrong


@functools.cache
def least(data: bytes, dtype: str) -> float:
    """The least distance of the target that is known, a little above the minimum."""
    rows = np.frombuffer(data, dtype).reshape(-1, 5)
    return minimize(SquaredDistance(TARGET), rows.copy(), rtol=1e-12).value


def use_result(result: Any) -> list[str]:
    """Look at all that a result says; return what is wrong."""
    repr(result)
    ids, weights = result.ids, result.weights
    rules = {
        "ids": ids.dtype == np.int64 and ids.min(initial=0) >= -1 and ids.max(initial=0) < len(ROWS),
        "weights": weights.shape == ids.shape and bool((weights >= 0.0).all()),
        "sum": bool((weights.sum(axis=-1) <= 1.0 + 1e-6).all()) or ids.ndim == 2,
        "gap": not getattr(result, "gap", 0.0) < 0.0,
        "trace": len(result.trace) == len(result.trace.kind),
        "message": isinstance(result.message, str),
    }
    return [f"wrong {name}" for name, holds in rules.items() if not holds]


def use_run(result: Result) -> list[str]:
    """As a result, of whose proof nothing comes from the file."""
    wrong = use_result(result)
    known = least(ROWS[:39].tobytes(), ROWS.dtype.str)
    if not result.lower <= known * (1.0 + 1e-9):
        wrong.append(f"lower {result.lower} is above the minimum")
    if not result.value >= known * (1.0 - 1e-9):
        wrong.append(f"value {result.value} is below the minimum")
    away = result.weights @ ROWS[result.ids].astype(np.float64) / result.weights.sum() - TARGET
    if not 0.5 * float(away @ away) <= result.value * (1.0 + 1e-12):
        wrong.append(f"value {result.value} is below that of the weights")
    return wrong


def use_mixture(fit: Any) -> list[str]:
    """Ask a fit for posteriors; return what is wrong."""
    repr(fit)
    rows = fit.posterior(np.array([0.0, 1.0, 2.0]), Normal(0.5))
    rules = {
        "posterior": rows.shape == (3, len(fit.mass)) and bool(np.abs(rows.sum(axis=1) - 1.0).max() < 1e-6),
        "gap": fit.gap >= 0.0,
        "means": len(fit.posterior_mean()) == len(fit.x),
    }
    return [f"wrong {name}" for name, holds in rules.items() if not holds]


def use_design(found: Any) -> list[str]:
    """Look at all that a design says, and round it; return what is wrong."""
    repr(found)
    found.to_columns()
    rules = {
        "ids": found.ids.min(initial=0) >= 0 and found.ids.max(initial=0) < len(ROWS),
        "weights": bool((found.weights >= 0.0).all()) and abs(found.weights.sum() - 1.0) <= 1e-6,
        "efficiency": 0.0 <= found.efficiency <= 1.0,
    }
    found.variance(ROWS[:3])
    exact = found.round(9)
    rules["runs"] = exact.runs == 9 and bool((exact.counts > 0).all()) and 0.0 <= exact.efficiency <= 1.0
    return [f"wrong {name}" for name, holds in rules.items() if not holds]


# ---------------------------------------------------------------- judging


def judge(seed: int, batch: int) -> Iterator[str | Findings]:
    """Yield what each case of a batch is, then what was found."""
    found = Findings()
    rng = np.random.default_rng([seed, batch])
    for case in range(BATCH):
        template = templates()[int(rng.integers(len(templates())))]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forged.safetensors"
            path.write_bytes(template.data)
            label = f"{seed}/{batch}/{case}, {template.name}: {forgery.change(path, rng)}"
            label += forgery.misplace(path, rng)
            yield label
            _judge_one(template, path, label, found)
    yield found


def _judge_one(template: Template, path: Path, label: str, found: Findings) -> None:
    found.counts["files"] += 1
    try:
        loaded = template.load(path)
    except StoreError as error:
        found.counts["refused"] += 1
        if "\n" in str(error):
            found.violations.append(f"{label}: an error of several lines: {error}")
        return
    except Exception:
        found.violations.append(f"{label}: while loading: {traceback.format_exc(limit=-2)}")
        return
    found.counts["loaded"] += 1
    try:
        wrong = template.use(loaded)
    except CLEAR:
        found.counts["refused in use"] += 1
        return
    except Exception:
        wrong = [f"while used: {traceback.format_exc(limit=-3)}"]
    found.violations.extend(f"{label}: {text}" for text in wrong)


def run(cases: int, seed: int = 0, *, limit: float = 600.0, workers: int = 2) -> Findings:
    """Judge at least so many files in processes of their own.

    Parameters
    ----------
    cases
        Files.
    seed
        Of all that is random.
    limit
        CPU seconds that a file may take.
    workers
        Processes.
    """
    batches = range(-(-cases // BATCH))
    return supervise.run("forged", seed, batches, limit=limit, workers=workers)
