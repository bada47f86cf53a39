"""Every Python block of the README and the documentation runs.

The blocks of a page share one namespace. What they take as given (rows, labels, a
file) is prepared here, small. A block that cannot run has a comment before it:
``<!-- fragment: why -->``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from wolfhound import INDEXES, KERNELS, SquaredDistance
from wolfhound.policy import RULES

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- fragment: \S.*-->\n+)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AT_END = re.compile(r"\S  # (?!noqa)")
Given = dict[str, Any]


class Page(NamedTuple):
    """What a page takes as given, and what is too slow for a test: old text, new text."""

    given: Callable[[], Given] = dict
    shorter: tuple[tuple[str, str], ...] = ()


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


def readme() -> Given:
    rows = normal(1500, 5)
    np.save("rows.npy", rows)
    return {
        "rows": rows,
        "labels": np.arange(len(rows)) % 3,
        "estimates": normal(40),
        "standard_errors": np.full(40, 0.8),
    }


def home() -> Given:
    given = policies() | unmixing()
    vectors, s = given["vectors"], np.exp(0.5 * normal(40))
    return given | {
        "names": [f"vector {i}" for i in range(len(vectors))],
        "target": vectors.mean(axis=0),
        "queries": normal(20, vectors.shape[1]),
        "table": pd.read_csv(ROOT / "tests" / "data" / "flights.csv"),
        "z": 3.0 * (np.arange(40) % 3 == 0) + s,
        "s": s,
        "t": [20, 40, 60],
        "p": [1, 2, 3],
        "r": given["reward"],
        "P": given["transition"],
    }


def unmixing() -> Given:
    materials = [f"mineral {i}" for i in range(30)]
    return {"cube": 0.3 * np.abs(normal(4, 5, 8)), "spectra": np.abs(normal(30, 8)), "materials": materials}


def minimise() -> Given:
    return {"loss": lambda x: (x * x).sum()}


def herding() -> Given:
    rows = normal(2000, 4)
    np.save("rows.npy", rows)
    pd.DataFrame(normal(1000, 3), columns=["age", "income", "hours"]).to_parquet("people.parquet")
    shutil.copy(ROOT / "tests" / "data" / "flights.csv", "flights.csv")
    return {
        "rows": rows,
        "labels": np.arange(len(rows)) % 3,
        "pool": rows,
        "population": 0.5 * rows,
        "samples": rows,
        "gradients": -rows,
        "embed": np.cos,
        "X": rows,
        "y": np.arange(len(rows)) % 2,
        "model": LogisticRegression(),
    }


def many() -> Given:
    return {
        "words": normal(1200, 8),
        "cube": 0.3 * np.abs(normal(4, 5, 8)),
        "spectra": np.abs(normal(30, 8)),
        "units": normal(20, 12),
    }


def in_files() -> Given:
    rows = normal(2000, 8).astype(np.float32)
    np.save("atoms.npy", rows)
    for i in range(2):
        np.save(f"part-{i}.npy", rows[i::2])
    with h5py.File("vectors.h5", "w") as file:
        file["embeddings"], file["more"] = rows, rows[:10]
    return {"target": np.full(8, 0.9)}


def mixtures() -> Given:
    errors = np.exp(0.5 * normal(60))
    z = 3.0 * (np.arange(60) % 3 == 0) + errors * normal(2, 60)[1]
    pd.DataFrame({"name": [f"g{i}" for i in range(60)], "z": z, "s": errors}).to_csv("data.csv", index=False)
    return {}


def designs() -> Given:
    rows = normal(1000, 2)
    kinds = np.array(["none", "Pd", "Pt"])[np.arange(1000) % 3]
    return {"possible_table": pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "kind": kinds})}


def oracles() -> Given:
    atoms = normal(2000, 8)
    given = {"atoms": atoms, "queries": normal(20, 8), "rows": normal(30, 8)}
    return given | {"f": SquaredDistance(np.full(8, 0.1))}


def threads() -> Given:
    return {"atoms": normal(2000, 8), "objectives": [SquaredDistance(row) for row in normal(8, 8)]}


def policies() -> Given:
    rng = np.random.default_rng(0)
    vectors = rng.dirichlet(np.ones(4), 300)  # so that rows of chances stay such for all mixtures
    return {
        "vectors": vectors,
        "reward": rng.standard_normal((3, 4)),
        "transition": rng.dirichlet(np.ones(3), (3, 4)),
        "start": np.full(3, 1.0 / 3.0),
    }


def reports() -> Given:
    atoms = normal(1500, 5)
    return {"atoms": atoms, "target": np.full(5, 2.0), "names": [f"atom {i}" for i in range(1500)]}


def scale() -> Given:
    for name in ("monday", "tuesday"):
        np.save(f"{name}.npy", normal(1500, 5))
    return {"point": np.full(5, 2.0)}


def checkpoints() -> Given:
    np.save("atoms.npy", normal(4000, 64))
    return {}


PAGES: dict[str, Page] = {
    "README.md": Page(readme),
    "docs/index.md": Page(home),
    "docs/tutorial.md": Page(),
    "docs/explain.md": Page(),
    "docs/unmix.md": Page(unmixing),
    "docs/objective.md": Page(),
    "docs/minimize.md": Page(minimise, (("1_000_000, 64", "20_000, 64"),)),
    "docs/checkpoints.md": Page(checkpoints),
    "docs/designs.md": Page(designs),
    "docs/extending.md": Page(),
    "docs/herding.md": Page(herding),
    "docs/many.md": Page(many),
    "docs/nnls.md": Page(),
    "docs/synthetic-control.md": Page(),
    "docs/concepts.md": Page(),
    "docs/stacking.md": Page(),
    "docs/mixing.md": Page(),
    "docs/files.md": Page(in_files),
    "docs/mixtures.md": Page(mixtures, (("bootstrap(20", "bootstrap(2"),)),
    "docs/oracles.md": Page(oracles),
    "docs/reports.md": Page(reports),
    "docs/scale.md": Page(scale),
    "docs/threads.md": Page(threads),
    "docs/policies.md": Page(
        policies,
        (
            ("agent.learn(10_000", "agent.learn(64"),
            ("agent.learn(1_000", "agent.learn(64"),
            ("agent.learn(2_000, ", "agent.learn(64, "),
        ),
    ),
}


def test_every_page_with_python_is_run() -> None:
    texts = {path: path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
    with_python = {str(path.relative_to(ROOT)) for path, text in texts.items() if "```python" in text}
    assert with_python == set(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / name).read_text()
    page = PAGES[name]
    monkeypatch.chdir(tmp_path)
    for table in (INDEXES, KERNELS, RULES):
        monkeypatch.setattr(table, "_things", dict(table._things))  # what a page adds goes with it
    space = page.given()
    for old, new in page.shorter:
        assert text.count(old) == 1
        text = text.replace(old, new)
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python")
    for block in blocks:
        line = text.count("\n", 0, block.start(2)) + 1
        code = "\n" * (line - 1) + block[2] * (block[1] is None)
        exec(compile(code, name, "exec", dont_inherit=True), space)


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.stem
)
def test_no_comment_stands_where_a_telephone_cuts_it(path: Path) -> None:
    lines = [line for block in BLOCK.findall(path.read_text()) for line in block[1].splitlines()]
    assert [line for line in lines if AT_END.search(line)] == []
