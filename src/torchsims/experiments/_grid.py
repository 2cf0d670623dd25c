"""Many training runs, in processes of their own where there are cores for it."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias, final

import torch

from torchsims.experiments._trained import read_run, train_run
from torchsims.reporting import RunState, RunStatus, ShowStatus
from torchsims.training import (
    Settings,
    StoppedError,
    Watch,
    asked_to_stop,
    launched,
    load_checkpoint,
    processes,
)
from torchsims.training.run import Run

__all__ = ["Cell", "Grid", "check_cells", "folder_name", "run_grid"]

EVERY = 8  # steps between two looks at a run
LISTEN = 0.5  # seconds between two looks at whether somebody asked to stop

Event: TypeAlias = tuple[Any, ...]
"""What a run says: ``("going", state, losses)``, ``("warning", sentence)``, ``("done",)``, ``("failed", sentence)``."""


def folder_name(settings: Settings) -> str:
    """Return a name for the folder of a run among others with the same data.

    Example:
        >>> folder_name(Settings(method="sims:tau=0.1", seed=2, rescale={"depth": 100.0}))
        'hps_sims_tau=0.1_depth=100_seed=2'
    """
    parts = [settings.model, settings.method, *(f"{task}={factor:g}" for task, factor in settings.rescale.items())]
    return "_".join([*parts, f"seed={settings.seed}"]).replace(":", "_").replace("/", "-")


@dataclass(eq=False)
class Cell:
    """One run of a grid.

    Attributes:
        settings: of the run.
        folder: of the run.
        label: what the run is called.
        state: what it is doing.
        progress: how far it is, or why it failed.
        losses: those of the last epoch or so.
        run: what it found, once it is finished.
        failure: why it failed, if it did.
        say: called with a warning.
    """

    settings: Settings
    folder: Path
    label: str
    state: RunState = RunState.WAITING
    progress: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    run: Run | None = None
    failure: str | None = None
    say: Callable[[str], None] = lambda sentence: None

    def status(self) -> RunStatus:
        """Return what the live table shows."""
        return RunStatus(self.label, self.settings.seed, self.state, self.progress, self.losses)


@dataclass(frozen=True)
class Grid:
    """How to run many runs.

    Attributes:
        jobs: processes at a time; 1 is this one, 0 is one a core.
        checkpoint_every: as in :func:`torchsims.training.train`.
        workers: processes that load data, of each run.
        threads: of each run; the same whatever else runs, because the number decides how sums are rounded.
    """

    jobs: int = 0
    checkpoint_every: int = 0
    workers: int = 0
    threads: int = 1

    def processes(self, runs: int) -> int:
        """Return how many processes are used: a core each, and one on a machine with an accelerator."""
        if processes() > 1:
            return 1  # every process of `torchrun` has a part of every run
        if self.jobs > 0:
            return min(self.jobs, runs)
        return 1 if torch.accelerator.is_available() else max(1, min((os.cpu_count() or 1) // self.threads, runs))


def run_grid(
    runs: Sequence[Settings],
    out: Path,
    grid: Grid,
    show: ShowStatus,
    say: Callable[[str], None] = lambda sentence: None,
) -> list[Cell]:
    """Run everything that is not finished yet; a run that fails does not stop the others.

    Args:
        runs: the settings of every run.
        out: each run has a folder in ``out / "runs"``.
        grid: how.
        show: called with the live table.
        say: called with a warning of a run.

    Raises:
        StoppedError: after Ctrl-C, once all runs have saved their state.
    """
    cells = [Cell(settings, out / "runs" / folder_name(settings), settings.label, say=say) for settings in runs]
    for cell in cells:
        cell.run = read_run(cell.folder, cell.settings)
        cell.state = RunState.WAITING if cell.run is None else RunState.DONE_BEFORE
    open_cells = [cell for cell in cells if cell.run is None]

    def look() -> None:
        show([cell.status() for cell in cells])

    look()
    if open_cells and grid.processes(len(cells)) > 1:
        _Pool(open_cells, grid, grid.processes(len(open_cells)), look).work()
    else:
        _one_by_one(open_cells, grid, look)
    return cells


def check_cells(runs: Sequence[Settings], out: Path) -> None:
    """Refuse a folder in which other runs, or damaged ones, are in the places of these."""
    for settings in runs:
        folder = out / "runs" / folder_name(settings)
        read_run(folder, settings)
        load_checkpoint(folder, settings)


def _one_by_one(cells: Sequence[Cell], grid: Grid, show: Callable[[], None]) -> None:
    def tell(cell: Cell, event: Event) -> None:
        _tell(cell, event)
        show()

    threads = torch.get_num_threads()
    torch.set_num_threads(grid.threads)
    try:
        with launched() as world, asked_to_stop() as asked:
            for cell in cells:
                tell(cell, _work(cell.settings, cell.folder, grid, _Teller(partial(tell, cell))))
                if world.any(asked()):  # in the last moments of a run, which is finished now
                    raise StoppedError
    finally:
        torch.set_num_threads(threads)


@final
class _Teller(Watch):
    """Says how far a run is."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._steps = 0

    def start(self, step: int, steps: int) -> None:
        self._steps = steps
        self._tell(("going", f"step {step} of {steps}", {}))

    def step(self, step: int, values: Mapping[str, float]) -> None:
        if step % EVERY == 0:
            losses = {name.removeprefix("losses/"): v for name, v in values.items() if name.startswith("losses/")}
            self._tell(("going", f"step {step} of {self._steps}", losses))

    def warn(self, sentence: str) -> None:
        self._tell(("warning", sentence))


