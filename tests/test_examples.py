"""Every example runs and says something."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


JOBS = (
    "choose_flights",
    "unmix_a_cube",
    "shrink_estimates",
    "plan_experiments",
    "search_embeddings",
    "feed_policy",
    "papers_method",
)


def test_the_page_of_examples_names_a_program_for_each_job() -> None:
    page = (Path(__file__).parents[1] / "docs" / "examples.md").read_text()
    assert {*JOBS} <= {path.stem for path in EXAMPLES if f"(../examples/{path.name})" in page}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GAP_REACHED" in done.stdout or "FINISHED" in done.stdout
