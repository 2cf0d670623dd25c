"""The losses of the global batch, reduced over micro-batches and ranks before any nonlinear function is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, final

import torch
from torch import Tensor

from torchsims.normalizers import Normalizer
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._passes import Tasks

__all__ = ["GlobalBatch", "Sums", "check_bounds", "check_counts", "check_losses", "reduce_losses", "to_host"]


class Sums(Protocol):
    """What one copy's pass over a batch leaves: the totals and the counts of the tasks on this rank, `m`."""

    total: Tensor
    count: Tensor


@final
@dataclass(frozen=True, eq=False)
class GlobalBatch:
    """The losses of the global batch at one copy.

    Attributes:
        losses: the losses, `m`; 1 where no element has a label.
        count: the number of labels, `m`.
        labelled: whether there is a label, `m`.
        adjusted: the losses above their lower bounds in units of the normalizer, which the method sees, `m`.
        unit: the normalizer's divisors, `m`.
    """

    losses: Tensor
    count: Tensor
    labelled: Tensor
    adjusted: Tensor
    unit: Tensor | float

    def per_total(self, coefficients: Tensor) -> Tensor:
        """Turn coefficients of the adjusted losses into coefficients of the totals."""
        return (coefficients / self.unit / self.count).where(self.labelled, 0)


def reduce_losses(
    passes: Sequence[Sums],
    ranks: Ranks,
    tasks: Tasks,
    lower_bounds: Mapping[str, float],
    normalizer: Normalizer | None,
    unit: Tensor | float | None = None,
) -> list[GlobalBatch]:
    """Return the losses of the whole batch for each pass; the first one sets the unit for all, if it is not given."""
    sums = torch.stack([part for each in passes for part in (each.total, each.count)])  # (2 * passes, task)
    sums = ranks.sum(sums)
    labelled = (sums[1::2] > 0).all(0)
    bounds = tasks.tensor(lower_bounds, 0.0, sums, "lower_bounds") if lower_bounds else 0.0
    results: list[GlobalBatch] = []
    for total, count in zip(sums[0::2], sums[1::2], strict=True):
        losses = (total / count).where(labelled, 1)
        above = (losses - bounds).where(labelled, 1) if lower_bounds else losses
        if unit is None:
            unit = 1.0 if normalizer is None else normalizer(above, labelled)
        results.append(GlobalBatch(losses, count, labelled, above / unit, unit))
    return results


def to_host(*tensors: Tensor) -> list[list[float]]:
    """Return the values of all tensors, fetched at once: the only moment of a step that waits for the device."""
    flat = [tensor.detach().reshape(-1) for tensor in tensors]
    numbers = iter(torch.cat(flat).tolist())  # in their common type: not every device has double precision
    return [[next(numbers) for _ in range(tensor.numel())] for tensor in flat]


def check_bounds(lower_bounds: Mapping[str, float]) -> None:
    """Raise if a bound is NaN or infinite."""
    for task, bound in lower_bounds.items():
        if not isfinite(bound):
            raise ValueError(f"Parameter `lower_bounds` should be finite. Found {bound} for task `{task}`.")


def check_counts(tasks: Tasks, counts: Sequence[float]) -> None:
    """Raise if a count is NaN, infinite or negative: it would pass for a task without labels."""
    for name, count in zip(tasks.names, counts, strict=True):
        if not (isfinite(count) and count >= 0):
            raise ValueError(f"The count of task `{name}` should be finite and not negative. Found {count}.")


def check_losses(
    tasks: Tasks,
    losses: Sequence[float],
    labelled: Sequence[float],
    lower_bounds: Mapping[str, float],
    positive: bool,
    where: str,
    first: Sequence[float] = (),
) -> None:
    """Raise if a loss is not finite, or not above its bound where it must be.

    Args:
        tasks: the tasks.
        losses: their losses.
        labelled: whether they have labels.
        lower_bounds: the bounds of those that have one.
        positive: whether losses must lie above their bounds, or above zero where there is none.
        where: the copy, for the message.
        first: the first losses above their bounds, if a share of them is a floor; losses may then be at their bounds.
    """
    for name, loss, known, floor in zip(tasks.names, losses, labelled, first or [0.0] * len(losses), strict=True):
        if not known:
            continue
        if not isfinite(loss):
            raise ValueError(f"The loss of task `{name}` should be finite. Found {loss} at {where}.")
        bound = lower_bounds.get(name, 0.0)
        if positive and not (loss > bound or (loss == bound and floor > 0)):
            hint = "" if loss > 0 or name in lower_bounds else "; if it can be lower, say so with `lower_bounds`"
            raise ValueError(f"The loss of task `{name}` should be above {bound:g}{hint}. Found {loss} at {where}.")
