"""Texts of the command line as values, and bad ones as one sentence."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from torchsims.reporting import Report

__all__ = ["EXAMPLES", "bad_input", "claim", "floats", "items", "names", "points", "scales", "warn", "warn_starved"]

EXAMPLES = "sims:tau=1:ratio=5, stch:normalize=yes, ew:normalizer=ema."


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn errors about the input into a sentence and exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        raise typer.BadParameter(str(error)) from error


def claim(out: Path, *, resume: bool = False, mark: str = "", other: str = "") -> None:
    """Make sure that ``out`` can be written to, and that nothing in it would be overwritten.

    Args:
        out: the folder.
        resume: whether it may hold what this command left.
        mark: what is in every folder that this command left.
        other: what is in none of them.
    """
    from torchsims.reporting import check_output_dir

    own = resume and (out / mark).exists() and not (other and (out / other).exists())
    with bad_input():
        if not resume or (not own and _holds_something(out)):
            check_output_dir(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise typer.BadParameter(f"Parameter `out` should be a folder that can be written to. Found `out = {out}`.")


def _holds_something(out: Path) -> bool:
    """Return whether there is anything but what a killed run left half written."""
    return any(not path.name.startswith(".") for path in (out.iterdir() if out.is_dir() else [out]))


def items(text: str) -> tuple[str, ...]:
    """Return what stands between commas.

    Example:
        >>> items("ew, SIMS:tau=1")
        ('ew', 'sims:tau=1')
    """
    return tuple(name.lower() for name in names(text))


def names(text: str) -> tuple[str, ...]:
    """Return names between commas as they are: those of columns may have capitals.

    Example:
        >>> names("Price, town")
        ('Price', 'town')
    """
    return tuple(item.strip() for item in text.split(",") if item.strip())


def floats(name: str, text: str) -> tuple[float, ...]:
    """Return the numbers between commas."""
    try:
        return tuple(float(number) for number in text.split(",") if number.strip())
    except ValueError as error:
        raise typer.BadParameter(f"Parameter `{name}` should hold numbers. Found `{name} = {text}`.") from error


def points(text: str) -> tuple[tuple[float, ...], ...]:
    """Return points between semicolons."""
    return tuple(floats("starts", point) for point in text.split(";") if point.strip())


def scales(texts: list[str]) -> dict[str, float]:
    """Return what each loss is multiplied with.

    Example:
        >>> scales(["depth=100", "seg=2,normals=0.5"])
        {'depth': 100.0, 'seg': 2.0, 'normals': 0.5}
    """
    factors: dict[str, float] = {}
    for item in (item for text in texts for item in text.split(",") if item.strip()):
        task, equals, number = (part.strip() for part in item.rpartition("="))
        try:
            factors[task] = float(number)
        except ValueError:
            equals = ""
        if not task or not equals:
            raise typer.BadParameter(f"Parameter `rescale` should look like task=number. Found `rescale = {item}`.")
    return factors


def warn(sentence: str) -> None:
    """Say something on standard error, in a line of its own."""
    typer.echo(f"torchsims: {sentence}", err=True)


def warn_starved(report: "Report") -> None:
    """Say which methods starved a task, those of earlier runs included."""
    for entry in report.starved:
        warn(f"Starved: {entry} Option `augment=0.1` of the method, or a larger `tau`, helps.")
