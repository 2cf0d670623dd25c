"""CSV files, read by pyarrow; where it fails, the line is found that has to be corrected."""

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims._limits import check_memory
from torchsims.data._text import LONGEST, open_lines

CELL = 16  # bytes of a value in memory, beside its text
MISSING = ["", "na", "n/a", "nan", "null"]  # in any case; the word None may be a category


def read_csv(path: Path, text: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the columns of a CSV file, see :func:`torchsims.data.tables.read_table`."""
    names, batches = read_batches(path)
    parts, size = [], 0
    for part in batches:
        parts.append(part)
        size += part.nbytes + CELL * part.num_rows * part.num_columns
        if path.suffix == ".gz":  # the size of a plain file is no surprise
            check_memory(size, path)
    if not sum(len(part) for part in parts):
        raise ValueError(f"A table should have at least one row. Found none in `{path}`.")
    import pyarrow as pa

    table = pa.Table.from_batches(parts)
    return {name: _to_column(table[name], name in text) for name in names}


def read_batches(path: Path) -> tuple[list[str], Iterator[Any]]:
    """Return the names of the columns of a CSV file and its rows: record batches of text, read on demand."""
    with needs("tables"):
        import pyarrow as pa
        from pyarrow import csv as arrow
    with open_lines(path) as lines:
        names = next(csv.reader(lines), None)
    if not names:
        raise ValueError(f"A table should have a line with the names of its columns. Found none in `{path}`.")
    check_header(names, path)

    def batches() -> Iterator[Any]:
        try:
            yield from arrow.open_csv(
                path,
                arrow.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=LONGEST),
                arrow.ParseOptions(newlines_in_values=True),
                arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except (pa.ArrowInvalid, OSError) as error:
            _raise_for_line(path, len(names))
            raise ValueError(f"The file `{path}` cannot be read as a table: {first_line(error)}.") from error

    return names, batches()


def check_header(names: list[str], path: Path) -> None:
    """Raise an error for two columns of one name, and for names with another separator than a comma."""
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise ValueError(f"The columns of `{path}` should be separated by commas. Found {other!r} between their names.")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"The columns of a table should have distinct names. Found `{name}` twice in `{path}`.")


def first_line(error: Exception) -> str:
    """Return the first line of the message of pyarrow."""
    return str(error).splitlines()[0].rstrip(".")


def _raise_for_line(path: Path, fields: int) -> None:
    """Raise an error that names the first line with another number of fields; pyarrow counts rows, not lines."""
    with open_lines(path) as lines, suppress(csv.Error):
        reader = csv.reader(lines)
        first = 1  # of a row, which may have several lines
        for row in reader:
            if row and len(row) != fields:  # a blank line is no row
                raise ValueError(f"Line {first} of `{path}` should have {fields} fields. Found {len(row)}.")
            first = reader.line_num + 1


def _to_column(texts: Any, text: bool) -> NDArray[Any]:
    """Return float64 if all values that are not missing are numbers and ``text`` is false, otherwise objects."""
    import pyarrow as pa
    from pyarrow import compute as pc

    missing = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), pa.array(MISSING))
    known = pc.if_else(missing, pa.scalar(None, pa.string()), texts)
    numbers = None if text else to_numbers(known)
    return np.array(known.to_numpy(zero_copy_only=False)) if numbers is None else numbers


def to_numbers(texts: Any) -> NDArray[np.float64] | None:
    """Return an array of texts as float64, NaN where they are null; ``None`` if any other is not a number."""
    import pyarrow as pa
    from pyarrow import compute as pc

    unsigned = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+([\d.])", r"\1")  # a plus is an error
    with suppress(pa.ArrowInvalid):
        return np.array(unsigned.cast(pa.float64()).to_numpy(zero_copy_only=False))  # a copy, which can be written to
    return None
