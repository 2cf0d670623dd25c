"""What a closure may return, and how it is converted to one tensor of totals and one of counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["LossValues", "Reading", "TaskLosses", "read"]

LossValues: TypeAlias = Mapping[str, Tensor] | Sequence[Tensor] | Tensor
"""Losses by name, in order, or stacked."""

CountValues: TypeAlias = Mapping[str, Tensor | float] | Sequence[Tensor | float] | Tensor

_NDIM, _REQUIRES_GRAD = attrgetter("ndim"), attrgetter("requires_grad")

_MAPPINGS = (dict, Mapping)  # the first is quick to recognise
_EXACT = (torch.float32, torch.float64)  # sums of losses in these are exact enough


@dataclass(frozen=True, eq=False)
class TaskLosses:
    r"""Losses as sums and the number of labels behind each sum, so that any split of a batch gives the same step.

    .. math::
        L_i = \frac{\sum \text{total}_i}{\sum \text{count}_i} \quad \text{over ranks and micro-batches}

    A task with ``count`` zero in the whole batch has no loss: it gets weight zero and does not disturb the others.

    Args:
        total: the sum of the loss over the labelled elements (pixels, samples, ...), a scalar per task.
        count: how many elements that were, by the same names or in the same order.

    Example:
        >>> prediction = torch.zeros(3, requires_grad=True)
        >>> target = torch.tensor([1.0, float("nan"), 3.0])  # the second label is missing
        >>> known = ~target.isnan()
        >>> error = (prediction - target.nan_to_num()).abs()[known]
        >>> losses = TaskLosses(total={"price": error.sum()}, count={"price": known.sum()})
        >>> losses.mean()["price"].item()
        2.0
    """

    total: LossValues
    count: CountValues

    def __post_init__(self) -> None:
        for name, values in (("total", self.total), ("count", self.count)):
            if not isinstance(values, Tensor | Mapping | Sequence):
                raise TypeError(
                    f"Parameter `{name}` should be a mapping, a sequence or a tensor. Found {type(values).__name__}."
                )
            if isinstance(values, Tensor) and values.ndim != 1:
                raise ValueError(f"Parameter `{name}` should have one dimension. Found shape {tuple(values.shape)}.")
        if isinstance(self.total, Mapping) != isinstance(self.count, Mapping):
            raise ValueError("Parameters `total` and `count` should both be mappings or both be sequences.")
        both = "Parameters `total` and `count` should"
        if isinstance(self.total, Mapping) and set(self.total) != set(self.count):
            raise ValueError(f"{both} name the same tasks. Found {sorted(self.total)} and {sorted(self.count)}.")
        if len(self.total) != len(self.count):
            raise ValueError(f"{both} have the same length. Found {len(self.total)} and {len(self.count)}.")

    def mean(self) -> dict[str, Tensor]:
        """Return the loss of every task of this batch alone, by name; NaN where a task has no label."""
        reading = read(self)
        return dict(zip(reading.names, (reading.total / reading.count).unbind(), strict=True))


@dataclass(eq=False)
class Reading:
    """What one call of a closure returned, in canonical form.

    Attributes:
        names: the tasks, sorted or in a given order; ``"0"``, ``"1"``, ... in order if the closure returned a sequence.
        named: whether the closure named its tasks.
        total: the totals, `m`, in single precision at least.
        counted: the counts, `m`; none if every loss is a scalar without a count, which then is one.
        constant: the tasks whose total depends on no parameter.
        parts: every task's total with a graph of its own; the one tensor, for each, if the closure returned one.
        aux: what the closure returned beside the losses.
    """

    names: tuple[str, ...]
    named: bool
    total: Tensor
    counted: Tensor | None
    constant: tuple[str, ...]
    parts: tuple[Tensor, ...]
    aux: Any = None

    @property
    def scalars(self) -> bool:
        """Whether every loss is a scalar without a count."""
        return self.counted is None

    @cached_property
    def count(self) -> Tensor:
        """The counts, `m`."""
        return torch.ones_like(self.total, requires_grad=False) if self.counted is None else self.counted

    def loss(self, task: int) -> Tensor:
        """Return one task's total with a graph of its own.

        Not the entry of the stacked totals: zero times an infinite slope of another task is NaN.
        """
        part = self.parts[task]
        return (part[task] if part.ndim else part).to(self.total.dtype)


def read(output: Any, tasks: Sequence[str] = ()) -> Reading:
    """Return in canonical form what a closure returned: losses, or a pair of losses and anything else.

    Args:
        output: what it returned.
        tasks: the order of named tasks, if they are these; their names are sorted otherwise.
    """
    aux = None
    if isinstance(output, tuple) and len(output) == 2 and _holds_losses(output[0]):
        if all(isinstance(part, Tensor) and part.numel() == 1 for part in output):
            raise ValueError(
                "A pair of one-element tensors could be two losses, or one loss and something else. "
                f"Return two scalars or a mapping. Found shapes {[tuple(part.shape) for part in output]}."
            )
        output, aux = output
    scalars = not isinstance(output, TaskLosses)
    totals: Any = output if scalars else output.total
    named = isinstance(totals, _MAPPINGS)
    names = tuple(tasks) if tasks and named and totals.keys() == set(tasks) else _names(totals)
    parts = _scalars(names, totals, named)
    total = totals if isinstance(totals, Tensor) else torch.stack(parts)
    # A promoted dtype: sums of half-precision losses over many ranks and micro-batches would lose digits.
    if total.dtype not in _EXACT:
        total = total.to(torch.promote_types(total.dtype, torch.float32))
    return Reading(
        names=names,
        named=named,
        total=total,
        counted=None if scalars else _counts(names, output.count, total),
        constant=_constant(names, parts),
        parts=tuple(parts),
        aux=aux,
    )


def _holds_losses(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 1
    return isinstance(value, TaskLosses | Mapping | Sequence)


def _names(totals: Any) -> tuple[str, ...]:
    if isinstance(totals, Tensor) and totals.ndim != 1:
        raise ValueError(f"A tensor of losses should have one dimension. Found shape {tuple(totals.shape)}.")
    if not isinstance(totals, Tensor | Mapping | Sequence) or isinstance(totals, str):
        raise TypeError(
            "The closure should return a mapping, a sequence or a tensor of losses, or `TaskLosses`. "
            f"Found {type(totals).__name__}."
        )
    if len(totals) == 0:
        raise ValueError("The closure should return at least one loss. Found none.")
    if isinstance(totals, Mapping):
        for name in totals:
            if not isinstance(name, str):
                raise TypeError(f"The name of a task should be a string. Found {name!r}.")
        return tuple(sorted(totals))
    return tuple(str(i) for i in range(len(totals)))


def _scalars(names: tuple[str, ...], values: Any, named: bool) -> list[Tensor]:
    """Return one scalar tensor per task, in the order of ``names``."""
    if isinstance(values, Tensor):
        return [values] * len(names)
    parts = list(map(values.__getitem__, names) if named else values)
    if {*map(type, parts)} == {Tensor} and not any(map(_NDIM, parts)):
        return parts
    return [_scalar(name, part) for name, part in zip(names, parts, strict=True)]


def _scalar(name: str, part: Tensor) -> Tensor:
    if not isinstance(part, Tensor):
        raise TypeError(f"The loss of task `{name}` should be a tensor. Found {type(part).__name__}.")
    if part.ndim:
        if part.numel() != 1:
            raise ValueError(f"The loss of task `{name}` should be a scalar. Found shape {tuple(part.shape)}.")
        part = part.reshape(())
    return part


def _constant(names: tuple[str, ...], parts: Sequence[Tensor]) -> tuple[str, ...]:
    """Return the tasks whose total depends on no parameter."""
    if all(map(_REQUIRES_GRAD, parts)):
        return ()
    return tuple(name for name, part in zip(names, parts, strict=True) if not part.requires_grad)


def _counts(names: tuple[str, ...], counts: Any, total: Tensor) -> Tensor:
    if isinstance(counts, Tensor):
        return counts.detach().to(total)
    ordered = [counts[name] for name in names] if isinstance(counts, Mapping) else list(counts)
    if any(isinstance(count, Tensor) for count in ordered):
        return torch.stack([_count(*pair, total) for pair in zip(names, ordered, strict=True)])
    return torch.tensor(ordered, dtype=total.dtype, device=total.device)


def _count(name: str, count: Tensor | float, total: Tensor) -> Tensor:
    count = torch.as_tensor(count).detach()
    if count.numel() != 1:
        raise ValueError(f"The count of task `{name}` should be one number. Found shape {tuple(count.shape)}.")
    return count.to(total).reshape(())
