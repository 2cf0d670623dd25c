"""Runs on this machine, in processes of their own where there are cores for them."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, final

import torch

from torchsims.reporting import RunState, RunStatus, ShowStatus
from torchsims.sweeps.folders import folder_name, read_run, train_and_report
from torchsims.training import Callback, Execution, Resolved, Run, RunConfig, StepValues, StoppedError, resolve
from torchsims.training.checkpoints import load_checkpoint
from torchsims.training.signals import asked_to_stop
from torchsims.training.world import launched, processes

EVERY = 8  # steps between two reports of a run
LISTEN = 0.5  # seconds between two checks for a signal to stop


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

    def handle(self, event: Event | str) -> None:
        """Take note of what a run reports; a text is a warning."""
        if isinstance(event, str):
            self.warn(f"{self.status.name}: {event}")
            return
        losses = event.losses or self.status.values
        self.status = replace(self.status, state=event.state, progress=event.text, values=losses)
        if event.state is RunState.DONE:
            self.run = read_run(self.folder, self.resolved.config)


def run_all(
    resolved: Sequence[Resolved],
    out: Path,
    execution: Execution,
    show: ShowStatus,
    warn: Callable[[str], None] = lambda sentence: None,
) -> list[RunCell]:
    """Run everything that is not finished yet, each in a folder in ``out / "runs"``.

    A run that fails does not stop the others. After Ctrl-C, once all runs have saved their state, it raises
    :class:`~torchsims.training.StoppedError`.
    """
    cells = []
    several = len({each.config.split for each in resolved}) > 1
    for each in resolved:
        folder = out / "runs" / folder_name(each.config)
        run = read_run(folder, each.config)
        state = RunState.WAITING if run is None else RunState.DONE_BEFORE
        status = RunStatus(each.label, each.config.seed, state, split=each.config.split if several else None)
        cells.append(RunCell(each, folder, warn, status, run))
    open_cells = [cell for cell in cells if cell.run is None]

    def refresh() -> None:
        show([cell.status for cell in cells])

    refresh()
    if open_cells and count_processes(execution, len(cells)) > 1:
        _Pool(open_cells, execution, refresh).work()
    else:
        _run_one_by_one(open_cells, execution, refresh)
    return cells


def check_cells(resolved: Sequence[Resolved], out: Path) -> None:
    """Raise an error if other runs, or damaged ones, are in the folders of these.

    Example:
        >>> check_cells([], Path("runs"))
    """
    for each in resolved:
        folder = out / "runs" / folder_name(each.config)
        read_run(folder, each.config)
        load_checkpoint(folder, each.config)


def count_processes(execution: Execution, runs: int) -> int:
    """Return how many runs are trained at a time: one per core, and one on a machine with an accelerator."""
    if processes() > 1:
        return 1  # every process of `torchrun` has a part of every run
    if execution.jobs > 0:
        return min(execution.jobs, runs)
    if torch.accelerator.is_available():
        return 1
    return max(1, min((os.cpu_count() or 1) // max(1, execution.threads), runs))


def _run_one_by_one(cells: Sequence[RunCell], execution: Execution, refresh: Callable[[], None]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, execution.threads))
    try:
        with launched() as world, asked_to_stop() as asked:
            for cell in cells:

                def send(event: Event | str, cell: RunCell = cell) -> None:
                    cell.handle(event)
                    refresh()

                send(_train(cell.resolved.config, cell.folder, execution, _Reporter(send)))
                if world.any(asked()):  # in the last moments of a run, which is finished now
                    raise StoppedError
    finally:
        torch.set_num_threads(threads)


@final
class _Reporter(Callback):
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


def _train(config: RunConfig, folder: Path, execution: Execution, callback: Callback) -> Event:
    """Train one run and return how it ended; its data is in memory only while it trains."""
    try:
        train_and_report(resolve(config), folder, callbacks=[callback], execution=execution)
    except StoppedError:
        raise
    except Exception as error:  # the other runs continue; the table says what happened to this one
        return Event(RunState.FAILED, f"{type(error).__name__}: {error}")
    return Event(RunState.DONE)


def _worker(connection: Connection, execution: Execution) -> None:
    """Train what the other end asks for, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between runs; the process that started this one decides
    torch.set_num_threads(max(1, execution.threads))
    while True:
        try:
            config, folder = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_train(config, folder, execution, _Reporter(connection.send)))
        except (StoppedError, BrokenPipeError):
            return


class _Pool:
    """Processes that take one run after another.

    Ours, and not one of ``concurrent.futures``: the death of one process must spare the other runs.
    """

    def __init__(self, cells: Sequence[RunCell], execution: Execution, refresh: Callable[[], None]) -> None:
        self._waiting = list(cells)
        self._execution, self._refresh = execution, refresh
        self._count = count_processes(execution, len(cells))
        self._busy: dict[Connection, tuple[BaseProcess, RunCell]] = {}
        self._idle: list[tuple[Connection, BaseProcess]] = []

    def work(self) -> None:
        """Run all; on Ctrl-C or SIGTERM ask every process to save and stop, and wait for it."""
        try:
            with asked_to_stop() as asked:
                while (self._waiting or self._busy) and not asked():
                    self._hand_out_and_listen()
                if asked():
                    raise StoppedError
        finally:
            for process, _ in self._busy.values():
                process.terminate()
            for connection, process in [*self._idle, *((c, p) for c, (p, _) in self._busy.items())]:
                connection.close()
                process.join()

    def _hand_out_and_listen(self) -> None:
        while self._waiting and len(self._busy) < self._count:
            self._start(self._waiting.pop(0))
        for connection in wait(list(self._busy), timeout=LISTEN):
            assert isinstance(connection, Connection)
            self._receive(connection)
            self._refresh()

    def _start(self, cell: RunCell) -> None:
        connection, process = self._idle.pop() if self._idle else self._new_process()
        self._busy[connection] = (process, cell)
        with suppress(OSError):  # a process that is gone is noticed by the one who listens
            connection.send((cell.resolved.config, cell.folder))

    def _new_process(self) -> tuple[Connection, BaseProcess]:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_worker, args=(there, self._execution))
        process.start()
        there.close()
        return here, process

    def _receive(self, connection: Connection) -> None:
        process, cell = self._busy[connection]
        try:
            event = connection.recv()
        except (EOFError, OSError):  # the process is gone
            process.join()
            del self._busy[connection]
            reason = f"its process ended with code {process.exitcode}; --resume continues it"
            event = Event(RunState.FAILED, reason)
        else:
            if isinstance(event, Event) and event.state.is_over:
                del self._busy[connection]
                self._idle.append((connection, process))
        cell.handle(event)
