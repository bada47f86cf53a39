"""`wolfhound index`: build an index of atoms, say what one is, check it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import numpy as np
import typer
from rich.table import Table

import wolfhound as wh
from wolfhound import readers, store
from wolfhound.atoms import Part
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli._frame import Command, Commands
from wolfhound.cli._progress import Meter, Reading
from wolfhound.core import Atoms, Oracle
from wolfhound.planning.audit import faults, probe
from wolfhound.planning.text import bytes_text, seconds_text

if TYPE_CHECKING:
    from wolfhound.planning.choose import Choice

BUILD_EXAMPLES = """[bold]Examples:[/]

wolfhound index build atoms.npy -o codes

wolfhound index build atoms.npy -o index --queries 1000000 --ratio 0.9

wolfhound index build atoms.npy -o index --kind clusters --seed 1
"""
INFO_EXAMPLES = """[bold]Example:[/]

wolfhound index info codes
"""
CHECK_EXAMPLES = """[bold]Example:[/]

wolfhound index check codes atoms.npy --queries 1000
"""

app = typer.Typer(cls=Commands, no_args_is_help=True, help="Build, describe and check indexes of atoms.")


class Kind(StrEnum):
    """What to build."""

    AUTO = "auto"
    INT8 = "int8"
    CLUSTERS = "clusters"
    LSH = "lsh"
    PQ = "pq"
    IVF_PQ = "ivfpq"
    HNSW = "hnsw"


_NAMES = {
    Kind.INT8: "Int8Scan",
    Kind.CLUSTERS: "ClusterIndex",
    Kind.LSH: "LshIndex",
    Kind.PQ: "FaissIndex Pq",
    Kind.IVF_PQ: "FaissIndex IvfPq",
    Kind.HNSW: "FaissIndex Hnsw",
}
_PASSES = {
    "Int8Scan": 1,
    "ClusterIndex": 2,
    "LshIndex": 2,
    "FaissIndex Pq": 2,
    "FaissIndex IvfPq": 3,
    "FaissIndex Hnsw": 2,
}
_QUERIES = 10_000

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the index was saved.")]


class Index(Oracle, Protocol):
    """An oracle that can be saved."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a folder."""


class Plan(NamedTuple):
    """What will be built, how, and the choice behind it, if there was one."""

    name: str
    make: Callable[[Atoms, int], Any]
    choice: Choice | None


# ---------------------------------------------------------------- build


@app.command(cls=Command, epilog=BUILD_EXAMPLES)
def build(
    atoms: opt.AtomsFile,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where to save the index.")],
    kind: Annotated[Kind, typer.Option(metavar="NAME", help=f"One of {', '.join(Kind)}.")] = Kind.AUTO,
    queries: Annotated[
        int | None, typer.Option(min=1, help=f"Queries to come, for auto; {_QUERIES:,} if not given.")
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Gap ratio that is needed, for auto, clusters and lsh; 1, the best atom, if not given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of whatever is random in the index.")] = 0,
    as_json: opt.Json = False,
) -> None:
    """Build an index of the atoms and save it, whole or not at all.

    auto takes the cheapest for so many queries, by the speeds that
    wolfhound bench saved.
    """
    places.check_folder(out, "--out", "an index", ("index",))
    rows = readers.read_atoms(atoms)
    plan = _plan(rows, kind, queries=queries, ratio=ratio)
    if plan.choice is not None and not as_json:
        output.stdout().print(f"{plan.choice}\n", markup=False, soft_wrap=True)
    begin = time.monotonic()
    with _watch_build(rows.shape[0] * _PASSES[plan.name]).job():
        index: Index = plan.make(rows, seed)
    index.save(out)
    seconds = time.monotonic() - begin
    if as_json:
        output.print_json({"kind": plan.name, "bytes": index.nbytes, "seconds": seconds, "folder": str(out)})
    else:
        text = f"{plan.name}, {bytes_text(index.nbytes)}, {seconds_text(seconds)}: {out}"
        output.stdout().print(text, markup=False, soft_wrap=True)


def _plan(rows: Atoms, kind: Kind, *, queries: int | None, ratio: float | None) -> Plan:
    if kind is not Kind.AUTO and queries is not None:
        raise ValueError(f"`--queries` must not be given with --kind {kind}. Got {queries}.")
    if kind not in (Kind.AUTO, Kind.CLUSTERS, Kind.LSH) and ratio is not None:
        raise ValueError(f"`--ratio` must not be given with --kind {kind}. Got {ratio}.")
    if kind is Kind.HNSW:
        return Plan(_NAMES[kind], _hnsw, None)
    choice = wh.choose_oracle(
        rows, queries=queries or _QUERIES, ratio=1.0 if ratio is None else ratio, proof=False, savable=True
    )
    if kind is Kind.AUTO:
        return Plan(choice.chosen.name, choice.chosen.make, choice)
    named = next(each for each in choice.candidates if each.name == _NAMES[kind])
    if ratio is not None and ratio < 1.0 and named.objection:
        reach = f"at most {named.ratio:.2f} for --kind {kind} and these atoms"
        raise ValueError(f"`--ratio` must be {reach}. Got {ratio}.")
    return Plan(named.name, named.make, None)


def _hnsw(rows: Atoms, seed: int) -> Index:
    return wh.FaissIndex.build(rows, kind=wh.Hnsw(), seed=seed)


def _watch_build(sweeps: int) -> Meter:
    """Shows how many of the rows that a build reads it has read."""

    def read(meter: Meter) -> Reading:
        share = min(meter.swept / sweeps, 1.0)
        return Reading(share, f"building, {100 * share:.0f} %, {meter.seconds:.0f} s")

    return Meter(read)


# ---------------------------------------------------------------- info


@app.command(cls=Command, epilog=INFO_EXAMPLES)
def info(folder: Folder, as_json: opt.Json = False) -> None:
    """Say what a saved index is, and of which atoms; its checksums are verified."""
    kind = _kind(folder)
    stored = store.load(folder, "index")
    nbytes = sum(array.nbytes for array in stored.arrays.values())
    made_from = [part._asdict() for part in stored.fingerprint]
    if as_json:
        document = {"kind": kind, "format": f"{store.FORMAT} {store.VERSION}", "bytes": nbytes}
        output.print_json({**document, "params": stored.params, "atoms": made_from})
        return
    table = _table()
    table.add_row("kind", kind)
    table.add_row("format", f"{store.FORMAT} {store.VERSION}")
    table.add_row("size", bytes_text(nbytes))
    for part in stored.fingerprint:
        table.add_row("atoms", _part_text(part))
    table.add_row("parameters")
    for name, value in _flat(stored.params):
        table.add_row(f"  {name}", output.plain(str(value)))
    output.stdout().print(table)


def _kind(folder: Path) -> str:
    kind = store.kind(folder)
    if kind != "index":
        raise ValueError(f"`FOLDER` must hold an index. Got a {kind} in {folder}.")
    return str(store.load(folder, kind).params.get("index"))


def _part_text(part: Part) -> str:
    return f"{part.n:,} x {part.d:,} {part.dtype}, fingerprint {part.digest}"


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    return table


# ---------------------------------------------------------------- check


class Checked(NamedTuple):
    """What a check has found.

    `seconds` is per query, asked alone; `scan_seconds` is Scan's for all of
    them, in one pass.
    """

    kind: str
    exact: bool
    ratio: float
    ratio_p10: float
    seconds: float
    scan_seconds: float
    faults: list[str]


@app.command(cls=Command, epilog=CHECK_EXAMPLES)
def check(
    folder: Folder,
    atoms: opt.AtomsFile,
    queries: Annotated[int, typer.Option(min=1, help="Random queries to ask.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries.")] = 0,
    as_json: opt.Json = False,
) -> None:
    """Verify a saved index: its bytes, its atoms, and what it answers.

    Random queries are compared with a pass over the atoms: an exact index must
    give the same answers; of others the gap ratio is told.
    """
    rows = readers.read_atoms(atoms)
    try:
        kind = _kind(folder)
        index = _load(kind, folder, rows)
    except store.StoreError as error:
        _refuse(str(error), as_json=as_json)
        raise typer.Exit(1) from None
    found = _compared(kind, index, queries, seed)
    if as_json:
        output.print_json({"passed": not found.faults, **found._asdict()})
    else:
        _print_checked(found, queries)
    raise typer.Exit(1 if found.faults else 0)


def _refuse(text: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"passed": False, "faults": [text]})
    else:
        output.stdout().print(f"[bold red]WRONG[/] {output.plain(text)}", soft_wrap=True)


