"""The one importer of torch, so that its absence is said once, and well."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator

from wolfhound.threads import one_blas_thread

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("policies that learn need torch: pip install 'wolfhound[rl]'") from None

__all__ = ["Tensor", "nn", "one_thread", "torch"]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold torch and BLAS to one thread, so that their sums have one order.

    The number of threads belongs to the process, not to us: it comes back. Small
    networks are no slower on one thread.

    Examples
    --------
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)
