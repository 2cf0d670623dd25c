"""The base class of loss-level methods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import product
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from torchsims._statistics import FirstLosses, WithStatistics
from torchsims.scalarizations._preference import Preference, Preferences
from torchsims.spaces import Space

Losses: TypeAlias = Mapping[str, Tensor] | Sequence[Tensor] | Tensor
"""Losses by name, in order, or stacked."""


class Scalarization(WithStatistics, ABC):
    r"""A method that turns the losses of the tasks into one objective :math:`S(L)`.

    It is an ordinary module: ``method(losses).backward()`` works in any loop, and its running statistics are in its
    ``state_dict``. :class:`~torchsims.Scalarized` adds what a loop has to get right (accumulation, ranks, labels).

    To write a method, define :meth:`objective` and, if it keeps statistics, register them with
    :meth:`_register_statistics`. In evaluation mode a method returns what the next training step would return, and
    changes nothing.

    Args:
        tasks: the names of the tasks, for methods with a parameter per task; fixes the order of the losses.
    """

    linear: ClassVar[bool] = False
    """Whether :math:`\\partial S / \\partial L` does not depend on the losses of the same step."""

    positive: bool = False
    """Whether the losses must be above zero."""

    observes: ClassVar[bool] = False
    """Whether :meth:`observe` needs the losses of the same batch after the step (one more forward pass)."""

    short_name: ClassVar[str | None] = None
    """Name on the command line, if it is not the one of the class."""

    options_by_task: ClassVar[str | None] = None
    """Argument that takes a number per task, on the command line ``name:task=number``; 1 for tasks without one."""

    search_space: ClassVar[Mapping[str, Space]] = {}
    """What is worth trying for its options; for :attr:`options_by_task`, for the number of every task."""

    def __init__(self, tasks: Sequence[str] | None = None) -> None:
        super().__init__()
        if tasks is not None and (isinstance(tasks, str) or len(tasks) == 0 or len(set(tasks)) != len(tasks)):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {tasks!r}`.")
        self.tasks = None if tasks is None else tuple(tasks)
        self.first_losses: FirstLosses | None = None  # of methods with a floor, under which losses may be zero
        self.preference: Preference | None = None  # of methods that take one

    def forward(self, losses: Losses, labelled: Tensor | None = None, *, check: bool | None = None) -> Tensor:
        """Return the objective and, in training mode, update the running statistics.

        Args:
            losses: the losses by name, in order, or stacked over the last dimension, `... x m`. The order of stacked
                losses is that of ``tasks`` where the method has names, and any fixed order elsewhere.
            labelled: the tasks that count, `... x m`, in the same order (names sorted where the method has none); all
                by default. Entries of unlabelled tasks are ignored, whatever they hold.
            check: whether to raise if a loss is not above zero where it must be; by default on a processor only,
                because elsewhere this waits for the losses. Compiled code is never checked.
        """
        stacked, known = self._read(losses, labelled)
        wanted = stacked.device.type == "cpu" if check is None else check
        if wanted and self.positive and not torch.compiler.is_compiling():
            self._check_positive(losses, stacked)
        return self.objective(stacked, known)

    @abstractmethod
    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return :math:`S(L)`, `...`, as if the unlabelled tasks, whose entries are positive, did not exist."""

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor] | None:
        r"""Return :math:`S(L)`, `...`, and :math:`\partial S / \partial L`, `... x m`, or nothing if autograd should.

        A method without parameters may define it, so that a step of :class:`~torchsims.Scalarized` builds no second
        graph. It does all that :meth:`objective` does, statistics included, and differs from it by rounding only.

        Args:
            losses: the losses, `... x m`, without a graph; 1 for unlabelled tasks.
            labelled: the tasks that count, `... x m`; all of them by default.
        """
        return None

    def observe(self, losses: Losses, labelled: Tensor | None = None) -> None:
        """Learn from the losses of the same batch after the step; only needed where :attr:`observes`."""

    def name_tasks(self, names: Sequence[str]) -> None:
        """Say which tasks there are, in the order of the losses, before losses without names; a stepper does so."""
        if self.preference is not None and self.preference.tasks != names:
            self.preference.name_tasks(names)

    def _prefer(self, preference: Preferences | None) -> None:
        """Keep a preference; without ``tasks``, the first losses show which tasks there are."""
        self.preference = None if preference is None else Preference(preference)
        if self.tasks is not None:
            self.name_tasks(self.tasks)

    def _read(self, losses: Losses, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the losses and the labels, `... x m`, with ones in place of the losses of unlabelled tasks."""
        stacked = self._stacked(losses)
        # A promoted dtype: statistics in half precision would stop counting at a few hundred steps.
        stacked = stacked.to(torch.promote_types(stacked.dtype, torch.float32))
        if labelled is None:
            return stacked, torch.ones_like(stacked, dtype=torch.bool)
        return stacked.where(labelled, 1), labelled.expand_as(stacked)

    def _stacked(self, losses: Losses) -> Tensor:
        if isinstance(losses, Mapping):
            if self.tasks is not None and set(losses) != set(self.tasks):
                raise ValueError(f"The losses should be those of {sorted(self.tasks)}. Found {sorted(losses)}.")
            names = self.tasks or tuple(sorted(losses))
            self.name_tasks(names)
            losses = [losses[name] for name in names]
        stacked = losses if isinstance(losses, Tensor) else torch.stack(list(losses), -1)
        if self.tasks is not None and stacked.shape[-1] != len(self.tasks):
            raise ValueError(f"The losses should be those of {sorted(self.tasks)}. Found {stacked.shape[-1]} losses.")
        return stacked

    def _check_positive(self, losses: Losses, stacked: Tensor) -> None:
        fine = (stacked > 0) & stacked.isfinite()
        floor = None if self.first_losses is None else self.first_losses.first
        if floor is not None and floor.shape == stacked.shape:  # known since the first step
            fine |= (stacked == 0) & (floor > 0)
        if bool(fine.all()):
            return
        index = next(index for index in product(*map(range, stacked.shape)) if not fine[index])
        names = self.tasks or (sorted(losses) if isinstance(losses, Mapping) else range(stacked.shape[-1]))
        raise ValueError(
            f"The loss of task `{names[index[-1]]}` should be above 0 for `{type(self).__name__}`, and finite. "
            f"Found {stacked[index].item()}: a task without labels is left out with `labelled`."
        )


class HeldWeights(Scalarization):
    r"""A method whose objective is :math:`S = \sum_i w_i L_i`, with weights that are held constant.

    To write one, define :meth:`held_weights`.
    """

    @abstractmethod
    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the weights, `... x m`, zero for unlabelled tasks, from losses without a graph."""

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        return (self.held_weights(losses.detach(), labelled) * losses).sum(-1)

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        w = self.held_weights(losses, torch.ones_like(losses, dtype=torch.bool) if labelled is None else labelled)
        return (w * losses).sum(-1), w
