from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray
from torch import Tensor, nn

from torchsims._specs import choose, convert, parameters, split_spec
from torchsims.losses import TaskLosses
from torchsims.metrics import Depth, Edges, Normals, Saliency, Segmentation, TaskMetric
from torchsims.models import HPS, STL, dense_losses
from torchsims.workloads._base import Batch, Kind, Workload
from torchsims.workloads._sam2 import check_encoder, check_sam2, sam2, sam2_stl

__all__ = ["DenseWorkload"]

METRICS: dict[str, Callable[[int], TaskMetric]] = {
    "seg": Segmentation,
    "depth": lambda channels: Depth(),
    "normals": lambda channels: Normals(),
    "edges": lambda channels: Edges(),
    "parts": Segmentation,
    "saliency": lambda channels: Saliency(),
}

SHOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "seg": lambda scores: scores.argmax(1),
    "depth": lambda depth: depth,
    "normals": lambda normals: normals,
    "edges": lambda logits: logits.sigmoid(),
    "parts": lambda scores: scores.argmax(1),
    "saliency": lambda logits: logits.sigmoid(),
}
"""What a picture shows of a prediction."""

KINDS: dict[str, Kind] = {
    "seg": "classes",
    "depth": "distances",
    "normals": "directions",
    "edges": "outlines",
    "parts": "classes",
    "saliency": "outlines",
}
"""How it shows it."""


class DenseWorkload(Workload):
    """One prediction a pixel and task.

    Args:
        channels: how many channels the prediction of every task of the data has.
        tasks: the tasks to train; empty for ``usual``.
        usual: the tasks by default.
    """

    architectures: ClassVar[Mapping[str, Callable[..., nn.Module]]] = {
        "hps": HPS,
        "stl": STL,
        "sam2": sam2,
        "sam2stl": sam2_stl,
    }
    option_checks: ClassVar[Mapping[str, Callable[..., None]]] = {"sam2": check_sam2, "sam2stl": check_sam2}
    source_checks: ClassVar[Mapping[str, Callable[..., None]]] = {"sam2": check_encoder, "sam2stl": check_encoder}
    """Of models that take long to make, or that are read from files."""

    def __init__(self, channels: Mapping[str, int], tasks: Sequence[str], usual: Sequence[str]) -> None:
        for task in tasks:
            choose("task", task, channels)
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {','.join(tasks)}`.")
        self.tasks = tuple(tasks or usual)
        self._channels = {task: channels[task] for task in self.tasks}
        self.kinds = {task: KINDS[task] for task in self.tasks}

    def model(self, text: str) -> nn.Module:
        name, options = self.architecture(text)
        return self.architectures[name](self._channels, **options)

    def check_model(self, text: str) -> None:
        name, options = self.architecture(text)
        if name in self.option_checks:
            self.option_checks[name](**options)
        else:
            self.model(text)

    def check_sources(self, model: str) -> None:
        name, options = self.architecture(model)
        if name in self.source_checks:
            self.source_checks[name](**options)

    def architecture(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return the name of a model and its options."""
        name, options = split_spec(text)
        kind = self.architectures[choose("model", name, self.architectures)]
        return name, convert(f"model `{name}`", options, parameters(kind))

    def image_shape(self, item: Batch) -> tuple[int, ...]:
        return tuple(item["image"].shape[-2:])

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        predictions: dict[str, Tensor] = model(batch["image"])
        return predictions

    def losses(self, predictions: Mapping[str, Tensor], batch: Batch) -> TaskLosses:
        return dense_losses(predictions, batch)

    def metrics(self) -> dict[str, TaskMetric]:
        return {task: METRICS[task](channels) for task, channels in self._channels.items()}

    def shown(self, predictions: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {task: SHOWN[task](predictions[task]) for task in self.tasks}

    def samples(self, predictions: Mapping[str, Tensor], batch: Batch) -> dict[str, NDArray[Any]]:
        shown = {"image": batch["image"]}
        for task, value in self.shown(predictions).items():
            shown[f"truth/{task}"] = batch[task]
            shown[f"prediction/{task}"] = value
        return {name: value.detach().cpu().numpy() for name, value in shown.items()}
