"""Names with options (``sims:tau=1``), and registries that turn a name into a class.

What is built in, what an installed package registers as an entry point, and what a user names as
``package.module:Class`` are found in the same way. Nothing here imports torch.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, final

__all__ = ["Registry", "Spec", "choose", "split_list"]

_QUOTED = r'"(?:[^"]|"")*"'
_KEY = rf"(?:{_QUOTED}|[\w-]+)"
_OPTION = re.compile(rf":\s*({_KEY})\s*=\s*({_QUOTED}(?=\s*(?::|$))|.*?)\s*(?=:\s*{_KEY}\s*=|$)", re.DOTALL)
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@final
@dataclass(frozen=True)
class Spec:
    """A name and its options, as texts.

    The name has no capitals, hyphens and underscores, or is ``package.module:Class`` as it was written. A value may
    hold ``:`` and ``=``, as paths do. A value that itself looks like an option, and a key that is not one word, are
    written in double quotes; a quote inside them is doubled.

    Example:
        >>> Spec.parse("Log-Merit:tau=1:path=C:/sam2")
        Spec(name='logmerit', options={'tau': '1', 'path': 'C:/sam2'})
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Spec":
        """Return the spec that a text stands for."""
        first = _OPTION.search(text)
        head = (text if first is None else text[: first.start()]).strip()
        if ":" in head and not is_class_path(head):
            rest = head.partition(":")[2]
            raise ValueError(f"An option should look like name=value. Found `{rest}` in `{text}`.")
        options: dict[str, str] = {}
        for match in _OPTION.finditer(text, len(text) if first is None else first.start()):
            key, value = (unquote(part) for part in match.groups())
            if key in options:
                raise ValueError(f"An option should be given once. Found `{key}` twice in `{text}`.")
            options[key] = value
        return cls(head if is_class_path(head) else normalize_name(head), options)

    def __str__(self) -> str:
        parts = (f"{_quote(key, is_key=True)}={_quote(value)}" for key, value in self.options.items())
        return ":".join([self.name, *parts])

    def with_defaults(self, *texts: str) -> "Spec":
        """Return a spec with the options that a spec of the same name among ``texts`` has and this one does not.

        Example:
            >>> str(Spec.parse("sims:tau=1").with_defaults("stch:mu=5", "sims:tau=5:ratio=2"))
            'sims:tau=1:ratio=2'
        """
        options = dict(self.options)
        for other in map(Spec.parse, texts):
            if other.name == self.name:
                options |= {key: value for key, value in other.options.items() if key not in options}
        return Spec(self.name, options)


def unquote(text: str) -> str:
    """Return a text without the double quotes around it, if there are any."""
    return text[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, text) else text


def _quote(text: str, is_key: bool = False) -> str:
    simple = re.fullmatch(r"[\w-]+", text) if is_key else text == text.strip() and not re.search(r'[",]', text)
    if simple and text and not _OPTION.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def split_list(text: str) -> tuple[str, ...]:
    """Return the items between commas; commas in double quotes do not separate.

    Example:
        >>> split_list('ew, sims:tau=1, hps:encoder="a,b"')
        ('ew', 'sims:tau=1', 'hps:encoder="a,b"')
    """
    items = re.findall(rf"(?:{_QUOTED}|[^,])+", text)
    return tuple(item.strip() for item in items if item.strip())


def normalize_name(name: str) -> str:
    """Return a name without capitals, hyphens, underscores and spaces."""
    return re.sub(r"[-_\s]", "", name.lower())


def is_class_path(name: str) -> bool:
    """Return whether a name looks like ``package.module:Class``."""
    return _CLASS_PATH.fullmatch(name) is not None


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ``name`` if it is known; raise an error that suggests the nearest name otherwise.

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


def option_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function that a text can give, with their defaults: numbers, words and flags."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if isinstance(p.default, bool | int | float | str)}


def convert_options(what: str, options: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as values of the types of their defaults."""
    values = {}
    for key, text in options.items():
        name = choose(f"option of {what}", key.lower().replace("-", "_"), defaults)
        values[name] = convert_value(name, text, type(defaults[name]))
    return values


def convert_value(key: str, text: str, kind: type) -> bool | int | float | str:
    """Return the text of an option as a value of a type, or raise an error that names the option."""
    if kind is bool:
        if text.lower() not in ("yes", "true", "no", "false"):
            raise ValueError(f"Option `{key}` should be yes or no. Found `{key}={text}`.")
        return text.lower() in ("yes", "true")
    try:
        value: int | float | str = kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise ValueError(f"Option `{key}` should be {noun}. Found `{key}={text}`.") from None
    if kind is int and not -(2**63) <= int(value) < 2**63:
        raise ValueError(f"Option `{key}` should have at most 63 bits. Found `{key}={text}`.")
    if key.endswith("seed") and int(value) < 0:
        raise ValueError(f"Option `{key}` should not be negative. Found `{key}={text}`.")
    return value


def option_text(value: object) -> str:
    """Return the shortest text that :func:`convert_options` turns into the value: 1 for 1.0, yes for True."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _import_class(path: str) -> Any:
    """Return what ``package.module:Class`` names."""
    module, _, name = path.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise ValueError(
            f"`{path}` should name a class of a module that can be imported; an option should look like name=value. "
            f"Found: {error}."
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"`{path}` should name a class. Found no `{part}` in `{module}`.")
        found = getattr(found, part)
    return found


@final
class Registry:
    """Classes by name: built in, registered by an installed package, or named as ``package.module:Class``.

    ``kind`` is what they are called in errors, ``group`` the entry-point group of other packages, and ``builtin``
    returns the classes that are built in, or their paths, by name.

    Example:
        >>> registry = Registry("container", "torchsims.containers", lambda: {"list": "builtins:list"})
        >>> registry.names(), registry.load("list"), registry.load("collections:deque").__name__
        (('list',), <class 'list'>, 'deque')
    """

    def __init__(self, kind: str, group: str, builtin: Callable[[], Mapping[str, Any]]) -> None:
        self.kind, self.group, self._builtin = kind, group, builtin

    def names(self) -> tuple[str, ...]:
        """Return every registered name: those that are built in first."""
        return tuple(dict.fromkeys([*self._builtin(), *(normalize_name(e.name) for e in self._entry_points())]))

    def load(self, name: str) -> Any:
        """Return the class; an unknown name is an error that suggests the nearest one."""
        if is_class_path(name):
            return _import_class(name)
        if (found := self._builtin().get(name)) is not None:
            return _import_class(found) if isinstance(found, str) else found
        for entry in self._entry_points():
            if normalize_name(entry.name) == name:
                return _import_class(entry.value)
        choose(self.kind, name, self.names())
        raise AssertionError(f"The registry of {self.group} lists `{name}` and does not hold it.")

    def is_registered(self, name: str) -> bool:
        """Return whether loading a name imports only what is built in or registered by an installed package."""
        return not is_class_path(name) or any(entry.value == name for entry in self._entry_points())

    def _entry_points(self) -> Sequence[EntryPoint]:
        return _installed(self.group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return what packages on ``sys.path`` register; finding it reads a file of every installed package."""
    return tuple(entry_points(group=group))
