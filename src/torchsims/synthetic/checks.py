"""One check for the settings of all synthetic experiments."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from math import inf, isfinite
from typing import Any

NOTHING: Mapping[str, Iterable[str]] = {}


def check_settings(
    settings: Any, names: Mapping[str, Iterable[str]] = NOTHING, zero: Collection[str] = ("seed",)
) -> None:
    """Raise an error that names the first invalid setting of a dataclass, a value or a list of values.

    Args:
        settings: texts, flags, pairs of finite numbers, and numbers that should be positive.
        names: what a text of some settings may be.
        zero: settings whose numbers may also be zero.
    """
    for name in (entry.name for entry in fields(settings)):
        found = getattr(settings, name)
        if found == ():
            raise ValueError(f"Parameter `{name}` should not be empty. Found `{name} = {found}`.")
        for value in found if isinstance(found, tuple) else (found,):
            if sentence := _requirement(value, list(names.get(name, [value])), zero=name in zero):
                raise ValueError(f"Parameter `{name}` should {sentence}. Found `{name} = {value}`.")


def _requirement(value: Any, known: list[Any], *, zero: bool) -> str:
    """Return what a value should do, or an empty text if it does."""
    if isinstance(value, str):
        return "" if value in known else f"hold some of {', '.join(known)}"
    if isinstance(value, tuple) and len(value) != 2:
        return "hold pairs of numbers"
    if isinstance(value, tuple):
        return "" if all(map(isfinite, value)) else "hold finite numbers"
    if zero:
        return "" if 0 <= value < inf else "not be negative"
    return "" if isinstance(value, bool) or 0 < value < inf else "be positive and finite"
