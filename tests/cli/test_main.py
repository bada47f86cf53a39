"""The frame of the command line: help, version, exit codes, errors in one line."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import wolfhound
from tests.cli.conftest import Run, words
from wolfhound.cli import _options
from wolfhound.cli._app import COMMANDS, GROUPS, describe_wrong_use, load_command
from wolfhound.core import threads

# The tests change folders, so a relative PYTHONPATH would not do.
HERE = {"PYTHONPATH": str(Path(wolfhound.__file__).parents[1])}


def shell(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with pipes."""
    command = [sys.executable, "-m", "wolfhound", *arguments]
    return subprocess.run(
        command, capture_output=True, check=False, encoding="utf-8", env={**os.environ, **HERE, **env}
    )


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "demo"]])
def test_version(run: Run, arguments: list[str]) -> None:
    assert run(*arguments) == (0, f"wolfhound {wolfhound.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        ([], "wolfhound explain atoms.npy --target 17 --exclude-self"),
        (["demo"], "wolfhound demo --plot gaps.svg"),
        (["explain"], "wolfhound explain atoms.npy --targets points.npy --out mixtures.csv"),
        (["solve"], "wolfhound solve atoms.npy --objective squared-distance --target point.npy"),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_examples(run: Run, arguments: list[str], example: str, flag: str) -> None:
    ran = run(*arguments, flag)
    assert ran.code == 0
    assert example in words(ran.out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], ("numpy", "numba", "scipy", "matplotlib", "pyarrow", "pandas", "wolfhound.cli.solve")),
        (["--version"], ("numpy", "numba", "scipy", "matplotlib", "pyarrow", "pandas")),
        (["solve", "--help"], ("numba", "scipy", "matplotlib", "pyarrow", "pandas", "wolfhound.cli.herd")),
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str], heavy: tuple[str, ...]) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from wolfhound.cli._app import app;"
        f"assert CliRunner().invoke(app, {arguments}).exit_code == 0;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_the_list_says_what_the_help_of_a_command_does(run: Run, name: str) -> None:
    line = {**COMMANDS, **GROUPS}[name]
    assert load_command(name).help.split("\n\n")[0].replace("\n", " ") == line
    assert words(f"{name} {line}") in words(run("--help").out)
    assert line in words(run(name, "--help").out)


@pytest.mark.parametrize(
    ("said", "shown"),
    [("No such command 'x'.", "No such command 'x'."), ("Did you mean 'y'?", "Did you mean 'y'?")],
)
def test_a_sentence_ends_once(said: str, shown: str) -> None:
    assert describe_wrong_use(SimpleNamespace(format_message=lambda: said, ctx=None)) == shown


def test_an_option_as_others_call_it_gets_a_suggestion(run: Run) -> None:
    ran = run("herd", "rows.csv", "-m", 3, "--random-state", 1)
    assert ran.err.startswith("error: No such option: --random-state. Did you mean --seed? See ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("wolfhound he", ["herd"]),
        ("wolfhound index ", ["build", "info", "check"]),
        ("wolfhound explain --exclude-s", ["--exclude-self"]),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, completed: list[str]) -> None:
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = shell(**asked, _WOLFHOUND_COMPLETE="complete_bash")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(completed) <= set(done.stdout.split())


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    ran = run()
    assert "Commands" in ran.out + ran.err


@pytest.mark.parametrize(
    "arguments", [["fly"], ["explain"], ["solve", "atoms.npy"], ["--threads", "0", "demo"], ["demo", "--fly"]]
)
def test_wrong_use_exits_with_2(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1


def test_an_error_is_one_line_without_a_traceback(run: Run, folder: Path) -> None:
    ran = run("explain", "missing.npy", "--target", "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "missing.npy" in ran.err
    assert ran.err.count("\n") == 1


def test_debug_lets_the_error_through(run: Run, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.npy"):
        run("--debug", "explain", "missing.npy", "--target", "1")


def test_an_error_may_hold_brackets(run: Run, folder: Path) -> None:
    ran = run("explain", "[bold]x[/].npy", "--target", "1")
    assert ran.code == 2
    assert "[bold]x[/].npy" in ran.err


def test_ctrl_c_outside_a_run_exits_with_130(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: str, names: str | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_options, "read_atoms", interrupt)
    assert run("explain", "atoms.npy", "--target", "1").code == 130


def test_threads_are_set(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_threads", None)
    assert run("--threads", "1", "explain", "atoms.npy", "--target", "1").code == 0
    assert threads.get_threads() == 1


@pytest.mark.slow
def test_a_process_prints_json_and_no_escape_codes(folder: Path) -> None:
    done = shell("explain", "atoms.npy", "--targets", "points.npy", "--json")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert len(json.loads(done.stdout)["targets"]) == 3


@pytest.mark.slow
def test_a_terminal_gets_a_bar_and_the_pipe_only_results(folder: Path) -> None:
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "wolfhound", "explain", "atoms.npy", "--target", "3", "--json"]
    env = {**os.environ, **HERE, "TERM": "xterm"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=False, encoding="utf-8", env=env)
    os.close(end)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert done.returncode == 0
    assert [document["target"] for document in json.loads(done.stdout)["targets"]] == ["3"]
    assert b"\x1b[2K" in shown


@pytest.mark.slow
def test_pipes_get_no_escape_codes_and_any_encoding(folder: Path) -> None:
    (folder / "odd.txt").write_text("\n".join(f"naïve {i}" for i in range(60)), encoding="utf-8")
    done = shell("explain", "atoms.npy", "--names", "odd.txt", "--target", "3", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "na?ve 3" in done.stdout
    assert "####" in done.stdout


@pytest.mark.slow
def test_a_process_exits_with_2(folder: Path) -> None:
    done = shell("solve", "atoms.npy", "--objective", "logistic")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: `--design` must be given with --objective logistic.\n"


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m wolfhound explain atoms.npy --targets points.npy | true"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env={**os.environ, **HERE}
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
