"""Tables of the synthetic experiments."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from torchsims.synthetic.methods import METHODS
from torchsims.synthetic.outcomes import Outcome


def table_rows(**columns: Tensor | Sequence[object] | str) -> list[dict[str, object]]:
    """Return one row per entry of the columns; a text is the same in all rows.

    Example:
        >>> import torch
        >>> table_rows(method="EW", start=[(0, 0), (9, 9)], steps=torch.tensor([3, 5]))
        [{'method': 'EW', 'start': (0, 0), 'steps': 3}, {'method': 'EW', 'start': (9, 9), 'steps': 5}]
    """
    lists = {name: column.tolist() if isinstance(column, Tensor) else column for name, column in columns.items()}
    length = max(len(column) for column in lists.values() if not isinstance(column, str))
    repeated = [[column] * length if isinstance(column, str) else column for column in lists.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*repeated, strict=True)]


def variance_over_scales(losses: Tensor, scales: int) -> Tensor:
    """Return the sample variance over the scalings, averaged over seeds, of `... x runs x m`: by seed, then by scaling.

    Example:
        >>> import torch
        >>> variance_over_scales(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), 2)
        tensor([2., 0.])
    """
    return losses.reshape(*losses.shape[:-2], -1, scales, losses.shape[-1]).var(-2).mean(-2)


def trajectory_rows(outcomes: Mapping[str, Outcome], scale: Tensor, starts: Tensor) -> list[dict[str, object]]:
    """Return one row per method and run."""
    return [
        row
        for name, outcome in outcomes.items()
        for row in table_rows(
            method=METHODS[name].label,
            passes=METHODS[name].passes.replace(" ", ""),
            scale=scale,
            start=starts,
            end=outcome.losses,
            steps=outcome.steps,
            distance=outcome.distance,
            reached=outcome.reached,
        )
    ]


def trajectory_summary(outcomes: Mapping[str, Outcome]) -> list[dict[str, object]]:
    """Return one row per method: how many runs reach the front, and how far apart two scalings of a run end."""
    found = outcomes.values()
    return table_rows(
        method=[METHODS[name].label for name in outcomes],
        passes=[METHODS[name].passes.replace(" ", "") for name in outcomes],
        reached=[int(outcome.reached.sum()) for outcome in found],
        of=[len(outcome.reached) for outcome in found],
        gap_between_scalings=[float(outcome.losses.reshape(2, -1).diff(dim=0).abs().amax()) for outcome in found],
    )


def phase_rows(cells: Tensor, outcome: Outcome) -> list[dict[str, object]]:
    """Return one row per cell, `cells x (augment, tau, ratio)`; the runs are ordered by cell, then by scaling."""
    reached = outcome.reached.reshape(len(cells), -1)
    most_steps = outcome.steps.reshape(len(cells), -1).where(reached, -1).amax(1).tolist()
    return table_rows(
        augment=cells[:, 0],
        tau=cells[:, 1],
        ratio=cells[:, 2],
        reached=reached.sum(1),
        of=[reached.shape[1]] * len(cells),
        most_steps=[steps if steps >= 0 else None for steps in most_steps],
        gap_between_scalings=outcome.losses.reshape(len(cells), 2, -1).diff(dim=1).abs().amax((1, 2)),
    )
