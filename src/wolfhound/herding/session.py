"""A run of kernel herding, which can go on: data, settings, candidates, picks, weights, what they are worth.

Tables become atoms here, with labels by names of columns and a target that matches.
A herd is measured on all atoms or held-out ones.
Held-out rows are weighted so that their random features have the mean of all
atoms, which the embedding found already: without this the chance of drawing them
would hide how good a herd is. Two halves, weighted apart, estimate
``|mu|^2`` by ``<mu_1, mu_2>``, so that their errors cancel on average.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from wolfhound.compiled import corral
from wolfhound.core.contracts import Atoms, AtomsLike, Ids, Ints, Matrix, Progress, Vector
from wolfhound.core.identity import identify
from wolfhound.core.progress import time_solving
from wolfhound.core.validate import count, flag, function, ids, require, row_shares
from wolfhound.data import store
from wolfhound.data.atoms import (
    FewAtoms,
    Fingerprint,
    PartPrint,
    as_atoms,
    draw_some,
    fingerprint,
    finite_rows,
    hear_rows,
    to_places,
    to_rows,
)
from wolfhound.data.encoding import EncodingPlan, Missing, Table, TableAtoms, encode_source, find_table
from wolfhound.data.scaling import unit_variance
from wolfhound.herding.features import Features
from wolfhound.herding.greedy import Candidates, Held, Herd, run
from wolfhound.herding.kernels import KERNELS, Kernel
from wolfhound.herding.labels import Labels, fit_jointly
from wolfhound.herding.mmd import (
    FEATURES,
    Embedding,
    Measured,
    Reference,
    calibrate,
    draw_held_out,
    embed,
    evaluate,
    kernel_sums,
    self_sums,
)
from wolfhound.solve.driver import Limits
from wolfhound.solve.result import Trace

Callback: TypeAlias = Callable[[Progress], bool | None]

FLAGS = ("balanced", "weights", "swap", "evaluate")
HELD_OUT = 10_000  # rows that an MMD is measured on; a smaller target is taken whole
_SAMPLE = 1000  # rows that say whether one column swamps the others
_SHOWN = 8  # texts of `by` in an error
_EVALUATION = 1 << 20  # second word of the seed of an evaluation; embeddings have the number of their label


# ---------------------------------------------------------------- what decides a run


class TableOptions(NamedTuple):
    """How a table becomes atoms, as `herd` was asked; saved with a result, so that it can go on."""

    columns: Sequence[str] | str | None = None
    missing: Missing = Missing.LEVEL
    numeric_only: bool = False
    standardize: bool = False

    def check(self) -> TableOptions:
        """Refuse what is none of these; a list of names becomes a tuple."""
        flag(self.numeric_only, "numeric_only")
        flag(self.standardize, "standardize")
        columns = (self.columns,) if isinstance(self.columns, str) else self.columns
        return self if columns is None else self._replace(columns=tuple(columns))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**self._asdict(), "missing": self.missing.value}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TableOptions:
        """Return the options of such values."""
        names = None if saved["columns"] is None else [str(name) for name in saved["columns"]]
        return cls(**{**saved, "columns": names, "missing": Missing(saved["missing"])}).check()


AS_USUAL = TableOptions()
"""What is done if the caller says nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HerdData:
    """What is picked from and stood for."""

    atoms: Atoms  # to pick from
    target: Atoms | None  # to stand for; None: the atoms
    labels: Labels | None
    row_weights: Vector | None  # (t,) of what is to be stood for, with sum 1
    table: TableAtoms | None = None  # what the atoms were; ids of its rows are what a caller sees
    target_table: TableAtoms | None = None  # what the target was

    @classmethod
    def read(
        cls,
        atoms: Any,
        target: AtomsLike | None = None,
        by: Any = None,
        row_weights: ArrayLike | None = None,
        *,
        options: TableOptions = AS_USUAL,
    ) -> HerdData:
        """Read what `herd` was given: an array, files or tables, labels or names of columns."""
        table, names = _read_table(atoms, by, options)
        rows = as_atoms(atoms) if table is None else table.atoms
        goal, goal_table = _read_target(target, table, options.missing)
        if table is not None and by is not None:
            by = table.read_labels(names) if names else table.pick(by, "by")
        if options.standardize:
            scaling = unit_variance(rows)
            rows, goal = scaling.of(rows), None if goal is None else scaling.of(goal)
        elif table is not None:  # the report says whether one column swamps the others
            some = draw_some(table.shape[0], _SAMPLE, np.random.default_rng(0))
            found = table.find_swamping(finite_rows(table.atoms, some))
            table = replace(table, report=replace(table.report, swamping=found))
        if goal is not None:
            d, got = rows.shape[1], goal.shape[1]
            require(got == d, "target", f"rows of {d} columns", f"{got} columns")
        weighed = table if goal is None else goal_table
        if weighed is not None:
            row_weights = weighed.pick(row_weights, "row_weights")
        shares = row_shares(row_weights, (rows if goal is None else goal).shape[0], "row_weights")
        labels = None if by is None else Labels.of(by, rows.shape[0], shares)
        return cls(
            atoms=rows, target=goal, labels=labels, row_weights=shares, table=table, target_table=goal_table
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the atoms; of a table with the number of its rows, of which ids are."""
        parts = fingerprint(self.atoms)
        return parts if self.table is None else tuple(p.resize(self.table.report.rows) for p in parts)

    def fingerprints(self) -> dict[str, Any]:
        """What tells this data from other data: the fields of `HerdSettings` of these names."""
        return {
            "target": () if self.target is None else fingerprint(self.target),
            "by": "" if self.labels is None else identify(self.labels.values),
            "row_weights": "" if self.row_weights is None else identify(self.row_weights),
        }


def _read_table(atoms: Any, by: Any, options: TableOptions) -> tuple[TableAtoms | None, tuple[str, ...]]:
    """Return the table that atoms are, coded, if they are one; and the columns that `by` names."""
    columns = options.columns
    source = atoms.source if isinstance(atoms, TableAtoms) else find_table(atoms)
    names = _find_names(by, source)
    if isinstance(atoms, TableAtoms):
        _check_encoded(atoms, options)
        return atoms, names
    if source is not None:
        plan = EncodingPlan(
            missing=options.missing, numeric_only=options.numeric_only, labels=names, called="atoms"
        )
        return encode_source(source, plan, columns), names
    require(columns is None, "columns", "None: these atoms have no names", columns)
    return None, names


def _check_encoded(table: TableAtoms, options: TableOptions) -> None:
    """Refuse options that rows which are coded already do not follow."""
    report, missing = table.report, options.missing
    followed = Missing.DROP if report.dropped else Missing.LEVEL if report.marked else Missing.MEAN
    broken = {
        "columns": options.columns is not None and options.columns != report.counted,
        "numeric_only": options.numeric_only and bool(report.coded),
        "missing": bool(report.missing) and missing not in (AS_USUAL.missing, followed),
    }
    wrong = [name for name, bad in broken.items() if bad]
    rule = "left out, or as `encode` had it: these rows are coded already"
    got = ", ".join(f"{name}={getattr(options, name)}" for name in wrong)
    require(not wrong, "` and `".join(wrong), rule, got)


def _find_names(by: Any, source: Table | None) -> tuple[str, ...]:
    """Return the columns that `by` names; none if it is labels. A column may be called by a number."""
    by = str(by) if isinstance(by, int) and not isinstance(by, bool) else by
    known = () if source is None else source.names
    if isinstance(by, str):
        rule = (
            f"a column among {', '.join(known)}" if known else "labels, one per row, or a column of a table"
        )
        require(by in known, "by", rule, repr(by))
        return (by,)
    plain = isinstance(by, (list, tuple)) and len(by) > 0 and all(isinstance(each, str) for each in by)
    if not plain or source is None:
        return ()
    if set(by) <= set(known) and len(set(by)) == len(by):
        return tuple(by)
    rule = f"distinct columns among {', '.join(known)}, or {source.size:,} labels, one per row"
    some = ", ".join(map(repr, by[:_SHOWN])) + (f", ... ({len(by)} in all)" if len(by) > _SHOWN else "")
    require(len(by) == source.size, "by", rule, some)
    return ()


def _read_target(
    target: Any, table: TableAtoms | None, missing: Missing
) -> tuple[Atoms | None, TableAtoms | None]:
    """Return the target, and the table that it was, coded as the atoms are."""
    if target is None:
        return None, None
    if not isinstance(target, TableAtoms):
        source = None if table is None else find_table(target)
        if table is None or source is None:
            return as_atoms(target, "target"), None
        target = encode_source(source, EncodingPlan(missing=missing, like=table.columns, called="target"))
    return target.atoms, target


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HerdSettings:
    """All that decides a run besides its data; saved with the result, so that it can go on."""

    kernel: Kernel  # with nothing left to choose
    candidates: tuple[int, ...]  # to draw of each label, or of all atoms
    held: int  # atoms of `start`: the first ids
    exclude: Ids
    balanced: bool
    weights: bool
    swap: bool
    evaluate: bool
    seed: int
    target: Fingerprint  # () if there is none
    by: str  # digest of the labels, "" if there are none
    row_weights: str  # digest, "" if there are none
    options: TableOptions = AS_USUAL  # how a table became atoms

    def to_json(self) -> dict[str, Any] | None:
        """Return JSON values; None for a kernel that is in no table, so cannot be made again."""
        name = getattr(self.kernel, "name", "")
        if KERNELS.get(name) is not type(self.kernel):
            return None
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "kernel": {"name": name} | self.kernel.to_json(),
            "exclude": self.exclude.tolist(),
            "target": [list(part.settle()) for part in self.target],
            "options": self.options.to_json(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> HerdSettings | None:
        """Return the settings of such values; ValueError or TypeError if they can be none."""
        if saved is None:
            return None
        kernel = dict(saved["kernel"])
        require(all(map(store.is_part, saved["target"])), "target", "a fingerprint", saved["target"])
        flags: dict[str, Any] = {name: flag(saved[name], name) for name in FLAGS}
        return cls(
            kernel=KERNELS.find(kernel.pop("name")).from_json(kernel),
            candidates=tuple(count(each, "candidates") for each in saved["candidates"]),
            held=count(saved["held"], "held"),
            exclude=ids(saved["exclude"], "exclude", sys.maxsize),
            **flags,
            seed=count(saved["seed"], "seed"),
            target=tuple(PartPrint(*part) for part in saved["target"]),
            by=str(saved["by"]),
            row_weights=str(saved["row_weights"]),
            options=TableOptions.from_json(saved["options"]),
        )


def check_start(n: int, m: int, start: ArrayLike | None, exclude: ArrayLike | None) -> tuple[Ids, Ids]:
    """Return the ids of `start` and `exclude`, with room for m atoms."""
    banned = ids([] if exclude is None else exclude, "exclude", n)
    chosen = ids([] if start is None else start, "start", n)
    both = np.intersect1d(chosen, banned)
    require(not len(both), "start", "none of `exclude`", f"atom {both.min(initial=n)} in both")
    size, left = count(m, "m", low=1), n - len(banned)
    rule = f"an integer in [1, {left}], the atoms there are" + (" without `exclude`" if len(banned) else "")
    require(size <= left, "m", rule, m)
    require(size > len(chosen), "m", f"more than the {len(chosen)} atoms of `start`", m)
    return chosen, banned


def seed_number(seed: int | np.random.Generator) -> int:
    """Return one integer that decides all: a run can then be repeated from a file."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return count(seed, "seed")


# ---------------------------------------------------------------- runs that can go on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """What a result keeps in memory to go on; pickled, it is None: atoms are not copied along."""

    data: HerdData

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m atoms; return the fields of the result."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Pickle as None."""
        return type(None), ()


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelSession(Session):
    """A run of kernel herding that can go on."""

    settings: HerdSettings
    ids: Ids  # atoms so far; before the first pick those of `start`
    herd: Herd | None = None  # their scores; None: made anew

    @classmethod
    def resume(
        cls, settings: HerdSettings, ids: Ids, made_from: Fingerprint, atoms: AtomsLike | None, **given: Any
    ) -> KernelSession:
        """Return the run of a loaded result; atoms and `given` are what `herd` was given."""
        if atoms is None:
            raise ValueError("`atoms` must be given: this result was loaded or pickled without them.")
        for name, value in given.items():
            if value is not None and not getattr(settings, name):
                _check_same(name, "given", "")
        if not isinstance(atoms, TableAtoms) and find_table(atoms) is None:
            # Before labels and weights are checked against other atoms. (Of a table, labels decide which
            # rows are kept.)
            sizes = HerdData.read(atoms, options=settings.options).fingerprint
            _check_same("atoms", [part.kind for part in sizes], [part.kind for part in made_from])
        data = HerdData.read(atoms, **given, options=settings.options)
        _check_same("atoms", data.fingerprint, made_from)
        exclude = to_places(data.table, settings.exclude, "exclude", strict=False)
        settings, ids = replace(settings, exclude=exclude), to_places(data.table, ids, "ids")
        for name, found in data.fingerprints().items():
            _check_same(name, found, getattr(settings, name))
        return cls(data=data, settings=settings, ids=ids)

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m atoms; return the fields of the result."""
        began = time.perf_counter()
        most = self.settings.held + sum(self.settings.candidates)
        size = count(m, "m", low=1)
        rule = f"more than the {len(self.ids)} atoms so far, at most the {most} candidates"
        require(len(self.ids) < size <= most, "m", rule, m)
        limits = Limits(seconds=max_seconds)
        if callback is not None:
            function(callback, "callback", "a function of a state")
        return self.run(size, limits, callback, began)

    def run(self, m: int, limits: Limits, callback: Callback | None, began: float) -> dict[str, Any]:
        """Pick until there are m atoms, weight and evaluate them; return the fields of `HerdResult`."""
        data, settings = self.data, self.settings
        tell = hear_rows(data.table, callback)
        herd, driven = run(
            self._gather, m, begun=self.ids, swap=settings.swap, limits=limits, callback=tell, began=began
        )
        weights = fit_weights(herd) if settings.weights else herd.equal_weights(herd.size)
        seconds = time_solving(began)
        quality = evaluate(
            data.atoms,
            herd.size,
            settings.exclude,
            partial(measure_herd, herd, data, weights) if settings.evaluate else None,
            rng=np.random.default_rng([settings.seed, _EVALUATION]),
            deadline=began + limits.seconds,
        )
        return quality._asdict() | {
            "ids": to_rows(data.table, herd.ids),
            "weights": weights,
            "seconds": seconds,
            "passes": driven.last.passes,
            "scored": driven.last.scored,
            "status": driven.status,
            "trace": Trace.of(driven.rows),
            "space": repr(settings.kernel),
            "labels": None if data.labels is None else data.labels.values[herd.ids],
            "fingerprint": data.fingerprint,
            "settings": replace(settings, exclude=to_rows(data.table, settings.exclude)),
            "table": None if data.table is None else data.table.report,
            "target_table": None if data.target_table is None else data.target_table.report,
            "session": replace(self, ids=herd.ids, herd=herd),
        }

    def _gather(self) -> Herd:
        """Make the set with the atoms so far, which embeds the mean; a set in memory is copied instead."""
        if self.herd is not None:
            return self.herd.copy()
        held = self.settings.held
        herd = Herd(gather(self.data, self.settings, self.ids[:held]), self.settings.kernel)
        return herd.replay(self.ids[held:]) if len(self.ids) > held else herd


def _check_same(name: str, given: object, wanted: object) -> None:
    if given != wanted:
        got = "other data" if given else "none"
        rule = "what the result was made from" if wanted else "left out, as it was when the result was made"
        raise store.StoreError(f"`{name}` must be {rule}. Got {got}.")


# ---------------------------------------------------------------- candidates


def gather(data: HerdData, settings: HerdSettings, start: Ids) -> Candidates:
    """Draw candidates and embed the mean that they are to match, with the atoms that are chosen already."""
    held_rows = finite_rows(data.atoms, start)
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
    found, used, read = [], [whole.base_ids], 0.0
    for label, (part, members) in enumerate(zip(parts, labels.members, strict=True)):
        ku[starts[label] : starts[label + 1]] += wanted[label] * part.ku
        mine = np.isin(start, members)
        owners[mine] = label
        held_ku[mine] += wanted[label] * part.at(held_rows[mine])
        found.append(members[part.ids])
        used += [found[-1], members[part.base_ids]]
        read += part.passes * len(members)
    return Candidates(
        ids=np.concatenate(found),
        rows=rows,
        ku=ku,
        square=whole.mean.square + float(wanted**2 @ [part.mean.square for part in parts]),
        starts=starts,
        held=Held(start, held_rows, owners, held_ku),
        embeddings=parts,
        shares=labels.shares,
        used=np.unique(np.concatenate(used)),
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
        part = embed(
            FewAtoms(data.atoms, members),
            settings.kernel,
            count=settings.candidates[label],
            features=features or FEATURES,
            row_weights=None if weights is None else weights[members],
            exclude=np.flatnonzero(closed[members]),
            rng=np.random.default_rng([settings.seed, label]),
        )
        parts.append(part)
        features = features or part.features
    if settings.balanced and not settings.kernel.centred:
        weights = labels.balance(weights)
    whole = embed(
        data.atoms,
        settings.kernel,
        count=1,
        features=features or FEATURES,
        row_weights=weights,
        rng=np.random.default_rng([settings.seed, len(parts)]),
    )
    return tuple(parts), whole, features or whole.features


# ---------------------------------------------------------------- weights


def fit_weights(herd: Herd) -> Vector:
    """(size,) weights: each label has its share, divided as it fits best in the kernel."""
    rows, shares, embeddings = herd.rows, herd.candidates.shares, herd.candidates.embeddings
    if len(shares) == 1:
        out = corral.solve(herd.kernel.gram(rows, rows), embeddings[0].at(rows))
        return np.asarray(out / out.sum())
    order = np.argsort(herd.labels, kind="stable")
    start, labels, rows = herd.equal_weights(herd.size)[order], herd.labels[order], rows[order]
    ends = np.cumsum(np.bincount(labels, minlength=len(shares)))
    at = np.array([embedding.at(rows) for embedding in embeddings])
    # Until each label has a row, the shares of the others are larger: those of the weights.
    reached = np.bincount(labels, weights=start, minlength=len(shares))
    own = reached[labels] * at[labels, np.arange(herd.size)]
    blocks = [slice(first, end) for first, end in pairwise([0, *ends.tolist()]) if end > first]
    gram, out = herd.kernel.gram(rows, rows).astype(np.float64, copy=False), np.empty(herd.size)
    out[order] = fit_jointly(gram, shares @ at, own, blocks, start)
    return np.asarray(out / out.sum())


def measure_herd(
    herd: Herd, data: HerdData, weights: Vector, sizes: Ints, rng: np.random.Generator
) -> Measured:
    """Measure a herd of a kernel at some sizes; with labels, within each that has an atom as well."""
    reference, words = choose_reference(herd.candidates, data, herd.kernel, HELD_OUT, rng)
    rows, labels, within = herd.rows, herd.labels, None
    if data.labels is None:
        curve = reference.curve(rows)[sizes - 1]
    else:
        curve = np.array([reference.mmd(rows[:size], herd.equal_weights(int(size))) for size in sizes])
        squares = []
        for label in np.unique(labels).tolist():
            mine = labels == label
            embedding, share = herd.candidates.embeddings[label], weights[mine] / weights[mine].sum()
            own = share @ self_sums(herd.kernel, rows[mine], share, single=False)
            squares.append(own - 2.0 * share @ embedding.at(rows[mine]) + embedding.mean.square)
        within = np.sqrt(np.maximum(squares, 0.0))
    plain = data.labels is None and bool((weights == weights[0]).all())
    return Measured(
        words=words if data.target is None else words.replace(" rows", " rows of the target"),
        mmd=float(curve[-1]) if plain else reference.mmd(rows, weights),
        curve=curve,
        mmd_by=within,
        ruler=lambda other: reference.curve(other)[sizes - 1],
    )


def choose_reference(
    candidates: Candidates, data: HerdData, kernel: Kernel, count: int, rng: np.random.Generator
) -> tuple[Reference, str]:
    """Return what a herd is measured on, and what that is in words.

    The density of a centred kernel; all rows where their mean embedding is known, or is
    quickly computed; else `count` held-out rows that are calibrated, for kernels that
    have features.
    """
    target = data.atoms if data.target is None else data.target
    n, features = target.shape[0], candidates.features
    parts = list(zip(candidates.embeddings, candidates.shares, strict=True))
    if kernel.centred:
        return Reference.of(candidates.rows[:1], kernel), "the density itself (exact)"
    rows = np.concatenate([each.mean.rows for each, _ in parts])
    if all(each.mean.exact for each, _ in parts) and (len(parts) == 1 or len(rows) <= count):
        words = f"all {n:,} rows (exact)"
        if len(parts) == 1 and len(rows) > 1:
            return parts[0][0].mean, words
        # Few rows: a shift to their mean may save digits.
        weights = np.concatenate([share * each.mean.weights for each, share in parts])
        return Reference.of(rows, kernel, weights=weights, exact=True), words
    if features is None:
        options = {"count": count, "row_weights": data.row_weights, "exclude": candidates.used}
        drawn = Reference.draw(target, kernel, **options, rng=rng)  # type: ignore[arg-type]
        return drawn, f"all {n:,} rows (exact)" if drawn.exact else f"{len(drawn.rows):,} rows drawn"
    ids, fresh = draw_held_out(n, count, candidates.used, data.row_weights, rng)
    # The mean of the features over the target: the calibrated rows have it, up to their ridge.
    mean = np.asarray(sum(share * (each.mean.weights @ features(each.mean.rows)) for each, share in parts))
    halves = [finite_rows(target, half) for half in np.array_split(rng.permutation(ids), 2)]
    ones, twos = (calibrate(features, half, mean, np.full(len(half), 1.0 / len(half))) for half in halves)
    square = float(ones @ kernel_sums(kernel, halves[0], halves[1], twos))
    both = Reference(np.concatenate(halves), kernel, 0.5 * np.concatenate([ones, twos]), square, False)
    return both, f"{len(ids):,} rows {'held out' if fresh else 'drawn, also candidates'}, calibrated"
