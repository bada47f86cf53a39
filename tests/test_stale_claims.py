"""`tools/stale_claims.py` on a small repository of its own: nothing depends on the results of this one."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import stale_claims
from benchmarks_page import write_claim

ROOT = Path(__file__).parents[1]

FILES = {
    "src/wolfhound/__init__.py": "if TYPE_CHECKING:\n    from wolfhound.scan import Scan as Scan\n"
    "    from wolfhound.herd import herd as herd\n",
    "src/wolfhound/core.py": "",
    "src/wolfhound/scan.py": "from wolfhound.core.contracts import x\n",
    "src/wolfhound/herd.py": "def late():\n    import wolfhound.deep.kernel\n",
    "src/wolfhound/deep/__init__.py": "",
    "src/wolfhound/deep/kernel.py": "",
    "src/wolfhound/other.py": "import wolfhound\nwolfhound.herd\n",
    "benchmarks/rig.py": "",
    "benchmarks/claim_scan.py": "import rig\nfrom wolfhound import Scan\n",
    "benchmarks/claim_herd.py": "import wolfhound as wh\nwh.herd(1)\n",
}
OF_SCAN = {"benchmarks/claim_scan.py", "benchmarks/rig.py", "src/wolfhound/scan.py", "src/wolfhound/core.py"}
OF_HERD = {
    "benchmarks/claim_herd.py",
    "src/wolfhound/herd.py",
    "src/wolfhound/deep/__init__.py",
    "src/wolfhound/deep/kernel.py",
}


def git(root: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ["git", "-C", str(root), *names, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a commit, and two claims that were measured there."""
    place = tmp_path / "tree"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git(tmp_path, "init", "-q", str(place))
    git(place, "add", "-A")
    git(place, "commit", "-qm", "code")
    measure(place, "claim_scan")
    measure(place, "claim_herd")
    return place


def measure(root: Path, claim: str, extra: str = "") -> None:
    results = root / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    commit = git(root, "rev-parse", "HEAD") + extra
    known = {
        "claim": claim,
        "commit": commit,
        "date": "2026-01-02T03:04:05",
        "statement": "",
        "seconds": 90.0,
    }
    (results / f"{claim}.json").write_text(json.dumps(known))


@pytest.mark.parametrize(("claim", "sources"), [("claim_scan", OF_SCAN), ("claim_herd", OF_HERD)])
def test_what_a_claim_measures_is_what_it_imports(root: Path, claim: str, sources: set[str]) -> None:
    found = stale_claims.find_sources(root / "benchmarks" / f"{claim}.py", root)
    assert {str(path.relative_to(root)) for path in found} == sources


def test_a_change_of_what_is_imported_is_told_committed_or_not(root: Path) -> None:
    assert [age.flag for age in stale_claims.find_ages(root)] == ["", ""]
    (root / "src/wolfhound/core.py").write_text("x = 1\n")
    (root / "src/wolfhound/other.py").write_text("x = 1\n")
    herd, scan = stale_claims.find_ages(root)
    assert (herd.flag, scan.changed, scan.date) == ("", ("src/wolfhound/core.py",), "2026-01-02")
    git(root, "commit", "-qam", "other code")
    (root / "benchmarks/rig.py").write_text("x = 1\ny = 2\n")
    scan = stale_claims.find_ages(root)[1]
    assert scan.flag == "2 files have changed since: benchmarks/rig.py, src/wolfhound/core.py"
    measure(root, "claim_scan", " + changes")
    scan = stale_claims.find_ages(root)[1]
    assert scan.flag.startswith("measured with changes that no commit has, on top of ")
    assert scan.flag.endswith("; 1 file has changed since: benchmarks/rig.py")


def test_a_commit_that_is_not_here_is_told(root: Path) -> None:
    path = root / "benchmarks/results/claim_scan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "commit": "0" * 40}))
    assert stale_claims.find_ages(root)[1].flag == "commit 0000000 is not in this clone"


def shallow(root: Path) -> Path:
    git(root, "commit", "-qm", "more", "--allow-empty")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{root}", f"{root}.shallow"], check=True)
    return root.with_name("tree.shallow")


def bare(root: Path) -> Path:
    folder = root.with_name("plain")
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("make", "said"), [(shallow, "A shallow clone has no"), (bare, "There is no history")]
)
def test_where_there_is_no_history_one_line_says_so(
    root: Path,
    make: Callable[[Path], Path],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    monkeypatch.setattr(sys, "argv", ["stale_claims.py", str(make(root))])
    assert stale_claims.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_all_claims_are_printed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "src/wolfhound/core.py").write_text("x = 1\n")
    monkeypatch.setattr(sys, "argv", ["stale_claims.py", str(root)])
    assert stale_claims.main() == 0
    herd, scan, last = capsys.readouterr().out.splitlines()
    assert herd.endswith("2026-01-02  up to date")
    assert scan.endswith("1 file has changed since: src/wolfhound/core.py")
    assert last == "1 of 2 claims are older than their code."


def test_what_is_most_out_of_date_is_measured_first(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without results, then restated, then by changed lines; and how long it took."""
    (root / "benchmarks/claim_fresh.py").write_text("")
    (root / "src/wolfhound/core.py").write_text("x = 1\n" * 50)
    monkeypatch.setattr(sys, "argv", ["stale_claims.py", "--order", str(root)])

    def order() -> list[str]:
        assert stale_claims.main() == 0
        out, said = capsys.readouterr()
        assert said == "All 2 claims took 3 minutes the last time.\n"
        return [Path(line).stem for line in out.splitlines()]

    assert order() == ["claim_fresh", "claim_scan", "claim_herd"]
    script = root / "benchmarks/claim_herd.py"
    script.write_text(f'"""Claim: other."""\n{script.read_text()}')
    assert order() == ["claim_fresh", "claim_herd", "claim_scan"]
    herd, _ = stale_claims.find_ages(root)
    assert herd.flag.startswith("the claim states something else by now; 1 file has changed since")


def test_the_page_says_what_is_old() -> None:
    result = json.loads((ROOT / "benchmarks/results/claim_scan.json").read_text())
    assert "**Older than its code:** 1 file has changed.\n" in write_claim(result, "1 file has changed")
    assert "Older" not in write_claim(result)
