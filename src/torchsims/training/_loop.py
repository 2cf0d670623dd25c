import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Adam

from torchsims._starvation import StarvationWarning, Starved
from torchsims.losses import TaskLosses
from torchsims.methods import Method
from torchsims.steppers import MeritReport, Report
from torchsims.training._batches import count_batches, load, mix, shards, training_batches
from torchsims.training._checkpoints import load_checkpoint, locked, save_checkpoint
from torchsims.training._evaluation import Metrics, evaluate, pictures
from torchsims.training._history import History
from torchsims.training._precision import Precision
from torchsims.training._rates import rate_factor
from torchsims.training._settings import Settings
from torchsims.training._signals import asked_to_stop
from torchsims.training._trainable import frozen_sums, load_trainable_state, trainable_state
from torchsims.training._watch import Watch
from torchsims.training.world import World, launched

__all__ = ["Outcome", "StoppedError", "train"]


class StoppedError(Exception):
    """Somebody asked the run to stop; its state is saved."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a finished run found.

    Attributes:
        settings: of the run.
        metrics: task, then metric, then the number on the test split, after the last epoch.
        better: the same names, and whether higher is better.
        history: curves over the epochs.
        samples: arrays that a report can draw.
        seconds: where the time went: ``data``, ``step``, ``evaluation`` and ``checkpoint``.
        starved: the tasks that the method starved, each of which was warned of.
    """

    settings: Settings
    metrics: Metrics
    better: Mapping[str, Mapping[str, bool]]
    history: Mapping[str, Any]
    samples: Mapping[str, NDArray[Any]]
    seconds: Mapping[str, float]
    starved: Sequence[str] = ()


def train(
    settings: Settings,
    folder: Path,
    *,
    watches: Sequence[Watch] = (),
    checkpoint_every: int = 0,
    workers: int = 0,
) -> Outcome:
    """Train a model, or go on where a run with the same settings in the same folder stopped.

    A run that goes on ends as if it had never stopped, bit for bit: the order of the data and all random numbers are
    functions of the seed and the step, and everything else is in the checkpoint, the number of threads included. Under
    ``torchrun`` every process takes a part of each batch, and the first one writes. The test split is looked
    at after the last epoch only.

    Args:
        settings: what to do.
        folder: where the checkpoint is, or will be.
        watches: who looks on; in the first process only.
        checkpoint_every: also save after so many steps; always after an epoch.
        workers: processes that load data.

    Raises:
        StoppedError: after Ctrl-C or a request to end, once the state is saved.

    Example:
        >>> import tempfile
        >>> settings = Settings("scenes:images=8:resolution=32", "gls", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcome = train(settings, Path(folder))
        >>> len(outcome.history["losses"]["depth"])
        1
    """
    with launched() as world, locked(folder, world.first), asked_to_stop() as asked:
        run = _Run(settings, folder, world, watches if world.first else (), workers)
        state = load_checkpoint(folder, settings)
        if state is not None:
            run.load(state)
        else:
            run.save()  # from now on the folder says whose it is
        try:
            run.start()
            run.train(asked, checkpoint_every)
            return run.finish()
        except Exception:  # a step that fails changes nothing, so that what is left can be saved
            run.save()
            raise
        finally:
            for watch in run.watches:
                watch.close()