def _tell(cell: Cell, event: Event) -> None:
    """Write down what a run said."""
    kind, *content = event
    if kind == "going":
        cell.state, (cell.progress, cell.losses) = RunState.RUNNING, content
    elif kind == "warning":
        cell.say(f"{cell.label}, seed {cell.settings.seed}: {content[0]}")
    elif kind == "done":
        cell.state, cell.progress = RunState.DONE, ""
        cell.run = read_run(cell.folder, cell.settings)
    else:
        cell.state, cell.progress, cell.failure = RunState.FAILED, content[0], content[0]


def _work(settings: Settings, folder: Path, grid: Grid, watch: Watch) -> Event:
    """Train one run and return its last event."""
    try:
        train_run(settings, folder, watches=[watch], checkpoint_every=grid.checkpoint_every, workers=grid.workers)
    except StoppedError:
        raise
    except Exception as error:  # the other runs go on; the table says what happened to this one
        return ("failed", f"{type(error).__name__}: {error}")
    return ("done",)


def _worker(connection: Connection, grid: Grid) -> None:
    """Train what the other end asks for, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between runs; the one that started this process decides
    torch.set_num_threads(grid.threads)
    while True:
        try:
            settings, folder = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_work(settings, folder, grid, _Teller(connection.send)))
        except (StoppedError, BrokenPipeError):
            return


class _Pool:
    """Processes that take one run after another.

    Args:
        cells: what to run.
        grid: how.
        count: how many processes.
        show: called after every change.
    """

    def __init__(self, cells: Sequence[Cell], grid: Grid, count: int, show: Callable[[], None]) -> None:
        self._waiting = list(cells)
        self._grid, self._count, self._show = grid, count, show
        self._busy: dict[Connection, tuple[BaseProcess, Cell]] = {}
        self._idle: list[tuple[Connection, BaseProcess]] = []

    def work(self) -> None:
        """Run all; on Ctrl-C or a request to end ask every process to save and stop, and wait for it."""
        try:
            with asked_to_stop() as asked:
                while (self._waiting or self._busy) and not asked():
                    self._round()
                if asked():
                    raise StoppedError
        finally:
            for process, _ in self._busy.values():
                process.terminate()
            for connection, process in [*self._idle, *((c, p) for c, (p, _) in self._busy.items())]:
                connection.close()
                process.join()

    def _round(self) -> None:
        """Hand out what waits, and hear what is said for a while."""
        while self._waiting and len(self._busy) < self._count:
            self._start(self._waiting.pop(0))
        for connection in wait(list(self._busy), timeout=LISTEN):
            assert isinstance(connection, Connection)
            self._hear(connection)
            self._show()

    def _start(self, cell: Cell) -> None:
        connection, process = self._idle.pop() if self._idle else self._new()
        self._busy[connection] = (process, cell)
        with suppress(OSError):  # a process that is gone is noticed by the one who listens
            connection.send((cell.settings, cell.folder))

    def _new(self) -> tuple[Connection, BaseProcess]:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_worker, args=(there, self._grid))
        process.start()
        there.close()
        return here, process

    def _hear(self, connection: Connection) -> None:
        process, cell = self._busy[connection]
        try:
            event = connection.recv()
        except (EOFError, OSError):  # the process is gone
            process.join()
            event = ("failed", f"its process ended with code {process.exitcode}; --resume goes on")
            del self._busy[connection]
        else:
            if event[0] in ("done", "failed"):
                del self._busy[connection]
                self._idle.append((connection, process))
        _tell(cell, event)
