"""The base class of all metrics of a task."""

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from torchmetrics import Metric


class TaskMetric(Metric):
    """Metrics of one task over all pixels or rows of a data set, however they are split into batches and ranks.

    The state is sums and counts (all scores for :class:`AUC`), and ``compute`` joins those of all ranks: several
    processes compute what one process computes. Without a single label every metric is NaN. Shares are fractions of 1.

    To write a metric, register its sums with :meth:`_sums`, add to them in :meth:`update`, divide in :meth:`compute`,
    and say in ``higher_is_better`` for every value whether higher is better.
    """

    full_state_update = False
    higher_is_better: Mapping[str, bool]  # type: ignore[assignment]  # torchmetrics has one value per metric
    """Whether higher is better, by the name of the value, as :func:`torchsims.metrics.delta_b` takes it."""

    def _sums(self, *names: str, size: tuple[int, ...] = (), dtype: torch.dtype = torch.float64) -> None:
        for name in names:
            self.add_state(name, torch.zeros(size, dtype=dtype), dist_reduce_fx="sum")

    @abstractmethod
    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add the pixels or rows of one batch."""

    @abstractmethod
    def compute(self) -> dict[str, Tensor]:
        """Return every metric by name, over all batches and ranks."""


def raise_if_shapes_differ(prediction: Tensor, target: Tensor) -> None:
    """Raise an error for tensors that would broadcast."""
    if prediction.shape != target.shape:
        raise ValueError(
            "Parameters `prediction` and `target` should have the same shape. "
            f"Found {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
