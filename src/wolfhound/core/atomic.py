"""Files that are replaced whole or not at all. Knows nothing of what is in them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file that lies aside; when the block ends it is flushed to disk and put in place of the old.

    A link stays, and what it points to is replaced. If the block fails, also for want of space, the old
    file stays as it was. What a process that was killed left aside is removed by the next one that writes
    the same file.
    """
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _open_held(aside) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(aside, target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if error.errno is None or error.filename not in {None, str(aside)}:
            raise
        raise OSError(error.errno, error.strerror, str(target)) from None  # a full disk names no file
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    for each in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 16}.tmp"):
        with contextlib.suppress(OSError), open(each, "rb") as stream:  # a lock says that it is still written
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            each.unlink(missing_ok=True)
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, all or nothing; see `open_atomically`."""
    with open_atomically(path) as stream:
        stream.write(content)


def _open_held(aside: Path) -> BinaryIO:
    """Open a new file and hold a lock on it, which ends with the process: so it is known who was killed."""
    while True:
        stream = open(aside, "xb")
        with contextlib.suppress(OSError):  # a file system without locks: then nothing is removed
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
        if aside.exists():
            return stream
        stream.close()  # somebody took it for left behind before it was locked
