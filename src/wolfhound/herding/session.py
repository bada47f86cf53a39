"""A run of kernel herding, which can go on: candidates, picks, weights, and what they are worth."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np

from wolfhound import store
from wolfhound.atoms import Fingerprint
from wolfhound.compiled import corral
from wolfhound.core import Atoms, AtomsLike, Ids, Matrix, Progress, Vector
from wolfhound.encoding import TableAtoms, find_table
from wolfhound.herding.draw import take_rows
from wolfhound.herding.embedding import FEATURES, Embedding, embed
from wolfhound.herding.evaluation import evaluate, measure_herd, skip_evaluation
from wolfhound.herding.greedy import Candidates, Held, Herd, run
from wolfhound.herding.kernels import Kernel
from wolfhound.herding.kernels.features import Features
from wolfhound.herding.labels import LabelAtoms, Labels, Means, fit_jointly
from wolfhound.herding.settings import HerdData, HerdSettings
from wolfhound.herding.tabular import name_rows
from wolfhound.result import Trace
from wolfhound.solve import Limits
from wolfhound.stopwatch import time_solving
from wolfhound.validate import count, function, require

Callback: TypeAlias = Callable[[Progress], bool | None]

_EVALUATION = 1 << 20  # second word of the seed of an evaluation; embeddings have the number of their label


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelSession:
    """A run of kernel herding that can go on; pickled, it is None: atoms are not copied along."""

    data: HerdData
    settings: HerdSettings
    ids: Ids  # atoms so far; before the first pick those of `start`
    herd: Herd | None = None  # their scores; None: made anew

    @property
    def atoms(self) -> Atoms:
        """What was herded."""
        return self.data.atoms

    @property
    def table(self) -> TableAtoms | None:
        """The table that it was."""
        return self.data.table

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m atoms; return the fields of the result."""
        began = time.perf_counter()
        most = self.settings.held + sum(self.settings.candidates)
        size = count(m, "m", low=1)
        rule = f"more than the {len(self.ids)} atoms so far, at most the {most} candidates"
        require(len(self.ids) < size <= most, "m", rule, m)
        return self.run(size, Limits(seconds=max_seconds), callback, began)

    def run(self, m: int, limits: Limits, callback: Callback | None, began: float) -> dict[str, Any]:
        """Pick until there are m atoms, weight and evaluate them; return the fields of `HerdResult`."""
        if callback is not None:
            function(callback, "callback", "a function of a state")
            callback = _name_ids(callback, self.data.table)
        data, settings = self.data, self.settings
        herd, driven = run(
            self._gather, m, begun=self.ids, swap=settings.swap, limits=limits, callback=callback, began=began
        )
        weights = fit_weights(herd, settings.kernel) if settings.weights else herd.equal_weights(herd.size)
        seconds = time_solving(began)
        quality = skip_evaluation("evaluate=False")
        if settings.evaluate:
            quality = evaluate(
                data.atoms,
                herd.size,
                settings.exclude,
                lambda sizes, rng: measure_herd(herd, data, settings.kernel, weights, sizes=sizes, rng=rng),
                rng=np.random.default_rng([settings.seed, _EVALUATION]),
                deadline=began + limits.seconds,
            )
        return quality._asdict() | {
            "ids": name_rows(data.table, herd.ids),
            "weights": weights,
            "seconds": seconds,
            "passes": driven.last.passes,
            "scored": driven.last.scored,
            "status": driven.status,
            "trace": Trace.of(driven.rows),
            "space": repr(settings.kernel),
            "labels": None if data.labels is None else data.labels.values[herd.ids],
            "fingerprint": data.fingerprint,
            "settings": replace(settings, exclude=name_rows(data.table, settings.exclude)),
            "table": None if data.table is None else data.table.report,
            "target_table": None if data.target_table is None else data.target_table.report,
            "session": KernelSession(data=data, settings=settings, ids=herd.ids, herd=herd),
        }

    def _gather(self) -> Herd:
        if self.herd is not None:
            return self.herd.copy()
        held = self.settings.held
        herd = Herd(gather(self.data, self.settings, self.ids[:held]), self.settings.kernel)
        return herd.replay(self.ids[held:]) if len(self.ids) > held else herd

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Pickle as None."""
        return forget, ()


def _name_ids(callback: Callback, table: TableAtoms | None) -> Callback:
    """Let a caller see rows of the table that was given."""
    if table is None or table.ids is None:
        return callback
    # States of `herd` are `Picks`, which have ids.
    return lambda state: callback(replace(state, ids=table.name_rows(state.ids)))  # type: ignore


def forget() -> None:
    """Stand for what is not pickled."""


def resume(
    settings: HerdSettings, ids: Ids, made_from: Fingerprint, atoms: AtomsLike | None, **given: Any
) -> KernelSession:
    """Return the run of a loaded result; atoms and `given` are what `herd` was given: see `HerdData.of`."""
    if atoms is None:
        raise ValueError("`atoms` must be given: this result was loaded or pickled without them.")
    for name, value in given.items():
        if value is not None and not getattr(settings, name):
            _check_same(name, "given", "")
    if (
        not isinstance(atoms, TableAtoms) and find_table(atoms) is None
    ):  # else labels decide which rows are kept
        sizes = HerdData.of(atoms, None, None, None, settings.options).fingerprint
        _check_same("atoms", [part.kind for part in sizes], [part.kind for part in made_from])
    data = HerdData.of(atoms, **given, options=settings.options)
    _check_same("atoms", data.fingerprint, made_from)
    if data.table is not None:
        settings = replace(
            settings, exclude=data.table.find_places(settings.exclude, "exclude", strict=False)
        )
        ids = data.table.find_places(ids, "ids")
    for name, found in data.fingerprints().items():
        _check_same(name, found, getattr(settings, name))
    return KernelSession(data=data, settings=settings, ids=ids)


def _check_same(name: str, given: object, wanted: object) -> None:
    if given != wanted:
        got = "other data" if given else "none"
        rule = "what the result was made from" if wanted else "left out, as it was when the result was made"
        raise store.StoreError(f"`{name}` must be {rule}. Got {got}.")


# ---------------------------------------------------------------- candidates


def gather(data: HerdData, settings: HerdSettings, start: Ids) -> Candidates:
    """Draw candidates and embed the mean that they are to match, with the atoms that are chosen already."""
    held_rows = take_rows(data.atoms, start)
    if data.labels is not None:
        return _gather_by_label(data, settings, data.labels, start, held_rows)
    embedding = embed(
        data.atoms,
        settings.kernel,
        count=settings.candidates[0],
        target=data.target,
        row_weights=data.row_weights,
        exclude=np.concatenate([start, settings.exclude]),
        rng=np.random.default_rng([settings.seed, 0]),
    )
    used = embedding.base_ids if data.target is not None else np.union1d(embedding.ids, embedding.base_ids)
    return Candidates.of(embedding, start, held_rows, used=used)


def _gather_by_label(
    data: HerdData, settings: HerdSettings, labels: Labels, start: Ids, held_rows: Matrix
) -> Candidates:
    """Candidates of each label, with the means of all atoms and of each label."""
    parts, whole, features = _embed_labels(data, settings, labels, start)
    wanted = np.full(len(parts), 1.0 / len(parts)) if settings.balanced else labels.shares
    rows = np.concatenate([part.rows for part in parts])
    starts = np.concatenate([[0], np.cumsum([len(part.ids) for part in parts])])
    owners = np.zeros(len(start), np.int64)
    ku, held_ku = whole.at(rows), whole.at(held_rows)
    for label, part in enumerate(parts):
        ku[starts[label] : starts[label + 1]] += wanted[label] * part.ku
        mine = np.isin(start, labels.members[label])
        owners[mine] = label
        held_ku[mine] += wanted[label] * part.at(held_rows[mine])
    ids = [members[part.ids] for members, part in zip(labels.members, parts, strict=True)]
    bases = [members[part.base_ids] for members, part in zip(labels.members, parts, strict=True)]
    read = sum(part.passes * len(members) for part, members in zip(parts, labels.members, strict=True))
    return Candidates(
        ids=np.concatenate(ids),
        rows=rows,
        ku=ku,
        square=whole.square + float(wanted**2 @ [part.square for part in parts]),
        starts=starts,
        held=Held(start, held_rows, owners, held_ku),
        embeddings=parts,
        shares=labels.shares,
        used=np.unique(np.concatenate([*ids, *bases, whole.base_ids])),
        features=features,
        passes=whole.passes + read / len(labels.values),
        scored=whole.scored + sum(part.scored for part in parts),
        balanced=settings.balanced,
        same=2.0,
    )


def _embed_labels(
    data: HerdData, settings: HerdSettings, labels: Labels, start: Ids
) -> tuple[tuple[Embedding, ...], Embedding, Features | None]:
    """The mean of each label at its candidates, that of all atoms, and the features of all these."""
    weights = data.row_weights
    closed = np.zeros(data.atoms.shape[0], bool)
    closed[start], closed[settings.exclude] = True, True
    features: Features | None = None
    parts = []
    for label, members in enumerate(labels.members):
        parts.append(
            embed(
                LabelAtoms(data.atoms, members),
                settings.kernel,
                count=settings.candidates[label],
                features=FEATURES if features is None else features,
                row_weights=None if weights is None else weights[members],
                exclude=np.flatnonzero(closed[members]),
                rng=np.random.default_rng([settings.seed, label]),
            )
        )
        features = parts[-1].features if features is None else features
    if settings.balanced and not settings.kernel.centred:
        weights = labels.balance(weights)
    whole = embed(
        data.atoms,
        settings.kernel,
        count=1,
        features=FEATURES if features is None else features,
        row_weights=weights,
        rng=np.random.default_rng([settings.seed, len(parts)]),
    )
    return tuple(parts), whole, whole.features if features is None else features


# ---------------------------------------------------------------- weights


def fit_weights(herd: Herd, kernel: Kernel) -> Vector:
    """(size,) weights: each label has its share, divided as it fits best in the kernel."""
    rows, shares, embeddings = herd.rows, herd.candidates.shares, herd.candidates.embeddings
    if len(shares) == 1:
        out = corral.solve(kernel.gram(rows, rows), embeddings[0].at(rows))
        return np.asarray(out / out.sum())
    order = np.argsort(herd.labels, kind="stable")
    start, labels, rows = herd.equal_weights(herd.size)[order], herd.labels[order], rows[order]
    ends = np.cumsum(np.bincount(labels, minlength=len(shares)))
    at = np.array([embedding.at(rows) for embedding in embeddings])
    # Until each label has a row, the shares of the others are larger: those of the weights.
    reached = np.bincount(labels, weights=start, minlength=len(shares))
    means = Means(
        gram=kernel.gram(rows, rows).astype(np.float64, copy=False),
        whole=shares @ at,
        own=reached[labels] * at[labels, np.arange(herd.size)],
        blocks=[slice(first, end) for first, end in pairwise([0, *ends.tolist()]) if end > first],
    )
    out = np.empty(herd.size)
    out[order] = fit_jointly(means, start)
    return np.asarray(out / out.sum())
