"""Callbacks: what is called while a run trains."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from torchsims.diagnosis import GradientValues
from torchsims.training.run import Metrics


@dataclass(frozen=True)
class StepValues:
    """Numbers of one step: losses in the units of the data, by task, NaN without a label, and the rate of the model.

    Example:
        >>> StepValues({"depth": 0.5}, {"depth": 1.0}, lr=1e-3).merit is None
        True
    """

    losses: Mapping[str, float]
    weights: Mapping[str, float]
    lr: float
    merit: float | None = None  # value of the merit function, for methods that have one
    gradients: GradientValues | None = None  # before the step, if they were measured
    influence: Mapping[str, float] = field(default_factory=dict)  # share of a task in the weighted sum of the losses


class Callback:
    """Base class of callbacks; every method may be left out."""

    def on_start(self, step: int, steps: int) -> None:
        """Training begins, or resumes, at ``step`` of ``steps``."""

    def on_step(self, step: int, values: StepValues) -> None:
        """A step was taken."""

    def on_epoch(self, step: int, metrics: Metrics) -> None:
        """An epoch ended with ``step``; the metrics are those of the validation split."""

    def on_warning(self, sentence: str) -> None:
        """Something happened that the user should know, such as a starved task."""

    def on_end(self) -> None:
        """Training ended, whether the run is finished or not."""


@final
class TensorBoard(Callback):
    """Writes losses, weights, merit, learning rate, measured gradients and validation metrics to event files.

    Example:
        >>> callbacks = [TensorBoard(Path("runs/events"))]  # `train(config, folder, callbacks=callbacks)` fills it
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def on_start(self, step: int, steps: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What a killed run wrote after its last checkpoint is purged.
        self._writer = SummaryWriter(str(self._folder), purge_step=step)
        self._writer.flush()  # its thread has nothing left to write when the first step looks at the folder

    def on_step(self, step: int, values: StepValues) -> None:
        if not self._folder.is_dir():  # noticed here, before the thread of the writer does and prints a traceback
            raise OSError(f"The folder `{self._folder}` was deleted while the run was writing to it.")
        for kind, by_task in (("losses", values.losses), ("weights", values.weights)):
            for task, value in by_task.items():
                self._writer.add_scalar(f"{kind}/{task}", value, step)
        for name, number in (("merit", values.merit), ("lr", values.lr)):
            if number is not None:
                self._writer.add_scalar(name, number, step)
        if values.gradients is not None:
            self._add_gradients(step, values.gradients)

    def _add_gradients(self, step: int, gradients: GradientValues) -> None:
        for kind, by_task in (("norms", gradients.norms), ("shares", gradients.shares)):
            for task, value in by_task.items():
                self._writer.add_scalar(f"gradients/{kind}/{task}", value, step)
        for task, row in gradients.cosines.items():
            for other, value in row.items():
                self._writer.add_scalar(f"gradients/cosines/{task}/{other}", value, step)

    def on_epoch(self, step: int, metrics: Metrics) -> None:
        for task, values in metrics.items():
            for name, value in values.items():
                self._writer.add_scalar(f"validation/{task}/{name}", value, step)

    def on_end(self) -> None:
        if self._writer is not None:
            with suppress(FileNotFoundError):  # the folder was deleted
                self._writer.close()
