"""One run of many: what it does and where, what it reports, and how it is trained."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
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
from torchsims.training.loop import CONFIG
from torchsims.training.world import processes

EVERY = 8  # steps between two reports of a run


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
            self.warn(f"{self.status.label}, seed {self.status.seed}: {event}")
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
    """Train one run and return how it ended; its data is in memory only while it trains."""
    if execution.processes > processes():
        return _torchrun(config, folder, execution)
    try:
        train_and_report(resolve(config), folder, callbacks=callbacks, execution=execution)
    except StoppedError:
        raise
    except PrunedError:
        return Event(RunState.PRUNED)
    except Exception as error:  # the other runs continue; the table says what happened to this one
        return Event(RunState.FAILED, f"{type(error).__name__}: {error}")
    return Event(RunState.DONE)


def _torchrun(config: RunConfig, folder: Path, execution: Execution) -> Event:
    """Train or resume a run in several processes: the command that a user would write."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).exists():
        write_config(config, folder / CONFIG)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={execution.processes}"]
    words += ["-m", "torchsims", "train", "--config", str(folder / CONFIG), "--resume", "--out", str(folder)]
    words += ["--threads", str(max(1, execution.threads))]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    if ended.returncode == 0:
        return Event(RunState.DONE)
    said = [line for line in ended.stderr.splitlines() if line.startswith("torchsims: ")]
    return Event(RunState.FAILED, said[-1] if said else f"its processes ended with code {ended.returncode}")
