"""What a run will cost: a few of its steps measured on this machine, and counted for others."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import final

from torch.utils.data import Subset

from torchsims.training._torch_private import OperatorCounter, storages_of
from torchsims.training.config import Execution
from torchsims.training.evaluation import evaluate
from torchsims.training.loop import _Session
from torchsims.training.resolution import Resolved
from torchsims.training.world import launched


@final
@dataclass(frozen=True)
class Device:
    """Another device, by numbers from its data sheet and the share of them that training reaches.

    Example:
        >>> Device(tflops=156.0, gigabytes_per_second=1555.0, utilisation=0.3).seconds(flops=46.8e12, moved=0.0)
        1.0
    """

    tflops: float
    gigabytes_per_second: float
    utilisation: float

    def __post_init__(self) -> None:
        for name in ("tflops", "gigabytes_per_second"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        if not 0 < self.utilisation <= 1:
            raise ValueError(f"Parameter `utilisation` should be in (0, 1]. Found `utilisation = {self.utilisation}`.")

    def seconds(self, flops: float, moved: float) -> float:
        """Return the time for floating-point operations or for bytes to and from memory, whichever is longer."""
        longest = max(flops / (1e12 * self.tflops), moved / (1e9 * self.gigabytes_per_second))
        return longest / self.utilisation


@final
@dataclass(frozen=True)
class Cost:
    """What one run costs.

    Example:
        >>> Cost("EW", "1 + 1", 100, 0.5, 10.0, flops=0, moved=0, peak=0).seconds
        60.0
    """

    label: str
    passes: str
    steps: int  # of the whole run
    seconds_per_step: float  # with loading its batch; the median
    evaluation: float  # seconds of all evaluations of the run
    flops: float  # of a step, the mean over those that were counted
    moved: float  # bytes that the operators of a step read and write
    peak: int  # bytes of all tensors of model, method and step that are alive at once
    evaluated: tuple[float, float] = (0.0, 0.0)  # operations and bytes of all evaluations of the run

    @property
    def seconds(self) -> float:
        """Time of the run on this machine."""
        return self.steps * self.seconds_per_step + self.evaluation

    def seconds_on(self, device: Device) -> float:
        """Return an estimate for another device, from what was counted; nothing of it depends on this machine."""
        return self.steps * device.seconds(self.flops, self.moved) + device.seconds(*self.evaluated)


def measure_cost(resolved: Resolved, execution: Execution | None = None, steps: int = 5) -> Cost:
    """Take a few steps of a run, evaluate a part of the data, and return what all of it will cost.

    Nothing is written. Operations, bytes and memory are counted in as many steps, and do not depend on the machine.
    Methods that do more in some steps take at least one such period.

    Example:
        >>> from torchsims.training import RunConfig, resolve
        >>> config = RunConfig("scenes:images=8:resolution=32", "ew", "hps:width=8", epochs=3, batch=4)
        >>> measure_cost(resolve(config), steps=1).steps
        6
    """
    every = int(resolved.method.options.get("every", 1))
    steps = every * -(-steps // every)
    with launched() as world:
        session = _Session(resolved, Path(), world, (), execution or Execution())
        session.trainer.start()
        numbers = _repeated_steps(session)
        counter = OperatorCounter(storages_of(session.model, session.trainer.method.state_dict()))
        with counter:
            next(numbers)  # makes the states of the optimizers
            counter.moved = counter.flops = 0
            for _ in range(steps):
                next(numbers)
        peak, seconds = counter.peak, []
        for _ in range(steps):
            begin = time.perf_counter()
            next(numbers)
            seconds.append(time.perf_counter() - begin)
        flops, moved = counter.flops / steps, counter.moved / steps
        per_item, counted = _evaluation(session, counter)
    items = {part: resolved.workload.items(part) for part in ("val", "test")}
    epochs = resolved.config.epochs
    evaluated = epochs * items["val"] + items["test"]
    return Cost(
        label=resolved.label,
        passes=resolved.method.count_passes(
            len(resolved.workload.tasks),
            evaluation=resolved.config.evaluation,
            micro_batches=resolved.config.micro_batches,
        ),
        steps=epochs * session.steps_per_epoch,
        seconds_per_step=fmean(seconds) if every > 1 else median(seconds),
        evaluation=per_item * evaluated,
        flops=flops,
        moved=moved,
        peak=peak,
        evaluated=(counted[0] * evaluated, counted[1] * evaluated),
    )


def _repeated_steps(session: _Session) -> Iterator[int]:
    """Take steps without end: small data have few in an epoch."""
    while True:
        yield from session.take_steps()
        session.trainer.step_number = 0


def _evaluation(session: _Session, counter: OperatorCounter) -> tuple[float, tuple[float, float]]:
    """Return the seconds to evaluate one item of the test split, and its operations and bytes, from one batch."""
    data, number = session.workload.split("test"), min(session.workload.at_once, session.workload.items("test"))
    part = Subset(data, range(number))
    counter.moved = counter.flops = 0
    with counter:  # which also warms up
        evaluate(session.workload, session.model, part, session.to_device)
    begin = time.perf_counter()
    evaluate(session.workload, session.model, part, session.to_device)
    seconds = time.perf_counter() - begin
    return seconds / number, (counter.flops / number, counter.moved / number)
