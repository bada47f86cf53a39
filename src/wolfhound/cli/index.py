"""`wolfhound index`: build an index of atoms, ask it, keep it up to date, say what it is, check it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Exit, Typer

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._app import Command, Commands
from wolfhound.cli._options import option
from wolfhound.core.atomic import write_file
from wolfhound.core.contracts import Atoms, Hits, Ids, Oracle, Vector
from wolfhound.core.progress import read_count, read_rows, show_progress, time_solving
from wolfhound.core.text import bytes_text, passes_text, seconds_text
from wolfhound.core.validate import memory, require
from wolfhound.data import store
from wolfhound.data.atoms import check_finite
from wolfhound.data.readers import read_names
from wolfhound.data.writers import TABLES, npz_bytes, write_atoms, write_table
from wolfhound.oracles.asking import join
from wolfhound.oracles.indexes import INDEXES, SAVED_AS, IndexKind, find_saved, load_index
from wolfhound.show.markup import Field, Summary

if TYPE_CHECKING:
    from wolfhound.planning.plan import Choice

app = Typer(cls=Commands, no_args_is_help=True)

_QUERIES = 10_000
_AUTO = "auto"
_SAMPLE = 1024
"""Atoms whose combinations are the queries of a check."""

_TOGETHER = 1024
"""Queries that are asked between two looks at how far it is."""

_SHOWN = 10
"""Queries that are printed."""

Saved = Annotated[Path, Argument(metavar="INDEX", help="Where the index was saved.")]
OutFile = Annotated[
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


# ---------------------------------------------------------------- build


@app.command(cls=Command)
def build(
    atoms: opt.AtomsFile,
    out: Annotated[Path, option("Where to save the index.", "-o", "--out", metavar="FILE")],
    kind: Annotated[
        str, option("auto, int8, clusters, ...; a wrong name lists all that are known.", metavar="NAME")
    ] = _AUTO,
    queries: Annotated[
        int | None, option(f"Queries to come, for {_AUTO}; {_QUERIES:,} if not given.", min=1)
    ] = None,
    ratio: Annotated[
        float | None,
        option(
            f"Gap ratio that is needed, for {_AUTO} and indexes that can be set up for one; "
            "1, the best atom, if not given."
        ),
    ] = None,
    seed: Annotated[int, option("Seed of whatever is random in the index.", min=0)] = 0,
    max_memory: Annotated[
        str | None,
        option("Bytes that the index may take in memory, such as 2GB; any if not given.", metavar="SIZE"),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Build an index of the atoms and save it, whole or not at all.

    auto takes the cheapest for so many queries, as wolfhound plan
    weighs them. Atoms in files are read by blocks; only int8-file
    keeps its codes on disk too.

    Examples
    --------
    wolfhound index build atoms.npy -o codes

    wolfhound index build atoms.npy -o index --queries 1000000 --ratio 0.9

    wolfhound index build atoms.npy -o index --kind clusters --seed 1

    wolfhound index build "part-*.npy" -o codes --kind int8-file
    """
    opt.check_saved(out, "--out", SAVED_AS)
    if kind != _AUTO:
        # Those that can be built from atoms, and saved.
        kinds = {name: each for name, each in INDEXES.items() if each.build and each.load}
        require(kind in kinds, "--kind", f"one of {_AUTO}, {', '.join(kinds)}", kind)
        opt.refuse(f"with --kind {kind}", queries=queries, ratio=None if kinds[kind].takes_ratio else ratio)
    rows, wish = opt.open_atoms(atoms), 1.0 if ratio is None else ratio
    limit = None if max_memory is None else memory(max_memory, "--max-memory")
    choice = wh.choose_oracle(
        rows,
        queries=queries or _QUERIES,
        ratio=wish,
        proof=False,
        savable=True,
        max_memory=limit if kind == _AUTO else None,
    )
    if kind == _AUTO and not as_json:
        output.print_plain(f"{choice}\n")
    if kind != _AUTO:
        _check_limits(choice, kind, limit, ratio)
    chosen = INDEXES[choice.chosen.name if kind == _AUTO else kind]
    begin = time.perf_counter()
    row = rows.shape[1] * rows.dtype.itemsize
    with show_progress(True, read_rows("building", rows.shape[0] * chosen.passes, row)):
        index: Any = chosen.build_in(rows, out) if chosen.build_in else choice.build(chosen.name, seed=seed)
    if not chosen.build_in:
        index.save(out)
    seconds = time_solving(begin)
    built = {"kind": chosen.name, "bytes": index.nbytes, "seconds": seconds, "path": str(out)}
    text = f"{chosen.title}, {bytes_text(index.nbytes)}, {seconds_text(seconds)}: {out}"
    output.tell_record(as_json, built, text)


