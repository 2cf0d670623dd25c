"""A bar on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

__all__ = ["Advance", "Progress", "show_progress"]


class Advance(Protocol):
    """Takes the number of steps done since the last call, and what to say about them.

    Example:
        >>> with show_progress(sys.stdout) as progress:
        ...     advance = progress("EW", 1)
        ...     advance(1, "seg 0.71")
        EW: 50 %  seg 0.71
        EW: 100 %  seg 0.71
    """

    def __call__(self, done: int, note: str = "", /) -> None:
        """Go on by ``done`` steps; an empty note leaves the last one."""
        ...


class Progress(Protocol):
    """Starts a part of the work and returns what to call when some of it is done.

    Example:
        >>> with show_progress(sys.stdout) as progress:
        ...     progress("EW", 2)(1)
        EW: 50 %
    """

    def __call__(self, name: str, total: int, /) -> Advance:
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

    name, note = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
    looks = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), note)
    with Bars(*looks, console=Console(file=stream)) as bars:

        def start(name: str, total: int) -> Advance:
            task = bars.add_task(name, total=total, note="")

            def advance(done: int, note: str = "") -> None:
                bars.update(task, advance=done)
                if note:
                    bars.update(task, note=note)

            return advance

        yield start


class _Lines:
    """A line at one half and one at the end."""

    def __init__(self, name: str, total: int, stream: TextIO) -> None:
        self._name, self._total, self._stream, self._done, self._note = name, total, stream, 0, ""

    def __call__(self, done: int, note: str = "") -> None:
        self._note = note or self._note
        for mark in (0.5, 1.0):
            if self._done < mark * self._total <= self._done + done:
                share = f"{mark:.0%}".replace("%", " %")
                print(f"{self._name}: {share}  {self._note}".rstrip(), file=self._stream, flush=True)
        self._done += done
