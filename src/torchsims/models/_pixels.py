"""What the losses of dense tasks share."""

import torch
from torch import Tensor

SumAndCount = tuple[Tensor, Tensor]


def single(prediction: Tensor) -> Tensor:
    """Return it in single precision at least: a sum over many pixels overflows half precision."""
    return prediction.to(torch.promote_types(prediction.dtype, torch.float32))


def same_shape(task: str, prediction: Tensor, target: Tensor) -> None:
    """Raise if the shapes differ."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"The prediction and the target of task `{task}` should have the same shape. "
            f"Found {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
