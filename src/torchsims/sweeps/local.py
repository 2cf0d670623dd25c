"""Runs on this machine, in processes of their own where there are cores for them."""

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import final

import torch

from torchsims._workers import worker_context
from torchsims.reporting import RunState
from torchsims.sweeps._cells import Event, Reporter, RunCell, train_run
from torchsims.sweeps.executors import Executor
from torchsims.training import Execution, StoppedError
from torchsims.training.signals import asked_to_stop
from torchsims.training.world import launched, processes

LISTEN = 0.5  # seconds between two checks for a signal to stop


@final
class Local(Executor):
    """Processes of this machine, ``--jobs`` at a time.

    Example:
        >>> Local().describe([], Path("runs"), Execution())
        '0 runs.'
    """

    def work(
        self, cells: Iterable[RunCell], most: int, out: Path, execution: Execution, refresh: Callable[[], None]
    ) -> None:
        count = count_processes(execution, most)
        if count > 1:
            _Pool(cells, count, execution, refresh).work()
        else:
            _run_one_by_one(cells, execution, refresh)


def count_processes(execution: Execution, runs: int) -> int:
    """Return how many runs are trained at a time: one per core, and one on a machine with an accelerator."""
    if processes() > 1:
        return 1  # every process of `torchrun` has a part of every run
    if execution.jobs > 0:
        return min(execution.jobs, runs)
    if torch.accelerator.is_available():
        return 1
    return max(1, min((os.cpu_count() or 1) // execution.cores, runs))


def _run_one_by_one(cells: Iterable[RunCell], execution: Execution, refresh: Callable[[], None]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, execution.threads))
    try:
        with launched() as world, asked_to_stop() as asked:
            for cell in cells:

                def send(event: Event | str, cell: RunCell = cell) -> None:
                    cell.handle(event)
                    refresh()

                callbacks = [Reporter(send), *cell.callbacks]
                send(train_run(cell.resolved.config, cell.folder, execution, callbacks))
                if world.any(asked()):  # in the last moments of a run, which is finished now
                    raise StoppedError
    finally:
        torch.set_num_threads(threads)


def _worker(connection: Connection, execution: Execution, environment: Mapping[str, str]) -> None:
    """Train what the other end asks for, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between runs; the process that started this one decides
    os.environ.update(environment)  # that of the server may be older
    torch.set_num_threads(max(1, execution.threads))
    while True:
        try:
            config, folder, callbacks = connection.recv()
        except EOFError:
            return
        try:
            callbacks = [Reporter(connection.send), *callbacks]
            connection.send(train_run(config, folder, execution, callbacks))
        except (StoppedError, BrokenPipeError):
            return


def _wait_for_end(connection: Connection) -> None:
    """Wait until the process at the other end is gone; what it still reports is of no use any more.

    Not :meth:`join`: the server that starts processes also tells when they end, and may be gone before them.
    """
    with suppress(EOFError, OSError):
        while True:
            connection.recv()


class _Pool:
    """Processes that take one run after another.

    Ours, and not one of ``concurrent.futures``: the death of one process must spare the other runs.
    """

    def __init__(self, cells: Iterable[RunCell], count: int, execution: Execution, refresh: Callable[[], None]) -> None:
        self._cells, self._count = iter(cells), count
        self._execution, self._refresh = execution, refresh
        self._busy: dict[Connection, tuple[BaseProcess, RunCell]] = {}
        self._idle: list[tuple[Connection, BaseProcess]] = []

    def work(self) -> None:
        """Run all; on Ctrl-C or SIGTERM ask every process to save and stop, and wait for it."""
        try:
            with asked_to_stop() as asked:
                while not asked() and self._hand_out():
                    self._listen()
                if asked():
                    raise StoppedError
        finally:
            for process, _ in self._busy.values():
                process.terminate()
            for connection in self._busy:
                _wait_for_end(connection)
            for connection, _ in self._idle:  # all of them first: they end side by side
                connection.close()
            for process in [*(p for _, p in self._idle), *(p for p, _ in self._busy.values())]:
                process.join()

    def _hand_out(self) -> bool:
        """Start cells while there are processes for them; return whether any is running."""
        while len(self._busy) < self._count and (cell := next(self._cells, None)) is not None:
            self._start(cell)
        return bool(self._busy)

    def _listen(self) -> None:
        for connection in wait(list(self._busy), timeout=LISTEN):
            assert isinstance(connection, Connection)
            self._receive(connection)
            self._refresh()

    def _start(self, cell: RunCell) -> None:
        connection, process = self._idle.pop() if self._idle else self._new_process()
        self._busy[connection] = (process, cell)
        with suppress(OSError):  # a process that is gone is noticed by the one who listens
            connection.send((cell.resolved.config, cell.folder, cell.callbacks))

    def _new_process(self) -> tuple[Connection, BaseProcess]:
        context = worker_context()
        here, there = context.Pipe()
        process = context.Process(target=_worker, args=(there, self._execution, dict(os.environ)))
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
