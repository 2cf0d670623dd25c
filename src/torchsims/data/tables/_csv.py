"""CSV files as columns, with the number of the line in every complaint."""

import csv
import gzip
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "check_header", "open_text", "read_csv", "to_column"]

MISSING = frozenset({"", "na", "n/a", "nan", "null"})  # in any capitals; the word None may be a category
ROWS = 1 << 14  # turned into columns at a time, so that no more than these are Python lists


def read_csv(path: Path, text: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the columns of a CSV file, plain or gzipped: float64, or text as objects with ``None`` where missing.

    Args:
        path: the file.
        text: the names of columns that are text, whatever they look like.
    """
    parts: list[list[NDArray[Any]]] = []
    with open_text(path) as file:
        names, rows = start(path, file)
        chunk: list[list[str]] = []
        for row in rows:
            chunk.append(row)
            if len(chunk) == ROWS:
                parts.append(_texts(chunk))
                chunk = []
        if chunk:
            parts.append(_texts(chunk))
    if not parts:
        raise ValueError(f"A table should have at least one row. Found none in `{path}`.")
    return {name: to_column(np.concatenate([part[i] for part in parts]), name in text) for i, name in enumerate(names)}


def start(path: Path, file: TextIO) -> tuple[list[str], Iterator[list[str]]]:
    """Return the names of the columns, and the rows, each of which has a field a column."""
    reader = csv.reader(file)
    names = next(reader, None)
    if not names:
        raise ValueError(f"A table should have a line with the names of its columns. Found none in `{path}`.")
    check_header(names, path)

    def rows() -> Iterator[list[str]]:
        line = reader.line_num + 1  # where a row begins; it may have several lines
        for row in reader:
            if len(row) == len(names):
                yield row
            elif row:  # a blank line is no row
                raise ValueError(f"Line {line} of `{path}` should have {len(names)} fields. Found {len(row)}.")
            line = reader.line_num + 1

    return names, rows()


def check_header(names: list[str], path: Path) -> None:
    """Refuse names that stand for two columns, and a line of names with another separator."""
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise ValueError(f"The columns of `{path}` should be separated by commas. Found {other!r} between their names.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"The columns of a table should have distinct names. Found `{twice[0]}` twice in `{path}`.")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, plain or gzipped, which may begin with a byte order mark; a bad one is named."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
                yield file
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"The file `{path}` should be text in UTF-8. Found bytes that are none.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"The file `{path}` should be gzipped. It is not, or it is truncated or damaged.") from error
    except csv.Error as error:
        raise ValueError(f"The file `{path}` cannot be read as a table: {error}.") from error


def to_column(values: NDArray[Any], text: bool = False) -> NDArray[Any]:
    """Return texts as float64 if all that are not missing are numbers and no ``text`` is wanted, or as objects."""
    missing = np.array([value is None or value.strip().lower() in MISSING for value in values], dtype=bool)
    if not text:
        with suppress(ValueError):
            return np.where(missing, "nan", values).astype(np.float64)
    texts = values.copy()
    texts[missing] = None
    return texts


def _texts(rows: list[list[str]]) -> list[NDArray[Any]]:
    return [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
