"""The speeds of a machine: measured once, saved, read by every choice.

No choice asks a clock: the same calibration gives the same choice.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wolfhound.atomic import write_atomically
from wolfhound.validate import count, kind, number
from wolfhound.validate import path as checked_path

FORMAT = "wolfhound calibration"
VERSION = 2

PLACE = "WOLFHOUND_CALIBRATION"
"""Environment variable that names the file."""


def _finite(value: Any, name: str) -> None:
    if not math.isfinite(number(value, name, low=0.0)):
        raise ValueError(f"`{name}` must be finite. Got {value}.")


class CalibrationError(ValueError):
    """A saved calibration cannot be read back as it was saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How long a call with b queries takes, each of which reads u bytes.

    ``call + first u + (b - 1) (query + more u)`` seconds.

    Parameters
    ----------
    call, query
        Seconds per call, and per query after the first.
    first, more
        Seconds per byte for the first query, and for each after it.
    """

    call: float
    query: float
    first: float
    more: float

    def __post_init__(self) -> None:
        for name in ("call", "query", "first", "more"):
            _finite(getattr(self, name), name)

    def seconds(self, nbytes: float, batch: int = 1) -> float:
        """Seconds per query, if `batch` of them are asked together.

        Examples
        --------
        >>> Speed(call=1.0, query=0.5, first=1e-6, more=5e-7).seconds(1e6, batch=2)
        1.5
        """
        total = self.call + self.first * nbytes + (batch - 1) * (self.query + self.more * nbytes)
        return total / batch


def fit_line(near: tuple[float, float], far: tuple[float, float]) -> tuple[float, float]:
    """Intercept and slope of a line through two points; noise makes neither negative.

    Examples
    --------
    >>> fit_line((1.0, 3.0), (2.0, 5.0)), fit_line((1.0, 5.0), (2.0, 4.0))
    ((1.0, 2.0), (0.0, 2.0))
    """
    (x, low), (end, high) = near, far
    if high <= low or end <= x:
        return 0.0, high / end
    slope = (high - low) / (end - x)
    return max(0.0, low - slope * x), slope


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where and when a calibration was measured."""

    machine: str
    cores: int
    date: str
    wolfhound: str
    numpy: str
    numba: str
    faiss: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Speeds of a machine, in seconds. Without arguments: fixed defaults.

    The defaults are rounded numbers of `wolfhound bench` on two cores of a
    virtual server; they serve until this machine is measured.

    Parameters
    ----------
    threads
        Threads that a pass used.
    scan, int8, probe, hash, subset, pq, ivfpq
        Of `Scan` per byte of rows, `Int8Scan`, `ClusterIndex` and `LshIndex` per byte
        of codes, `RandomSubset` per byte of rows, `FaissIndex` per byte of codes: of all,
        and of some lists.
    read
        Per byte of a plain read of rows in memory.
    file, fetch
        Per byte of a pass over rows in a file, and per row that is read alone;
        from the cache of the system, so at best.
    encode
        Per byte of rows that become int8 codes.
    kmeans
        Per product of an entry of a row and of a centre.
    hashing, axes
        Per product of an entry of a row and of a direction, with what it takes to put
        rows in order counted in such products; per entry of the sample whose principal
        axes are found.
    quantise, train, lists
        Per byte of rows that faiss codes, per column to learn these codes, and per
        product of its k-means.
    origin
        None: the fixed defaults.

    Examples
    --------
    >>> Calibration().scan.seconds(4e9) > Calibration().int8.seconds(1e9)
    True
    """

    threads: int = 2
    scan: Speed = field(default=Speed(call=4.5e-4, query=1.5e-4, first=3.2e-11, more=8e-12))
    int8: Speed = field(default=Speed(call=4e-4, query=1e-5, first=3.5e-11, more=1e-11))
    probe: Speed = field(default=Speed(call=2.4e-4, query=3e-5, first=5e-11, more=2.6e-11))
    hash: Speed = field(default=Speed(call=2.4e-4, query=3e-5, first=5e-11, more=2.6e-11))
    subset: Speed = field(default=Speed(call=2.4e-4, query=7e-5, first=5.5e-11, more=1.6e-11))
    pq: Speed = field(default=Speed(call=3.5e-4, query=9e-5, first=4e-11, more=3.3e-11))
    ivfpq: Speed = field(default=Speed(call=3.5e-4, query=9e-5, first=4e-11, more=3.3e-11))
    read: float = 3e-11
    file: float = 3e-10
    fetch: float = 4.5e-6
    encode: float = 2.5e-10
    kmeans: float = 2e-11
    hashing: float = 6e-11
    axes: float = 3.5e-8
    quantise: float = 6e-9
    train: float = 6e-3
    lists: float = 2e-11
    origin: Origin | None = None

    def __post_init__(self) -> None:
        count(self.threads, "threads", low=1)
        for name in _SPEEDS:
            kind(getattr(self, name), name, "a Speed", Speed)
        for name in _NUMBERS:
            _finite(getattr(self, name), name)

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write it, whole or not at all; return where, by default `default_path()`."""
        target = default_path() if path is None else checked_path(path, "path")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        content["checksum"] = _checksum(content)
        data = (json.dumps(content, indent=1) + "\n").encode()
        write_atomically(target, lambda stream: stream.write(data))
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> Calibration:
        """Read what `save` wrote.

        Raises
        ------
        CalibrationError
            If the file is damaged, or of another version.
        FileNotFoundError
            If there is none.
        """
        source = default_path() if path is None else checked_path(path, "path")
        try:
            content = json.loads(source.read_bytes())
        except (ValueError, RecursionError):
            raise _damage(source, "it is not JSON") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise _damage(source, f"it is no {FORMAT}")
        version = content.pop("version", None)
        if version != VERSION:
            rule = f"{source} must be of version {VERSION}, which this wolfhound reads."
            raise CalibrationError(f"{rule} Got {version}: {REMEDY}")
        if content.pop("checksum", None) != _checksum({"format": FORMAT, "version": VERSION, **content}):
            raise _damage(source, "its checksum differs")
        try:
            return _calibration(content)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise _damage(source, f"an entry is missing or wrong: {error}") from None

    @classmethod
    def here(cls) -> Calibration:
        """Return the one that is saved at `default_path()`, else the fixed defaults."""
        try:
            return cls.load()
        except FileNotFoundError:
            return cls()


