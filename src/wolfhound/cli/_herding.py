"""What `wolfhound herd` is asked: names and files -> the arguments of `herd`."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfhound import readers
from wolfhound.atoms import join
from wolfhound.cli import _options as opt
from wolfhound.core import Atoms, Ids
from wolfhound.encoding import (
    EncodingPlan,
    Missing,
    TableAtoms,
    encode_source,
    join_labels,
    read_column,
    read_parts,
)
from wolfhound.scaling import unit_variance
from wolfhound.tables import NAMED, ROW, ArrayTable, FileTable, open_table
from wolfhound.validate import require
from wolfhound.writers import find_free

if TYPE_CHECKING:
    from wolfhound.herding.kernels import Kernel

_LABEL_FILES = (".npy", ".txt")
_ID_FILES = (*_LABEL_FILES, *NAMED)


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
    missing: str = Missing.DROP.value
    numeric_only: bool = False


class Job(NamedTuple):
    """What was read, so far without a pass over atoms in files of arrays."""

    source: FileTable
    points: Atoms  # the atoms without scores
    atoms: Atoms
    target: str | Atoms | None
    scores: Atoms | None
    by: NDArray[Any] | None
    kernel: Kernel
    start: Ids | None
    exclude: Ids | None
    options: dict[str, Any]  # of a table, kept so that a saved run can go on

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that count; none if they have no names."""
        return self.points.report.counted if isinstance(self.points, TableAtoms) else ()

    @property
    def rows(self) -> int:
        """Of the file."""
        return self.points.report.rows if isinstance(self.points, TableAtoms) else self.points.shape[0]

    def prepare(self, *, standardize: bool) -> Job:
        """Return the job with atoms as a kernel of scores takes them; one pass to standardize."""
        if self.scores is None:
            return self
        points, scores = self.points, self.scores
        if standardize:
            scaling = unit_variance(points)
            points, scores = scaling.of(points), scaling.of_scores(scores)
        from wolfhound.herding import with_scores  # noqa: PLC0415 - numba

        return self._replace(points=points, atoms=with_scores(points, scores))


def read_job(given: HerdOptions) -> Job:
    """Read all that is named, and refuse what does not fit together."""
    if given.balanced and not given.by:
        raise ValueError("`--balanced` must come with --by.")
    kernel, missing = _make_kernel(given), opt.parse_missing(given.missing)
    source = open_table(given.atoms)
    points = _read_points(source, given, missing)
    rows = points.report.rows if isinstance(points, TableAtoms) else points.shape[0]
    written = find_free("id", source.names or (ROW,))
    return Job(
        source=source,
        points=points,
        atoms=points,
        target=None if given.target is None else _read_target(given.target, points, missing),
        scores=None if given.scores is None else _read_scores(given.scores, points.shape),
        by=_read_labels(given.by, points, rows) if given.by else None,
        kernel=kernel,
        start=_read_ids(given.start, "--start", written),
        exclude=_read_ids(given.exclude, "--exclude", written),
        options=_list_options(source, given, missing),
    )


def _list_options(source: FileTable, given: HerdOptions, missing: Missing) -> dict[str, Any]:
    if isinstance(source, ArrayTable):
        return {}
    named = _split_names(given.columns, source)
    return {"columns": named, "missing": missing, "numeric_only": given.numeric_only}


def _read_points(source: FileTable, given: HerdOptions, missing: Missing) -> Atoms:
    """Return the rows of a file as atoms; where there are scores, numbers only, all of them."""
    if isinstance(source, ArrayTable):
        if given.columns:
            raise ValueError("`--columns` must be left out: these files have no named columns.")
        return join(read_parts([source]))
    columns = _split_names(given.columns, source)
    # A label that is a number is still no coordinate.
    labels = [name for name in given.by if not _is_file(name)]
    for name in labels:
        rule = f"one of {', '.join(source.names)}, or a .npy or .txt file of labels"
        require(name in source.names, "--by", rule, name)
    with_scores = given.scores is not None
    with opt.name_options(atoms="ATOMS"):
        return encode_source(
            source,
            EncodingPlan(
                missing=Missing.ERROR if with_scores else missing,
                numeric_only=given.numeric_only or with_scores,
                labels=tuple(labels),
                called="atoms",
            ),
            columns,
        )


