"""`wolfhound herd`: a few weighted rows of a file that stand for all of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Exit

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.core.contracts import Atoms, Ids, Status
from wolfhound.core.validate import require
from wolfhound.data import readers
from wolfhound.data.atoms import join
from wolfhound.data.encoding import (
    EncodingPlan,
    Missing,
    TableAtoms,
    encode_source,
    join_labels,
    name_missing,
    read_column,
    read_parts,
)
from wolfhound.data.scaling import unit_variance
from wolfhound.data.table_files import NAMED, ROW, ArrayTable, FileTable, open_table
from wolfhound.data.tables import find_free
from wolfhound.data.writers import write_rows
from wolfhound.show.markup import Summary

if TYPE_CHECKING:
    from wolfhound.herding.kernels import Kernel

_LABEL_FILES = (".npy", ".txt")
_ID_FILES = (*_LABEL_FILES, *NAMED)

_what = opt.in_panel("What stands for what")
_how = opt.in_panel("How it is chosen")

Texts = list[str] | None


def herd(
    atoms: opt.AtomsFile,
    m: Annotated[int, option("Rows to choose.", "-m", "--size", min=1)],
    out: Annotated[
        Path | None,
        opt.table_output("Write the chosen rows, with all their columns, ids and weights", "-o", "--out"),
    ] = None,
    columns: Annotated[Texts, _what("Columns that count; else all that can.", metavar="A,B,C")] = None,
    target: Annotated[str | None, _what("Rows to match; else ATOMS themselves.", metavar="FILE")] = None,
    by: Annotated[
        Texts,
        _what(
            "Choose within each class: a column of ATOMS, or a .npy or .txt file; may be repeated.",
            metavar="LABELS",
        ),
    ] = None,
    missing: opt.MissingValues = "level",
    numeric_only: opt.NumericOnly = False,
    balanced: Annotated[bool, _what("Equally many rows of every class.", "--balanced")] = False,
    start: Annotated[
        Texts, _what("Rows that are chosen already, part of the m: 3,17,4 or a file of ids.", metavar="IDS")
    ] = None,
    exclude: Annotated[Texts, _what("Rows not to choose: 3,17,4 or a file of ids.", metavar="IDS")] = None,
    kernel: Annotated[
        str, _how("gaussian, laplace, linear, stein, ...; a wrong name lists them all.", metavar="NAME")
    ] = "gaussian",
    scores: Annotated[str | None, _how("Gradients of log p at ATOMS, for stein.", metavar="FILE")] = None,
    lengthscale: Annotated[float | None, _how("Of the kernel; a median distance if not given.")] = None,
    standardize: Annotated[bool, _how("Scale the columns to variance 1 first.", "--standardize")] = False,
    weights: Annotated[bool, _how("Fit weights; else they are equal.", "--weights")] = False,
    swap: Annotated[bool, _how("Try to swap every chosen row at the end.", "--swap")] = False,
    candidates: Annotated[
        int | None, _how("Random rows to choose among: more, better, slower.", min=1)
    ] = None,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: Annotated[int, option("Seed of all that is random.", min=0)] = 0,
    save: opt.Save = None,
    picture: Annotated[Path | None, opt.picture_output("Draw the distance by m, and the chosen rows")] = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    """Choose m rows that stand for all: training sets, thinning, matched samples.

    The kernel distance (MMD) of the chosen rows from all of them is made small,
    then measured and compared with that of random subsets of m rows.

    Examples
    --------
    wolfhound herd rows.parquet -m 500 -o core.parquet

    wolfhound herd rows.parquet -m 500 -o core.parquet --by label --balanced

    wolfhound herd flights.csv -m 500 --by carrier --standardize --missing mean -o core.csv

    wolfhound herd pool.npy -m 1000 -o matched.npy --target population.npy

    wolfhound herd chain.npy -m 200 -o thin.csv --kernel stein --scores gradients.npy

    wolfhound herd rows.csv -m 100 --columns age,income --standardize --weights --json
    """
    from wolfhound.herding.herd import herd as choose  # noqa: PLC0415 - numba

    outputs = output.Outputs(out, save, picture, page).check("herd")
    if balanced and not by:
        raise ValueError("`--balanced` must come with --by.")
    made, policy = _make_kernel(kernel, lengthscale, scores, target), opt.parse_missing(missing)
    source = open_table(atoms)
    named = _split_names(columns or (), source)
    # Where there are scores, numbers only, all of them.
    plan = EncodingPlan(policy, numeric_only) if scores is None else EncodingPlan(Missing.ERROR, True)
    points = _read_points(source, named, by or (), plan._replace(called="atoms"))
    table = points if isinstance(points, TableAtoms) else None
    rows, counted = (points.shape[0], ()) if table is None else (table.report.rows, table.report.counted)
    written = find_free("id", source.names or (ROW,))
    settings: dict[str, Any] = {
        "kernel": made,
        "target": None if target is None else _read_target(target, points, policy),
        "by": _read_labels(by, table, rows) if by else None,
        "start": _read_ids(start or (), "--start", written),
        "exclude": _read_ids(exclude or (), "--exclude", written),
    }
    settings |= {"balanced": balanced, "weights": weights, "swap": swap, "candidates": candidates}
    drawn, herded = None, points
    if scores is not None:
        drawn, herded = _join_scores(points, scores, standardize=standardize)
    else:
        coded = {"columns": named, "missing": policy, "numeric_only": numeric_only}
        # Kept, so that a saved run can go on.
        settings |= {"standardize": standardize, **({} if table is None else coded)}
    try:
        result = choose(herded, m, max_seconds=max_seconds, progress=not as_json, seed=seed, **settings)
    except TimeoutError as error:  # not wrong use, but there is nothing to write
        _tell_timeout(str(error), as_json=as_json)
        raise Exit(1) from None
    outputs.finish(
        result,
        lambda path: write_rows(path, source, result.ids, result.weights),
        as_json=as_json,
        more={"n": rows, "d": points.shape[1], "columns": list(counted)},
        say_where=True,
        figure=lambda: result.plot(atoms=drawn),
    )


def _tell_timeout(text: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(Summary.of_run("herd", Status.MAX_SECONDS, message=text).document())
    else:
        output.notify(text)


# ---------------------------------------------------------------- names and files -> arguments of `herd`


def _make_kernel(name: str, lengthscale: float | None, scores: str | None, target: str | None) -> Kernel:
    """Return the kernel of this name; one that is centred needs scores, which say what to match."""
    from wolfhound.herding.kernels import KERNELS  # noqa: PLC0415 - numba

    kernel: Any = KERNELS.find(name, "--kernel")
    if bool(kernel.centred) == (scores is None):
        must = "must" if kernel.centred else "must not"
        raise ValueError(f"`--scores` {must} be given with --kernel {name}.")
    if kernel.centred and target is not None:
        raise ValueError(f"`--target` must not be given with --kernel {name}: the scores say what to match.")
    settings = {} if lengthscale is None else {"lengthscale": lengthscale}
    if not settings.keys() <= {field.name for field in fields(kernel)}:
        raise ValueError(f"`--lengthscale` must not be given with --kernel {name}.")
    made: Kernel = kernel(**settings)
    return made


def _split_names(texts: Sequence[str], source: FileTable) -> list[str] | None:
    """The columns of `--columns`; a name may hold commas if it stands alone."""
    if texts and isinstance(source, ArrayTable):
        raise ValueError("`--columns` must be left out: these files have no named columns.")
    named = [name for text in texts for name in ([text] if text in source.names else opt.split([text]))]
    if texts and not named:
        raise ValueError(f"`--columns` must name a column. Got {texts[0]!r}.")
    return named or None


def _read_points(
    source: FileTable, columns: list[str] | None, by: Sequence[str], plan: EncodingPlan
) -> Atoms:
    """Return the rows of a file as atoms, without the columns of labels."""
    if isinstance(source, ArrayTable):
        return join(read_parts([source]))
    labels = tuple(name for name in by if not _is_label_file(name))
    for name in labels:
        rule = f"one of {', '.join(source.names)}, or a .npy or .txt file of labels"
        require(name in source.names, "--by", rule, name)
    with opt.name_options(atoms="ATOMS"):
        # A label that is a number is still no coordinate.
        return encode_source(source, plan._replace(labels=labels), columns)


def _is_label_file(text: str) -> bool:
    return Path(text).suffix.lower() in _LABEL_FILES


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


def _join_scores(points: Atoms, path: str, *, standardize: bool) -> tuple[Atoms, Atoms]:
    """Return the points, and the points with their scores, as a kernel of scores takes them."""
    from wolfhound.herding import with_scores  # noqa: PLC0415 - numba

    scores = readers.read_atoms(path)
    wanted, got = (f"{n:,} x {d:,}" for n, d in (points.shape, scores.shape))
    require(scores.shape == points.shape, "--scores", f"{wanted}, as ATOMS", f"{got} in {path}")
    if standardize:
        scaling = unit_variance(points)
        points, scores = scaling.of(points), scaling.of_scores(scores)
    return points, with_scores(points, scores)


def _read_labels(texts: Sequence[str], table: TableAtoms | None, n: int) -> NDArray[Any]:
    """A label per row of the file; of several columns or files, all of them together."""
    parts = []
    for text in texts:
        if _is_label_file(text):
            labels = _read_array(text)
            if labels.shape != (n,):
                got = f"Got shape {labels.shape} in {text}."
                raise ValueError(f"`--by` must hold {n:,} labels, one per row. {got}")
        elif table is None:
            raise ValueError(f"`--by` must be a .npy or .txt file of labels. Got {text}.")
        else:
            labels, gone = read_column(table.source, text)
            if table.report.marked:  # else there is none, or its row is left out
                labels = name_missing(labels, gone)
        parts.append(labels)
    return parts[0] if len(parts) == 1 else join_labels(parts)


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
    if _is_label_file(path):
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
