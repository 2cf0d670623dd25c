"""Networks whose objective has a term that belongs to no task."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["Regularized", "find_regularizer"]


class Regularized(nn.Module, ABC):
    r"""A network that adds a term :math:`R(\theta)` to its objective, whatever the tasks are and how they are balanced.

    The commands add the term. In a loop of one's own, give :func:`find_regularizer` of the model to the method.

    Example:
        >>> from functools import partial
        >>> from torch.optim import SGD
        >>> from torchsims import SIMS
        >>> from torchsims.models import Regularized, find_regularizer
        >>> class Shrunk(Regularized):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = nn.Parameter(torch.tensor(2.0))
        ...     def regularizer(self):
        ...         return 0.5 * self.scale.square()
        ...     def forward(self, x):
        ...         return self.scale * x
        >>> model, rates = Shrunk(), {"outer": partial(SGD, lr=0.1), "inner": partial(SGD, lr=0.2)}
        >>> method = SIMS(model, regularizer=find_regularizer(model), **rates)
        >>> method.step(lambda model, x: (model(x) - 1).square(), torch.tensor([3.0, 4.0])).regularizer
        2.0
    """

    @abstractmethod
    def regularizer(self) -> Tensor | None:
        r"""Return the scalar :math:`R(\theta)`, a function of the parameters alone, or None if there is no term."""


def find_regularizer(model: nn.Module) -> Callable[[nn.Module], Tensor] | None:
    """Return the sum of the terms of all :class:`Regularized` networks in a model, for the argument ``regularizer``.

    Returns:
        A function of the model, or None if it has no term.

    Example:
        >>> find_regularizer(nn.Linear(2, 2)) is None
        True
    """
    return _sum if _terms(model) else None


def _sum(model: nn.Module) -> Tensor:
    return torch.stack(_terms(model)).sum()


def _terms(model: nn.Module) -> list[Tensor]:
    terms = [module.regularizer() for module in model.modules() if isinstance(module, Regularized)]
    return [term for term in terms if term is not None]