def _is_file(text: str) -> bool:
    return Path(text).suffix.lower() in _LABEL_FILES


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


def _read_target(path: str, points: Atoms, missing: Missing) -> Atoms:
    """Return the rows to match, the same columns of them where there are names."""
    source = open_table(path)
    if isinstance(points, TableAtoms) and not isinstance(source, ArrayTable):
        plan = EncodingPlan(missing=missing, like=points.columns, called="target")
        with opt.name_options(target="--target", columns="--target"):
            return encode_source(source, plan)
    target, d = join(read_parts([source])), points.shape[1]
    if target.shape[1] != d:
        raise ValueError(f"`--target` must have {d} columns, as ATOMS. Got {target.shape[1]} in {path}.")
    return target


def _read_scores(path: str, shape: tuple[int, int]) -> Atoms:
    scores = readers.read_atoms(path)
    wanted, got = (f"{n:,} x {d:,}" for n, d in (shape, scores.shape))
    require(scores.shape == shape, "--scores", f"{wanted}, as ATOMS", f"{got} in {path}")
    return scores


def _split_names(texts: Sequence[str], source: FileTable) -> list[str] | None:
    """The columns of `--columns`; a name may hold commas if it stands alone."""
    named = [name for text in texts for name in ([text] if text in source.names else opt.split([text]))]
    if texts and not named:
        raise ValueError(f"`--columns` must name a column. Got {texts[0]!r}.")
    return named or None


def _read_labels(texts: Sequence[str], points: Atoms, n: int) -> NDArray[Any]:
    """A label per row of the file; of several columns or files, all of them together."""
    parts = [_read_label(text, points, n) for text in texts]
    return parts[0] if len(parts) == 1 else join_labels(parts)


def _read_label(text: str, points: Atoms, n: int) -> NDArray[Any]:
    if not _is_file(text):
        named = isinstance(points, TableAtoms)
        require(named, "--by", "a .npy or .txt file of labels", text)
        return read_column(points.source, text)[0] if isinstance(points, TableAtoms) else np.empty(0)
    labels = _read_array(text)
    if labels.shape != (n,):
        raise ValueError(f"`--by` must hold {n:,} labels, one per row. Got shape {labels.shape} in {text}.")
    return labels


def _read_array(path: str) -> NDArray[Any]:
    if path.lower().endswith(".txt"):
        return np.array(readers.read_names(path))
    return readers.read_array(path)


def _read_ids(texts: Sequence[str], option: str, written: str) -> Ids | None:
    """Return the ids of "1,5" "9", of files of ids, or of tables with a column of ids.

    That is `written` in rows that `herd` wrote of these atoms; without it, `id` counts.
    """
    if not texts:
        return None
    found: list[int] = []
    for text in texts:
        is_file = Path(text).suffix.lower() in _ID_FILES
        values = _read_id_column(text, option, written) if is_file else opt.split([text])
        parts = [str(value).strip() for value in values]
        found += opt.parse_ids(parts, option, "ids with commas between, or a file of ids")
    return np.array(found, np.int64)


def _read_id_column(path: str, option: str, written: str) -> NDArray[Any]:
    if Path(path).suffix.lower() in _LABEL_FILES:
        values = _read_array(path)
        fields = values.dtype.names or ()
        named = written if written in fields else "id"
        return values[named] if named in fields else values
    source = open_table(path)
    if isinstance(source, ArrayTable):
        raise ValueError(f"`{option}` must be a table with a column of ids. Got {path}.")
    named = written if written in source.names else "id"
    rule = f"a file with a column {' or '.join(dict.fromkeys([written, 'id']))}"
    require(named in source.names, option, rule, path)
    values, missing = read_column(source, named)
    require(not missing.any(), option, f"a file with an id in every row of {named}", path)
    return values
