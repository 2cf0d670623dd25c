"""A bound on the memory that one file may need: a small compressed file can hold gigabytes."""

import os
import zipfile
from pathlib import Path

VARIABLE = "TORCHSIMS_MAX_GIB"
DEFAULT = 4.0  # GiB


class TooLargeError(ValueError):
    """A file needs more memory than it may."""


def check_memory(size: float, path: Path) -> None:
    """Raise an error if a file needs more bytes of memory than the environment variable allows, 4 GiB by default."""
    text = os.environ.get(VARIABLE, str(DEFAULT))
    try:
        bound = float(text)
    except ValueError:
        bound = 0.0
    if not bound > 0:
        raise ValueError(f"Environment variable `{VARIABLE}` should be a positive number. Found `{text}`.")
    if size > bound * 2**30:
        raise TooLargeError(
            f"File `{path}` should need at most {bound:g} GiB of memory. Found {size / 2**30:.3g} GiB: set the "
            f"environment variable {VARIABLE} to allow more."
        )


def check_archive(path: Path) -> None:
    """Raise an error if what a zip file, such as an ``.npz`` file, unpacks to needs too much memory."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_memory(sum(part.file_size for part in archive.infolist()), path)
