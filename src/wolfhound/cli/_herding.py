"""What `wolfhound herd` is asked: names and files -> the arguments of `herd`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound import readers
from wolfhound.atoms import join
from wolfhound.cli import _options as opt
from wolfhound.cli._scale import unit_variance
from wolfhound.core import Atoms, Ids
from wolfhound.tables import Table, open_table

if TYPE_CHECKING:
    from wolfhound.herding.kernels import Kernel

_LABEL_FILES = (".npy", ".txt")
_ID_FILES = (".npy", ".txt", ".csv", ".parquet")


class KernelName(StrEnum):
    """How rows are compared."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    LINEAR = "linear"
    STEIN = "stein"


class Given(NamedTuple):
    """The options as they were typed; None, or none: not given."""

    rows: str
    columns: Sequence[str]
    target: str | None
    by: Sequence[str]
    balanced: bool
    start: Sequence[str]
    exclude: Sequence[str]
    kernel: KernelName
    scores: str | None
    lengthscale: float | None


class Job(NamedTuple):
    """What was read, so far without a pass over the rows."""

    source: Table
    columns: tuple[str, ...]
    rows: Atoms
    target: Atoms | None
    scores: Atoms | None
    by: NDArray[Any] | None
    kernel: Kernel
    start: Ids | None
    exclude: Ids | None

    def prepared(self, *, standardize: bool) -> Job:
        """Return the job with rows as the kernel takes them; one pass to standardize."""
        rows, target, scores = self.rows, self.target, self.scores
        if standardize:
            scaling = unit_variance(rows)
            rows = scaling.of(rows)
            target = None if target is None else scaling.of(target)
            scores = None if scores is None else scaling.of_scores(scores)
        if scores is not None:
            from wolfhound.herding import with_scores  # noqa: PLC0415 - numba

            rows = with_scores(rows, scores)
        return self._replace(rows=rows, target=target, scores=None)


def read(given: Given) -> Job:
    """Read all that is named, and refuse what does not fit together."""
    _check(given)
    source = open_table(given.rows)
    # A label that is a number is still no coordinate.
    columns = choose_columns(source, _named(given.columns, source), given.by)
    rows = join(source.parts(columns or None))
    return Job(
        source=source,
        columns=columns,
        rows=rows,
        target=None if given.target is None else _target(given.target, columns, rows.shape[1]),
        scores=None if given.scores is None else _scores(given.scores, rows.shape),
        by=_labels(given.by, source, rows.shape[0]) if given.by else None,
        kernel=_kernel(given.kernel, given.lengthscale),
        start=_ids(given.start, "--start"),
        exclude=_ids(given.exclude, "--exclude"),
    )


def _check(given: Given) -> None:
    stein = given.kernel is KernelName.STEIN
    if stein and given.scores is None:
        raise ValueError("`--scores` must be given with --kernel stein.")
    if not stein and given.scores is not None:
        raise ValueError(f"`--scores` must not be given with --kernel {given.kernel}.")
    if stein and given.target is not None:
        raise ValueError("`--target` must not be given with --kernel stein: the scores say what to match.")
    if given.kernel is KernelName.LINEAR and given.lengthscale is not None:
        raise ValueError("`--lengthscale` must not be given with --kernel linear.")
    if given.balanced and not given.by:
        raise ValueError("`--balanced` must come with --by.")


def _kernel(name: KernelName, lengthscale: float | None) -> Kernel:
    from wolfhound import herding as kernels  # noqa: PLC0415 - numba

    match name:
        case KernelName.LAPLACE:
            return kernels.Laplace(lengthscale)
        case KernelName.LINEAR:
            return kernels.Linear()
        case KernelName.STEIN:
            return kernels.Stein(lengthscale)
        case _:
            return kernels.Gaussian(lengthscale)


