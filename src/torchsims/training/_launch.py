"""What ``torchrun`` says to the processes that it starts."""

from collections.abc import Iterator
from contextlib import contextmanager

from torchsims.steppers._distributed import World

__all__ = ["first_process", "launched", "processes"]


@contextmanager
def launched() -> Iterator[World]:
    """Join the processes that ``torchrun`` started, for several runs one after another.

    Example:
        >>> with launched() as world:
        ...     world.rank, world.size
        (0, 1)
    """
    with World.launch() as world:
        yield world


def processes() -> int:
    """Return how many processes share every run; one without ``torchrun``.

    Example:
        >>> processes()
        1
    """
    return World.place()[1]


def first_process() -> bool:
    """Return whether this process is the one that writes files and shows progress.

    Example:
        >>> first_process()
        True
    """
    return World.place()[0] == 0
