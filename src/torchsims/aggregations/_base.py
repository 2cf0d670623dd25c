"""The base classes of gradient-level methods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, final

import torch
from torch import Tensor

from torchsims._statistics import WithStatistics
from torchsims.spaces import Space
from torchsims.transforms import Identity, Transform


class Aggregation(WithStatistics, ABC):
    r"""A method that turns the gradients of the tasks by the shared parameters into one direction of descent.

    It is an ordinary module: ``method(jacobian)`` is the direction for any matrix with one row per task, and what it
    keeps between steps is in its ``state_dict``. :class:`~torchsims.Aggregated` adds what a loop has to get right.

    To write a method that only looks at inner products, subclass :class:`WeightedAggregation`; else define
    :meth:`combine`. Neither sees the tasks without labels, except in ``labelled``, for what they keep per task.

    Args:
        tasks: the names of the tasks, for methods with a parameter per task; fixes the order of the rows.
    """

    needs: ClassVar[Literal["gramian", "gradients"]] = "gradients"
    """What the method looks at: the inner products of the gradients, or the gradients themselves."""

    positive: bool = False
    """Whether the losses must be above zero."""

    transform: ClassVar[Transform] = Identity()
    """The function of the losses whose gradients the method is made for."""

    search_space: ClassVar[Mapping[str, Space]] = {}
    """What is worth trying for its options."""

    def __init__(self, tasks: Sequence[str] | None = None) -> None:
        super().__init__()
        if tasks is not None and (isinstance(tasks, str) or len(tasks) == 0 or len(set(tasks)) != len(tasks)):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {tasks!r}`.")
        self.tasks = None if tasks is None else tuple(tasks)

    @property
    def name(self) -> str:
        """What errors call the method."""
        return type(self).__name__

    @torch.no_grad()
    def forward(self, jacobian: Tensor, losses: Tensor | None = None, labelled: Tensor | None = None) -> Tensor:
        """Return the direction, `n`, and, in training mode, update what the method keeps.

        Args:
            jacobian: the gradients of the tasks, `m x n`, real or complex.
            losses: the losses, `m`, for methods that look at them; ones by default.
            labelled: the tasks that count, `m`; all by default. The rows of others are ignored, whatever they hold.
        """
        if jacobian.ndim != 2:
            raise ValueError(f"Parameter `jacobian` should have two dimensions. Found shape {tuple(jacobian.shape)}.")
        if jacobian.is_complex():  # gradients by the real and by the imaginary parts
            real = self.forward(torch.view_as_real(jacobian.resolve_conj()).flatten(1), losses, labelled)
            return torch.view_as_complex(real.view(-1, 2))
        losses = torch.ones_like(jacobian[:, 0]) if losses is None else losses.detach()
        labelled = torch.ones_like(losses, dtype=torch.bool) if labelled is None else labelled
        with torch.autocast(jacobian.device.type, enabled=False):
            direction, _ = self.combine(jacobian.detach()[labelled], losses[labelled], labelled)
        return direction

    @abstractmethod
    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the direction, `n`, and the weights of the rows in it, `k`; NaN where it is not a sum of rows.

        Args:
            jacobian: the gradients of the tasks with labels, `k x n`.
            losses: their losses, `k`.
            labelled: which of all tasks they are, `m`.
        """


class WeightedAggregation(Aggregation):
    r"""A method whose direction is :math:`\sum_i w_i g_i`, with weights from the Gramian :math:`G_{ij} = g_i^\top g_j`.

    To write one, define :meth:`weights`.
    """

    needs: ClassVar[Literal["gramian", "gradients"]] = "gramian"

    @abstractmethod
    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the weights, `k`.

        Args:
            gramian: the inner products of the gradients of the tasks with labels, `k x k`.
            losses: their losses, `k`.
            labelled: which of all tasks they are, `m`.
        """

    @final
    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.weights(jacobian @ jacobian.T, losses, labelled)
        return weights @ jacobian, weights
