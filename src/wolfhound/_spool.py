"""Rows that cannot be read where they are: written once to a temporary .npy file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import errno
import functools
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolfhound._files import FileAtoms
from wolfhound.core import Matrix
from wolfhound.progress import report_rows


def spool(blocks: Iterator[Matrix], shape: tuple[int, int], dtype: np.dtype[Any]) -> FileAtoms:
    """Write blocks of rows to a temporary file, removed when the process ends, or at once on an OSError."""
    size = math.prod(shape) * dtype.itemsize
    folder = spool_folder()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise _no_room(size, free)
    descriptor, name = tempfile.mkstemp(suffix=".npy", dir=folder)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        with open(descriptor, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype).data)
                report_rows(len(block))
        return FileAtoms(name)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise _no_room(size, shutil.disk_usage(folder).free) from None
        raise


def _no_room(size: int, free: int) -> OSError:
    where = f"{tempfile.gettempdir()}, where {free:,} are free; set TMPDIR to a folder with more"
    return OSError(errno.ENOSPC, f"No room for a copy of the rows, {size:,} bytes, in {where}")


@functools.cache
def spool_folder() -> str:
    """A folder of this process, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="wolfhound-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
