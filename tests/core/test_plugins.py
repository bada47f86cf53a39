"""A package that is installed beside ours: what it adds is known everywhere, the command line included."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]

GO_ON = """
import wolfhound
herd = wolfhound.load("herd", "atoms.npy")
assert herd.kernel.name == "rational", herd.kernel
assert len(herd.extend(12, atoms="atoms.npy").ids) == 12
assert type(wolfhound.load("index", "atoms.npy")).__name__ == "CopyIndex"
assert wolfhound.choose_oracle("atoms.npy", queries=10**6, ratio=0.9, proof=False).chosen.name == "copy"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with one that names a plugin, and atoms to work on."""
    facts = tmp_path / "site" / "outside-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[wolfhound.plugins]\noutside = tests.outside:register\n")
    paths = [str(facts.parent), str(ROOT), str(ROOT / "src")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    np.save(tmp_path / "atoms.npy", np.random.default_rng(0).standard_normal((400, 4)).astype(np.float32))
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
import json, sys
from typer.testing import CliRunner
from wolfhound.cli._app import app
for line in sys.argv[1:]:
    ran = CliRunner().invoke(app, [*line.split(), "--json"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.stderr
    print(json.dumps(json.loads(ran.stdout)))
"""


@pytest.mark.slow
def test_the_command_line_knows_what_a_plugin_adds(installed: Path) -> None:
    alone = "herd atoms.npy -m 8 --kernel rational -o picks.csv --save herd --json"
    assert "Rational(power=1" in run(installed, "-m", "wolfhound", *alone.split())
    lines = [
        "index build atoms.npy -o index --kind copy",
        "index info index",
        "index check index atoms.npy --queries 5",
        "plan atoms.npy --queries 1000000",
    ]
    built, told, checked, plan = map(json.loads, run(installed, "-c", ASK, *lines).splitlines())
    assert built["path"] == "index"
    assert told["params"] == {"index": "copy"}
    assert checked["passed"]
    assert "copy" in [option["name"] for option in plan["options"]]
    run(installed, "-c", GO_ON)


@pytest.mark.slow
def test_without_it_the_names_are_not_known(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    line = "-m wolfhound index build atoms.npy -o index --kind copy"
    command = [sys.executable, *line.split()]
    done = subprocess.run(
        command, cwd=installed, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert "clusters" in done.stderr
    assert not (installed / "index").exists()
