"""`wolfhound dedup`: the rows of a file, each once."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import wolfhound as wh
from wolfhound.atoms import join
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.cli._progress import Meter, Reading, watch_reading
from wolfhound.core import Atoms, Ids
from wolfhound.duplicates import Duplicates, find_stored
from wolfhound.editing import remove_rows
from wolfhound.tables import Table, open_table
from wolfhound.text import seconds_text
from wolfhound.writers import TABLES, write_atoms, write_columns, write_table


def dedup(
    rows: opt.AtomsFile,
    out: Annotated[
        Path | None,
        opt.file_output(
            "Write the rows that are kept, every column: .npy, .csv, .json or .parquet.", "-o", "--out"
        ),
    ] = None,
    within: Annotated[float, option("Largest distance of duplicates; 0: equal rows only.", min=0.0)] = 0.0,
    groups: Annotated[
        Path | None,
        opt.file_output("Write every row's id, its group and whether it is kept: a table.", "--groups"),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Find rows that are equal, or within a distance, and keep the first of them.

    Rows are looked at in order: one is a duplicate of the first kept row within the distance, else
    it is kept. The answer is exact. Only columns of numbers are compared.

    Examples
    --------
    wolfhound dedup rows.npy -o kept.npy

    wolfhound dedup rows.csv -o kept.csv --within 0.1 --groups groups.csv
    """
    output.check_path(out, "--out", TABLES)
    output.check_path(groups, "--groups", TABLES)
    table = open_table(rows)
    with opt.name_options(atoms="ATOMS"), watch_reading():
        atoms = join(table.parts(None))
    begin, n = time.monotonic(), atoms.shape[0]
    with opt.name_options(atoms="ATOMS"), Meter(lambda meter: _read(meter, n)).job():
        found = wh.deduplicate(atoms, within=within)
    seconds = time.monotonic() - begin
    if out is not None:
        _write_kept(out, table, atoms, found)
    if groups is not None:
        ids = np.arange(n)
        write_table(groups, {"id": ids, "group": found.group, "kept": found.group == ids})
    document = {"rows": n, "kept": len(found.keep), "duplicates": len(found.removed), "within": found.within}
    document |= {"seconds": seconds, "groups": int((found.sizes > 1).sum())}
    text = f"{n:,} rows, {len(found.keep):,} kept, {len(found.removed):,} duplicates, {seconds_text(seconds)}"
    output.show(as_json, lambda: document, lambda: output.print_plain(text))


def _read(meter: Meter, n: int) -> Reading:
    return Reading(
        min(1.0, meter.swept / n), f"comparing, {meter.swept:,} of {n:,} rows, {meter.seconds:.0f} s"
    )


def _write_kept(path: Path, table: Table, atoms: Atoms, found: Duplicates) -> None:
    """Write an array as an array, block by block, of the type it had; a table with all its columns."""
    stored, ending = find_stored(atoms), path.suffix.lower()
    if table.names:
        write_columns(path, table.rows(found.keep, ending))
    elif ending == ".npy":
        write_atoms(path, _StoredAtoms(remove_rows(atoms, found.removed), stored))
    else:
        columns = table.rows(found.keep, ending)
        write_columns(path, {name: values.astype(stored) for name, values in columns.items()})


class _StoredAtoms(NamedTuple):
    """Rows as they were stored: all that is compared fits that type."""

    atoms: Atoms
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.atoms.shape

    def take(self, ids: Ids) -> NDArray[Any]:
        """Return the rows of these ids."""
        return self.atoms.take(ids).astype(self.dtype)

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first id, block) over all rows once, in order."""
        for first, block in self.atoms.blocks(rows):
            yield first, block.astype(self.dtype)
