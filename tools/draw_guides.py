"""Draw the pictures of the guides, docs/images/*.png: what the programs of `examples` would draw.

``python tools/draw_guides.py [FOLDER]``. With Chromium on PATH it draws the page of docs/reports.md, too.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import wolfhound as wh
from wolfhound.data.shipped import words
from wolfhound.show.markup import draw_pictures
from wolfhound.solve.result import picture_weights

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import find_chromium  # noqa: E402

DPI = 80


def draw_herd(path: Path) -> None:
    """Draw the flights that stand for all."""
    make_table = runpy.run_path(str(ROOT / "examples" / "choose_flights.py"))["make_table"]
    chosen = wh.herd(make_table(5000), 200, standardize=True, missing="level")
    chosen.plot(title="200 of 5,000 flights").savefig(path, dpi=DPI)


def draw_cube(path: Path) -> None:
    """Draw maps of a cube of three minerals that fade into each other and into shadow."""
    rng = np.random.default_rng(0)
    bands, centres = np.linspace(0.0, 1.0, 60), np.linspace(0.1, 0.9, 12)[:, None]
    spectra = 0.7 - 0.5 * np.exp(-0.5 * ((bands - centres) / 0.08) ** 2)
    row, column = np.mgrid[0:1:60j, 0:1:80j]
    parts = np.stack([row * column, row * (1 - column), (1 - row) * column], axis=2) * 0.9
    cube = parts @ spectra[[2, 6, 9]] + 0.003 * rng.standard_normal((60, 80, 60))
    names = ["quartz", "talc", "kaolinite", "illite", "calcite", "dolomite", "alunite", "jarosite"]
    names += ["goethite", "hematite", "gypsum", "opal"]
    found = wh.minimize_many(cube, spectra, over=wh.Hull(at_most=True), names=names)
    found.plot(title="60 x 80 pixels, unmixed").savefig(path, dpi=DPI)


def draw_plan(path: Path) -> None:
    """Draw where 24 runs of a plan are."""
    levels: dict[str, Any] = {
        "temperature": np.linspace(300.0, 400.0, 21),
        "pressure": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    grid = wh.Factors(levels | {"catalyst": ["none", "Pd", "Pt"]})
    wh.design(grid, model="quadratic").round(24).plot().savefig(path, dpi=DPI)


def draw_word(path: Path) -> None:
    """Draw what a word is made of."""
    glove = words()
    piano = glove.id("piano")
    f = wh.SquaredDistance(glove.vectors[piano])
    found = wh.minimize(f, glove.vectors, exclude=[piano], names=glove.names)
    draw_pictures([picture_weights(found)], "piano, explained").savefig(path, dpi=DPI)


def draw_mixture(path: Path) -> None:
    """Draw how 2,000 estimates are shrunken, of which most are of no effect."""
    rng = np.random.default_rng(0)
    truth, errors = rng.normal(0.5, 1.5, 2000) * (rng.random(2000) < 0.2), rng.uniform(0.3, 2.0, 2000)
    fit = wh.npmle(truth + errors * rng.standard_normal(2000), wh.Normal(errors), null=0.0)
    fit.plot(title="2,000 estimates, most of them of nothing").savefig(path, dpi=DPI)


def draw_runs(path: Path) -> None:
    """Draw three ways to the same mixture."""
    glove = words()
    king = glove.id("king")
    f, rows, index = (
        wh.SquaredDistance(glove.vectors[king]),
        glove.vectors,
        wh.ClusterIndex.build(glove.vectors),
    )
    slow = wh.minimize(f, rows, method=wh.FrankWolfe(), exclude=[king], max_steps=300)
    runs = {"fully corrective": wh.minimize(f, rows, exclude=[king]), "Frank-Wolfe": slow}
    runs["an index alone"] = wh.minimize(f, index, exclude=[king])
    wh.plot(runs, title="Three ways to king", shared=True).savefig(path, dpi=DPI)


def draw_page(path: Path, chromium: str) -> None:
    """Draw the upper part of a page: that of a herd."""
    make_table = runpy.run_path(str(ROOT / "examples" / "choose_flights.py"))["make_table"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        wh.report(wh.herd(make_table(5000), 200, by="carrier", standardize=True), page, title="200 flights")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        options += ["--window-size=1000,1250", f"--user-data-dir={folder}/user", f"--screenshot={path}"]
        subprocess.run([chromium, *options, page.as_uri()], check=True, capture_output=True)


DRAW = {
    "herd": draw_herd,
    "cube": draw_cube,
    "plan": draw_plan,
    "word": draw_word,
    "mixture": draw_mixture,
    "runs": draw_runs,
}


def main() -> None:
    """Draw them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    for name, draw in DRAW.items():
        draw(folder / f"{name}.png")
    if chromium := find_chromium():
        draw_page(folder / "page.png", chromium)


if __name__ == "__main__":
    main()
