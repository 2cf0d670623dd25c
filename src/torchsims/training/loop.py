"""A training run from its configuration to its numbers: epochs, evaluation, checkpoints, selection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Adam

from torchsims.models import find_regularizer
from torchsims.training.batches import count_batches, load_batches, shards, training_batches
from torchsims.training.callbacks import Callback
from torchsims.training.checkpoints import (
    CHECKPOINT,
    BackgroundWriter,
    checkpoint_bytes,
    fits_checkpoint,
    load_checkpoint,
    lock_folder,
    replace_file,
    write_checkpoint,
)
from torchsims.training.closure import RunClosure
from torchsims.training.config import Execution, RunConfig, config_text
from torchsims.training.evaluation import evaluate, predict_samples
from torchsims.training.plain import as_type
from torchsims.training.predict import load_trained
from torchsims.training.resolution import Resolved, resolve
from torchsims.training.run import DataSummary, Metrics, Run
from torchsims.training.selection import Selection, validation_score
from torchsims.training.signals import asked_to_stop
from torchsims.training.start import load_start, read_start
from torchsims.training.trainable import check_trainable_state, frozen_sums, load_trainable_state, trainable_state
from torchsims.training.trainer import Trainer
from torchsims.training.world import World, launched
from torchsims.workloads import Workload

CONFIG = "config.toml"
MOST_THREADS = 1024  # more than any machine has cores, and fewer than fill its memory


class StoppedError(Exception):
    """The run was asked to stop, by Ctrl-C or SIGTERM; its state is saved."""


def train(
    config: RunConfig | Resolved,
    folder: Path,
    *,
    workload: Workload | None = None,
    method: Any = None,
    callbacks: Sequence[Callback] = (),
    execution: Execution | None = None,
) -> Run:
    """Train a model, or resume the run with the same configuration in the same folder.

    A resumed run ends as if it had never stopped, bit for bit: the order of the data and all random numbers are
    functions of the seed and the step, and everything else is in the checkpoint, the number of threads included. Under
    ``torchrun`` every process takes a part of each batch, and the first one writes. The test split is evaluated
    after the last epoch only. The folder holds ``config.toml``: the same file in an empty folder repeats the run.

    ``workload`` and ``method`` stand in for those that the configuration names. Callbacks are called in the first
    process only. After Ctrl-C or SIGTERM, once the state is saved, it raises :class:`StoppedError`.

    Example:
        >>> import tempfile
        >>> config = RunConfig("scenes:images=8:resolution=32", "gls", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(config, Path(folder))
        >>> len(run.history.losses["depth"])
        1
    """
    resolved = config if isinstance(config, Resolved) else resolve(config, workload=workload, method=method)
    with launched() as world, lock_folder(folder, world.first), asked_to_stop() as asked:
        session = _Session(resolved, folder, world, callbacks if world.first else (), execution or Execution())
        state = load_checkpoint(folder, resolved.config)
        _check_shared(state, folder, world)
        with session.writer:
            if state is not None:
                with fits_checkpoint(folder / CHECKPOINT):
                    session.load(state)
            else:
                session.save()  # from now on the folder names its run
            return _run(session, asked)


def _run(session: "_Session", asked: Callable[[], bool]) -> Run:
    try:
        session.trainer.start()
        session.train(asked)
        return session.result()
    except Exception:  # a step that fails changes nothing, so the state before it can be saved
        session.save()
        raise
    finally:
        for callback in session.trainer.callbacks:
            callback.on_end()


def _check_shared(state: Mapping[str, Any] | None, folder: Path, world: World) -> None:
    """Wait until every process has read the checkpoint; raise an error if they have not read the same one."""
    with fits_checkpoint(folder / CHECKPOINT):
        step = -1 if state is None else as_type(state["trainer"]["step"], int)
    if not world.agrees(step):
        found = "no checkpoint" if state is None else f"the checkpoint of step {step}"
        raise ValueError(f"All processes should resume the same checkpoint in `{folder}`. Found {found} in this one.")


class _Session:
    """A run in memory: everything but ``resolved`` and what follows from it is in :meth:`state`."""

    def __init__(
        self, resolved: Resolved, folder: Path, world: World, callbacks: Sequence[Callback], execution: Execution
    ) -> None:
        config = resolved.config
        self.resolved, self.config, self.workload = resolved, config, resolved.workload
        self.folder, self.world, self.execution, self.writer = folder, world, execution, BackgroundWriter()
        self.data = self.workload.split("train")
        items = len(self.data)  # type: ignore[arg-type]  # every data set here has a length
        self.batches = partial(training_batches, items, config.batch, config.seed)
        self.steps_per_epoch = count_batches(items, config.batch)
        self.epoch, self.selection = 0, Selection()
        self.prediction_state = self.workload.prediction_state()
        self.model: nn.Module = resolved.build_model().to(world.device)
        load_start(self.model)
        before = read_start(config)
        if before is not None:
            load_trained(self.model, resolved, config.start)
        self.frozen = frozen_sums(self.model)
        adam = partial(Adam, weight_decay=config.weight_decay, fused=True)
        closure = RunClosure(self.workload, config, world.device)
        self.to_device = closure.to_device
        self.trainer = Trainer(
            resolved.method.build(
                self.model,
                self.workload.tasks,
                config.lr,
                adam,
                evaluation=config.evaluation,
                seed=config.seed,
                regularizer=find_regularizer(self.model),
                preference=config.prefer or None,
            ),
            closure,
            steps=config.epochs * self.steps_per_epoch,
            warmup=config.warmup,
            clip=config.clip,
            seed=config.seed,
            rank=world.rank,
            scaler=GradScaler(world.device.type, enabled=config.autocast == "fp16"),
            factors=config.rescale,
            callbacks=callbacks,
            monitor_every=execution.monitor,
            preferred=bool(config.prefer),
        )
        if before is not None:
            with fits_checkpoint(Path(config.start) / CHECKPOINT):
                self.trainer.method.load_statistics(before["trainer"]["method"])
        self.seconds = dict.fromkeys(("data", "step", "evaluation", "checkpoint"), 0.0)

    def train(self, asked: Callable[[], bool]) -> None:
        every = self.execution.checkpoint_every
        while self.epoch < self.config.epochs and not self.out_of_patience:
            for number in self.take_steps():
                if self.world.any(asked()):
                    raise StoppedError
                self.writer.check()
                if every and number % every == 0:
                    self.save()
            self.end_epoch()
            self.save()

    @property
    def out_of_patience(self) -> bool:
        return 0 < self.config.patience <= self.epoch - self.selection.epoch

    def take_steps(self) -> Iterator[int]:
        """Take the steps that are left of the epoch, and yield the number of steps so far after each."""
        self.workload.begin_epoch(self.epoch)
        items = self.batches(self.epoch)[self.trainer.step_number - self.epoch * self.steps_per_epoch :]
        rank, ranks, parts = self.world.rank, self.world.size, self.config.micro_batches
        indices = (part for i in range(len(items)) for part in shards(items[i].numpy(), rank, ranks, parts))
        loaded = load_batches(self.data, indices, self.execution.workers)
        for _ in range(len(items)):
            begin = perf_counter()
            micro_batches = [self.to_device(next(loaded)) for _ in range(parts)]
            ready = perf_counter()
            self.trainer.step(*micro_batches)
            self.seconds["step"] += perf_counter() - ready
            self.seconds["data"] += ready - begin
            yield self.trainer.step_number

    def end_epoch(self) -> None:
        with self.clock("evaluation"):
            metrics = self.evaluate("val")  # first: if it fails, the epoch is still open, and a resumed run closes it
        self.epoch += 1
        if metrics and (self.config.select == "best" or self.config.patience):
            score = validation_score(metrics, self.higher_is_better(), self.config.select_by)
            self.selection.update(self.epoch, score, trainable_state(self.model))
        self.trainer.end_epoch(metrics)

    def result(self) -> Run:
        """Evaluate the test split and return the finished run."""
        last = None
        with self.clock("data"):
            test = self.workload.split("test")
        with self.clock("evaluation"):
            metrics, selected = self.evaluate("test"), self.epoch
            if self.config.select == "best" and self.selection.model and self.selection.epoch != self.epoch:
                last, selected = metrics, self.selection.epoch
                load_trainable_state(self.model, self.selection.model, self.frozen)
                metrics = self.evaluate("test")
            samples = predict_samples(self.workload, self.model, test, self.to_device)
        described = [{key: str(text) for key, text in row.items()} for row in self.workload.describe_data()]
        return Run(
            label=self.resolved.label,
            config=self.config,
            metrics=metrics,
            higher_is_better=self.higher_is_better(),
            history=self.trainer.history,
            passes=self.resolved.passes,
            family=self.resolved.method.family,
            rescaled=self.resolved.unscaled_label,
            selected=selected,
            last_metrics=last,
            starved=self.trainer.starved,
            seconds=self.seconds,
            samples=samples,
            data=DataSummary(self.workload.data_facts(), described),
            fingerprint=self.workload.fingerprint(),
        )

    def higher_is_better(self) -> dict[str, dict[str, bool]]:
        return {task: dict(metric.higher_is_better) for task, metric in self.workload.metrics().items()}

    def evaluate(self, split: str) -> Metrics:
        data = self.workload.split(split)
        if not len(data):  # type: ignore[arg-type]  # every data set here has a length
            return {}
        rank, ranks, workers = self.world.rank, self.world.size, self.execution.workers
        return evaluate(self.workload, self.model, data, self.to_device, rank=rank, ranks=ranks, workers=workers)

    def save(self) -> None:
        with self.clock("checkpoint"):
            state = {
                "epoch": self.epoch,
                "model": trainable_state(self.model),
                "frozen": self.frozen,
                "workload": self.prediction_state,
                "trainer": self.trainer.state_dict(),
                "selection": vars(self.selection),
                "seconds": self.seconds,
                "threads": torch.get_num_threads(),
                "processes": self.world.size,
            }
            if self.world.first:
                if not (self.folder / CONFIG).exists():
                    replace_file(self.folder / CONFIG, config_text(self.config).encode())
                content = checkpoint_bytes(self.config, state)  # before the next step changes the state
                self.writer.start(partial(write_checkpoint, self.folder, content))
                if self.execution.workers:  # a process with one thread is safe to fork
                    self.writer.wait()

    def load(self, state: Mapping[str, Any]) -> None:
        if state["workload"] != self.prediction_state:
            raise ValueError(
                f"The data in `{self.config.root}` is not what it was when the run began. Start a new one."
            )
        self.epoch, step, threads = as_type([state["epoch"], state["trainer"]["step"], state["threads"]], list[int])
        begin, end = self.epoch * self.steps_per_epoch, (self.epoch + 1) * self.steps_per_epoch
        if not (0 <= self.epoch <= self.config.epochs and begin <= step <= end and 0 < threads <= MOST_THREADS):
            raise ValueError(f"Found epoch {self.epoch}, step {step} and {threads} threads.")
        seconds = as_type(state.get("seconds", {}), dict[str, float])
        if not all(0 <= each < inf for each in seconds.values()):
            raise ValueError(f"Found the times {seconds}.")
        self.seconds = {part: seconds.get(part, 0.0) for part in self.seconds}
        load_trainable_state(self.model, state["model"], state["frozen"])
        self.trainer.load_state_dict(state["trainer"])
        self.selection = Selection.from_dict(state["selection"])
        if self.selection.model is not None:
            check_trainable_state(self.model, self.selection.model)
        if (before := as_type(state.get("processes", 1), int)) != self.world.size:
            for callback in self.trainer.callbacks:
                callback.on_warning(
                    f"The run was trained by {before} processes before, and by {self.world.size} now: it goes on, but "
                    "not bit for bit as it would have."
                )
        torch.set_num_threads(threads)  # how a sum is split decides how it is rounded

    @contextmanager
    def clock(self, part: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds[part] += perf_counter() - begin
