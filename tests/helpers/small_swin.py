"""SwinMTL and VTAGML on Swin transformers that are small enough for tests."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD
from transformers import SwinConfig, Swinv2Config

from torchsims import SIMS, TaskLosses
from torchsims.models import VTAGML, SwinMTL, dense_losses

CHANNELS = {"seg": 4, "depth": 1}
NAMES = ["swinmtl", "vtagml"]

SIZES: dict[str, Any] = {
    "depths": [1, 2, 2, 2],
    "num_heads": [1, 2, 2, 4],
    "embed_dim": 12,
    "image_size": 64,
    "window_size": 2,
    "drop_path_rate": 0.0,
}


def swin_config(**options: Any) -> SwinConfig:
    return SwinConfig(**{**SIZES, **options})


def swinv2_config(**options: Any) -> Swinv2Config:
    return Swinv2Config(**{**SIZES, **options})


def make(name: str, seed: int = 0, outputs: Any = CHANNELS, **options: Any) -> nn.Module:
    """Return a model whose parameters are all far from zero."""
    torch.manual_seed(seed)
    if name == "swinmtl":
        model: nn.Module = SwinMTL(outputs, swinv2_config(), **{"width": 8, **options})
    else:
        model = VTAGML(outputs, swin_config(), **{"adapted": 1, "dropout": 0.0, **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def make_batch(images: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "image": torch.rand(images, 3, 64, 96, generator=generator).to(dtype),
        "seg": torch.randint(-1, CHANNELS["seg"], (images, 64, 96), generator=generator),
        "depth": (torch.rand(images, 1, 64, 96, generator=generator) + 0.5).to(dtype),
    }


def task_losses(model: nn.Module, batch: dict[str, Tensor]) -> TaskLosses:
    return dense_losses(model(batch["image"]), batch)


def run_steps(model: nn.Module, *parts: slice, **options: Any) -> list[float]:
    """Return the losses of two steps of SIMS on parts of a batch of three."""
    method = SIMS(model.double(), outer=partial(SGD, lr=1e-3), inner=partial(SGD, lr=5e-3), **options)
    found = []
    for step in range(2):
        batch = make_batch(seed=step)
        batches = [{name: value[part] for name, value in batch.items()} for part in parts]
        found += [float(loss) for loss in method.step(task_losses, *batches).losses.values()]
    return found


def on_rank(rank: int, name: str) -> list[float]:
    return run_steps(make(name), slice(0, 2) if rank == 0 else slice(2, 3), evaluation="joint")
