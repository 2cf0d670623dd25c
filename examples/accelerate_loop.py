"""A training loop on Accelerate with two losses of different units, balanced by SIMS.

    python examples/accelerate_loop.py
    torchrun --nproc-per-node 2 examples/accelerate_loop.py    # the same numbers, to rounding
    python examples/accelerate_loop.py FOLDER                  # saves its state there, and goes on from it

Accelerate places, wraps and shards as usual. The optimizers are the method's, and one step takes all micro-batches.
"""

import sys
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from torchsims import SIMS, TaskLosses

ROWS, BATCH, MICRO_BATCHES, EPOCHS = 256, 64, 2, 40


def task_losses(model: nn.Module, batch: list[Tensor]) -> TaskLosses:
    """Return sums and counts: micro-batches of any sizes, on any number of processes, are then one batch."""
    x, metres, pixels = batch
    errors = (model(x) * torch.tensor([1e-3, 1e3]) - torch.stack([metres, pixels], 1)).square().sum(0)
    return TaskLosses({"metres": errors[0], "pixels": errors[1]}, {"metres": len(x), "pixels": len(x)})


def main(folder: str = "", epochs: int = EPOCHS) -> dict[str, float]:
    """Train up to an epoch and return the mean losses of its last step by task."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    x = torch.randn(ROWS, 4)
    data = TensorDataset(x, 1e-3 * x[:, 0].sin(), 1e3 * x[:, 1].abs())
    loader = DataLoader(data, BATCH // MICRO_BATCHES // accelerator.num_processes)
    model, loader = accelerator.prepare(nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)), loader)
    method = SIMS(model, tau=3.0, outer=partial(Adam, lr=1e-2), inner=partial(Adam, lr=3e-2))
    schedules = [CosineAnnealingLR(optimizer, EPOCHS) for optimizer in method.optimizers]
    accelerator.register_for_checkpointing(method, *schedules)
    if folder and Path(folder).exists():
        accelerator.load_state(folder)
    for _ in range(schedules[0].last_epoch, epochs):
        batches = iter(loader)
        while micro_batches := list(islice(batches, MICRO_BATCHES)):
            report = method.backward(task_losses, *micro_batches)
            method.clip_grad_norm_(1.0)
            method.update()
        for schedule in schedules:
            schedule.step()
    if folder:
        accelerator.save_state(folder)
    accelerator.print({task: f"{loss:.3g}" for task, loss in report.losses.items()})
    return dict(report.losses)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
