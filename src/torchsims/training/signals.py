"""Ctrl-C asks a run to stop after the step it is in."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _Handler:
    """Remembers a signal; a second interrupt stops at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked.set()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether an interrupt or a request to end has come.

    Blocks may be nested: a signal that comes too late for the inner block reaches the outer one.

    Example:
        >>> with asked_to_stop() as asked:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     asked()
        True
    """
    handler = _Handler()
    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield handler.asked.is_set
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield handler.asked.is_set
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
            if isinstance(previous, _Handler) and handler.asked.is_set():
                previous.asked.set()
