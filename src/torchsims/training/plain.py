"""Plain data from files that anyone may have written, checked against type hints."""

from collections.abc import Mapping, Sequence
from math import nan
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin


def as_type(value: Any, hint: Any) -> Any:
    """Return a copy of nested plain data if it has a type, with NaN where a number is null; raise an error otherwise.

    Args:
        value: what JSON or a checkpoint holds.
        hint: ``int``, ``float``, ``str``, ``bool``, sequences, mappings from ``str``, and ``X | None``.

    Example:
        >>> as_type({"depth": [0.5, None]}, dict[str, list[float]])
        {'depth': [0.5, nan]}
        >>> as_type("3", int)
        Traceback (most recent call last):
        ValueError: An entry should be of type int. Found '3'.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else as_type(value, next(each for each in arguments if each is not NoneType))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {as_type(key, str): as_type(entry, arguments[1]) for key, entry in value.items()}
    if origin in (list, Sequence) and isinstance(value, list | tuple):
        return [as_type(entry, arguments[0]) for entry in value]
    if hint is float and value is None:
        return nan
    kind = int | float if hint is float else hint
    if origin is None and isinstance(value, kind) and isinstance(value, bool) == (hint is bool):
        return value
    raise ValueError(f"An entry should be of type {(origin or hint).__name__}. Found {value!r:.40}.")


def check_alike(value: Any, like: Any) -> None:
    """Raise an error where nested data has another type than an example, which may be shorter and hold None.

    Example:
        >>> check_alike({"lr": "fast"}, {"lr": 1e-3})
        Traceback (most recent call last):
        ValueError: An entry should be of type float. Found 'fast'.
    """
    if isinstance(like, bool | int | float | str):
        as_type(value, type(like))
    elif isinstance(like, dict) and isinstance(value, dict):
        for key in like.keys() & value.keys():
            check_alike(value[key], like[key])
    elif isinstance(like, list | tuple) and isinstance(value, list | tuple):
        for entry, example in zip(value, like, strict=False):
            check_alike(entry, example)
    elif like is not None and not isinstance(value, type(like)):
        raise ValueError(f"An entry should be of type {type(like).__name__}. Found {value!r:.40}.")
