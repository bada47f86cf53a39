"""ItemFeed: a feed that shows items, or mixtures of them, to users who change.

The dynamics, for many users at once, and the features that a critic of it
needs. Knows numpy only: neither gymnasium nor how an action is chosen.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfhound.core.contracts import AtomsLike, Vector
from wolfhound.core.threads import one_blas_thread
from wolfhound.core.validate import count, kind, number, real_array, require, rng, singles, within
from wolfhound.data.atoms import as_atoms, block_rows, check_finite
from wolfhound.data.shipped import words
from wolfhound.policy.actions import Rows

ArrayT = TypeVar("ArrayT")

ROUNDING = 1e-5  # by which the float32 sum of a mixture of unit atoms may leave the unit ball
_UNIT = 1e-6  # rows whose norms are this close to 1 are used as they are
_SCALE = 3.0  # of inner products of long vectors, which are small


# ---------------------------------------------------------------- the dynamics


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedParameters:
    """The constants of the feed.

    Parameters
    ----------
    beta
        What a broad mixture is worth: ``beta (1 - |a|^2)``.
    phi
        What it costs to show again what was shown lately.
    alpha
        How well clickbait pays at once.
    eta
        How fast a taste follows what is shown, and tires of it.
    rho
        How long a user remembers what was shown.
    delta
        How slowly a mood changes.
    kappa
        How much clickbait spoils the mood.
    sigma
        How much a taste drifts by chance.
    horizon
        Steps after which an episode is cut off. A cut, not an end: the value of
        the last state is not zero.
    """

    beta: float = 0.15
    phi: float = 0.6
    alpha: float = 0.5
    eta: float = 0.15
    rho: float = 0.8
    delta: float = 0.85
    kappa: float = 6.0
    sigma: float = 0.02
    horizon: int = 30

    def __post_init__(self) -> None:
        for name in ("beta", "phi", "alpha", "eta", "kappa", "sigma"):
            value = number(getattr(self, name), name, low=0.0)
            require(value < np.inf, name, "finite", value)
        for name in ("rho", "delta"):
            within(getattr(self, name), name, "[0, 1]")
        count(self.horizon, "horizon", low=1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Feed:
    """A feed: items, its users, and how they change.

    An action a is an item or a mixture of items, a point of the hull of the
    unit atoms. A user has a taste u (unit), a fatigue f and a mood m in [0, 1];
    an observation is ``[u, f, m]``. With w the clickbait axis, showing a earns::

        r  = m (<u, a> + alpha <w, a>) + beta (1 - |a|^2) - phi <f, a>

        u' = (u + eta max(<u, a>, 0) a - eta/2 f + sigma xi), normalised
        f' = rho f + (1 - rho) a
        m' = delta m + (1 - delta) / (1 + exp(kappa <w, a> - 1))

    with xi standard normal. Clickbait pays at once and spoils the mood, what is
    liked tires, and a mixture is worth more than an item: neither the item of
    largest <u, a> nor any single item is optimal.

    Parameters
    ----------
    atoms : (n, d) float32
        The items, of norm 1; see `normalise`.
    users : (k, d) float32
        The tastes that episodes begin with, of norm 1.
    axis : (d,) float32
        w.
    parameters
        The constants.
    """

    atoms: Rows
    users: Rows
    axis: Rows
    parameters: FeedParameters = FeedParameters()

    @classmethod
    def build(
        cls,
        atoms: AtomsLike | None = None,
        *,
        users: int = 20_000,
        seed: int = 0,
        parameters: FeedParameters | None = None,
    ) -> Feed:
        """Make a feed of any atoms.

        Parameters
        ----------
        atoms
            Anything that `minimize` takes; rows are divided by their norms.
            Default: the shipped words.
        users
            How many; each is the normalised sum of two random atoms.
        seed
            Of the users.
        parameters
            The constants.
        """
        rows = _words() if atoms is None else normalise(atoms)
        chosen = FeedParameters() if parameters is None else parameters
        kind(chosen, "parameters", "FeedParameters(...)", FeedParameters)
        return cls(rows, draw_users(rows, users, seed=seed), clickbait_axis(rows), chosen)

    def fresh(self, *, users: int = 20_000, seed: int) -> Feed:
        """Return the same feed for other users: to test what was learned."""
        return Feed(self.atoms, draw_users(self.atoms, users, seed=seed), self.axis, self.parameters)

    @property
    def dim(self) -> int:
        """Numbers in an action: d."""
        return int(self.atoms.shape[1])

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation: 2 d + 1."""
        return 2 * self.dim + 1

    def start(self, size: int, seed: int | np.random.Generator) -> Rows:
        """Draw `size` users, rested and in the best of moods; give their observations."""
        obs = np.zeros((count(size, "size", low=1), self.obs_dim), np.float32)
        obs[:, : self.dim] = self.users[rng(seed).integers(len(self.users), size=size)]
        obs[:, -1] = 1.0
        return obs

    def split(self, obs: Rows) -> tuple[Rows, Rows, Rows]:
        """Return taste (B, d), fatigue (B, d) and mood (B,)."""
        return obs[:, : self.dim], obs[:, self.dim : 2 * self.dim], obs[:, -1]

    def reward(self, obs: Rows, actions: Rows) -> Rows:
        """(B,) rewards of showing these to them."""
        p = self.parameters
        taste, fatigue, mood = self.split(obs)
        liked = _dot(taste, actions) + p.alpha * self._tempt(actions)
        broad = 1.0 - _dot(actions, actions)
        return np.asarray(mood * liked + p.beta * broad - p.phi * _dot(fatigue, actions))

    def _tempt(self, actions: Rows) -> Rows:
        """<w, a> of every action."""
        # Of short float32 rows BLAS may raise the flag for what lies beside them in a register.
        with np.errstate(invalid="ignore"):
            return np.asarray(actions @ self.axis)

    def step(self, obs: Rows, actions: Rows, seed: int | np.random.Generator) -> tuple[Rows, Rows]:
        """Show `actions` to the users of `obs`: (next observations, rewards)."""
        p = self.parameters
        taste, fatigue, mood = self.split(obs)
        noise = rng(seed).standard_normal(taste.shape, dtype=np.float32)
        pull = p.eta * np.maximum(_dot(taste, actions), 0.0)
        moved = taste + pull[:, None] * actions - 0.5 * p.eta * fatigue + p.sigma * noise
        after = np.empty_like(obs)
        after[:, : self.dim] = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
        after[:, self.dim : 2 * self.dim] = p.rho * fatigue + (1.0 - p.rho) * actions
        # 1/(1 + e^x), which cannot overflow in this form.
        calm = 0.5 - 0.5 * np.tanh(0.5 * (p.kappa * self._tempt(actions) - 1.0))
        after[:, -1] = p.delta * mood + (1.0 - p.delta) * calm
        return after, self.reward(obs, actions)

    def __repr__(self) -> str:
        """Sizes, not the rows."""
        n, d = self.atoms.shape
        return f"Feed({n} items x {d}, {len(self.users)} users)"


