"""Checks of what a command gets, and what it says on standard error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

__all__ = ["bad_input", "prepare_output_dir", "warn"]

OWN = (".torchsims.lock",)  # written by a run, but not a result


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn errors about the input into one sentence and exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        raise typer.BadParameter(str(error)) from error


def prepare_output_dir(out: Path, *, resume: bool = False, mark: str = "", other: str = "") -> None:
    """Make the output folder; raise an error if it cannot be written to or holds what this command did not write.

    Args:
        out: the folder.
        resume: whether it may hold what this command wrote before.
        mark: name of a file that every folder of this command has.
        other: name of a file that no folder of this command has.
    """
    own = resume and (out / mark).exists() and not (other and (out / other).exists())
    if not own and _is_taken(out):
        raise typer.BadParameter(f"Parameter `out` should be a new or empty folder. Found `out = {out}`.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise typer.BadParameter(f"Parameter `out` should be a folder that can be written to. Found `out = {out}`.")


def _is_taken(out: Path) -> bool:
    return out.exists() and (not out.is_dir() or any(path.name not in OWN for path in out.iterdir()))


def warn(sentence: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"torchsims: {sentence}", err=True)
