"""Rows that a fit is validated on, and which epoch is the best on them."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torchsims.data.tables import Target
from torchsims.metrics import Classification, Regression, TaskMetric
from torchsims.sklearn._inputs import Rows
from torchsims.training import Metrics
from torchsims.training.selection import Selection, validation_score

AT_ONCE = 1 << 14  # rows of a prediction


@torch.no_grad()
def network_outputs(network: nn.Module, rows: Rows) -> Tensor:
    """Return what a network says about rows, `row x output`, in its own precision."""
    like = next(network.parameters())
    parts = []
    for start in range(0, len(rows), AT_ONCE):
        numbers, codes = rows.batch(torch.arange(start, min(start + AT_ONCE, len(rows))))
        parts.append(network(numbers.to(like), codes.to(like.device)).cpu())
    return torch.cat(parts)


def hold_out(rows: int, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return random rows to train on, at least one, and at least one row to validate on."""
    order = np.random.default_rng(seed).permutation(rows)
    count = min(max(round(rows * fraction), 1), rows - 1)
    return order[count:], order[:count]


def split_outputs(outputs: Any, targets: Sequence[Target]) -> list[Any]:
    """Return the outputs of every target, `row x output`."""
    ends = np.cumsum([target.outputs for target in targets])
    return [outputs[:, end - target.outputs : end] for target, end in zip(targets, ends, strict=True)]


def check_select_by(targets: Sequence[Target], by: str) -> None:
    """Raise an error for a metric to select by that does not exist."""
    higher = _directions(targets)
    validation_score({task: dict.fromkeys(names, 0.0) for task, names in higher.items()}, higher, by)


@final
class Validation:
    """Metrics of every epoch on validation rows, and the best epoch by them.

    ``patience`` is the number of epochs without improvement after which it is enough; 0 for never, and then no epoch
    is selected. ``by`` is the mean over targets, a target, or one metric of one.
    """

    def __init__(
        self, rows: Rows, targets: Sequence[Target], labels: Sequence[NDArray[Any]], patience: int, by: str
    ) -> None:
        self._rows, self._targets, self._patience, self._by = rows, targets, patience, by
        self._labels = [torch.from_numpy(label) for label in labels]
        self.selection, self._epochs = Selection(), 0
        self._higher = _directions(targets)

    def evaluate(self, network: nn.Module) -> Metrics:
        """Return the metrics of an epoch, and remember it if it is the best."""
        outputs = split_outputs(network_outputs(network, self._rows), self._targets)
        found: dict[str, Mapping[str, float]] = {}
        for target, out, labels in zip(self._targets, outputs, self._labels, strict=True):
            metric = _metric(target)
            metric.update(out, labels)
            found[target.name] = {name: float(value) for name, value in metric.compute().items()}
        if self._patience:
            score = validation_score(found, self._higher, self._by)
            self._epochs += 1
            self.selection.update(self._epochs, score, network.state_dict())
        return found

    @property
    def is_enough(self) -> bool:
        """Whether there was no improvement for as many epochs as patience allows."""
        return 0 < self._patience <= self._epochs - self.selection.epoch


def _directions(targets: Sequence[Target]) -> dict[str, dict[str, bool]]:
    """Return whether higher is better, by target and metric."""
    return {target.name: dict(_metric(target).higher_is_better) for target in targets}


def _metric(target: Target) -> TaskMetric:
    return Regression(target.sd) if target.classes is None else Classification(len(target.classes))
