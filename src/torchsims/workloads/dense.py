"""Dense prediction: one prediction per pixel and task."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torchsims.metrics import Depth, Edges, Normals, Saliency, Segmentation, TaskMetric
from torchsims.models.dense.losses import DENSE_LOSSES
from torchsims.workloads.base import Workload, choose_tasks
from torchsims.workloads.predictors import ImagePredictor
from torchsims.workloads.task import Display, TaskSpec, identity

_Kind = tuple[Callable[..., TaskMetric], Display, Callable[[Tensor], Tensor]]
_argmax = partial(torch.argmax, dim=1)

_TASKS: dict[str, _Kind] = {
    "seg": (Segmentation, "classes", _argmax),
    "depth": (Depth, "distances", identity),
    "normals": (Normals, "directions", identity),
    "edges": (Edges, "outlines", torch.sigmoid),
    "parts": (Segmentation, "classes", _argmax),
    "saliency": (Saliency, "outlines", torch.sigmoid),
}
"""Metric, how a picture shows it, and what it shows of a prediction; the losses are those of ``dense_losses``."""


class DenseWorkload(Workload):
    """Images with one label per pixel and task.

    Args:
        channels: channels of the prediction of every task of the data.
        tasks: the tasks to train; empty for ``default``.
        default: the tasks that are trained by default.
    """

    architectures: ClassVar[tuple[str, ...]] = (
        "hps",
        "crossstitch",
        "nddr",
        "mtan",
        "densemtl",
        "swinmtl",
        "vtagml",
        "sam2",
    )

    unit: ClassVar[str] = "images"

    def __init__(self, channels: Mapping[str, int], tasks: Sequence[str], default: Sequence[str]) -> None:
        chosen = choose_tasks(tasks, channels, default)
        self.specs = {task: _spec(task, channels[task]) for task in chosen}
        self._shape: tuple[int, int] | None = None  # known when the training data are read, or from a checkpoint

    def prediction_state(self) -> dict[str, Any]:
        """Return height and width of the training images."""
        return {"shape": list(self._image_shape())}

    @classmethod
    def restore(cls, options: Mapping[str, Any], tasks: Sequence[str], root: str, state: Mapping[str, Any]) -> Any:
        workload = super().restore(options, tasks, root, state)
        height, width = state["shape"]
        workload._shape = (int(height), int(width))
        return workload

    def example_inputs(self) -> tuple[Tensor, ...]:
        return (torch.zeros(2, 3, *self._image_shape()),)

    def data_facts(self) -> dict[str, str]:
        height, width = self._image_shape()
        return super().data_facts() | {"size": f"{height} x {width} pixels"}

    def predictor(self, model: nn.Module) -> ImagePredictor:
        return ImagePredictor(self, model, self._image_shape())

    def _image_shape(self) -> tuple[int, int]:
        if self._shape is None:
            height, width = self.split("train")[0]["image"].shape[-2:]
            self._shape = (height, width)
        return self._shape


def _spec(task: str, outputs: int) -> TaskSpec:
    metric, shown_as, decode = _TASKS[task]
    make = partial(metric, outputs) if shown_as == "classes" else metric
    return TaskSpec(task, outputs, DENSE_LOSSES[task], make, shown_as, decode)
