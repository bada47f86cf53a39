"""The shipped words: 20,000 English words as vectors, for examples and tests."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass, field
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Vector
from wolfhound.core.validate import kind, require
from wolfhound.data.files import lock

_NEAR = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Words:
    """Words and their vectors, by decreasing frequency.

    Parameters
    ----------
    names : (n,) tuple of str
        The words, in lower case.
    vectors : (n, d) float32
        A row per word; made read-only.
    """

    names: tuple[str, ...]
    vectors: NDArray[np.float32]
    _ids: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        require(len(self.names) == len(self.vectors), "names", "one per vector", f"{len(self.names)} names")
        object.__setattr__(self, "vectors", lock(self.vectors.view()))
        object.__setattr__(self, "_ids", {name: i for i, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        n, d = self.vectors.shape
        return f"Words({n} x {d})"

    def id(self, word: str) -> int:
        """Return the row of a word; an unknown one raises ValueError."""
        kind(word, "word", "a string", str)
        if word not in self._ids:
            near = difflib.get_close_matches(word.lower(), self.names, n=_NEAR)
            hint = f" Near: {', '.join(near)}." if near else ""
            raise ValueError(f"`word` must be one of {len(self)} words. Got {word!r}.{hint}")
        return self._ids[word]

    def vector(self, word: str) -> NDArray[np.float32]:
        """Return the (d,) vector of a word."""
        row: NDArray[np.float32] = self.vectors[self.id(word)]
        return row

    def sentence(self, text: str) -> Vector:
        """Return the (d,) float64 mean of the vectors of a text's words.

        Words are runs of letters and digits, in any case. A text with unknown
        words raises ValueError, which names them all: leave them out.
        """
        kind(text, "text", "a string", str)
        found = re.findall(r"[^\W_]+", text.lower())
        require(bool(found), "text", "at least one word", repr(text))
        unknown = [word for word in dict.fromkeys(found) if word not in self._ids]
        require(not unknown, "text", f"made of {len(self)} known words", f"unknown {', '.join(unknown)}")
        rows = self.vectors[[self._ids[word] for word in found]]
        return np.asarray(rows.mean(axis=0, dtype=np.float64))


@functools.cache
def words() -> Words:
    """Return 20,000 frequent English words with vectors of dimension 100.

    The most frequent words of GloVe 6B (Pennington, Socher, Manning 2014,
    Stanford; trained on Wikipedia 2014 and Gigaword 5), rounded to 8 bits with
    a scale per word; words of one letter are not among them. The vectors are in
    the public domain (Open Data Commons Public Domain Dedication and License).
    Read once, read-only.

    Examples
    --------
    >>> words()
    Words(20000 x 100)
    >>> words().id("the"), words().sentence("The red dog").shape
    (0, (100,))
    """
    file = resources.files("wolfhound").joinpath("data", "shipped_files", "glove100_20k_int8.npz")
    with file.open("rb") as stream, np.load(stream) as content:
        names = bytes(content["words"]).decode().split("\n")
        vectors = content["q"].astype(np.float32) * content["scale"][:, None]
    return Words(tuple(names), vectors)
