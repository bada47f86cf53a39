"""What the commands over many targets share: progress, columns, exit codes."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfhound import readers
from wolfhound._files import FileRows, open_rows
from wolfhound._npy import check_exists
from wolfhound.core import Status
from wolfhound.many.result import CODES, ManyResult


def read_points(file: str) -> NDArray[Any] | FileRows:
    """Points of a file: a .npy array as it is, whatever its shape, or a table."""
    if file.endswith(".npy") and Path(file).is_file():
        return open_rows(check_exists(file))
    return readers.read_matrix(file)


@contextlib.contextmanager
def name_mistakes(**names: str) -> Iterator[None]:
    """Let mistakes name the options of the command for arguments of `minimize_many`."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(_rename(str(error), names)) from None
    except OSError as error:
        if error.errno is None:  # ours: one text, which names the file
            raise OSError(_rename(str(error), names)) from None
        raise OSError(error.errno, _rename(str(error.strerror), names), error.filename) from None


def _rename(text: str, names: Mapping[str, str]) -> str:
    for name, option in {"out": "--save", "skip=True": "--skip", **names}.items():
        text = text.replace(f"`{name}`", f"`{option}`")
    return text


def list_mixtures(
    result: ManyResult, places: dict[str, NDArray[Any]], names: Sequence[str] | None, weight: str
) -> dict[str, NDArray[Any]]:
    """Columns with one row per target and atom that has weight."""
    which = np.repeat(np.arange(len(result)), result.support)
    labels = np.array([""] if names is None else names, np.str_)
    found = {name: column[which] for name, column in places.items()}
    found |= {"id": result.ids, "name": labels[result.ids if names is not None else 0 * result.ids]}
    return found | {weight: result.weights}


def exit_code(result: ManyResult) -> int:
    """130 if it was interrupted; 0 if all was done as asked."""
    if (result.codes == CODES[Status.INTERRUPTED]).any():
        return 130
    return 0 if result.success else 1
