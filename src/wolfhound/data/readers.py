"""Files to atoms, matrices, vectors and names.

Knows what a caller wants of a file; `tables` knows what is in it.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import Atoms, Vector
from wolfhound.core.validate import matrix, require, vector
from wolfhound.data.atoms import join
from wolfhound.data.datasets import ARRAYS, load_array
from wolfhound.data.encoding import read_parts
from wolfhound.data.files import PathLike, check_exists, split_key
from wolfhound.data.table_files import open_table


def read_atoms(path: PathLike | Sequence[PathLike], *, columns: Sequence[str] | None = None) -> Atoms:
    """Return the atoms of a file, of all files that a glob matches, sorted, or of a list of these.

    Up to 64 MiB, of all files together, are loaded; what is larger stays on disk.

    Parameters
    ----------
    path
        - ``x.npy``;
        - ``x.npz``: its one 2-D array, always loaded; ``x.npz::key`` chooses;
        - ``x.safetensors``, ``x.h5``, ``x.hdf5``, ``x.zarr``: the one 2-D array, or the one that
          ``x.h5::group/name`` names. What lies plain in its file (safetensors, HDF5 without
          chunks) is read there; chunks are written once to a temporary .npy file, removed
          when the process ends;
        - ``x.parquet``, ``x.arrow``, ``x.feather``: its one column of equally long lists, else its
          numeric columns; if they are large they are written once, likewise;
        - ``x.csv``: the columns of numbers, likewise, as float64. A column of which at least half of
          the first cells are numbers must be numbers throughout: one that is blank or no number is an
          error. The first line is a header if none of its cells is a number, or if one that is none
          stands over numbers;
        - ``part-*.npy``: all matches, in the order of their names.
    columns
        Names of the columns that are the atoms, where there are names.
    """
    paths = path if isinstance(path, (list, tuple)) else [path]
    require(len(paths) > 0, "path", "at least one file", "none")
    return join(read_parts(map(open_table, cast(Sequence[PathLike], paths)), columns))


def read_matrix(path: PathLike) -> Vector:
    """Return a finite float64 matrix, loaded: targets, a design."""
    value = read_array(path)
    return matrix(value[None] if value.ndim == 1 else value, str(path))


def read_vector(path: PathLike) -> Vector:
    """Return a finite float64 vector: a 1-D array, one row or one column."""
    value = read_array(path)
    single = value.ndim == 1 or (value.ndim == 2 and 1 in value.shape)
    require(single, str(path), "a vector, one row or one column", f"shape {value.shape}")
    return vector(value.ravel(), str(path))


def read_names(path: PathLike) -> tuple[str, ...]:
    """Return the lines of a text file, one name each."""
    with open(check_exists(path), encoding="utf-8-sig") as file:
        return tuple(line.rstrip("\n") for line in file)


def read_array(path: PathLike) -> NDArray[Any]:
    """Return what a file holds, loaded, of any shape and type."""
    text = os.fspath(path)
    if split_key(text)[0].lower().endswith(ARRAYS):
        return load_array(text)
    atoms = read_atoms(path)
    return atoms.take(np.arange(atoms.shape[0]))
