"""The raw files of Ali-CCP, read line by line into parts of columns."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data._text import open_lines
from torchsims.data.clicks._columns import CHUNK
from torchsims.data.clicks._log import COMMON, NUMBER, OWN, VALUED, Clicks

Part = dict[str, NDArray[Any]]

BETWEEN, BEFORE_ID, BEFORE_VALUE = "\x01", "\x02", "\x03"
LARGEST = 2**31  # ids are stored in 32 bits


def read_common(path: Path, places: dict[str, int]) -> Iterator[Part]:
    """Yield the columns of the common features, and note the row of every id in ``places``."""
    reader = _Reader(path, COMMON)
    for number, (key, n, features) in reader.rows(3):
        reader.add(number, n, features)
        if key in places:
            raise ValueError(f"Line {number} of `{path}` should have an id of its own. Found `{key}` again.")
        places[key] = len(places)
        if reader.full:
            yield reader.take()
    yield reader.take()


def read_skeleton(path: Path, places: Mapping[str, int], dropped: Counter[str]) -> Iterator[Part]:
    """Yield the columns of the impressions; lines with a purchase but no click are left out and counted."""
    reader = _Reader(path, OWN, ("click", "purchase", "common"))
    for number, (_, click, purchase, key, n, features) in reader.rows(6):
        if click not in ("0", "1") or purchase not in ("0", "1"):
            raise ValueError(f"Line {number} of `{path}` should have labels 0 or 1. Found {click} and {purchase}.")
        if key not in places:
            raise ValueError(f"Line {number} of `{path}` should name known common features. Found `{key}`.")
        if click < purchase:
            dropped["rows"] += 1
            continue
        reader.add(number, n, features, click == "1", purchase == "1", places[key])
        if reader.full:
            yield reader.take()
    yield reader.take()


class _Reader:
    """Lines of one file, and the rows that were read and not yet returned: the ids of fields, and other integers."""

    def __init__(self, path: Path, fields: Sequence[str], others: Sequence[str] = ()) -> None:
        self._path, self._fields, self._integers = path, fields, (*fields, *others)
        self._places = {field: i for i, field in enumerate(fields)}
        self._ids: list[list[int]] = []
        self._values: list[list[float]] = []

    @property
    def full(self) -> bool:
        return len(self._ids) == CHUNK

    def rows(self, count: int) -> Iterator[tuple[int, list[str]]]:
        with open_lines(self._path) as lines:
            for number, line in enumerate(lines, 1):
                parts = line.rstrip("\r\n").split(",")
                if len(parts) != count:
                    raise ValueError(f"Line {number} of `{self._path}` should have {count} fields. Found {len(parts)}.")
                yield number, parts

    def add(self, number: int, n: str, features: str, *others: int) -> None:
        """Read the features of a line; of several ids of one field the first counts, and other fields do not."""
        items = features.split(BETWEEN) if features else []
        ids, values = [0] * len(self._fields), [0.0] * len(self._fields)
        try:
            if int(n) != len(items):
                raise ValueError(f"{n} features but {len(items)}")  # noqa: TRY301  # one sentence for all, below
            for item in items:
                field, _, rest = item.partition(BEFORE_ID)
                place = self._places.get(field)
                if place is not None and not ids[place]:
                    text, _, value = rest.partition(BEFORE_VALUE)
                    ids[place], values[place] = int(text), float(value)
        except ValueError as error:
            raise ValueError(f"Line {number} of `{self._path}` should hold ids and numbers: {error}.") from None
        if not 0 <= min(ids) <= max(ids) < LARGEST:
            raise ValueError(f"Line {number} of `{self._path}` should have ids below {LARGEST}. Found {max(ids)}.")
        self._ids.append([*ids, *others])
        self._values.append(values)

    def take(self) -> Part:
        """Return the rows as columns, and start anew."""
        ids = np.array(self._ids, dtype=np.int32).reshape(-1, len(self._integers)).T
        values = np.array(self._values, dtype=np.float32).reshape(-1, len(self._fields)).T
        part: Part = dict(zip(self._integers, ids, strict=True))
        part |= {NUMBER + f: column for f, column in zip(self._fields, values, strict=True) if f in VALUED}
        self._ids, self._values = [], []
        return part


def write_raw(folder: Path, split: str, log: Clicks) -> None:
    """Write a log in the format of the raw files of Ali-CCP; ids of 0 are left out.

    Example:
        >>> import tempfile
        >>> from torchsims.data.clicks import generate_clicks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_raw(Path(folder), "train", generate_clicks(10))
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['common_features_train.csv', 'sample_skeleton_train.csv']
    """
    if log.index is None:
        raise ValueError("A raw log should have common features. Found none.")
    with (folder / f"common_features_{split}.csv").open("w") as file:
        for row in range(len(log.common[COMMON[0]])):
            file.write(f"c{row},{_features(log.common, COMMON, row)}\n")
    with (folder / f"sample_skeleton_{split}.csv").open("w") as file:
        for row in range(len(log)):
            labels = f"{row},{log.click[row]},{log.purchase[row]},c{log.index[row]}"
            file.write(f"{labels},{_features(log.own, OWN, row)}\n")


def _features(columns: Mapping[str, NDArray[Any]], fields: Sequence[str], row: int) -> str:
    items = [
        f"{f}{BEFORE_ID}{columns[f][row]}{BEFORE_VALUE}{columns[NUMBER + f][row] if f in VALUED else 1.0}"
        for f in fields
        if columns[f][row]
    ]
    return f"{len(items)},{BETWEEN.join(items)}"