def choose_columns(
    table: Table, columns: Sequence[str] | None, without: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the columns that count: those named, else all of numbers but some.

    Parameters
    ----------
    table
        The rows.
    columns
        Names that the user gave.
    without
        Columns that count only if they are named.
    """
    if columns is None:
        rest = tuple(name for name in table.numbers if name not in without)
        if table.names and not rest:
            raise ValueError(f"ROWS must have columns of numbers. Got only {', '.join(table.names)}.")
        return rest
    if not table.names:
        raise ValueError("`--columns` must be left out: these files have no named columns.")
    for name in columns:
        if name not in table.names:
            raise ValueError(f"`--columns` must be among {', '.join(table.names)}. Got {name}.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"`--columns` must be distinct. Got {', '.join(columns)}.")
    return tuple(columns)


def _target(path: str, columns: Sequence[str], d: int) -> Atoms:
    """Return the rows to match, the same columns of them where there are names."""
    source = open_table(path)
    wanted = columns if source.names and columns else source.numbers
    missing = [name for name in wanted if name not in source.names]
    if missing:
        raise ValueError(f"`--target` must have the columns of ROWS that count. Got no {missing[0]}.")
    target = join(source.parts(wanted or None))
    if target.shape[1] != d:
        raise ValueError(f"`--target` must have {d} columns, as ROWS. Got {target.shape[1]} in {path}.")
    return target


def _scores(path: str, shape: tuple[int, int]) -> Atoms:
    scores = readers.read_atoms(path)
    if scores.shape != shape:
        n, d = shape
        got = f"{scores.shape[0]:,} x {scores.shape[1]:,}"
        raise ValueError(f"`--scores` must be {n:,} x {d:,}, as ROWS. Got {got} in {path}.")
    return scores


def _named(texts: Sequence[str], source: Table) -> list[str] | None:
    """The columns of `--columns`; a name may hold commas if it stands alone."""
    named = [name for text in texts for name in ([text] if text in source.names else opt.split([text]))]
    if texts and not named:
        raise ValueError(f"`--columns` must name a column. Got {texts[0]!r}.")
    return named or None


def _labels(texts: Sequence[str], source: Table, n: int) -> NDArray[Any]:
    """A label per row; of several columns or files, all of them together."""
    parts = [
        _label_file(text, n) if Path(text).suffix.lower() in _LABEL_FILES else _label_column(source, text)
        for text in texts
    ]
    if len(parts) == 1:
        return parts[0]
    return np.array([str(labels) for labels in zip(*(part.tolist() for part in parts), strict=True)])


def _label_column(source: Table, name: str) -> NDArray[Any]:
    if name not in source.names:
        known = f"one of {', '.join(source.names)}, or " if source.names else ""
        raise ValueError(f"`--by` must be {known}a .npy or .txt file of labels. Got {name}.")
    return source.column(name)


def _label_file(path: str, n: int) -> NDArray[Any]:
    labels = _array(path)
    if labels.shape != (n,):
        raise ValueError(f"`--by` must hold {n:,} labels, one per row. Got shape {labels.shape} in {path}.")
    return labels


def _array(path: str) -> NDArray[Any]:
    if path.lower().endswith(".txt"):
        return np.array(readers.read_names(path))
    return readers.read_array(path)


def _ids(texts: Sequence[str], option: str) -> Ids | None:
    """Return the ids of "1,5" "9", of files of ids, or of tables with a column `id`."""
    if not texts:
        return None
    found: list[int] = []
    for text in texts:
        is_file = Path(text).suffix.lower() in _ID_FILES
        parts = [str(value).strip() for value in _id_column(text, option)] if is_file else opt.split([text])
        found += opt.parse_ids(parts, option, "ids with commas between, or a file of ids")
    return np.array(found, np.int64)


def _id_column(path: str, option: str) -> NDArray[Any]:
    if Path(path).suffix.lower() in _LABEL_FILES:
        values = _array(path)
        return values["id"] if "id" in (values.dtype.names or ()) else values
    source = open_table(path)
    if "id" not in source.names:
        raise ValueError(f"`{option}` must be a file with a column id. Got {path}.")
    return source.column("id")
