"""Texts over factors: a formula that makes terms of them, an expression that excludes candidates.

The only importer of formulaic, and only where a formula is given; expressions are those of pandas.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from wolfhound.core.contracts import Matrix
from wolfhound.core.validate import describe, require
from wolfhound.data.files import import_extra
from wolfhound.designs.factors import Column, show_settings

EXAMPLE = '"1 + t * p + C(catalyst)"'


def is_name(model: object) -> bool:
    """Whether a text is one word, so the name of a model and no formula; True of anything but texts."""
    return not isinstance(model, str) or model.strip().isidentifier()


def show_frame(columns: Sequence[Column], settings: Matrix) -> Any:
    """Return rows of factors as a frame of pandas; categories know all their levels, whichever are there."""
    pandas = import_extra("pandas", "a formula", "data")
    frame, dtype = pandas.DataFrame(show_settings(columns, settings)), pandas.CategoricalDtype
    return frame.astype({column.name: dtype(column.levels) for column in columns if column.levels})


@final
class Formula:
    """A function of blocks of factors to blocks of terms, as a formula says; can be pickled.

    What a term learns from data, such as the mean of ``center(t)``, it learns from a sample, once.
    """

    def __init__(self, text: str, columns: Sequence[Column], sample: Matrix) -> None:
        formulaic = import_extra("formulaic", "a formula for `model`", "formulas")
        self._columns = tuple(columns)
        rule = f"a formula of {', '.join(column.name for column in columns)}, such as {EXAMPLE}"
        try:
            made = formulaic.model_matrix(text, show_frame(columns, sample), context={}, output="numpy")
        except (formulaic.errors.FormulaicError, SyntaxError, ValueError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(f"`model` must be {rule}. Got {describe(text)}: {why}") from None
        require(isinstance(made, formulaic.ModelMatrix), "model", f"{rule}, without a left side", text)
        self._spec: Any = made.model_spec
        require(bool(self.names), "model", f"{rule}, with at least one term", text)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms."""
        return tuple("1" if name == "Intercept" else str(name) for name in self._spec.column_names)

    def __call__(self, rows: Matrix) -> Matrix:
        """(r, d) terms."""
        made = self._spec.get_model_matrix(show_frame(self._columns, rows), context={})
        return np.asarray(made, rows.dtype)


@final
class Expression:
    """A function of factors by name to truths, as an expression says: "t > 80 and catalyst == 'Pd'"."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, settings: dict[str, Any]) -> Any:
        """(r,) truths."""
        frame = import_extra("pandas", "an expression", "data").DataFrame(settings)
        try:
            return np.asarray(frame.eval(self._text, engine="python"))
        except (NameError, SyntaxError, TypeError, ValueError, AttributeError, KeyError) as error:
            rule = f"an expression of {', '.join(settings)}, such as \"t > 80 and catalyst == 'Pd'\""
            raise ValueError(f"`exclude` must be {rule}. Got {self._text!r}: {error}.") from None
