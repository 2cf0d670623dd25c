"""Checks of what a command gets, and what it says on standard error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

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

    With ``resume`` it may be a folder of this command: all of them hold a file ``mark``, and none a file ``other``.
    """
    own = resume and (out / mark).exists() and not (other and (out / other).exists())
    taken = out.exists() and (not out.is_dir() or any(path.name not in OWN for path in out.iterdir()))
    if taken and not own:
        raise typer.BadParameter(f"Parameter `out` should be a new or empty folder. Found `out = {out}`.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise typer.BadParameter(f"Parameter `out` should be a folder that can be written to. Found `out = {out}`.")


def warn(sentence: str) -> None:
    """Print one line on standard error."""
    typer.echo(f"torchsims: {sentence}", err=True)
