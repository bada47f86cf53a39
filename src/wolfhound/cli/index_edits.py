"""`wolfhound index query`, `append` and `remove`: a saved index is asked and kept up to date."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typer import Argument

from wolfhound.atoms import check_finite
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._named import check_files
from wolfhound.cli._options import option
from wolfhound.core import Atoms, Hits, Oracle
from wolfhound.display import read_count, read_rows, show_progress
from wolfhound.oracles._hits import join
from wolfhound.oracles.indexes import SAVED_AS, find_saved, load_index
from wolfhound.readers import read_names
from wolfhound.stopwatch import time_solving
from wolfhound.store import are_same
from wolfhound.text import bytes_text, seconds_text
from wolfhound.validate import require
from wolfhound.writers import TABLES, npz_bytes, write_atoms, write_file, write_table

_TOGETHER = 1024
"""Queries that are asked between two looks at how far it is."""

_SHOWN = 10
"""Queries that are printed."""

Saved = Annotated[Path, Argument(metavar="INDEX", help="Where the index was saved.")]
OutFolder = Annotated[
    Path | None,
    option(
        "Where to save the index; INDEX itself, whole or not at all, if not given.",
        "-o",
        "--out",
        metavar="FILE",
    ),
]
WriteAtoms = Annotated[
    Path | None, opt.file_output("Write its atoms, all that there are now: .npy.", "--write-atoms")
]


# ---------------------------------------------------------------- query


def query(
    path: Saved,
    atoms: opt.AtomsFile,
    queries: Annotated[
        str, Argument(metavar="QUERIES", help="Directions to maximise, one per row; files as for ATOMS.")
    ],
    k: Annotated[int, option("Answers per query.", "-k", min=1)] = 10,
    out: Annotated[
        Path | None,
        opt.file_output(
            "Write all answers: .csv, .json, .npy or .parquet, one per row; .npz, arrays.", "-o", "--out"
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Ask a saved index for the k atoms of largest inner product with each query.

    Bounds are proved, or inf where the index proves nothing.

    Examples
    --------
    wolfhound index query codes atoms.npy queries.npy -k 10 -o hits.csv

    wolfhound index query codes atoms.npy queries.npy -k 3 --json
    """
    output.check_path(out, "--out", (*TABLES, ".npz"))
    check_files(atoms, queries, "QUERIES")
    rows = opt.open_atoms(atoms)
    asked = opt.open_atoms(queries)
    d = rows.shape[1]
    require(asked.shape[1] == d, "QUERIES", f"rows of {d} numbers, as the atoms", asked.shape[1])
    kind, index = find_saved(path), load_index(path, rows)
    begin = time.perf_counter()
    hits = _ask(index, asked, k)
    seconds = time_solving(begin)
    if out is not None:
        _write_hits(out, hits)
    document = {"kind": kind.name, "queries": len(hits.ids), "k": hits.ids.shape[1], "seconds": seconds}
    document |= {"passes": hits.passes, "scored": int(hits.scored.sum())}
    output.show(as_json, lambda: document | {"hits": _list_hits(hits)}, lambda: _print_hits(hits, document))


def _ask(index: Oracle, asked: Atoms, k: int) -> Hits:
    """Ask all queries, and show how many were answered."""
    m, parts = asked.shape[0], []
    with show_progress(True, read_count("queries", m)) as hear:
        for first, block in asked.blocks(_TOGETHER):
            check_finite(block, first, "QUERIES")
            parts.append(index.query(block, k=k))
            if hear is not None:
                hear(first + len(block))
    return join(parts)


def _list_hits(hits: Hits) -> list[dict[str, object]]:
    return [
        {
            "query": i,
            "bound": float(bound),
            "ids": ids[ids >= 0].tolist(),
            "scores": scores[ids >= 0].tolist(),
        }
        for i, (ids, scores, bound) in enumerate(zip(hits.ids, hits.scores, hits.bounds, strict=True))
    ]


def _columns(hits: Hits) -> dict[str, NDArray[Any]]:
    """One row per answer; places that were not filled are left out."""
    queries, ranks = np.nonzero(hits.ids >= 0)
    found = queries, ranks
    columns = {"query": queries, "rank": ranks + 1, "id": hits.ids[found], "score": hits.scores[found]}
    return {**columns, "bound": hits.bounds[queries]}


def _write_hits(path: Path, hits: Hits) -> None:
    if path.suffix.lower() == ".npz":
        write_file(path, npz_bytes({"ids": hits.ids, "scores": hits.scores, "bounds": hits.bounds}))
    else:
        write_table(path, _columns(hits))


def _print_hits(hits: Hits, document: dict[str, Any]) -> None:
    """Print the answers to the first few queries."""
    table = output.make_table()
    for name in ("query", "bound", "best atoms, with their scores"):
        table.add_column(name)
    for i, (ids, scores, bound) in enumerate(zip(hits.ids, hits.scores, hits.bounds, strict=True)):
        if i == _SHOWN:
            break
        pairs = (
            f"{atom} ({score:.6g})" for atom, score in zip(ids[:5], scores[:5], strict=True) if atom >= 0
        )
        table.add_row(str(i), f"{bound:.6g}", output.plain(", ".join(pairs)))
    console = output.stdout()
    console.print(table)
    m = document["queries"]
    more = f", the first {_SHOWN} are shown" if m > _SHOWN else ""
    passes = output.passes_text(document["passes"])
    console.print(f"{m:,} queries{more}: {seconds_text(document['seconds'])}, {passes}", soft_wrap=True)


