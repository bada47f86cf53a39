"""What `wolfhound herd` is asked: names and files -> the arguments of `herd`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
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
from wolfhound.validate import require

if TYPE_CHECKING:
    from wolfhound.herding.kernels import Kernel

_LABEL_FILES = (".npy", ".txt")
_ID_FILES = (".npy", ".txt", ".csv", ".parquet")


class HerdOptions(NamedTuple):
    """The options as they were typed; None, or none: not given."""

    atoms: str
    columns: Sequence[str]
    target: str | None
    by: Sequence[str]
    balanced: bool
    start: Sequence[str]
    exclude: Sequence[str]
    kernel: str
    scores: str | None
    lengthscale: float | None


class Job(NamedTuple):
    """What was read, so far without a pass over the atoms."""

    source: Table
    columns: tuple[str, ...]
    points: Atoms  # the atoms without scores
    atoms: Atoms
    target: Atoms | None
    scores: Atoms | None
    by: NDArray[Any] | None
    kernel: Kernel
    start: Ids | None
    exclude: Ids | None

    def prepare(self, *, standardize: bool) -> Job:
        """Return the job with atoms as the kernel takes them; one pass to standardize."""
        atoms, target, scores = self.atoms, self.target, self.scores
        if standardize:
            scaling = unit_variance(atoms)
            atoms = scaling.of(atoms)
            target = None if target is None else scaling.of(target)
            scores = None if scores is None else scaling.of_scores(scores)
        job = self._replace(points=atoms, atoms=atoms, target=target, scores=None)
        if scores is None:
            return job
        from wolfhound.herding import with_scores  # noqa: PLC0415 - numba

        return job._replace(atoms=with_scores(atoms, scores))


def read_job(given: HerdOptions) -> Job:
    """Read all that is named, and refuse what does not fit together."""
    if given.balanced and not given.by:
        raise ValueError("`--balanced` must come with --by.")
    kernel = _make_kernel(given)
    source = open_table(given.atoms)
    # A label that is a number is still no coordinate.
    columns = choose_columns(source, _split_names(given.columns, source), given.by)
    atoms = join(source.parts(columns or None))
    n, d = atoms.shape
    return Job(
        source=source,
        columns=columns,
        points=atoms,
        atoms=atoms,
        target=None if given.target is None else _read_target(given.target, columns, d),
        scores=None if given.scores is None else _read_scores(given.scores, (n, d)),
        by=_read_labels(given.by, source, n) if given.by else None,
        kernel=kernel,
        start=_read_ids(given.start, "--start"),
        exclude=_read_ids(given.exclude, "--exclude"),
    )


def _make_kernel(given: HerdOptions) -> Kernel:
    """Return the kernel of this name; one that is centred needs scores, which say what to match."""
    from wolfhound.herding.kernels import KERNELS  # noqa: PLC0415 - numba

    name = given.kernel
    kernel: Any = KERNELS.find(name, "--kernel")
    if bool(kernel.centred) == (given.scores is None):
        must = "must" if kernel.centred else "must not"
        raise ValueError(f"`--scores` {must} be given with --kernel {name}.")
    if kernel.centred and given.target is not None:
        raise ValueError(f"`--target` must not be given with --kernel {name}: the scores say what to match.")
    settings = {} if given.lengthscale is None else {"lengthscale": given.lengthscale}
    if not settings.keys() <= {field.name for field in fields(kernel)}:
        raise ValueError(f"`--lengthscale` must not be given with --kernel {name}.")
    made: Kernel = kernel(**settings)
    return made


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
            raise ValueError(f"ATOMS must have columns of numbers. Got only {', '.join(table.names)}.")
        return rest
    if not table.names:
        raise ValueError("`--columns` must be left out: these files have no named columns.")
    for name in columns:
        require(name in table.names, "--columns", f"among {', '.join(table.names)}", name)
    require(len(set(columns)) == len(columns), "--columns", "distinct", ", ".join(columns))
    return tuple(columns)


def _read_target(path: str, columns: Sequence[str], d: int) -> Atoms:
    """Return the rows to match, the same columns of them where there are names."""
    source = open_table(path)
    wanted = columns if source.names and columns else source.numbers
    missing = [name for name in wanted if name not in source.names]
    if missing:
        raise ValueError(f"`--target` must have the columns of ATOMS that count. Got no {missing[0]}.")
    target = join(source.parts(wanted or None))
    if target.shape[1] != d:
        raise ValueError(f"`--target` must have {d} columns, as ATOMS. Got {target.shape[1]} in {path}.")
    return target


def _read_scores(path: str, shape: tuple[int, int]) -> Atoms:
    scores = readers.read_atoms(path)
    wanted, got = (f"{n:,} x {d:,}" for n, d in (shape, scores.shape))
    require(scores.shape == shape, "--scores", f"{wanted}, as ATOMS", f"{got} in {path}")
    return scores


def _split_names(texts: Sequence[str], source: Table) -> list[str] | None:
    """The columns of `--columns`; a name may hold commas if it stands alone."""
    named = [name for text in texts for name in ([text] if text in source.names else opt.split([text]))]
    if texts and not named:
        raise ValueError(f"`--columns` must name a column. Got {texts[0]!r}.")
    return named or None


def _read_labels(texts: Sequence[str], source: Table, n: int) -> NDArray[Any]:
    """A label per row; of several columns or files, all of them together."""
    parts = [_read_label(text, source, n) for text in texts]
    if len(parts) == 1:
        return parts[0]
    return np.array([str(labels) for labels in zip(*(part.tolist() for part in parts), strict=True)])


def _read_label(text: str, source: Table, n: int) -> NDArray[Any]:
    if Path(text).suffix.lower() not in _LABEL_FILES:
        known = f"one of {', '.join(source.names)}, or " if source.names else ""
        require(text in source.names, "--by", f"{known}a .npy or .txt file of labels", text)
        return source.column(text)
    labels = _read_array(text)
    if labels.shape != (n,):
        raise ValueError(f"`--by` must hold {n:,} labels, one per row. Got shape {labels.shape} in {text}.")
    return labels


def _read_array(path: str) -> NDArray[Any]:
    if path.lower().endswith(".txt"):
        return np.array(readers.read_names(path))
    return readers.read_array(path)


def _read_ids(texts: Sequence[str], option: str) -> Ids | None:
    """Return the ids of "1,5" "9", of files of ids, or of tables with a column `id`."""
    if not texts:
        return None
    found: list[int] = []
    for text in texts:
        is_file = Path(text).suffix.lower() in _ID_FILES
        values = _read_id_column(text, option) if is_file else opt.split([text])
        parts = [str(value).strip() for value in values]
        found += opt.parse_ids(parts, option, "ids with commas between, or a file of ids")
    return np.array(found, np.int64)


def _read_id_column(path: str, option: str) -> NDArray[Any]:
    if Path(path).suffix.lower() in _LABEL_FILES:
        values = _read_array(path)
        return values["id"] if "id" in (values.dtype.names or ()) else values
    source = open_table(path)
    require("id" in source.names, option, "a file with a column id", path)
    return source.column("id")
