"""Files that are there as a whole or not at all."""

import fcntl
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from torchsims.training._settings import Settings

__all__ = [
    "CHECKPOINT",
    "load_checkpoint",
    "locked",
    "read_checkpoint",
    "read_settings",
    "replace_file",
    "save_checkpoint",
]

CHECKPOINT = "checkpoint.pt"
FORMAT = 1


def replace_file(path: Path, content: bytes) -> None:
    """Write a file next to its place and move it there: at any moment the old or the new one is there, and whole.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     replace_file(Path(folder) / "a" / "notes.txt", b"all of it")
        ...     [path.name for path in (Path(folder) / "a").iterdir()]
        ['notes.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def locked(folder: Path, writes: bool = True) -> Iterator[None]:
    """Keep a second process from training in the same folder; one that only looks on does not mind."""
    if not writes:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"Another process trains in `{folder}`. Wait for it, or choose another folder.") from error
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # processes that load data may still have the folder open
    finally:
        os.close(descriptor)


def save_checkpoint(folder: Path, settings: Settings, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint of a run."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "settings": settings.plain(), **state}, buffer)
    replace_file(folder / CHECKPOINT, buffer.getvalue())
    for left in folder.glob(".*-*"):  # of a run that was killed while it wrote
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def load_checkpoint(folder: Path, settings: Settings) -> dict[str, Any] | None:
    """Return the state that was saved, or nothing if there is none; refuse that of a run with other settings.

    Example:
        >>> print(load_checkpoint(Path("no such folder"), Settings()))
        None
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    state = read_checkpoint(path)
    found = settings.plain()
    for name, value in state["settings"].items():
        if value != found.get(name):
            raise ValueError(
                f"The checkpoint `{path}` belongs to a run with `{name} = {value}`. Found `{name} = {found.get(name)}`."
            )
    return state


def read_settings(folder: Path) -> Settings | None:
    """Return the settings of the run that left a checkpoint in ``folder``, or nothing if there is none.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(Path(folder), Settings(method="gls"), {})
        ...     read_settings(Path(folder)).method
        'gls'
    """
    path = folder / CHECKPOINT
    return Settings.from_plain(read_checkpoint(path)["settings"]) if path.exists() else None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return everything that a checkpoint holds."""
    try:
        content = io.BytesIO(path.read_bytes())
        state: dict[str, Any] = torch.load(content, map_location="cpu", weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError, OSError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"The checkpoint `{path}` cannot be read: it is truncated, damaged, or none.") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"The checkpoint `{path}` was not written by `torchsims train`, or by another version of it.")
    return state
