"""Progress bars and a live table of runs on a terminal; lines where there is none."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TextIO, TypeAlias

from torchsims.reporting._tables import Row, arrange_columns, one_line

if TYPE_CHECKING:
    from rich.table import Table

AROUND = 6  # lines of a table beside its rows


class Advance(Protocol):
    """Takes the number of steps done since the last call, and a note on them; an empty note keeps the last one."""

    def __call__(self, done: int, note: str = "", /) -> None:
        """Advance by ``done`` steps."""


Progress: TypeAlias = Callable[[str, int], Advance]
"""Starts a part of the work, given its name and number of steps, and returns what to call when some are done."""


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """Show progress bars on ``stream``, standard error by default; lines where there is no terminal.

    Example:
        >>> with show_progress(sys.stdout) as progress:
        ...     advance = progress("EW", 4)
        ...     for _ in range(4):
        ...         advance(1)
        EW: 50 %
        EW: 100 %
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield lambda name, total: _ProgressLines(name, total, stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    name, note = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
    columns = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), note)
    with Bars(*columns, console=Console(file=stream)) as bars:

        def start(name: str, total: int) -> Advance:
            task = bars.add_task(one_line(name), total=total, note="")

            def advance(done: int, note: str = "") -> None:
                bars.update(task, advance=done)
                if note:
                    bars.update(task, note=one_line(note))

            return advance

        yield start


class _ProgressLines:
    """Prints a line at one half and one at the end."""

    def __init__(self, name: str, total: int, stream: TextIO) -> None:
        self._name, self._total, self._stream, self._done, self._note = one_line(name), total, stream, 0, ""

    def __call__(self, done: int, note: str = "") -> None:
        self._note = note or self._note
        for mark in (0.5, 1.0):
            if self._done < mark * self._total <= self._done + done:
                share = f"{mark:.0%}".replace("%", " %")
                print(f"{self._name}: {share}  {self._note}".rstrip(), file=self._stream, flush=True)
        self._done += done


class RunState(StrEnum):
    """What a run among many is doing.

    Example:
        >>> RunState.DONE_BEFORE.value, RunState.DONE_BEFORE.is_over
        ('done before', True)
    """

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DONE_BEFORE = "done before"
    FAILED = "failed"
    STOPPED = "stopped"
    PRUNED = "pruned"  # a trial that others were ahead of

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (RunState.WAITING, RunState.RUNNING)


@dataclass(frozen=True)
class RunStatus:
    """One run in a live table: label and seed say which one.

    Example:
        >>> print(RunStatus("EW", 0, RunState.FAILED, "out of memory"))
        EW seed 0: failed, out of memory
    """

    label: str
    seed: int
    state: RunState = RunState.WAITING
    progress: str = ""  # how far it is, or why it failed; any text
    values: Mapping[str, float] = field(default_factory=dict)  # latest losses, by task

    def __str__(self) -> str:
        return one_line(f"{self.label} seed {self.seed}: {self.state}" + f", {self.progress}" * bool(self.progress))

    def row(self) -> Row:
        """Return the row of the table."""
        own = {"method": one_line(self.label), "seed": self.seed, "state": str(self.state), "progress": self.progress}
        return own | {f"{one_line(task)} loss": value for task, value in self.values.items()}


ShowStatus: TypeAlias = Callable[[Sequence[RunStatus]], None]
"""Shows the status of all runs instead of what the last call showed."""


@contextmanager
def live_table(stream: TextIO | None = None) -> Iterator[ShowStatus]:
    """Show what many runs do on ``stream``, standard error by default.

    Where there is no terminal, a line is printed when the state of a run changes.

    Example:
        >>> with live_table(sys.stdout) as show:
        ...     for step in (1, 2):
        ...         show([RunStatus("SIMS", 0, RunState.RUNNING, f"step {step} of 9")])
        ...     show([RunStatus("SIMS", 0, RunState.DONE)])
        SIMS seed 0: running, step 1 of 9
        SIMS seed 0: done
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield _StatusLines(stream)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream)
    with Live(console=console, auto_refresh=False) as live:
        last: Sequence[RunStatus] = ()

        def show(runs: Sequence[RunStatus]) -> None:
            nonlocal last
            last = runs
            live.update(_table(runs, console.height - AROUND), refresh=True)

        try:
            yield show
        finally:
            live.update(_table(last, len(last)))  # the complete table stays


class _StatusLines:
    """Prints a line when a run starts and one when it is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._states: dict[tuple[str, int], RunState] = {}

    def __call__(self, runs: Sequence[RunStatus]) -> None:
        for run in runs:
            if run.state is not self._states.get((run.label, run.seed), RunState.WAITING):
                print(run, file=self._stream, flush=True)
            self._states[run.label, run.seed] = run.state


def _table(runs: Sequence[RunStatus], height: int) -> "Table":
    """Return the table; if it is too high, running runs come first, and a line counts those that are left out."""
    from rich.table import Table
    from rich.text import Text

    shown = list(runs)
    if len(runs) > height:
        shown = sorted(runs, key=lambda run: (run.state.is_over, run.state is RunState.WAITING))[: max(height, 1)]
    left_out = Counter(run.state for run in runs) - Counter(run.state for run in shown)
    caption = ", ".join(f"{count} {state}" for state, count in left_out.items())
    result = Table(caption=f"and {caption}" if caption else None)
    rows = [run.row() for run in shown]
    columns = arrange_columns(rows)
    for column in columns:
        result.add_column(Text(column.header))
    for cells in zip(*(column.cells(rows) for column in columns), strict=True):
        result.add_row(*map(Text, cells))
    return result
