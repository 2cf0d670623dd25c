"""What predictions can be, and what they should be: ranges of outputs and targets, and missing labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, final

from torch import Tensor

from torchsims.diagnosis._result import OutputRange

__all__ = ["Outputs", "merge", "read_outputs"]

RANGES: dict[str, tuple[str, float, float]] = {
    "Sigmoid": ("sigmoid", 0.0, 1.0),
    "Hardsigmoid": ("hardsigmoid", 0.0, 1.0),
    "Softmax": ("softmax", 0.0, 1.0),
    "Tanh": ("tanh", -1.0, 1.0),
    "Sin": ("sin", -1.0, 1.0),
    "Cos": ("cos", -1.0, 1.0),
    "Relu": ("relu", 0.0, inf),
    "Softplus": ("softplus", 0.0, inf),
    "Exp": ("exp", 0.0, inf),
    "Abs": ("abs", 0.0, inf),
    "LogSigmoid": ("logsigmoid", -inf, 0.0),
    "LogSoftmax": ("log_softmax", -inf, 0.0),
}
"""Name of an operation and its range, by the name of its node in an autograd graph."""

KEEPS = {
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Permute", "Transpose", "T", "AsStrided"),
    *("Slice", "Select", "Index", "IndexSelect", "Split", "SplitWithSizes", "Unbind", "Expand", "Clone", "ToCopy"),
    *("UpsampleNearest2D", "UpsampleBilinear2D", "AvgPool2D"),
}
"""Operations whose results lie in the range of what they are given."""


@final
@dataclass(frozen=True)
class Outputs:
    """Predictions and targets of one task in a part of a batch, as numbers that can be summed up.

    Attributes:
        places: how many labels there would be if none was missing: one per sample, pixel, ...
        elements: how many numbers the targets are.
        range: the ranges; None where predictions and targets are not compared number by number.
        known: how many targets are finite.
    """

    places: int
    elements: int
    range: OutputRange | None
    known: int


def read_outputs(aux: Any, tasks: Sequence[str]) -> dict[str, Outputs]:
    """Return the outputs of the tasks for which ``aux`` holds a pair of tensors, a prediction and a target."""
    if not isinstance(aux, Mapping):
        return {}
    pairs = {task: aux[task] for task in tasks if task in aux}
    return {
        task: _read(*pair)
        for task, pair in pairs.items()
        if isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, Tensor) for part in pair)
    }


def merge(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of several parts of a batch, ranks and batches as one."""
    ranges = [part.range for part in parts if part.range is not None]
    known = sum(part.known for part in parts)
    return Outputs(
        sum(part.places for part in parts),
        sum(part.elements for part in parts),
        OutputRange(
            min(each.low for each in ranges),
            max(each.high for each in ranges),
            min(each.target_low for each in ranges),
            max(each.target_high for each in ranges),
            ranges[0].operation if len({each.operation for each in ranges}) == 1 else "",
            min(each.lower for each in ranges),
            max(each.upper for each in ranges),
            sum(part.range.outside * part.known for part in parts if part.range is not None) / known,
        )
        if ranges
        else None,
        known,
    )


def _read(prediction: Tensor, target: Tensor) -> Outputs:
    channels = prediction.shape[1] if prediction.ndim > 1 else 1
    places = prediction.numel() // max(channels, 1)
    comparable = target.is_floating_point() and prediction.is_floating_point() and target.numel() == prediction.numel()
    values, wanted = prediction.detach(), target.detach()
    known = wanted[wanted.isfinite()] if comparable else wanted[:0]
    if not known.numel() or not values.isfinite().any():
        return Outputs(places, target.numel(), None, 0)
    values = values[values.isfinite()]
    operation, lower, upper = _last_operation(prediction)
    outside = ((known < lower) | (known > upper)).double().mean().item()
    low, high, first, last = (end.item() for part in (values, known) for end in (part.min(), part.max()))
    found = OutputRange(low, high, first, last, operation, lower, upper, outside)
    return Outputs(places, target.numel(), found, known.numel())


def _last_operation(prediction: Tensor) -> tuple[str, float, float]:
    """Return the last operation that changes the values of a tensor, if its range is known, and the range."""
    node: Any = prediction.grad_fn
    while node is not None:
        name = node.name().partition("Backward")[0]
        if name in RANGES:
            return RANGES[name]
        if name not in KEEPS:
            break
        node = node.next_functions[0][0]
    return "", -inf, inf
