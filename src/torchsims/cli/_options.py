"""Options of commands, generated from dataclasses: a field declared there is an option of every command that has it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from torchsims.registry import Spec, split_list, unquote
from torchsims.training.config import NAMES, default_of, quote_name, value_text


def add_options(function: Callable[..., None], *sources: type, without: Sequence[str] = ()) -> Callable[..., None]:
    """Return a command with an option per field of the dataclasses ``sources``.

    The command gets its own arguments as they are, and as ``given``, its last parameter, the values of the fields that
    the command line names, by name. Fields are declared with :func:`torchsims.training.config.setting`; those in
    ``without`` are no options of this command.
    """
    entries = {e.name: (e, get_type_hints(source)[e.name]) for source in sources for e in fields(source)}
    entries = {name: pair for name, pair in entries.items() if name not in without}
    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "given"]
    made = [_parameter(entry, hint) for entry, hint in entries.values()]
    singles = {f"{name}_single": entry for name, (entry, _) in entries.items() if entry.metadata["single"]}
    made += [_single_parameter(name, entry) for name, entry in singles.items()]

    @wraps(function)
    def command(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in entries}
        for name, entry in singles.items():
            if texts := values.pop(name):
                chosen[entry.name] = [*(chosen[entry.name] or ()), *map(quote_name, texts)]
        given = {
            name: parse_value(name, value, entries[name][1])
            for name, value in chosen.items()
            if value not in (None, [])
        }
        function(**values, given=given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + made
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(entry: "Field[Any]", hint: Any) -> inspect.Parameter:
    kinds: dict[Any, Any] = {int: int, float: float, bool: bool}
    kind = kinds.get(hint, str if _is_text(hint) else list[str])
    flags = entry.metadata["flags"] or (f"--{entry.name.replace('_', '-')}",)
    if hint is bool:
        flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",)
    default = value_text(default_of(entry))
    option = typer.Option(
        *flags, help=entry.metadata["help"], show_default=default or False, min=entry.metadata["minimum"]
    )
    return inspect.Parameter(
        entry.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _single_parameter(name: str, entry: "Field[Any]") -> inspect.Parameter:
    option = typer.Option(entry.metadata["single"], help="One of them, as it is written; may be repeated.")
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[list[str] | None, option]
    )


def _is_text(hint: Any) -> bool:
    """Return whether one text on the command line holds the whole value."""
    return hint is str or (getattr(hint, "__args__", (str,))[0] is not str)


def parse_value(name: str, value: Any, hint: Any) -> Any:
    """Return the value of a field that the texts of a command line stand for.

    Example:
        >>> parse_value("rescale", ["depth=100", "seg=2,normals=0.5"], Mapping[str, float])
        {'depth': 100.0, 'seg': 2.0, 'normals': 0.5}
        >>> parse_value("starts", "0,0; 9,9", tuple[tuple[float, ...], ...])
        ((0.0, 0.0), (9.0, 9.0))
    """
    if hint in (int, float, bool, str):
        return value
    if hint == tuple[str, ...]:
        return tuple(unquote(item) if name in NAMES else item for text in value for item in split_list(text))
    if hint == tuple[float, ...]:
        return _numbers(name, value)
    if hint == tuple[tuple[float, ...], ...]:
        return tuple(_numbers(name, point) for point in value.split(";") if point.strip())
    return _factors(name, value)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(",") if number.strip())
    except ValueError as error:
        raise typer.BadParameter(f"Parameter `{name}` should hold numbers. Found `{name} = {text}`.") from error


def _factors(name: str, texts: Sequence[str]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for item in (item for text in texts for item in split_list(text)):
        task, equals, number = (part.strip() for part in item.rpartition("="))
        try:
            factors[unquote(task)] = float(number)
        except ValueError:
            equals = ""
        if not task or not equals:
            raise typer.BadParameter(f"Parameter `{name}` should look like task=number. Found `{name} = {item}`.")
    return factors


def given_values(given: Mapping[str, Any], source: type) -> dict[str, Any]:
    """Return the given values that are fields of one dataclass."""
    return {entry.name: given[entry.name] for entry in fields(source) if entry.name in given}


def class_names(given: Mapping[str, Any]) -> set[str]:
    """Return the classes that a command line names: they may be imported for a run of a checkpoint."""
    specs = [Spec.parse(given[part]) for part in ("data", "method", "model") if given.get(part)]
    return {name for spec in specs for name in (spec.name, Spec.parse(spec.options.get("of", "")).name)}
