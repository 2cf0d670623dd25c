"""Mixed precision: autocast inside of the closure, and a gradient scaler for float16.

    python examples/amp.py

The losses are taken in float32. With a scaler both copies of the model step or neither; `report.skipped` says why a
step was left out. With bfloat16 no scaler is needed.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.functional import l1_loss, mse_loss
from torch.optim import Adam

from torchsims import SIMS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the loss of every task."""
    with torch.autocast(DEVICE, dtype=torch.float16):
        out = model(x)
    out = out.float()
    return {"near": mse_loss(out[:, 0], x[:, 0].sin()), "far": 1000 * l1_loss(out[:, 1], x[:, 1].cos())}


def main() -> None:
    """Train 50 steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2)).to(DEVICE)
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    scaler = GradScaler(DEVICE)
    for step in range(50):
        report = method.step(task_losses, torch.randn(64, 8, device=DEVICE), scaler=scaler)
        scaler.update()
        if step % 10 == 0:
            print(step, report.skipped or report.losses, f"scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