@dataclass(eq=False)
class _Run:
    """A run in memory: everything but ``settings`` and what follows from them is in :meth:`state`."""

    settings: Settings
    folder: Path
    world: World
    watches: Sequence[Watch]
    workers: int
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    history: History = field(default_factory=History)
    starved: Starved = field(default_factory=Starved)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("data", "step", "evaluation", "checkpoint"), 0.0)
    )

    def __post_init__(self) -> None:
        settings = self.settings
        self.workload = settings.workload()
        self.data = self.workload.split("train")
        items = len(self.data)  # type: ignore[arg-type]  # every data set here has a length
        self.batches = partial(training_batches, items, settings.batch, settings.seed)
        self.steps = count_batches(items, settings.batch)
        self.shape = list(self.workload.image_shape(self.data[0]))
        self.fitted = self.workload.fitted()
        self.device = self.world.device
        torch.manual_seed(mix(settings.seed))
        self.precision = Precision(settings.autocast, self.device)
        self.model: nn.Module = self.workload.model(settings.model).to(self.device, getattr(torch, settings.dtype))
        self.frozen = frozen_sums(self.model)
        self.method = Method(settings.method).build(
            self.model,
            self.workload.tasks,
            settings.lr,
            partial(Adam, weight_decay=settings.weight_decay),
            settings.seed,
        )
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.method.optimizers]

    def task_losses(self, model: nn.Module, batch: Mapping[str, Tensor]) -> TaskLosses:
        with self.precision.forward():
            predictions = self.workload.predict(model, batch)
        losses = self.workload.losses(predictions, batch)
        if not self.settings.rescale:
            return losses
        assert isinstance(losses.total, Mapping)
        scaled = {task: self.settings.rescale.get(task, 1.0) * total for task, total in losses.total.items()}
        return TaskLosses(total=scaled, count=losses.count)

    def start(self) -> None:
        for watch in self.watches:
            watch.start(self.epoch * self.steps + self.batch, self.settings.epochs * self.steps)

    def train(self, asked: Callable[[], bool], checkpoint_every: int) -> None:
        for epoch in range(self.epoch, self.settings.epochs):
            for number in self.steps_of(epoch):
                if self.world.any(asked()):
                    raise StoppedError
                if checkpoint_every and number % checkpoint_every == 0:
                    self.save()
            self.end_epoch()
            self.save()

    def steps_of(self, epoch: int) -> Iterator[int]:
        """Take the steps of an epoch that are left, and yield the number of all steps after each."""
        self.workload.begin_epoch(epoch)
        items = self.batches(epoch)[self.batch :]
        rank, ranks, parts = self.world.rank, self.world.size, self.settings.micro_batches
        loaded = load(self.data, (part for batch in items for part in shards(batch, rank, ranks, parts)), self.workers)
        for _ in range(len(items)):
            with self.clock("data"):
                micro_batches = [self.to_device(next(loaded)) for _ in range(self.settings.micro_batches)]
            with self.clock("step"):
                self.step(epoch * self.steps + self.batch, micro_batches)
            yield epoch * self.steps + self.batch

    def step(self, number: int, micro_batches: Sequence[Any]) -> None:
        """Take one step; its random numbers depend on the seed, the step and the rank alone."""
        factor = rate_factor(number, self.settings.epochs * self.steps, self.settings.warmup)
        for optimizer, rates in zip(self.method.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = factor * rate
        seed = mix(self.settings.seed, number, self.world.rank)
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # `torch.manual_seed` keeps a list for devices that never come
        else:
            torch.manual_seed(seed)
        report = self.method.backward(self.task_losses, *micro_batches, scaler=self.precision.scaler)
        if self.settings.clip:
            self.method.clip_grad_norm_(self.settings.clip)
        self.method.update()
        self.precision.end_step()
        values = self.values(report)
        self.history.steps.append(values)
        self.batch += 1  # before anybody looks on: whoever raises finds a state that can be saved
        self.look_for_starved(report)
        for watch in self.watches:
            watch.step(number, {**values, "rate": factor * self.settings.lr})

    def look_for_starved(self, report: Report) -> None:
        if isinstance(report, MeritReport):
            for task in self.starved.see(report.weights, report.losses, report.challenger):
                if self.world.first:
                    warnings.warn(self.starved.advice(task), StarvationWarning, stacklevel=2)
                for watch in self.watches:
                    watch.warn(self.starved.advice(task))

    def values(self, report: Report) -> dict[str, float]:
        factors, tasks = self.settings.rescale, self.workload.tasks
        values = {f"losses/{task}": report.losses[task] / factors.get(task, 1.0) for task in tasks}
        values |= {f"weights/{task}": report.weights[task] for task in tasks}
        return values | ({"merit": report.merit} if isinstance(report, MeritReport) else {})

    def end_epoch(self) -> None:
        with self.clock("evaluation"):
            metrics = self.evaluate("val")  # first: if it fails, the epoch is still open, and a resumed run closes it
        self.method.end_epoch()
        self.epoch, self.batch = self.epoch + 1, 0
        flat = {f"validation/{task}/{name}": v for task, values in metrics.items() for name, v in values.items()}
        self.history.end_epoch(flat)
        for watch in self.watches:
            watch.epoch(self.epoch * self.steps - 1, flat)

    def finish(self) -> Outcome:
        with self.clock("evaluation"):
            metrics = self.evaluate("test")
            samples = pictures(self.workload, self.model, self.workload.split("test"), self.to_device)
        return Outcome(
            settings=self.settings,
            metrics=metrics,
            better={task: dict(metric.higher_is_better) for task, metric in self.workload.metrics().items()},
            history=self.history.curves(),
            samples=samples,
            seconds=self.seconds,
            starved=tuple(self.starved.tasks),
        )

    def evaluate(self, split: str) -> Metrics:
        data = self.workload.split(split)
        if not len(data):  # type: ignore[arg-type]  # every data set here has a length
            return {}
        world = self.world
        return evaluate(
            self.workload, self.model, data, self.to_device, rank=world.rank, ranks=world.size, workers=self.workers
        )

    def to_device(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        dtype = getattr(torch, self.settings.dtype)
        return {
            name: value.to(self.device, dtype if value.is_floating_point() else None, non_blocking=True)
            for name, value in batch.items()
        }

    def save(self) -> None:
        with self.clock("checkpoint"):
            state = {
                "epoch": self.epoch,
                "batch": self.batch,
                "model": trainable_state(self.model),
                "frozen": self.frozen,
                "shape": self.shape,
                "fitted": self.fitted,
                "method": self.method.state_dict(),
                "scaler": self.precision.scaler.state_dict(),
                "history": self.history.state(),
                "threads": torch.get_num_threads(),
                "starved": self.starved.state(),
            }
            if self.world.first:
                save_checkpoint(self.folder, self.settings, state)

    def load(self, state: Mapping[str, Any]) -> None:
        if state.get("fitted", self.fitted) != self.fitted:
            raise ValueError(
                f"The table `{self.settings.root}` is not what it was when the run began. Start a new one."
            )
        self.epoch, self.batch = state["epoch"], state["batch"]
        load_trainable_state(self.model, state["model"], state.get("frozen", []))
        self.precision.scaler.load_state_dict(state.get("scaler", {}))
        self.method.load_state_dict(state["method"])
        self.history.load(state["history"])
        torch.set_num_threads(state["threads"])  # how a sum is split decides how it is rounded
        self.starved.load(state["starved"])

    @contextmanager
    def clock(self, what: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds[what] += perf_counter() - begin