def _dot(left: Rows, right: Rows) -> Rows:
    return np.asarray(np.einsum("ij,ij->i", left, right))


class BatchedFeed:
    """`size` users at once, whose episodes begin and are cut off together.

    Parameters
    ----------
    feed
        The feed.
    size
        Users at once.
    seed
        Of the users that come and of what happens to them.

    Attributes
    ----------
    size, obs_dim, action_dim : int
        Users at once, numbers in an observation (2 d + 1) and in an action (d).
    """

    def __init__(self, feed: Feed, size: int = 16, *, seed: int = 0) -> None:
        kind(feed, "feed", "a Feed", Feed)
        self.feed = feed
        self.size = count(size, "size", low=1)
        self.obs_dim, self.action_dim = feed.obs_dim, feed.dim
        self._rng = rng(seed)
        self._obs: Rows | None = None
        self._time = 0

    def reset(self, seed: int | None = None) -> Rows:
        """Begin with new users; a seed makes all that follows repeatable."""
        if seed is not None:
            self._rng = rng(seed)
        self._obs, self._time = self.feed.start(self.size, self._rng), 0
        return self._obs.copy()

    def step(self, actions: NDArray[Any]) -> tuple[Rows, Rows, bool]:
        """Show (size, d) actions; give observations, rewards, and whether the horizon is reached.

        Actions must be in the hull; only those outside the unit ball are refused.
        After the horizon comes `reset`.
        """
        if self._obs is None or self._time >= self.feed.parameters.horizon:
            raise RuntimeError("`step` must come after `reset`, and not after the horizon.")
        shown = singles(real_array(actions, "actions", 2), "actions")
        shape = (self.size, self.feed.dim)
        require(shown.shape == shape, "actions", f"an array of shape {shape}", f"shape {shown.shape}")
        longest = float(np.linalg.norm(shown, axis=1).max())
        require(longest <= 1.0 + ROUNDING, "actions", "points of the hull of unit atoms", f"norm {longest:g}")
        self._obs, rewards = self.feed.step(self._obs, shown, self._rng)
        self._time += 1
        return self._obs.copy(), rewards, self._time >= self.feed.parameters.horizon


