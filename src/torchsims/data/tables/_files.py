"""Tables from files, and the split of their rows."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims._limits import check_memory
from torchsims.data.tables._csv import CELL, check_header, first_line, read_csv
from torchsims.data.tables._features import as_texts
from torchsims.data.tables._format import Format, is_iso

TEXT = (".csv", ".tsv", ".txt")
PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow")
ENDINGS = (*TEXT, *(f"{ending}.gz" for ending in TEXT), *PARQUET, *FEATHER)
"""How the names of files end that are tables."""


def read_table(
    path: str | Path,
    *,
    categories: Collection[str] = (),
    dates: Collection[str] = (),
    numbers: Collection[str] = (),
    form: Format | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the columns of a file by name: float64, days, or text as objects; NaN, NaT and ``None`` where missing.

    A column of a text file is numeric if all its values are numbers, and holds days if all are dates as 2026-05-31.

    Args:
        path: a text file with separators and a line of names, plain or gzipped, or a Parquet or Feather file; all need
            the extra ``[tables]``.
        categories: names of columns that are categories, even if all their values are numbers: zip codes.
        dates: names of columns that are dates.
        numbers: names of columns that are numbers.
        form: how a text file is written.

    Example:
        >>> read_table("nowhere.csv")
        Traceback (most recent call last):
        FileNotFoundError: There is no file `nowhere.csv`.
    """
    path, form = Path(path), form or Format()
    if not path.name.lower().endswith(ENDINGS):
        raise ValueError(f"The name of a table should end in one of {', '.join(ENDINGS)}. Found `{path}`.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    is_text = path.name.lower().endswith(tuple(ending for ending in ENDINGS if ending.startswith(TEXT)))
    table = read_csv(path, form) if is_text else _read_arrow(path)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            if name in categories:
                columns[name] = as_texts(_values(column))
            elif name in dates:
                columns[name] = _as_dates(column, form)
            elif name in numbers:
                columns[name] = _as_numbers(column, form)
            else:
                columns[name] = _inferred(column, form) if is_text else _values(column)
        except ValueError as error:
            what = "dates" if name in dates else "numbers"
            raise ValueError(f"Column `{name}` of `{path}` should hold {what}. Found {error}.") from None
    return columns


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


def _read_arrow(path: Path) -> Any:
    """Return a Parquet or Feather file as a table of pyarrow."""
    with needs("tables"):
        import pyarrow as pa
        from pyarrow import feather, parquet
    kind = "Parquet" if path.suffix.lower() in PARQUET else "Feather"
    try:
        if kind == "Parquet":
            file = parquet.ParquetFile(path)
            groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
            values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
            check_memory(CELL * values + sum(group.total_byte_size for group in groups), path)
            table = file.read()
        else:
            table = feather.read_table(path, memory_map=True)
            check_memory(CELL * table.num_rows * table.num_columns, path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"The file `{path}` cannot be read as {kind}: {first_line(error)}.") from error
    if not table.num_rows or not table.num_columns:
        raise ValueError(f"A table should have at least one row and one column. Found neither in `{path}`.")
    check_header(table.column_names, path)
    return table


def _inferred(texts: Any, form: Format) -> NDArray[Any]:
    """Return numbers, days or texts, by what all values are."""
    found = form.to_numbers(texts)
    if found is not None:
        return found
    objects = _values(texts)
    if is_iso(objects):
        try:
            return form.to_dates(objects)
        except ValueError:  # 2026-13-45 looks like a date and is none
            return objects
    return objects


def _values(column: Any) -> NDArray[Any]:
    """Return a column of pyarrow in the type that it has."""
    from pyarrow import float64, types

    if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
        numbers = column.cast("int8") if types.is_boolean(column.type) else column
        return np.array(numbers.cast(float64(), safe=False).to_numpy())
    if types.is_date(column.type) or types.is_timestamp(column.type):
        return np.array(column.to_numpy(), "datetime64[D]")
    return np.array([None if value is None else str(value) for value in column.to_pylist()], dtype=object)


def _as_numbers(column: Any, form: Format) -> NDArray[Any]:
    values = _values(column)
    if values.dtype != object:
        if values.dtype.kind == "M":
            raise ValueError("dates")
        return values
    found = form.to_numbers(values.tolist())
    if found is None:
        raise ValueError(repr(next(text for text in values if text is not None and form.to_numbers([text]) is None)))
    return found


def _as_dates(column: Any, form: Format) -> NDArray[Any]:
    values = _values(column)
    if values.dtype.kind == "M":
        return values
    return form.to_dates(as_texts(values))
