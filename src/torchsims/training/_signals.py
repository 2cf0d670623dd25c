"""Ctrl-C asks a run to stop after the step it is in."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["asked_to_stop"]


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether an interrupt or a request to end has come; a second interrupt stops at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield asked.is_set
        return

    def handle(number: int, frame: FrameType | None) -> None:
        asked.set()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
