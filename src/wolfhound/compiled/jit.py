"""The one way to compile a kernel, to keep it on disk, and to hear of it.

Only modules that hold kernels import this: numba costs 0.3 s to load.

A compiled kernel holds code of the kernels that it calls, and constants, of other
files. So a file on disk is named for the text of all of them; numba's own cache
looks at one only. A cache is never the reason why a call fails: what cannot be
read is compiled, what cannot be written is compiled again by the next process.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import logging
import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numba
from numba import extending
from numba.core import caching, config, event, serialize
from numba.core.compiler import CompileResult

from wolfhound.core.progress import COMPILING

P = ParamSpec("P")
R = TypeVar("R")

_REASSOCIATE = {"reassoc", "contract"}
_PLAIN: Any = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # nobody calls them from C
_LEAN: Any = {"_nrt": False}  # numba's own switch of its reference counts
_PACKAGE = Path(__file__).parents[1]
_ENDING = ".kernel"
_KERNELS = re.compile(rb"^(from|import) wolfhound\b.*\bjit\b", re.MULTILINE)
"""In the text of every file that makes kernels."""

_IMPORTS = re.compile(rb"^from (wolfhound[\w.]*) import ([\w, ]*)", re.MULTILINE)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code, cached on disk, without the GIL, IEEE semantics."""
    return _compile(function, numba.njit(**_PLAIN))


def fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, but sums may be reordered so that they use vector registers.

    The order is fixed at compile time: the same machine gives the same bits.
    """
    return _compile(function, numba.njit(fastmath=_REASSOCIATE, **_PLAIN))


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, without counting who holds an array: quicker to compile, and for many short calls.

    Views are free, arrays cannot be made: all memory is the caller's.
    """
    return _compile(function, numba.njit(**_PLAIN, **_LEAN))


def lean_fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `fast_kernel`, and `lean_kernel`."""
    return _compile(function, numba.njit(fastmath=_REASSOCIATE, **_PLAIN, **_LEAN))


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `lean_kernel`, and made part of its callers: for what each step of a loop calls."""
    return _compile(function, numba.njit(forceinline=True, **_PLAIN, **_LEAN))


def inner_fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `fast_kernel`, and `inner_kernel`."""
    return _compile(function, numba.njit(fastmath=_REASSOCIATE, forceinline=True, **_PLAIN, **_LEAN))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Write a function into its callers, never compile it by itself: for what two kernels share.

    Each level of calls is optimised anew with all that lies below it; this is none.
    """
    return _compile(function, numba.njit(inline="always", error_model="numpy", **_LEAN))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that returns (signature, code generator) into LLVM instructions."""
    emitted: Callable[..., Any] = extending.intrinsic(function)
    return emitted


def _compile(function: Callable[P, R], compile_: Any) -> Callable[P, R]:
    compiled: Any = compile_(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT leaves it as it is
        compiled._cache = _KernelCache(function)
        # numba compiles f(x, 0) beside f(x, i), for the literal; nobody here wants that.
        plain = compiled.compile
        compiled.compile = lambda types: plain(tuple(map(numba.types.unliteral, types)))
    kept: Callable[P, R] = compiled
    return kept


# ---------------------------------------------------------------- hearing of it


class _Listener(event.Listener):
    def __init__(self, listen: Callable[[], None]) -> None:
        self._listen = listen

    def on_start(self, event: Any) -> None:
        self._listen()

    def on_end(self, event: Any) -> None:
        pass


class _Timer(event.Listener):
    """Counts the time, and says what a user waits for: once, after the first second."""

    def __init__(self) -> None:
        self._said = self._collects = False
        self._depth = 0  # of compiling: numba holds a lock

    def on_start(self, event: Any) -> None:
        # numba makes objects by the million: to search them for garbage takes a tenth of the time.
        self._depth += 1
        if self._depth == 1 and gc.isenabled():
            gc.disable()
            self._collects = True
        COMPILING.start()

    def on_end(self, event: Any) -> None:
        COMPILING.stop()
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()
            self._collects = False
        if not self._said and COMPILING.since(0.0) > _PATIENCE:
            from wolfhound.core.progress import say  # noqa: PLC0415 - no kernel depends on it

            self._said = True
            name = _name_caller()
            about = f", about {_SECONDS[name]} s" if name in _SECONDS else ", which takes some seconds"
            say(f"wolfhound compiles {name or 'its kernels'} once{about}")


_PATIENCE = 1.0
"""Seconds of compiling that nobody need explain."""

_SECONDS = {
    "minimize": 7,
    "minimize_many": 14,
    "npmle": 5,
    "fit_weights": 3,
    "design": 6,
    "Int8Scan.build": 5,
    "ClusterIndex.build": 9,
    "LshIndex.build": 9,
    "warm_up": 60,
}
"""How long each compiles on an ordinary machine; `benchmarks/claim_import.py` measures it."""

_TIMER = _Timer()
event.register("numba:compile", _TIMER)


_NO_DOORS = ("wolfhound.cli", "wolfhound.core.validate")
"""Rooms whose functions stand before those that are called."""


def _name_caller() -> str | None:
    """Name what the user called: the outermost function of the package on the stack."""
    frame: FrameType | None = sys._getframe()
    name = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("wolfhound.") and not module.startswith(_NO_DOORS):
            name = frame.f_code.co_qualname
        frame = frame.f_back
    return None if name is None or "<" in name or name.startswith("_") else name


@contextlib.contextmanager
def on_compile(listen: Callable[[], None]) -> Iterator[None]:
    """Call `listen` whenever a kernel is compiled rather than loaded from disk."""
    with event.install_listener("numba:compile", _Listener(listen)):
        yield


# ---------------------------------------------------------------- keeping it


class _Sources(NamedTuple):
    """The files that make the kernels, as they were when this was imported."""

    digest: str
    stamps: tuple[tuple[Path, tuple[int, int] | None], ...]

    @classmethod
    def read(cls) -> _Sources:
        """Hash every file with kernels, and those that they import: constants become part of the code."""
        # Stamps before texts: a file that changes in between is then seen to have changed.
        stamps = {path: _stamp(path) for path in sorted(_PACKAGE.rglob("*.py"))}
        texts = {path: _text(path) for path in stamps}
        used = set[Path]()
        left = [path for path in stamps if _KERNELS.search(texts[path])]
        while left:
            path = left.pop()
            if path in stamps and path not in used:
                used.add(path)
                for module, names in _IMPORTS.findall(texts[path]):
                    base = _PACKAGE.parent.joinpath(*module.decode().split("."))
                    left += [
                        base.with_suffix(".py"),
                        *(base / f"{n.strip()}.py" for n in names.decode().split(",")),
                    ]
        hashed = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
        for path in sorted(used):
            hashed.update(f"\0{path.relative_to(_PACKAGE)}\0{len(texts[path])}\0".encode() + texts[path])
        return cls(hashed.hexdigest(), tuple((path, stamps[path]) for path in sorted(used)))

    def current(self) -> bool:
        """Whether the files are still those that this process imported."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # what cannot be read, such as the lock of an editor, cannot be imported either
        return b""


