"""The losses of the global batch, reduced over micro-batches and ranks before any nonlinear function is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from math import isfinite
from operator import attrgetter
from typing import Protocol, final

import torch
from torch import Tensor

from torchsims.normalizers import Normalizer
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._passes import Tasks

__all__ = ["GlobalBatch", "Sums", "check_bounds", "check_counts", "check_losses", "reduce_losses", "to_host"]

_IS_CPU = attrgetter("is_cpu")


class Sums(Protocol):
    """What one copy's pass over a batch leaves: the totals and the counts of the tasks on this rank, `m`.

    Without counts, every total is the loss of a task with a label.
    """

    total: Tensor

    @property
    def count(self) -> Tensor | None: ...


@final
@dataclass(eq=False)
class GlobalBatch:
    """The losses of the global batch at one copy.

    Attributes:
        losses: the losses, `m`; 1 where no element has a label.
        counted: the number of labels, `m`; none if every total is a loss.
        mask: whether there is a label, `m`; none if all tasks are known to have one.
        adjusted: the losses above their lower bounds in units of the normalizer, which the method sees, `m`.
        unit: the normalizer's divisors, `m`, or 1.
    """

    losses: Tensor
    counted: Tensor | None
    mask: Tensor | None
    adjusted: Tensor
    unit: Tensor | float

    @property
    def count(self) -> Tensor:
        """The number of labels, `m`."""
        return torch.ones_like(self.losses) if self.counted is None else self.counted

    @property
    def labelled(self) -> Tensor:
        """Whether there is a label, `m`."""
        return torch.ones_like(self.losses, dtype=torch.bool) if self.mask is None else self.mask

    def per_loss(self, coefficients: Tensor) -> Tensor:
        """Turn coefficients of the adjusted losses into coefficients of the losses."""
        if isinstance(self.unit, Tensor):
            coefficients = coefficients / self.unit
        return coefficients if self.mask is None else coefficients.where(self.mask, 0)

    def per_total(self, coefficients: Tensor) -> Tensor:
        """Turn coefficients of the adjusted losses into coefficients of the totals."""
        if isinstance(self.unit, Tensor):
            coefficients = coefficients / self.unit
        if self.counted is not None:
            coefficients = coefficients / self.counted
        return coefficients if self.mask is None else coefficients.where(self.mask, 0)


def reduce_losses(
    passes: Sequence[Sums],
    ranks: Ranks,
    tasks: Tasks,
    lower_bounds: Mapping[str, float],
    normalizer: Normalizer | None,
    unit: Tensor | float | None = None,
) -> list[GlobalBatch]:
    """Return the losses of the whole batch for each pass; the first one sets the unit for all, if it is not given."""
    plain = ranks.size == 1 and normalizer is None and not lower_bounds and unit is None
    if plain and all(each.count is None for each in passes):  # then every total is what a method sees
        return [GlobalBatch(each.total, None, None, each.total, 1.0) for each in passes]
    totals, counts, mask = _sums(passes, ranks)
    bounds = tasks.tensor(lower_bounds, 0.0, totals[0], "lower_bounds") if lower_bounds else None
    results: list[GlobalBatch] = []
    for total, count in zip(totals, counts, strict=True):
        losses = total if count is None else _known(total / count, mask)
        above = losses if bounds is None else _known(losses - bounds, mask)
        if unit is None:
            unit = 1.0 if normalizer is None else normalizer(above, mask)
        adjusted = above / unit if isinstance(unit, Tensor) else above
        results.append(GlobalBatch(losses, count, mask, adjusted, unit))
    return results


def _sums(passes: Sequence[Sums], ranks: Ranks) -> tuple[Sequence[Tensor], Sequence[Tensor | None], Tensor | None]:
    """Return totals and counts over all ranks, for each pass, and which tasks have labels."""
    if ranks.size == 1 and all(each.count is None for each in passes):
        return [each.total for each in passes], [None] * len(passes), None
    parts = [(each.total, torch.ones_like(each.total) if each.count is None else each.count) for each in passes]
    sums = ranks.sum(torch.stack([part for pair in parts for part in pair]))  # (2 * passes, task)
    rows = sums.unbind()
    return rows[0::2], rows[1::2], (sums[1::2] > 0).all(0)


def _known(losses: Tensor, mask: Tensor | None) -> Tensor:
    """Return the losses, 1 where no element has a label."""
    return losses if mask is None else losses.where(mask, 1)


def to_host(*tensors: Tensor | None) -> list[list[float]]:
    """Return the values of scalars and vectors, fetched at once: the only moment of a step that waits for a device."""
    present = [each for each in tensors if each is not None]
    if all(map(_IS_CPU, present)):  # no device to wait for
        return [[] if each is None else each.tolist() if each.ndim else [each.item()] for each in tensors]
    # In their common type: not every device has double precision.
    numbers = iter(torch.hstack(present).tolist())
    values = map(list, map(islice, repeat(numbers), map(Tensor.numel, present)))
    return [[] if each is None else next(values) for each in tensors]


def check_bounds(lower_bounds: Mapping[str, float]) -> None:
    """Raise if a bound is NaN or infinite."""
    for task, bound in lower_bounds.items():
        if not isfinite(bound):
            raise ValueError(f"Parameter `lower_bounds` should be finite. Found {bound} for task `{task}`.")


def check_counts(tasks: Tasks, counts: Sequence[float]) -> None:
    """Raise if a count, if there are any, is NaN, infinite or negative: it would pass for a task without labels."""
    for name, count in zip(tasks.names, counts, strict=True) if counts else ():
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
    if all(map(isfinite, losses)) and (not positive or (not lower_bounds and min(losses) > 0)):
        return
    for name, loss, known, floor in zip(tasks.names, losses, labelled, first or [0.0] * len(losses), strict=True):
        if not known:
            continue
        if not isfinite(loss):
            raise ValueError(f"The loss of task `{name}` should be finite. Found {loss} at {where}.")
        bound = lower_bounds.get(name, 0.0)
        if positive and not (loss > bound or (loss == bound and floor > 0)):
            hint = "" if loss > 0 or name in lower_bounds else "; if it can be lower, say so with `lower_bounds`"
            if first and loss == bound:
                hint = " in its first step, for the floor is a share of its first loss"
            raise ValueError(f"The loss of task `{name}` should be above {bound:g}{hint}. Found {loss} at {where}.")
