"""What to say when a package of an extra is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra to install if the block imports, or makes, what needs a package that is not there."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"A package is missing: pip install 'torchsims[{extra}]'. Found: {error}") from error
