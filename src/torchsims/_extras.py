"""What to say when a package of an extra is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra to install if an import in the block finds no package.

    Example:
        >>> with needs("vision"):
        ...     import package_that_is_not_there
        Traceback (most recent call last):
            ...
        ModuleNotFoundError: Package `package_that_is_not_there` should be installed: pip install 'torchsims[vision]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Package `{error.name}` should be installed: pip install 'torchsims[{extra}]'.", name=error.name
        ) from error