def _check_limits(choice: Choice, name: str, limit: float | None, ratio: float | None) -> None:
    """Refuse an index that takes more memory than it may, or does not reach a ratio; 1 is any."""
    for each in (each for each in choice.options if each.name == name):
        rule = f"at least {bytes_text(each.nbytes)} for --kind {name} and these atoms; int8-file needs none"
        require(limit is None or each.nbytes <= limit, "--max-memory", rule, bytes_text(limit or 0.0))
        reach = f"at most {each.ratio:.2f} for --kind {name} and these atoms"
        require(not each.objection or ratio is None or ratio >= 1.0, "--ratio", reach, ratio)


# ---------------------------------------------------------------- query


@app.command(cls=Command)
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
    opt.check_file(out, "--out", (*TABLES, ".npz"))
    opt.check_files(atoms, queries, "QUERIES")
    rows = opt.open_atoms(atoms)
    asked = opt.open_atoms(queries)
    d = rows.shape[1]
    require(asked.shape[1] == d, "QUERIES", f"rows of {d} numbers, as the atoms", asked.shape[1])
    kind, index = find_saved(path), load_index(path, rows)
    begin = time.perf_counter()
    hits = _ask(index, asked, k)
    seconds = time_solving(begin)
    if out is not None and out.suffix.lower() == ".npz":
        write_file(out, npz_bytes({"ids": hits.ids, "scores": hits.scores, "bounds": hits.bounds}))
    elif out is not None:
        numbers, ranks = found = np.nonzero(hits.ids >= 0)  # places that were not filled are left out
        columns = {"query": numbers, "rank": ranks + 1, "id": hits.ids[found], "score": hits.scores[found]}
        write_table(out, {**columns, "bound": hits.bounds[numbers]})
    if not as_json:
        _print_hits(hits, seconds)
        return
    document = {"kind": kind.name, "queries": len(hits.ids), "k": hits.ids.shape[1], "seconds": seconds}
    document |= {"passes": hits.passes, "scored": int(hits.scored.sum())}
    answers = []
    for i, (ids, scores, bound) in enumerate(zip(hits.ids, hits.scores, hits.bounds, strict=True)):
        there = {"ids": ids[ids >= 0].tolist(), "scores": scores[ids >= 0].tolist()}
        answers.append({"query": i, "bound": float(bound), **there})
    output.print_json(document | {"hits": answers})


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


def _print_hits(hits: Hits, seconds: float) -> None:
    """Print the answers to the first few queries."""
    table, m = output.make_table(), len(hits.ids)
    for name in ("query", "bound", "best atoms, with their scores"):
        table.add_column(name)
    for i in range(min(m, _SHOWN)):
        pairs = zip(hits.ids[i, :5], hits.scores[i, :5], strict=True)
        best = ", ".join(f"{atom} ({score:.6g})" for atom, score in pairs if atom >= 0)
        table.add_row(str(i), f"{hits.bounds[i]:.6g}", output.plain(best))
    console = output.stdout()
    console.print(table)
    more = f", the first {_SHOWN} are shown" if m > _SHOWN else ""
    cost = f"{seconds_text(seconds)}, {passes_text(hits.passes)}"
    console.print(f"{m:,} queries{more}: {cost}", soft_wrap=True)


# ---------------------------------------------------------------- append and remove


