from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray
from torch import Tensor, nn

from torchsims._specs import choose, convert, parameters, split_spec
from torchsims.losses import TaskLosses
from torchsims.metrics import DenseMetric, Depth, Edges, Normals, Segmentation
from torchsims.models import HPS, STL, dense_losses
from torchsims.workloads._base import Batch, Workload

__all__ = ["DenseWorkload"]

METRICS: dict[str, Callable[[int], DenseMetric]] = {
    "seg": Segmentation,
    "depth": lambda channels: Depth(),
    "normals": lambda channels: Normals(),
    "edges": lambda channels: Edges(),
}

SHOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "seg": lambda scores: scores.argmax(1),
    "depth": lambda depth: depth,
    "normals": lambda normals: normals,
    "edges": lambda logits: logits.sigmoid(),
}
"""What a picture shows of a prediction."""


class DenseWorkload(Workload):
    """One prediction a pixel and task.

    Args:
        channels: how many channels the prediction of every task of the data has.
        tasks: the tasks to train; empty for ``usual``.
        usual: the tasks by default.
    """

    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {"hps": HPS, "stl": STL}

    def __init__(self, channels: Mapping[str, int], tasks: Sequence[str], usual: Sequence[str]) -> None:
        for task in tasks:
            choose("task", task, channels)
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {','.join(tasks)}`.")
        self.tasks = tuple(tasks or usual)
        self._channels = {task: channels[task] for task in self.tasks}

    def model(self, text: str) -> nn.Module:
        name, options = split_spec(text)
        kind = self.architectures[choose("model", name, self.architectures)]
        return kind(self._channels, **convert(f"model `{name}`", options, parameters(kind)))

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        predictions: dict[str, Tensor] = model(batch["image"])
        return predictions

    def losses(self, predictions: Mapping[str, Tensor], batch: Batch) -> TaskLosses:
        return dense_losses(predictions, batch)

    def metrics(self) -> dict[str, DenseMetric]:
        return {task: METRICS[task](channels) for task, channels in self._channels.items()}

    def samples(self, predictions: Mapping[str, Tensor], batch: Batch) -> dict[str, NDArray[Any]]:
        shown = {"image": batch["image"]}
        for task in self.tasks:
            shown[f"truth/{task}"] = batch[task]
            shown[f"prediction/{task}"] = SHOWN[task](predictions[task])
        return {name: value.detach().cpu().numpy() for name, value in shown.items()}
