"""Columns in Arrow files, one file per column: appended while a log is read, and mapped into memory for training."""

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs

CHUNK = 1 << 15  # rows in memory at a time while text is read
BLOCK = 1 << 20  # rows of a column that are computed at a time
Column = NDArray[Any]


def append(folder: Path, parts: Iterable[Mapping[str, Column]]) -> int:
    """Write the columns of all parts to one file each, a record batch per part, and return the number of rows."""
    with needs("tables"):
        import pyarrow as pa
    folder.mkdir(exist_ok=True)
    writers: dict[str, Any] = {}
    rows = 0
    with ExitStack() as stack:
        for part in parts:
            for name, column in part.items():
                batch = pa.record_batch([pa.array(column)], [name])
                if name not in writers:
                    file = stack.enter_context(pa.OSFile(str(folder / f"{name}.arrow"), "wb"))
                    writers[name] = stack.enter_context(pa.ipc.new_file(file, batch.schema))
                writers[name].write_batch(batch)
            rows += len(column)
    for name in writers:
        with (folder / f"{name}.arrow").open("rb") as written:
            os.fsync(written.fileno())  # before the folder is renamed
    return rows


def columns_in(folder: Path) -> list[Path]:
    """Return the files of the columns of a folder."""
    return sorted(folder.glob("*.arrow"))


def read_column(path: Path) -> Any:
    """Return a column as a chunked array of pyarrow. It is read, not mapped: mapped pages would count as memory."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all().column(0)


def read_columns(folder: Path) -> dict[str, Column]:
    """Return columns of one part each, mapped into memory: only the rows that are used are read from the disk."""
    with needs("tables"):
        import pyarrow as pa
    maps = {path.stem: pa.memory_map(str(path)) for path in columns_in(folder)}
    return {name: pa.ipc.open_file(file).get_batch(0).column(0).to_numpy() for name, file in maps.items()}


def moments(column: Column) -> tuple[float, float]:
    """Return mean and standard deviation of a column; 1 where it has no spread."""
    mean = float(column.mean(dtype=np.float64))
    blocks = (column[start : start + BLOCK].astype(np.float64) for start in range(0, len(column), BLOCK))
    sd = float(np.sqrt(sum(float(((block - mean) ** 2).sum()) for block in blocks) / len(column)))
    return mean, sd if sd > 0 else 1.0
