"""Columns of two files that are used together."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from wolfhound.editing import check_order
from wolfhound.tables import open_table


def check_files(atoms: str, others: str, name: str) -> None:
    """Refuse files that have columns of the atoms at other places; files without names have none."""
    check_order(open_table(atoms).numbers, open_table(others).numbers, name)