# ---------------------------------------------------------------- its parts


def normalise(atoms: AtomsLike) -> Rows:
    """Return the atoms as (n, d) float32 rows of norm 1.

    A float32 array that has such rows already is used as it is.
    """
    source = as_atoms(atoms)
    norms = np.empty(source.shape[0])
    for first, block in source.blocks(block_rows(source)):
        check_finite(block, first)
        norms[first : first + len(block)] = np.linalg.norm(block.astype(np.float64), axis=1)
    zero = np.flatnonzero(norms == 0.0)
    require(len(zero) == 0, "atoms", "without a row of zeros", f"row {zero[0] if len(zero) else 0}")
    whole = getattr(source, "rows", None)
    if isinstance(whole, np.ndarray) and whole.dtype == np.float32 and np.abs(norms - 1.0).max() <= _UNIT:
        return whole
    out = np.empty(source.shape, np.float32)
    for first, block in source.blocks(block_rows(source)):
        last = first + len(block)
        out[first:last] = block / norms[first:last, None]
    return out


@functools.cache
def _words() -> Rows:
    rows = normalise(words().vectors)
    rows.flags.writeable = False
    return rows


def draw_users(atoms: Rows, size: int, *, seed: int = 0) -> Rows:
    """Return `size` tastes: normalised sums of two random atoms."""
    pairs = rng(seed).integers(len(atoms), size=(2, count(size, "users", low=1)))
    sums: Rows = atoms[pairs[0]] + atoms[pairs[1]]
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # Opposite atoms cancel: the first alone will do.
    return np.asarray(np.where(norms > 1e-3, sums / np.maximum(norms, 1e-3), atoms[pairs[0]]))


def clickbait_axis(atoms: Rows) -> Rows:
    """Return the first principal axis of the centred atoms.

    A unit vector; its sign makes the mean of <w, a> over the atoms positive.
    """
    mean = atoms.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((atoms.shape[1], atoms.shape[1]))
    with one_blas_thread():
        for first in range(0, len(atoms), 1 << 16):
            centred = atoms[first : first + (1 << 16)].astype(np.float64) - mean
            scatter += centred.T @ centred
        axis: Vector = np.linalg.eigh(scatter)[1][:, -1]
    side = float(mean @ axis)
    if abs(side) < 1e-9:  # no side is the mean's: the largest entry decides
        side = float(axis[np.abs(axis).argmax()])
    return np.asarray((np.sign(side) * axis).astype(np.float32))


# ---------------------------------------------------------------- what a critic should see


def feed_features(obs: ArrayT, action: ArrayT) -> ArrayT:
    """Return the (..., 5) inner products that a critic of the feed should see.

    ``<u, a>, m <u, a>, <f, a>, |a|^2, <u, f>``, scaled to be of order one. A
    plain network on the concatenation of observation and action has to learn
    products of d pairs of inputs, and does not.

    Parameters
    ----------
    obs : (..., 2 d + 1)
        Observations: numpy arrays or torch tensors.
    action : (..., d)
        Actions, of the same kind.
    """
    o: Any = obs
    a: Any = action
    d = a.shape[-1]
    taste, fatigue, mood = o[..., :d], o[..., d : 2 * d], o[..., 2 * d :]
    liked = _SCALE * (taste * a).sum(-1)[..., None]
    tired = _SCALE * (fatigue * a).sum(-1)[..., None]
    broad = (a * a).sum(-1)[..., None]
    bored = _SCALE * (taste * fatigue).sum(-1)[..., None]
    columns = (liked, mood * liked, tired, broad, bored)
    if isinstance(o, np.ndarray):
        joined: Any = np.concatenate(columns, axis=-1)
    else:
        from torch import cat  # noqa: PLC0415 - an extra, and here already if a tensor is

        joined = cat(columns, dim=-1)
    out: ArrayT = joined
    return out
