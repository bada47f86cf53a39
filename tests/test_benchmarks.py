"""The claims run in tiny mode, and the rig that judges them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import wolfhound

FOLDER = Path(__file__).parents[1] / "benchmarks"
CLAIMS = sorted(path.stem for path in FOLDER.glob("claim_*.py"))
SMALLER = {"claim_out_of_core": ("--bytes", "3e7")}
"""Options by claim: what is tiny there takes a minute."""

MODULES = ("data", "levels", "policy_runs", "problems", "reference", "rig", "runs", "walks", "ways")


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """Scripts find their neighbours in their own folder; so do these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield
        for name in MODULES:
            sys.modules.pop(name, None)


def module(name: str) -> Any:
    return importlib.import_module(name)


def claim(*argv: str) -> Any:
    return module("rig").Claim("claim_test.py", "Claim: this is a test.", list(argv))


# ---------------------------------------------------------------- claims


def test_all_claims_are_here() -> None:
    kinds = "adaptive append clusters designs exponents growth herding import int8 lsh many missing mixtures "
    kinds += (
        "no_stall out_of_core paper_herding paper_tables passes plan policy policy_search policy_tabular "
    )
    kinds += "promise query_cost ratio ray resume scan signs smooth sound turns weights"
    assert [f"claim_{kind}" for kind in kinds.split()] == CLAIMS


def test_every_claim_is_described() -> None:
    page = (FOLDER / "README.md").read_text()
    assert [name for name in CLAIMS if f"| `{name}.py` |" not in page] == []


RESTATED = {
    f"claim_{kind}"
    for kind in (
        "adaptive append designs herding int8 many mixtures paper_herding paper_tables plan policy "
        "policy_search policy_tabular ratio resume smooth sound"
    ).split()
}
"""Claims that state something else since they were measured, as the benchmarks page says of each: what is
measured anew leaves this list, and nothing may join it."""

UNCLEAN = {f"claim_{kind}" for kind in ("plan", "policy_tabular", "ratio")}
"""Claims whose results are of code that no commit has; likewise."""


def test_results_state_what_their_claims_say_and_speak_of_a_commit() -> None:
    results = [json.loads(path.read_text()) for path in sorted((FOLDER / "results").glob("*.json"))]
    said = {name: ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) for name in CLAIMS}
    assert {each["claim"] for each in results if each["statement"] != said[each["claim"]]} <= RESTATED
    assert {each["claim"] for each in results if not module("rig").is_clean(each["commit"])} <= UNCLEAN


