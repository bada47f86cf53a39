"""What the commands print and write: tables, JSON documents, files."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wolfhound import plot
from wolfhound.cli import _places as places
from wolfhound.core import Status
from wolfhound.result import Result
from wolfhound.store import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Columns = Mapping[str, NDArray[Any]]

TABLES = (".csv", ".json", ".npy", ".parquet")
PICTURES = (".png", ".svg", ".pdf")

_PIPED_WIDTH = 200
_BAR = 24


def stdout() -> Console:
    """Return the console for results."""
    return _console(_Results(sys.stdout))


def stderr() -> Console:
    """Return the console for everything else."""
    return _console(_Notices(sys.stderr))


def _console(file: _Stream) -> Console:
    console = _Console(file=cast("IO[str]", file), highlight=False)
    # A pipe has no width: lines must not be folded for it.
    return (
        console if console.is_terminal else _Console(file=console.file, highlight=False, width=_PIPED_WIDTH)
    )


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # the frame of all commands knows what to do  # noqa: PLE0704


class _Stream:
    """A stream that was there when the process began."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._guarded():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._guarded():
            self._stream.flush()

    def _guarded(self) -> contextlib.AbstractContextManager[None]:
        raise NotImplementedError


class _Results(_Stream):
    """stdout: if it cannot be written, the error says that it is this."""

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Notices(_Stream):
    """stderr: a run does not end because nobody can hear how far it is."""

    def _guarded(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.suppress(OSError)


# ---------------------------------------------------------------- results


def exit_code(*results: Result) -> int:
    """0 if all did what was asked, 130 if one was interrupted, else 1."""
    if any(result.status is Status.INTERRUPTED for result in results):
        return 130
    return 0 if all(result.success for result in results) else 1


def print_atoms(console: Console, result: Result, top: int) -> None:
    """Print the largest weights, each with a bar."""
    shown = result.top(top)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(min_width=12)
    table.add_column(justify="right")
    table.add_column(style="cyan")
    block = "#" if console.options.ascii_only else "█"
    for i, name, weight in shown:
        length = max(1, round(_BAR * weight / shown[0].weight))
        table.add_row(plain(name or f"#{i}"), f"{weight:.4f}", block * length)
    if result.support > len(shown):
        rest = 1.0 - sum(atom.weight for atom in shown)
        table.add_row(f"[dim]{result.support - len(shown)} more[/]", f"[dim]{max(rest, 0.0):.4f}[/]", "")
    console.print(table)


def passes_text(passes: float) -> str:
    """Return "1 pass", "2 passes", "0.25 passes"."""
    return f"{passes:.3g} {'pass' if passes == 1 else 'passes'}"


def seconds_text(seconds: float) -> str:
    """Return "12 ms", "1.3 s"."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def plain(text: str) -> str:
    """Return text in which rich sees no markup."""
    return text.replace("[", r"\[")


# ---------------------------------------------------------------- JSON


def document(result: Result) -> dict[str, object]:
    """Return a result as plain values for JSON."""
    return {
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "value": result.value,
        "lower": result.lower,
        "gap": result.gap,
        "goal": result.goal,
        "steps": result.steps,
        "passes": result.passes,
        "scored": result.scored,
        "seconds": result.seconds,
        "support": result.support,
        "atoms": [atom._asdict() for atom in result.top(result.support)],
    }


def print_json(value: object) -> None:
    """Print one JSON document on stdout; inf and nan become null."""
    stream = _Results(sys.stdout)
    stream.write(json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n")
    stream.flush()


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


# ---------------------------------------------------------------- files


def check_path(path: Path | None, option: str, endings: tuple[str, ...]) -> None:
    """Refuse a path that could not be written, before any work is done."""
    if path is not None and path.suffix.lower() == ".parquet" and ".parquet" in endings:
        import_pyarrow(option)
    places.check_file(path, option, endings)


def columns(result: Result) -> dict[str, NDArray[Any]]:
    """Return the active atoms as columns id, name, weight."""
    names = result.names if result.names is not None else ("",) * result.support
    return {"id": result.ids, "name": np.array(names, np.str_), "weight": result.weights}


def write_picture(path: Path, figure: Figure) -> None:
    """Write a figure, all or nothing."""
    write_bytes(path, plot.render(figure, path.suffix[1:].lower()))


def write_table(path: Path, table: Columns) -> None:
    """Write columns of equal length, all or nothing; the ending chooses the format."""
    content = {".csv": _csv, ".json": _json, ".npy": _npy, ".parquet": _parquet}[path.suffix.lower()](table)
    write_bytes(path, content)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all or nothing; a link stays, and what it points to is replaced."""

    def write(stream: BinaryIO) -> None:
        stream.write(content)

    write_atomically(places.followed(path), write)


def _rows(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(_rows(columns))
    return text.getvalue().encode()


def _json(columns: Columns) -> bytes:
    records = [dict(zip(columns, row, strict=True)) for row in _rows(columns)]
    return (json.dumps(_finite(records), indent=1, ensure_ascii=False) + "\n").encode()


def _npy(columns: Columns) -> bytes:
    # One structured array: the columns have different types.
    table = np.array(_rows(columns), [(name, column.dtype) for name, column in columns.items()])
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    return buffer.getvalue()


def _parquet(columns: Columns) -> bytes:
    pyarrow, parquet = import_pyarrow("--out")
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({name: column.tolist() for name, column in columns.items()}), buffer)
    return buffer.getvalue()


def import_pyarrow(option: str) -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise ValueError(
            f"`{option}` must end in another format: .parquet needs pyarrow (pip install 'wolfhound[data]')."
        ) from None
    return pyarrow, parquet
