"""Rows of values as tables: columns, cells, Markdown, and texts that any name can be part of."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias, TypeGuard

Row: TypeAlias = Mapping[str, object]
"""One row of a table: column name, then value."""

DIGITS = 4  # of the typical number of a column that has a direction or a spread
SMALL = 0.1  # typical numbers below this have one digit less
MOST_DECIMALS = 8
LARGEST = 1e7  # from here on, a number is written with an exponent
NAN = "\N{EN DASH}"
LONGEST_NAME = 120  # bytes of a file name, without its suffix


@dataclass(frozen=True)
class Column:
    """How a column of numbers is shown.

    Example:
        >>> rows = [{"seg miou": 0.71234, "seg miou sd": 0.0123}, {"seg miou": float("nan"), "seg miou sd": None}]
        >>> column = Column("seg miou", higher_is_better=True, spread="seg miou sd")
        >>> column.header, column.cells(rows), column.best(rows)
        ('seg miou ↑', ['0.7123 ± 0.0123', '–'], {0})
    """

    name: str
    higher_is_better: bool | None = None  # None: no direction, and no number is marked as the best
    spread: str | None = None  # column with the standard deviations, shown behind the means instead of by itself
    task: str | None = None  # that its numbers are of

    @property
    def header(self) -> str:
        """The name, and an arrow towards better numbers."""
        return self.name if self.higher_is_better is None else f"{self.name} {'↑' if self.higher_is_better else '↓'}"

    def cells(self, rows: Sequence[Row]) -> list[str]:
        """Return one text per row, all with the same number of decimals."""
        if self.higher_is_better is None and self.spread is None:
            return [format_value(row.get(self.name)) for row in rows]
        decimals = self._decimals(rows)
        return [self._cell(row, decimals) for row in rows]

    def best(self, rows: Sequence[Row]) -> set[int]:
        """Return the indices of the best rows: all whose text is that of the best number, so that equal texts match."""
        values = {i: v for i, row in enumerate(rows) if _is_number(v := row.get(self.name))}
        if self.higher_is_better is None or len(rows) < 2 or not values:
            return set()
        best = (max if self.higher_is_better else min)(values.values())
        decimals = self._decimals(rows)
        return {i for i, value in values.items() if _number(value, decimals) == _number(best, decimals)}

    def _decimals(self, rows: Sequence[Row]) -> int:
        """Return the decimals of the means, but no more than the spreads need: a mean of rounding errors is 0."""
        means = _decimals([row.get(self.name) for row in rows])
        spreads = [row.get(self.spread) for row in rows] if self.spread is not None else []
        return min(means, _decimals(spreads)) if any(map(_is_number, spreads)) else means

    def _cell(self, row: Row, decimals: int) -> str:
        value = row.get(self.name)
        spread = None if self.spread is None else row.get(self.spread)
        text = _number(value, decimals)
        return f"{text} ± {_number(spread, decimals)}" if _is_number(value) and _is_number(spread) else text


def arrange_columns(rows: Sequence[Row], known: Sequence[Column] = ()) -> list[Column]:
    """Return the columns of a table in the order of the rows; those that are not known have no direction."""
    names = dict.fromkeys(name for row in rows for name in row)
    by_name = {column.name: column for column in known}
    hidden = {by_name[name].spread for name in names if name in by_name}
    return [by_name.get(name, Column(name)) for name in names if name not in hidden]


def markdown(rows: Sequence[Row], columns: Sequence[Column] = ()) -> str:
    """Return rows as a Markdown table; no text in a cell can break it. Other columns are shown as they are.

    Example:
        >>> print(markdown([{"method": "EW", "miou": 0.5, "sd": 0.25}], [Column("miou", True, spread="sd")]))
        | method | miou ↑ |
        | --- | --- |
        | EW | 0.5000 ± 0.2500 |
    """
    shown = arrange_columns(rows, columns)
    cells = zip(*(column.cells(rows) for column in shown), strict=True)
    lines = [[column.header for column in shown], ["---"] * len(shown), *cells]
    return "\n".join(
        "| " + " | ".join(re.sub(r"[\\|<]", r"\\\g<0>", one_line(t)) for t in line) + " |" for line in lines
    )


def one_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def file_name(text: str) -> str:
    """Return a name for a file or folder that is valid everywhere, another one for every text.

    Example:
        >>> file_name("depth"), file_name("mg/dL"), file_name("..")
        ('depth', 'mg%2fdL', '%2e%2e')
    """
    name = re.sub(r"^\.|[^\w.,+=@()\[\]#&!'~ -]|[. ]$", lambda match: f"%{ord(match[0]):02x}", text) or "%"
    if len(name.encode()) > LONGEST_NAME:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
        return name.encode()[: LONGEST_NAME - 17].decode(errors="ignore") + "-" + digest
    return name


def format_value(value: object) -> str:
    """Return a value as a text: numbers with six digits, a dash for NaN, lists in parentheses, an empty text for None.

    Example:
        >>> format_value(57.16123456), format_value([0.1, math.nan]), format_value(None), format_value(True)
        ('57.1612', '(0.1, –)', '', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return NAN if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(format_value(entry) for entry in value) + ")"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(entry)}" for key, entry in value.items())
    return str(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _decimals(values: Sequence[object]) -> int:
    """Return how many decimals give the median four digits, or three below 0.1; a number that exploded has no say."""
    sizes = [abs(value) for value in values if _is_number(value) and value != 0]
    if not sizes:
        return DIGITS
    typical = median(sizes)
    return min(max(DIGITS - 1 - (typical < SMALL) - math.floor(math.log10(typical)), 0), MOST_DECIMALS)


def _number(value: object, decimals: int) -> str:
    if value is None:
        return ""
    if not _is_number(value):
        return NAN
    if abs(value) < 0.5 * 10**-decimals:
        value = 0.0  # not minus zero
    return f"{value:.{decimals}f}" if abs(value) < LARGEST else f"{value:.{DIGITS - 1}e}"
