"""Wrong uses of the Python API, herding and policies aside: what is called, what the error must name.

Every call must raise ValueError or TypeError, with one line that holds the words.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse

import wolfhound
import wolfhound.data.shipped
import wolfhound.objectives.likelihood
import wolfhound.oracles.indexes
import wolfhound.paper.adaptive
import wolfhound.paper.theory
import wolfhound.paper.transforms
import wolfhound.solve.driver

# Without their types: wrong calls are the point.
wh: Any = wolfhound
likelihood: Any = wolfhound.objectives.likelihood
adaptive: Any = wolfhound.paper.adaptive
transforms: Any = wolfhound.paper.transforms
speeds: Any = wolfhound.oracles.indexes.Speeds
limits: Any = wolfhound.solve.driver.Limits
theory: Any = wolfhound.paper.theory
words: Any = wolfhound.data.shipped.words


class Wrong(NamedTuple):
    """A wrong call, and the words of its error."""

    name: str
    call: Callable[[], object]
    words: tuple[str, ...]


ROWS = np.random.default_rng(0).standard_normal((40, 3))
F = wh.SquaredDistance([1.0, 2.0, 3.0])
MASKED = np.ma.masked_invalid([1.0, math.nan, math.nan])
RAGGED = [[1.0, 2.0], [3.0]]
SCAN = wh.Scan(ROWS)


def _solve(**options: Any) -> Callable[[], object]:
    return lambda: wh.minimize(F, ROWS, **options)


def _of(objective: Any) -> Callable[[], object]:
    return lambda: wh.minimize(objective, ROWS)


def _over(atoms: Any) -> Callable[[], object]:
    return lambda: wh.minimize(F, atoms)


# ---------------------------------------------------------------- minimize

OBJECTIVES: dict[str, Any] = {
    "None": None,
    "class": wh.SquaredDistance,
    "array": np.ones(3),
    "function": lambda x: (x @ x, 2.0 * x),
    "string": "squared-distance",
    "oracle": SCAN,
    "method": wh.FullyCorrective(),
}
METHODS: dict[str, Any] = {
    "class": wh.FrankWolfe,
    "string": "frank-wolfe",
    "int": 5,
    "direction": wh.Away(),
    "step": wh.LineSearch(),
    "objective": F,
}
OPTIONS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("start", 5, ("`start`", "Result", "(ids, weights)", "5")),
    ("start", ROWS, ("`start`", "an array of float64")),
    ("start", "last", ("`start`", "'last'")),
    ("start", ([0],), ("`start`", "(ids, weights)")),
    ("start", ([0], [0.5], [0.5]), ("`start`", "(ids, weights)")),
    ("start", {"ids": [0], "weights": [1.0]}, ("`start`", "Result")),
    ("start", (["a"], [1.0]), ("`start ids`", "integer ids")),
    ("start", ([0], ["a"]), ("`start weights`", "real numbers")),
    ("start", ([0.0], [1.0]), ("`start ids`", "integer ids")),
    ("start", ([0, 1, 2], MASKED), ("`start weights`", "2 of 3 masked")),
    ("callback", 5, ("`callback`", "function", "5")),
    ("callback", "stop", ("`callback`", "function", "'stop'")),
    ("names", 5, ("`names`", "40 strings", "5")),
    ("names", {"a", "b"}, ("`names`", "40 strings")),
    ("names", "x" * 40, ("`names`", "40 strings")),
    ("names", dict.fromkeys(range(40), "a"), ("`names`", "40 strings")),
    ("names", (str(i) for i in range(40)), ("`names`", "40 strings", "generator")),
    ("names", ["a"] * 39, ("`names`", "40 strings", "39")),
    ("max_memory", 0, ("`max_memory`", "> 0")),
    ("max_memory", "lots", ("`max_memory`", "1.5GB", "'lots'")),
    ("max_memory", 5, ("`max_memory`", "at least", "bytes", "5")),
    ("max_memory", [1], ("`max_memory`", "[1]")),
    ("max_seconds", "5", ("`max_seconds`", "a number >= 0", "'5'")),
    ("max_seconds", datetime.timedelta(seconds=5), ("`max_seconds`", "timedelta")),
    ("max_seconds", -1, ("`max_seconds`", ">= 0", "-1")),
    ("max_steps", None, ("`max_steps`", "None")),
    ("max_passes", [3], ("`max_passes`", "[3]")),
    ("max_passes", math.nan, ("`max_passes`", "nan")),
    ("rtol", "1e-6", ("`rtol`", "'1e-6'")),
    ("rtol", True, ("`rtol`", "True")),
    ("rtol", 1j, ("`rtol`", "1j")),
    ("rtol", -1e-6, ("`rtol`", "-1e-06")),
    ("atol", np.array([1e-6]), ("`atol`", "shape (1,)")),
    ("atol", wh.Scan, ("`atol`", "the class Scan")),
    ("exclude", "a", ("`exclude`", "integer ids")),
    ("exclude", 5, ("`exclude`", "integer ids", "5")),
    ("exclude", {5}, ("`exclude`", "integer ids", "{5}")),
    ("exclude", [0.5], ("`exclude`", "float64")),
    ("exclude", np.zeros(40, bool), ("`exclude`", "bool")),
    ("exclude", [[1, 2], [3]], ("`exclude`", "unequal length")),
    ("exclude", [40], ("`exclude`", "[0, 40)")),
    ("exclude", [1, 1], ("`exclude`", "distinct")),
    ("exclude", np.arange(40), ("`exclude`", "fewer than all")),
    ("exclude", np.ma.masked_equal([1, 2], 2), ("`exclude`", "1 of 2 masked")),
    ("checkpoint", 5, ("`checkpoint`", "a path", "5")),
    ("checkpoint", b"run", ("`checkpoint`", "a path")),
    ("checkpoint", "", ("`checkpoint`", "a path")),
    ("checkpoint", "/", ("`checkpoint`", "a file", "a folder")),
    ("seed", None, ("`seed`", "integer", "None")),
    ("seed", 0.5, ("`seed`", "integer", "0.5")),
    ("seed", "a", ("`seed`", "integer", "'a'")),
    ("seed", -1, ("`seed`", "integer", "-1")),
    ("seed", np.random, ("`seed`", "integer")),
]
ATOMS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("None", None, ("`atoms`", "None")),
    ("int", 5, ("`atoms`", "shape ()")),
    ("class", wh.Scan, ("`atoms`", "the class Scan")),
    ("function", len, ("`atoms`", "real numbers")),
    ("vector", ROWS[0], ("`atoms`", "2 axes", "(3,)")),
    ("cube", ROWS[None], ("`atoms`", "2 axes", "(1, 40, 3)")),
    ("empty", np.zeros((0, 3)), ("`atoms`", "at least one row", "(0, 3)")),
    ("narrow", ROWS[:, :2], ("`atoms`", "rows of 3 entries", "2")),
    ("ragged", RAGGED, ("`atoms`", "unequal length")),
    ("words", [["a", "b"]], ("`atoms`", "<U1")),
    ("complex", ROWS + 1j, ("`atoms`", "complex128")),
    ("objects", ROWS.astype(object), ("`atoms`", "object")),
    ("dates", np.zeros((2, 3), "M8[D]"), ("`atoms`", "datetime64")),
    ("masked", np.ma.masked_less(ROWS, -1.0), ("`atoms`", "masked", "of 120")),
    ("sparse", scipy.sparse.csr_array(ROWS), ("`atoms`", "dense", "csr_array")),
    (
        "frame of names",
        pd.DataFrame({"a": ["x", "y"]}),
        ("`atoms`", "columns that can count", "no text comes twice"),
    ),
    (
        "frame of holes",
        pd.DataFrame({"a": [math.nan], "b": 1.0}),
        ("`atoms`", "no missing value", "a (1 missing)"),
    ),
    ("nan", np.where(ROWS > 2.0, math.nan, ROWS), ("`atoms`", "finite", "nan")),
    ("dict", {"a": [1.0]}, ("`atoms`", "{'a': [1.0]}")),
    ("set", {1.0, 2.0}, ("`atoms`", "real numbers")),
    ("no list", [], ("`atoms`",)),
]


def _minimize() -> Iterator[Wrong]:
    for name, value in OBJECTIVES.items():
        yield Wrong(f"minimize(objective={name})", _of(value), ("`objective`", "SquaredDistance(target)"))
    for name, value in METHODS.items():
        yield Wrong(f"minimize(method={name})", _solve(method=value), ("`method`", "FullyCorrective()"))
    for i, (name, value, words) in enumerate(OPTIONS):
        yield Wrong(f"minimize({name}=) {i}", _solve(**{name: value}), words)
    for name, value, words in ATOMS:
        yield Wrong(f"minimize(atoms={name})", _over(value), words)


# ---------------------------------------------------------------- objectives, methods

X = np.eye(3)
PARTS: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
    ("SquaredDistance('a')", lambda: wh.SquaredDistance("a"), ("`target`", "real numbers", "'a'")),
    ("SquaredDistance(None)", lambda: wh.SquaredDistance(None), ("`target`", "None")),
    ("SquaredDistance(5)", lambda: wh.SquaredDistance(5), ("`target`", "1 axes", "()")),
    ("SquaredDistance([])", lambda: wh.SquaredDistance([]), ("`target`", "non-empty")),
    ("SquaredDistance(matrix)", lambda: wh.SquaredDistance(X), ("`target`", "(3, 3)")),
    ("SquaredDistance(nan)", lambda: wh.SquaredDistance([math.nan]), ("`target`", "finite", "index 0")),
    ("SquaredDistance(masked)", lambda: wh.SquaredDistance(MASKED), ("`target`", "2 of 3 masked")),
    ("SquaredDistance(ragged)", lambda: wh.SquaredDistance(RAGGED), ("`target`", "unequal")),
    ("LeastSquares(1-d)", lambda: wh.LeastSquares([1.0], [1.0]), ("`design`", "2 axes", "(1,)")),
    ("LeastSquares(short)", lambda: wh.LeastSquares(X, [1.0]), ("`response`", "length 3", "1")),
    ("LeastSquares(words)", lambda: wh.LeastSquares([["a"]], [1.0]), ("`design`", "<U1")),
    ("LeastSquares(mask)", lambda: wh.LeastSquares(np.ma.masked_equal(X, 0.0), X[0]), ("`design`", "6 of 9")),
    ("LeastSquares(response)", lambda: wh.LeastSquares(X, MASKED), ("`response`", "2 of 3 masked")),
    ("LeastSquares(empty)", lambda: wh.LeastSquares(np.zeros((0, 3)), []), ("`design`", "non-empty")),
    ("Logistic(labels)", lambda: wh.Logistic(X, [0, 1, 2]), ("`labels`", "-1 and +1", "2")),
    ("Logistic(words)", lambda: wh.Logistic(X, ["yes", "no", "no"]), ("`labels`", "real numbers")),
    ("Logistic(short)", lambda: wh.Logistic(X, [0, 1]), ("`labels`", "length 3", "2")),
    ("Huber(delta=0)", lambda: wh.Huber(X, [1.0] * 3, delta=0), ("`delta`", "> 0", "0")),
    ("Huber(delta=inf)", lambda: wh.Huber(X, [1.0] * 3, delta=math.inf), ("`delta`", "inf")),
    ("Huber(delta='a')", lambda: wh.Huber(X, [1.0] * 3, delta="a"), ("`delta`", "'a'")),
    ("Custom(5)", lambda: wh.Custom(5, convex=True), ("`value_and_grad`", "function", "5")),
    ("Custom(convex=1)", lambda: wh.Custom(len, convex=1), ("`convex`", "True or False", "1")),
    ("Custom(floor='a')", lambda: wh.Custom(len, convex=True, floor="a"), ("`floor`", "'a'")),
    ("Custom value", _of(wh.Custom(lambda x: (x, x), convex=True)), ("`value`",)),
    ("Custom answer", _of(wh.Custom(lambda x: 1.0, convex=True)), ("`value_and_grad`", "(value, gradient)")),
    ("Custom gradient", _of(wh.Custom(lambda x: (1.0, x[:2]), convex=True)), ("`gradient`", "(3,)", "(2,)")),
    ("likelihood_atoms(1-d)", lambda: likelihood.likelihood_atoms(X[0]), ("`log_likelihoods`", "2 axes")),
    ("likelihood_atoms('a')", lambda: likelihood.likelihood_atoms([["a"]]), ("`log_likelihoods`", "<U1")),
    ("FrankWolfe(5)", lambda: wh.FrankWolfe(5), ("`direction`", "Away()", "5")),
    ("FrankWolfe(class)", lambda: wh.FrankWolfe(wh.Away), ("`direction`", "the class Away")),
    ("FrankWolfe('away')", lambda: wh.FrankWolfe("away"), ("`direction`", "'away'")),
    ("FrankWolfe(step=0.1)", lambda: wh.FrankWolfe(step=0.1), ("`step`", "LineSearch()", "0.1")),
    ("FrankWolfe(step=class)", lambda: wh.FrankWolfe(step=wh.OpenLoop), ("`step`", "the class OpenLoop")),
    ("FrankWolfe(step=function)", lambda: wh.FrankWolfe(step=len), ("`step`", "LineSearch()")),
    ("FrankWolfe(lazy='no')", lambda: wh.FrankWolfe(lazy="no"), ("`lazy`", "True or False", "'no'")),
    ("FrankWolfe(patience=0)", lambda: wh.FrankWolfe(patience=0), ("`patience`", ">= 1", "0")),
    ("FrankWolfe(patience=1.5)", lambda: wh.FrankWolfe(patience=1.5), ("`patience`", "integer", "1.5")),
    ("FullyCorrective(pool='a')", lambda: wh.FullyCorrective(pool="a"), ("`pool`", "integer", "'a'")),
    ("FullyCorrective(effort='a')", lambda: wh.FullyCorrective(effort="a"), ("`effort`", "'a'")),
    ("Sublinear(ratio='a')", lambda: wh.SublinearFrankWolfe(ratio="a"), ("`ratio`", "in (0, 1]", "'a'")),
    ("Sublinear(ratio=2)", lambda: wh.SublinearFrankWolfe(ratio=2), ("`ratio`", "in (0, 1]", "2")),
    ("Sublinear(tau=class)", lambda: wh.SublinearFrankWolfe(tau=wh.Halving), ("`tau`", "the class Halving")),
    ("Sublinear(schedule=5)", lambda: wh.SublinearFrankWolfe(schedule=5), ("`schedule`", "5")),
    ("Sublinear(exact=5)", lambda: wh.SublinearFrankWolfe(exact=5), ("`exact`", "oracle", "5")),
    ("Sublinear(exact=array)", lambda: wh.SublinearFrankWolfe(exact=ROWS), ("`exact`", "Scan(atoms)")),
    ("Sublinear(diameter='a')", lambda: wh.SublinearFrankWolfe(diameter="a"), ("`diameter`", "'a'")),
    ("Sublinear(confirm=0)", lambda: wh.SublinearFrankWolfe(confirm=0), ("`confirm`", "True or False")),
    ("Halving('a')", lambda: wh.Halving("a"), ("`first`", "'a'")),
    ("OpenLoop('a')", lambda: wh.OpenLoop("a"), ("`ell`", "'a'")),
    ("Clipped('a')", lambda: wh.Clipped("a"), ("`ratio`", "(0, 1]", "'a'")),
    ("Clipped(None)", lambda: wh.Clipped(None), ("`ratio`", "None")),
    ("ShortStep('a')", lambda: wh.ShortStep("a"), ("`smoothness`", "'a'")),
    ("ShortStep(0)", lambda: wh.ShortStep(0), ("`smoothness`", "> 0")),
    ("Adaptive(shrink='a')", lambda: wh.Adaptive(shrink="a"), ("`shrink`", "'a'")),
    ("Adaptive(grow='a')", lambda: wh.Adaptive(grow="a"), ("`grow`", "'a'")),
    ("LineSearch('a')", lambda: wh.LineSearch("a"), ("`rtol`", "'a'")),
]

# ---------------------------------------------------------------- oracles

ORACLES: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
    ("Scan(None)", lambda: wh.Scan(None), ("`atoms`", "None")),
    ("Scan(screen='no')", lambda: wh.Scan(ROWS, screen="no"), ("`screen`", "True or False")),
    ("Tiered(5)", lambda: wh.Tiered(5), ("`index`", "an oracle such as Scan(atoms)", "5")),
    ("Tiered(array)", lambda: wh.Tiered(ROWS), ("`index`", "oracle", "shape (40, 3)")),
    ("Tiered(class)", lambda: wh.Tiered(wh.Scan), ("`index`", "the class Scan")),
    ("Tiered(frame)", lambda: wh.Tiered(pd.DataFrame({"atoms": [1.0]})), ("`index`", "oracle")),
    ("Tiered(exact=array)", lambda: wh.Tiered(SCAN, ROWS), ("`exact`", "oracle")),
    ("Tiered(cache='a')", lambda: wh.Tiered(SCAN, cache="a"), ("`cache`", "'a'")),
    ("Tiered(other atoms)", lambda: wh.Tiered(SCAN, wh.Scan(X)), ("`exact`", "same atoms", "40 x 3")),
    ("Audited(5)", lambda: wh.Audited(5), ("`oracle`", "an oracle such as Scan(atoms)", "5")),
    ("Audited(exact=5)", lambda: wh.Audited(SCAN, 5), ("`exact`", "oracle", "5")),
    ("Audited(every=0)", lambda: wh.Audited(SCAN, every=0), ("`every`", ">= 1", "0")),
    ("QuantizedQueries(5)", lambda: wh.QuantizedQueries(5, side=0.1), ("`oracle`", "oracle", "5")),
    ("QuantizedQueries(side)", lambda: wh.QuantizedQueries(SCAN, side="a"), ("`side`", "'a'")),
    (
        "QuantizedQueries(radius)",
        lambda: wh.QuantizedQueries(SCAN, side=0.1, radius="a"),
        ("`radius`", "'a'"),
    ),
    ("Projected(5)", lambda: wh.Projected(5, len), ("`index`", "oracle", "5")),
    ("Projected(phi=5)", lambda: wh.Projected(SCAN, 5, ROWS), ("`phi`", "function", "5")),
    ("Projected(thresholds=5)", lambda: wh.Projected(SCAN, len, ROWS, thresholds=5), ("`thresholds`", "5")),
    ("Projected(no atoms)", lambda: wh.Projected(SCAN, lambda q: q), ("`atoms`", "MappedAtoms")),
    ("RandomSubset(size='a')", lambda: wh.RandomSubset(ROWS, size="a"), ("`size`", "'a'")),
    ("RandomSubset(seed='a')", lambda: wh.RandomSubset(ROWS, seed="a"), ("`seed`", "'a'")),
    ("LshIndex(family=5)", lambda: wh.LshIndex.build(ROWS, family=5), ("`family`", "SimHash()", "5")),
    ("LshIndex(family=class)", lambda: wh.LshIndex.build(ROWS, family=wh.SimHash), ("`family`", "class")),
    ("LshIndex(ratio='a')", lambda: wh.LshIndex.build(ROWS, ratio="a"), ("`ratio`", "in (0, 1]", "'a'")),
    ("LshIndex(delta=None)", lambda: wh.LshIndex.build(ROWS, delta=None), ("`delta`", "None")),
    ("LshIndex(tau='a')", lambda: wh.LshIndex.build(ROWS, tau="a"), ("`tau`", "'a'")),
    ("LshIndex(tau=class)", lambda: wh.LshIndex.build(ROWS, tau=wh.Ladder), ("`tau`", "the class Ladder")),
    ("LshIndex(tables=1.5)", lambda: wh.LshIndex.build(ROWS, tables=1.5), ("`tables`", "1.5")),
    ("LshIndex(proof='no')", lambda: wh.LshIndex.build(ROWS, proof="no"), ("`proof`", "True or False")),
    ("LshIndex(seed=None)", lambda: wh.LshIndex.build(ROWS, seed=None), ("`seed`", "None")),
    ("LshIndex.tune('a')", lambda: wh.LshIndex.build(ROWS).tune(ROWS, "a"), ("`ratio`", "'a'")),
    ("LshIndex.tune(queries)", lambda: wh.LshIndex.build(ROWS).tune("a", 0.9), ("`queries`", "'a'")),
    ("Ladder(low='a')", lambda: wh.Ladder(zeta=0.1, low="a"), ("`low`", "'a'")),
    ("Ladder(zeta='a')", lambda: wh.Ladder(zeta="a"), ("`zeta`", "'a'")),
    ("ClusterIndex(clusters)", lambda: wh.ClusterIndex.build(ROWS, clusters="a"), ("`clusters`", "'a'")),
    ("ClusterIndex(budget=0)", lambda: wh.ClusterIndex.build(ROWS, budget=0), ("`budget`", ">= 1")),
    ("ClusterIndex(proof=1)", lambda: wh.ClusterIndex.build(ROWS, proof=1), ("`proof`", "True or False")),
    (
        "ClusterIndex(masked)",
        lambda: wh.ClusterIndex.build(np.ma.masked_less(ROWS, 0)),
        ("`atoms`", "masked"),
    ),
    ("Int8FileScan(None)", lambda: wh.Int8FileScan.build(None), ("`atoms`", "None")),
    ("Int8FileScan(path=5)", lambda: wh.Int8FileScan.build(ROWS, 5), ("`path`", "a path", "5")),
    ("Scan(max_memory=)", lambda: wh.Scan(ROWS, max_memory="2 cows"), ("`max_memory`", "'2 cows'")),
    ("read_atoms([])", lambda: wh.read_atoms([]), ("`path`", "at least one file")),
    ("Int8Scan(None)", lambda: wh.Int8Scan.build(None), ("`atoms`", "None")),
    ("Int8Scan(ragged)", lambda: wh.Int8Scan.build(RAGGED), ("`atoms`", "unequal length")),
    ("FaissIndex(5)", lambda: wh.FaissIndex(5, ROWS), ("`index`", "faiss.Index", "int")),
    ("append('a')", lambda: wh.Int8Scan.build(ROWS).append("a"), ("a",)),
    (
        "append(narrow)",
        lambda: wh.ClusterIndex.build(ROWS).append(X[:, :2]),
        ("`rows`", "3 entries", "(3, 2)"),
    ),
    ("append(rebuild='a')", lambda: wh.ClusterIndex.build(ROWS).append(X, rebuild="a"), ("`rebuild`", "'a'")),
    ("remove('a')", lambda: wh.LshIndex.build(ROWS).remove("a"), ("`ids`", "integer")),
    ("remove(40)", lambda: wh.Int8Scan.build(ROWS).remove([40]), ("`ids`", "[0, 40)")),
    ("remove(all)", lambda: wh.ClusterIndex.build(ROWS).remove(range(40)), ("`ids`", "one must stay")),
    ("remove(mask)", lambda: wh.Int8Scan.build(ROWS).remove(ROWS[:, 0] > 0), ("`ids`", "bool")),
    ("query('a')", lambda: wh.Scan(ROWS).query("a"), ("`queries`", "'a'")),
    ("query(3-d)", lambda: wh.Scan(ROWS).query(ROWS[None]), ("`queries`", "2 axes")),
    ("query(short)", lambda: wh.Scan(ROWS).query(ROWS[0, :2]), ("`queries`", "(m, 3)", "(1, 2)")),
    ("query(narrow)", lambda: wh.Scan(ROWS).query(X[:, :2]), ("`queries`", "(m, 3)", "(3, 2)")),
    ("query(k='a')", lambda: wh.Scan(ROWS).query(X, k="a"), ("`k`", "'a'")),
    ("query(k=0)", lambda: wh.Scan(ROWS).query(X, k=0), ("`k`", ">= 1", "0")),
    ("query(thresholds)", lambda: wh.Tiered(SCAN).query(X, thresholds="a"), ("`thresholds`", "'a'")),
    ("query(exclude)", lambda: wh.Scan(ROWS).query(X, exclude=[[1], [1, 2], [3]]), ("`exclude`", "unequal")),
    ("query(exclude 1-d)", lambda: wh.Scan(ROWS).query(X, exclude=[1]), ("`exclude`", "(3, e)")),
    ("query(masked)", lambda: wh.Scan(ROWS).query(np.ma.masked_equal(X, 0.0)), ("`queries`", "6 of 9")),
]

# ---------------------------------------------------------------- atoms, results, planning, theory

REST: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
    ("ArrayAtoms(None)", lambda: wh.ArrayAtoms(None), ("`rows`", "None")),
    ("ConcatAtoms([])", lambda: wh.ConcatAtoms([]), ("`parts`", "at least one")),
    ("ConcatAtoms(5)", lambda: wh.ConcatAtoms(5), ("`parts`", "5")),
    ("ConcatAtoms(widths)", lambda: wh.ConcatAtoms([ROWS, X[:, :2]]), ("`parts`", "equal dimension")),
    ("MappedAtoms(fn=5)", lambda: wh.MappedAtoms(ROWS, 5, 3), ("`fn`", "function", "5")),
    ("MappedAtoms(dim='a')", lambda: wh.MappedAtoms(ROWS, abs, "a"), ("`dim`", "'a'")),
    ("MappedAtoms(dtype)", lambda: wh.MappedAtoms(ROWS, abs, 3, dtype="f3"), ("`dtype`", "float32", "f3")),
    ("Limits(steps='a')", lambda: limits(steps="a"), ("`max_steps`", "'a'")),
    ("set_threads('a')", lambda: wh.set_threads("a"), ("`threads`", "'a'")),
    ("set_threads(0)", lambda: wh.set_threads(0), ("`threads`", ">= 1")),
    ("minimize(over='cone')", _solve(over="cone"), ("`over`", "Hull() or Cone()", "'cone'")),
    ("minimize(over=Hull)", _solve(over=wh.Hull), ("`over`", "Hull() or Cone()")),
    ("minimize(ridge=-1)", _solve(ridge=-1.0), ("`ridge`", ">= 0", "-1")),
    ("minimize(ridge='1')", _solve(ridge="1"), ("`ridge`", "a number", "'1'")),
    ("minimize(ridge=nan)", _solve(ridge=math.nan), ("`ridge`", "nan")),
    ("minimize(over=Hull(cap=0.01))", _solve(over=wh.Hull(cap=0.01)), ("`cap`", "sum >= 1", "0.4")),
    ("minimize(over=Hull(cap=[...]))", _solve(over=wh.Hull(cap=[0.5, 0.5])), ("`cap`", "40 numbers", "2")),
    (
        "minimize(over=Cone(), Logistic)",
        lambda: wh.minimize(wh.Logistic(ROWS, ROWS[:, 0] > 0.0), ROWS, over=wh.Cone()),
        ("`over`", "a cap, a mass or a ridge", "Logistic"),
    ),
    (
        "minimize(over=Cone(), method=FrankWolfe())",
        _solve(over=wh.Cone(), method=wh.FrankWolfe()),
        ("`method`", "FullyCorrective", "FrankWolfe"),
    ),
    ("Hull(cap=0)", lambda: wh.Hull(cap=0), ("`cap`", "> 0", "0")),
    ("Hull(cap=nan)", lambda: wh.Hull(cap=math.nan), ("`cap`", "nan")),
    ("Hull(cap='1')", lambda: wh.Hull(cap="1"), ("`cap`", "'1'")),
    ("Hull(at_most='yes')", lambda: wh.Hull(at_most="yes"), ("`at_most`", "'yes'")),
    ("Cone(price=-1)", lambda: wh.Cone(price=-1), ("`price`", ">= 0", "-1")),
    ("Cone(mass=0)", lambda: wh.Cone(mass=0), ("`mass`", "> 0", "0")),
    ("Cone(cap=RAGGED)", lambda: wh.Cone(cap=RAGGED), ("`cap`",)),
    ("nnls(RAGGED)", lambda: wh.nnls(RAGGED, [1.0, 2.0]), ("`A`", "unequal length")),
    ("nnls(sparse)", lambda: wh.nnls(scipy.sparse.csr_array(ROWS), ROWS[:, 0]), ("`A`", "dense")),
    ("nnls(b too short)", lambda: wh.nnls(ROWS, [1.0]), ("`b`", "(40,)", "(1,)")),
    ("nnls(b=nan)", lambda: wh.nnls(ROWS, np.full(40, math.nan)), ("`b`", "nan")),
    ("nnls(maxiter='9')", lambda: wh.nnls(ROWS, ROWS[:, 0], "9"), ("`maxiter`", "'9'")),
    ("Result.top('a')", lambda: wh.minimize(F, ROWS).top("a"), ("`k`", "'a'")),
    ("Result.plot(5)", lambda: wh.minimize(F, ROWS).plot(5), ("`path`", "a path", "5")),
    ("Words.id(5)", lambda: words().id(5), ("`word`", "a string", "5")),
    ("Words.sentence(None)", lambda: words().sentence(None), ("`text`", "a string", "None")),
    ("choose_oracle(None)", lambda: wh.choose_oracle(None), ("`atoms`", "None")),
    ("choose_oracle(queries)", lambda: wh.choose_oracle(ROWS, queries="a"), ("`queries`", "'a'")),
    ("choose_oracle(queries=1e6)", lambda: wh.choose_oracle(ROWS, queries=1e6), ("`queries`", "integer")),
    ("choose_oracle(ratio='a')", lambda: wh.choose_oracle(ROWS, ratio="a"), ("`ratio`", "(0, 1]", "'a'")),
    ("choose_oracle(proof='no')", lambda: wh.choose_oracle(ROWS, proof="no"), ("`proof`", "True or False")),
    ("choose_oracle(interior=5)", lambda: wh.choose_oracle(ROWS, interior=5), ("`interior`", "5")),
    ("choose_oracle(savable=5)", lambda: wh.choose_oracle(ROWS, savable=5), ("`savable`", "5")),
    (
        "choose_oracle(memory)",
        lambda: wh.choose_oracle(ROWS, max_memory="1 cow"),
        ("`max_memory`", "'1 cow'"),
    ),
    ("choose_oracle(speeds)", lambda: wh.choose_oracle(ROWS, speeds=5), ("`speeds`", "5")),
    ("plan()", wh.plan, ("`atoms`", "`n` and `d`")),
    ("plan(n='a')", lambda: wh.plan(n="a", d=3), ("`n`", "'a'")),
    ("plan(tau=None, ratio='a')", lambda: wh.plan(n=1000, d=3, ratio="a"), ("`ratio`", "'a'")),
    ("plan(interior='a')", lambda: wh.plan(n=1000, d=3, interior="a"), ("`interior`", "'a'")),
    ("plan(speeds)", lambda: wh.plan(n=1000, d=3, speeds=5), ("`speeds`", "5")),
    ("Speeds(byte='a')", lambda: speeds(byte="a"), ("`byte`", "'a'")),
    ("rho('a')", lambda: theory.rho("a", 0.5), ("`c`", "(0, 1]", "'a'")),
    ("rho(tau='a')", lambda: theory.rho(0.5, "a"), ("`tau`", "(0, 1)", "'a'")),
    ("rho(regime='a')", lambda: theory.rho(0.5, 0.5, "a"), ("`regime`", "Regime", "'a'")),
    ("distance_ratio(here)", lambda: theory.distance_ratio(0.5, 0.5, here="a"), ("`here`", "'a'")),
    ("space_time('a')", lambda: theory.space_time("a", 0.1), ("`cbar`", "'a'")),
    ("candidates('a')", lambda: theory.candidates(10, "a"), ("`exponent`", "'a'")),
    ("break_even('a')", lambda: theory.break_even("a", 0.5), ("`n`", "'a'")),
    ("gap_after(first='a')", lambda: theory.gap_after(1, c=1, curvature=1, first="a"), ("`first`", "'a'")),
    ("steps(eps='a')", lambda: theory.steps("a", c=1, curvature=1, first=1), ("`eps`", "'a'")),
    ("herding_gap_after", lambda: theory.herding_gap_after(1, c=1, diameter="a"), ("`diameter`", "'a'")),
    ("lift_norms", lambda: theory.lift_norms(1, smoothness="a", diameter=1, radius=1), ("`smoothness`",)),
    ("copies('a')", lambda: theory.copies("a", 0.1), ("`queries`", "'a'")),
    ("copies_printed", lambda: theory.copies_printed(2, 2, "a", 1.0, 0.1), ("`error`", "'a'")),
    ("additive_error('a')", lambda: theory.additive_error("a", c=1), ("`eps`", "'a'")),
    ("lattice_side('a')", lambda: theory.lattice_side("a", 3, c=1), ("`error`", "'a'")),
    ("simhash_collision('a')", lambda: theory.simhash_collision("a"), ("`cosine`", "[-1, 1]", "'a'")),
    ("plan_adaptive(eps='a')", lambda: _adaptive(eps="a"), ("`eps`", "'a'")),
    ("plan_adaptive(n='a')", lambda: _adaptive(n="a"), ("`n`", "'a'")),
    ("plan_adaptive(first='a')", lambda: _adaptive(first="a"), ("`first`", "'a'")),
    ("shift_query(ragged)", lambda: transforms.shift_query(RAGGED, X), ("`x`", "unequal length")),
    ("shift_query(shapes)", lambda: transforms.shift_query(X, X[:2]), ("`grad`", "(3, 3)", "(2, 3)")),
    ("sphere_query(size='a')", lambda: transforms.sphere_query(X, "a"), ("`size`", "'a'")),
    ("sphere_atom(size=0)", lambda: transforms.sphere_atom(X, 0.0), ("`size`", "> 0")),
    ("norm_ranges('a')", lambda: transforms.norm_ranges("a", 2), ("`norms`", "'a'")),
    ("polynomial_dim('a')", lambda: transforms.polynomial_dim("a", 1, 1), ("`k1`", "'a'")),
    ("projection_dim(eps='a')", lambda: transforms.projection_dim(10, "a"), ("`eps`", "'a'")),
    ("squared_min_ip(alpha)", lambda: transforms.squared_min_ip_query(X, X, "a"), ("`alpha`", "'a'")),
    ("johnson_lindenstrauss", lambda: transforms.johnson_lindenstrauss(3, "a"), ("`dim`", "'a'")),
]


def _adaptive(**changed: Any) -> object:
    right: dict[str, Any] = {"n": 10, "d": 2, "c": 0.9, "eps": 0.1, "curvature": 1, "first": 1}
    return adaptive.plan_adaptive(**(right | {"diameter": 1, "size": 1, "delta": 0.1} | changed))


CALLS: list[Wrong] = [*_minimize(), *(Wrong(*each) for each in (*PARTS, *ORACLES, *REST))]
