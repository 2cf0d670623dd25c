"""Peak memory and time of a step of the SAM2.1 model: python bench/sam2.py [--size 256] [--batch 4].

SAM2.1-Tiny with random weights and LoRA of rank 16, the three tasks of NYUv2, Adam; memory as in bench/steps.py.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from steps import PeakBytes
from torchsims import SIMS, Scalarized, TaskLosses
from torchsims.models import SAM2MTL, dense_losses, sam2_config
from torchsims.scalarizations import EW

CHANNELS = {"seg": 13, "depth": 1, "normals": 3}
RATES: dict[str, Any] = {"outer": partial(Adam, lr=1e-4), "inner": partial(Adam, lr=5e-4)}
METHODS: dict[str, tuple[bool, Callable[[nn.Module], Any]]] = {  # whether activations are computed again, the method
    "EW": (False, lambda model: Scalarized(model, EW(), outer=RATES["outer"])),
    "SIMS, sequential": (False, lambda model: SIMS(model, **RATES)),
    "SIMS, joint": (False, lambda model: SIMS(model, evaluation="joint", **RATES)),
    "EW, checkpointing": (True, lambda model: Scalarized(model, EW(), outer=RATES["outer"])),
    "SIMS, sequential, checkpointing": (True, lambda model: SIMS(model, **RATES)),
}


def make_batch(images: int, size: int) -> dict[str, Tensor]:
    normals = torch.randn(images, 3, size, size)
    return {
        "image": torch.rand(images, 3, size, size),
        "seg": torch.randint(0, 13, (images, size, size)),
        "depth": torch.rand(images, 1, size, size) + 0.5,
        "normals": normals / normals.norm(dim=1, keepdim=True),
    }


def task_losses(model: nn.Module, batch: dict[str, Tensor]) -> TaskLosses:
    return dense_losses(model(batch["image"]), batch)


def measure(name: str, size: int, images: int) -> tuple[float, float]:
    """Return the peak in MB and the seconds of the second step."""
    torch.manual_seed(0)
    checkpointing, make = METHODS[name]
    with PeakBytes() as counter:
        model = SAM2MTL(CHANNELS, sam2_config("tiny"), rank=16, size=size, checkpointing=checkpointing)
        batch = make_batch(images, size)
        method = make(model)
        method.step(task_losses, batch)
        start = time.process_time()
        method.step(task_losses, batch)
        seconds = time.process_time() - start
    return counter.peak / 1e6, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a step of the SAM2.1 model.")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    base = 0.0
    for name in METHODS:
        peak, seconds = measure(name, options.size, options.batch)
        base = base or peak
        print(f"{name:32} {peak:7.0f} MB  {peak / base:.3f} x EW  {seconds:6.1f} s")


if __name__ == "__main__":
    main()
