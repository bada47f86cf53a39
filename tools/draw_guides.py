"""Draw the pictures of the guides, docs/images/*.png: what the programs of `examples` would draw.

``python tools/draw_guides.py [FOLDER]``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

import wolfhound as wh
from wolfhound.data.shipped import words
from wolfhound.show.markup import draw_pictures
from wolfhound.solve.result import picture_weights

ROOT = Path(__file__).parents[1]
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


DRAW = {"herd": draw_herd, "cube": draw_cube, "plan": draw_plan, "word": draw_word}


def main() -> None:
    """Draw them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    for name, draw in DRAW.items():
        draw(folder / f"{name}.png")


if __name__ == "__main__":
    main()
