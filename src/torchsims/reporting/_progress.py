"""A bar on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

__all__ = ["Progress", "show_progress"]


class Progress(Protocol):
    """Starts a part of the work and returns what to call with the number of steps done since the last call."""

    def __call__(self, name: str, total: int) -> Callable[[int], None]:
        """Start the part ``name`` of ``total`` steps."""
        ...


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """Show progress on ``stream``, standard error by default.

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
        yield lambda name, total: _Lines(name, total, stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    looks = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bars(*looks, console=Console(file=stream)) as bars:

        def start(name: str, total: int) -> Callable[[int], None]:
            task = bars.add_task(name, total=total)
            return lambda done: bars.advance(task, done)

        yield start


class _Lines:
    """A line at one half and one at the end."""

    def __init__(self, name: str, total: int, stream: TextIO) -> None:
        self._name, self._total, self._stream, self._done = name, total, stream, 0

    def __call__(self, done: int) -> None:
        for mark in (0.5, 1.0):
            if self._done < mark * self._total <= self._done + done:
                print(f"{self._name}: {mark:.0%}".replace("%", " %"), file=self._stream, flush=True)
        self._done += done