def _compared(kind: str, index: Oracle, size: int, seed: int) -> Checked:
    asked = probe(index.atoms, size, seed=seed)
    begin = time.monotonic()
    truth = wh.Scan(index.atoms, screen=False).query(asked.queries)
    scan_seconds = time.monotonic() - begin
    hits = index.query(asked.queries)
    exact = isinstance(index, wh.Int8Scan) or bool(np.isfinite(hits.bounds).all())
    wrong = faults(index.atoms, asked.queries, hits, truth, exact=exact)
    if exact and not np.isfinite(hits.bounds).all():
        wrong.append("an answer is not proved")
    ratios = asked.ratios(hits, truth)
    return Checked(
        kind=kind,
        exact=exact,
        ratio=float(ratios.mean()),
        ratio_p10=float(np.quantile(ratios, 0.1)),
        seconds=statistics.median(_alone(index, query[None]) for query in asked.queries),
        scan_seconds=scan_seconds,
        faults=wrong,
    )


def _alone(index: Oracle, query: np.ndarray[Any, Any]) -> float:
    begin = time.perf_counter()
    index.query(query)
    return time.perf_counter() - begin


def _print_checked(found: Checked, size: int) -> None:
    console = output.stdout()
    table = _table()
    table.add_row("kind", found.kind)
    table.add_row("answers", "exact, with proof" if found.exact else "approximate, without proof")
    table.add_row("ratio", f"mean {found.ratio:.4f}, 10th percentile {found.ratio_p10:.4f}")
    table.add_row("time", f"{seconds_text(found.seconds)} per query, alone")
    table.add_row("Scan", f"{seconds_text(found.scan_seconds)} for all {size:,} queries, in one pass")
    console.print(table)
    for fault in found.faults:
        console.print(f"[bold red]WRONG[/] {fault}")
    if not found.faults:
        right = "answers are" if found.exact else "scores are"
        console.print(f"Intact, made from these atoms, and all {right} right.")


def _load(name: str, folder: Path, atoms: Atoms) -> Oracle:
    """Load an index by its name."""
    from wolfhound.oracles import clusters, faiss_index, lsh  # noqa: PLC0415 - numba, faiss
    from wolfhound.oracles.int8 import scan  # noqa: PLC0415

    loaders: dict[str, Callable[[Path, Atoms], Oracle]] = {
        each.name: each.load for each in (scan.Int8Scan, clusters.ClusterIndex, lsh.LshIndex)
    }
    return loaders.get(name, faiss_index.FaissIndex.load)(folder, atoms)
