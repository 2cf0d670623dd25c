"""Partial labels: every row counts for the tasks that it has a label of.

    python examples/partial_labels.py

A missing label is not a loss of zero: under a logarithm that would be the best loss of all. Return the sum over the
labels that are there, and their number. A task without any label in a batch gets weight zero in this step.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Adam

from torchsims import SIMS, TaskLosses


def task_losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> TaskLosses:
    """Return sums over the known labels (NaN is unknown), and their number."""
    x, y = batch
    known = ~y.isnan()
    error = (model(x) - y.nan_to_num()).square().where(known, 0)
    names = ("price", "days")
    return TaskLosses(
        total=dict(zip(names, error.sum(0), strict=True)), count=dict(zip(names, known.sum(0), strict=True))
    )


def main() -> None:
    """Train on rows of which two thirds have no price, and one batch has none at all."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    for step in range(60):
        x = torch.randn(48, 8)
        y = torch.stack([x[:, 0].sin(), 30 * x[:, 1].cos()], 1)
        y[torch.rand(48) < 2 / 3, 0] = torch.nan
        if step == 40:
            y[:, 0] = torch.nan
        report = method.step(task_losses, (x, y))
        if step % 20 == 0:
            print(step, report.losses, report.weights)


if __name__ == "__main__":
    main()
