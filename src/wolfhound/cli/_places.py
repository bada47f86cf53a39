"""Where a command may write. What is refused is refused before any work is done."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from wolfhound import store
from wolfhound.many.result import RUN
from wolfhound.tables import find_files, split_paths
from wolfhound.validate import require


def spell(param: Any) -> str:
    """How a user writes a parameter: `--out`, `ATOMS`."""
    is_option = param.param_type_name == "option"
    return str(max(param.opts, key=len) if is_option else (param.metavar or param.name).strip("[]").upper())


# ---------------------------------------------------------------- what is read stays as it is


def check_reads(ctx: Any) -> None:
    """Refuse to write where the command reads, or twice to one place; runs when all arguments are known.

    Outputs are the options that are paths; texts may be files to read. Arguments that are paths are
    saved indexes, which some commands edit in place, and none writes over otherwise.
    """
    given = [(param, _value(ctx, param)) for param in ctx.command.params]
    options = [pair for pair in given if pair[0].param_type_name == "option"]
    outputs = [(spell(param), value) for param, value in options if isinstance(value, Path)]
    for i, (option, path) in enumerate(outputs):
        for param, value in given:
            saved = path.parent / f"{path.name}{store.ENDING}"
            if any(_same(path, file) or _same(saved, file) for file in _files(value)):
                raise ValueError(f"`{option}` must not be what {spell(param)} reads. Got {path}.")
        for other, taken in outputs[:i]:
            if os.path.realpath(taken) == os.path.realpath(path):
                raise ValueError(f"`{option}` must not be what {other} writes. Got {path}.")


def _value(ctx: Any, param: Any) -> Any:
    """Return what was given for a parameter: typer < 0.29 has paths as texts here."""
    value = ctx.params.get(param.name)
    is_path = getattr(getattr(param, "type", None), "name", "") == "path"
    return Path(value) if is_path and value is not None else value


def _files(value: Any) -> Iterator[str]:
    """Every file that a text, or one of several, may stand for."""
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str):
            for path in split_paths(text):
                yield from find_files(path)


def _same(output: Path, file: str) -> bool:
    """Whether writing to a path, a file or a folder, may change a file."""
    if os.path.exists(output) and os.path.samefile(output, file):  # links, hard ones too
        return True
    within = Path(os.path.realpath(file)).is_relative_to(os.path.realpath(output))
    return within or (Path(file).suffix == ".zarr" and _is_inside(output, file))  # files that are folders


def _is_inside(output: Path, folder: str | Path) -> bool:
    """Whether a path lies in a folder and is not the folder itself; hard links into it do too."""
    inner, outer = Path(os.path.realpath(output)), Path(os.path.realpath(folder))
    if not outer.is_dir() or inner == outer:
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
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")  # as it will be written
    with _refuse(option, "a file", path):
        aside.touch(exist_ok=False)
        aside.unlink()


def check_saved(path: Path | None, option: str, what: str, kind: str) -> None:
    """Refuse a file of a save that could not be written, or that holds anything but `what`, of this kind."""
    if path is None:
        return
    try:
        store.check_free(path, kind)
    except store.StoreError as error:
        rule = f"`{option}` must be a new file, or one that holds {what}."
        raise ValueError(f"{rule} Got {str(error).partition(' Got ')[2] or error}") from None
    probe = store.place(path)
    while not probe.parent.exists():
        probe = probe.parent
    aside = probe.with_name(f".{probe.name}.{secrets.token_hex(8)}.tmp")
    with _refuse(option, "a file", path):
        aside.touch(exist_ok=False)
        aside.unlink()


def check_run(path: Path | None, option: str) -> None:
    """Refuse a folder that could not take a run of many targets."""
    if path is None:
        return
    rule = f"`{option}` must be a new or empty folder, or one that holds a run of many targets."
    if os.path.lexists(path) and not path.is_dir():
        raise ValueError(f"{rule} Got a file, {path}.")
    if path.is_dir() and any(path.iterdir()):
        try:
            found, _ = store.describe(path)
        except store.StoreError as error:
            raise ValueError(f"{rule} Got {path}: {error}") from None
        if found != RUN:
            raise ValueError(f"{rule} Got a {found} in {path}.")
    probe = path / secrets.token_hex(8) if path.is_dir() else path
    while not probe.parent.exists():
        probe = probe.parent
    with _refuse(option, "a folder", path):
        probe.mkdir()
        probe.rmdir()


@contextlib.contextmanager
def _refuse(option: str, what: str, path: Path) -> Iterator[None]:
    """Say that a place cannot be written."""
    try:
        yield
    except OSError as error:
        rule = f"`{option}` must be {what} that can be written."
        raise ValueError(f"{rule} Got {path}: {error.strerror}.") from None
