"""Candidates to pick from, and the means that the picks are to match at each of them."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from wolfhound.core import Ids, Ints, Matrix, Vector
from wolfhound.herding.draw import take_rows
from wolfhound.herding.embedding import FEATURES, Embedding, embed
from wolfhound.herding.kernels.features import Features
from wolfhound.herding.labels import LabelAtoms, Labels
from wolfhound.herding.settings import HerdData, HerdSettings


class Held(NamedTuple):
    """Atoms that are chosen already, none of them a candidate.

    Attributes
    ----------
    ids, rows : (r,), (r, d)
    labels : (r,) int64
        0 without labels.
    ku : (r,)
        The mean to be matched there.
    """

    ids: Ids
    rows: Matrix
    labels: Ints
    ku: Vector


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Candidates, and the mean to be matched at each of them.

    With labels the kernel is ``k(x, y) (1 + [same label])``: what is matched is the mean
    of all rows and that of each label at once. Each label on its own would choose
    the middle of its rows first, and few rows of many labels would all lie there.

    Attributes
    ----------
    ids, rows : (c,), (c, d)
        The candidates, those of one label after those of another.
    ku : (c,)
        <mu, k(c, .)>, with labels in the kernel with labels.
    square : float
        |mu|^2 in the same kernel.
    starts : (labels + 1,)
        Where the candidates of each label begin, and the end.
    held : Held
        Atoms that are chosen already.
    embeddings : tuple of Embedding
        Of each label; one of all atoms.
    shares : (labels,)
        Of the labels; sum 1.
    used : (u,) int64
        Ids in the target that the embeddings used, ascending.
    features : Features, optional
        That the embeddings were calibrated by, if they were.
    passes, scored : float, int
        Passes that the embeddings took, and atoms that they scored.
    balanced : bool
        Whether all labels are to have as many rows.
    same : float
        What k is multiplied by for rows of one label: 2; without labels 1.
    """

    ids: Ids
    rows: Matrix
    ku: Vector
    square: float
    starts: Ints
    held: Held
    embeddings: tuple[Embedding, ...]
    shares: Vector
    used: Ids
    features: Features | None
    passes: float
    scored: int
    balanced: bool = False
    same: float = 1.0

    @classmethod
    def of(cls, embedding: Embedding, held_ids: Ids, held_rows: Matrix, *, used: Ids) -> Candidates:
        """Return the candidates of one embedding, without labels."""
        labels = np.zeros(len(held_ids), np.int64)
        return cls(
            ids=embedding.ids,
            rows=embedding.rows,
            ku=embedding.ku,
            square=embedding.square,
            starts=np.array([0, len(embedding.ids)]),
            held=Held(held_ids, held_rows, labels, embedding.at(held_rows)),
            embeddings=(embedding,),
            shares=np.ones(1),
            used=used,
            features=embedding.features,
            passes=embedding.passes,
            scored=embedding.scored,
        )

    def label(self, places: Sequence[int] | int) -> Ints:
        """Labels of some candidates."""
        return np.searchsorted(self.starts, places, side="right") - 1


def gather(data: HerdData, settings: HerdSettings, start: Ids) -> Candidates:
    """Draw candidates and embed the mean that they are to match.

    Parameters
    ----------
    data, settings
        What decides the run.
    start : (r,)
        Atoms that are chosen already.
    """
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
