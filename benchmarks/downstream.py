"""What a herded subset is worth to a classifier: logistic regression on few rows.

Fashion-MNIST as it comes: rows are chosen among the 60,000 training images, and the
10,000 test images are looked at once, by the finished classifiers.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import gzip
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import data
import numpy as np
from reference import Ids, Matrix, Vector
from rig import Claim

from wolfhound.herding.herd import herd

_TRAINING = 60_000


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to learn from and rows to be tested on, with their labels."""

    rows: Matrix
    labels: Ids
    test_rows: Matrix
    test_labels: Ids


def fashion() -> Split:
    """Fashion-MNIST in its published split."""
    rows, labels = data.load("fashion_mnist"), _labels()
    return Split(rows[:_TRAINING], labels[:_TRAINING], rows[_TRAINING:], labels[_TRAINING:])


def halves(rows: Matrix, labels: Ids) -> Split:
    """Return the first half to learn from and the second to be tested on."""
    middle = len(rows) // 2
    return Split(rows[:middle], labels[:middle], rows[middle:], labels[middle:])


def _labels() -> Ids:
    """(70,000,) classes 0 to 9, in the order of `data.load`; built on first use."""
    path = data.folder() / "fashion_mnist_labels.npy"
    if not path.exists():
        missing = [client for client in ("apt-get", "dpkg-deb") if shutil.which(client) is None]
        if missing:
            needs = " and ".join(missing)
            raise RuntimeError(f"labels are built with {needs}, not found: install it or provide {path}.")
        with tempfile.TemporaryDirectory() as work:
            labels = _unpacked(Path(work))
        aside = path.with_name(f".{os.getpid()}.{path.name}")
        np.save(aside, labels)
        aside.replace(path)
    found: Ids = np.load(path).astype(np.int64)
    return found


def _unpacked(work: Path) -> Matrix:
    for command in (("apt-get", "download", "dataset-fashion-mnist"), ("dpkg-deb", "-x", "*.deb", "deb")):
        words = [str(next(work.glob(word))) if "*" in word else word for word in command]
        subprocess.run(words, cwd=work, check=True, capture_output=True)
    parts = []
    for part in ("train", "t10k"):
        packed = work / f"deb/usr/share/datasets/fashion-mnist/{part}-labels-idx1-ubyte.gz"
        parts.append(np.frombuffer(gzip.decompress(packed.read_bytes()), np.uint8, offset=8))
    return np.concatenate(parts)


def per_class(split: Split, ids: Ids, weights: Vector | None = None) -> Vector:
    """Share of the test rows of each class that a logistic regression on these rows gets right.

    scikit-learn's default penalty, tuned for nobody.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(split.rows[ids], split.labels[ids], None if weights is None else weights * len(ids))
    right = model.predict(split.test_rows) == split.test_labels
    return np.array([right[split.test_labels == each].mean() for each in np.unique(split.test_labels)])


def random_ids(split: Split, m: int, *, seed: int, by_class: bool) -> Ids:
    """Return m random training rows; `by_class`: as many of each class as its share, up to rounding."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(split.labels))
    if not by_class:
        return order[:m]
    # The rank of a row within its class, over the size of the class: equal shares come first.
    labels = split.labels[order]
    sizes = np.bincount(labels)
    ranks = np.empty(len(order))
    for each in np.flatnonzero(sizes):
        ranks[labels == each] = (np.arange(sizes[each]) + rng.random()) / sizes[each]
    return order[np.argsort(ranks, kind="stable")[:m]]


def classify(claim: Claim, split: Split, *, m: int, rounds: int) -> None:
    """Accuracy of a classifier that learns from m rows; add rows and a check."""
    shares = np.bincount(split.test_labels) / len(split.test_labels)
    mean = {}
    for method, (times, learn) in learners(split, m, rounds).items():
        classes = np.array([learn(seed) for seed in range(times)])
        overall = classes @ shares[shares > 0.0]
        mean[method] = float(overall.mean())
        claim.row(
            data="downstream",
            n=len(split.rows),
            m=m,
            method=method,
            accuracy=mean[method],
            accuracy_spread=float(overall.std(ddof=1)) if times > 1 else None,
            rounds=times,
            note=f"per class {' '.join(f'{share:.3f}' for share in classes.mean(0))}",
        )
    gain = {way: mean[f"herd{way}"] - mean[f"random{way}"] for way in ("", " per class")}
    what = "downstream: accuracy of herd{0} - mean of random{0}"
    claim.notes[what.format("")] = gain[""]
    claim.at_least(what.format(" per class"), gain[" per class"], 0.0, full_size=True)


def learners(split: Split, m: int, rounds: int) -> dict[str, tuple[int, Callable[[int], Vector]]]:
    """Ways to choose the rows, how often each is tried, and seed -> accuracy per class."""

    def herded(seed: int, *, by: Ids | None, weights: bool) -> Vector:
        result = herd(split.rows, m, by=by, weights=weights, seed=seed, evaluate=False)
        return per_class(split, result.ids, result.weights if weights else None)

    def drawn(seed: int, *, by_class: bool) -> Vector:
        return per_class(split, random_ids(split, m, seed=seed, by_class=by_class))

    return {
        "random": (10, functools.partial(drawn, by_class=False)),
        "random per class": (10, functools.partial(drawn, by_class=True)),
        "herd": (rounds, functools.partial(herded, by=None, weights=False)),
        "herd per class": (rounds, functools.partial(herded, by=split.labels, weights=False)),
        "herd per class, weights": (rounds, functools.partial(herded, by=split.labels, weights=True)),
    }
