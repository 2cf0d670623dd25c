"""Callbacks: what is called while a run trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path
from socket import gethostname
from time import monotonic, time, time_ns
from typing import Any, final

from torchsims.diagnosis import GradientValues
from torchsims.training.records import record
from torchsims.training.run import Metrics

VERSION = "brain.Event:2"  # of event files
PERIOD = 1.0  # seconds between two writes to an event file


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
    regularizer: float | None = None  # value of the term that belongs to no task, for models that have one


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
    """Writes losses, weights, merit, regularizer, learning rate, gradients and validation metrics to event files.

    Example:
        >>> callbacks = [TensorBoard(Path("runs/events"))]  # `train(config, folder, callbacks=callbacks)` fills it
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._waiting: list[tuple[float, int, StepValues]] = []  # steps since the last write, with their times
        self._written = 0.0

    def on_start(self, step: int, steps: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._folder.mkdir(parents=True, exist_ok=True)
        # Not TensorBoard's own writer: a step would wait for its thread, which needs the interpreter for every event.
        name = f"events.out.tfevents.{time_ns()}.{gethostname()}.{getpid()}"
        self._file, self._event = (self._folder / name).open("xb"), Event
        # What a killed run wrote after its last checkpoint is purged.
        self._write(Event(wall_time=time(), step=step, file_version=VERSION))
        self._write(Event(wall_time=time(), step=step, session_log=SessionLog(status=SessionLog.START)))
        self._file.flush()
        self._waiting, self._written = [], monotonic()

    def on_step(self, step: int, values: StepValues) -> None:
        self._waiting.append((time(), step, values))
        if monotonic() - self._written >= PERIOD:
            self._write_waiting()

    def on_epoch(self, step: int, metrics: Metrics) -> None:
        self._write_waiting()
        found = {f"validation/{task}/{name}": value for task, of in metrics.items() for name, value in of.items()}
        self._add_scalars(time(), step, found)
        self._file.flush()

    def on_end(self) -> None:
        if self._file is None:
            return
        with self._file:
            if self._folder.is_dir():  # otherwise the run has failed for that reason
                self._write_waiting()
        self._file = None

    def _write_waiting(self) -> None:
        """Write the steps since the last write. One by one, between steps, each would take several times as long."""
        if not self._folder.is_dir():
            raise OSError(f"The folder `{self._folder}` was deleted while the run was writing to it.")
        waiting, self._waiting = self._waiting, []
        for moment, step, values in waiting:
            self._add_scalars(moment, step, _scalars(values))
        self._file.flush()
        self._written = monotonic()

    def _add_scalars(self, moment: float, step: int, values: Mapping[str, float]) -> None:
        """Write all values as one event: an event takes longer to write than a value."""
        event = self._event(wall_time=moment, step=step)
        add = event.summary.value.add
        for tag, value in values.items():
            add(tag=tag, simple_value=value)
        self._write(event)

    def _write(self, event: Any) -> None:
        self._file.write(record(event.SerializeToString()))


def _scalars(values: StepValues) -> dict[str, float]:
    found = {f"losses/{task}": value for task, value in values.losses.items()}
    found |= {f"weights/{task}": value for task, value in values.weights.items()}
    single = {"merit": values.merit, "regularizer": values.regularizer, "lr": values.lr}
    found |= {name: value for name, value in single.items() if value is not None}
    return found if values.gradients is None else found | _gradients(values.gradients)


def _gradients(values: GradientValues) -> dict[str, float]:
    found = {f"gradients/norms/{task}": value for task, value in values.norms.items()}
    found |= {f"gradients/shares/{task}": value for task, value in values.shares.items()}
    for task, row in values.cosines.items():
        found |= {f"gradients/cosines/{task}/{other}": value for other, value in row.items()}
    return found
