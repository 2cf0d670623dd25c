from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Dataset

from torchsims._specs import join_spec, parameters, split_spec
from torchsims.losses import TaskLosses
from torchsims.metrics import TaskMetric

__all__ = ["Batch", "Batched", "InMemory", "Kind", "Workload"]

Batch = Mapping[str, Tensor]
Kind: TypeAlias = Literal["classes", "distances", "directions", "outlines"]


class Workload(ABC):
    """A data set with the model, the losses and the metrics that go with it.

    Attributes:
        tasks: the names of the tasks.
        architectures: the models that :meth:`model` knows, by name.
        presets: settings of a run that suit this workload, by the name of the preset; ``"default"`` is one of them.
            The options of ``data``, ``model`` and each of ``methods`` stand for those that a run of that name leaves
            out.
        at_once: items of a forward pass without a graph.
        kinds: how a picture shows the prediction of a task, as in :func:`torchsims.reporting.colour_map`.
    """

    tasks: tuple[str, ...]
    architectures: ClassVar[Mapping[str, Callable[..., nn.Module]]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    at_once: ClassVar[int] = 32
    kinds: Mapping[str, Kind]

    @abstractmethod
    def split(self, name: str) -> Dataset[Any]:
        """Return the data of ``"train"``, ``"val"`` or ``"test"``."""

    def items(self, name: str) -> int:
        """Return how many items a split has."""
        return len(self.split(name))  # type: ignore[arg-type]  # every data set here has a length

    @abstractmethod
    def model(self, text: str) -> nn.Module:
        """Return a new model, named with its options; the global random generator decides where it starts."""

    def check_model(self, text: str) -> None:
        """Raise if :meth:`model` would not know the name or refuse an option."""
        self.model(text)

    def like(self, name: str, model: str) -> str:
        """Return the text of another architecture, with the options of ``model`` that it has too, such as a width.

        Where ``model`` has a form of its own of the other one, such as ``sam2stl`` for ``stl``, it is that one.
        """
        shared, options = split_spec(model)
        name = f"{shared}{name}" if f"{shared}{name}" in self.architectures else name
        known = parameters(self.architectures[name])
        return join_spec(name, {key: value for key, value in options.items() if key in known})

    def check_sources(self, model: str) -> None:  # noqa: B027  # most read nothing
        """Raise if a file that the data, or this model, is read from is not there; nothing is read by default."""

    def image_shape(self, item: Batch) -> tuple[int, ...]:
        """Return height and width of the image of an item; nothing if it has none."""
        return ()

    def fitted(self) -> dict[str, Any]:
        """Return what predictions need of the data, as JSON has it; nothing where the model alone is enough."""
        return {}

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027  # most look the same in every epoch
        """Hear which epoch comes, for data that looks different in every epoch; training calls it."""

    @abstractmethod
    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the prediction of every task."""

    @abstractmethod
    def losses(self, predictions: Mapping[str, Tensor], batch: Batch) -> TaskLosses:
        """Return the loss of every task as a sum over labels and their number."""

    @abstractmethod
    def metrics(self) -> dict[str, TaskMetric]:
        """Return a new metric a task; ``update(prediction, target)`` takes those of the task."""

    def shown(self, predictions: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what a picture shows of predictions: classes instead of scores, shares instead of logits."""
        return dict(predictions)

    def samples(self, predictions: Mapping[str, Tensor], batch: Batch) -> dict[str, NDArray[Any]]:
        """Return arrays that a report can draw; none by default."""
        return {}


class Batched(Dataset[dict[str, Tensor]]):
    """A data set that returns many items at once, faster than one by one.

    Attributes:
        at_once: how many items a forward pass without a graph takes.
    """

    at_once: int = 32

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return some items, each field with a leading dimension."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[0] for name, column in self.batch([index]).items()}


@final
class InMemory(Batched):
    """A data set made once and kept, so that no step of training waits for it.

    Args:
        columns: every field of all items, each with a leading dimension for the item.
        at_once: how many items a forward pass without a graph takes.

    Example:
        >>> import torch
        >>> data = InMemory({"x": torch.arange(6).view(3, 2), "y": torch.ones(3)})
        >>> len(data), data[2]["x"]
        (3, tensor([4, 5]))
    """

    def __init__(self, columns: Batch, at_once: int = 32) -> None:
        self.columns = columns
        self.at_once = at_once

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        rows = torch.tensor(items, dtype=torch.int64)
        return {name: column[rows] for name, column in self.columns.items()}
