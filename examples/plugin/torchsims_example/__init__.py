"""A method, a data set and a model of one's own."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torchsims.metrics import Regression
from torchsims.scalarizations import Scalarization
from torchsims.workloads import InMemory, TaskSpec, Workload

__all__ = ["RootMean", "TinyNet", "Waves"]


class RootMean(Scalarization):
    r"""A power mean of the losses, :math:`(\frac{1}{m} \sum_i L_i^p)^{1/p}`.

    Args:
        power: :math:`p`, above zero.
    """

    def __init__(self, power: float = 0.5) -> None:
        super().__init__()
        if not power > 0:
            raise ValueError(f"Parameter `power` should be positive. Found `power = {power}`.")
        self.power = power

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the power mean over the labelled tasks."""
        powers = losses.clamp(min=0).pow(self.power).where(labelled, 0).sum(-1)
        return (powers / labelled.sum(-1)).pow(1 / self.power)


def squared_error(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the squared errors and their number."""
    return (prediction.squeeze(-1) - target).square().sum(), torch.tensor(len(target))


class Waves(Workload):
    """Two functions of four random numbers, one of them in a unit that is a thousand times smaller.

    Args:
        rows: number of rows for training.
        tasks: tasks to train; both by default.
    """

    architectures: ClassVar[tuple[str, ...]] = ("tiny",)
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {"epochs": 3, "batch": 16, "lr": 1e-2}}
    inputs: ClassVar[tuple[str, ...]] = ("x",)

    def __init__(self, rows: int = 128, *, tasks: Sequence[str] = ()) -> None:
        names = tuple(tasks) or ("sum", "wave")
        self.specs = {
            name: TaskSpec(name, outputs=1, loss=squared_error, metric=lambda: Regression(1.0)) for name in names
        }
        self._rows = {"train": rows, "val": 32, "test": 32}

    def model_arguments(self) -> dict[str, Any]:
        """Return what every model of this data set takes beside its outputs."""
        return {"width_in": 4}

    def split(self, name: str) -> InMemory:
        """Return the rows of a split, the same every time."""
        generator = torch.Generator().manual_seed(["train", "val", "test"].index(name))
        x = torch.randn(self._rows[name], 4, generator=generator)
        targets = {"sum": x.sum(1), "wave": 1e3 * torch.sin(x[:, 0])}
        return InMemory({"x": x, **{name: targets[name] for name in self.tasks}})


class TinyNet(nn.Module):
    """One hidden layer and one linear head per task.

    Args:
        outputs: number of outputs per task.
        width_in: number of inputs.
        width: width of the hidden layer.
    """

    def __init__(self, outputs: Mapping[str, int], width_in: int, width: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(width_in, width)
        self.heads = nn.ModuleList([nn.Linear(width, number) for number in outputs.values()])
        self._tasks = tuple(outputs)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task."""
        features = self.hidden(x).relu()
        return {task: head(features) for task, head in zip(self._tasks, self.heads, strict=True)}