def test_a_result_of_uncommitted_code_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = module("rig")
    monkeypatch.setattr(rig, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(rig, "ASIDE", tmp_path / "build" / "results")
    for commit, folder in (("1234567 + changes", rig.ASIDE), ("1234567", rig.RESULTS)):
        monkeypatch.setattr(rig, "commit", lambda commit=commit: commit)
        test = claim()
        test.at_most("small", 1.0, 1.0)
        assert test.finish() == 0
        assert [path.parent for path in tmp_path.rglob("claim_test.json")] == [folder]
        (folder / "claim_test.json").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_tiny_claim_holds(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        str(FOLDER / f"{name}.py"),
        "--tiny",
        "--out",
        str(out),
        *SMALLER.get(name, ()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path != out] == []
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert report["claim"] == name
    assert report["passed"] is True
    assert report["options"]["tiny"] is True
    assert {"machine", "versions", "commit", "date", "statement"} <= set(report)
    assert len(report["rows"]) > 1
    outcomes = {check["outcome"] for check in report["checks"]}
    assert "PASS" in outcomes
    assert outcomes <= {"PASS", "REPORTED"}
    assert done.stdout.splitlines()[-1] == f"PASS {name}"


# ---------------------------------------------------------------- rig


def test_interleaved_rounds_and_medians() -> None:
    order: list[str] = []
    timed = module("rig").interleave({name: lambda n=name: order.append(n) for name in "abc"}, repeats=3)
    assert "".join(order) == "abcabcabc"
    assert module("rig").Timed([3.0, 1.0, 2.0], []).median == 2.0
    assert len(timed["a"].seconds) == 3


def test_a_call_over_its_budget_sits_out() -> None:
    timed = module("rig").interleave({"a": lambda: 7}, repeats=5, budget=0.0)
    assert timed["a"].answers == []
    timed = module("rig").interleave({"a": lambda: 7}, repeats=5, budget=1e-12)
    assert timed["a"].answers == [7]


@pytest.mark.parametrize(
    ("argv", "outcomes", "code"),
    [((), ["PASS", "FAIL", "FAIL"], 1), (("--tiny",), ["PASS", "REPORTED", "FAIL"], 1)],
)
def test_a_failed_check_fails_the_claim(
    argv: tuple[str, ...], outcomes: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = claim(*argv, "--out", str(tmp_path / "x.json"))
    test.at_most("small", 1.0, 1.0)
    test.at_least("fast", 9.0, 10.0, full_size=True)
    test.holds("true", False)
    assert [check.outcome for check in test.checks] == outcomes
    assert test.finish() == code
    assert capsys.readouterr().out.splitlines()[-1] == "FAIL claim_test"


def test_tiny_runs_judge_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    test = claim("--tiny")
    test.at_least("fast", 9.0, 10.0, full_size=True)
    assert test.finish() == 0
    assert "REPORTED fast: 9 >= 10" in capsys.readouterr().out


def test_nothing_measured_is_no_pass() -> None:
    assert claim("--tiny").finish() == 1


def test_nan_never_passes() -> None:
    test = claim()
    test.at_most("nan", float("nan"), 1.0)
    test.at_least("nan", float("nan"), 1.0)
    assert [check.outcome for check in test.checks] == ["FAIL", "FAIL"]


def test_report_is_plain_json(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "x.json"
    test = claim("--out", str(out), "--repeats", "2", "--threads", "2")
    test.row(a=np.float64(0.5), b=np.int64(3), c=float("inf"), d="word", e=np.True_)
    test.at_most("limit", 0.5, 1.0)
    assert test.finish() == 0
    report = json.loads(out.read_text())
    assert report["rows"] == [{"a": 0.5, "b": 3, "c": None, "d": "word", "e": True}]
    assert report["checks"] == [{"name": "limit", "measured": 0.5, "threshold": "<= 1", "outcome": "PASS"}]
    assert (report["options"]["repeats"], report["options"]["threads"]) == (2, 2)
    assert report["machine"]["cores"] >= 1
    assert [path.name for path in out.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("argv", "name"), [((), "claim_test.json"), (("--tiny",), None), (("--only", "B"), None)]
)
def test_only_a_full_run_writes_the_result(argv: tuple[str, ...], name: str | None) -> None:
    out = claim(*argv).options.out
    assert (None if out is None else out.name) == name


def test_only_selects_problems() -> None:
    test = claim("--only", "glove100 B")
    assert test.wants("glove100 B")
    assert not test.wants("glove100 A")


@pytest.mark.parametrize("argv", [("--repeats", "0"), ("--threads", "0"), ("--nonsense",)])
def test_wrong_options_are_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        claim(*argv)


# ---------------------------------------------------------------- indexes at one level


def test_runs_inside_the_hull_have_targets_of_their_own() -> None:
    atoms = np.random.default_rng(0).standard_normal((2000, 3)).astype(np.float32)
    targets = [module("problems").inside("A", atoms, seed=seed).loss.target for seed in range(4)]
    away = np.linalg.norm(targets - atoms.mean(0), axis=1)
    np.testing.assert_allclose(away, np.sqrt(2.0 / np.pi), rtol=0.1)  # half a normal distribution
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(targets, 2)) > 0.1


def ladder(*ratios: float) -> list[Any]:
    """Settings that find a share of the gap from 0 to 1."""
    make = module("levels").Setting
    costs: dict[str, Any] = {"parameters": "", "scored": None, "build_seconds": 0.0, "nbytes": 0}
    return [make(scores=lambda queries, r=r: np.full(len(queries), r), **costs) for r in ratios]


def test_all_are_compared_at_the_ratio_of_the_rival_or_above() -> None:
    levels = module("levels")
    walk = module("walks").Walk(np.ones((5, 2)), np.zeros(5), np.ones(5))
    rival, ours, poor = ladder(0.5, 0.91), ladder(0.8, 0.92, 0.96), ladder(0.3, 0.6)
    swept = {
        "rival": [levels.Tried(rival, 0, 0.6, 1.0), levels.Tried(rival, 1, 0.9, 2.0)],
        # Lucky where parameters are chosen: 0.8 is what it has elsewhere.
        "ours": [levels.Tried(ours, 0, 0.93, 1.0), levels.Tried(ours, 1, 0.95, 3.0)],
        "poor": [levels.Tried(poor, 0, 0.3, 0.1), levels.Tried(poor, 1, 0.95, 0.2)],
    }
    chosen = levels.level(swept, "rival", walk, 0.9)
    assert chosen == {"rival": rival[1], "ours": ours[1], "poor": None}


def test_of_settings_as_fast_the_closest_ratio_counts() -> None:
    levels, steps = module("levels"), ladder(0.9, 0.93, 0.99)
    known = ((0, 0.9, 1.05), (1, 0.93, 1.0), (2, 0.99, 2.0))
    tried = [levels.Tried(steps, *each) for each in known]
    assert levels.fastest(tried, 0.9).rung == 0
    assert levels.fastest(tried, 0.92).rung == 1
    assert levels.fastest(tried, 0.995) is None


# ---------------------------------------------------------------- what pays


@pytest.mark.parametrize(
    ("mine", "others", "least"),
    [
        ((2.0, 0.1), [(0.0, 1.0), (0.25, 0.5)], 5.0),
        ((2.0, 0.5), [(0.0, 1.0)], 5.0),  # at 4 both take as long
        ((0.0, 0.5), [(0.25, 1.0)], 1.0),
        ((2.0, 1.0), [(0.0, 1.0)], math.inf),
        ((2.0, 0.5), [(0.0, 1.0), (0.0, 0.25)], math.inf),
        ((2.0, math.inf), [(0.0, 1.0)], math.inf),
    ],
)
def test_a_build_pays_from_the_first_use_that_is_ahead(
    mine: tuple[float, float], others: list[tuple[float, float]], least: float
) -> None:
    assert module("ways").pays_from(mine, others) == least


def test_interior_targets_are_the_same_for_nested_atoms_and_inside_all_hulls() -> None:
    ways, atoms = module("ways"), module("data").gaussian(12_000, 4)
    small, large = (ways.interior_tasks(atoms[:n], 3, name="") for n in (10_000, 12_000))
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(a.problem.loss.target, b.problem.loss.target)
        assert a.problem.scale == b.problem.scale
    assert len({task.problem.loss.target.tobytes() for task in small}) == 3


def test_copies_answer_with_their_best_or_by_a_vote() -> None:
    copies, atoms = module("copies"), np.eye(5)
    query = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    few = [wolfhound.RandomSubset(atoms, size=1, seed=seed) for seed in range(4)]
    best = copies.Copies(few).query(query)
    assert (int(best.scored[0]), float(best.scores[0, 0])) == (4, 1.0 + best.ids[0, 0])
    rng = np.random.default_rng(0)
    assert {copies.vote(np.array([7] * 40 + [3]), rng) for _ in range(20)} == {7}
    assert {copies.vote(np.array([7, 3, 5]), rng) for _ in range(50)} == {3, 5, 7}


def test_fnnls_finds_what_scipy_finds() -> None:
    rng = np.random.default_rng(0)
    design, side = rng.standard_normal((20, 8)) + 0.5, rng.standard_normal(20)
    x = np.empty(8)
    module("fnnls").fnnls(design.T @ design, design.T @ side, x, 1e-12)
    np.testing.assert_allclose(x, nnls(design, side)[0], atol=1e-10)


def test_word_problems_lead_to_distributions() -> None:
    words = module("data").gaussian(300, 5)
    acmdp = module("policy_runs").word_problem(words, 6, 1.0)
    chances = acmdp.transition.matrix(np.repeat(words[:1], 6, axis=0))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert chances.min() >= 0.0


# ---------------------------------------------------------------- tables of the documentation


def doc_tables() -> Any:
    spec = importlib.util.spec_from_file_location("doc_tables", FOLDER.parent / "tools" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables


def test_every_marked_table_is_known_and_every_known_one_marked() -> None:
    texts = [page.read_text() for page in sorted((FOLDER.parent / "docs").glob("*.md"))]
    tables = doc_tables()
    marked = {match[2] for text in texts for match in tables.REGION.finditer(text)}
    assert marked == set(tables.TABLES)
    assert sum(text.count("<!-- table:") for text in texts) == sum(
        len(tables.REGION.findall(text)) for text in texts
    )


def test_tables_of_the_documentation_are_those_of_the_results() -> None:
    assert doc_tables().main(["--check"]) == 0


def test_cells_of_tables_are_rounded() -> None:
    tables = doc_tables()
    shown = [tables.show(cell) for cell in (1234567, 1234.5, 83.5, 0.0123456, 0.00012345, 0.0, None, "never")]
    assert shown == ["1,234,567", "1,234", "83.5", "0.0123", "1.2e-04", "0", "-", "never"]
    assert tables.draw(["a", "b"], [[1, None]]) == "| a | b |\n| --- | --- |\n| 1 | - |"


PROMISED = ("verdict", "sets", "rivals", "shares", "growth", "theorem")


def test_the_verdict_is_the_median_over_sets_of_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, ratios = doc_tables(), (1.0, 3.0, None)
    row = {"table": "verdict", "kind": "interior", "eps": 1e-3, "way": "Alg. 2, random 1,000"}
    keys = ("iterations_over_exact", "atoms_over_exact", "seconds_over_exact")
    rows = [row | dict.fromkeys(keys, ratio) for ratio in ratios]
    monkeypatch.setattr(tables, "read_rows", lambda claim, **cells: rows * (cells.get("kind") == "interior"))
    head, _, line = tables.verdict().splitlines()[-3:]
    cells = dict(zip(head.split(" | "), line.split(" | "), strict=True))
    assert (cells["| targets"], cells["eps"], cells["random 1,000"]) == ("| interior", "0.001", "3, 3, 3")
    assert cells["index alone"] == "-, -, -"
    monkeypatch.setattr(tables, "read_rows", lambda claim, **cells: [])
    assert {tables.TABLES[f"promise-{name}"]() for name in PROMISED} == {tables.MISSING}


def test_what_never_pays_says_so() -> None:
    pays = doc_tables().pays
    assert pays({"k": None}, "k", "Alg. 2, LshIndex") == "never"
    assert pays({"k": 4.0}, "k", "Alg. 2, LshIndex") == 4
    assert pays({"k": None}, "k", "Alg. 1, Int8Scan") is None


# ---------------------------------------------------------------- data and reference


def test_synthetic_atoms_are_centred_and_repeatable() -> None:
    data = module("data")
    for make in (data.gaussian, data.mixture):
        x = make(500, 7)
        assert x.shape == (500, 7)
        assert x.dtype == np.float32
        np.testing.assert_allclose(x.mean(0, dtype=np.float64), 0.0, atol=1e-6)
        np.testing.assert_array_equal(x, make(500, 7))


def test_sets_that_nothing_was_tuned_to_are_what_their_names_say() -> None:
    data = module("data")
    for make in (data.topics, data.recommender, data.tails, data.one_hot):
        x = make(600, 24)
        assert (x.shape, x.dtype) == ((600, 24), np.float32)
        np.testing.assert_array_equal(x, make(600, 24))
    for make in (data.topics, data.recommender):
        np.testing.assert_allclose(np.linalg.norm(make(600, 24), axis=1), 1.0, rtol=1e-5)
    lengths = np.linalg.norm(data.tails(600, 24), axis=1)
    assert lengths.max() > 3.0 * np.median(lengths)
    table = data.one_hot(600, 24)
    assert [len(np.unique(column)) for column in table[:, :16].T] == [2] * 16


def test_real_atoms_are_scaled_and_shuffled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WOLFHOUND_DATA", str(tmp_path))
    raw = (5.0 + np.arange(60).reshape(20, 3)).astype(np.float32)
    np.save(tmp_path / "glove100.npy", raw)
    x = module("data").atoms("glove100")
    assert np.square(x).sum(1).mean() == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(x.mean(0), 0.0, atol=1e-6)
    assert not np.array_equal(np.argsort(x[:, 0]), np.arange(20))


def test_a_missing_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WOLFHOUND_DATA", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="glove100 is built with npm, not found"):
        module("data").load("glove100")
    with pytest.raises(
        ValueError, match="`name` must be one of glove100, fashion_mnist, flights, glosses, spectra"
    ):
        module("data").load("mnist")
    assert list(tmp_path.iterdir()) == []


def test_the_reference_proves_a_projection_on_the_simplex() -> None:
    reference = module("reference")
    loss = reference.Distance(np.array([1.0, 0.2, 0.0]))
    proof = reference.prove(loss, np.eye(3), np.array([0, 1]), np.array([0.9, 0.1]))
    assert proof.value == pytest.approx(0.01)
    assert proof.gap == pytest.approx(0.0, abs=1e-15)
    assert proof.lower == pytest.approx(0.01)
    assert proof.feasible


def test_the_reference_refuses_weights_off_the_simplex() -> None:
    reference = module("reference")
    loss = reference.Distance(np.zeros(2))
    assert not reference.prove(loss, np.eye(2), np.array([0, 1]), np.array([0.6, 0.5])).feasible
    assert not reference.prove(loss, np.eye(2), np.array([0, 1]), np.array([1.1, -0.1])).feasible


def losses() -> list[tuple[str, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    design, response = rng.standard_normal((12, 4)), rng.standard_normal(12)
    return [
        ("Distance", (rng.standard_normal(4),)),
        ("Squares", (design, response)),
        ("LogLoss", (design, np.sign(response))),
        ("HuberLoss", (design, response, 0.7)),
        ("NegativeLogLikelihood", ()),
    ]


@pytest.mark.parametrize(("name", "data"), losses(), ids=[name for name, _ in losses()])
def test_reference_gradients_are_finite_differences(name: str, data: tuple[Any, ...]) -> None:
    loss = getattr(module("reference"), name)(*data)
    x = np.array([0.3, 0.8, 0.5, 0.6])
    steps = 1e-6 * np.eye(4)
    slopes = [(loss.value(x + step) - loss.value(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(loss.grad(x), slopes, rtol=1e-6, atol=1e-8)
    assert loss.floor <= loss.value(x)


def test_the_excess_of_least_squares_is_twice_the_way_to_its_minimum() -> None:
    rng = np.random.default_rng(1)
    design, response, x = rng.standard_normal((9, 3)), rng.standard_normal(9), rng.standard_normal(3)
    loss = module("reference").Squares(design, response)
    best = loss.value(np.linalg.lstsq(design, response)[0])
    assert loss.floor == pytest.approx(best)
    assert loss.excess(x) == pytest.approx(2.0 * (loss.value(x) - best))