def as_calibration(given: Calibration | None) -> Calibration:
    """Check a calibration; None: the one of this machine."""
    found = Calibration.here() if given is None else given
    kind(found, "calibration", "a Calibration such as Calibration.here()", Calibration)
    return found


REMEDY = "run `wolfhound bench` again, or delete the file."

_SPEEDS = ("scan", "int8", "probe", "hash", "subset", "pq", "ivfpq")
_NUMBERS = ("read", "file", "fetch", "encode", "kmeans", "hashing", "axes", "quantise", "train", "lists")


def default_path() -> Path:
    """Return where a calibration is kept.

    The environment variable WOLFHOUND_CALIBRATION, else wolfhound/calibration.json
    in XDG_CACHE_HOME or ~/.cache.
    """
    named = os.environ.get(PLACE, "")
    if named:
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = cache if cache.is_absolute() else Path.home() / ".cache"  # as the XDG rules say
    return root / "wolfhound" / "calibration.json"


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _damage(source: Path, why: str) -> CalibrationError:
    return CalibrationError(f"{source} is damaged: {why}; {REMEDY}")


def _calibration(content: dict[str, Any]) -> Calibration:
    parts: dict[str, Any] = dict(content)
    parts |= {name: Speed(**content[name]) for name in _SPEEDS}
    parts["origin"] = None if content["origin"] is None else Origin(**content["origin"])
    return Calibration(**parts)
