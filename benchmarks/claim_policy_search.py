"""Claim: an index answers a batch of critic gradients far faster than any exact search.

Directions are gradients of a critic in the action, of an agent (`SFWPO`) that was trained
for a short while on a feed of these very items, at the observations of episodes of fresh
users; points are the actor's. The actions are unit vectors in d = 64: at 1e5, GloVe words (glove100) on
their first 64 principal axes; at 1e6, as there are 341,479 words, made-up phrases, the sums of two
random words each. A million real items may be spread otherwise: more clustered ones help an index.

Protocol: one thread. Batches of 256 directions. The gap ratio of an answer is <direction, atom -
point> / (the best atom's), where that is positive. Exact rivals: products of matrices in blocks
of 512 to 16,384 atoms with their maxima, `Scan`, `Int8Scan` (certified code scan), faiss
IndexFlatIP; the fastest of them counts. Our side is `ActionSet.argmax` with ClusterIndex, LshIndex or
FaissIndex(IvfPq), and its cache of past winners, warmed by earlier batches with its own answers.
Settings (clusters or lists, budget or probes, size of the cache) are swept on some batches; the
fastest that reaches a mean ratio of 0.9 there, with a margin of 0.005 (the eight that seem fastest are
timed again, taking turns), is measured on fresh batches,
interleaved with the exact rivals; medians, ours over all fresh batches in turn, with the least and the
most of the rounds. The index that is chosen is built three times anew: median, least and most seconds,
and the number of batches from which on its build has paid against the fastest exact search. Reported beside
it, on the same batches and with as large a cache of past winners: fresh random samples of 100, 200, 1,000 and
n/20 atoms in the place of the index, and one of 1,000 beside it. End to end: ms
per update (batch 256) of two agents that learn from the same seed, one with Int8Scan in its action
set, one with the chosen index, taking turns.

Thresholds: mean gap ratio at least 0.9 on fresh batches; at least 8 times faster than the fastest
exact search at n = 1e5, 40 times at 1e6; end to end at 1e6 at least 10 times per update.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import data
import faiss as untyped_faiss
import faissed
import numpy as np
import ways
from copies import Copies
from feed.environment import BatchedFeed, Feed, feed_features
from reference import Matrix, Vector
from rig import Claim, held_threads, interleave

import wolfhound
from wolfhound.core.contracts import Ids, Oracle
from wolfhound.policy import SFWPO, ActionSet, Settings

faiss: Any = untyped_faiss

BATCH = 256
WANTED = 0.9
MARGIN = 0.005
CACHES = (256, 512, 1024)
FASTER = {100_000: 8.0, 1_000_000: 40.0}
END_TO_END = 10.0
FINALISTS = 8
BUILDS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """How large everything is."""

    n: int
    dim: int
    steps: int
    batches: int
    updates: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Batches of directions and points; `best` are the exact gaps."""

    directions: list[Matrix]
    points: list[Matrix]
    best: list[Vector]


@dataclass(frozen=True, slots=True)
class Setting:
    """An oracle with parameters, and a size of the cache.

    Attributes
    ----------
    build, make : callable
        Build the index anew; give the one that is built its parameters.
    """

    family: str
    parameters: str
    build: Callable[[], Oracle]
    make: Callable[[], Oracle]
    cache: int

    def actions(self, atoms: Matrix) -> ActionSet:
        return ActionSet(atoms, oracle=self.make(), cache=self.cache)

    def __str__(self) -> str:
        return f"{self.family}, {self.parameters}, cache {self.cache}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the claim; return the exit code."""
    claim = Claim(__file__, __doc__, argv, repeats=7)
    sizes = [Size(n, 64, 2000, 60, 40) for n in FASTER]
    for size in [Size(3000, 16, 900, 8, 4)] if claim.options.tiny else sizes:
        if claim.wants(f"{size.n:.0e}"):
            with held_threads(claim.options.threads):
                judge(claim, size)
    return claim.finish()


