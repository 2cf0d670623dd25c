"""The data of a fit in memory, and its losses; the training loop is the one of :mod:`torchsims.training`."""

from collections.abc import Mapping, Sequence
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
from torchsims.registry import choose
from torchsims.training import Trainer

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


class Fit:
    """One training of one network, in single precision; seeds the global generator.

    Features are standardised, `row x feature`; labels are as :meth:`torchsims.data.tables.Target.encode` returns them.
    """

    def __init__(
        self,
        features: NDArray[Any],
        targets: Sequence[Target],
        labels: Sequence[NDArray[Any]],
        hidden: Sequence[int],
        seed: int,
    ) -> None:
        self._targets, self._seed = targets, seed
        self._x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
        self._read_labels(labels)
        torch.manual_seed(seed)
        self.network = Network(self._x.shape[1], hidden, sum(target.outputs for target in targets))

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

    def run(
        self,
        method: Any,
        epochs: int,
        batch_size: int,
        learning_rate: float,
        weight_decay: float,
        preference: Mapping[str, float] | None = None,
    ) -> tuple[NDArray[np.float64], list[str]]:
        """Train; return the losses, `epoch x target` in native units, and the names of starved targets."""
        rows, names = len(self._x), [target.name for target in self._targets]
        adam = partial(Adam, weight_decay=weight_decay, fused=True)
        tasks = [str(i) for i in range(len(names))]
        if preference is not None:
            preference = {tasks[names.index(choose("target", name, names))]: p for name, p in preference.items()}
        stepper = Method(method).build(self.network, tasks, learning_rate, adam, seed=self._seed, preference=preference)
        batches = max(1, round(rows / batch_size))
        steps = epochs * batches
        trainer = Trainer(stepper, self.task_losses, steps=steps, warmup=WARMUP, seed=self._seed, names=names)
        order = torch.Generator().manual_seed(self._seed)
        for _ in range(epochs):
            for part in torch.randperm(rows, generator=order).tensor_split(batches):
                trainer.step(part)
            trainer.end_epoch({})
        return np.array([trainer.history.losses[name] for name in names]).T, list(trainer.starved)
