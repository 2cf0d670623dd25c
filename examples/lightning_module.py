"""Lightning: a module with two tasks in different units, trained by SIMS, with checkpoints, clipping and accumulation.

    python examples/lightning_module.py

Prints the number of steps, the losses of the validation and the best checkpoint.
"""

import tempfile
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

from torchsims import SIMS
from torchsims.lightning import MultiTaskModule


class Net(MultiTaskModule):
    """Predicts a length and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))

    def task_losses(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Return one loss per task, in any units."""
        error = (self.net(batch[0]) - batch[1]).square().mean(0)
        return {"length": error[0], "weight": 1e6 * error[1]}

    def configure_method(self, model: nn.Module) -> SIMS:
        """Return the method."""
        return SIMS(model, tau=1.0, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=9e-3))

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Log the losses."""
        self.log_dict({f"val/{task}": loss for task, loss in self.task_losses(batch).items()})


torch.manual_seed(0)
x = torch.randn(512, 8)
data = TensorDataset(x, torch.stack([x[:, 0].sin(), x[:, 1] * x[:, 2]], 1))
loader = DataLoader(data, batch_size=16)
with tempfile.TemporaryDirectory() as folder:
    best = ModelCheckpoint(folder, monitor="val/length")
    options: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(
        accelerator="cpu", max_epochs=6, accumulate_grad_batches=2, gradient_clip_val=1.0, callbacks=[best], **options
    )
    trainer.fit(Net(), loader, loader)
    length, weight = (float(trainer.callback_metrics[f"val/{task}"]) for task in ("length", "weight"))
    print(f"{trainer.global_step} steps; losses {length:.3f} of length, {weight:.0f} of weight")
    print(f"best checkpoint: {best.best_model_path}")
