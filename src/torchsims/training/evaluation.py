"""Metrics of a model over a whole data set, and a few of its predictions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from torchsims.training.batches import load_batches
from torchsims.training.run import Metrics, Samples
from torchsims.workloads import Workload

SAMPLES = 4


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
    """Return the metrics over a whole data set, of which every rank evaluates its part."""
    metrics = workload.metrics()
    own = range(len(dataset))[rank::ranks]  # type: ignore[arg-type]  # every data set here has a length
    device = next(model.parameters()).device
    for metric in metrics.values():
        metric.to(device)
    size = workload.at_once
    with _evaluating(model):
        for batch in load_batches(dataset, (list(own[i : i + size]) for i in range(0, len(own), size)), workers):
            batch = to_device(batch)
            predictions = workload.predict(model, batch)
            targets = workload.targets(batch)
            for task, metric in metrics.items():
                metric.update(predictions[task], targets[task])
    return {task: {name: float(value) for name, value in m.compute().items()} for task, m in metrics.items()}


@torch.no_grad()
def predict_samples(
    workload: Workload, model: nn.Module, dataset: Dataset[Any], to_device: Callable[[Any], Any]
) -> Samples:
    """Return arrays that a report draws, of the first items."""
    first = list(range(min(SAMPLES, len(dataset))))  # type: ignore[arg-type]  # every data set here has a length
    with _evaluating(model):
        batch = to_device(next(load_batches(dataset, [first], 0)))
        return workload.samples(workload.predict(model, batch), batch)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    model.eval()
    try:
        yield
    finally:
        model.train()
