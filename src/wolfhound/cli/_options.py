"""What several commands are given: options, each written once; files to read; places to write.

What is wrong is refused before any work is done.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import math
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Option

from wolfhound.core.contracts import Atoms
from wolfhound.core.progress import read_rows, show_progress
from wolfhound.core.validate import require
from wolfhound.core.weights import Cone, Hull
from wolfhound.data import readers, store
from wolfhound.data.atoms import check_order, join
from wolfhound.data.encoding import (
    Coder,
    EncodingPlan,
    Missing,
    Table,
    TableAtoms,
    encode_source,
    read_parts,
    read_texts,
)
from wolfhound.data.files import FileRows, check_exists, open_rows
from wolfhound.data.table_files import ArrayTable, find_files, open_table, split_paths
from wolfhound.data.tables import Kind, read_cells

UNLIMITED = math.inf

MISSING = tuple(each.value for each in Missing)


def option(help: str, *flags: str, **settings: Any) -> Any:
    """Return `typer.Option`: what it is for comes first."""
    return Option(*flags, help=help, **settings)


def in_panel(name: str, **settings: Any) -> Callable[..., Any]:
    """Return `option` for a panel of the help."""
    return functools.partial(option, rich_help_panel=name, **settings)


stopping = in_panel("When to stop")
output = in_panel("Output")
file_output = in_panel("Output", metavar="FILE")


def table_output(what: str, *flags: str) -> Any:
    """Return the option of a table that is written; `what` says what of."""
    return file_output(f"{what}: .csv, .json, .npy or .parquet.", *flags)


def picture_output(what: str) -> Any:
    """Return the option `--plot`; `what` says what is drawn."""
    return file_output(f"{what}: .png, .svg or .pdf.", "--plot")


AtomsFile = Annotated[
    str,
    Argument(
        metavar="ATOMS",
        help="Atoms, one per row: .npy, .npz, .csv, .parquet, .h5, .zarr or .safetensors, "
        "a quoted glob, several with commas between; file::name for one array of a file.",
    ),
]
NumericOnly = Annotated[
    bool, option("Texts, categories and truths do not count; else they are one-hot.", "--numeric-only")
]
MissingValues = Annotated[
    str,
    option(
        "Missing values of a table: leave rows out, fill with means, make them a level, or refuse.",
        "--missing",
        metavar="|".join(MISSING),
    ),
]
Names = Annotated[
    str | None,
    option("Names, one per line; else the only column of texts that are no categories.", metavar="FILE"),
]
_of_weights = in_panel("What weights may be")
IsCone = Annotated[bool, _of_weights("Weights of any sum; else they sum to 1.", "--cone")]
Price = Annotated[float | None, _of_weights("With --cone: added per unit of weight, a lasso.")]
Mass = Annotated[float | None, _of_weights("With --cone: most that weights may sum to.")]
Cap = Annotated[float | None, _of_weights("Most weight of an atom.")]
AtMost = Annotated[bool, _of_weights("Weights may sum to less than 1.", "--at-most")]
Ridge = Annotated[float, _of_weights("Half of this times the squares of weights is added.")]
Rtol = Annotated[float, stopping("Wanted proved gap, relative to the scale of f on random atoms.")]
Atol = Annotated[float, stopping("Wanted proved gap, absolute; the larger counts.")]
MaxSteps = Annotated[float, stopping("Stop after so many steps.", show_default=False)]
MaxPasses = Annotated[float, stopping("Stop after so many passes over all atoms.", show_default=False)]
MaxSeconds = Annotated[float, stopping("Stop after so long; the best stays.", show_default=False)]
MaxMemory = Annotated[
    str | None,
    option("Bytes to work in, such as 500MB, besides Python's own; any if not given.", metavar="SIZE"),
]
Seed = Annotated[int, option("Seed of the random atoms that are read first.", min=0)]
Checkpoint = Annotated[
    Path | None, output("Kept after every pass: the same command goes on from there.", metavar="FILE")
]
Top = Annotated[int, output("Atoms to print, by weight.", min=0)]
Out = Annotated[Path | None, table_output("Write all weights", "-o", "--out")]
Summary = Annotated[Path | None, table_output("Write value, lower, gap, status per target")]
Save = Annotated[Path | None, output("Save the result, for wolfhound.load.", metavar="FILE")]
Plot = Annotated[Path | None, picture_output("Draw the convergence")]
Report = Annotated[
    Path | None, file_output("Write a page that shows it all, for a browser: .html.", "--report")
]
Json = Annotated[bool, output("Print one JSON document and nothing else.", "--json")]


def make_weights(
    cone: bool, price: float | None, mass: float | None, cap: float | None, at_most: bool
) -> Hull | Cone:
    """Return what weights may be; ValueError for options of the other set."""
    for name, value in (("--price", price), ("--mass", mass)):
        require(cone or value is None, name, "given with --cone", value)
    require(not (cone and at_most), "--at-most", "given without --cone, see --mass", "both")
    if cone:
        return Cone(price or 0.0, math.inf if cap is None else cap, mass)
    return Hull(1.0 if cap is None else cap, at_most)


def split(texts: Sequence[str]) -> list[str]:
    """Return a, b, c of "a, b" "c": options may be repeated, and hold lists."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def parse_ids(texts: Sequence[str], option: str, rule: str) -> list[int]:
    """Return texts as ids of atoms."""
    for text in texts:
        # int() refuses, in other words, what is thousands of digits long; no atom has such an id.
        require(text.isascii() and text.isdecimal() and len(text) < 19, option, rule, text[:40])
    return [int(text) for text in texts]


