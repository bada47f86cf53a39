"""An index from outside the package on the command line: built, described, checked, planned."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.cli.conftest import Run, words
from tests.oracles.test_indexes import copy  # noqa: F401 - a fixture


@pytest.mark.slow
@pytest.mark.usefixtures("copy")
def test_the_command_line_knows_an_index_from_outside(run: Run) -> None:
    built = run("index", "build", "atoms.npy", "-o", "made", "--kind", "copy")
    assert (built.code, built.err) == (0, "")
    assert built.out.startswith("CopyIndex, ")
    assert words(run("index", "info", "made").out).startswith("kind copy, CopyIndex")
    checked = run("index", "check", "made", "atoms.npy")
    assert checked.code == 0
    assert "approximate, without proof" in checked.out
    assert "CopyIndex" in run("plan", "atoms.npy").out
    refused = run("index", "build", "atoms.npy", "-o", "made", "--kind", "copy", "--ratio", "0.5")
    assert "`--ratio` must not be given with --kind copy. Got 0.5." in refused.err


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("tree", "`--kind` must be one of auto, int8, clusters, lsh, int8-file, copy. Got tree."),
        ("scan", "`--kind` must be one of"),
    ],
)
@pytest.mark.usefixtures("copy")
def test_other_names_are_refused(run: Run, kind: str, message: str) -> None:
    ran = run("index", "build", "atoms.npy", "-o", "made", "--kind", kind)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
