"""Columns of a table as inputs of a network: fitted to the training rows, then the same for every row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MARKS = ("nan", "NaT", "<NA>")  # missing values of data frames as text
FARTHEST = 1e15  # standard deviations; farther away, the layers of a network overflow
RARE = 2  # a category with fewer training rows shares the code of unknown categories, so that this code is trained


@final
@dataclass(frozen=True, eq=False)
class Features:
    r"""The columns that predictions are computed from.

    Numbers are standardised, :math:`(x - \text{mean}) / \text{sd}`, 0 where missing, with one more column that
    marks the missing ones if there are any in the training rows. Categories get the codes 1, 2, ... in the order of
    their names; 0 is for a category that is missing, or that has fewer than two training rows. The attributes can be
    stored as JSON: ``Features(**asdict(features))`` is the same.

    Attributes:
        numbers: mean, standard deviation and whether values are missing, by the name of the column.
        categories: known categories, by the name of the column.

    Example:
        >>> table = {"x": np.array([1.0, 3.0, np.nan]), "town": np.array(["a", "a", "b"], dtype=object)}
        >>> features = Features.fit(table, ["x", "town"])
        >>> features.width, features.codes
        (2, (2,))
        >>> numbers, codes = features.encode({"x": np.array([5.0]), "town": np.array(["c"], dtype=object)})
        >>> numbers.tolist(), codes.tolist()  # town c is unknown
        ([[3.0, 0.0]], [[0]])
    """

    numbers: Mapping[str, tuple[float, float, bool]]
    categories: Mapping[str, Sequence[str]]

    @classmethod
    def fit(cls, table: Mapping[str, NDArray[Any]], names: Sequence[str]) -> "Features":
        """Fit the columns ``names`` of the training rows."""
        numbers, categories = {}, {}
        for name in names:
            column = table[name]
            if column.dtype != object:
                numbers[name] = standard(as_numbers(name, column))
                if not np.isfinite(numbers[name][:2]).all():
                    raise ValueError(f"Feature `{name}` should have a finite spread. Found {np.nanmax(abs(column)):g}.")
            else:
                found, counts = np.unique(column[~is_missing(column)].astype(str), return_counts=True)
                categories[name] = found[counts >= RARE].tolist()
        return cls(numbers, categories)

    @property
    def width(self) -> int:
        """Number of numeric inputs per row."""
        return len(self.numbers) + sum(some for _, _, some in self.numbers.values())

    @property
    def codes(self) -> tuple[int, ...]:
        """Number of codes of each categorical column."""
        return tuple(len(known) + 1 for known in self.categories.values())

    def encode(self, table: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return numbers, `row x width`, and codes, `row x categorical column`."""
        for name in (*self.numbers, *self.categories):
            if name not in table:
                raise ValueError(f"A table should have the column `{name}`, as that of the training had. Found none.")
        rows = len(next(iter(table.values())))
        numbers: list[NDArray[Any]] = []
        for name, (mean, sd, some) in self.numbers.items():
            column = as_numbers(name, table[name])
            missing = np.isnan(column)
            with np.errstate(over="ignore"):
                column = (column - mean) / sd
            if (far := np.flatnonzero(np.abs(column) > FARTHEST)).size:
                row = far[0]
                raise ValueError(
                    f"Feature `{name}` should be within {FARTHEST:g} standard deviations of the training rows. "
                    f"Found {table[name][row]} in row {row + 1}."
                )
            numbers += [np.where(missing, 0.0, column)] + ([missing] if some else [])
        codes = [codes_of(table[name], known) for name, known in self.categories.items()]
        return (
            np.stack(numbers, 1).astype(np.float32) if numbers else np.zeros((rows, 0), np.float32),
            np.stack(codes, 1) if codes else np.zeros((rows, 0), np.int64),
        )


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a column has no value: NaN, or among objects ``None`` and the marks of data frames.

    Example:
        >>> is_missing(np.array(["a", None, np.nan], dtype=object)).tolist()
        [False, True, True]
    """
    if column.dtype != object:
        return np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)
    return np.array([value is None or str(value) in MARKS for value in column], dtype=bool)


def standard(column: NDArray[Any]) -> tuple[float, float, bool]:
    """Return mean and standard deviation, 1 where there is no spread, and whether some are missing."""
    known = column[~np.isnan(column)].astype(np.float64)
    if not len(known):
        return 0.0, 1.0, True
    with np.errstate(over="ignore", invalid="ignore"):  # callers check for an infinite spread
        # A constant has no spread, even if its mean is rounded.
        sd = float(known.std()) if known.min() < known.max() else 1.0
        return float(known.mean()), sd, len(known) < len(column)


def codes_of(column: NDArray[Any], names: Sequence[Any]) -> NDArray[np.int64]:
    """Return the index in the sorted names, counted from 1; 0 where a value is missing or unknown."""
    missing, known = is_missing(column), np.array(names)
    codes = np.zeros(len(column), np.int64)
    if not len(known) or missing.all():
        return codes
    values = column[~missing]
    values = _as_texts(values) if known.dtype.kind == "U" else values.astype(known.dtype)
    place = np.searchsorted(known, values).clip(max=len(known) - 1)
    codes[~missing] = np.where(known[place] == values, place + 1, 0)
    return codes


def _as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as text: a category that was read as a number has no decimal point."""
    if values.dtype.kind == "f" and (values == np.round(values)).all():
        return values.astype(np.int64).astype(str)
    return values.astype(str)


def as_numbers(name: str, column: NDArray[Any], what: str = "Feature") -> Floats:
    """Return a column in float64, NaN where it has no value; raise for text and for infinite values."""
    if column.dtype != object:
        numbers = column.astype(np.float64)
    else:
        numbers = np.full(len(column), np.nan)
        for row in np.flatnonzero(~is_missing(column)):
            try:
                numbers[row] = float(column[row])
            except (TypeError, ValueError):
                raise ValueError(f"{what} `{name}` should hold numbers. Found {column[row]!r}.") from None
    if np.isinf(numbers).any():
        raise ValueError(f"{what} `{name}` should be finite. Found an infinite value.")
    return numbers
