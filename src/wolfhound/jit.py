"""The one way to compile a kernel, and to hear that one is being compiled.

Only modules that hold kernels import this: numba costs 0.3 s to load.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import numba
from numba import extending
from numba.core import event

P = ParamSpec("P")
R = TypeVar("R")

_REASSOCIATE = {"reassoc", "contract"}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code, cached on disk, without the GIL, IEEE semantics."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, but sums may be reordered so that they use vector registers.

    The order is fixed at compile time: the same machine gives the same bits.
    """
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_REASSOCIATE)(
        function
    )
    return compiled


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that returns (signature, code generator) into LLVM instructions."""
    emitted: Callable[..., Any] = extending.intrinsic(function)
    return emitted


class _Listener(event.Listener):
    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say

    def on_start(self, event: Any) -> None:
        self._say()

    def on_end(self, event: Any) -> None:
        pass


@contextlib.contextmanager
def on_compile(say: Callable[[], None]) -> Iterator[None]:
    """Call `say` whenever a kernel is compiled rather than loaded from disk."""
    with event.install_listener("numba:compile", _Listener(say)):
        yield
