"""How a column of numbers is shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias, TypeGuard

__all__ = ["Column", "Row", "arrange", "columns"]

Row: TypeAlias = Mapping[str, object]

DIGITS = 4  # of the typical number of a column that has a direction or a spread
SMALL = 0.1  # below, one digit less
MOST = 8  # decimals
LARGEST = 1e7  # from here on, a number is written with an exponent
NOTHING = "\N{EN DASH}"  # for a number that is none


@dataclass(frozen=True)
class Column:
    """A column of a table: what a reader is told beside its numbers.

    Attributes:
        name: the name of the column in the rows.
        higher: whether higher is better; neither is if it is None, and then no number of the column is the best.
        spread: the name of the column with the standard deviations, shown behind the means instead of beside them.

    Example:
        >>> rows = [{"seg miou": 0.71234, "seg miou sd": 0.0123}, {"seg miou": float("nan"), "seg miou sd": None}]
        >>> column = Column("seg miou", higher=True, spread="seg miou sd")
        >>> column.header, column.cells(rows), column.best(rows)
        ('seg miou ↑', ['0.7123 ± 0.0123', '–'], {0})
    """

    name: str
    higher: bool | None = None
    spread: str | None = None

    @property
    def header(self) -> str:
        """The name, and an arrow towards better numbers."""
        return self.name if self.higher is None else f"{self.name} {'↑' if self.higher else '↓'}"

    def cells(self, rows: Sequence[Row]) -> list[str]:
        """Return one text a row, all with the same number of decimals."""
        if self.higher is None and self.spread is None:
            return [cell(row.get(self.name)) for row in rows]
        decimals = self._decimals(rows)
        return [self._cell(row, decimals) for row in rows]

    def best(self, rows: Sequence[Row]) -> set[int]:
        """Return which rows are the best: those with the best text, so that what looks the same is marked the same."""
        values = {i: v for i, row in enumerate(rows) if _is_number(v := row.get(self.name))}
        if self.higher is None or len(rows) < 2 or not values:
            return set()
        best = (max if self.higher else min)(values.values())
        decimals = self._decimals(rows)
        return {i for i, value in values.items() if _number(value, decimals) == _number(best, decimals)}

    def _decimals(self, rows: Sequence[Row]) -> int:
        """Return the decimals of the means, but no more than the spreads are worth: a mean of rounding errors is 0."""
        means = _decimals([row.get(self.name) for row in rows])
        spreads = [row.get(self.spread) for row in rows] if self.spread is not None else []
        return min(means, _decimals(spreads)) if any(map(_is_number, spreads)) else means

    def _cell(self, row: Row, decimals: int) -> str:
        value = row.get(self.name)
        spread = None if self.spread is None else row.get(self.spread)
        text = _number(value, decimals)
        return f"{text} ± {_number(spread, decimals)}" if _is_number(value) and _is_number(spread) else text


def columns(rows: Sequence[Row]) -> list[str]:
    """Return the names of all columns, in the order in which they appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def arrange(rows: Sequence[Row], known: Sequence[Column] = ()) -> list[Column]:
    """Return the columns of a table in their order: those that are known, and plain ones for all other names.

    Example:
        >>> rows = [{"method": "EW", "miou": 0.7, "miou sd": 0.1}]
        >>> [column.header for column in arrange(rows, [Column("miou", higher=True, spread="miou sd")])]
        ['method', 'miou ↑']
    """
    names = columns(rows)
    by_name = {column.name: column for column in known}
    hidden = {by_name[name].spread for name in names if name in by_name}
    return [by_name.get(name, Column(name)) for name in names if name not in hidden]


def cell(value: object) -> str:
    """Return a value as a reader wants it: six digits, lists in brackets, nothing for nothing.

    Example:
        >>> cell(57.16123456), cell([0.1, 2]), cell(None), cell(True)
        ('57.1612', '(0.1, 2)', '', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(cell(entry) for entry in value) + ")"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {cell(entry)}" for key, entry in value.items())
    return str(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _decimals(values: Sequence[object]) -> int:
    """Return how many decimals give the typical number four digits, three below 0.1; one that exploded has no say."""
    sizes = [abs(value) for value in values if _is_number(value) and value != 0]
    if not sizes:
        return DIGITS
    typical = median(sizes)
    return min(max(DIGITS - 1 - (typical < SMALL) - math.floor(math.log10(typical)), 0), MOST)


def _number(value: object, decimals: int) -> str:
    if value is None:
        return ""
    if not _is_number(value):
        return NOTHING
    if abs(value) < 0.5 * 10**-decimals:
        value = 0.0  # not minus zero
    return f"{value:.{decimals}f}" if abs(value) < LARGEST else f"{value:.{DIGITS - 1}e}"
