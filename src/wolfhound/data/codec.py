"""How results are saved: a table of their fields, read back with every field checked.

Knows nothing of what a result means. Sizes have names: where two fields share
one, their lengths must agree; "n" and "d" are those of the atoms.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import AtomsLike, Status
from wolfhound.core.validate import count, number, require
from wolfhound.data import store

Saved = TypeVar("Saved")

FINITE = float(np.finfo(np.float64).max)
"""The largest float64: what is within it is neither infinite nor nan."""

WEIGHTS = 1e-6
"""What rounding may add to the sum of saved weights, and much more."""

_NUMBERS = "numbers"  # the array of all single floats: JSON has no inf and nan


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A field that is an array."""

    shape: tuple[str, ...]  # names of its sizes
    dtype: Any = np.float64  # None: any but object
    low: float = -math.inf  # least of its numbers, which are then not nan
    high: float = math.inf
    below: str = ""  # the size that whole numbers stay below
    optional: bool = False  # whether it may be None

    def read(self, stored: store.Stored, name: str, sizes: dict[str, int | None]) -> NDArray[Any] | None:
        """Return the array of this name; sizes that were not known are noted."""
        if self.optional and name not in stored.arrays:
            return None
        high = float((sizes[self.below] or 0) - 1) if self.below else self.high
        dtype = stored.arrays[name].dtype if self.dtype is None and name in stored.arrays else self.dtype
        wanted = tuple(sizes.get(size) for size in self.shape)
        found = stored.array(name, dtype, wanted, low=self.low, high=high)
        sizes.update(zip(self.shape, found.shape, strict=True))
        return found


class Columns(NamedTuple):
    """A field that is a record of arrays; each is saved as ``field_column``."""

    make: Callable[..., Any]
    columns: Mapping[str, Array]


class Json(NamedTuple):
    """A field that describes itself in JSON values; an optional one may be missing."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    optional: bool = False


class Float(NamedTuple):
    """A field that is one float, nan and inf too, unless it is what something cost."""

    cost: bool = False


class Scalar:
    """Fields that are one value."""

    NUMBER, COST = Float(), Float(cost=True)
    COUNT = Json(int, lambda value: count(value, "a count"))
    TEXT = Json(str, str)
    TEXTS = Json(  # or None
        lambda texts: None if texts is None else list(texts),
        lambda texts: None if texts is None else tuple(texts),
    )
    STATUS = Json(lambda status: status.name, lambda name: Status[name])


Field: TypeAlias = Float | Array | Columns | Json


@final
@dataclass(frozen=True, slots=True, eq=False)
class Codec(Generic[Saved]):
    """Saves records of one class, and reads them back."""

    kind: str  # what a file is said to hold
    make: Callable[..., Saved]  # the class; it has `fingerprint` besides the fields
    fields: Mapping[str, Field]
    check: Callable[[Saved], None]  # ValueError for a record that no run can have given

    def save(self, record: Saved, path: str | PathLike[str]) -> None:
        """Write to a file that must be new, or hold a record of this kind."""
        arrays = {_NUMBERS: np.array([getattr(record, name) for name in self._numbers()])}
        params: dict[str, Any] = {}
        for name, field in self.fields.items():
            value = getattr(record, name)
            match field:
                case Array():
                    arrays |= {} if value is None else {name: value}
                case Columns():
                    arrays |= {f"{name}_{column}": getattr(value, column) for column in field.columns}
                case Json():
                    params[name] = field.write(value)
        # Where atoms can no longer be read, what was found in them is not to be lost.
        source = tuple(part.settle() for part in getattr(record, "fingerprint"))  # noqa: B009
        store.save(path, self.kind, arrays, params, source)

    def load(self, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Saved:
        """Read what `save` wrote; StoreError if it is damaged or, where given, of other atoms."""
        stored = store.load(path, self.kind)
        if atoms is not None:
            store.check_fingerprint(stored, atoms)
        with stored.reading():
            record = self.make(**self._read(stored), fingerprint=stored.fingerprint)
            self.check(record)
        return record

    def _numbers(self) -> list[str]:
        return [name for name, field in self.fields.items() if isinstance(field, Float)]

    def _read(self, stored: store.Stored) -> dict[str, Any]:
        sizes: dict[str, int | None] = dict(zip("nd", stored.shape, strict=True))
        names = self._numbers()
        found = dict(zip(names, stored.array(_NUMBERS, np.float64, (len(names),)).tolist(), strict=True))
        for name, field in self.fields.items():
            match field:
                case Array():
                    found[name] = field.read(stored, name, sizes)
                case Columns():
                    columns = field.columns.items()
                    found[name] = field.make(**{f: c.read(stored, f"{name}_{f}", sizes) for f, c in columns})
                case Json():
                    stated = stored.params.get(name) if field.optional else stored.params[name]
                    found[name] = field.read(stated)
                case Float(cost=True):
                    number(found[name], name, low=0.0)
        return found


class HasCodec:
    """A record that is saved by the codec of its class."""

    __slots__ = ()
    codec: ClassVar[Codec[Any]]

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that `wolfhound.load` reads; it must be new, or hold such a record."""
        self.codec.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], atoms: AtomsLike | None = None) -> Self:
        """Read what `save` wrote.

        What was proved in the run is read, not proved again: checksums tell damage, but
        whoever can write the file can write what he likes. To prove it, solve again.

        Parameters
        ----------
        path
            Where it was saved.
        atoms
            Atoms, an array or a path. If given, must be the atoms of the run, else
            StoreError is raised.

        Raises
        ------
        StoreError
            If the file is damaged, or holds what no run can have given.
        """
        found: Self = cls.codec.load(path, atoms)
        return found


def check_weights(weights: NDArray[np.float64]) -> None:
    """Raise ValueError unless the sum of saved weights is 1."""
    require(abs(float(weights.sum()) - 1.0) <= WEIGHTS, "weights", "of sum 1", weights.sum())