def judge(claim: Claim, size: Size) -> None:
    """Train, collect gradients, sweep, measure; add rows and checks."""
    feed = Feed.build(items(size, claim.options.tiny), users=20_000)
    atoms = feed.atoms
    claim.say(f"n {size.n}: training")
    asked = gradients(feed, size)
    half = size.batches // 3
    tuning = (slice(0, half), slice(half, 2 * half))
    fresh = (slice(half, 2 * half), slice(2 * half, None))
    chosen = tuned(claim, size, atoms, asked, tuning)
    actions = chosen.actions(atoms)
    ratios, _ = warmed(actions, asked, *fresh)
    calls: dict[str, Callable[[], Any]] = {
        name: functools.partial(search, asked.directions[-1])
        for name, search in exact_searches(atoms).items()
    }
    calls["ours"] = lambda: one_by_one(actions, asked, fresh[1])
    timed = interleave(calls, repeats=claim.options.repeats)
    rounds = {name: [1e3 * spent for spent in timed[name].seconds] for name in calls}
    rounds["ours"] = [1e3 * spent for spent in timed["ours"].answers]
    milliseconds = {name: float(np.median(each)) for name, each in rounds.items()}
    for name, each in milliseconds.items():
        exact = name != "ours"
        claim.row(
            n=size.n,
            search=name if exact else str(chosen),
            ms=each,
            ms_least=min(rounds[name]),
            ms_most=max(rounds[name]),
            faster=each / milliseconds["ours"],
            gap_ratio=1.0 if exact else float(ratios.mean()),
            ratio_p5=1.0 if exact else float(np.quantile(ratios, 0.05)),
        )
    blocked = timed["product, blocks of 512"].last[1]
    agree = float((timed["Int8Scan"].last.ids[:, 0] == blocked).mean())
    claim.at_least(f"n {size.n:,}: share of equal answers of product and Int8Scan", agree, 0.98)
    fastest = min(set(calls) - {"ours"}, key=milliseconds.__getitem__)
    claim.at_least(f"n {size.n:,}: mean gap ratio", float(ratios.mean()), WANTED, full_size=True)
    claim.at_least(
        f"n {size.n:,}: times faster than {fastest}",
        milliseconds[fastest] / milliseconds["ours"],
        FASTER.get(size.n, 0.0),
        full_size=True,
    )
    report_samples(claim, atoms, asked, chosen, fresh)
    report_build(claim, size, chosen, (milliseconds[fastest] - milliseconds["ours"]) / 1e3)
    judge_updates(claim, size, feed, chosen)


