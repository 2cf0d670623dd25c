"""The type of the fixture that runs the command line."""

from collections.abc import Callable

Call = Callable[..., int]
"""Takes the words after `torchsims`, and returns the exit code."""
