"""Short runs of every method on a network with everything that remembers, and their whole state, bit for bit."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import Adam

from helpers.methods import SCALARIZED, STEPPERS, TWO_COPIES
from helpers.support import DIMENSION, Net, make_net
from torchsims import Stepper
from torchsims.normalizers import EMA

Batch: TypeAlias = tuple[Tensor, Tensor]
Losses: TypeAlias = dict[str, Tensor]
State: TypeAlias = dict[str, str | bytes]
AnyMethod: TypeAlias = Stepper[Any]

DOUBLE = torch.float64
TASKS = ("metres", "pixels")
OUTER, INNER = partial(Adam, lr=1e-2), partial(Adam, lr=5e-2)

METHODS = [*TWO_COPIES, *SCALARIZED]
"""Every method with one objective or two copies."""
KINDS = [*TWO_COPIES, "EW", "RLW", "UW", "LogMerit", "FAMO"]
"""One method for each thing that a method can keep between steps."""


def network(width: int = 5, dtype: torch.dtype = DOUBLE, seed: int = 7) -> Net:
    return make_net(dtype, seed, tasks=TASKS, width=width, batch_norm=True, dropout=0.3)


def batch(seed: int, dtype: torch.dtype = DOUBLE) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(6, n, generator=generator, dtype=DOUBLE).to(dtype) for n in (DIMENSION, 2))
    return x, y


def task_losses(model: nn.Module, batch: Batch) -> Losses:
    x, y = batch
    out = model(x)
    return {"metres": mse_loss(out["metres"], y[:, 0]), "pixels": 1e3 * mse_loss(out["pixels"], y[:, 1])}


def build(name: str, model: nn.Module, **options: Any) -> AnyMethod:
    """Return a method of the table with Adam and with more to remember than its defaults have."""
    settings: dict[str, Any] = {"outer": OUTER}
    if name in TWO_COPIES:
        # The challenger starts elsewhere, so that no test passes because both copies are equal.
        settings |= {"tau": 0.7, "prox": 0.1, "inner": INNER, "perturb": 0.05, "keep_random_iterate": True}
    if name == "FOOPS":
        settings |= {"tau": 5.0, "prox": 0.0, "keep_random_iterate": False}
    if name in ("FOOPS", "UW"):
        settings |= {"normalize": EMA(0.5)}
    return STEPPERS[name](model, TASKS, **{**settings, **options})


def needs_positive(name: str) -> bool:
    """Return whether a method needs losses above zero."""
    method: Any = build(name, network())
    return bool(method.transform.positive if name in TWO_COPIES else method.scalarization.positive)


def trained(name: str, steps: int = 3, dtype: torch.dtype = DOUBLE, **options: Any) -> AnyMethod:
    """Return a method that has taken some steps; always the same one, with the generators in the same state."""
    method = build(name, network(dtype=dtype), **options)
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
