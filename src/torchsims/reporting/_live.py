"""A table of runs that is drawn again while they go on; plain lines elsewhere."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from torchsims.reporting._columns import Row, arrange

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ShowRows", "live_table"]

STATE = "state"
WAITING = "waiting"
OVER = ("done", "failed", "stopped")
AROUND = 6  # lines of a table beside its rows


class ShowRows(Protocol):
    """Shows rows; those of one run have the same ``method`` and ``seed`` in every call.

    Example:
        >>> with live_table(sys.stdout) as show:
        ...     show([{"method": "EW", "seed": 0, "state": "failed: out of memory"}])
        EW seed 0: failed: out of memory
    """

    def __call__(self, rows: Sequence[Row], /) -> None:
        """Show ``rows`` instead of those of the last call."""
        ...


@contextmanager
def live_table(stream: TextIO | None = None) -> Iterator[ShowRows]:
    """Show what many runs do, on ``stream``, standard error by default.

    The first word of the column ``state`` says what a run does: ``waiting``, a word for going on such as ``epoch``,
    then ``done``, ``failed`` or ``stopped``. Where there is no terminal, a line is printed when that word changes.

    Example:
        >>> with live_table(sys.stdout) as show:
        ...     for state in ("waiting", "epoch 1 of 9", "epoch 2 of 9", "done"):
        ...         show([{"method": "SIMS", "seed": 0, "state": state}])
        SIMS seed 0: epoch 1 of 9
        SIMS seed 0: done
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield _Lines(stream)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream)
    with Live(console=console, auto_refresh=False) as live:
        last: Sequence[Row] = ()

        def show(rows: Sequence[Row]) -> None:
            nonlocal last
            last = rows
            live.update(_table(rows, console.height - AROUND), refresh=True)

        try:
            yield show
        finally:
            live.update(_table(last, len(last)))  # the whole table stays


class _Lines:
    """A line when a run starts, and one when it is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._words: dict[str, str] = {}

    def __call__(self, rows: Sequence[Row]) -> None:
        for row in rows:
            name, word = f"{row['method']} seed {row['seed']}", _word(row)
            if word != self._words.get(name, WAITING):
                print(f"{name}: {row[STATE]}", file=self._stream, flush=True)
            self._words[name] = word


def _word(row: Row) -> str:
    """Return the first word of the state."""
    return (str(row.get(STATE, "")).split() or [WAITING])[0].rstrip(":.,")


def _table(rows: Sequence[Row], height: int) -> "Table":
    """Return the table; if it is too high, what goes on comes first, and a line counts what is left out."""
    from rich.table import Table
    from rich.text import Text

    shown = list(rows)
    if len(rows) > height:
        shown = sorted(rows, key=lambda row: (_word(row) in OVER, _word(row) == WAITING))[: max(height, 1)]
    left_out = Counter(_word(row) for row in rows) - Counter(_word(row) for row in shown)
    caption = ", ".join(f"{count} {word}" for word, count in left_out.items())
    result = Table(caption=f"and {caption}" if caption else None)
    columns = arrange(shown)
    for column in columns:
        result.add_column(Text(column.header))
    for cells in zip(*(column.cells(shown) for column in columns), strict=True):
        result.add_row(*map(Text, cells))
    return result
