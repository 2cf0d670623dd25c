"""Text files, plain or gzipped, as lines of bounded length."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

LONGEST = 1 << 22  # characters per line: a compressed file without line breaks would fill the memory


@contextmanager
def open_lines(path: Path, encoding: str = "utf-8") -> Iterator[Iterator[str]]:
    """Open a file for its lines; UTF-8 with or without a byte order mark. An error names the file."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="") as file:
            yield _lines(path, file)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"The file `{path}` should be text in UTF-8. Found other bytes; a table in Latin-1 has the option "
            "`--data table:encoding=latin-1`."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"The file `{path}` should be gzipped. It is not, or it is truncated or damaged.") from error


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise ValueError(f"A line of `{path}` should have fewer than {LONGEST} characters. Found a longer one.")
        yield line