@app.command(cls=Command)
def append(
    path: Saved,
    atoms: opt.AtomsFile,
    rows: Annotated[str, Argument(metavar="ROWS", help="Rows to add behind the atoms; files as for ATOMS.")],
    out: OutFile = None,
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
    _check_places(out, write)
    old, added = _open(path, opt.open_atoms(atoms)), opt.open_atoms(rows)
    opt.check_files(atoms, rows, "ROWS")
    index, done = _edit("adding rows", old, lambda: old.append(added))
    where = f"{atoms},{rows}" if write is None else str(write)
    opens = write is not None
    with contextlib.suppress(ValueError, TypeError, OSError):
        opens = opens or store.are_same(index.atoms, opt.open_atoms(where))
    require(opens, "--write-atoms", f"given: {where} does not open as the atoms of the new index", "none")
    _keep(index, path if out is None else out, write, where, **done, as_json=as_json)


@app.command(cls=Command)
def remove(
    path: Saved,
    atoms: opt.AtomsFile,
    ids: Annotated[
        list[str] | None, option("Ids to remove, such as 3,17; may be repeated.", metavar="IDS")
    ] = None,
    ids_file: Annotated[str | None, option("A file of ids to remove, one per line.", metavar="FILE")] = None,
    out: OutFile = None,
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
    _check_places(out, write)
    given = opt.split(ids or []) if ids_file is None else [*opt.split(ids or []), *read_names(ids_file)]
    gone = opt.parse_ids(given, "--ids", "ids of atoms, such as 3,17")
    require(bool(gone), "--ids", "at least one id, here or in --ids-file", "none")
    old = _open(path, opt.open_atoms(atoms))
    index, done = _edit("removing rows", old, lambda: old.remove(np.array(gone)))
    left = f"{atoms} without the rows that were removed" if write is None else str(write)
    _keep(index, path if out is None else out, write, left, **done, as_json=as_json)


def _check_places(out: Path | None, write: Path | None) -> None:
    opt.check_saved(out, "--out", SAVED_AS)
    opt.check_file(write, "--write-atoms", [".npy"])


def _open(path: Path, atoms: Atoms) -> Any:
    """Load an index that can be edited."""
    index = load_index(path, atoms)
    rule = "an index that can be edited, int8, clusters or lsh; build others again"
    require(hasattr(index, "append"), "INDEX", rule, find_saved(path).name)
    return index


def _edit(what: str, index: Any, run: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Edit an index, and show what is done; how many atoms it had, and how long it took."""
    begin = time.perf_counter()
    with show_progress(True, read_rows(what)):
        return run(), {"before": index.atoms.shape[0], "seconds": time_solving(begin)}


def _keep(
    index: Any, target: Path, write: Path | None, where: str, *, before: int, seconds: float, as_json: bool
) -> None:
    """Write the atoms, then the index, and say what there is now, and of which atoms."""
    # Whenever that is cut short, what is there fits together.
    if write is not None:
        write_atoms(write, index.atoms)
    index.save(target)
    kind, n, size = find_saved(target), index.atoms.shape[0], index.nbytes
    record = {"kind": kind.name, "atoms": n, "before": before, "bytes": size}
    record |= {"seconds": seconds, "path": str(target), "atoms_file": where}
    cost = f"{bytes_text(size)}, {seconds_text(seconds)}"
    text = f"{kind.title}, {before:,} -> {n:,} atoms, {cost}: {target}"
    output.tell_record(as_json, record, f"{text}\nIts atoms are now {where}.")


# ---------------------------------------------------------------- info


@app.command(cls=Command)
def info(path: Saved, as_json: opt.Json = False) -> None:
    """Say what a saved index is, and of which atoms; its checksums are verified.

    Examples
    --------
    wolfhound index info codes
    """
    kind, stored = find_saved(path), store.load(path, SAVED_AS)
    nbytes = sum(array.nbytes for array in stored.arrays.values())
    made_from = [dict(zip(("n", "d", "dtype", "digest"), part, strict=True)) for part in stored.fingerprint]
    none, form = "none: loading proves all codes", f"{store.FORMAT} {store.VERSION}"
    fields = (
        Field("kind", f"{kind.name}, {kind.title}", {"kind": kind.name}),
        Field("format", form, {"format": form}),
        Field("size", bytes_text(nbytes), {"bytes": nbytes}),
        Field("parameters", values={"params": stored.params, "atoms": made_from}),
        *(
            Field("atoms", f"{n:,} x {d:,} {dtype}, fingerprint {known or none}")
            for n, d, dtype, known in stored.fingerprint
        ),
        Field("parameters", "as it was built"),
        *(Field(f"  {name}", str(value)) for name, value in _flatten(stored.params)),
    )
    output.tell(Summary("", fields), as_json)


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


# ---------------------------------------------------------------- check


@app.command(cls=Command)
def check(
    path: Saved,
    atoms: opt.AtomsFile,
    queries: Annotated[int, option("Random queries to ask.", min=1)] = 100,
    seed: Annotated[int, option("Seed of the queries.", min=0)] = 0,
    as_json: opt.Json = False,
) -> None:
    """Verify a saved index: its bytes, its atoms, and what it answers.

    Random queries are compared with a pass over the atoms: an exact index must
    give the same answers; of others the gap ratio is told.

    Examples
    --------
    wolfhound index check codes atoms.npy --queries 1000
    """
    rows = opt.open_atoms(atoms)
    try:
        kind, index = find_saved(path), load_index(path, rows)
    except store.StoreError as error:
        faults = [str(error)]
        told = Summary("", (Field("", values={"passed": False, "faults": faults}),))
    else:
        told, faults = _audit(kind, index, queries, seed)
    output.tell(told, as_json)
    if not as_json:
        for fault in faults:
            output.stdout().print(f"[bold red]WRONG[/] {output.plain(fault)}", soft_wrap=True)
        for note in told.notes:
            output.print_plain(note)
    raise Exit(1 if faults else 0)


def _audit(kind: IndexKind, index: Oracle, size: int, seed: int) -> tuple[Summary, list[str]]:
    """Return what random queries say of an index, and what is wrong with its answers."""
    queries, here = sample_queries(index.atoms, size, seed=seed)
    truth, scan_seconds = _time_query(wh.Scan(index.atoms, screen=False), queries)
    hits = index.query(queries)
    proved = bool(np.isfinite(hits.bounds).all())
    exact = kind.proves or proved
    faults = find_faults(index.atoms, queries, hits, truth, exact=exact)
    faults += ["an answer is not proved"] if exact and not proved else []
    ratios = measure_ratios(hits, truth, here)
    mean, low = float(ratios.mean()), float(np.quantile(ratios, 0.1))
    alone = statistics.median(_time_query(index, query[None])[1] for query in queries)
    values = {"passed": not faults, "kind": kind.name, "exact": exact, "ratio": mean, "ratio_p10": low}
    values |= {"seconds": alone, "scan_seconds": scan_seconds, "faults": faults}
    fields = (
        Field("kind", kind.name, values),
        Field("answers", "exact, with proof" if exact else "approximate, without proof"),
        Field("ratio", f"mean {mean:.4f}, 10th percentile {low:.4f}"),
        Field("time", f"{seconds_text(alone)} per query, alone"),
        Field("Scan", f"{seconds_text(scan_seconds)} for all {size:,} queries, in one pass"),
    )
    right = f"Intact, made from these atoms, and all {'answers' if exact else 'scores'} are right."
    return Summary("", fields, notes=() if faults else (right,)), faults


def _time_query(oracle: Oracle, queries: Vector) -> tuple[Hits, float]:
    begin = time.perf_counter()
    return oracle.query(queries), time_solving(begin)


# ---------------------------------------------------------------- whether answers are right


def measure_ratios(hits: Hits, truth: Hits, here: Vector) -> Vector:
    """(m,) gap ratios, counted from these scores: 1 is the best atom, 0 no better."""
    gaps = truth.scores[:, 0] - here
    return np.where(gaps > 0.0, (hits.scores[:, 0] - here) / np.where(gaps > 0.0, gaps, 1.0), 1.0)


def sample_queries(atoms: Atoms, size: int, *, seed: int) -> tuple[Vector, Vector]:
    """Return `size` random combinations of atoms about their mean, and (size,) the score of that mean."""
    rng = np.random.default_rng(seed)
    n = atoms.shape[0]
    ids: Ids = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
    rows = atoms.take(ids).astype(np.float64)
    mean = rows.mean(axis=0)
    queries = rng.standard_normal((size, len(rows))) @ (rows - mean) / np.sqrt(len(rows))
    return queries, queries @ mean


def find_faults(atoms: Atoms, queries: Vector, hits: Hits, truth: Hits, *, exact: bool) -> list[str]:
    """Say what is wrong with answers (k = 1), given those of `Scan`; an empty list if nothing is.

    Exact ones must be the same.
    """
    ids, scores = hits.ids[:, 0], hits.scores[:, 0]
    if not ((ids >= 0) & (ids < atoms.shape[0])).all():
        return ["a query has no answer"]
    rows = atoms.take(ids).astype(np.float64)
    slack = 1e-9 * np.abs(rows * queries).sum(axis=1)
    found = []
    if (np.abs(np.einsum("ij,ij->i", rows, queries) - scores) > slack).any():
        found.append("a score is not the inner product of query and atom")
    if (scores > truth.bounds).any():
        found.append("a score lies above the proved bound of Scan")
    if (truth.scores[:, 0] > hits.bounds).any():
        found.append("the best atom lies above a bound")
    if exact and not (np.array_equal(ids, truth.ids[:, 0]) and np.array_equal(scores, truth.scores[:, 0])):
        found.append("the answers are not those of Scan")
    return found
