"""Run the numerical part of the tests as other machines would compute it.

A stranger's BLAS adds in another order, its vectors are shorter, its exp rounds otherwise. A variant
sets the variables by which libraries choose among their kernels; `v2` and `v3` are whole machines of these
levels of x86-64. `busy` changes nothing but runs beside four busy processes. Tests that depend on none of
this are left out by the table of ``tests/conftest.py``. What pytest says goes to build/any-machine.

``python tools/any_machine.py --list`` shows all; CI runs ``python tools/any_machine.py --quick v2 v3``.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "any-machine"
BUSY = 4
"""Processes beside which `busy` runs."""

LEVEL_2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+sahf"
LEVEL_3 = f"{LEVEL_2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"


class Variant(NamedTuple):
    """Another machine.

    Attributes
    ----------
    settings
        Environment variables.
    needs
        Flags of the CPU without which these kernels cannot run.
    beside
        Busy processes beside the tests.
    """

    settings: Mapping[str, str]
    needs: tuple[str, ...] = ()
    beside: int = 0


def list_variants() -> dict[str, Variant]:
    """Return all variants by name."""
    numpy_2, numpy_3 = disable_numpy(("",)), disable_numpy(("AVX512", "X86_V4"))
    numba_2 = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": LEVEL_2}
    numba_3 = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": LEVEL_3}
    old = {**numba_2, **numpy_2, **others("-AVX512F,-AVX2,-FMA,-FMA4", "SSE4_2", "SSE41", "NONE", "default")}
    new = {**numba_3, **numpy_3, **others("-AVX512F", "AVX2", "AVX2", "AVX2", "avx2")}
    return {
        "haswell": Variant({"OPENBLAS_CORETYPE": "Haswell"}, ("avx2", "fma")),
        "zen": Variant({"OPENBLAS_CORETYPE": "Zen"}, ("avx2", "fma")),
        "skylakex": Variant({"OPENBLAS_CORETYPE": "SkylakeX"}, ("avx512f",)),
        "sandybridge": Variant({"OPENBLAS_CORETYPE": "Sandybridge"}, ("avx",)),
        "prescott": Variant({"OPENBLAS_CORETYPE": "Prescott"}, ("sse2",)),
        "numba-generic": Variant({"NUMBA_CPU_NAME": "generic"}),
        "numba-v2": Variant(numba_2, ("sse4_2",)),
        "numba-v3": Variant(numba_3, ("avx2", "fma")),
        "numpy-v2": Variant(numpy_2),
        "numpy-v3": Variant(numpy_3),
        "v2": Variant({"OPENBLAS_CORETYPE": "Prescott", **old}, ("sse4_2",)),
        "v3": Variant({"OPENBLAS_CORETYPE": "Haswell", **new}, ("avx2", "fma")),
        "busy": Variant({}, beside=BUSY),
    }


def disable_numpy(names: tuple[str, ...]) -> dict[str, str]:
    """Return the variable that takes from numpy what it chose for this CPU, of names that begin so."""
    core = importlib.import_module("numpy._core._multiarray_umath")  # there is no public way to the names
    has: dict[str, bool] = core.__cpu_features__
    chosen = [name for name in core.__cpu_dispatch__ if has.get(name) and name.startswith(names)]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)} if chosen else {}


def others(libm: str, mkl: str, onednn: str, faiss: str, torch: str) -> dict[str, str]:
    """Return the variables of the C library, of torch with its two libraries, and of faiss."""
    return {
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={libm}",
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "FAISS_SIMD_LEVEL": faiss,
        "ATEN_CPU_CAPABILITY": torch,
    }


def read_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return what the CPU can do; nothing if it is no x86."""
    text = path.read_text() if path.exists() else ""
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split() if found else ())


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that only take CPU time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
        for each in others:
            each.wait()


def run(name: str, variant: Variant, arguments: Sequence[str]) -> bool:
    """Run the tests, print one line of what came out; say whether all passed."""
    missing = [flag for flag in variant.needs if flag not in read_flags()]
    if missing:
        print(f"SKIP {name}: this CPU has no {missing[0]}", flush=True)
        return True
    PLACE.mkdir(parents=True, exist_ok=True)
    # Kernels compiled for one machine must not be taken for those of another.
    own = {"NUMBA_CACHE_DIR": str(PLACE / name)} if "NUMBA_CPU_NAME" in variant.settings else {}
    log, before = PLACE / f"{name}.log", _cpu_seconds()
    with busy_processes(variant.beside), log.open("w") as out:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        settings = os.environ | variant.settings | own
        code = subprocess.run(command, cwd=ROOT, env=settings, stdout=out, stderr=out, check=False).returncode
        seconds = _cpu_seconds() - before
    lines = log.read_text().splitlines() or [""]
    print(f"{'FAIL' if code else 'PASS'} {name}: {lines[-1].strip('= ')}, {seconds:.0f} CPU s", flush=True)
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(f"  {line}", flush=True)
    return code == 0


def _cpu_seconds() -> float:
    """CPU seconds of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """Run the variants that are named, else all; return the exit code."""
    variants = list_variants()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="VARIANT", help="of --list; all by default")
    parser.add_argument("--list", action="store_true", help="show the variants and what they set")
    parser.add_argument(
        "--quick", action="store_true", help="leave out slow tests that are not of recorded numbers"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (default 2)")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="a part of the tests")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in variants]
    if unknown:
        parser.error(f"VARIANT must be one of {', '.join(variants)}. Got {unknown[0]}.")
    if options.list:
        for name, variant in variants.items():
            told = [f"{key}={value}" for key, value in variant.settings.items()]
            print(f"{name}: {'; '.join(told) or f'beside {variant.beside} busy processes'}")
        return 0
    which = "numerical and (recorded or not slow)" if options.quick else "numerical"
    arguments = ["-m", which, "-n", str(options.workers), "--dist", "worksteal", *options.tests]
    passed = [run(name, variants[name], arguments) for name in options.names or variants]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
