r"""Running estimates of the size of every loss, by which the losses are divided before they are combined.

``losses / normalizer(losses)`` makes losses of different units comparable in any loop; every stepper takes a normalizer
as ``normalize=``. They are detached, so the divided losses have the gradients of the losses in new units. Methods that
use the logarithm of the losses, such as SIMS, do not need them.

Epoch means are taken over the steps in which a task had a label; a task without a label in an epoch keeps its estimate.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from torchsims._statistics import EpochMean, WithStatistics

__all__ = ["EMA", "EpochWise", "Fixed", "Normalizer"]


class Normalizer(WithStatistics, ABC):
    """A running estimate of the size of every loss.

    To write one, define :meth:`estimate` and register its statistics with :meth:`_register_statistics`.
    """

    def forward(self, losses: Tensor, labelled: Tensor | None = None) -> Tensor:
        """Return what to divide the losses by and, in training mode, update the running statistics.

        The divisors are positive and detached; 1 where nothing is known yet, or nothing above zero. All tensors are
        `... x m`; ``labelled`` are the tasks that count, all by default.
        """
        losses = losses.detach()
        # A promoted dtype: statistics in half precision would stop counting at a few hundred steps.
        losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
        if labelled is None:
            labelled = torch.ones_like(losses, dtype=torch.bool)
        estimate = self.estimate(losses.where(labelled, 1), labelled.expand_as(losses))
        return estimate.where(estimate > 0, 1)

    @abstractmethod
    def estimate(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the size of every loss, `... x m`; NaN where it is not known."""


class _EpochEstimate(Normalizer):
    """An estimate that changes between epochs only."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.epoch_mean = EpochMean()
        self._register_statistics("mean")

    def estimate(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.training:
            self.epoch_mean.add(losses, labelled)
        return self._get_statistic("mean", losses)


@final
class Fixed(_EpochEstimate):
    r"""The mean loss of one epoch, from its end on.

    Until that epoch ends (``epoch``, counted from 1; the paper uses the second) the divisors are 1. A task without a
    label in it is fixed at the end of the first later epoch that has one.

    Example:
        >>> normalizer = Fixed(epoch=1)
        >>> normalizer(torch.tensor([1.0, 100.0]))
        tensor([1., 1.])
        >>> normalizer.end_epoch()
        >>> normalizer(torch.tensor([3.0, 500.0]))
        tensor([  1., 100.])
    """

    def __init__(self, epoch: int = 2) -> None:
        super().__init__()
        if not epoch >= 1:
            raise ValueError(f"Parameter `epoch` should be at least 1. Found `epoch = {epoch}`.")
        self.epoch = epoch

    def end_epoch(self) -> None:
        epoch_mean = self.epoch_mean.close()
        if self.epoch_mean.closed >= self.epoch:
            mean = self._get_statistic("mean", epoch_mean)
            self.mean = epoch_mean.where(mean.isnan(), mean)


@final
class EpochWise(_EpochEstimate):
    r"""The mean loss of the last epoch; 1 in the first.

    Example:
        >>> normalizer = EpochWise()
        >>> normalizer(torch.tensor([1.0, 100.0]))
        tensor([1., 1.])
        >>> normalizer.end_epoch()
        >>> normalizer(torch.tensor([3.0, 500.0]))
        tensor([  1., 100.])
    """

    def end_epoch(self) -> None:
        mean = self.epoch_mean.close()
        self.mean = mean.where(~mean.isnan(), self._get_statistic("mean", mean))


@final
class EMA(Normalizer):
    r"""The exponential moving average of the loss over the steps, the current one included.

    .. math::
        E_i \leftarrow \beta E_i + (1 - \beta) L_i, \qquad E_i = L_i \text{ at the first label of task } i

    - :math:`\beta` (``decay``): in [0, 1).

    Example:
        >>> normalizer = EMA(decay=0.5)
        >>> normalizer(torch.tensor([1.0, 100.0]))
        tensor([  1., 100.])
        >>> normalizer(torch.tensor([3.0, 500.0]))
        tensor([  2., 300.])
    """

    average: Tensor

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"Parameter `decay` should be in [0, 1). Found `decay = {decay}`.")
        self.decay = decay
        self._register_statistics("average")

    def estimate(self, losses: Tensor, labelled: Tensor) -> Tensor:
        average = self._start_at_first_loss("average", losses, labelled)
        average = (average + (1 - self.decay) * (losses - average)).where(labelled, average)
        if self.training:
            self.average = average
        return average
