"""The data of a fit in memory, and its losses; the training loop is the one of :mod:`torchsims.training`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Adam

from torchsims.data.tables import Target
from torchsims.losses import TaskLosses
from torchsims.methods import Method
from torchsims.models import class_loss, number_loss
from torchsims.models.tabular.base import Embedded
from torchsims.registry import choose
from torchsims.sklearn._inputs import Inputs, Rows
from torchsims.sklearn._validation import Validation
from torchsims.training import Callback, Trainer

WARMUP = 0.1  # share of the steps in which the learning rate rises
EMBEDDING = 8  # numbers per category


@final
class Network(nn.Module):
    """Embedded features, hidden layers with ReLU, and one linear layer whose outputs are those of all targets."""

    def __init__(self, inputs: Inputs, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.features = Embedded(inputs.width, inputs.codes, EMBEDDING)
        widths = [self.features.width, *hidden]
        layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Return outputs, `row x output`, of standardised numbers and codes."""
        out: Tensor = self.layers(self.features(numbers, codes))
        return out


@dataclass(frozen=True)
class Plan:
    """How a network is trained."""

    method: Any
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    preference: Mapping[str, float] | None
    seed: int
    device: str
    constant: bool = False  # whether the learning rate neither rises nor falls


class Fit:
    """One training of one network, in single precision.

    Labels are as :meth:`torchsims.data.tables.Target.encode` returns them; ``weights`` say how much each row counts.
    """

    def __init__(
        self,
        network: nn.Module,
        rows: Rows,
        targets: Sequence[Target],
        labels: Sequence[NDArray[Any]],
        weights: NDArray[Any] | None,
        plan: Plan,
    ) -> None:
        self._rows, self._targets, self._plan = rows, targets, plan
        self._device = torch.device(plan.device)
        self.network = network.float().train().to(self._device)
        self._weights = None if weights is None else torch.from_numpy(weights)
        self._read_labels(labels)

    def _read_labels(self, labels: Sequence[NDArray[Any]]) -> None:
        """Keep numbers side by side, so that their losses are one operation, and classes one by one."""
        starts = np.cumsum([0, *(target.outputs for target in self._targets)])
        numbers = [i for i, target in enumerate(self._targets) if target.kind == "number"]
        classes = [i for i, target in enumerate(self._targets) if target.kind == "class"]
        self._places = torch.tensor(starts[numbers])
        self._all_numbers = not classes
        self._sds = torch.tensor([self._targets[i].sd for i in numbers], dtype=torch.float64).to(self._device)
        columns = np.stack([labels[i] for i in numbers], 1) if numbers else np.zeros((len(self._rows), 0))
        self._z = torch.from_numpy(columns.astype(np.float32))
        self._complete = not self._z.isnan().any()
        self._classes = [(slice(starts[i], starts[i + 1]), torch.from_numpy(labels[i])) for i in classes]
        self._order = torch.tensor(np.argsort([*numbers, *classes]))  # back to the order of the targets

    def batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return numbers, codes, weights, and the labels of numbers and classes of some rows."""
        numbers, codes = self._rows.batch(rows)
        weights = torch.empty(0) if self._weights is None else self._weights[rows]
        parts = (numbers, codes, weights, self._z.index_select(0, rows), *(labels[rows] for _, labels in self._classes))
        return parts if self._device.type == "cpu" else tuple(part.to(self._device) for part in parts)

    def task_losses(self, network: nn.Module, batch: tuple[Tensor, ...]) -> TaskLosses:
        """Return the losses of a batch in native units."""
        numbers, codes, weights, z, *classes = batch
        weight = weights if len(weights) else None
        out = network(numbers, codes)
        if self._all_numbers:
            return TaskLosses(*number_loss(out, z, self._sds, weight, complete=self._complete))
        found = [
            class_loss(out[:, place], labels, weight) for (place, _), labels in zip(self._classes, classes, strict=True)
        ]
        total, count = (torch.stack(part) for part in zip(*found, strict=True))
        if len(self._places):
            first = number_loss(out[:, self._places], z, self._sds, weight, complete=self._complete)
            total, count = torch.cat([first[0], total])[self._order], torch.cat([first[1], count])[self._order]
        return TaskLosses(total=total, count=count)

    def trainer(self, callbacks: Sequence[Callback] = ()) -> Trainer:
        """Return what trains the network."""
        plan, names = self._plan, [target.name for target in self._targets]
        adam = partial(Adam, weight_decay=plan.weight_decay, fused=True)
        tasks, preference = [str(i) for i in range(len(names))], None
        if plan.preference is not None:
            preference = {tasks[names.index(choose("target", name, names))]: p for name, p in plan.preference.items()}
        method = Method(plan.method)
        stepper = method.build(self.network, tasks, plan.learning_rate, adam, seed=plan.seed, preference=preference)
        return Trainer(
            stepper,
            self.task_losses,
            steps=plan.epochs * self.batches,
            warmup=WARMUP,
            constant=plan.constant,
            seed=plan.seed,
            names=names,
            callbacks=callbacks,
            preferred=preference is not None,
        )

    @property
    def batches(self) -> int:
        """Steps per epoch."""
        return max(1, round(len(self._rows) / self._plan.batch_size))

    def run(self, trainer: Trainer, validation: Validation | None = None) -> None:
        """Train until the last epoch, or until the validation rows say that it is enough."""
        order = torch.Generator().manual_seed(self._plan.seed + trainer.history.epochs)
        trainer.start()
        for _ in range(self._plan.epochs):
            for part in torch.randperm(len(self._rows), generator=order).tensor_split(self.batches):
                trainer.step(self.batch(part))
            trainer.end_epoch({} if validation is None else validation.evaluate(self.network))
            if validation is not None and validation.is_enough:
                return


def show_bar(stack: ExitStack, name: str) -> list[Callback]:
    """Return a callback that shows a progress bar until the stack is closed."""
    from torchsims.reporting import ProgressBar, show_progress

    return [ProgressBar(stack.enter_context(show_progress()), name)]
