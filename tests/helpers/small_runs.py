"""A small network with everything that remembers (BatchNorm, dropout), methods to train it, and their whole state."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import Adam

from torchsims import FOOPS, SIMS, Scalarized, Stepper
from torchsims.normalizers import EMA
from torchsims.scalarizations import EW, FAMO, RLW, UW, LogMerit

Batch: TypeAlias = tuple[Tensor, Tensor]
Losses: TypeAlias = dict[str, Tensor]
State: TypeAlias = dict[str, str | bytes]
AnyMethod: TypeAlias = Stepper[Any]

DOUBLE = torch.float64
TASKS = ("metres", "pixels")


class Network(nn.Module):
    """A trunk with BatchNorm and dropout, and a head for each task."""

    def __init__(self, width: int = 5, dtype: torch.dtype = DOUBLE) -> None:
        super().__init__()
        self.first = nn.Linear(3, width, dtype=dtype)
        self.norm = nn.BatchNorm1d(width, dtype=dtype)
        self.drop = nn.Dropout(0.3)
        self.metres = nn.Linear(width, 1, dtype=dtype)
        self.pixels = nn.Linear(width, 1, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        features = self.drop(self.norm(self.first(x)).tanh())
        return torch.cat([self.metres(features), self.pixels(features)], -1)


def network(width: int = 5, dtype: torch.dtype = DOUBLE) -> Network:
    torch.manual_seed(7)
    return Network(width, dtype)


def batch(seed: int, dtype: torch.dtype = DOUBLE) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(6, n, generator=generator, dtype=DOUBLE).to(dtype) for n in (3, 2))
    return x, y


def task_losses(model: nn.Module, batch: Batch) -> Losses:
    x, y = batch
    out = model(x)
    return {"metres": mse_loss(out[:, 0], y[:, 0]), "pixels": 1e3 * mse_loss(out[:, 1], y[:, 1])}


OUTER, INNER = partial(Adam, lr=1e-2), partial(Adam, lr=5e-2)

# The challenger starts elsewhere, so that no test passes because both copies are equal.
two_copies = partial(SIMS, tau=0.7, prox=0.1, outer=OUTER, inner=INNER, perturb=0.05, keep_random_iterate=True)

METHODS: Mapping[str, Callable[[nn.Module], AnyMethod]] = {
    "sims": two_copies,
    "sims-joint": partial(two_copies, evaluation="joint"),
    "sims-alternating": partial(two_copies, order="alternating"),
    "sims-alternating-joint": partial(two_copies, order="alternating", evaluation="joint"),
    "foops": lambda model: FOOPS(model, tau=5.0, outer=OUTER, inner=INNER, perturb=0.05, normalize=EMA(0.5)),
    "ew": lambda model: Scalarized(model, EW(), outer=OUTER),
    "rlw": lambda model: Scalarized(model, RLW(), outer=OUTER),
    "uw": lambda model: Scalarized(model, UW(TASKS, dtype=DOUBLE), outer=OUTER, normalize=EMA(0.5)),
    "log-merit": lambda model: Scalarized(model, LogMerit(), outer=OUTER),
    "famo": lambda model: Scalarized(model, FAMO(), outer=OUTER),
}
"""Methods of every kind, made from a model."""

TWO_COPIES = [name for name in METHODS if name.startswith(("sims", "foops"))]
POSITIVE = [name for name in METHODS if name.startswith(("sims", "log-merit", "famo"))]


def trained(name: str, steps: int = 3, dtype: torch.dtype = DOUBLE) -> AnyMethod:
    """Return a method that has taken some steps; always the same one, with the generators in the same state."""
    method = METHODS[name](network(dtype=dtype))
    torch.manual_seed(11)
    for seed in range(steps):
        method.step(task_losses, batch(seed, dtype))
    return method


def snapshot(method: AnyMethod, **more: Any) -> State:
    """Return all that a step may change, bit for bit and by name."""
    everything = {
        "model": method.model.state_dict(),
        "method": method.state_dict(),
        "random": torch.get_rng_state(),
        **more,
    }
    return dict(_leaves("", everything))


def differences(first: State, second: State) -> list[str]:
    """Return the names of what is not the same."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _leaves(path: str, value: Any) -> list[tuple[str, str | bytes]]:
    if isinstance(value, Mapping):
        return [leaf for key, part in value.items() for leaf in _leaves(f"{path}/{key}", part)]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [leaf for index, part in enumerate(value) for leaf in _leaves(f"{path}/{index}", part)]
    if isinstance(value, Tensor):
        head = f"{value.dtype} {tuple(value.shape)} ".encode()
        return [(path, head + value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())]
    return [(path, repr(value))]
