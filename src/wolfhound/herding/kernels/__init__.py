"""Kernels k(x, y) on rows: what a kernel knows of itself, and the table of all.

A kernel knows rows only: no picks, no files but for a mean that it has in closed
form. All are frozen records. One file each; nothing else in the package names one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np

from wolfhound.core import Atoms, Matrix, Vector
from wolfhound.herding.kernels.features import Features
from wolfhound.registry import Registry
from wolfhound.validate import kind

KernelColumns: TypeAlias = Callable[[Matrix], Matrix]
"""(s, d) rows on the right -> (r, s) values of k, for rows on the left that are fixed."""

KernelRow: TypeAlias = Callable[[Matrix], Matrix]
"""(d,) row -> (r,) values of k with rows that are fixed; the answer may be overwritten by the next."""


class Kernel(Protocol):
    """A positive definite k(x, y) on rows of d entries.

    Derive from it to write one: `gram` and `diagonal` are needed, all else has a general
    way, which a kernel that knows a faster one replaces. A frozen dataclass of plain
    numbers that has a `name` can be added to `KERNELS`: results are then saved with it.

    Attributes
    ----------
    name : str
        Small letters: what a saved result and the command line call it.
    centred : bool
        Whether the mean embedding of its own target is exactly 0, as by Stein's
        identity: rows are then compared with that target, and never with others.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Cosine(Kernel):
    ...     power: float = 1.0
    ...     name = "cosine"
    ...
    ...     def gram(self, left, right):
    ...         unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right)]
    ...         return (0.5 + 0.5 * unit[0] @ unit[1].T) ** self.power
    ...
    ...     def diagonal(self, rows):
    ...         return np.ones(len(rows))
    >>> Cosine(2.0)
    Cosine(power=2)
    """

    name: ClassVar[str] = ""
    centred: ClassVar[bool] = False

    def gram(self, left: Matrix, right: Matrix) -> Matrix:
        """(r, s) values of k; float32 or float64, not tiled: callers do that."""

    def diagonal(self, rows: Matrix) -> Vector:
        """(r,) values of k(x, x)."""

    def fit(self, rows: Matrix) -> Self:
        """Return a kernel with nothing left to choose: itself, if it has all.

        Parameters
        ----------
        rows : (r, d)
            A random sample of the rows.
        """
        return self

    def against(self, left: Matrix, *, single: bool = False) -> KernelColumns:
        """Prepare ``gram(left, .)`` for many calls.

        Parameters
        ----------
        left : (r, d)
        single
            Float32 will do, also for float64 rows (shifted first, so that no
            digits are lost where rows are far from the origin).
        """
        return lambda right: self.gram(left, right)

    def row(self, rows: Matrix) -> KernelRow:
        """Prepare the values of k between one row and these, the candidates, for many calls."""
        columns = self.against(rows)
        return lambda row: np.ascontiguousarray(columns(row[None])[:, 0])

    def features(
        self, dim: int, count: int, rng: np.random.Generator, *, centre: Vector | None = None
    ) -> Features | None:
        """Return features with <F(x), F(y)> ~ k(x, y); None if there are none.

        Parameters
        ----------
        dim
            d.
        count
            How many, if they are random: rounded up to an even number.
        rng
            Draws them.
        centre : (d,), optional
            A point amid the rows, see `RandomFourier`.
        """
        return None

    def mean(self, atoms: Atoms, weights: Vector | None, name: str) -> Vector | None:
        """(d,) a row whose embedding is the mean embedding of all atoms; None: there is none.

        There is one if k is affine in either row. Distances of means are then the
        same for rows that are shifted.

        Parameters
        ----------
        atoms
            What the mean is of.
        weights : (n,), optional
            Of the atoms, 1 in sum; None: equal.
        name
            What the caller calls the atoms, for errors.
        """
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON values that `from_json` needs: the fields of a dataclass."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """Return the kernel of such values."""
        return cls(**saved)

    def __repr__(self) -> str:
        """The kernel, numbers to four digits."""
        given = {name: value for name, value in self.to_json().items() if value is not None}
        parts = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v!r}" for k, v in given.items())
        return f"{type(self).__name__}({', '.join(parts)})"


_MEMBERS = ("centred", "gram", "diagonal", "fit", "against", "row", "features", "mean")

KERNELS: Registry[type[Kernel]] = Registry(
    "kernel",
    (*_MEMBERS, "to_json", "from_json"),
    {
        "gaussian": "wolfhound.herding.kernels.gaussian:Gaussian",
        "laplace": "wolfhound.herding.kernels.laplace:Laplace",
        "linear": "wolfhound.herding.kernels.linear:Linear",
        "stein": "wolfhound.herding.kernels.stein:Stein",
    },
)
"""All kernels by name; ``KERNELS.add(Cosine)`` enters one of your own, which can then be saved."""


def check_kernel(kernel: object) -> None:
    """Raise TypeError unless this is a kernel."""
    kind(kernel, "kernel", "a kernel such as Gaussian()", *_MEMBERS)
