"""Gradient accumulation: several micro-batches are one exact step.

    python examples/accumulation.py

ln(mean) is not mean(ln), so losses of micro-batches may not be balanced one by one. Give all micro-batches to one step.
Where they differ in size, return sums and counts (`TaskLosses`): then the step is that of the whole batch.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchsims import SIMS, TaskLosses


def task_losses(model: nn.Module, x: Tensor) -> TaskLosses:
    """Return sums over the rows, and their number."""
    error = model(x) - torch.stack([x[:, 0].sin(), 1000 * x[:, 1].cos()], 1)
    return TaskLosses(
        total={"near": error[:, 0].square().sum(), "far": error[:, 1].abs().sum()},
        count={"near": len(x), "far": len(x)},
    )


def parameters_after_one_step(*micro_batches: Tensor) -> Tensor:
    """Return all parameters after one step on the micro-batches."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    method = SIMS(model, outer=partial(SGD, lr=0.1), inner=partial(SGD, lr=0.2))
    method.step(task_losses, *micro_batches)
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def main() -> None:
    """Compare one batch with three parts of it."""
    batch = torch.randn(64, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole, parts = parameters_after_one_step(batch), parameters_after_one_step(batch[:32], batch[32:56], batch[56:])
    difference = (whole - parts).abs().max().item()
    print(f"64 rows at once and as 32 + 24 + 8: the parameters differ by at most {difference:.1e}")
    assert difference < 1e-12


if __name__ == "__main__":
    main()
