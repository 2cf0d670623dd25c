"""Rows as Markdown."""

from collections.abc import Sequence

from torchsims.reporting._columns import Column, Row, arrange

__all__ = ["markdown"]


def markdown(rows: Sequence[Row], columns: Sequence[Column] = ()) -> str:
    """Return rows as a Markdown table.

    Args:
        rows: one mapping from column to value a row.
        columns: how to show some of them; the others are shown as they are.

    Example:
        >>> print(markdown([{"method": "EW", "var": 57.16}, {"method": "SIMS", "var": 0.0}]))
        | method | var |
        | --- | --- |
        | EW | 57.16 |
        | SIMS | 0 |
        >>> print(markdown([{"method": "EW", "miou": 0.5, "sd": 0.25}], [Column("miou", higher=True, spread="sd")]))
        | method | miou ↑ |
        | --- | --- |
        | EW | 0.5000 ± 0.2500 |
    """
    shown = arrange(rows, columns)
    cells = zip(*(column.cells(rows) for column in shown), strict=True)
    lines = [[column.header for column in shown], ["---"] * len(shown), *cells]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
