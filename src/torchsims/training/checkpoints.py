"""Checkpoints and other files of a run: there as a whole or not at all, and by one process at a time."""

import io
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Self, final

import torch

from torchsims.training.config import RunConfig

CHECKPOINT, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"
LOCK = ".torchsims.lock"
PATIENCE = 5.0  # seconds: a worker whose comparison was killed ends when it next reports
FORMAT = 2


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there: at any moment the old or the new one is there, complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, f"{error.strerror} while writing `{path}`") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> Path:
    """Return the one name that a file has while it is written: the next write replaces what a kill left."""
    return path.with_name(f".{path.name}.torchsims-tmp")


@contextmanager
def lock_folder(folder: Path, writes: bool = True) -> Iterator[None]:
    """Keep a second process from training in the same folder; a process that only reads needs no lock."""
    if not writes:
        yield
        return
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=PATIENCE):
            yield
    except Timeout as error:
        raise ValueError(f"Another process trains in `{folder}`. Wait for it, or choose another folder.") from error


def is_locked(folder: Path) -> bool:
    """Return whether a process trains in a folder now."""
    from filelock import FileLock, Timeout

    if not folder.is_dir():
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True


def checkpoint_bytes(config: RunConfig, state: Mapping[str, Any]) -> bytes:
    """Return the content of a checkpoint."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "config": config.to_dict(), **state}, buffer)
    return buffer.getvalue()


def write_checkpoint(folder: Path, content: bytes) -> None:
    """Replace the checkpoint of a run by one with this content; the one before it is kept beside it."""
    path, previous = folder / CHECKPOINT, folder / PREVIOUS
    if path.exists():
        temporary = _temporary(previous)
        temporary.unlink(missing_ok=True)
        try:
            os.link(path, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, temporary)
        os.replace(temporary, previous)
    replace_file(path, content)


@final
class BackgroundWriter:
    """Writes files while the run goes on, which need not wait for the disk.

    One write at a time, in a thread that ends with it. What goes wrong is raised by :meth:`check`, at the latest when
    the block ends, after which everything is written.

    Example:
        >>> with BackgroundWriter() as writer:
        ...     writer.start(lambda: print("written"))
        written
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def start(self, write: Callable[[], None]) -> None:
        """Start to write, once the write before has ended; if it failed, this one makes up for it."""
        self._join()
        self._error = None
        self._thread = Thread(target=self._run, args=(write,))
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is written."""
        self._join()
        self.check()

    def check(self) -> None:
        """Raise what went wrong, if something did."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # it belongs to the thread that waits
            self._error = error


def load_checkpoint(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """Return the saved state, or None if there is none; raise an error if it belongs to another configuration."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    state = read_checkpoint(path)
    found = config.to_dict()
    for name, value in state["config"].items():
        if value != found.get(name):
            raise ValueError(
                f"The checkpoint `{path}` belongs to a run with `{name} = {value}`. Found `{name} = {found.get(name)}`."
            )
    return state


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds. It is untrusted input: nothing but tensors and plain data is read from it."""
    try:
        content = io.BytesIO(path.read_bytes())
        with zipfile.ZipFile(content) as archive:
            # As torch.save writes them. Of a part that is called a directory, torch.load silently reads nothing.
            stored = not any(part.compress_type or part.external_attr for part in archive.infolist())
            intact = stored and archive.testzip() is None  # checksums of all parts: torch.load looks at none of them
        content.seek(0)
        state: Any = torch.load(content, map_location="cpu", weights_only=True) if intact else None
    except Exception as error:  # what a damaged pickle raises depends on the damage
        raise ValueError(_damaged(path)) from error
    if not intact:
        raise ValueError(_damaged(path))
    if not isinstance(state, dict) or not isinstance(state.get("config"), dict) or "format" not in state:
        raise ValueError(f"The file `{path}` should be a checkpoint of `torchsims train`. Found something else.")
    if state["format"] != FORMAT:
        raise ValueError(
            f"The checkpoint `{path}` should have format {FORMAT}. Found format {state['format']}, of another version."
        )
    with fits_checkpoint(path):
        RunConfig.from_dict(state["config"])
    return state


@contextmanager
def fits_checkpoint(path: Path) -> Iterator[None]:
    """Load parts of a checkpoint; whatever goes wrong is one error that names the file.

    Example:
        >>> with fits_checkpoint(Path("checkpoint.pt")):
        ...     {}["epoch"]
        Traceback (most recent call last):
        ValueError: The checkpoint `checkpoint.pt` is damaged, or that of another run. KeyError: 'epoch'
    """
    try:
        yield
    except (ImportError, OSError):  # a package or file that the run needs
        raise
    except Exception as error:  # what is missing or of the wrong type is met by whoever reads it first
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"The checkpoint `{path}` is damaged, or that of another run. {kind}{error}") from error


def _damaged(path: Path) -> str:
    before = path.with_name(PREVIOUS)
    hint = f" The one before it is `{before}`: rename it to resume from it." if before.exists() else ""
    return f"The checkpoint `{path}` cannot be read: it is truncated or damaged.{hint}"
