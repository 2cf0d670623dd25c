# mypy: allow-untyped-calls
"""The loop of `loop_before.py` with SIMS: exact over micro-batches, and independent of the units of the losses.

    python examples/loop_after.py

Everything else is as it was; the checkpoint holds the state of the method in place of that of the optimizer.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss
from torch.optim import Adam
from torch.optim.lr_scheduler import LinearLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from torchsims import SIMS

EPOCHS, ACCUMULATE = 4, 4


def task_losses(model: nn.Module, batch: list[Tensor]) -> dict[str, Tensor]:
    """Return the loss of every task: metres and millimetres."""
    x, near, far = batch
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        out = model(x).float()
    return {"near": mse_loss(out[:, 0], near), "far": l1_loss(1000 * out[:, 1], far)}


def main() -> None:
    """Train, and save a checkpoint after every epoch."""
    torch.manual_seed(0)
    x = torch.randn(512, 8)
    data = TensorDataset(x, x[:, 0].sin(), 1000 * x[:, 1].cos())
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    method = SIMS(model, outer=lambda p: Adam(p, 3e-3), inner=lambda p: Adam(p, 6e-3))
    steps = EPOCHS * len(loader) // ACCUMULATE
    schedules = [LinearLR(each, 1.0, 0.1, total_iters=steps) for each in method.optimizers]
    checkpoint = Path(tempfile.mkdtemp()) / "last.pt"

    for epoch in range(EPOCHS):
        for index, batch in enumerate(loader):
            method.accumulate(task_losses, batch)
            if (index + 1) % ACCUMULATE:
                continue
            method.backward()
            method.clip_grad_norm_(1.0)
            losses = method.update().losses
            for schedule in schedules:
                schedule.step()
            average.update_parameters(model)
        print(epoch, {name: f"{loss:.4f}" for name, loss in losses.items()})
        parts: dict[str, Any] = {"model": model, "average": average}
        parts |= {"method": method, "outer": schedules[0], "inner": schedules[1]}
        torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)


if __name__ == "__main__":
    main()
