"""Tables from files, and the split of their rows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims._limits import check_memory
from torchsims.data.tables._csv import CELL, check_header, first_line, read_csv, without_missing
from torchsims.data.tables._features import as_texts, is_missing
from torchsims.data.tables._format import Format, is_iso

TEXT = (".csv", ".tsv", ".txt")
PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow")
ENDINGS = (*TEXT, *(f"{ending}.gz" for ending in TEXT), *PARQUET, *FEATHER)
"""How the names of files end that are tables."""
DAYS = {unit: 1 / (86400 * per) for unit, per in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))}
"""Days in the units of durations."""


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
    infer = partial(_inferred if is_text else _typed, form=form)
    named = (categories, dates, numbers)
    return {
        name: _column(f"Column `{name}` of `{path}`", column, [name in names for names in named], form, infer)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def read_frame(
    frame: Any, *, categories: Collection[str] = (), dates: Collection[str] = (), numbers: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the columns of a data frame, or of a mapping of arrays, by name, as :func:`read_table` does for files.

    Numbers are those that the frame has as numbers; texts are categories, and days if all are dates as 2026-05-31;
    booleans and what the frame calls categorical are categories. So a file that pandas has read is understood as the
    file itself is.

    Example:
        >>> found = read_frame({"zip": [1069, 1097], "listed": ["2026-05-31", None]}, categories=["zip"])
        >>> found["zip"].tolist(), found["listed"].dtype
        (['1069', '1097'], dtype('<M8[D]'))
    """
    columns = {}
    for name in frame:
        column = _arrow_column(frame[name])
        named = [str(name) in names for names in (categories, dates, numbers)]
        columns[str(name)] = _column(f"Column `{name}`", column, named, Format(), _stated)
    return columns


def _column(
    what: str, column: Any, named: Sequence[bool], form: Format, infer: Callable[[Any], NDArray[Any]]
) -> NDArray[Any]:
    """Return a column as the kind that it is named to be, category, date or number, or as ``infer`` finds it."""
    category, is_date, number = named
    try:
        if category:
            return _texts(column)
        if is_date:
            return _as_dates(column, form)
        return _as_numbers(column, form) if number else infer(column)
    except ValueError as error:
        kind = "dates" if is_date else "numbers"
        raise ValueError(f"{what} should hold {kind}. Found {error}.") from None


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
    return _days_or_texts(_values(texts), form) if found is None else found


def _typed(column: Any, form: Format) -> NDArray[Any]:
    """Return numbers, days or texts, as the type of the column says; texts that all are dates are days."""
    values = _values(column)
    return values if values.dtype != object else _days_or_texts(values, form)


def _stated(column: Any) -> NDArray[Any]:
    """Return numbers, days or texts, as the type of the column says; a boolean is the text that a file has for it."""
    from pyarrow import types

    if types.is_dictionary(column.type) or types.is_boolean(column.type):
        return _texts(column)
    return _typed(column, Format())


def _days_or_texts(objects: NDArray[Any], form: Format) -> NDArray[Any]:
    if is_iso(objects):
        try:
            return form.to_dates(objects)
        except ValueError:  # 2026-13-45 looks like a date and is none
            return objects
    return objects


def _arrow_column(values: Any) -> Any:
    """Return a column of a data frame as one of pyarrow; what has values of several types is text."""
    with needs("tables"):
        import pyarrow as pa
    values = values.sparse.to_dense() if getattr(values, "sparse", None) is not None else values
    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        column = None
    if column is None or _is_foreign(column.type):  # of several types, or of a type of pandas such as a period
        objects = np.asarray(values, dtype=object)
        column = pa.array([None if gone else str(v) for gone, v in zip(is_missing(objects), objects, strict=True)])
    if pa.types.is_null(column.type):
        return column.cast(pa.float64())
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return without_missing(column.cast(pa.string()), Format()) if is_text else column


def _is_foreign(kind: Any) -> bool:
    """Return whether a type of pyarrow is one of another package, or categories of one."""
    from pyarrow import BaseExtensionType, types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return isinstance(kind, BaseExtensionType)


def _values(column: Any) -> NDArray[Any]:
    """Return a column of pyarrow in the type that it has; a duration is a number of days."""
    from pyarrow import float64, int64, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_nested(column.type):
        raise ValueError(f"{column.type} in every row: a column of a table has one value per row")
    if types.is_decimal(column.type):
        column = column.cast(float64())
    if types.is_duration(column.type):
        return np.array(column.cast(int64()).to_numpy(zero_copy_only=False), float) * DAYS[column.type.unit]
    if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
        numbers = column.cast("int8") if types.is_boolean(column.type) else column
        return np.array(numbers.cast(float64(), safe=False).to_numpy(zero_copy_only=False))
    if types.is_date(column.type) or types.is_timestamp(column.type):
        return np.array(column.to_numpy(zero_copy_only=False), "datetime64[D]")
    return np.array([None if value is None else str(value) for value in column.to_pylist()], dtype=object)


def _texts(column: Any) -> NDArray[Any]:
    """Return a column as texts; a boolean is the text that a file has for it."""
    from pyarrow import types

    if types.is_boolean(column.type):
        return np.array([None if value is None else str(value) for value in column.to_pylist()], dtype=object)
    return as_texts(_values(column))


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
