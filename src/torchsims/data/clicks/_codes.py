"""From ids as they were read to codes that an embedding takes, a column at a time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data.clicks._clicks import NUMBER
from torchsims.data.clicks._columns import blocks, write_columns

__all__ = ["encode_folder", "moments", "vocabulary"]

Column = NDArray[Any]


def vocabulary(parts: Iterable[Column], min_count: int) -> NDArray[np.int32]:
    """Return the ids that occur ``min_count`` times or more, sorted; 0 is no id.

    Memory is bounded by the number of distinct ids, not by the length of the column.

    Example:
        >>> vocabulary([np.array([5, 3, 5, 0]), np.array([0, 9, 9])], min_count=2).tolist()
        [5, 9]
    """
    ids, counts = np.zeros(0, np.int32), np.zeros(0, np.int64)
    for part in parts:
        new, more = np.unique(part, return_counts=True)
        ids, place = np.unique(np.concatenate([ids, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, more]), len(ids)).astype(np.int64)
    found: NDArray[np.int32] = ids[(counts >= min_count) & (ids != 0)].astype(np.int32)
    return found


def moments(parts: Iterable[Column]) -> tuple[float, float]:
    """Return mean and standard deviation of a column; 1 where it has no spread.

    Example:
        >>> moments([np.array([1.0, 3.0]), np.array([2.0])])[0]
        2.0
    """
    count, mean, squares = 0, 0.0, 0.0
    for part in parts:
        values = part.astype(np.float64)
        shift, total = float(values.mean()) - mean, count + len(values)
        squares += float(((values - values.mean()) ** 2).sum()) + shift**2 * count * len(values) / total
        mean, count = mean + shift * len(values) / total, total
    sd = float(np.sqrt(squares / count)) if count else 1.0
    return mean, sd if sd > 0 else 1.0


def encode_folder(source: Path, target: Path, vocabularies: Mapping[str, NDArray[np.int32]]) -> None:
    """Write the columns of a folder with codes for ids: the place in the vocabulary from 1 up, 0 for the others."""
    for path in sorted(source.glob("*.npy")):
        name, parts = path.stem, iter(blocks(path))
        if name in vocabularies:
            parts = _codes(parts, vocabularies[name])
        dtype = np.uint8 if name in ("click", "purchase") else np.float32 if name.startswith(NUMBER) else np.int32
        write_columns(target, {name: dtype}, ({name: part} for part in parts))


def _codes(parts: Iterable[Column], known: NDArray[np.int32]) -> Iterator[Column]:
    for part in parts:
        place = np.searchsorted(known, part)
        there = known[np.minimum(place, len(known) - 1)] == part if len(known) else np.zeros(len(part), bool)
        yield np.where(there, place + 1, 0).astype(np.int32)
