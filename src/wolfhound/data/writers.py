"""One writer of tables: columns of equal length to .csv, .json, .npy or files of Arrow, all or nothing."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.atomic import open_atomically, write_file
from wolfhound.core.contracts import Atoms, Ids, Vector
from wolfhound.data.atoms import block_rows, join
from wolfhound.data.encoding import read_parts
from wolfhound.data.files import write_npy
from wolfhound.data.table_files import ARROW, ROW, ArrayTable, FileTable
from wolfhound.data.tables import Kind, convert_array, find_free, find_kind, import_arrow

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Name -> (n,) values or (n, d) vectors."""


def write_table(path: Path, columns: Columns) -> None:
    """Write columns of equal length; the ending of the path chooses the format."""
    write_file(path, _FORMATS[path.suffix.lower()](columns))


def write_atoms(path: Path, atoms: Atoms) -> None:
    """Write atoms as one array to a .npy file, block by block, all or nothing."""
    blocks = (block for _, block in atoms.blocks(block_rows(atoms)))
    with open_atomically(path) as stream:
        write_npy(stream, blocks, atoms.shape, atoms.dtype)


def write_rows(path: Path, table: FileTable, ids: Ids, weights: Vector) -> None:
    """Write every column of these rows, in order, then their ids and weights; types stay where they can."""
    ending, taken = path.suffix.lower(), table.names or (ROW,)
    added = {find_free("id", taken): ids, find_free("weight", taken): weights}
    if isinstance(table, ArrayTable):
        write_table(path, {ROW: join(read_parts([table])).take(ids), **added})
        return
    rows = table.rows(ids, as_text=ending == ".csv")
    if ending in ARROW:
        for name, values in added.items():
            rows = rows.append_column(name, [values])
        write_file(path, _arrow_bytes(rows, ending))
        return
    columns = {name: _simplify(rows[name], ending) for name in rows.column_names}
    write_table(path, {**columns, **added})


def as_json(value: object, indent: int) -> str:
    """Return text of JSON; inf and nan become null."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False) + "\n"


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value


# ---------------------------------------------------------------- formats


def _list_rows(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def _csv(columns: Columns) -> bytes:
    """Columns of vectors become a column per entry, named as readers name them."""
    flat: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        prefix = "column" if name == ROW else name
        entries = {f"{prefix} {i}": entry for i, entry in enumerate(values.T, 1)}
        flat |= {name: values} if values.ndim == 1 else entries
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(flat)
    writer.writerows(_list_rows(flat))
    return text.getvalue().encode()


def _json(columns: Columns) -> bytes:
    records = [dict(zip(columns, row, strict=True)) for row in _list_rows(columns)]
    return as_json(records, indent=1).encode()


def _npy(columns: Columns) -> bytes:
    """One structured array; a column of vectors is a field of them."""
    objects = {name: values.tolist() for name, values in columns.items() if values.dtype.kind == "O"}
    fixed = {**columns, **{name: _fix_objects(values) for name, values in objects.items()}}
    layout = np.dtype([(name, values.dtype, values.shape[1:]) for name, values in fixed.items()])
    table = np.empty(len(next(iter(fixed.values()))), layout)
    for name, values in fixed.items():
        table[name] = values
    return npy_bytes(table)


def _fix_objects(values: list[Any]) -> NDArray[Any]:
    """Numbers with nan where there is none, if that changes none of them, else texts."""
    there = [value for value in values if value is not None]
    if there and all(type(each) is float or (type(each) is int and float(each) == each) for each in there):
        return np.array([math.nan if value is None else value for value in values], np.float64)
    return np.array(["" if value is None else str(value) for value in values])


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npz_bytes(arrays: Columns) -> bytes:
    """Return arrays as the bytes of a .npz file."""
    buffer = io.BytesIO()
    given: Any = dict(arrays)
    np.savez(buffer, **given)
    return buffer.getvalue()


def _arrow(ending: str, columns: Columns) -> bytes:
    """Columns of vectors become lists of one length."""
    arrays = {name: convert_array(values, name) for name, values in columns.items()}
    return _arrow_bytes(import_arrow().table(arrays), ending)


def _arrow_bytes(table: Any, ending: str) -> bytes:
    buffer = io.BytesIO()
    if ending == ".parquet":
        import_arrow(".parquet").write_table(table, buffer)
    else:
        import_arrow(".feather").write_feather(table, buffer)
    return buffer.getvalue()


def _simplify(column: Any, ending: str) -> NDArray[Any]:
    """Numbers, text, or vectors of one length: what every format can hold; None for a null."""
    arrow = import_arrow()
    with contextlib.suppress(arrow.ArrowNotImplementedError):
        column = column.cast(arrow.string()) if arrow.types.is_temporal(column.type) else column
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind != "O" and not column.null_count:
        return values
    if find_kind(column.type) is Kind.VECTOR and not column.null_count:
        whole = not any(part.flatten().null_count for part in column.chunks)
        if whole and len({len(each) for each in values}) == 1:
            return np.stack(list(values))
    out = np.empty(len(column), object)
    for i, each in enumerate(column.to_pylist()):
        if isinstance(each, (list, dict)):  # as text of JSON; in plain types, where JSON is written
            text = json.dumps(each, default=str, ensure_ascii=False)
            out[i] = json.loads(text) if ending == ".json" else text
        else:
            out[i] = each if isinstance(each, (str, bool, int, float, type(None))) else str(each)
    return out


_FORMATS: dict[str, Callable[[Columns], bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".npy": _npy,
    **{each: functools.partial(_arrow, each) for each in ARROW},
}

TABLES = tuple(_FORMATS)
"""Endings of tables that can be written."""
