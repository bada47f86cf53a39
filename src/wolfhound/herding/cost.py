"""What `herd` will take: memory beside the atoms and time, before it starts.

Seconds follow from counts of operations and fixed speeds of one core, measured on
an AMD EPYC with AVX2; the speed of files is that of the calibration.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from wolfhound.atoms import as_atoms
from wolfhound.core import AtomsLike
from wolfhound.editing import in_files
from wolfhound.herding.embedding import BASE, FEATURES
from wolfhound.herding.evaluation import HELD_OUT, TOGETHER, effort
from wolfhound.herding.herd import LEAST, TIMES
from wolfhound.machine import Calibration
from wolfhound.text import bytes_text, seconds_text
from wolfhound.threads import get_threads
from wolfhound.validate import count, flag, require

_PRODUCT = 2.7e-11  # seconds per product of two entries in a matrix product

_TRIG, _EXP = 1.2e-9, 1.7e-9  # seconds per cosine or sine, and per kernel value beside its products

_BYTE, _SCORE = 1.5e-11, 3e-9  # seconds per byte of the candidates and per candidate, at each pick

_WEIGHT = 2.6e-11  # seconds per m^3, to fit weights

_BEGIN = 0.1  # seconds for a lengthscale and calibrated weights

_BLOCK, _TILES = 16 << 20, 10 << 20  # bytes of a block of a pass, and of whatever is made and forgotten


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HerdCost:
    """What `herd` will take.

    Attributes
    ----------
    nbytes : int
        Memory beside atoms that are in memory already, at the peak.
    seconds : float
        To pick the atoms.
    evaluation_seconds : float
        To measure how good they are.
    """

    nbytes: int
    seconds: float
    evaluation_seconds: float

    def __str__(self) -> str:
        """Both in words."""
        return f"about {bytes_text(self.nbytes)} and {seconds_text(self.seconds + self.evaluation_seconds)}"


def estimate_cost(
    atoms: AtomsLike,
    m: int,
    *,
    candidates: int | None = None,
    labels: int = 1,
    swap: bool = False,
    weights: bool = False,
    evaluate: bool = True,
) -> HerdCost:
    """Estimate the memory and time of `herd` in a kernel, without reading any atom.

    Parameters
    ----------
    atoms
        Atoms, an array or a path; only their shape and type are looked at.
    m, candidates, swap, weights, evaluate
        As for `herd`.
    labels
        Distinct labels of `by`, taken to have as many atoms each.

    Examples
    --------
    >>> import numpy as np
    >>> cost = estimate_cost(np.zeros((10_000, 8), np.float32), 100)
    >>> cost.nbytes < 2e8, 0.0 < cost.seconds < 5.0
    (True, True)
    """
    given = as_atoms(atoms)
    for name, value in (("swap", swap), ("weights", weights), ("evaluate", evaluate)):
        flag(value, name)
    n, d = given.shape
    require(count(m, "m", low=1) <= n, "m", f"an integer in [1, {n}]", m)
    parts, each = count(labels, "labels", low=1), -(-n // labels)
    least = max(math.ceil(LEAST / math.sqrt(parts)), -(-TIMES * m // parts))
    mine = min(each, least if candidates is None else count(candidates, "candidates", low=1))
    size, base = parts * mine, min(each, max(mine, BASE))
    row = d * given.dtype.itemsize
    held, draws = min(n, HELD_OUT), effort(m)
    files = in_files(given)
    pair = d * _PRODUCT + _EXP
    pairs = parts * (base**2 / 2 + (mine * base if base > mine else 0))
    features = FEATURES if each > base else 0
    read, whole = features, 0
    if parts > 1:  # the mean of all, too
        whole = min(n, BASE)
        pairs += whole * (whole / 2 + size)
        read += FEATURES if n > BASE else 0
    ahead = min(n * row, (2 * get_threads() + 1) * _BLOCK) if files else 0
    seconds = _BEGIN + (n * read * (0.5 * d * _PRODUCT + _TRIG) + pairs * pair) / get_threads()
    seconds += n * row * Calibration.here().file if files else 0.0
    seconds += m * (3 if swap else 1) * size * (row * _BYTE + _SCORE)
    seconds += (m**2 * pair + m**3 * _WEIGHT) if weights else 0.0
    # The square of a mean: known, of all atoms of some labels, or of two halves.
    checked = 0 if n <= base else held**2 / 2 if held == n else held**2 / 4
    checked += (draws + 1) * (m * held + m**2 / 2)
    return HerdCost(
        nbytes=_TILES
        + size * row
        + max(  # one after the other
            ahead
            + (base * row if base > mine else 0)
            + max(base, whole) * min(read, FEATURES) * (given.dtype.itemsize + 16),
            held * row + min(TOGETHER, draws * m * row) if evaluate else 0,
            24 * m**2 if weights else 0,
        ),
        seconds=seconds,
        evaluation_seconds=checked * pair / get_threads() if evaluate else 0.0,
    )
