"""The networks of a deep policy: twin critics and an actor, on plain tensors.

The one importer of torch, so that its absence is said once, and well. Knows nothing of
atoms, environments or training. Weights are drawn from a generator of the caller, never
from torch's global one.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from wolfhound.threads import one_blas_thread
from wolfhound.validate import require

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("policies that learn need torch: pip install 'wolfhound[rl]'") from None

__all__ = ["Actor", "Critic", "CriticFeatures", "Tensor", "follow", "nn", "one_thread", "to_tensor", "torch"]

CriticFeatures: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(m, o) observations, (m, d) actions -> (m, f) further inputs of a critic."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold torch and BLAS to one thread, so that their sums have one order.

    The number of threads belongs to the process, not to us: it comes back. Small
    networks are no slower on one thread.

    Examples
    --------
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


def to_tensor(rows: NDArray[np.floating]) -> Tensor:
    """Return a float32 tensor; shares the memory of a C-ordered float32 array, unless it is read-only."""
    return torch.from_numpy(np.require(rows, np.float32, ["C", "W"]))


def _linear(inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    """A layer with torch's usual weights, uniform on +-1/sqrt(inputs)."""
    with torch.random.fork_rng(devices=[]):  # its own first weights come from the global generator
        layer = nn.Linear(inputs, outputs, bias=bias)
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def _layers(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    return nn.Sequential(
        _linear(inputs, hidden, generator),
        nn.SiLU(),
        _linear(hidden, hidden, generator),
        nn.SiLU(),
        _linear(hidden, outputs, generator),
    )


@final
class Critic(nn.Module):
    """Two estimates of Q(observation, action), the pessimist's pair of TD3.

    A network that is given observation and action side by side hardly finds
    their inner products, which decide what an item is worth to a user: give
    them as `features`, differentiable in the action. Actions enter divided by `scale`, their largest norm.

    Examples
    --------
    >>> critic = Critic(3, 2, generator=torch.Generator().manual_seed(0))
    >>> first, second = critic(torch.zeros(5, 3), torch.zeros(5, 2))
    >>> first.shape, bool((first == second).any())
    (torch.Size([5]), False)
    """

    def __init__(
        self,
        obs_dim: int,
        dim: int,
        *,
        hidden: int = 128,
        scale: float = 1.0,
        features: CriticFeatures | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._scale, self._features = scale, features
        extra = 0 if features is None else _width(features, obs_dim, dim)
        self._one = _layers(obs_dim + dim + extra, hidden, 1, generator)
        self._two = _layers(obs_dim + dim + extra, hidden, 1, generator)

    def _inputs(self, obs: Tensor, actions: Tensor) -> Tensor:
        parts = [obs, actions / self._scale]
        if self._features is not None:
            parts.append(self._features(obs, actions))
        return torch.cat(parts, 1)

    def forward(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """(m,) values of both critics at (m, o) observations and (m, d) actions."""
        inputs = self._inputs(obs, actions)
        return self._one(inputs)[:, 0], self._two(inputs)[:, 0]

    def first(self, obs: Tensor, actions: Tensor) -> Tensor:
        """(m,) values of the first critic: the one that is climbed."""
        values: Tensor = self._one(self._inputs(obs, actions))[:, 0]
        return values

    def each(self, obs: Tensor, choices: Tensor) -> Tensor:
        """(m, k) values of the first critic at k actions (m, k, d) per observation; no gradients."""
        m, k, d = choices.shape
        flat = choices.reshape(m * k, d)
        weight, bias = itertools.islice(self._one.parameters(), 2)
        with torch.no_grad():
            parts = [flat / self._scale]
            if self._features is not None:
                parts.append(self._features(obs[:, None].expand(m, k, -1).reshape(m * k, -1), flat))
            # What the observation adds to the first layer is the same for its k actions. In place:
            # fresh memory costs more than these sums.
            seen, acted = weight.tensor_split([obs.shape[1]], dim=1)
            hidden = torch.cat(parts, 1) @ acted.T
            hidden.view(m, k, -1).add_(torch.addmm(bias, obs, seen.T)[:, None])
            hidden = self._one[2](nn.functional.silu(hidden, inplace=True))
            values: Tensor = self._one[4](nn.functional.silu(hidden, inplace=True)).view(m, k)
        return values

    def directions(self, obs: Tensor, actions: Tensor) -> Tensor:
        """(m, d) unit gradients of the first critic in the action; zero stays zero."""
        here = actions.detach().requires_grad_(True)
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(self.first(obs, here).sum(), here)
        lengths = slopes.norm(dim=1, keepdim=True)
        return slopes / torch.where(lengths > 0.0, lengths, torch.ones_like(lengths))


def _width(features: CriticFeatures, obs_dim: int, dim: int) -> int:
    out = features(torch.zeros(2, obs_dim), torch.zeros(2, dim))
    good = isinstance(out, Tensor) and out.ndim == 2 and len(out) == 2
    got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
    require(good, "critic_features", "a function to (m, f) tensors", f"{got} for m = 2")
    return int(out.shape[1])


@final
class Actor(nn.Module):
    """A point of the ball around the hull for each observation.

    Two hidden layers beside a linear path: much of a good action is the taste
    of the user itself, which the linear path copies at once. Outputs longer than `scale` are shortened.

    Examples
    --------
    >>> actor = Actor(3, 2, generator=torch.Generator().manual_seed(0))
    >>> bool((actor(torch.full((4, 3), 9.0)).norm(dim=1) <= 1.0 + 1e-6).all())
    True
    """

    def __init__(
        self, obs_dim: int, dim: int, *, hidden: int = 128, scale: float = 1.0, generator: torch.Generator
    ) -> None:
        super().__init__()
        self._scale = scale
        self._deep = _layers(obs_dim, hidden, dim, generator)
        self._skip = _linear(obs_dim, dim, generator, bias=False)

    def forward(self, obs: Tensor) -> Tensor:
        """(m, d) points of norm at most `scale`, in the hull or not."""
        raw = self._deep(obs) + self._skip(obs)
        shortened: Tensor = self._scale * raw / raw.norm(dim=1, keepdim=True).clamp(min=1.0)
        return shortened


def follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Move the weights of `target` a share `tau` of the way to those of `source`."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.lerp_(new, tau)
