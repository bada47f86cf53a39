"""Every example runs and says something."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GAP_REACHED" in done.stdout or "FINISHED" in done.stdout
