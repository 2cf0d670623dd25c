"""CSV files as columns, with the number of the line in every complaint."""

import csv
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "check_header", "open_text", "read_csv", "to_column"]

MISSING = frozenset({"", "na", "n/a", "nan", "null"})  # in any capitals; the word None may be a category
ROWS = 1 << 14  # turned into columns at a time, so that no more than these are Python lists


def read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a CSV file, plain or gzipped: float64, or text as objects with ``None`` where missing."""
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
    return {name: to_column(np.concatenate([part[i] for part in parts])) for i, name in enumerate(names)}


def start(path: Path, file: TextIO) -> tuple[list[str], Iterator[list[str]]]:
    """Return the names of the columns, and the rows, each of which has a field a column."""
    reader = csv.reader(file)
    names = next(reader, None)
    if not names:
        raise ValueError(f"A table should have a line with the names of its columns. Found none in `{path}`.")
    check_header(names, path)

    def rows() -> Iterator[list[str]]:
        for row in reader:
            if len(row) == len(names):
                yield row
            elif row:  # a blank line is no row
                raise ValueError(
                    f"Line {reader.line_num} of `{path}` should have {len(names)} fields. Found {len(row)}."
                )

    return names, rows()


def check_header(names: list[str], path: Path) -> None:
    """Refuse names that stand for two columns."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"The columns of a table should have distinct names. Found `{twice[0]}` twice in `{path}`.")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, plain or gzipped, whose first character may be a byte order mark."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file


def to_column(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts as float64 if all that are not missing are numbers, and as objects otherwise."""
    missing = np.array([value is None or value.strip().lower() in MISSING for value in values], dtype=bool)
    try:
        return np.where(missing, "nan", values).astype(np.float64)
    except ValueError:
        texts = values.copy()
        texts[missing] = None
        return texts


def _texts(rows: list[list[str]]) -> list[NDArray[Any]]:
    return [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
