"""One run of many: what it does and where, what it reports, and how it is trained."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

from torchsims.reporting import RunState, RunStatus
from torchsims.sweeps.folders import read_run, train_and_report
from torchsims.training import (
    Callback,
    Execution,
    Resolved,
    Run,
    RunConfig,
    StepValues,
    StoppedError,
    resolve,
    write_config,
)
from torchsims.training.checkpoints import is_locked
from torchsims.training.loop import CONFIG
from torchsims.training.signals import asked_to_stop
from torchsims.training.world import processes

EVERY = 8  # steps between two reports of a run
PAUSE = 0.25  # seconds between two looks at another process


class PrunedError(Exception):
    """A callback raises it where a run is not worth being continued."""


class Event(NamedTuple):
    """What a run reports: its state, how far it is or why it failed, and its last losses."""

    state: RunState
    text: str = ""
    losses: Mapping[str, float] = {}


@dataclass(eq=False)
class RunCell:
    """One run of a comparison: what it does and where, how far it is, and what it found once it is finished."""

    resolved: Resolved
    folder: Path
    warn: Callable[[str], None]
    status: RunStatus
    run: Run | None = None
    callbacks: Sequence[Callback] = ()  # that the process of the run calls

    def handle(self, event: Event | str) -> None:
        """Take note of what a run reports; a text is a warning."""
        if isinstance(event, str):
            self.warn(f"{self.status.name}: {event}")
            return
        losses = event.losses or self.status.values
        self.status = replace(self.status, state=event.state, progress=event.text, values=losses)
        if event.state is RunState.DONE:
            self.run = read_run(self.folder, self.resolved.config)


@final
class Reporter(Callback):
    """Reports how far a run is."""

    def __init__(self, send: Callable[[Event | str], None]) -> None:
        self._send, self._steps = send, 0

    def on_start(self, step: int, steps: int) -> None:
        self._steps = steps
        self._send(Event(RunState.RUNNING, f"step {step} of {steps}"))

    def on_step(self, step: int, values: StepValues) -> None:
        if step % EVERY == 0:
            self._send(Event(RunState.RUNNING, f"step {step} of {self._steps}", dict(values.losses)))

    def on_warning(self, sentence: str) -> None:
        self._send(sentence)


def train_run(config: RunConfig, folder: Path, execution: Execution, callbacks: Sequence[Callback]) -> Event:
    """Train one run, or wait for the process that does, and return how it ended.

    The data of a run is in memory only while it trains.
    """
    try:
        if processes() == 1 and _is_finished(config, folder, callbacks):
            return Event(RunState.DONE)
        if execution.processes > processes():
            return _torchrun(config, folder, execution)
        train_and_report(resolve(config), folder, callbacks=callbacks, execution=execution)
    except StoppedError:
        raise
    except PrunedError:
        return Event(RunState.PRUNED)
    except Exception as error:  # the other runs continue; the table says what happened to this one
        return Event(RunState.FAILED, f"{type(error).__name__}: {error}")
    return Event(RunState.DONE)


def _is_finished(config: RunConfig, folder: Path, callbacks: Sequence[Callback]) -> bool:
    """Return whether a run is finished, as soon as no other process trains it: one that outlived its command."""
    with asked_to_stop() as asked:
        if is_locked(folder):
            for callback in callbacks:
                callback.on_warning("another process trains it; this one waits.")
        while is_locked(folder):
            if asked():
                raise StoppedError
            time.sleep(PAUSE)
    return read_run(folder, config) is not None


def _torchrun(config: RunConfig, folder: Path, execution: Execution) -> Event:
    """Train or resume a run in several processes: the command that a user would write."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).exists():
        write_config(config, folder / CONFIG)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={execution.processes}"]
    words += ["-m", "--", "torchsims", "train", "--config", str(folder / CONFIG), "--resume", "--out", str(folder)]
    for name in ("checkpoint_every", "monitor", "workers"):
        words += [f"--{name.replace('_', '-')}", str(getattr(execution, name))]
    words += ["--threads", str(max(1, execution.threads))]
    with (
        asked_to_stop() as asked,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
    ):
        errors = None
        while errors is None:
            with suppress(subprocess.TimeoutExpired):
                errors = process.communicate(timeout=PAUSE)[1]
            if asked():
                process.terminate()  # torchrun passes it on, and waits until the run has saved its state
    if process.returncode == 0:
        return Event(RunState.DONE)
    if asked():
        raise StoppedError
    said = [line for line in errors.splitlines() if line.startswith("torchsims: ")]
    return Event(RunState.FAILED, said[-1] if said else f"its processes ended with code {process.returncode}")
