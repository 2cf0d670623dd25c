from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Dataset

from torchsims.training._batches import load
from torchsims.workloads import Workload

__all__ = ["Metrics", "evaluate", "pictures"]

Metrics = dict[str, dict[str, float]]
"""Task, then metric, then the number."""

PICTURES = 4


@torch.no_grad()
def evaluate(
    workload: Workload,
    model: nn.Module,
    dataset: Dataset[Any],
    to_device: Callable[[Any], Any],
    *,
    rank: int = 0,
    ranks: int = 1,
    workers: int = 0,
) -> Metrics:
    """Return the metrics over a whole data set, of which every rank looks at its part."""
    metrics = workload.metrics()
    own = range(len(dataset))[rank::ranks]  # type: ignore[arg-type]  # every data set here has a length
    device = next(model.parameters()).device
    for metric in metrics.values():
        metric.to(device)
    model.eval()
    try:
        at_once = workload.at_once
        for batch in load(dataset, (list(own[i : i + at_once]) for i in range(0, len(own), at_once)), workers):
            batch = to_device(batch)
            predictions = workload.predict(model, batch)
            targets = workload.targets(batch)
            for task, metric in metrics.items():
                metric.update(predictions[task], targets[task])
    finally:
        model.train()
    return {task: {name: float(value) for name, value in m.compute().items()} for task, m in metrics.items()}


@torch.no_grad()
def pictures(
    workload: Workload, model: nn.Module, dataset: Dataset[Any], to_device: Callable[[Any], Any]
) -> dict[str, NDArray[Any]]:
    """Return what a report shows of the first items."""
    first = list(range(min(PICTURES, len(dataset))))  # type: ignore[arg-type]  # every data set here has a length
    model.eval()
    try:
        batch = to_device(next(load(dataset, [first], 0)))
        return workload.samples(workload.predict(model, batch), batch)
    finally:
        model.train()
