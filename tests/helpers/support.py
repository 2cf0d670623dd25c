"""Small models, data and closures that the tests share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchsims import SIMS, TaskLosses

TASKS = ("a", "b", "c")
DIMENSION = 5

drops_gradients = pytest.mark.filterwarnings("ignore:The gradients of a `backward` without:UserWarning")
"""For tests that compute gradients and do not use them."""
equal_copies = pytest.mark.filterwarnings("ignore:The model and the challenger start at the same point:UserWarning")
"""For tests of copies that stay equal."""


class Net(nn.Module):
    """A shared trunk and one head per task, with what steppers find hard: dropout, batch statistics, frozen weights."""

    def __init__(
        self,
        tasks: Sequence[str] = TASKS,
        *,
        width: int = 8,
        dropout: float = 0.0,
        batch_norm: bool = False,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(DIMENSION, width).requires_grad_(not frozen)
        self.norm = nn.BatchNorm1d(width) if batch_norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.trunk = nn.Linear(width, width)
        self.heads = nn.ModuleDict({task: nn.Linear(width, 1) for task in tasks})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.trunk(self.drop(self.norm(self.stem(x)).tanh())).tanh()
        return {task: head(features).squeeze(-1) for task, head in self.heads.items()}


def make_net(dtype: torch.dtype = torch.float64, seed: int = 0, **options: Any) -> Net:
    torch.manual_seed(seed)
    return Net(**options).to(dtype)


@dataclass
class Data:
    """A batch: inputs, one target per task, and which targets are known."""

    x: Tensor  # (sample, dimension)
    y: Tensor  # (sample, task)
    known: Tensor  # (sample, task)

    def __getitem__(self, index: slice) -> "Data":
        return Data(self.x[index], self.y[index], self.known[index])

    def split(self, sizes: Sequence[int]) -> list["Data"]:
        stops = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [self[stop - size : stop] for stop, size in zip(stops, sizes, strict=True)]


def make_data(samples: int = 16, dtype: torch.dtype = torch.float64, seed: int = 0, share: float = 1.0) -> Data:
    """Return random data of which the given share is labelled."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, DIMENSION, generator=generator, dtype=dtype)
    y = torch.randn(samples, len(TASKS), generator=generator, dtype=dtype)
    return Data(x, y, torch.rand(samples, len(TASKS), generator=generator) < share)


def mean_losses(scales: Sequence[float] = (1.0, 1.0, 1.0)) -> Callable[[nn.Module, Data], dict[str, Tensor]]:
    """Return a closure of plain mean losses, each multiplied by its scale."""

    def task_losses(model: nn.Module, data: Data) -> dict[str, Tensor]:
        out = model(data.x)
        return {task: scales[i] * (out[task] - data.y[:, i]).square().mean() for i, task in enumerate(TASKS)}

    return task_losses


def task_losses(model: nn.Module, data: Data) -> TaskLosses:
    """Return sums over the known targets, and their number."""
    out = model(data.x)
    error = {task: (out[task] - data.y[:, i]).square() for i, task in enumerate(TASKS)}
    return TaskLosses(
        total={task: (error[task] * data.known[:, i]).sum() for i, task in enumerate(TASKS)},
        count={task: data.known[:, i].sum() for i, task in enumerate(TASKS)},
    )


def sgd(lr: float = 0.05) -> Callable[..., SGD]:
    return partial(SGD, lr=lr)


def make_sims(model: nn.Module, **options: Any) -> SIMS:
    return SIMS(model, **{"tau": 0.5, "outer": sgd(0.02), "inner": sgd(0.1), **options})


def flat(tensors: Iterable[Tensor | None]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors if tensor is not None])


def parameters(model: nn.Module) -> Tensor:
    return flat(model.parameters())


def gradients(model: nn.Module) -> Tensor:
    return flat(p.grad for p in model.parameters())