def report_samples(
    claim: Claim, atoms: Matrix, asked: Asked, chosen: Setting, parts: tuple[slice, slice]
) -> None:
    """Past winners with a random sample instead of the index, or beside it."""
    rivals: dict[str, Oracle] = {
        f"random {label}": wolfhound.RandomSubset(atoms, size=min(many or len(atoms) // 20, len(atoms)))
        for label, many in ways.SIZES.items()
    }
    joined = [chosen.make(), wolfhound.RandomSubset(atoms, size=min(1000, len(atoms)))]
    for name, oracle in (rivals | {f"{chosen}, and random 1,000": Copies(joined)}).items():
        ratios, seconds = warmed(ActionSet(atoms, oracle=oracle, cache=chosen.cache), asked, *parts)
        claim.row(
            n=len(atoms),
            sample=name,
            ms=1e3 * seconds,
            gap_ratio=float(ratios.mean()),
            ratio_p5=float(np.quantile(ratios, 0.05)),
        )


def report_build(claim: Claim, size: Size, chosen: Setting, gain: float) -> None:
    """Build the chosen index anew; `gain` is the seconds that it saves per batch."""
    timed = interleave({"": chosen.build}, repeats=1 if claim.options.tiny else BUILDS)[""]
    claim.row(
        n=size.n,
        build_of=str(chosen),
        build_seconds=timed.median,
        build_least=min(timed.seconds),
        build_most=max(timed.seconds),
        pays_from_batches=timed.median / gain if gain > 0.0 else None,
    )


# ---------------------------------------------------------------- items and gradients


def items(size: Size, tiny: bool) -> Matrix:
    """Unit vectors: words on their principal axes, or phrases where there are too few words."""
    if tiny:
        return data.mixture(size.n, size.dim, clusters=20)
    rng = np.random.default_rng(0)
    words = data.load("glove100")
    words = words - words.mean(axis=0)
    sample = words[rng.permutation(len(words))[:20_000]].astype(np.float64)
    axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, : size.dim].astype(np.float32)
    short = words @ axes
    if size.n <= len(short):
        return np.ascontiguousarray(short[rng.permutation(len(short))[: size.n]])
    pairs = rng.integers(len(short), size=(2, size.n))
    phrases: Matrix = short[pairs[0]] + short[pairs[1]]
    return phrases


def agent_of(feed: Feed, actions: ActionSet) -> SFWPO:
    """An agent whose updates take batches as large as those that are timed."""
    settings = Settings(batch_size=BATCH, learning_starts=320)
    return SFWPO(BatchedFeed(feed, 16), actions, settings=settings, critic_features=feed_features)


def gradients(feed: Feed, size: Size) -> Asked:
    """Gradients of a trained critic at observations of fresh users, in random order, with the exact gaps."""
    atoms = feed.atoms
    agent = agent_of(feed, ActionSet(atoms, oracle=wolfhound.ClusterIndex.build(atoms)))
    agent.learn(size.steps)
    env = BatchedFeed(feed.fresh(users=5000, seed=1), BATCH, seed=1)
    parts = list(_seen(agent, env, size.batches))
    directions, points = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.random.default_rng(0).permutation(len(directions))
    exact = wolfhound.Int8Scan.build(atoms)
    groups = np.array_split(order, len(order) // BATCH)[: size.batches]
    best = [
        exact.query(directions[group]).scores[:, 0] - np.einsum("ij,ij->i", directions[group], points[group])
        for group in groups
    ]
    return Asked([directions[group] for group in groups], [points[group] for group in groups], best)


def _seen(agent: SFWPO, env: BatchedFeed, batches: int) -> Iterator[tuple[Matrix, Matrix]]:
    """What updates would ask along episodes, as many as are wanted."""
    obs = env.reset()
    for _ in range(batches):
        yield agent.directions(obs)
        obs, _, over = env.step(agent.predict(obs)[0])
        obs = env.reset() if over else obs


def warmed(actions: ActionSet, asked: Asked, before: slice, after: slice) -> tuple[Vector, float]:
    """Gap ratios on some batches, past winners coming from others; median seconds per batch."""
    for directions in asked.directions[before]:
        actions.argmax(directions)
    ratios, seconds = [], []
    for directions, points, best in zip(
        asked.directions[after], asked.points[after], asked.best[after], strict=True
    ):
        begin = time.perf_counter()
        gaps = actions.argmax(directions, points=points).gaps
        seconds.append(time.perf_counter() - begin)
        ratios.append(gaps[best > 0.0] / best[best > 0.0])
    return np.concatenate(ratios), float(np.median(seconds))


def one_by_one(actions: ActionSet, asked: Asked, which: slice) -> float:
    """Median seconds per batch; batches differ, so nothing stays in the processor's caches."""
    return warmed(actions, asked, slice(0, 0), which)[1]


# ---------------------------------------------------------------- searches


def exact_searches(atoms: Matrix) -> dict[str, Callable[[Matrix], Any]]:
    """All exact ways to answer a batch, by name."""
    flat = faiss.IndexFlatIP(atoms.shape[1])
    flat.add(atoms)
    out: dict[str, Callable[[Matrix], Any]] = {
        f"product, blocks of {rows}": functools.partial(_blocked, atoms, rows)
        for rows in (512, 1024, 4096, 16_384)
    }
    out["Scan"] = wolfhound.Scan(atoms).query
    out["Int8Scan"] = wolfhound.Int8Scan.build(atoms).query
    out["faiss IndexFlatIP"] = lambda directions: flat.search(directions, 1)
    return out


def _blocked(atoms: Matrix, rows: int, directions: Matrix) -> tuple[Matrix, Ids]:
    """Best scores and ids by matrix products, a block of atoms at a time."""
    every = np.arange(len(directions))
    best = np.full(len(directions), -np.inf, atoms.dtype)
    ids = np.zeros(len(directions), np.int64)
    for first in range(0, len(atoms), rows):
        scores = directions @ atoms[first : first + rows].T
        place = scores.argmax(axis=1)
        found = scores[every, place]
        better = found > best
        best[better], ids[better] = found[better], first + place[better]
    return best, ids


def settings(atoms: Matrix, tiny: bool) -> Iterator[Setting]:
    """Everything that is swept, built as it is asked for; a tiny run takes one of each index."""
    root, caches = len(atoms) ** 0.5, CACHES[:1] if tiny else CACHES
    make: Callable[[], Oracle]
    for many in (1.0,) if tiny else (0.5, 0.7, 1.0, 1.4):
        build = functools.partial(wolfhound.ClusterIndex.build, atoms, clusters=round(many * root))
        index = build()
        for factor in (2.0,) if tiny else (0.7, 1.0, 1.4, 1.7, 2.0, 2.4, 2.8):
            told = f"{many:g} sqrt(n) clusters, budget {factor:g} sqrt(n)"
            make = functools.partial(index.with_budget, round(factor * root))
            for cache in caches:
                yield Setting("ClusterIndex", told, build, make, cache)
    hash_all = functools.partial(wolfhound.LshIndex.build, atoms)
    hashed = hash_all()
    for factor in (2.0,) if tiny else (1.0, 2.0, 4.0):
        make = functools.partial(hashed.with_budget, round(factor * root))
        for cache in caches:
            yield Setting("LshIndex", f"budget {factor:g} sqrt(n)", hash_all, make, cache)
    for many in (1.0,) if tiny else (0.25, 0.5, 1.0):
        learn = functools.partial(faissed.build_ivf_pq, atoms, round(many * root))
        base = learn()
        for probes, rerank in ((2, 4),) if tiny else itertools.product((1, 2, 3), (4, 8)):
            told = f"{many:g} sqrt(n) lists, {probes} probes, re-rank {rerank}"
            make = functools.partial(_probing, base, atoms, probes, rerank)
            for cache in caches:
                yield Setting("FaissIndex IvfPq", told, learn, make, cache)


def _probing(base: Any, atoms: Matrix, probes: int, rerank: int) -> Oracle:
    """The same lists with other probes: faiss keeps their number in the index itself."""
    base.nprobe = min(probes, base.nlist)
    return wolfhound.FaissIndex(base, atoms, rerank=rerank)


def tuned(claim: Claim, size: Size, atoms: Matrix, asked: Asked, parts: tuple[slice, slice]) -> Setting:
    """The fastest setting that reaches the wanted ratio, with a margin, on the tuning batches."""
    good: list[tuple[float, Setting]] = []
    fallback: tuple[float, Setting] | None = None
    for setting in settings(atoms, claim.options.tiny):
        actions = setting.actions(atoms)
        ratios, cost = warmed(actions, asked, *parts)
        cost, ratio = min(cost, one_by_one(actions, asked, parts[1])), float(ratios.mean())
        claim.say(f"n {size.n} {setting}: ratio {ratio:.3f}, {1e3 * cost:.2f} ms")
        if fallback is None or ratio > fallback[0]:
            fallback = (ratio, setting)
        if ratio >= WANTED + MARGIN:
            good.append((cost, setting))
    if good:
        return quickest(atoms, asked, sorted(good, key=lambda each: each[0])[:FINALISTS], parts)
    if fallback is None:
        raise RuntimeError("nothing was swept")
    return fallback[1]


def quickest(
    atoms: Matrix, asked: Asked, good: Sequence[tuple[float, Setting]], parts: tuple[slice, slice]
) -> Setting:
    """Of the settings that seemed fastest in the sweep the one that is, taking turns."""
    calls: dict[str, Callable[[], float]] = {}
    for place, (_, setting) in enumerate(good):
        actions = setting.actions(atoms)
        warmed(actions, asked, *parts)
        calls[str(place)] = functools.partial(one_by_one, actions, asked, parts[1])
    timed = interleave(calls, repeats=7)
    return good[int(min(calls, key=lambda place: float(np.median(timed[place].answers))))][1]


# ---------------------------------------------------------------- end to end


def judge_updates(claim: Claim, size: Size, feed: Feed, chosen: Setting) -> None:
    """Ms per update of two agents that take turns, one exact and one indexed."""
    sets = {
        "Int8Scan": ActionSet(feed.atoms, oracle=wolfhound.Int8Scan.build(feed.atoms)),
        str(chosen): chosen.actions(feed.atoms),
    }
    agents = {name: agent_of(feed, actions) for name, actions in sets.items()}
    for agent in agents.values():
        agent.learn(400)  # past the random beginning
    spent: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(max(2, claim.options.repeats // 2)):
        for name, agent in agents.items():
            before = agent.stats
            agent.learn(4 * size.updates, reset_num_timesteps=False)
            after = agent.stats
            taken = after.ms_per_update * after.updates - before.ms_per_update * before.updates
            spent[name].append(taken / (after.updates - before.updates))
    medians = {name: float(np.median(each)) for name, each in spent.items()}
    for name, each in medians.items():
        claim.row(n=size.n, update_with=name, ms_per_update=each, faster=each / medians[str(chosen)])
    if claim.options.tiny or size.n == max(FASTER):
        claim.at_least(
            f"n {size.n:,}: times faster per update",
            medians["Int8Scan"] / medians[str(chosen)],
            END_TO_END,
            full_size=True,
        )


if __name__ == "__main__":
    sys.exit(main())
