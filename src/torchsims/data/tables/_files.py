"""Tables from files, and the split of their rows."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims._limits import check_memory
from torchsims.data.tables._csv import CELL, check_header, first_line, read_csv

PARQUET = (".parquet", ".pq")


def read_table(path: str | Path, text: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the columns of a file by name: float64, or text as objects; NaN and ``None`` where missing.

    Args:
        path: a CSV file with a line of names, plain or gzipped, or a Parquet file; both need the extra ``[tables]``.
            In a CSV file an empty field, ``NA``, ``N/A``, ``NaN`` and ``null`` are missing.
        text: names of columns to read as text even if all their values are numbers.

    Example:
        >>> read_table("nowhere.csv")
        Traceback (most recent call last):
        FileNotFoundError: There is no file `nowhere.csv`.
    """
    path = Path(path)
    return _read_parquet(path) if path.suffix in PARQUET else read_csv(path, text)


def split_rows(rows: int, seed: int = 0, val: float = 0.1, test: float = 0.1) -> Mapping[str, NDArray[np.int64]]:
    """Return the rows of ``"train"``, ``"val"`` and ``"test"``: disjoint, random, each in ascending order.

    ``val`` and ``test`` are fractions of all rows; each part has at least one row.

    Example:
        >>> {name: len(part) for name, part in split_rows(20).items()}
        {'train': 16, 'val': 2, 'test': 2}
    """
    for name, share in (("val", val), ("test", test)):
        if not 0 < share < 1:
            raise ValueError(f"Parameter `{name}` should be in (0, 1). Found `{name} = {share}`.")
    sizes = [max(1, round(share * rows)) for share in (val, test)]
    if rows <= sum(sizes):
        raise ValueError(f"A table should have rows for training, validation and test. Found {rows}.")
    order = np.random.default_rng(seed).permutation(rows)
    parts = np.split(order, np.cumsum(sizes))
    return {name: np.sort(part) for name, part in zip(("train", "val", "test"), [parts[2], *parts[:2]], strict=True)}


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    with needs("tables"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        file = parquet.ParquetFile(path)
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
        check_memory(CELL * values + sum(group.total_byte_size for group in groups), path)
        table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"The file `{path}` cannot be read as Parquet: {first_line(error)}.") from error
    if not table.num_rows or not table.num_columns:
        raise ValueError(f"A table should have at least one row and one column. Found neither in `{path}`.")
    check_header(table.column_names, path)
    return {name: _from_arrow(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _from_arrow(column: Any) -> NDArray[Any]:
    from pyarrow import float64, types

    if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
        numbers = column.cast("int8") if types.is_boolean(column.type) else column
        return np.array(numbers.cast(float64(), safe=False).to_numpy())
    return np.array([None if value is None else str(value) for value in column.to_pylist()], dtype=object)
