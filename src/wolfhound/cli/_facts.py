"""What is installed here and how it is set up. Nothing that is broken stops the telling."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

import wolfhound as wh

SETTINGS = (
    "WOLFHOUND_NUM_THREADS",
    "WOLFHOUND_CALIBRATION",
    "NUMBA_CACHE_DIR",
    "NUMBA_DISABLE_JIT",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "XDG_CACHE_HOME",
)
"""Environment variables that change how it runs."""

_OURS = "wolfhound"
_NOT_FOR_USERS = {"all", "dev", "docs"}
_MODULES = {"faiss-cpu": "faiss", "scikit-learn": "sklearn", "pillow": "PIL"}
"""Packages that are imported by another name."""

_VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
"""Instructions on which speed depends, as Linux calls them."""


def answer(ask: Callable[[], str]) -> str:
    """Return what a question gives, or the error that it raises, in one line."""
    try:
        return ask()
    except Exception as error:
        return f"cannot be told: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ---------------------------------------------------------------- packages


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that wolfhound needs, or can use.

    Parameters
    ----------
    name, bound
        As declared, such as ``numpy`` and ``>=2.0``.
    extras
        The extras that bring it; none: it is needed.
    version
        The one that is installed; None: it is missing.
    problem
        Why it cannot serve; empty: it can, or is not missed.
    """

    name: str
    bound: str
    extras: tuple[str, ...]
    version: str | None
    problem: str


def list_packages(*, try_imports: bool) -> list[Package]:
    """Return every package that wolfhound declares, those that it needs first.

    Parameters
    ----------
    try_imports
        Import each in a process of its own, which takes seconds: a package that
        is there may yet be broken, and may take the process with it.
    """
    declared: dict[str, list[tuple[Requirement, str]]] = {}
    for requirement, extra in _list_declared():
        declared.setdefault(requirement.name, []).append((requirement, extra))
    packages = [_inspect(name, uses, try_imports=try_imports) for name, uses in declared.items()]
    return sorted(packages, key=lambda package: bool(package.extras))


def _list_declared() -> Iterator[tuple[Requirement, str]]:
    """Yield what is declared for this interpreter, with its extra; empty: it is needed."""
    try:
        about = importlib.metadata.metadata(_OURS)
    except importlib.metadata.PackageNotFoundError:  # run from its source
        return
    extras = sorted({*(about.get_all("Provides-Extra") or ())} - _NOT_FOR_USERS)
    declared = [Requirement(text) for text in about.get_all("Requires-Dist") or ()]
    for requirement in declared:
        marker = requirement.marker
        needed = marker is None or marker.evaluate({"extra": ""})
        for extra in [""] if needed else extras:
            if requirement.name != _OURS and (marker is None or marker.evaluate({"extra": extra})):
                yield requirement, extra


def _inspect(name: str, uses: Sequence[tuple[Requirement, str]], *, try_imports: bool) -> Package:
    bound = ",".join(dict.fromkeys(str(requirement.specifier) for requirement, _ in uses))
    extras = tuple(dict.fromkeys(extra for _, extra in uses))
    extras = () if "" in extras else extras
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        problem = "" if extras else "is missing"
        return Package(name=name, bound=bound, extras=extras, version=None, problem=problem)
    fits = all(requirement.specifier.contains(version, prereleases=True) for requirement, _ in uses)
    problem = f"{version} must be {bound}" if not fits else _try_import(name) if try_imports else ""
    return Package(name=name, bound=bound, extras=extras, version=version, problem=problem)


def _try_import(name: str) -> str:
    """Return why a package cannot be imported; empty: it can."""
    command = [sys.executable, "-c", f"import {_MODULES.get(name, name.replace('-', '_'))}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be imported: {_one_line(error)}"
    if done.returncode < 0:
        return f"cannot be imported: the process died of signal {-done.returncode}"
    last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"cannot be imported: {last}" if done.returncode else ""


def list_plugins() -> list[str]:
    """Return the packages that add kernels, indexes or rules."""
    return sorted(point.value for point in importlib.metadata.entry_points(group="wolfhound.plugins"))


# ---------------------------------------------------------------- the machine


def describe_processor() -> str:
    """Return the name of the processor, and the vector instructions that it has."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = fields.get("model name") or platform.processor() or platform.machine()
    has = fields.get("flags", "").split()
    vectors = [each for each in _VECTORS if each in has]
    return f"{name} ({', '.join(vectors)})" if vectors else name


def describe_memory() -> str:
    """Return how much memory the machine has."""
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.3g} GiB"


def describe_threads() -> str:
    """Return how many threads a pass uses, and of how many cores."""
    from wolfhound.threads import available  # noqa: PLC0415 - numpy, which may be broken

    return f"{wh.get_threads()} of {available()} cores that this process may use"


def describe_blas() -> str:
    """Return every BLAS that numpy and scipy load."""
    import numpy  # noqa: PLC0415 - so that its BLAS is loaded
    import threadpoolctl  # noqa: PLC0415

    found = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    texts = [
        f"{each['internal_api']} {each['version']}, {each['num_threads']} threads, "
        f"for {each.get('architecture', 'any processor')}"
        for each in found
    ]
    return "; ".join(texts) or f"none that can be told, of numpy {numpy.__version__}"


# ---------------------------------------------------------------- places


def describe_kernels() -> str:
    """Return where compiled kernels are kept, and how many there are."""
    from wolfhound.jit import find_folders  # noqa: PLC0415 - numba, which may be broken

    folders = find_folders()
    used = next((each for each in folders if each.writable), None)
    kernels = f"{sum(each.kernels for each in folders):,} compiled"
    if used is None:
        tried = ", ".join(str(each.path) for each in folders)
        return f"{kernels}; cannot be kept in {tried}: set NUMBA_CACHE_DIR"
    return f"{kernels}, kept in {used.path}"


def describe_calibration() -> str:
    """Return where the speeds of the machine are kept, and whether they were measured."""
    from wolfhound.machine import Calibration, default_path  # noqa: PLC0415 - numpy

    place = default_path()
    try:
        origin = Calibration.load(place).origin
    except FileNotFoundError:
        return f"none in {place}, fixed speeds are used: `wolfhound bench` measures"
    when = "" if origin is None else f", of {origin.date} by wolfhound {origin.wolfhound}"
    return f"{place}{when}"
