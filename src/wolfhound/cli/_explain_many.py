"""`wolfhound explain --targets`: all points of a file in one run."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import wolfhound as wh
from wolfhound._files import FileRows
from wolfhound.cli import _many as many
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.encoding import EncodingPlan, Missing, encode_source
from wolfhound.many.result import STATUSES, ManyResult
from wolfhound.markup import list_weights
from wolfhound.tables import NAMED, ArrayTable, open_table
from wolfhound.text import passes_text, seconds_text
from wolfhound.validate import require
from wolfhound.writers import write_table

SHOWN = 20
"""Targets whose atoms are printed."""


class ManyExplained(NamedTuple):
    """Targets by name, and their mixtures."""

    targets: Sequence[str]
    result: ManyResult
    names: Sequence[str] | None
    table: dict[str, Any] | None = None

    def deliver(self, outputs: output.Outputs, summary: Path | None, *, as_json: bool, top: int) -> None:
        """Write the files that are asked for, and print."""
        if summary is not None:
            write_table(summary, {**self._places(), **self.result.to_columns()})
        mixtures = many.list_mixtures(self.result, self._places(), self.names, "weight")
        outputs.write(lambda path: write_table(path, mixtures), figure=self.result.plot)
        outputs.tell(self.result, names=self.names)
        if as_json:
            output.print_json({"table": self.table, "targets": self.list_documents()})
        else:
            self.print(top)

    def _places(self) -> dict[str, Any]:
        return {"target": np.array(self.targets, np.str_)}

    def _atoms(self, i: int) -> list[tuple[int, str | None, float]]:
        """Id, name and weight of the atoms of a target, the largest first."""
        here = slice(self.result.indptr[i], self.result.indptr[i + 1])
        ids, weights = self.result.ids[here].tolist(), self.result.weights[here].tolist()
        names = [None if self.names is None else self.names[id] for id in ids]
        return list(zip(ids, names, weights, strict=True))

    def list_documents(self) -> list[dict[str, object]]:
        """What is known of every target, as JSON values."""
        columns = {**self._places(), **self.result.to_columns()}
        documents = []
        for i, row in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True)):
            atoms = [dict(zip(("id", "name", "weight"), atom, strict=True)) for atom in self._atoms(i)]
            success = STATUSES[self.result.codes[i]].success
            documents.append({**dict(zip(columns, row, strict=True)), "success": success, "atoms": atoms})
        return documents

    def print(self, top: int) -> None:
        """Print the first targets with their atoms, and how many were proved."""
        console, result = output.stdout(), self.result
        for i in range(min(len(result), SHOWN)):
            grid = list_weights("", self._atoms(i), size=int(result.support[i]))
            told = f"{result.distance[i]:.6g}, proved gap {result.gap[i]:.2g}, {result.support[i]} atoms"
            status = STATUSES[result.codes[i]]
            passes = passes_text(float(result.passes[i]))
            why = "" if status.success else status.value
            output.print_mixture(console, self.targets[i], grid, top, f"{told}, {passes}", why)
        if len(result) > SHOWN:
            console.print(f"[dim]... {len(result) - SHOWN:,} more: --out and --summary write all[/]")
        support = result.support.mean() if len(result) else 0.0
        console.print(
            f"[bold]{result.verdict()}[/],"
            f" {support:.3g} atoms each on average, {seconds_text(result.seconds)}"
        )


def explain_many(rows: opt.NamedRows, file: str, *, exclude_self: bool, **options: Any) -> ManyExplained:
    """Explain all points of a file, one per row; `exclude_self`: point i is atom i, which is not used."""
    atoms, names = rows.atoms, rows.names
    if rows.table is not None and rows.table.ids is not None:
        rule = "None where rows of ATOMS are left out: write them to a file of their own first"
        require(options["out"] is None, "--save", rule, options["out"])
    points = _read_points(file, rows, skip=bool(options["skip"]))
    n, d = atoms.shape
    if points.ndim != 2 or points.shape[1] != d:
        got = points.shape[1] if points.ndim == 2 else f"shape {points.shape}"
        raise ValueError(f"`--targets` must have {d} columns, as the atoms. Got {got} in {file}.")
    m = len(points)
    if exclude_self and m != n:
        rule = f"come with {n:,} targets, row i being atom i"
        raise ValueError(f"`--exclude-self` must {rule}. Got {m:,} in {file}.")
    with many.name_mistakes(targets="--targets"):
        result = wh.minimize_many(
            points, atoms, exclude=np.arange(m)[:, None] if exclude_self else None, progress=True, **options
        )
    kept = rows.kept_names if exclude_self else None
    called = [str(i) for i in range(m)] if kept is None else kept
    return ManyExplained(called, rows.name_rows(result), names, rows.describe())


def _read_points(file: str, rows: opt.NamedRows, *, skip: bool) -> NDArray[Any] | FileRows:
    """Points of a file: by the names of the columns that count, where both have names.

    A row with missing values is refused, or nan, which is passed over.
    """
    if rows.table is None or not file.lower().endswith(NAMED):
        return many.read_points(file)
    source = open_table(file)
    counted = {column.name for column in rows.table.columns}
    if isinstance(source, ArrayTable) or not counted <= set(source.names):
        return many.read_points(file)
    plan = EncodingPlan(missing=Missing.DROP, like=rows.table.columns, called="--targets")
    table = encode_source(source, plan)
    if not skip:
        opt.require_complete(table, "--targets", "pass over such rows with --skip, or fill them in the file")
    points = np.full((table.report.rows, table.shape[1]), np.nan, table.dtype)
    points[slice(None) if table.ids is None else table.ids] = table.take(np.arange(table.shape[0]))
    return points
