# mypy: allow-untyped-calls
"""An ordinary loop for two tasks, as many projects have one; `loop_after.py` is the same loop with SIMS.

    python examples/loop_before.py

Mixed precision, gradient accumulation, clipping, a moving average of the weights, a schedule and checkpoints.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam
from torch.optim.lr_scheduler import LinearLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

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
    optimizer = Adam(model.parameters(), lr=3e-3)
    steps = EPOCHS * len(loader) // ACCUMULATE
    schedule = LinearLR(optimizer, 1.0, 0.1, total_iters=steps)
    checkpoint = Path(tempfile.mkdtemp()) / "last.pt"

    for epoch in range(EPOCHS):
        for index, batch in enumerate(loader):
            losses = task_losses(model, batch)
            (torch.stack(list(losses.values())).mean() / ACCUMULATE).backward()
            if (index + 1) % ACCUMULATE:
                continue
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(model)
        print(epoch, {name: f"{loss:.4f}" for name, loss in losses.items()})
        parts: dict[str, Any] = {"model": model, "average": average}
        parts |= {"optimizer": optimizer, "schedule": schedule}
        torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)


if __name__ == "__main__":
    main()
