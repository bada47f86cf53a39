"""Streams that are full, closed or left, and Ctrl-C at the worst moments."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_main import HERE

FULL = "error: standard output cannot be written: No space left on device.\n"
CLOSED = "error: standard output must be open. Got a closed one.\n"
RUN = "explain atoms.npy --target 1"


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Ctrl-C is heard by the children, also where these tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which W is the command; pipes give the first exit code that is not 0."""
    script = f'set -o pipefail; W="{sys.executable} -m wolfhound"; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "", **HERE, **env},
    )


# ---------------------------------------------------------------- stdout and stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--version", "solve --help", RUN, f"{RUN} --json"])
def test_a_full_stdout_is_an_error(folder: Path, command: str) -> None:
    done = shell(f"$W {command} > /dev/full")
    assert (done.returncode, done.stderr) == (2, FULL)


@pytest.mark.slow
def test_a_full_stdout_is_an_error_without_a_buffer(folder: Path) -> None:
    done = shell(f"$W {RUN} > /dev/full", PYTHONUNBUFFERED="1")
    assert done.returncode == 2
    assert done.stderr == "error: [Errno 28] No space left on device: 'standard output'\n"


@pytest.mark.parametrize("command", ["--version", RUN])
def test_a_closed_stdout_is_an_error(folder: Path, command: str) -> None:
    done = shell(f"$W {command} --out w.csv >&-" if command == RUN else f"$W {command} >&-")
    assert (done.returncode, done.stderr) == (2, CLOSED)
    assert not Path("w.csv").exists()


def test_all_streams_may_be_closed(folder: Path) -> None:
    assert shell("$W --version <&- >&- 2>&-").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("end", ["2>/dev/full", "2>&-", "2>&- <&-"])
def test_a_run_goes_on_without_stderr(folder: Path, end: str) -> None:
    done = shell(f"$W {RUN} --json {end}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("{")


@pytest.mark.slow
def test_an_error_that_nobody_can_read_is_one(folder: Path) -> None:
    assert shell("$W explain no.npy --target 1 2>/dev/full").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "-h", "solve --help", "policy solve --help", "--version"])
def test_help_for_one_line_is_no_error(folder: Path, command: str) -> None:
    done = shell(f"$W {command} | head -1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("command", [RUN, f"{RUN} --json"])
def test_results_that_nobody_read_exit_with_141(folder: Path, command: str) -> None:
    done = shell(f"$W {command} | true")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        f"{RUN} --target 2",
        "explain atoms.npy --targets atoms.npy",
        "solve atoms.npy --objective squared-distance --target point.npy",
        "unmix atoms.npy --library atoms.npy",
    ],
)
def test_files_are_written_though_nobody_reads_the_rest(folder: Path, command: str) -> None:
    done = shell(f"$W {command} -o w.csv --plot w.png | true")
    assert done.returncode == 141
    assert "error" not in done.stderr
    assert all(Path(name).stat().st_size > 0 for name in ("w.csv", "w.png"))


@pytest.mark.slow
@pytest.mark.parametrize("made", ["--plot w.png", "--report w.html"])
def test_a_full_disk_is_an_error_that_names_the_file(folder: Path, made: str) -> None:
    """No file may grow beyond a kilobyte, whatever writes it."""
    path = folder.resolve() / made.split()[1]
    path.write_text("old")
    done = shell(f"ulimit -f 1; $W {RUN} {made}")
    assert (done.returncode, done.stderr) == (2, f"error: [Errno 27] File too large: '{path}'\n")
    assert path.read_text() == "old"
    assert [each.name for each in folder.iterdir() if each.name.endswith(".tmp")] == []


# ---------------------------------------------------------------- Ctrl-C

AT_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(name, path=None, target=None):
        if name == os.environ["CTRL_C_AT"]:
            sys.meta_path.remove(Finder)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(10_000):
                    pass
            except KeyboardInterrupt:
                raise ImportError("an import that gives Ctrl-C another name")

sys.meta_path.insert(0, Finder)
"""

AFTER_IMPORTS = """
import os, signal, sys

class Finder:
    left = int(os.environ["CTRL_C_AFTER"])

    def find_spec(name, path=None, target=None):
        Finder.left -= "wolfhound.cli" in sys.modules  # Python and the script have Ctrl-C of their own
        if Finder.left < 0:
            sys.meta_path.remove(Finder)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
"""

IN_A_CALLBACK = """
import ctypes, os, signal, time
from wolfhound import cli
from wolfhound.cli import _app

def back():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10_000):
        pass

def app(prog_name):
    ctypes.CFUNCTYPE(None)(back)()
    time.sleep(60)

_app.app = app
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "numpy", "rich.table", "numba"])
def test_ctrl_c_in_an_import(folder: Path, module: str) -> None:
    first = folder / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text(AT_IMPORT)
    path = f"{first}:{HERE['PYTHONPATH']}"
    done = shell("$W index build atoms.npy -o made --kind int8", PYTHONPATH=path, CTRL_C_AT=module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("count", [*range(12), 15, 20, 30, 50, 80, 130, 210, 340])
def test_ctrl_c_after_any_number_of_imports(folder: Path, count: int) -> None:
    """From the first import of the command on, in whatever loads the next."""
    first = folder / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text(AFTER_IMPORTS)
    path = f"{first}:{HERE['PYTHONPATH']}"
    done = shell(f"$W {RUN}", PYTHONPATH=path, CTRL_C_AFTER=str(count))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_in_a_callback_of_compiled_code() -> None:
    env = {**os.environ, **HERE}
    done = subprocess.run([sys.executable, "-c", IN_A_CALLBACK], capture_output=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


SWITCHED_OFF = """
import os, signal
from wolfhound import cli
from wolfhound.cli import _app

signal.signal(signal.SIGINT, signal.SIG_IGN)
app = lambda prog_name: os.kill(os.getpid(), signal.SIGINT)
_app.app = app
cli.main()
"""


def test_ctrl_c_that_was_switched_off_stays_off() -> None:
    env = {**os.environ, **HERE}
    done = subprocess.run([sys.executable, "-c", SWITCHED_OFF], capture_output=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
