"""Checks of the settings of an experiment: each raises a ValueError of one sentence that names the setting."""

import math
from collections.abc import Iterable
from typing import Any

__all__ = ["check_names", "check_not_negative", "check_points", "check_positive"]


def check_names(settings: object, name: str, known: Iterable[str]) -> None:
    """Raise an error unless the setting ``name`` holds some of the ``known`` names.

    Example:
        >>> from types import SimpleNamespace
        >>> check_names(SimpleNamespace(methods=("ew", "adam")), "methods", ("ew", "sims"))
        Traceback (most recent call last):
        ValueError: Parameter `methods` should hold some of ew, sims. Found `methods = adam`.
    """
    known = list(known)
    for value in _values(settings, name):
        if value not in known:
            raise ValueError(f"Parameter `{name}` should hold some of {', '.join(known)}. Found `{name} = {value}`.")


def check_positive(settings: object, *names: str) -> None:
    """Raise an error unless the settings ``names``, numbers or lists of numbers, are positive and finite.

    Example:
        >>> from types import SimpleNamespace
        >>> check_positive(SimpleNamespace(tau=-1.0), "tau")
        Traceback (most recent call last):
        ValueError: Parameter `tau` should be positive and finite. Found `tau = -1.0`.
    """
    for name in names:
        for value in _values(settings, name):
            if not 0 < value < math.inf:
                raise ValueError(f"Parameter `{name}` should be positive and finite. Found `{name} = {value}`.")


def check_not_negative(settings: object, name: str) -> None:
    """Raise an error unless the setting ``name``, a number or a list of numbers, is finite and not negative."""
    for value in _values(settings, name):
        if not 0 <= value < math.inf:
            raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {value}`.")


def check_points(settings: object, name: str) -> None:
    """Raise an error unless the setting ``name`` is a list of pairs of finite numbers."""
    for point in _values(settings, name):
        if len(point) != 2:
            raise ValueError(f"Parameter `{name}` should hold pairs of numbers. Found `{name} = {point}`.")
        if not all(map(math.isfinite, point)):
            raise ValueError(f"Parameter `{name}` should hold finite numbers. Found `{name} = {point}`.")


def _values(settings: object, name: str) -> tuple[Any, ...]:
    """Return the values of a setting; a single number is a list of one, and an empty list is an error."""
    values = getattr(settings, name)
    if not isinstance(values, tuple):
        return (values,)
    if not values:
        raise ValueError(f"Parameter `{name}` should not be empty. Found `{name} = {values}`.")
    return values
