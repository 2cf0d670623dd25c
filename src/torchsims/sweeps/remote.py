"""Runs on other machines: a job per run, and a file in its folder that says how far it is."""

import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple, final
from uuid import uuid4

from torchsims.reporting import RunState
from torchsims.sweeps._cells import Event, Reporter, RunCell, train_run
from torchsims.sweeps.executors import Executor
from torchsims.training import Callback, Execution, RunConfig, StoppedError
from torchsims.training.checkpoints import replace_file
from torchsims.training.signals import asked_to_stop

STATUS, TOKEN = ".torchsims.status.json", ".torchsims.token"
PAUSE = 0.25  # seconds between two looks at the folders
EVERY = 1.0  # seconds between two reports of a run
SAVING = 60.0  # seconds that cancelled runs have to save their states


class Ended(NamedTuple):
    """How a job ended: the state of its run and why, and the warnings of the run."""

    state: RunState
    text: str = ""
    warnings: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Job:
    """One run, as another machine gets it: plain data and paths on shared storage."""

    config: dict[str, Any]
    folder: str
    execution: dict[str, Any]
    token: tuple[str, str]  # a file in the folder of the command, and what it should hold
    directory: str = "."  # that relative paths of the configuration start from
    callbacks: tuple[Callback, ...] = ()


def run_job(job: Job) -> Ended:
    """Train or resume a run, and return how it ended; called where the run runs."""
    import torch

    path, token = job.token
    try:
        shared = Path(path).read_text() == token
    except OSError:
        shared = False
    if not shared:
        reason = f"the folder `{Path(path).parent}` is not on storage that the machine {gethostname()} shares"
        return Ended(RunState.FAILED, reason)
    with suppress(OSError):  # not on shared storage: relative paths are those of the machine
        os.chdir(job.directory)
    config, folder, execution = RunConfig.from_dict(job.config), Path(job.folder), Execution(**job.execution)
    torch.set_num_threads(max(1, execution.threads))
    report = _Throttled(folder / STATUS)
    try:
        event = train_run(config, folder, execution, [Reporter(report), *job.callbacks])
    except StoppedError:
        event = Event(RunState.STOPPED)
    finally:
        (folder / STATUS).unlink(missing_ok=True)
    return Ended(event.state, event.text, tuple(report.warnings))


@final
class _Throttled:
    """Writes what a run reports to a file, at most once in a while."""

    def __init__(self, path: Path) -> None:
        self._path, self._last, self.warnings = path, 0.0, list[str]()

    def __call__(self, event: Event | str) -> None:
        if isinstance(event, str):
            self.warnings.append(event)
        elif (now := time.monotonic()) - self._last >= EVERY:
            self._last = now
            content = {"text": event.text, "losses": dict(event.losses)}
            replace_file(self._path, json.dumps(content).encode())


class Remote(Executor):
    """An executor that submits a job per run; a subclass says how jobs are submitted, watched and cancelled."""

    @abstractmethod
    def start(self, out: Path, execution: Execution) -> None:
        """Prepare to submit jobs."""

    @abstractmethod
    def submit(self, job: Job) -> Any:
        """Submit a job and return what stands for it."""

    @abstractmethod
    def result(self, handle: Any) -> Ended | None:
        """Return what :func:`run_job` returned, or a failure; None while the job waits or runs."""

    @abstractmethod
    def cancel(self, handle: Any) -> None:
        """Ask a job to save and stop, or not to start."""

    def wait(self, handles: Sequence[Any]) -> None:
        """Wait for a moment, or until one of the jobs has ended."""
        time.sleep(PAUSE)

    def notice(self, execution: Execution) -> str:
        """Return a warning about jobs that were submitted; called once."""
        return ""

    def stop(self) -> None:
        """Undo what :meth:`start` prepared."""

    def work(
        self, cells: Iterable[RunCell], most: int, out: Path, execution: Execution, refresh: Callable[[], None]
    ) -> None:
        token = (str((out / TOKEN).absolute()), uuid4().hex)
        replace_file(out / TOKEN, token[1].encode())
        waiting, busy = iter(cells), dict[RunCell, Any]()
        room, noticed = execution.jobs or most, False
        try:
            self.start(out, execution)
            with asked_to_stop() as asked:
                while not asked():
                    while len(busy) < room and (cell := next(waiting, None)) is not None:
                        busy[cell] = self.submit(_job(cell, execution, token))
                        if not noticed and (sentence := self.notice(execution)):
                            cell.handle(sentence)
                        noticed = True
                    if not busy:
                        return
                    self.wait(list(busy.values()))
                    self._look(busy, refresh)
                raise StoppedError
        finally:
            self._cancel(busy, refresh)
            (out / TOKEN).unlink(missing_ok=True)
            self.stop()

    def _cancel(self, busy: dict[RunCell, Any], refresh: Callable[[], None]) -> None:
        """Cancel jobs, and give their runs time to save their states."""
        for handle in busy.values():
            self.cancel(handle)
        deadline = time.monotonic() + SAVING
        while busy and time.monotonic() < deadline:
            self.wait(list(busy.values()))
            self._look(busy, refresh)

    def _look(self, busy: dict[RunCell, Any], refresh: Callable[[], None]) -> None:
        for cell, handle in list(busy.items()):
            ended = self.result(handle)
            if ended is not None:
                del busy[cell]
                for sentence in ended.warnings:
                    cell.handle(sentence)
                cell.handle(Event(ended.state, ended.text))
            else:
                _read_status(cell)
        refresh()


def _job(cell: RunCell, execution: Execution, token: tuple[str, str]) -> Job:
    return Job(
        cell.resolved.config.to_dict(),
        str(cell.folder.absolute()),
        vars(execution).copy(),
        token,
        str(Path.cwd()),
        tuple(cell.callbacks),
    )


def _read_status(cell: RunCell) -> None:
    """Take note of how far a run is, if it has said so."""
    with suppress(OSError, ValueError, KeyError):  # not there yet, or any more
        found = json.loads((cell.folder / STATUS).read_text(encoding="utf-8"))
        cell.handle(Event(RunState.RUNNING, found["text"], found["losses"]))