# ---------------------------------------------------------------- append and remove


def append(
    path: Saved,
    atoms: opt.AtomsFile,
    rows: Annotated[str, Argument(metavar="ROWS", help="Rows to add behind the atoms; files as for ATOMS.")],
    out: OutFolder = None,
    write: WriteAtoms = None,
    as_json: opt.Json = False,
) -> None:
    """Add rows to a saved index; their ids follow those of the atoms.

    From then on its atoms are ATOMS followed by ROWS: give both, with a comma between, or the
    file of --write-atoms, which must be given where both do not open together. int8 and lsh are built
    anew; clusters keep their centres until it pays to train them anew.

    Examples
    --------
    wolfhound index append codes atoms.npy new.npy

    wolfhound index query codes atoms.npy,new.npy queries.npy

    wolfhound index append codes atoms.npy new.npy -o codes2 --write-atoms all.npy
    """
    target = _check_targets(path, out, write)
    index, added = _open(path, opt.open_atoms(atoms)), opt.open_atoms(rows)
    check_files(atoms, rows, "ROWS")
    edit = _apply("adding rows", lambda: index.append(added))
    where = f"{atoms},{rows}" if write is None else str(write)
    opens = write is not None or _opens(where, edit.index.atoms)
    require(opens, "--write-atoms", f"given: {where} does not open as the atoms of the new index", "none")
    _save(edit, target, write)
    _tell(edit, index, target, where, as_json=as_json)


def _opens(where: str, atoms: Atoms) -> bool:
    """Whether a text opens as these atoms."""
    try:
        return are_same(atoms, opt.open_atoms(where))
    except (ValueError, TypeError, OSError):
        return False


def remove(
    path: Saved,
    atoms: opt.AtomsFile,
    ids: Annotated[
        list[str] | None, option("Ids to remove, such as 3,17; may be repeated.", metavar="IDS")
    ] = None,
    ids_file: Annotated[str | None, option("A file of ids to remove, one per line.", metavar="FILE")] = None,
    out: OutFolder = None,
    write: WriteAtoms = None,
    as_json: opt.Json = False,
) -> None:
    """Remove atoms from a saved index; those behind them move up, and so do their ids.

    From then on its atoms are ATOMS without these rows: --write-atoms writes them.

    Examples
    --------
    wolfhound index remove codes atoms.npy --ids 3,17 --write-atoms kept.npy

    wolfhound index remove codes atoms.npy --ids-file gone.txt -o codes2 --write-atoms kept.npy
    """
    target = _check_targets(path, out, write)
    given = opt.split(ids or []) if ids_file is None else [*opt.split(ids or []), *read_names(ids_file)]
    gone = opt.parse_ids(given, "--ids", "ids of atoms, such as 3,17")
    require(bool(gone), "--ids", "at least one id, here or in --ids-file", "none")
    index = _open(path, opt.open_atoms(atoms))
    edit = _apply("removing rows", lambda: index.remove(np.array(gone)))
    _save(edit, target, write)
    left = f"{atoms} without the rows that were removed" if write is None else str(write)
    _tell(edit, index, target, left, as_json=as_json)


def _check_targets(path: Path, out: Path | None, write: Path | None) -> Path:
    """Refuse places that cannot be written; return where the index goes."""
    places.check_saved(out, "--out", "an index", SAVED_AS)
    places.check_file(write, "--write-atoms", [".npy"])
    return path if out is None else out


def _open(path: Path, atoms: Atoms) -> Any:
    """Load an index that can be edited."""
    index = load_index(path, atoms)
    rule = "an index that can be edited, int8, clusters or lsh; build others again"
    require(hasattr(index, "append"), "INDEX", rule, find_saved(path).name)
    return index


class _Edit(NamedTuple):
    """The index after an edit, and how long that took."""

    index: Any
    seconds: float


def _apply(text: str, run: Callable[[], Any]) -> _Edit:
    """Edit an index, and show what is done."""
    begin = time.perf_counter()
    with show_progress(True, read_rows(text)):
        return _Edit(run(), time_solving(begin))


def _save(edit: _Edit, target: Path, write: Path | None) -> None:
    """Write the atoms, then the index: whenever that is cut short, what is there fits together."""
    if write is not None:
        write_atoms(write, edit.index.atoms)
    edit.index.save(target)


def _tell(edit: _Edit, before: Any, target: Path, where: str, *, as_json: bool) -> None:
    """Say what there is now, and of which atoms."""
    kind, n, old = find_saved(target), edit.index.atoms.shape[0], before.atoms.shape[0]
    size, seconds = edit.index.nbytes, edit.seconds
    document = {"kind": kind.name, "atoms": n, "before": old, "bytes": size, "seconds": seconds}
    document |= {"path": str(target), "atoms_file": where}
    text = f"{kind.title}, {old:,} -> {n:,} atoms, {bytes_text(size)}, {seconds_text(seconds)}: {target}"
    told = f"{text}\nIts atoms are now {where}."
    output.show(as_json, lambda: document, lambda: output.print_plain(told))
