"""The sentences that refuse bad settings."""

import math
from collections.abc import Iterable, Sequence

__all__ = ["check_names", "check_not_empty", "check_not_negative", "check_points", "check_positive"]


def check_not_empty(name: str, values: Sequence[object]) -> None:
    """Refuse an empty list."""
    if not values:
        raise ValueError(f"Parameter `{name}` should not be empty. Found `{name} = {values}`.")


def check_names(name: str, values: Sequence[str], known: Iterable[str]) -> None:
    """Refuse an empty list and names that are not known.

    Example:
        >>> check_names("methods", ("ew", "adam"), ("ew", "sims"))
        Traceback (most recent call last):
        ValueError: Parameter `methods` should hold some of ew, sims. Found `methods = adam`.
    """
    known = list(known)
    check_not_empty(name, values)
    for value in values:
        if value not in known:
            raise ValueError(f"Parameter `{name}` should hold some of {', '.join(known)}. Found `{name} = {value}`.")


def check_positive(name: str, *values: float) -> None:
    """Refuse zero, negative and infinite numbers.

    Example:
        >>> check_positive("tau", -1.0)
        Traceback (most recent call last):
        ValueError: Parameter `tau` should be positive and finite. Found `tau = -1.0`.
    """
    for value in values:
        if not 0 < value < float("inf"):
            raise ValueError(f"Parameter `{name}` should be positive and finite. Found `{name} = {value}`.")


def check_not_negative(name: str, *values: float) -> None:
    """Refuse negative and infinite numbers."""
    for value in values:
        if not 0 <= value < float("inf"):
            raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {value}`.")


def check_points(name: str, points: Sequence[Sequence[float]]) -> None:
    """Refuse an empty list and everything that is not a pair of finite numbers."""
    check_not_empty(name, points)
    for point in points:
        if len(point) != 2:
            raise ValueError(f"Parameter `{name}` should hold pairs of numbers. Found `{name} = {point}`.")
        if not all(math.isfinite(number) for number in point):
            raise ValueError(f"Parameter `{name}` should hold finite numbers. Found `{name} = {point}`.")
