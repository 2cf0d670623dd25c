"""The data of a fit in memory, and its losses; the training loop is the one of :mod:`torchsims.training`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Adam

from torchsims.data.tables import Target
from torchsims.losses import TaskLosses
from torchsims.methods import Method
from torchsims.models import class_loss, number_loss
from torchsims.training import Trainer

__all__ = ["Fit", "Network", "Plan"]

WARMUP = 0.1  # share of the steps in which the learning rate rises


class Network(nn.Module):
    """Hidden layers with ReLU and one linear layer whose outputs are those of all targets, side by side."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs, `row x output`, of standardised features."""
        out: Tensor = self.layers(x)
        return out


@dataclass(frozen=True)
class Plan:
    """How to train; see :class:`torchsims.sklearn.MultiTaskEstimator`."""

    method: Method
    hidden: tuple[int, ...]
    epochs: int
    batch: int
    lr: float
    weight_decay: float
    seed: int

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch), ("learning_rate", self.lr)):
            if not 0 < value < float("inf"):
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        if not all(width >= 1 for width in self.hidden):
            raise ValueError(f"Parameter `hidden` should hold positive widths. Found `hidden = {self.hidden}`.")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"Parameter `weight_decay` should not be negative. Found `weight_decay = {self.weight_decay}`."
            )


class Fit:
    """One training of one network; seeds the global generator.

    Args:
        features: standardised, `row x feature`.
        targets: what is predicted.
        labels: their columns, as :meth:`torchsims.data.tables.Target.encode` returns them.
        plan: how to train.

    Attributes:
        network: in single precision.
        losses: the mean loss of every target in every epoch, in native units.
        starved: the names of the targets that were starved.
    """

    def __init__(
        self, features: NDArray[Any], targets: Sequence[Target], labels: Sequence[NDArray[Any]], plan: Plan
    ) -> None:
        self._plan, self._targets = plan, targets
        self._x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        self._read_labels(labels)
        torch.manual_seed(plan.seed)
        self.network = Network(self._x.shape[1], plan.hidden, sum(target.outputs for target in targets))
        self.losses: list[list[float]] = []
        self.starved: list[str] = []

    def _read_labels(self, labels: Sequence[NDArray[Any]]) -> None:
        """Keep numbers side by side, so that their losses are one operation, and classes one by one."""
        starts = np.cumsum([0, *(target.outputs for target in self._targets)])
        numbers = [i for i, target in enumerate(self._targets) if target.kind == "number"]
        classes = [i for i, target in enumerate(self._targets) if target.kind == "class"]
        self._places = torch.tensor(starts[numbers])
        self._sds = torch.tensor([self._targets[i].sd for i in numbers], dtype=torch.float64)
        columns = np.stack([labels[i] for i in numbers], 1) if numbers else np.zeros((len(self._x), 0))
        self._z = torch.from_numpy(columns.astype(np.float32))
        self._classes = [(slice(starts[i], starts[i + 1]), torch.from_numpy(labels[i])) for i in classes]
        self._order = torch.tensor(np.argsort([*numbers, *classes]))  # back to the order of the targets

    def task_losses(self, network: nn.Module, rows: Tensor) -> TaskLosses:
        """Return the losses of some rows in native units."""
        out = network(self._x[rows])
        total, count = number_loss(out[:, self._places], self._z[rows], self._sds)
        if self._classes:
            found = [class_loss(out[:, place], labels[rows]) for place, labels in self._classes]
            total = torch.cat([total, torch.stack([t for t, _ in found])])[self._order]
            count = torch.cat([count, torch.stack([c for _, c in found])])[self._order]
        return TaskLosses(total=total, count=count)

    def run(self) -> None:
        """Train from the first epoch to the last."""
        plan, rows = self._plan, len(self._x)
        names = [target.name for target in self._targets]
        adam = partial(Adam, weight_decay=plan.weight_decay, fused=True)
        method = plan.method.build(self.network, list(map(str, range(len(names)))), plan.lr, adam, seed=plan.seed)
        batches = max(1, round(rows / plan.batch))
        steps = plan.epochs * batches
        trainer = Trainer(method, self.task_losses, steps=steps, warmup=WARMUP, seed=plan.seed, names=names)
        order = torch.Generator().manual_seed(plan.seed)
        for _ in range(plan.epochs):
            for part in torch.randperm(rows, generator=order).tensor_split(batches):
                trainer.step(part)
            trainer.end_epoch({})
        self.losses = np.array([trainer.history.losses[name] for name in names]).T.tolist()
        self.starved = list(trainer.starved)
