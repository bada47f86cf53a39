"""`wolfhound solve`: minimise an objective over the hull of atoms in a file."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import wolfhound as wh
from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._options import option
from wolfhound.core.contracts import INNER, Atoms, Method, Objective, Oracle, StepSize
from wolfhound.data import readers
from wolfhound.data.writers import write_table
from wolfhound.solve.result import Result

if TYPE_CHECKING:
    from wolfhound.methods.directions import Direction
    from wolfhound.planning.plan import Choice


class ObjectiveName(StrEnum):
    """Which f."""

    SQUARED_DISTANCE = "squared-distance"
    LEAST_SQUARES = "least-squares"
    LOGISTIC = "logistic"
    HUBER = "huber"
    MIXTURE = "mixture"


class MethodName(StrEnum):
    """How to move."""

    FULLY_CORRECTIVE = "fully-corrective"
    FRANK_WOLFE = "frank-wolfe"
    AWAY = "away"
    PAIRWISE = "pairwise"
    BLENDED_PAIRWISE = "blended-pairwise"


class StepName(StrEnum):
    """How far to move."""

    LINE_SEARCH = "line-search"
    SHORT_STEP = "short-step"
    ADAPTIVE = "adaptive"
    OPEN_LOOP = "open-loop"


_of_f, _file = opt.in_panel("The objective f"), opt.in_panel("The objective f", metavar="FILE")
_of_method = opt.in_panel("The method")


def solve(
    atoms: opt.AtomsFile,
    objective: Annotated[ObjectiveName, _of_f(f"One of {', '.join(ObjectiveName)}.", metavar="NAME")],
    target: Annotated[str | None, _file("t of squared-distance: 1/2 |x - t|^2.")] = None,
    design: Annotated[str | None, _file("Matrix A, a row per case.")] = None,
    response: Annotated[str | None, _file("b of least-squares, 1/2 |Ax - b|^2, and huber.")] = None,
    labels: Annotated[str | None, _file("Classes of logistic: -1 and 1.")] = None,
    delta: Annotated[float | None, _of_f("Where huber turns linear; 1 if not given.")] = None,
    method: Annotated[
        MethodName, _of_method(f"One of {', '.join(MethodName)}.", metavar="NAME")
    ] = MethodName.FULLY_CORRECTIVE,
    step: Annotated[
        StepName | None,
        _of_method(f"One of {', '.join(StepName)}. Not for fully-corrective.", metavar="NAME"),
    ] = None,
    lazy: Annotated[bool, _of_method("Active atoms first. Not for fully-corrective.", "--lazy")] = False,
    cone: opt.IsCone = False,
    price: opt.Price = None,
    mass: opt.Mass = None,
    cap: opt.Cap = None,
    at_most: opt.AtMost = False,
    ridge: opt.Ridge = 0.0,
    names: opt.Names = None,
    exclude: Annotated[
        list[str] | None, option("Atoms not to use: ids with commas between.", metavar="IDS")
    ] = None,
    rtol: opt.Rtol = 1e-6,
    atol: opt.Atol = 0.0,
    max_steps: opt.MaxSteps = opt.UNLIMITED,
    max_passes: opt.MaxPasses = opt.UNLIMITED,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    max_memory: opt.MaxMemory = None,
    top: opt.Top = 10,
    ray: Annotated[
        str | None,
        option("Read and search ATOMS in Ray actors: local, auto or an address.", metavar="ADDRESS"),
    ] = None,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    save: opt.Save = None,
    checkpoint: opt.Checkpoint = None,
    picture: opt.Plot = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    r"""Minimise a smooth convex f over the hull of the atoms, with a proved gap.

    Examples
    --------
    wolfhound solve atoms.npy --objective squared-distance --target point.npy

    wolfhound solve atoms.npy --objective logistic --design A.npy --labels y.npy

    wolfhound solve "part-*.npy" --objective squared-distance --target point.npy --max-memory 500MB

    wolfhound solve likelihoods.npy --objective mixture --rtol 0 --atol 1e-6

    wolfhound solve atoms.npy --objective least-squares --design A.npy \
      --response b.npy --exclude 0,7 --save run --plot run.png

    wolfhound solve 'part-*.npy' --objective squared-distance \
      --target point.npy --checkpoint run

    wolfhound solve atoms.npy --objective squared-distance --target point.npy --ray auto

    wolfhound solve columns.npy --objective squared-distance --target b.npy --cone --price 0.1
    """
    outputs = output.Outputs(out, save, picture, page).check("result")
    resumed = output.check_checkpoint(checkpoint)
    beside = {"target": target, "design": design, "response": response, "labels": labels, "delta": delta}
    f = make_objective(objective, beside)
    mover = make_method(method, step, lazy, smoothness=f.smoothness)
    over = opt.make_weights(cone, price, mass, cap, at_most)
    rows, known = opt.read_atoms(atoms, names)
    if resumed:
        output.notify(resumed)
    searched: AbstractContextManager[Oracle | Atoms] = contextlib.nullcontext(rows)
    if ray is not None:
        from wolfhound.oracles import cluster  # noqa: PLC0415 - ray is an extra, and slow to load

        searched = cluster.shard(atoms, address=ray)
    with searched as oracle:
        result = wh.minimize(
            f,
            oracle,
            over=over,
            ridge=ridge,
            method=mover,
            rtol=rtol,
            atol=atol,
            max_steps=max_steps,
            max_passes=max_passes,
            max_seconds=max_seconds,
            max_memory=max_memory,
            exclude=opt.parse_ids(opt.split(exclude or []), "--exclude", "ids with commas between"),
            names=known,
            progress=True,
            checkpoint=checkpoint,
            seed=seed,
        )
    outputs.finish(
        result,
        lambda path: write_table(path, output.list_weights(result)),
        as_json=as_json,
        top=top,
        plan=lambda: weigh_oracles(rows, result),
    )


def weigh_oracles(atoms: Atoms, *results: Result) -> Choice:
    """What other oracles would have cost for as many queries; only the shape is looked at."""
    asked = sum(int((result.trace.kind != INNER).sum()) for result in results)
    return wh.choose_oracle(atoms, queries=max(asked, 1))


def make_objective(name: ObjectiveName, given: Mapping[str, Any]) -> Objective:
    """Return f from the files that were given; refuse those of another objective."""
    vector, matrix = readers.read_vector, readers.read_matrix
    objectives: dict[ObjectiveName, tuple[Callable[..., Objective], dict[str, Callable[[Any], Any]]]] = {
        ObjectiveName.SQUARED_DISTANCE: (wh.SquaredDistance, {"target": vector}),
        ObjectiveName.LEAST_SQUARES: (wh.LeastSquares, {"design": matrix, "response": vector}),
        ObjectiveName.LOGISTIC: (wh.Logistic, {"design": matrix, "labels": vector}),
        ObjectiveName.HUBER: (wh.Huber, {"design": matrix, "response": vector, "delta": float}),
        ObjectiveName.MIXTURE: (wh.MixtureLikelihood, {}),
    }
    make, takes = objectives[name]
    beside = f"with --objective {name}"
    opt.refuse(beside, **{field: value for field, value in given.items() if field not in takes})
    opt.demand(beside, **{field: given[field] for field in takes if field != "delta"})
    return make(**{field: read(given[field]) for field, read in takes.items() if given[field] is not None})


def make_method(name: MethodName, step: StepName | None, lazy: bool, *, smoothness: float) -> Method:
    """Return the method that the options describe."""
    if name is MethodName.FULLY_CORRECTIVE:
        opt.refuse(f"with --method {name}", step=step, lazy=lazy or None)
        return wh.FullyCorrective()
    directions: dict[MethodName, Direction] = {
        MethodName.FRANK_WOLFE: wh.Vanilla(),
        MethodName.AWAY: wh.Away(),
        MethodName.PAIRWISE: wh.Pairwise(),
        MethodName.BLENDED_PAIRWISE: wh.BlendedPairwise(),
    }
    return wh.FrankWolfe(directions[name], _make_step(step, smoothness), lazy=lazy)


def _make_step(name: StepName | None, smoothness: float) -> StepSize:
    if name is StepName.SHORT_STEP:
        if not 0.0 < smoothness < math.inf:
            raise ValueError("`--step` must not be short-step for an objective of unknown smoothness.")
        return wh.ShortStep(smoothness)
    others: dict[Any, StepSize] = {StepName.ADAPTIVE: wh.Adaptive(), StepName.OPEN_LOOP: wh.OpenLoop()}
    return others.get(name, wh.LineSearch())
