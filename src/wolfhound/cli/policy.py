"""`wolfhound policy`: the best policy of a model with finitely many states."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Typer

from wolfhound.cli import _options as opt
from wolfhound.cli import _output as output
from wolfhound.cli._app import Command, Commands
from wolfhound.cli._options import option
from wolfhound.core.progress import read_gap, show_progress
from wolfhound.core.validate import number, require
from wolfhound.data import readers
from wolfhound.data.writers import write_table

if TYPE_CHECKING:
    from wolfhound.policy import ACMDP
    from wolfhound.policy.tabular.steps import PolicyStep

app = Typer(cls=Commands, no_args_is_help=True)

AUTO, SCAN = "auto", "scan"
_KNOWN = f"{AUTO}, {SCAN}, or an index, as for index build --kind"
Search = Annotated[str, option(f"How atoms are searched: {_KNOWN}.", "--search", metavar="NAME")]

_model, _file = opt.in_panel("The model"), opt.in_panel("The model", metavar="FILE")
_random = opt.in_panel("A random model, without ATOMS")
_how = opt.in_panel("The method")


class PolicyStepName(StrEnum):
    """How far the actions move."""

    PER_STATE = "per-state"
    BACKTRACKING = "backtracking"
    VISITATION = "visitation"
    PAPER = "paper"


@app.command(cls=Command)
def solve(
    atoms: Annotated[
        str | None,
        Argument(metavar="ATOMS", help="Actions are mixtures of these, one per row.", show_default=False),
    ] = None,
    reward: Annotated[str | None, _file("R, a row per state: r(s, a) = <R[s], a>.")] = None,
    transition: Annotated[
        str | None, _file("P, a .npy of S x d x S: P(t | s, a) = sum over j of a[j] P[s, j, t].")
    ] = None,
    start: Annotated[str | None, _file("Chances of the first state; else alike.")] = None,
    gamma: Annotated[float, _model("Discount, in [0, 1).")] = 0.9,
    curvature: Annotated[float, _model("k of a cost k/2 |a - centre[s]|^2; 0: none.", min=0.0)] = 0.0,
    centres: Annotated[str | None, _file("A row per state; else 0.")] = None,
    states: Annotated[int, _random("Number of states.", min=1)] = 100,
    rows: Annotated[float, _random("Number of atoms, such as 1e5.", metavar="N")] = 1e4,
    dim: Annotated[int, _random("Entries of an action.", min=1)] = 16,
    search: Search = SCAN,
    ratio: Annotated[float, _how("The share of the gap that an index finds.")] = 0.8,
    step: Annotated[
        PolicyStepName, _how(f"One of {', '.join(PolicyStepName)}.", metavar="NAME")
    ] = PolicyStepName.PER_STATE,
    rtol: Annotated[float, opt.stopping("Wanted gap, relative to that of the start.")] = 1e-3,
    atol: Annotated[
        float | None, opt.stopping("Wanted root of the sum of squared gaps; else by rtol.")
    ] = None,
    max_steps: opt.MaxSteps = 1000,
    max_seconds: opt.MaxSeconds = opt.UNLIMITED,
    seed: Annotated[int, option("Seed of the first policy, and of a random model.", min=0)] = 0,
    out: Annotated[Path | None, opt.table_output("Write state, atom and weight")] = None,
    save: opt.Save = None,
    picture: opt.Plot = None,
    page: opt.Report = None,
    as_json: opt.Json = False,
) -> None:
    r"""Find the best policy of a model with finitely many states, with a proved gap.

    In every state the actions are all mixtures of the atoms. Without ATOMS a random model shows it.

    Examples
    --------
    wolfhound policy solve

    wolfhound policy solve atoms.npy --reward R.npy --transition P.npy --gamma 0.95

    wolfhound policy solve atoms.npy --reward R.npy --transition P.npy \
      --centres C.npy --curvature 2 --search clusters --save run --plot run.png
    """
    from wolfhound.policy import fwpo, random_acmdp, sfwpo  # noqa: PLC0415 - numba

    outputs = output.Outputs(out, save, picture, page).check("policy")
    require(0.0 < ratio <= 1.0, "ratio", "in (0, 1]", ratio)
    number(max_steps, "max_steps", low=0.0)
    files = {"reward": reward, "transition": transition, "start": start, "centres": centres}
    if atoms is None:
        opt.refuse("without ATOMS", **files)
        n = opt.parse_count(rows, "--rows")
        model = random_acmdp(states, n, dim, gamma=gamma, curvature=curvature, seed=seed)
    else:
        model = _read_model(atoms, files, gamma=gamma, curvature=curvature)
    model = _attach_oracle(model, search, ratio, max_steps)
    settings: dict[str, Any] = {"step": _make_step(step), "rtol": rtol, "atol": atol, "seed": seed}
    settings |= {"max_steps": max_steps, "max_seconds": max_seconds}
    with show_progress(True, read_gap(model.actions.n, 0.0)) as callback:
        if search == SCAN:
            result = fwpo(model, callback=callback, **settings)
        else:
            result = sfwpo(model, ratio=ratio, callback=callback, **settings)
    where = np.nonzero(result.ids >= 0)
    weights = {"state": where[0], "id": result.ids[where], "weight": result.weights[where]}
    outputs.finish(result, lambda path: write_table(path, weights), as_json=as_json)


# ---------------------------------------------------------------- names and files -> objects


def _read_model(atoms: str, files: Mapping[str, str | None], *, gamma: float, curvature: float) -> ACMDP:
    from wolfhound.policy import ACMDP, AffineReward, AffineTransition, QuadraticReward  # noqa: PLC0415
    from wolfhound.policy.tabular.models import Reward  # noqa: PLC0415

    opt.demand("with ATOMS", reward=files["reward"], transition=files["transition"])
    weights, centred, start = readers.read_matrix(str(files["reward"])), files["centres"], files["start"]
    reward: Reward = AffineReward(weights)
    if curvature > 0.0:
        centres = np.zeros_like(weights) if centred is None else readers.read_matrix(centred)
        reward = QuadraticReward(weights, centres, curvature=curvature)
    else:
        opt.refuse("without --curvature", centres=centred)
    alike = np.full(len(weights), 1.0 / len(weights))
    first = alike if start is None else readers.read_vector(start)
    path = str(files["transition"])
    require(path.endswith(".npy"), "--transition", "a .npy file of S x d x S numbers", path)
    chances = AffineTransition(readers.read_array(path))
    return ACMDP(reward, chances, gamma, first, readers.read_atoms(atoms))


def _attach_oracle(model: ACMDP, search: str, ratio: float, max_steps: float) -> ACMDP:
    """The model with the oracle of this name."""
    from wolfhound import INDEXES, choose_oracle  # noqa: PLC0415 - numba
    from wolfhound.policy import ActionSet  # noqa: PLC0415

    if search == SCAN:
        return model
    atoms, queries = model.actions.atoms, round(model.states * min(max_steps, 100.0))
    if search == AUTO:
        oracle = choose_oracle(atoms, queries=queries, ratio=ratio, proof=False, batch=model.states).build()
    else:
        known = {name: kind.build for name, kind in INDEXES.items() if kind.build is not None}
        require(search in known, "--search", f"one of {AUTO}, {', '.join(known)}", search)
        oracle = known[search](atoms)
    return model.with_actions(ActionSet(atoms, oracle=oracle))


def _make_step(name: PolicyStepName) -> PolicyStep:
    from wolfhound import policy  # noqa: PLC0415

    rules: list[Callable[[], PolicyStep]]
    rules = [policy.PerState, policy.Backtracking, policy.Visitation, policy.PaperStep]
    return dict(zip(PolicyStepName, rules, strict=True))[name]()
