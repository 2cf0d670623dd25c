"""What every loss-level method is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from torchsims._statistics import WithStatistics

__all__ = ["Scalarization"]


class Scalarization(WithStatistics, ABC):
    r"""A method that turns the losses of the tasks into one objective :math:`S(L)`.

    It is an ordinary module: ``method(losses).backward()`` works in any loop, and its running statistics are in its
    ``state_dict``. :class:`~torchsims.Scalarized` adds what a loop has to get right (accumulation, ranks, labels).

    To write a method, define :meth:`objective` and, if it keeps statistics, register them with
    :meth:`_remember`.

    Args:
        tasks: the names of the tasks, for methods with a parameter per task; fixes the order of the losses.
    """

    linear: ClassVar[bool] = False
    """Whether :math:`\\partial S / \\partial L` does not depend on the losses of the same step."""

    positive: ClassVar[bool] = False
    """Whether the losses must be above zero."""

    observes: ClassVar[bool] = False
    """Whether :meth:`observe` wants the losses of the same batch after the step (one more forward pass)."""

    def __init__(self, tasks: Sequence[str] | None = None) -> None:
        super().__init__()
        if tasks is not None and (len(tasks) == 0 or len(set(tasks)) != len(tasks)):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {list(tasks)}`.")
        self.tasks = None if tasks is None else tuple(tasks)

    def forward(
        self, losses: Mapping[str, Tensor] | Sequence[Tensor] | Tensor, labelled: Tensor | None = None
    ) -> Tensor:
        """Return the objective and, in training mode, update the running statistics.

        Args:
            losses: the losses by name, in order, or stacked over the last dimension, `... x m`.
            labelled: the tasks that count, `... x m`; all by default. Entries of unlabelled tasks are ignored; they
                should be positive and finite.
        """
        stacked = self._stacked(losses)
        if labelled is None:
            labelled = torch.ones_like(stacked, dtype=torch.bool)
        return self.objective(stacked, labelled)

    @abstractmethod
    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return :math:`S(L)`, `...`, as if the unlabelled tasks did not exist."""

    def observe(self, losses: Tensor, labelled: Tensor) -> None:
        """Look at the losses of the same batch after the step; only called where :attr:`observes`."""

    def _stacked(self, losses: Mapping[str, Tensor] | Sequence[Tensor] | Tensor) -> Tensor:
        if isinstance(losses, Tensor):
            return losses
        if isinstance(losses, Mapping):
            losses = [losses[name] for name in (self.tasks or sorted(losses))]
        return torch.stack(list(losses), -1)
