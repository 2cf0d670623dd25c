"""Names with options, as they are written on a command line: ``sims:tau=1:transform=sqrt``."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

__all__ = ["choose", "convert", "join_spec", "over", "parameters", "split_spec"]

OPTION = re.compile(r":(?=\s*[\w-]+\s*=)")  # where an option begins; other colons belong to a value


def split_spec(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options of a text; a value may hold colons, as some paths do.

    Example:
        >>> split_spec("Log-Merit:tau=1:augment=0.1")
        ('logmerit', {'tau': '1', 'augment': '0.1'})
        >>> split_spec("sam2:encoder=C:/sam2:rank=4")
        ('sam2', {'encoder': 'C:/sam2', 'rank': '4'})
    """
    name, *parts = OPTION.split(text)
    name, colon, rest = name.partition(":")
    if colon:
        raise ValueError(f"An option should look like name=value. Found `{rest}` in `{text}`.")
    options: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        key = key.strip().lower().replace("-", "_")
        if key in options:
            raise ValueError(f"An option should be given once. Found `{key}` twice in `{text}`.")
        options[key] = value.strip()
    return plain(name), options


def join_spec(name: str, options: Mapping[str, str]) -> str:
    """Return the text that :func:`split_spec` takes apart.

    Example:
        >>> join_spec("sims", {"tau": "1"})
        'sims:tau=1'
    """
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def over(text: str, usual: Iterable[str]) -> str:
    """Return a text with the options that one of the ``usual`` texts of the same name has and it does not.

    Example:
        >>> over("sims:tau=1", ["stch:mu=5", "sims:tau=5:ratio=2"])
        'sims:tau=1:ratio=2'
    """
    name, options = split_spec(text)
    for other, found in map(split_spec, usual):
        if other == name:
            options = {**options, **{key: value for key, value in found.items() if key not in options}}
    return join_spec(name, options)


def plain(name: str) -> str:
    """Return a name without capitals, hyphens, underscores and spaces."""
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ``name`` if it is known, and otherwise say which name is nearest to it.

    Example:
        >>> choose("method", "simms", ["ew", "sims"])
        Traceback (most recent call last):
        ValueError: There is no method `simms`. Did you mean `sims`? The names are ew, sims.
    """
    known = list(known)
    if name in known:
        return name
    near = get_close_matches(name, known, 1, cutoff=0.5)
    hint = f"Did you mean `{near[0]}`? " if near else ""
    raise ValueError(f"There is no {kind} `{name}`. {hint}The names are {', '.join(known)}.")


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function that a text can give, with their defaults: numbers, words and flags."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if isinstance(p.default, bool | int | float | str)}


def convert(what: str, options: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as values of the types of their defaults.

    Example:
        >>> convert("method `sims`", {"tau": "1", "order": "alternating"}, {"tau": 3.0, "order": "simultaneous"})
        {'tau': 1.0, 'order': 'alternating'}
    """
    values = {}
    for key, text in options.items():
        choose(f"option of {what}", key, defaults)
        values[key] = _value(key, text, type(defaults[key]))
    return values


def _value(key: str, text: str, kind: type) -> bool | int | float | str:
    if kind is bool:
        if text.lower() not in ("yes", "true", "no", "false"):
            raise ValueError(f"Option `{key}` should be yes or no. Found `{key}={text}`.")
        return text.lower() in ("yes", "true")
    try:
        value: int | float | str = kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise ValueError(f"Option `{key}` should be {noun}. Found `{key}={text}`.") from None
    return value