def parse_count(value: float, option: str) -> int:
    """Return a count that may be written as 1e6."""
    require(math.isfinite(value) and value == int(value), option, "a whole number", f"{value:g}")
    return int(value)


def refuse(why: str, **given: object) -> None:
    """Refuse options that mean nothing beside others."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"`--{name}` must not be given {why}. Got {value}.")


def demand(why: str, **given: object) -> None:
    """Refuse to go on without options that others need."""
    for name, value in given.items():
        if value is None:
            raise ValueError(f"`--{name}` must be given {why}.")


def parse_missing(text: str) -> Missing:
    """Return what is to be done with missing values."""
    require(text in MISSING, "--missing", f"one of {', '.join(MISSING)}", text)
    return Missing(text)


def require_complete(table: TableAtoms, called: str, remedy: str) -> None:
    """Refuse a table of which rows were left out, with a remedy that the command takes."""
    if table.ids is None:
        return
    first = int((np.append(table.ids, -1) != np.arange(len(table.ids) + 1)).argmax())
    listed = ", ".join(f"{name} ({gone:,})" for name, gone in table.report.missing)
    rule = f"`{called}` must be free of missing values; {remedy}"
    raise ValueError(f"{rule}. Got some, the first in row {first}: {listed}.")  # all, however many


@contextlib.contextmanager
def name_options(**names: str) -> Iterator[None]:
    """Let a mistake call arguments as the user does, where options have other names: `atoms` is ATOMS."""

    def rename(text: str) -> str:
        for name, option_name in names.items():
            shown = f"`{option_name}`" if option_name.startswith("-") else option_name
            text = text.replace(f"`{name}`", shown)
        return text

    try:
        yield
    except (ValueError, TypeError) as error:
        error.args = (rename(str(error)),)
        raise error from None
    except OSError as error:
        if error.errno is None:  # ours: one text, which names the file
            raise OSError(rename(str(error))) from None
        raise OSError(error.errno, rename(str(error.strerror)), error.filename) from None


# ---------------------------------------------------------------- files to read


def open_atoms(path: str) -> Atoms:
    """Read atoms, and show how far it is."""
    with show_progress(True, read_rows("reading")):
        return readers.read_atoms(path)


class NamedRows(NamedTuple):
    """Rows of a file as atoms, and what they are called."""

    atoms: Atoms  # rows that are kept
    names: tuple[str, ...] | None  # of all rows of the file
    table: TableAtoms | None = None  # what the file was, if it has named columns

    @property
    def kept_names(self) -> Sequence[str] | None:
        """Of the atoms."""
        return self.names if self.table is None else self.table.pick(self.names, "--names")

    @property
    def size(self) -> int:
        """Rows of the file."""
        return self.atoms.shape[0] if self.table is None else self.table.report.rows

    def describe(self) -> dict[str, Any] | None:
        """What became of the table, as JSON values; None if it was none."""
        return None if self.table is None else self.table.report.to_json()

    def name_rows(self, result: Any) -> Any:
        """A result with ids that are rows of the file."""
        return result if self.table is None else replace(result, ids=self.table.name_rows(result.ids))


def read_table(path: str, names: str | None, *, missing: str, numeric_only: bool) -> NamedRows:
    """Read a file as atoms; texts that are no categories, if they are one column, are names."""
    source = open_table(path)
    policy = parse_missing(missing)
    if isinstance(source, ArrayTable):
        return NamedRows(*read_atoms(path, names))
    with name_options(atoms="ATOMS"), show_progress(True, read_rows("reading")):
        plan = EncodingPlan(missing=policy, numeric_only=numeric_only, called="atoms")
        table = encode_source(source, plan)
    if names is not None:
        return NamedRows(table.atoms, _read_names(names, table.report.rows), table)
    known_texts = set(source.texts)
    texts = [name for name, _ in table.report.carried if name in known_texts]
    if texts and (numeric_only or len(texts) > 1):
        texts = _find_names(source, texts)
    known = tuple(read_texts(source, texts[0], "None")) if len(texts) == 1 else None
    return NamedRows(table.atoms, known, table)


def _find_names(source: Table, texts: Sequence[str]) -> list[str]:
    """Return the columns of texts that are no categories: others too are carried if only numbers count."""
    coders = [Coder(name, Kind.TEXT) for name in texts]
    for batch in source.batches(texts):
        for coder in coders:
            coder.read(read_cells(batch.column(coder.name), Kind.TEXT, coder.name))
    return [coder.name for coder in coders if coder.gone < coder.rows and coder.find_reason(True)]


def read_atoms(path: str, names: str | None) -> tuple[Atoms, tuple[str, ...] | None]:
    """Read the atoms and their names.

    Without a file of names, the only text column of the atoms serves.
    """
    table = open_table(path)
    with show_progress(True, read_rows("reading")):
        atoms = join(read_parts([table]))
    if names is not None:
        return atoms, _read_names(names, atoms.shape[0])
    if isinstance(table, ArrayTable) or len(table.texts) != 1:
        return atoms, None
    return atoms, tuple(read_texts(table, table.texts[0], "None"))


def _read_names(file: str, n: int) -> tuple[str, ...]:
    found = readers.read_names(file)
    if len(found) != n:
        raise ValueError(f"`--names` must hold {n:,} names, one per atom. Got {len(found):,} in {file}.")
    return found


def read_points(file: str) -> NDArray[Any] | FileRows:
    """Points of a file: a .npy array as it is, whatever its shape, or a table."""
    if file.endswith(".npy") and Path(file).is_file():
        return open_rows(check_exists(file))
    return readers.read_matrix(file)


def check_files(atoms: str, others: str, name: str) -> None:
    """Refuse files that have columns of the atoms at other places; files without names have none."""
    check_order(open_table(atoms).numbers, open_table(others).numbers, name)


# ---------------------------------------------------------------- what is read stays as it is


def spell(param: Any, typed: str = "") -> str:
    """How a parameter is written: as it was typed, else at its longest, `--out`; an argument `ATOMS`."""
    if param.param_type_name != "option":
        return str((param.metavar or param.name).strip("[]").upper())
    used = [option for option in param.opts if f" {option}" in typed]
    return str(max(used or param.opts, key=len))


def check_reads(ctx: Any) -> None:
    """Refuse to write where the command reads, or twice to one place; runs when all arguments are known.

    Outputs are the options that are paths; texts may be files to read. Arguments that are paths are
    saved indexes, which some commands edit in place, and none writes over otherwise.
    """
    given = []
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        # typer < 0.29 has paths as texts here.
        is_path = getattr(getattr(param, "type", None), "name", "") == "path" and value is not None
        given.append((param, Path(value) if is_path else value))
    options = [pair for pair in given if pair[0].param_type_name == "option"]
    outputs = [(spell(param), value) for param, value in options if isinstance(value, Path)]
    for i, (option, path) in enumerate(outputs):
        for param, value in given:
            saved = path.parent / f"{path.name}{store.ENDING}"
            if any(_may_change(path, file) or _may_change(saved, file) for file in _list_files(value)):
                raise ValueError(f"`{option}` must not be what {spell(param)} reads. Got {path}.")
        for other, taken in outputs[:i]:
            if os.path.realpath(taken) == os.path.realpath(path):
                raise ValueError(f"`{option}` must not be what {other} writes. Got {path}.")


def _list_files(value: Any) -> Iterator[str]:
    """Every file that a text, or one of several, may stand for."""
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str):
            for path in split_paths(text):
                yield from find_files(path)


def _may_change(output: Path, file: str) -> bool:
    """Whether writing to a path, a file or a folder, may change a file; a .zarr is a folder."""
    if os.path.exists(output) and os.path.samefile(output, file):  # links, hard ones too
        return True
    inner, outer = Path(os.path.realpath(output)), Path(os.path.realpath(file))
    if outer.is_relative_to(inner):
        return True
    if Path(file).suffix != ".zarr" or not outer.is_dir():
        return False
    return inner.is_relative_to(outer) or (
        output.is_file() and any(each.samefile(output) for each in outer.iterdir() if each.exists())
    )


# ---------------------------------------------------------------- what can be written


def check_file(path: Path | None, option: str, endings: Collection[str]) -> None:
    """Refuse a file that could not be written, or has another ending; a link is followed."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"`{option}` must end in {', '.join(endings)}. Got {path}.")
    target = Path(os.path.realpath(path))  # a link stays, what it points to is replaced
    require(target.parent.is_dir(), option, "in a folder that exists", path)
    require(target.is_file() or not os.path.lexists(target), option, "a file", f"{path}, which is none")
    _try_to_write(target, option, path)


def check_saved(path: Path | None, option: str, kind: str) -> None:
    """Refuse a file of a save that could not be written, or that holds anything of another kind."""
    if path is None:
        return
    with name_options(path=option):
        store.check_free(path, kind)
    _try_to_write(store.place(path), option, path)


def check_run(path: Path | None, option: str) -> None:
    """Refuse a folder that could not take a run of many targets."""
    if path is None:
        return
    from wolfhound.many.run import check_out  # noqa: PLC0415 - not needed for --help

    with name_options(out=option):
        check_out(path)
    _try_to_write(path / secrets.token_hex(8) if path.is_dir() else path, option, path, "a folder")


def _try_to_write(target: Path, option: str, path: Path, what: str = "a file") -> None:
    """Make a file beside the target, as writing it will, in the first folder that exists, and remove it."""
    while not target.parent.exists():
        target = target.parent
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp") if what == "a file" else target
    try:
        aside.touch(exist_ok=False)
        aside.unlink()
    except OSError as error:
        rule = f"`{option}` must be {what} that can be written."
        raise ValueError(f"{rule} Got {path}: {error.strerror}.") from None
