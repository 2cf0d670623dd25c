"""Rows as tables."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["Row", "cell", "columns", "markdown"]

Row: TypeAlias = Mapping[str, object]


def columns(rows: Sequence[Row]) -> list[str]:
    """Return the names of all columns, in the order in which they appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


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
    return str(value)


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table.

    Example:
        >>> print(markdown([{"method": "EW", "var": 57.16}, {"method": "SIMS", "var": 0.0}]))
        | method | var |
        | --- | --- |
        | EW | 57.16 |
        | SIMS | 0 |
    """
    names = columns(rows)
    lines = [names, ["---"] * len(names), *([cell(row.get(name)) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