def _folders() -> list[Path]:
    """Where compiled kernels may be kept: the first that can be written to is."""
    mine = f"wolfhound-{_digest(str(_PACKAGE).encode())}"
    named = str(getattr(config, "CACHE_DIR", ""))  # from NUMBA_CACHE_DIR
    if named:
        return [Path(named) / mine]
    folders = [_PACKAGE / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folders.append((xdg if xdg.is_absolute() else Path.home() / ".cache") / "wolfhound" / mine)
    return folders


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class _KernelCache(caching.NullCache):
    """One file per kernel and signature: a checksum, then what numba made of it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        """Where numba says that the kernel is kept."""
        return str(_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for this signature; None if it must be compiled."""
        COMPILING.start()
        try:
            return self._load(sig, target_context)
        finally:
            COMPILING.stop()

    def _load(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        paths = [folder / name for folder in _folders()] if name and _SOURCES.current() else []
        for path in paths:
            with contextlib.suppress(Exception):  # absent, damaged or not ours: compile
                data = path.read_bytes()
                checksum, data = data[:32], data[32:]
                kept, parts = pickle.loads(data) if checksum == _digest(data).encode() else (None, ())
                if kept == sig:
                    return CompileResult._rebuild(target_context, *parts)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it for the next process, if there is a place."""
        try:
            kept = self._save(sig, data, _folders())
        except Exception:  # what numba makes cannot be pickled
            kept = False
        if not kept:
            _warn_once()

    def _save(self, sig: Any, data: Any, folders: list[Path]) -> bool:
        """Say whether it is kept, or not meant to be."""
        name = self._name(sig, data.codegen)
        # A process whose files were changed under it does not know what it compiled.
        if not name or data.library.has_dynamic_globals or not _SOURCES.current():
            return True
        content = serialize.dumps((sig, data._reduce()))
        return any(_written(folder, name, _digest(content).encode() + content) for folder in folders)

    def _name(self, sig: Any, codegen: Any) -> str | None:
        """File name: all that the machine code depends on; None if that is not known."""
        code = self._function.__code__
        try:
            own = Path(code.co_filename).read_bytes()
        except OSError:  # typed at a prompt, or in an archive
            return None
        what = sys.implementation.cache_tag, codegen.magic_tuple(), str(sig), code.co_firstlineno
        key = _digest(repr(what).encode() + own)
        return f"{_SOURCES.digest}-{self._function.__module__}.{self._function.__qualname__}-{key}{_ENDING}"


def _written(folder: Path, name: str, content: bytes) -> bool:
    """Write a file whole or not at all; say whether it is there."""
    part = folder / f"{name}.{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        return False
    _remove_stale(folder)
    return True


_cleaned: set[Path] = set()


def _remove_stale(folder: Path) -> None:
    """Remove what other texts of the kernels left, once per process and folder."""
    stale = [] if folder in _cleaned else folder.glob(f"*{_ENDING}*")
    for path in stale:
        if not path.name.startswith(_SOURCES.digest):
            with contextlib.suppress(OSError):  # another process was faster
                path.unlink()
    _cleaned.add(folder)


class KernelFolder(NamedTuple):
    """Where compiled kernels are kept, whether more can be, and how many there are."""

    path: Path
    writable: bool
    kernels: int


def find_folders() -> list[KernelFolder]:
    """Return the folders of compiled kernels, the one that is used first first.

    Only kernels of the present texts count. Nothing is written.
    """
    return [
        KernelFolder(path, _can_write(path), sum(1 for _ in path.glob(f"{_SOURCES.digest}-*{_ENDING}")))
        for path in _folders()
    ]


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or the folder itself."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


@functools.cache
def _warn_once() -> None:
    """Tell why every start is slow: logged, as a warning may be an error."""
    tried = ", ".join(map(str, _folders()))
    logging.getLogger("wolfhound").warning(
        "wolfhound: compiled kernels cannot be kept (tried %s), so each process compiles them anew, "
        "which takes seconds. Set NUMBA_CACHE_DIR to a folder that can be written to.",
        tried,
    )


_SOURCES = _Sources.read()
