"""Data and a model as a package outside of torchsims would bring them."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchsims.metrics import Regression
from torchsims.models import number_loss
from torchsims.workloads import InMemory, TaskSpec, Workload

TASKS = ("sum", "mg/dL", "file")


class Waves(Workload):
    """Two numbers per item; the tasks have names that some files, folders and functions do not take."""

    architectures = ("helpers.plug_in:Line",)
    inputs = ("signal",)

    def __init__(self, items: int = 32, *, tasks: Sequence[str] = ()) -> None:
        self.size = items
        self.specs = {task: TaskSpec(task, 1, number_loss, Regression, decode=torch.flatten) for task in tasks or TASKS}

    def split(self, name: str) -> InMemory:
        x = torch.randn(self.size, 2, generator=torch.Generator().manual_seed(len(name)))
        return InMemory({"signal": x, "sum": x.sum(1), "mg/dL": x[:, 0] - x[:, 1], "file": x[:, 0]})

    def model_arguments(self) -> dict[str, Any]:
        return {"inputs": 2}


class Line(nn.Module):
    """One linear layer."""

    def __init__(self, outputs: Mapping[str, int], inputs: int, bias: bool = True, scale: float = 1.0) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f"Parameter `scale` should be positive. Found `scale = {scale}`.")
        self.sizes = dict(outputs)
        self.layer = nn.Linear(inputs, sum(self.sizes.values()), bias=bias)

    def forward(self, signal: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.sizes, self.layer(signal).split(list(self.sizes.values()), dim=1), strict=True))


class Measuring(Line):
    """Looks at values in its constructor, which tensors without memory do not have."""

    def __init__(self, outputs: Mapping[str, int], inputs: int) -> None:
        super().__init__(outputs, inputs)
        self.largest = float(self.layer.weight.abs().max().item())


class Slow(Line):
    """Waits in every training step until a file exists: there is time to stop a run that costs nothing.

    Every training step is a line of the file ``log``, with the number of its process.
    """

    def __init__(
        self, outputs: Mapping[str, int], inputs: int, until: str = ".", log: str = "", seconds: float = 0.3
    ) -> None:
        super().__init__(outputs, inputs)
        self.until, self.log, self.seconds = Path(until), log, seconds

    def forward(self, signal: Tensor) -> dict[str, Tensor]:
        if self.training and self.log and not signal.is_meta:
            with Path(self.log).open("a") as file:
                file.write(f"{os.getpid()}\n")
        if self.training and not self.until.exists():
            time.sleep(self.seconds)
        return super().forward(signal)
