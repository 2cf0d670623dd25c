"""Peak memory and step time of the SAM2.1 model: python bench/sam2.py [--size 256] [--batch 4].

SAM2.1-Tiny with random weights and LoRA of rank 16, the three tasks of NYUv2, Adam; memory as in bench/steps.py.

    python bench/sam2.py --schedule --rounds 3

compares a step with the authors' order of work instead: the order of passes is theirs, the code and the model are ours.
"""

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from statistics import median
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


class ScheduleOfTheScript:
    """The order of work of the authors' script: theta' first, then theta against the new theta'.

    Each half step evaluates the losses at both copies, and the trunk runs once for each task on the same images: four
    forward and two backward passes, all of them with three trunks. The copy is a whole one, frozen parameters included.
    Where the script needs no gradient of a copy, none is computed here.
    """

    def __init__(self, model: SAM2MTL, tau: float = 3.0) -> None:
        self.model, self.other, self.tau = model, copy.deepcopy(model), tau
        self.outer = RATES["outer"](p for p in model.parameters() if p.requires_grad)
        self.inner = RATES["inner"](p for p in self.other.parameters() if p.requires_grad)

    def step(self, batch: dict[str, Tensor]) -> None:
        for mine, theirs, optimizer, sign in (
            (self.other, self.model, self.inner, 1.0),  # theta' lowers h
            (self.model, self.other, self.outer, -1.0),  # theta raises it
        ):
            with torch.no_grad():
                fixed = self.log_losses(theirs, batch)
            difference = self.log_losses(mine, batch) - fixed
            optimizer.zero_grad()
            torch.autograd.backward(sign * self.tau * torch.logsumexp(sign * difference / self.tau, 0))
            optimizer.step()

    def log_losses(self, model: SAM2MTL, batch: dict[str, Tensor]) -> Tensor:
        found = []
        tasks, heads = model.tasks, list(model.heads)
        for task, head in zip(tasks, heads, strict=True):  # one pass through the full model per task
            model.tasks, model.heads = (task,), nn.ModuleList([head])
            (loss,) = task_losses(model, batch).mean().values()
            found.append(loss.log())
        model.tasks, model.heads = tasks, nn.ModuleList(heads)
        return torch.stack(found)


def compare_schedules(size: int, images: int, rounds: int) -> None:
    """Print processor times of neighbouring steps, and the median of their ratios."""
    torch.manual_seed(0)
    batch = make_batch(images, size)

    def model() -> SAM2MTL:
        return SAM2MTL(CHANNELS, sam2_config("tiny"), rank=16, size=size)

    script = ScheduleOfTheScript(model())
    ours = {name: METHODS[name][1](model()) for name in ("SIMS, joint", "SIMS, sequential")}
    steps: dict[str, Callable[[], Any]] = {"script": lambda: script.step(batch)}
    steps |= {name: partial(method.step, task_losses, batch) for name, method in ours.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            times[name].append(time.process_time() - start)
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(times["script"][1:], seconds[1:], strict=True)]  # the first round warms up
        print(f"{name:20} {median(seconds[1:]):6.1f} s  the script takes {median(ratios):.2f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a step of the SAM2.1 model.")
    parser.add_argument("--schedule", action="store_true", help="compare with the order of work of the authors' script")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.schedule:
        compare_schedules(options.size, options.batch, options.rounds)
        return
    base = 0.0
    for name in METHODS:
        peak, seconds = measure(name, options.size, options.batch)
        base = base or peak
        print(f"{name:32} {peak:7.0f} MB  {peak / base:.3f} x EW  {seconds:6.1f} s")


if __name__ == "__main__":
    main()
