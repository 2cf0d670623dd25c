"""Search spaces: the values of an option that are worth trying. Nothing here imports torch.

A method or a network declares them as its class attribute ``search_space``, by the name of the option:

Example:
    >>> from torchsims.scalarizations import LogMerit
    >>> LogMerit.search_space
    {'tau': Range(low=0.1, high=10.0, log=True)}
"""

from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias, final

__all__ = ["Choice", "Range", "Space"]


@final
@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``log`` if it is their ratio that matters, not their difference.

    Example:
        >>> Range(0.0, 10.0)
        Traceback (most recent call last):
        ValueError: Parameter `low` should be positive on a logarithmic scale. Found `low = 0.0`.
    """

    low: float
    high: float
    log: bool = True

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise ValueError(f"Parameter `low` should be below `high`. Found {self.low} and {self.high}.")
        if self.log and self.low <= 0:
            raise ValueError(f"Parameter `low` should be positive on a logarithmic scale. Found `low = {self.low}`.")


@final
@dataclass(frozen=True)
class Choice:
    """One of some values, in no order.

    Example:
        >>> Choice((64, 128, 256)).values
        (64, 128, 256)
    """

    values: tuple[bool | int | float | str, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("Parameter `values` should not be empty.")


Space: TypeAlias = Range | Choice
"""What may be tried for one option."""
