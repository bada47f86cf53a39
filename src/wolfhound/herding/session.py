"""A run of kernel herding that can go on: candidates, picks, weights, and what they are worth."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from wolfhound import store
from wolfhound.atoms import Fingerprint, as_atoms, fingerprint
from wolfhound.core import Atoms, AtomsLike, Ids, Progress
from wolfhound.herding.candidates import gather
from wolfhound.herding.evaluation import evaluate, measure_herd, skip_evaluation
from wolfhound.herding.greedy import Herd, fit_weights, run
from wolfhound.herding.settings import HerdData, HerdSettings
from wolfhound.result import Trace
from wolfhound.solve import Limits
from wolfhound.validate import count, function, require

Callback: TypeAlias = Callable[[Progress], bool | None]

_EVALUATION = 1 << 20  # second word of the seed of an evaluation; embeddings have the number of their label


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelSession:
    """A run of kernel herding that can go on; pickled, it is None: atoms are not copied along.

    Attributes
    ----------
    data, settings
        What decides it.
    ids : (k,)
        Atoms so far; before the first pick those of `start`.
    herd : Herd, optional
        Their scores; None: made anew.
    """

    data: HerdData
    settings: HerdSettings
    ids: Ids
    herd: Herd | None = None

    @property
    def atoms(self) -> Atoms:
        """What was herded."""
        return self.data.atoms

    def extend(self, m: int, *, max_seconds: float, callback: Callback | None) -> dict[str, Any]:
        """Go on to m atoms; return the fields of the result."""
        began = time.perf_counter()
        most = self.settings.held + sum(self.settings.candidates)
        size = count(m, "m", low=1)
        rule = f"more than the {len(self.ids)} atoms so far, at most the {most} candidates"
        require(len(self.ids) < size <= most, "m", rule, m)
        return self.run(size, Limits(seconds=max_seconds), callback, began)

    def run(self, m: int, limits: Limits, callback: Callback | None, began: float) -> dict[str, Any]:
        """Pick until there are m atoms, weight and evaluate them; return the fields of `HerdResult`.

        Parameters
        ----------
        m
            Atoms in all.
        limits, callback, began
            As for `drive`.
        """
        if callback is not None:
            function(callback, "callback", "a function of a state")
        data, settings = self.data, self.settings
        herd, driven = run(
            self._gather, m, begun=self.ids, swap=settings.swap, limits=limits, callback=callback, began=began
        )
        weights = fit_weights(herd, settings.kernel) if settings.weights else herd.equal_weights(herd.size)
        seconds = time.perf_counter() - began
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
            "ids": herd.ids,
            "weights": weights,
            "seconds": seconds,
            "passes": driven.last.passes,
            "scored": driven.last.scored,
            "status": driven.status,
            "trace": Trace.of(driven.rows),
            "space": repr(settings.kernel),
            "labels": None if data.labels is None else data.labels.values[herd.ids],
            "fingerprint": fingerprint(data.atoms),
            "settings": settings,
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


def forget() -> None:
    """Stand for what is not pickled."""


def resume(
    settings: HerdSettings, ids: Ids, made_from: Fingerprint, atoms: AtomsLike | None, **given: Any
) -> KernelSession:
    """Return the run of a loaded result, given again what it was made from.

    Parameters
    ----------
    settings, ids, made_from
        Of the result; the last is the fingerprint of its atoms.
    atoms, given
        What `herd` was given: the arguments of `HerdData.of`.
    """
    if atoms is None:
        raise ValueError("`atoms` must be given: this result was loaded or pickled without them.")
    known = as_atoms(atoms)
    _check_same("atoms", fingerprint(known), made_from)
    for name, value in given.items():
        if value is not None and not getattr(settings, name):
            _check_same(name, "given", "")
    data = HerdData.of(known, **given)
    for name, found in data.fingerprints().items():
        _check_same(name, found, getattr(settings, name))
    return KernelSession(data=data, settings=settings, ids=ids)


def _check_same(name: str, given: Fingerprint | str, wanted: Fingerprint | str) -> None:
    if given != wanted:
        got = "other data" if given else "none"
        rule = "what the result was made from" if wanted else "left out, as it was when the result was made"
        raise store.StoreError(f"`{name}` must be {rule}. Got {got}.")
