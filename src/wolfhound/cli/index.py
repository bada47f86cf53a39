"""`wolfhound index`: build an index of atoms, say what one is, check it."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from typer import Argument, Exit, Typer

import wolfhound as wh
from wolfhound import store
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli import _places as places
from wolfhound.cli import index_edits
from wolfhound.cli._frame import Command, Commands
from wolfhound.cli._options import option
from wolfhound.core import Atoms, Hits, Ids, Oracle, Vector
from wolfhound.display import read_rows, show_progress
from wolfhound.oracles.indexes import INDEXES, SAVED_AS, IndexKind, find_saved, load_index
from wolfhound.stopwatch import time_solving
from wolfhound.text import bytes_text, seconds_text
from wolfhound.validate import memory, require

if TYPE_CHECKING:
    from wolfhound.planning.choose import Choice

app = Typer(cls=Commands, no_args_is_help=True, help="Build, ask, edit, describe and check indexes of atoms.")
for run in (index_edits.query, index_edits.append, index_edits.remove):
    app.command(cls=Command)(run)


_QUERIES = 10_000
_AUTO = "auto"
_SAMPLE = 1024
"""Atoms whose combinations are the queries of a check."""

Saved = Annotated[Path, Argument(metavar="INDEX", help="Where the index was saved.")]


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
    places.check_saved(out, "--out", "an index", SAVED_AS)
    if kind != _AUTO:
        _check_kind(kind, queries, ratio)
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
    if kind != _AUTO and limit is not None:
        _check_memory(choice, kind, limit)
    if kind == _AUTO and not as_json:
        output.print_plain(f"{choice}\n")
    if kind != _AUTO and ratio is not None:
        _check_ratio(choice, kind, ratio)
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
    output.show(as_json, lambda: built, lambda: output.print_plain(text))


def _check_kind(name: str, queries: int | None, ratio: float | None) -> None:
    """Refuse what is no index, and options that it does not take."""
    # Those that can be built from atoms, and saved.
    kinds = {each: kind for each, kind in INDEXES.items() if kind.build is not None and kind.load is not None}
    require(name in kinds, "--kind", f"one of {_AUTO}, {', '.join(kinds)}", name)
    for given, value in {"queries": queries, "ratio": None if kinds[name].takes_ratio else ratio}.items():
        if value is not None:
            raise ValueError(f"`--{given}` must not be given with --kind {name}. Got {value}.")


def _check_memory(choice: Choice, name: str, limit: float) -> None:
    """Refuse an index that takes more than it may."""
    for each in choice.options:
        rule = f"at least {bytes_text(each.nbytes)} for --kind {name} and these atoms; int8-file needs none"
        require(each.name != name or each.nbytes <= limit, "--max-memory", rule, bytes_text(limit))


def _check_ratio(choice: Choice, name: str, ratio: float) -> None:
    """Refuse a ratio that an index does not reach; 1 stands for its default settings."""
    for each in choice.options:
        if each.name == name and each.objection and ratio < 1.0:
            reach = f"at most {each.ratio:.2f} for --kind {name} and these atoms"
            raise ValueError(f"`--ratio` must be {reach}. Got {ratio}.")


# ---------------------------------------------------------------- info


@app.command(cls=Command)
def info(path: Saved, as_json: opt.Json = False) -> None:
    """Say what a saved index is, and of which atoms; its checksums are verified.

    Examples
    --------
    wolfhound index info codes
    """
    kind = find_saved(path)
    stored = store.load(path, SAVED_AS)
    nbytes = sum(array.nbytes for array in stored.arrays.values())
    made_from = [dict(zip(("n", "d", "dtype", "digest"), part, strict=True)) for part in stored.fingerprint]
    if as_json:
        document = {"kind": kind.name, "format": f"{store.FORMAT} {store.VERSION}", "bytes": nbytes}
        output.print_json({**document, "params": stored.params, "atoms": made_from})
        return
    none = "none: loading proves all codes"
    parts = [f"{n:,} x {d:,} {kind}, fingerprint {known or none}" for n, d, kind, known in stored.fingerprint]
    fields = [
        ("kind", f"{kind.name}, {kind.title}"),
        ("format", f"{store.FORMAT} {store.VERSION}"),
        ("size", bytes_text(nbytes)),
        *(("atoms", text) for text in parts),
        ("parameters", ""),
        *((f"  {name}", str(value)) for name, value in _flatten(stored.params)),
    ]
    output.print_fields(output.stdout(), fields)


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


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
        wrong = f"[bold red]WRONG[/] {output.plain(str(error))}"
        refusal = {"passed": False, "faults": [str(error)]}
        output.show(as_json, lambda: refusal, lambda: output.stdout().print(wrong, soft_wrap=True))
        raise Exit(1) from None
    found = _compare(kind, index, queries, seed)
    document = {"passed": not found.faults, **found._asdict()}
    output.show(as_json, lambda: document, lambda: _print_checked(found, queries))
    raise Exit(1 if found.faults else 0)


def _compare(kind: IndexKind, index: Oracle, size: int, seed: int) -> Checked:
    sample = sample_queries(index.atoms, size, seed=seed)
    begin = time.perf_counter()
    truth = wh.Scan(index.atoms, screen=False).query(sample.queries)
    scan_seconds = time_solving(begin)
    hits = index.query(sample.queries)
    exact = kind.proves or bool(np.isfinite(hits.bounds).all())
    wrong = find_faults(index.atoms, sample.queries, hits, truth, exact=exact)
    if exact and not np.isfinite(hits.bounds).all():
        wrong.append("an answer is not proved")
    ratios = sample.ratios(hits, truth)
    return Checked(
        kind=kind.name,
        exact=exact,
        ratio=float(ratios.mean()),
        ratio_p10=float(np.quantile(ratios, 0.1)),
        seconds=statistics.median(_alone(index, query[None]) for query in sample.queries),
        scan_seconds=scan_seconds,
        faults=wrong,
    )


def _alone(index: Oracle, query: np.ndarray[Any, Any]) -> float:
    begin = time.perf_counter()
    index.query(query)
    return time_solving(begin)


def _print_checked(found: Checked, size: int) -> None:
    console = output.stdout()
    fields = [
        ("kind", found.kind),
        ("answers", "exact, with proof" if found.exact else "approximate, without proof"),
        ("ratio", f"mean {found.ratio:.4f}, 10th percentile {found.ratio_p10:.4f}"),
        ("time", f"{seconds_text(found.seconds)} per query, alone"),
        ("Scan", f"{seconds_text(found.scan_seconds)} for all {size:,} queries, in one pass"),
    ]
    output.print_fields(console, fields)
    for fault in found.faults:
        console.print(f"[bold red]WRONG[/] {output.plain(fault)}")
    if not found.faults:
        right = "answers are" if found.exact else "scores are"
        console.print(f"Intact, made from these atoms, and all {right} right.")


# ---------------------------------------------------------------- whether answers are right


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Queries to test with."""

    queries: Vector  # (m, d) random, spread as the atoms are
    here: Vector  # (m,) <query, mean of some atoms>: where a gap is counted from

    def ratios(self, hits: Hits, truth: Hits) -> Vector:
        """(m,) gap ratios: 1 is the best atom, 0 no better than the mean."""
        gaps = truth.scores[:, 0] - self.here
        return np.where(gaps > 0.0, (hits.scores[:, 0] - self.here) / np.where(gaps > 0.0, gaps, 1.0), 1.0)


def sample_queries(atoms: Atoms, size: int, *, seed: int) -> QuerySample:
    """Return `size` random combinations of atoms about their mean."""
    rng = np.random.default_rng(seed)
    n = atoms.shape[0]
    ids: Ids = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
    rows = atoms.take(ids).astype(np.float64)
    mean = rows.mean(axis=0)
    queries = rng.standard_normal((size, len(rows))) @ (rows - mean) / np.sqrt(len(rows))
    return QuerySample(queries, queries @ mean)


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
