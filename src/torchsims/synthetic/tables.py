"""Tables of the synthetic experiments."""

from collections.abc import Sequence

import torch

__all__ = ["table_rows", "variance_over_scales"]


def table_rows(**columns: torch.Tensor | Sequence[object] | str) -> list[dict[str, object]]:
    """Return one row per entry of the columns; a text is the same in all rows.

    Example:
        >>> table_rows(method="EW", start=[(0, 0), (9, 9)], steps=torch.tensor([3, 5]))
        [{'method': 'EW', 'start': (0, 0), 'steps': 3}, {'method': 'EW', 'start': (9, 9), 'steps': 5}]
    """
    lists = {name: column.tolist() if isinstance(column, torch.Tensor) else column for name, column in columns.items()}
    length = max(len(column) for column in lists.values() if not isinstance(column, str))
    repeated = [[column] * length if isinstance(column, str) else column for column in lists.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*repeated, strict=True)]


def variance_over_scales(losses: torch.Tensor, scales: int) -> torch.Tensor:
    """Return the sample variance over the scalings, averaged over seeds, `... x m`.

    Args:
        losses: `... x runs x m`, the runs by seed, then by scaling.
        scales: number of scalings.

    Example:
        >>> variance_over_scales(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), 2)
        tensor([2., 0.])
    """
    return losses.reshape(*losses.shape[:-2], -1, scales, losses.shape[-1]).var(-2).mean(-2)
