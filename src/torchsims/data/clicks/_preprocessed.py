"""The usual preprocessed form of Ali-CCP: CSV files with ``click``, ``purchase``, a column a field, and numbers D*."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data.clicks._clicks import NUMBER
from torchsims.data.clicks._columns import CHUNK
from torchsims.data.clicks._raw import LARGEST
from torchsims.data.tables._csv import open_text, start

__all__ = ["read_preprocessed"]

LABELS = ("click", "purchase")


def read_preprocessed(path: Path, dropped: Counter[str]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the columns in parts; rows with a purchase but no click are left out and counted."""
    with open_text(path) as file:
        names, rows = start(path, file)
        for label in LABELS:
            if label not in names:
                raise ValueError(f"A click log should have a column `{label}`. Found none in `{path}`.")
        while chunk := list(islice(rows, CHUNK)):
            texts = dict(zip(names, zip(*chunk, strict=True), strict=True))
            part = {name: _column(path, name, column) for name, column in texts.items()}
            legal = part["click"] >= part["purchase"]
            dropped["rows"] += int((~legal).sum())
            yield {name: column[legal] for name, column in part.items()}


def _column(path: Path, name: str, texts: Sequence[str]) -> NDArray[Any]:
    try:
        numbers = np.array(texts).astype(np.float64)
    except ValueError:
        raise ValueError(f"Column `{name}` of `{path}` should hold numbers.") from None
    if name.startswith(NUMBER):
        return numbers.astype(np.float32)
    limit = 2 if name in LABELS else LARGEST
    if not ((numbers >= 0) & (numbers < limit) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"Column `{name}` of `{path}` should hold whole numbers from 0 to {limit - 1}.")
    return numbers.astype(np.int32)
