"""Columns of a table as inputs of a network: fitted to the training rows, then the same for every row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MARKS = ("nan", "NaT", "<NA>")  # missing values of data frames as text
FARTHEST = 1e15  # standard deviations; farther away, the layers of a network overflow
RARE = 2  # a category with fewer training rows shares the code of unknown categories, so that this code is trained
MANY = 1000  # categories, beyond which a column is hashed
BUCKETS = 1024  # codes of a hashed column
MONTHS, WEEKDAYS = 13, 8  # codes, with one for a missing date


@final
@dataclass(frozen=True, eq=False)
class Features:
    r"""The columns that predictions are computed from.

    Numbers are standardised, :math:`(x - \text{mean}) / \text{sd}`, 0 where missing, with one more column that
    marks the missing ones if there are any in the training rows. Categories get the codes 1, 2, ... in the order of
    their names; 0 is for a category that is missing, or that has fewer than two training rows. A column with more than
    1000 such categories is hashed to 1024 codes. A date is a number, its day, and two categories, month and weekday.
    The attributes can be stored as JSON: ``Features(**asdict(features))`` is the same.

    Attributes:
        numbers: mean, standard deviation and whether values are missing, by the name of the column.
        categories: known categories, by the name of the column; none of a hashed one.
        dates: mean and standard deviation of the day, and whether values are missing, by the name of the column.

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
    categories: Mapping[str, Sequence[str] | None]
    dates: Mapping[str, tuple[float, float, bool]] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Mapping[str, NDArray[Any]], names: Sequence[str]) -> "Features":
        """Fit the columns ``names`` of the training rows."""
        numbers, categories, dates = {}, {}, {}
        for name in names:
            column = table[name]
            if column.dtype.kind == "M":
                dates[name] = standard(days_of(column))
            elif column.dtype != object:
                numbers[name] = standard(as_numbers(name, column))
                if not np.isfinite(numbers[name][:2]).all():
                    raise ValueError(f"Feature `{name}` should have a finite spread. Found {np.nanmax(abs(column)):g}.")
            else:
                found, counts = np.unique(column[~is_missing(column)].astype(str), return_counts=True)
                known = found[counts >= RARE].tolist()
                categories[name] = known if len(known) <= MANY else None
        return cls(numbers, categories, dates)

    @property
    def width(self) -> int:
        """Number of numeric inputs per row."""
        scaled = [*self.numbers.values(), *self.dates.values()]
        return len(scaled) + sum(some for _, _, some in scaled)

    @property
    def codes(self) -> tuple[int, ...]:
        """Number of codes of each categorical column; a date has two."""
        categories = [(BUCKETS if known is None else len(known)) + 1 for known in self.categories.values()]
        return (*categories, *(MONTHS, WEEKDAYS) * len(self.dates))

    def encode(self, table: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return numbers, `row x width`, and codes, `row x categorical column`."""
        for name in (*self.numbers, *self.categories, *self.dates):
            if name not in table:
                raise ValueError(f"A table should have the column `{name}`, as that of the training had. Found none.")
        rows = len(next(iter(table.values())))
        numbers: list[NDArray[Any]] = []
        for name, moments in self.numbers.items():
            numbers += _scaled(name, as_numbers(name, table[name]), moments)
        codes = []
        for name, known in self.categories.items():
            codes.append(hashed(table[name]) if known is None else codes_of(table[name], known))
            if known and not codes[-1].any():
                _check_zeros(name, table[name], known)
        for name, moments in self.dates.items():
            days = as_days(name, table[name])
            numbers += _scaled(name, days_of(days), moments)
            codes += _calendar(days)
        return (
            np.stack(numbers, 1, dtype=np.float32) if numbers else np.zeros((rows, 0), np.float32),
            np.stack(codes, 1) if codes else np.zeros((rows, 0), np.int64),
        )


def _check_zeros(name: str, column: NDArray[Any], known: Sequence[str]) -> None:
    """Raise if no category is known, and some would be without leading zeros: a reader took them for numbers."""
    values = sorted({str(text) for text in as_texts(column) if text is not None})
    plain = {text.lstrip("0"): text for text in known}
    if found := [text for text in values if text.lstrip("0") in plain]:
        raise ValueError(
            f"Column `{name}` should hold categories as the training rows have them, such as "
            f"{plain[found[0].lstrip('0')]!r}. Found {found[0]!r}: read the column as text."
        )


def _scaled(name: str, column: Floats, moments: tuple[float, float, bool]) -> list[NDArray[Any]]:
    """Return a column in standard units, 0 where missing, and where it is missing if some training rows were."""
    mean, sd, some = moments
    missing = np.isnan(column)
    with np.errstate(over="ignore"):
        scaled = (column - mean) / sd
    if (far := np.flatnonzero(np.abs(scaled) > FARTHEST)).size:
        row = far[0]
        raise ValueError(
            f"Feature `{name}` should be within {FARTHEST:g} standard deviations of the training rows. "
            f"Found {column[row]} in row {row + 1}."
        )
    scaled[missing] = 0.0
    return [scaled, missing] if some else [scaled]


def _calendar(days: NDArray[np.datetime64]) -> list[NDArray[np.int64]]:
    """Return the codes of month and weekday, 0 where a date is missing."""
    known = ~np.isnat(days)
    month = days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    weekday = (days.astype(np.int64) + 3) % 7 + 1  # 1970-01-01 was a Thursday
    return [np.where(known, month, 0), np.where(known, weekday, 0)]


def days_of(column: NDArray[Any]) -> Floats:
    """Return dates as days since 1970, NaN where missing."""
    return np.where(np.isnat(column), np.nan, column.astype("datetime64[D]").astype(np.float64))


def as_days(name: str, column: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return a column as days; raise for one that holds no dates."""
    if column.dtype.kind != "M":
        try:
            column = np.array(
                [None if missing else value for missing, value in zip(is_missing(column), column, strict=True)],
                "datetime64[D]",
            )
        except (TypeError, ValueError):
            raise ValueError(f"Feature `{name}` should hold dates. Found {column[0]!r} in the first row.") from None
    return column.astype("datetime64[D]")


def hashed(column: NDArray[Any]) -> NDArray[np.int64]:
    """Return codes from 1 to 1024 that depend on the text alone; 0 where a value is missing."""
    missing = is_missing(column)
    codes = np.zeros(len(column), np.int64)
    codes[~missing] = [1 + crc32(text.encode()) % BUCKETS for text in as_texts(column[~missing]).tolist()]
    return codes


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a column has no value: NaN, or among objects ``None`` and the marks of data frames.

    Example:
        >>> is_missing(np.array(["a", None, np.nan], dtype=object)).tolist()
        [False, True, True]
    """
    if column.dtype != object:
        check = {"M": np.isnat, "f": np.isnan}.get(column.dtype.kind)
        return np.zeros(len(column), bool) if check is None else np.asarray(check(column), bool)
    return np.array([value is None or str(value) in MARKS for value in column], dtype=bool)


def standard(column: NDArray[Any]) -> tuple[float, float, bool]:
    """Return mean and standard deviation, 1 where there is no spread, and whether some are missing."""
    missing = np.isnan(column)
    known = (column[~missing] if missing.any() else column).astype(np.float64, copy=False)
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
    values = as_texts(values).astype(str) if known.dtype.kind == "U" else values.astype(known.dtype)
    place = np.searchsorted(known, values).clip(max=len(known) - 1)
    codes[~missing] = np.where(known[place] == values, place + 1, 0)
    return codes


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as objects: texts, ``None`` where missing; whole numbers have no decimal point."""
    missing = is_missing(values)
    known = values[~missing]
    if known.dtype.kind == "f" and (known == np.round(known)).all():
        known = known.astype(np.int64)
    texts = np.full(len(values), None, dtype=object)
    texts[~missing] = known.astype(str)
    return texts


def as_numbers(name: str, column: NDArray[Any], what: str = "Feature") -> Floats:
    """Return a column in float64, NaN where it has no value; raise for text and for infinite values."""
    if column.dtype != object:
        numbers = column.astype(np.float64)  # a copy, even of numbers: a column of an array is far apart in memory
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
