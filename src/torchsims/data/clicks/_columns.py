"""Columns in files that grow while a log is read, whatever its length, and that are either whole or not there."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

__all__ = ["CHUNK", "blocks", "finished", "read_columns", "write_columns"]

CHUNK = 1 << 15  # rows in memory at a time while text is read
BLOCK = 1 << 20  # rows in memory at a time while columns are read


def finished(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a folder; if it is not there, ``write`` fills one beside it that takes its name when it is whole."""
    if not folder.is_dir():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write(part)
        part.replace(folder)
    return folder


def write_columns(folder: Path, dtypes: Mapping[str, DTypeLike], parts: Iterable[Mapping[str, NDArray[Any]]]) -> int:
    """Append the columns of all parts to one ``.npy`` file each, and return the number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: (folder / f"{name}.npy").open("wb") for name in dtypes}
    rows = 0
    try:
        for name, file in files.items():
            _header(file, dtypes[name], 0)
        for part in parts:
            for name, file in files.items():
                part[name].astype(dtypes[name], copy=False).tofile(file)
            rows += len(next(iter(part.values())))
        for name, file in files.items():
            file.seek(0)
            _header(file, dtypes[name], rows)
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files.values():
            file.close()
    return rows


def read_columns(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a folder, of which only what is looked at is read."""
    return {path.stem: _map(path) for path in sorted(folder.glob("*.npy"))}


def blocks(path: Path) -> Iterator[NDArray[Any]]:
    """Yield parts of a column. They are read, not mapped: mapped pages would count as memory of the process."""
    with path.open("rb") as file:
        npy.read_magic(file)
        (rows,), _, dtype = npy.read_array_header_1_0(file)
        for start in range(0, rows, BLOCK):
            yield np.fromfile(file, dtype, min(BLOCK, rows - start))


def _map(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r")
    return array.view(np.ndarray)  # the subclass costs time at every look


def _header(file: BinaryIO, dtype: DTypeLike, rows: int) -> None:
    """Write the header of a column; the format leaves room for the number of rows to grow."""
    npy.write_array_header_1_0(file, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (rows,)})
