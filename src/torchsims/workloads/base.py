"""The base class of everything that can be trained."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Dataset

from torchsims.losses import TaskLosses
from torchsims.metrics import TaskMetric
from torchsims.models import Architecture
from torchsims.registry import choose
from torchsims.workloads.predictors import ArrayPredictor, Predictor
from torchsims.workloads.task import TaskSpec

W = TypeVar("W", bound="Workload")


class Workload(ABC):
    """A data set with its tasks and the architectures that suit it.

    A subclass sets ``specs`` and ``architectures`` and defines :meth:`split`; everything else has a default that
    follows from them. Options on the command line are the arguments of its constructor whose defaults are numbers,
    words or flags. The constructor may also take ``tasks``, the names of the tasks to train, and ``root``, the folder
    of the data.

    Attributes:
        specs: the trained tasks, by name, in order.
        architectures: names in :data:`torchsims.models.MODELS`, or ``package.module:Class``; the first is the default.
        presets: settings that suit this workload, by the name of the preset. The options of ``data``, ``model`` and
            each of ``methods`` are defaults for those that a run leaves out.
        inputs: fields of a batch that the model takes, in order.
        unit: what an item is called, in the plural.
        at_once: batch size of a forward pass without gradients.
    """

    specs: Mapping[str, TaskSpec]
    architectures: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    inputs: ClassVar[tuple[str, ...]] = ("image",)
    unit: ClassVar[str] = "items"
    at_once: ClassVar[int] = 32

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the trained tasks."""
        return tuple(self.specs)

    @property
    def outputs(self) -> dict[str, int]:
        """Channels or classes of the predictions, by task."""
        return {task: spec.outputs for task, spec in self.specs.items()}

    @abstractmethod
    def split(self, name: str) -> Dataset[Any]:
        """Return the data of ``"train"``, ``"val"`` or ``"test"``."""

    def items(self, name: str) -> int:
        """Return how many items a split has."""
        return len(self.split(name))  # type: ignore[arg-type]  # every data set here has a length

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027  # most data are the same in every epoch
        """Prepare the training data for an epoch, such as its random augmentations."""

    def check_sources(self, model: str) -> None:
        """Raise if a file that the data or the model is read from is missing."""
        Architecture.parse(model, self.architectures).check_sources()

    def model_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that every architecture of this data takes beside the outputs."""
        return {}

    def build_model(self, text: str = "") -> nn.Module:
        """Return a new model; the global random generator decides its initial weights.

        The text is a name with options, such as ``hps:width=8``; ``stl:of=hps:width=8`` for one network per task;
        ``package.module:Class``; or empty for the default architecture.
        """
        return Architecture.parse(text, self.architectures).build(self.outputs, self.model_arguments())

    def check_model(self, text: str) -> str:
        """Return the canonical text of a model; raise for an unknown name or a bad option, without building it."""
        architecture = Architecture.parse(text, self.architectures)
        architecture.check(self.outputs, self.model_arguments())
        return str(architecture)

    def single_task(self, text: str) -> str:
        """Return the text of the model with one network per task of the architecture that ``text`` names."""
        return str(Architecture.parse(text, self.architectures).as_single_task())

    def predict(self, model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of the model for a batch, by task."""
        predictions: dict[str, Tensor] = model(*(batch[name] for name in self.inputs))
        return predictions

    def targets(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the labels in a batch, by task; a task that has none there is left out."""
        return {task: batch[task] for task in self.specs if task in batch}

    def losses(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> TaskLosses:
        """Return the loss of every trained task, as a sum over labels and their number."""
        targets = self.targets(batch)
        total: dict[str, Tensor] = {}
        count: dict[str, Tensor | float] = {}
        for task, spec in self.specs.items():
            if task in targets:
                total[task], count[task] = spec.loss(predictions[task], targets[task])
            else:
                total[task], count[task] = (0 * predictions[task]).sum(), 0
        return TaskLosses(total=total, count=count)

    def metrics(self) -> dict[str, TaskMetric]:
        """Return a new metric per reported task; ``update(prediction, target)`` takes those of the task."""
        return {task: spec.metric() for task, spec in self.specs.items()}

    def samples(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
        """Return what pictures show: ``"image"``, ``"truth/TASK"``, ``"prediction/TASK"``; empty without pictures."""
        targets, shown = self.targets(batch), {}
        for task, spec in self.specs.items():
            if spec.shown_as is not None:
                shown["image"] = batch["image"]
                shown[f"truth/{task}"] = targets[task]
                shown[f"prediction/{task}"] = spec.decode(predictions[task])
        return {name: value.detach().cpu().numpy() for name, value in shown.items()}

    def example_inputs(self) -> tuple[Tensor, ...]:
        """Return inputs of the model for two items, for programs that are traced."""
        items = [self.split("train")[index] for index in range(2)]
        return tuple(torch.stack([item[name] for item in items]) for name in self.inputs)

    # Prediction without the data.

    def prediction_state(self) -> dict[str, Any]:
        """Return what predictions need of the data, as JSON holds it; empty if the model alone is enough."""
        return {}

    @classmethod
    def restore(
        cls: type[W], options: Mapping[str, Any], tasks: Sequence[str], root: str, state: Mapping[str, Any]
    ) -> W:
        """Return a workload for predictions from its :meth:`prediction_state`. The data need not be there."""
        return cls.create(options, tasks=tuple(tasks), root=root)

    @classmethod
    def create(cls: type[W], options: Mapping[str, Any], **settings: Any) -> W:
        """Return a new workload; an empty setting that its constructor does not take is left out."""
        known = inspect.signature(cls).parameters
        if unknown := [name for name, value in settings.items() if value and name not in known]:
            value = settings[unknown[0]]
            raise ValueError(
                f"{cls.__name__} has no setting `{unknown[0]}`. "
                f"Found `{unknown[0]} = {value if isinstance(value, str | int) else ','.join(value)}`."
            )
        return cls(**options, **{name: value for name, value in settings.items() if name in known})

    def describe_data(self) -> list[dict[str, Any]]:
        """Return rows that say how the data were read, for users to check; none where nothing was inferred."""
        return []

    def data_facts(self) -> dict[str, str]:
        """Return what a page says of the data, by name: how many items, and which tasks."""
        splits = {"train": "training", "val": "validation", "test": "test"}
        counts = ", ".join(f"{self.items(name):,} {text}" for name, text in splits.items())
        tasks = [f"{name} ({count} output{'s' * (count != 1)})" for name, count in self.outputs.items()]
        return {self.unit: counts, "tasks": ", ".join(tasks)}

    def fingerprint(self) -> str:
        """Return a digest of the data, by which a finished run is known to be trained on them; empty without one."""
        return ""

    def predictor(self, model: nn.Module) -> Predictor:
        """Return an object that predicts from new data with a trained model."""
        return ArrayPredictor(self, model)


def choose_tasks(tasks: Sequence[str], known: Iterable[str], default: Sequence[str]) -> tuple[str, ...]:
    """Return the tasks to train, or ``default`` if there are none; raise if one is unknown or named twice."""
    known = list(known)
    for task in tasks:
        choose("task", task, known)
    if len(set(tasks)) < len(tasks):
        raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {','.join(tasks)}`.")
    return tuple(tasks or default)
