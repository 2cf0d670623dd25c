"""A term of the objective that belongs to no task: its value and gradient at one copy of the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias, final

import torch
from torch import Tensor, nn

from torchsims.steppers._copies import Buffers
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._gradients import all_finite
from torchsims.steppers._transaction import running_closure

__all__ = ["Regularizer", "Term", "check_callable", "check_terms", "differentiate", "tensors_of"]

Regularizer: TypeAlias = Callable[[nn.Module], Tensor]
"""A function of the parameters of a model alone, which returns a scalar."""


@final
@dataclass(frozen=True, eq=False)
class Term:
    """The regularizer at one copy.

    Attributes:
        value: its value.
        gradients: its gradients by the trainable parameters; none by those that it does not depend on.
        finite: whether value and gradients are finite, on all ranks.
    """

    value: Tensor
    gradients: Sequence[Tensor | None]
    finite: Tensor

    @torch.no_grad()
    def add_to(self, parameters: Sequence[nn.Parameter], ranks: Ranks) -> None:
        """Add the gradients to those of the tasks, which are reduced and unscaled already."""
        for p, gradient in zip(parameters, self.gradients, strict=True):
            if gradient is None:
                continue
            part = ranks.shard_like(gradient, p)
            if p.grad is None:
                p.grad = torch.empty_like(p).copy_(part)  # in the order of `p`; autograd may return one tensor twice
            elif p.grad.is_sparse:
                p.grad = p.grad.to_dense().add_(part)
            else:
                p.grad.add_(part)


def check_callable(regularizer: Regularizer | None) -> None:
    """Raise if the option does not hold a function."""
    if regularizer is not None and not callable(regularizer):
        raise TypeError(
            "Parameter `regularizer` should be a function of the model that returns a scalar. "
            f"Found `{type(regularizer).__name__}`, which cannot be called."
        )


def differentiate(regularizer: Regularizer, module: nn.Module, buffers: Buffers, ranks: Ranks) -> Term:
    """Return the regularizer at the values that a module holds; the same on every rank.

    Args:
        regularizer: the regularizer.
        module: the module, in its wrapper if it has one.
        buffers: its buffers, which stay as they are.
        ranks: the ranks, none of which goes on if the regularizer raises on one.
    """
    restore = buffers.snapshot()
    trained = _dtypes(module)
    try:
        ranks.unshard()
        with ranks.raise_on_all():
            if _dtypes(module) != trained:
                raise ValueError(
                    "A regularizer should see the parameters in the precision in which they are trained. "
                    "Found a model sharded with a policy that casts them."
                )
            parameters = _trainable(module)
            value = _call(regularizer, ranks.unwrapped(module), parameters)
            gradients = torch.autograd.grad(value, parameters, allow_unused=True)
            _check_gradients(gradients)
    finally:
        ranks.reshard()
    restore()
    value = value.detach().reshape(())
    numbers = [ranks.local(gradient) for gradient in (value, *gradients) if gradient is not None]
    return Term(value.to(ranks.device), gradients, all_finite(numbers, ranks))


def tensors_of(*terms: Term | None) -> list[Tensor]:
    """Return what :func:`check_terms` needs to see of the terms."""
    return [tensor for term in terms if term is not None for tensor in (term.value, term.finite)]


def check_terms(numbers: Sequence[Sequence[float]], *where: str) -> float | None:
    """Raise if the value or the gradient of a term is not finite; return the value of the first term, if there is one.

    Args:
        numbers: the numbers of :func:`tensors_of`.
        where: the copies.
    """
    if not numbers:
        return None
    values = [value for (value,) in numbers]
    for value, finite, copy in zip(values[0::2], values[1::2], where, strict=False):
        if not finite:
            found = f"a gradient that is not, at a value of {value}" if isfinite(value) else str(value)
            raise ValueError(f"The regularizer and its gradient should be finite. Found {found}, at {copy}.")
    return values[0]


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def _dtypes(module: nn.Module) -> list[torch.dtype]:
    return [p.dtype for p in _trainable(module)]


def _call(regularizer: Regularizer, model: nn.Module, parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return the value; raise if the regularizer back-propagates, which would add to the gradients of the tasks."""
    gradients = [p.grad for p in parameters]
    try:
        for p in parameters:
            p.grad = None  # one that is there would be added to in place
        with running_closure(parameters):
            value = regularizer(model)
    finally:
        for p, gradient in zip(parameters, gradients, strict=True):
            p.grad = gradient
    _check(value)
    return value


def _check_gradients(gradients: Sequence[Tensor | None]) -> None:
    if all(gradient is None for gradient in gradients):
        raise ValueError(
            "The regularizer should be computed with the model it is given. "
            "Found no gradient in any of its parameters, as if it were that of another model."
        )


def _check(value: object) -> None:
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"`{type(value).__name__}`"
        raise ValueError(f"The regularizer should return a scalar tensor. Found {found}.")
    if not value.requires_grad:
        raise ValueError(
            "The regularizer should depend on the trainable parameters of the model it is given. "
            f"Found a value of {value.item()} that does not require a gradient."
        )
