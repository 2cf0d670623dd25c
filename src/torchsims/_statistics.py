"""Modules whose statistics take their shape from the first losses they see."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn


class WithStatistics(nn.Module):
    """A module that keeps statistics of losses as buffers, and closes epochs.

    A new value replaces the tensor that held the old one and never overwrites it, so references to the buffers are a
    snapshot of the state. Statistics change in training mode only; NaN marks the tasks that had no label yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    def end_epoch(self) -> None:
        """Close an epoch, in training and in evaluation mode; for methods that use epoch means."""

    def _register_statistics(self, *names: str) -> None:
        """Register statistics that are empty until the first step gives them a shape."""
        for name in names:
            self.register_buffer(name, torch.empty(0))

    def _get_statistic(self, name: str, losses: Tensor, start: float = torch.nan) -> Tensor:
        """Return a statistic in the dtype and on the device of ``losses``; before the first step ``start``."""
        statistic: Tensor = getattr(self, name)
        if statistic.numel() == 0:
            return torch.full_like(losses, start)
        if statistic.shape != losses.shape:
            raise ValueError(
                "The losses should have the same shape in every step. "
                f"Found shape {tuple(losses.shape)} after {tuple(statistic.shape)}."
            )
        return statistic.to(losses)

    def _set_statistic(self, name: str, value: Tensor) -> None:
        """Replace a statistic; an assignment does the same and takes longer, as a module has to find out what it is."""
        self.register_buffer(name, value)

    def _start_at_first_loss(self, name: str, losses: Tensor, labelled: Tensor | None) -> Tensor:
        """Return a statistic that starts, for every task, at the first loss it has; all have one by default."""
        statistic = self._get_statistic(name, losses)
        looks = labelled is None and statistic.is_cpu and not torch.compiler.is_compiling()
        if looks and torch.equal(statistic, statistic):  # no NaN: all have started
            return statistic
        starts = statistic.isnan() if labelled is None else labelled & statistic.isnan()
        return losses.detach().where(starts, statistic)


def _make_room(module: nn.Module, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give every buffer the shape of its saved value before it is loaded.

    It is a new tensor, even of the same shape: loading must not overwrite what a snapshot refers to.
    """
    for name, buffer in list(module.named_buffers(recurse=False)):
        if isinstance(saved := state_dict.get(prefix + name), Tensor):
            setattr(module, name, torch.empty_like(saved, device=buffer.device))


@final
class EpochMean(WithStatistics):
    """The mean loss of every task over the steps of an epoch in which it had a label.

    Example:
        >>> mean = EpochMean()
        >>> mean.add(torch.tensor([1.0, 5.0, 7.0]), torch.tensor([True, True, False]))
        >>> mean.add(torch.tensor([3.0, 9.0, 7.0]), torch.tensor([True, False, False]))
        >>> mean.close()
        tensor([2., 5., nan])
    """

    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._register_statistics("total", "count")
        self.closed = 0  # a number and not a buffer: reading it in a step waits for no device

    def add(self, losses: Tensor, labelled: Tensor) -> None:
        """Add the losses of a step."""
        self.total = self._get_statistic("total", losses, 0.0) + losses.detach().where(labelled, 0)
        self.count = self._get_statistic("count", losses, 0.0) + labelled

    def close(self) -> Tensor:
        """Return the means of the epoch, NaN for tasks without a label in it, and start the next one."""
        mean = self.total / self.count
        self.total, self.count = torch.zeros_like(self.total), torch.zeros_like(self.count)
        self.closed += 1
        return mean

    def get_extra_state(self) -> int:
        return self.closed

    def set_extra_state(self, state: int) -> None:
        self.closed = state


@final
class FirstLosses(WithStatistics):
    """The first loss of every task, kept from its first label on.

    Example:
        >>> first = FirstLosses()
        >>> first(torch.tensor([2.0, 5.0]), torch.tensor([True, False]))
        tensor([2., 1.])
        >>> first(torch.tensor([3.0, 7.0]), torch.tensor([True, True]))
        tensor([2., 7.])
    """

    first: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._register_statistics("first")

    def forward(self, losses: Tensor, labelled: Tensor | None) -> Tensor:
        """Return the first losses, `... x m`; 1 for the tasks without a label in this step, none by default."""
        first = self._start_at_first_loss("first", losses, labelled)
        if self.training:
            self.first = first
        return first if labelled is None else first.where(labelled, 1)
