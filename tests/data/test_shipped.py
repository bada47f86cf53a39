"""The shipped words."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import numpy as np
import pytest

from wolfhound.data.shipped import Words, words


def cosine(first: str, second: str) -> float:
    a, b = words().vector(first), words().vector(second)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_words_are_whole_and_read_only() -> None:
    data = words()
    assert data is words()
    assert data.vectors.shape == (len(data), 100) == (20_000, 100)
    assert data.vectors.dtype == np.float32
    assert np.isfinite(data.vectors).all()
    assert not data.vectors.flags.writeable
    assert len(set(data.names)) == len(data.names)
    assert pickle.loads(pickle.dumps(data)).names == data.names


def test_near_words_have_near_vectors() -> None:
    assert cosine("king", "queen") > 0.6
    assert cosine("paris", "france") > 0.6
    assert cosine("king", "banana") < 0.4


def test_a_word_is_found_by_its_row() -> None:
    data = words()
    row = data.id("queen")
    assert data.names[row] == "queen"
    np.testing.assert_array_equal(data.vector("queen"), data.vectors[row])


def test_near_misses_are_named() -> None:
    with pytest.raises(ValueError, match=r"`word` must be one of 20000 words. Got 'Quenn'. Near: .*queen"):
        words().id("Quenn")
    with pytest.raises(ValueError, match=r"Got 'zqxjkvzqxj'\.$"):
        words().vector("zqxjkvzqxj")


def test_a_sentence_is_the_mean_of_its_words() -> None:
    data = words()
    mean = (2 * data.vector("red").astype(np.float64) + data.vector("dog")) / 3
    np.testing.assert_allclose(data.sentence("Red, red DOG!"), mean, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"`text` must be .* Got unknown zqxj, xyzzyx"):
        data.sentence("zqxj dog zqxj xyzzyx")
    with pytest.raises(ValueError, match=r"`text` must be at least one word. Got ' ,'"):
        data.sentence(" ,")


def test_names_and_vectors_must_agree() -> None:
    vectors = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="`names` must be one per vector"):
        Words(("one",), vectors)
    Words(("one", "two"), vectors)
    assert vectors.flags.writeable
