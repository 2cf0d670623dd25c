"""Text files with separators, read by pyarrow; where it fails, the line is found that has to be corrected."""

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchsims._extras import needs
from torchsims._limits import check_memory
from torchsims.data._text import LONGEST, open_lines
from torchsims.data.tables._format import SEPARATORS, Format

CELL = 16  # bytes of a value in memory, beside its text


def read_csv(path: Path, form: Format) -> Any:
    """Return a text file as a table of pyarrow: all columns are text, null where a value is missing."""
    names, batches = read_batches(path, form)
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
    return pa.table({name: without_missing(table[name], form) for name in names})


def read_batches(path: Path, form: Format | None = None) -> tuple[list[str], Iterator[Any]]:
    """Return the names of the columns of a text file and its rows: record batches of text, read on demand."""
    form = form or Format()
    with needs("tables"):
        import pyarrow as pa
        from pyarrow import csv as arrow
    separator = _separator(path, form)
    with open_lines(path, form.encoding) as lines:
        names = next(csv.reader(lines, delimiter=separator), None)
    if not names:
        raise ValueError(f"A table should have a line with the names of its columns. Found none in `{path}`.")
    check_header(names, path)

    def batches() -> Iterator[Any]:
        try:
            yield from arrow.open_csv(
                path,
                arrow.ReadOptions(
                    column_names=names, skip_rows_after_names=1, block_size=LONGEST, encoding=form.encoding
                ),
                arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
                arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except (pa.ArrowInvalid, OSError) as error:
            _raise_for_line(path, len(names), separator, form.encoding)
            raise ValueError(f"The file `{path}` cannot be read as a table: {first_line(error)}.") from error

    return names, batches()


def check_header(names: list[str], path: Path) -> None:
    """Raise an error for two columns of one name."""
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"The columns of a table should have distinct names. Found `{name}` twice in `{path}`.")


def first_line(error: Exception) -> str:
    """Return the first line of the message of pyarrow."""
    return str(error).splitlines()[0].rstrip(".")


def _separator(path: Path, form: Format) -> str:
    """Return the separator; by default the one that cuts the line of names into most parts."""
    if form.separator != "auto":
        return SEPARATORS[form.separator]
    with open_lines(path, form.encoding) as lines:
        header = next(lines, "")
    counts = {mark: len(next(csv.reader([header], delimiter=mark), ())) for mark in SEPARATORS.values()}
    return max(counts, key=lambda mark: counts[mark])


def _raise_for_line(path: Path, fields: int, separator: str, encoding: str) -> None:
    """Raise an error that names the first line with another number of fields; pyarrow counts rows, not lines."""
    with open_lines(path, encoding) as lines, suppress(csv.Error):
        reader = csv.reader(lines, delimiter=separator)
        first = 1  # of a row, which may have several lines
        for row in reader:
            if row and len(row) != fields:  # a blank line is no row
                raise ValueError(f"Line {first} of `{path}` should have {fields} fields. Found {len(row)}.")
            first = reader.line_num + 1


def without_missing(texts: Any, form: Format) -> Any:
    """Return a column of texts, null where they mean a missing value."""
    import pyarrow as pa
    from pyarrow import compute as pc

    missing = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), pa.array(form.missing))
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts)
